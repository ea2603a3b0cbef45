"""Recorded shots of a match, as an overhead camera saw them: the file format, and what a sample can be trusted with.

One JSON object a line, optionally gzipped:

    {"shotID": 545601, "balls": {"white": {"t": [s], "x": [m], "y": [m]}, "yellow": ..., "red": ...}}

Centres of balls; origin in a corner of the rectangle between the noses, x along the long side. A sample is kept only
where the ball moved about 15 mm since the last one kept. Positions outside the playable rectangle were projected onto
its border: such samples say where a ball was along the cushion at best.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.checks import only_keys
from cue_core.errors import FileFormatError
from cue_core.table import TableModel

MATCH_TABLE = TableModel(
    name="match",
    length=2.84,
    width=1.42,
    ball_radius=0.03075,
    ball_mass=0.210,
    nose_height=0.037,
    corner_mouth=0.0,
    side_mouth=0.0,
    corner_shelf=0.0,
    side_shelf=0.0,
    rail_width=0.125,
)
"""The table and balls of the recorded match, as its description gives them; the nose height is UMB's 37 mm."""

POSITION_NOISE = 0.9e-3
"""Standard deviation of a sample along an axis [m]; 0.7-0.9 mm were measured on resting balls."""

_PROJECTED = 1e-6  # [m]: a sample this close to the border of the playable rectangle was projected onto it
_FRAME_GAP = 0.045  # [s]: more than two frames of the 50 Hz camera
_BALLS = ("white", "yellow", "red")


@dataclass(frozen=True)
class BallPath:
    """What was seen of one ball in one shot.

    Attributes:
        times: (n,) increasing [s]; zero lies before the stroke.
        positions: (n, 2) centres [m], table frame: the first is the rest position, the last the final one.
        projected: (n,) bool: moved to the border of the playable rectangle by the recording.
    """

    times: np.ndarray
    positions: np.ndarray
    projected: np.ndarray

    @property
    def moved_at(self) -> float:
        """Return the time of the first sample away from the rest position [s]; infinite for a ball that stayed."""
        return float(self.times[1]) if len(self.times) > 2 else float("inf")

    def at(self, times: np.ndarray) -> np.ndarray:
        """Return (T, 2) positions [m] on straight lines between the samples.

        In a gap that ends in motion the ball was at rest first: it leaves so that it arrives at its later speed.
        """
        t, p = self.times, self.positions
        knots: list[tuple[float, np.ndarray]] = [(float(t[0]), p[0])]
        for i in range(len(t) - 1):
            gap, way = t[i + 1] - t[i], float(np.hypot(*(p[i + 1] - p[i])))
            if gap > _FRAME_GAP and i + 2 < len(t):
                speed = float(np.hypot(*(p[i + 2] - p[i + 1]))) / (t[i + 2] - t[i + 1])
                if speed > 0 and way / gap < 0.5 * speed:
                    knots.append((max(t[i] + 1e-4, t[i + 1] - way / speed), p[i]))
            knots.append((float(t[i + 1]), p[i + 1]))
        when = np.array([k[0] for k in knots])
        where = np.array([k[1] for k in knots])
        return np.column_stack([np.interp(times, when, where[:, axis]) for axis in (0, 1)])


@dataclass(frozen=True)
class RecordedShot:
    """One shot of the match: its id and the path of each ball by colour."""

    shot_id: int
    balls: dict[str, BallPath]

    @property
    def cue_ball(self) -> str:
        """Return the ball that moved first, which the player struck."""
        return min(self.balls, key=lambda ball: self.balls[ball].moved_at)


def read_shots(path: Path | str, table: TableModel = MATCH_TABLE) -> list[RecordedShot]:
    """Read a file of recorded shots (``.jsonl`` or ``.jsonl.gz``), in the order of their ids.

    Args:
        path: of the file.
        table: on which they were played.

    Raises:
        FileFormatError: the file is missing or a line of it is malformed; says which and why.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except FileNotFoundError:
        raise FileFormatError(path, "no such file") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise FileFormatError(path, f"cannot be read: {error}") from None
    shots: dict[int, RecordedShot] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FileFormatError(where, f"is not JSON: {error}") from None
        shot = _shot(row, where, table)
        if shot.shot_id in shots:
            raise FileFormatError(where, f"repeats shot {shot.shot_id}")
        shots[shot.shot_id] = shot
    if not shots:
        raise FileFormatError(path, "holds no shot")
    return [shots[key] for key in sorted(shots)]


def _shot(row: Any, where: str, table: TableModel) -> RecordedShot:
    only_keys(where, row, ("shotID", "balls"), needed=("shotID", "balls"))
    if isinstance(row["shotID"], bool) or not isinstance(row["shotID"], int):
        raise FileFormatError(where, f"shotID is {row['shotID']!r}, needs a whole number")
    only_keys(f"{where}, balls", row["balls"], _BALLS, needed=_BALLS)
    paths = {ball: _path(row["balls"][ball], f"{where}, {ball}", table) for ball in _BALLS}
    return RecordedShot(row["shotID"], paths)


def _path(data: Any, where: str, table: TableModel) -> BallPath:
    only_keys(where, data, ("t", "x", "y"), needed=("t", "x", "y"))
    try:
        t, x, y = (np.array(data[key], float) for key in ("t", "x", "y"))
    except (TypeError, ValueError):
        raise FileFormatError(where, "t, x and y need lists of numbers") from None
    if t.ndim != 1 or len(t) == 0 or not t.shape == x.shape == y.shape:
        raise FileFormatError(where, f"t, x and y have shapes {t.shape}, {x.shape}, {y.shape}; need one length")
    if not all(np.isfinite(column).all() for column in (t, x, y)) or np.any(np.diff(t) <= 0):
        raise FileFormatError(where, "needs finite numbers and times that increase")
    radius, size = table.ball_radius, np.array([table.length, table.width])
    corner = np.column_stack([x, y])
    if np.any(corner < -_PROJECTED) or np.any(corner > size + _PROJECTED):
        raise FileFormatError(where, f"leaves the table of {size[0]} x {size[1]} m")
    near = np.minimum(np.abs(corner - radius), np.abs(size - radius - corner))
    return BallPath(t, corner - size / 2, np.any(near < _PROJECTED, axis=1))
