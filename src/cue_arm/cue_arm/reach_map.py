"""Which strokes the arm can play, looked up: cue ball's place x azimuth x speed, computed once for a robot and a table.

The map holds what the arm can do: for each place, direction and roll of the cue the fastest stroke, and how gently it
has to be played. What the cue itself needs behind the ball, past rails and balls, is looked at anew for each question.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cue_arm.capability import capability
from cue_arm.cue_alone import CueAlone
from cue_arm.errors import CollisionError
from cue_arm.reach import Reach
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import TipPath, check_aftermath
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.robot import RobotConfig

_VERSION = 3
_ROUNDED = {"length": 0.01, "width": 0.01, "rail_width": 0.01, "nose_height": 0.004, "ball_radius": 0.002}
"""Tables that are alike to so much [m] share a map; pockets count only where the cue is looked at."""
_SPEEDS = (0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)

MAP_FILE = "reach.npz"
"""A run's map; ``x`` (nx,), ``y`` (ny,) [m] and ``playable`` (nx, ny) in it are what the report shows."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Grid:
    """How fine the map is.

    Attributes:
        spacing: between places of the cue ball, at most [m].
        azimuths: number of directions.
        speeds: of the tip, for which it is known how gently a stroke must be played [m/s].
    """

    spacing: float = 0.08
    azimuths: int = 32
    speeds: tuple[float, ...] = _SPEEDS


class ReachMap:
    """Answers like :class:`cue_arm.reach.Reach`, from a table; see there."""

    def __init__(self, reach: Reach, grid: Grid, fastest: np.ndarray, shares: np.ndarray) -> None:
        """Take what :meth:`build` computed.

        Args:
            reach: the arm's own test, asked about raised cues.
            grid: of the map.
            fastest: (x, y, azimuths, rolls) tip speeds [m/s].
            shares: (x, y, azimuths, rolls, speeds) of the usual tip acceleration.
        """
        self.reach, self.grid = reach, grid
        self.fastest, self.shares = fastest, shares
        self.x, self.y = _axes(reach.table, fastest.shape[:2])
        self.azimuths = _azimuths(grid)
        self._cue = CueAlone(reach.robot, reach.table, reach.settings.clearance)
        self._speeds = np.array(grid.speeds)
        self._playable: np.ndarray | None = None

    @classmethod
    def build(cls, reach: Reach, grid: Grid | None = None, progress: Progress | None = None) -> ReachMap:
        """Compute the map: about 20 s for a small table on one core; ``progress`` is told the share done."""
        grid = grid or Grid()
        x, y = _axes(reach.table, _counts(reach.table, grid))
        azimuths, speeds, rolls = _azimuths(grid), np.array(grid.speeds), len(reach.search.rolls)
        fastest = np.zeros((len(x), len(y), len(azimuths), rolls), np.float32)
        shares = np.ones((*fastest.shape, len(speeds)), np.float16)
        for i, j in np.ndindex(len(x), len(y)):
            here = capability(reach, np.array([x[i], y[j]]), azimuths, speeds)
            fastest[i, j], shares[i, j] = here.fastest, here.shares
            if progress is not None:
                progress((i * len(y) + j + 1) / (len(x) * len(y)))
        return cls(reach, grid, fastest, shares)

    @classmethod
    def cached(
        cls,
        robot: RobotConfig,
        table: TableModel,
        settings: StrokeSettings | None = None,
        folder: Path | None = None,
        progress: Progress | None = None,
        beside: Path | str = "",
    ) -> ReachMap:
        """Return the map of a robot beside a table of about this size; one that is not there yet is built and kept.

        Args:
            robot: from ``config/robots``.
            table: the reconstructed one; it counts exactly for what the cue needs.
            settings: of the stroke.
            folder: of kept maps; None = ``cue/reach`` in the user's cache folder.
            progress: told the share done of a map that is built.
            beside: folder of a run that gets a copy, :data:`MAP_FILE`, for its report; empty = none.
        """
        reach = Reach(robot, table, settings)
        folder = folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cue" / "reach"
        path = folder / f"{map_key(robot, table, reach.settings)}.npz"
        try:
            made = cls.load(path, reach)
        except FileFormatError:
            made = cls.build(reach, progress=progress)
            made._keep(path)
        if str(beside):
            made._keep(Path(beside) / MAP_FILE)
        return made

    def _keep(self, path: Path) -> None:
        """Write the map where that works; a map that cannot be kept only costs time later."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.save(path)
        except (OSError, FileFormatError):
            return

    def save(self, path: Path) -> None:
        """Write the map.

        Raises:
            FileFormatError: it cannot be written.
        """
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            version=_VERSION,
            key=map_key(self.reach.robot, self.reach.table, self.reach.settings),
            grid=json.dumps(asdict(self.grid)),
            fastest=self.fastest,
            shares=self.shares,
            x=self.x,
            y=self.y,
            playable=self.share_playable() if self._playable is None else self._playable,
        )
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path, reach: Reach) -> ReachMap:
        """Read a map.

        Raises:
            FileFormatError: there is none, or it is damaged, or of another robot, table or settings.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                if int(data["version"]) != _VERSION:
                    raise FileFormatError(path, f"is of version {int(data['version'])}, needs {_VERSION}")
                if str(data["key"]) != map_key(reach.robot, reach.table, reach.settings):
                    raise FileFormatError(path, "is of another robot, table or settings")
                grid = Grid(**json.loads(str(data["grid"])))
                grid = replace(grid, speeds=tuple(grid.speeds))
                fastest, shares = data["fastest"], data["shares"]
                inner = grid.azimuths, len(reach.search.rolls)
                if fastest.shape[2:] != inner or shares.shape != (*fastest.shape, len(grid.speeds)):
                    raise FileFormatError(path, f"holds {fastest.shape} and {shares.shape}")
                made = cls(reach, grid, fastest, shares)
                made._playable = data["playable"]
        except FileNotFoundError:
            raise FileFormatError(path, "is not there") from None
        except (OSError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise FileFormatError(path, f"is no map of what an arm can reach: {error}") from None
        return made

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float = 0.5,
        balls: Mapping[int, np.ndarray] | None = None,
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """Tell whether a stroke can be played, and if not, why; a raised cue is asked of the arm itself.

        Args:
            cue_ball: (2,) position [m].
            azimuth: of the stroke [rad].
            speed: of the tip at contact [m/s].
            balls: (2,) positions by id of the other balls [m]; None = none is in the way.
            elevation: of the cue [rad].
        """
        if elevation > 0.0:
            return self.reach.reachable(cue_ball, azimuth, speed, balls, elevation)
        others = {i: np.asarray(p, float) for i, p in (balls or {}).items() if i != 0}
        self._cue.place_balls(others)
        return self._judge(np.asarray(cue_ball, float), azimuth, speed, others)

    def playable(
        self,
        cue_ball: np.ndarray,
        azimuths: np.ndarray,
        speeds: np.ndarray,
        balls: Mapping[int, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Tell of many level strokes at one cue ball (2,) [m], azimuths (n,) [rad], speeds (n,) [m/s], which can be."""
        others = {i: np.asarray(p, float) for i, p in (balls or {}).items() if i != 0}
        self._cue.place_balls(others)
        ball = np.asarray(cue_ball, float)
        return np.array(
            [self._judge(ball, float(a), float(v), others)[0] for a, v in zip(azimuths, speeds, strict=True)], bool
        )

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray] | None = None) -> Shot:
        """Return the shot as it can be played, level or with the cue raised; asks the arm itself, see ``Reach``."""
        return self.reach.raised(shot, cue_ball, balls)

    def share_playable(self, speeds: tuple[float, ...] = (0.4, 0.8)) -> np.ndarray:
        """Return (x, y) the share of directions and speeds [m/s] that can be played at each place on an empty table."""
        out = np.zeros((len(self.x), len(self.y)))
        for i, j in np.ndindex(out.shape):
            ball = np.array([self.x[i], self.y[j]])
            rows = [self.playable(ball, self.azimuths[::2], np.full(len(self.azimuths[::2]), v)) for v in speeds]
            out[i, j] = np.mean(rows)
        return out

    def _judge(
        self, ball: np.ndarray, azimuth: float, speed: float, others: Mapping[int, np.ndarray]
    ) -> tuple[bool, str]:
        reach = self.reach
        fastest, shares = self._at(ball, azimuth, speed)
        refused = ""
        for k, roll in enumerate(reach.search.rolls):
            if speed > fastest[k]:
                most = float(fastest.max())
                refused = refused or (f"the arm plays up to {most:.2f} m/s here" if most else "out of the arm's reach")
                continue
            shot = Shot("reach", speed, azimuth)
            share = min(float(shares[k]), 1.0)
            tip = reach.robot.cue.tip_radius
            path = TipPath.of(shot, ball, reach.table, tip, reach.settings, share, roll)
            try:
                check_aftermath(
                    shot, ball, [(f"ball {i}", p) for i, p in others.items()], reach.table, path, reach.settings
                )
            except CollisionError as error:
                if share == 1.0:
                    return False, str(error)
                refused = refused or str(error)
                continue
            touched = self._cue.touching(path)
            if not touched:
                return True, ""
            refused = refused or touched
        return False, refused

    def _at(self, ball: np.ndarray, azimuth: float, speed: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (rolls,) fastest tip speeds [m/s] and shares of acceleration, interpolated."""
        turn = (azimuth / (2 * np.pi)) % 1.0 * self.grid.azimuths
        i, u = _place(self.x, float(ball[0]))
        j, v = _place(self.y, float(ball[1]))
        s, w = _place(self._speeds, speed)
        a = int(turn) % self.grid.azimuths
        around = [a, (a + 1) % self.grid.azimuths]
        weights = np.array([1 - u, u])[:, None, None] * np.array([1 - v, v])[:, None] * _pair(turn - int(turn))
        block = np.ix_([i, i + 1], [j, j + 1], around)
        fastest = np.einsum("xya,xyar->r", weights, self.fastest[block])
        rows = self.shares[block][..., s : s + 2].astype(float) @ _pair(w)
        return fastest, np.einsum("xya,xyar->r", weights, rows)


def map_key(robot: RobotConfig, table: TableModel, settings: StrokeSettings) -> str:
    """Return a name for all that a map depends on."""
    lengths = {name: round(getattr(table, name) / step) for name, step in _ROUNDED.items()}
    content = [_VERSION, repr(_plain(asdict(robot))), asdict(settings), lengths]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _counts(table: TableModel, grid: Grid) -> tuple[int, int]:
    """Return how many places of the cue ball the map has along x and y."""
    ways = [length - 2 * table.ball_stop for length in (table.length, table.width)]
    x, y = (max(int(np.ceil(way / grid.spacing)), 1) + 1 for way in ways)
    return x, y


def _axes(table: TableModel, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the cue ball along x and y [m], cushion to cushion."""
    x, y = (
        np.linspace(-half, half, count)
        for half, count in zip(
            (table.length / 2 - table.ball_stop, table.width / 2 - table.ball_stop), counts, strict=True
        )
    )
    return x, y


def _azimuths(grid: Grid) -> np.ndarray:
    return np.arange(grid.azimuths) * (2 * np.pi / grid.azimuths)


def _pair(share: float) -> np.ndarray:
    return np.array([1.0 - share, share])


def _place(axis: np.ndarray, value: float) -> tuple[int, float]:
    """Return the interval that a value lies in and how far in it, 0..1; beyond the ends, the end."""
    index = int(np.clip(np.searchsorted(axis, value) - 1, 0, len(axis) - 2))
    share = (value - axis[index]) / (axis[index + 1] - axis[index])
    return index, float(np.clip(share, 0.0, 1.0))
