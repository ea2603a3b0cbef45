"""A world file (``config/worlds/*.yaml``) and a seed -> one concrete world nobody has seen.

Any number in the file may be ``{uniform: [low, high]}``: it is drawn from the seed and the place of the key, so that
adding a key changes no other draw. Only the world and the simulated camera read world files.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.balls import ball_colour
from cue_core.checks import finite_in, load_yaml, only_keys
from cue_core.errors import CueError, FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS, check_names, nominal_values
from cue_core.settings import check_settings, setting
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.laws import EXTRAS, Laws
from cue_sim.lens import CameraConfig
from cue_sim.robot import RobotConfig
from cue_sim.servo import ServoConfig

_LAYOUTS = ("random", "spread")
_NOT_OF_THE_WORLD = (
    "azimuth_bias",
    "latency",
)  # of what is told of it: the arm and the camera have errors of their own


@dataclass(frozen=True)
class WorldChoice:
    """Settings that name one world, the same in every process that plays a part in it."""

    world: str = setting("hidden", "world file, by path or by name in config/worlds")
    table: str = setting("", "table preset in place of the world file's, by path or name; empty = the file's")
    robot: str = setting("", "robot file in place of the world file's, by path or name; empty = the file's")
    seed: int = setting(1, "of everything the world file leaves open, and of the noise", low=0, high=2**31 - 1)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check_settings(self)

    def load(self) -> WorldConfig:
        """Read the world.

        Raises:
            CueError: a file is missing or malformed, in one line.
        """
        return WorldConfig.load(self.world, self.seed, self.table, self.robot)


@dataclass(frozen=True)
class Steps:
    """Time steps of the world's physics, finer than the twin's.

    Attributes:
        largest: of any step [s].
        impact: of a step that resolves an impact between balls or with a cushion [s].
        contact: while the cue's tip is near a ball [s].
        near: that near [m].
    """

    largest: float = 1e-3
    impact: float = 1e-5
    contact: float = 1e-4
    near: float = 0.02

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
        """
        finite_in("largest step", self.largest, 1e-5, 2e-3, "s")
        finite_in("impact step", self.impact, 1e-7, 1e-3, "s")
        finite_in("contact step", self.contact, 1e-6, 5e-4, "s")
        finite_in("near", self.near, 1e-3, 0.5, "m")


@dataclass(frozen=True)
class Tip:
    """Contact of the cue's tip with a ball; its restitution is the parameter ``tip_restitution``.

    Attributes:
        friction: Coulomb coefficient.
        contact_time: how long tip and ball touch [s].
        end_mass_ratio: mass of the ball over that of the shaft's front end, which yields sideways.
        swing: frequency of the front end's sideways swing [Hz].
        swing_damping: of it, relative to critical.
    """

    friction: float = 0.6
    contact_time: float = 2e-3
    end_mass_ratio: float = 30.0
    swing: float = 25.0
    swing_damping: float = 0.15

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
        """
        finite_in("tip friction", self.friction, 0.0, 2.0)
        finite_in("tip contact_time", self.contact_time, 5e-4, 1e-2, "s")
        finite_in("tip end_mass_ratio", self.end_mass_ratio, 0.5, 100.0)
        finite_in("tip swing", self.swing, 5.0, 100.0, "Hz")
        finite_in("tip swing_damping", self.swing_damping, 0.01, 2.0)


@dataclass(frozen=True)
class WorldConfig:
    """One concrete world.

    Attributes:
        name: of the world file.
        seed: that it was drawn with.
        table: geometry.
        robot: beside it.
        ball_ids: ids in the order of ``positions``, the cue ball 0 first.
        positions: (n, 2) of the balls at the start [m].
        parameters: (P,) true dynamics, in the order of :data:`cue_core.parameters.PARAMETERS`.
        cushion_offsets: (6,) added to the restitution of each cushion, in the order of ``table.cushions``.
        laws: fields of :class:`cue_sim.laws.Laws` beyond those two: other laws, and effects that no twin fits.
        tip, steps, servo, camera: see there.
    """

    name: str
    seed: int
    table: TableModel
    robot: RobotConfig
    ball_ids: tuple[int, ...]
    positions: np.ndarray
    parameters: np.ndarray
    cushion_offsets: np.ndarray
    camera: CameraConfig
    tip: Tip = field(default_factory=Tip)
    steps: Steps = field(default_factory=Steps)
    servo: ServoConfig = field(default_factory=ServoConfig)
    laws: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check balls and parameters against each other and the table.

        Raises:
            CueError: naming the ball or parameter.
        """
        if not self.ball_ids or self.ball_ids[0] != 0 or len(set(self.ball_ids)) != len(self.ball_ids):
            raise FileFormatError(
                f"world {self.name}", f"ball ids {list(self.ball_ids)} need 0 first and no repetition"
            )
        for ball_id in self.ball_ids:
            ball_colour(ball_id)
        if self.positions.shape != (len(self.ball_ids), 2):
            raise FileFormatError(f"world {self.name}", "needs one position for each ball")
        for parameter, value in zip(PARAMETERS.values(), self.parameters, strict=True):
            unit = "" if parameter.unit == "1" else parameter.unit
            finite_in(f"physics {parameter.name}", float(value), parameter.minimum, parameter.maximum, unit)
        self.all_laws()
        for i, position in enumerate(self.positions):
            if not self.table.inside(position):
                raise FileFormatError(f"world {self.name}", f"ball {self.ball_ids[i]} lies outside the cushions")
            gaps = np.linalg.norm(self.positions[:i] - position, axis=1) - 2 * self.table.ball_radius
            if np.any(gaps < 1e-4):
                other = self.ball_ids[int(np.argmin(gaps))]
                raise FileFormatError(f"world {self.name}", f"balls {other} and {self.ball_ids[i]} overlap")

    def all_laws(self) -> Laws:
        """Return the laws of this world's balls, cloth and cushions.

        Raises:
            CueError: they make no sense, naming what.
        """
        offsets = tuple(map(float, self.cushion_offsets))
        return Laws.from_parameters(self.parameters, cushion_offset=offsets, **self.laws)

    @classmethod
    def load(cls, world: str, seed: int, table: str = "", robot: str = "") -> WorldConfig:
        """Read a world.

        Args:
            world: path of a world file or name of one in ``config/worlds``.
            seed: of every draw.
            table: path or name of a table preset in place of the file's own; empty = the file's.
            robot: path or name of a robot file, likewise.

        Raises:
            CueError: a file is missing or malformed, in one line.
        """
        path = config_file("worlds", world)
        data = load_yaml(path)
        try:
            return _build(path, data, int(finite_in("seed", seed, 0, 2**32 - 1)), table, robot)
        except CueError as error:
            text = str(error)
            raise CueError(text if str(path) in text else f"{path}: {text}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(path, f"malformed: {error}") from None


def _draw(data: Any, seed: int, where: str) -> Any:
    """Return the data with every ``{uniform: [low, high]}`` replaced by its draw."""
    if isinstance(data, Mapping):
        if set(data) == {"uniform"}:
            limits = data["uniform"]
            if not isinstance(limits, Sequence) or len(limits) != 2:
                raise FileFormatError(where, f"uniform needs [low, high], got {limits!r}")
            low, high = (finite_in(f"{where}: uniform", v, -1e6, 1e6) for v in limits)
            if low > high:
                raise FileFormatError(where, f"uniform needs low <= high, got {limits!r}")
            generator = np.random.default_rng([seed, zlib.crc32(where.encode())])
            return float(generator.uniform(low, high))
        return {key: _draw(value, seed, f"{where}.{key}" if where else str(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_draw(value, seed, f"{where}.{i}") for i, value in enumerate(data)]
    return data


def _section(data: Mapping[str, Any], name: str, allowed: Sequence[str]) -> Mapping[str, Any]:
    section = data.get(name, {})
    only_keys(name, section, allowed)
    return dict(section)


def _build(path: Path, data: Mapping[str, Any], seed: int, table_name: str, robot_name: str) -> WorldConfig:
    needed = ("table", "robot", "balls", "camera")
    only_keys(path, data, (*needed, "physics", "cushion_offset_spread", "laws", "tip", "steps", "servo"), needed)
    data = _draw(data, seed, "")
    table = TableModel.load(config_file("tables", table_name or str(data["table"])))
    robot = RobotConfig.load(config_file("robots", robot_name or str(data["robot"])))
    balls = _section(data, "balls", ("ids", "layout", "spacing", "positions"))
    ids, positions = _balls(balls, table, np.random.default_rng([seed, zlib.crc32(b"balls")]))
    parameters = nominal_values()
    physics = _section(data, "physics", [name for name in PARAMETERS if name not in _NOT_OF_THE_WORLD])
    for name in check_names(physics):
        parameters[list(PARAMETERS).index(name)] = finite_in(f"physics {name}", physics[name], -1e3, 1e3)
    spread = finite_in("cushion_offset_spread", data.get("cushion_offset_spread", 0.0), 0.0, 0.2)
    offsets = np.random.default_rng([seed, zlib.crc32(b"cushion_offset_spread")]).uniform(-spread, spread, 6)
    laws = _section(data, "laws", [name for name in EXTRAS if name != "cushion_offset"])
    return WorldConfig(
        name=path.stem,
        seed=seed,
        table=table,
        robot=robot,
        ball_ids=ids,
        positions=positions,
        parameters=parameters,
        cushion_offsets=offsets,
        camera=_camera(data["camera"]),
        tip=Tip(**_section(data, "tip", tuple(Tip.__dataclass_fields__))),
        steps=Steps(**_section(data, "steps", tuple(Steps.__dataclass_fields__))),
        servo=ServoConfig(**_section(data, "servo", tuple(ServoConfig.__dataclass_fields__))),
        laws=laws,
    )


def _camera(data: Any) -> CameraConfig:
    names = tuple(CameraConfig.__dataclass_fields__)
    only_keys("camera", data, names, needed=names)
    values = dict(data)
    for name in ("position", "target", "focal", "centre", "distortion"):
        values[name] = np.array(values[name], float)
    values["width"], values["height"] = int(values["width"]), int(values["height"])
    return CameraConfig(**values)


def _balls(
    data: Mapping[str, Any], table: TableModel, generator: np.random.Generator
) -> tuple[tuple[int, ...], np.ndarray]:
    if "positions" in data:
        if set(data) != {"positions"} or not isinstance(data["positions"], Mapping):
            raise FileFormatError("balls", "positions are a mapping id: [x, y] and stand alone")
        ids = tuple(sorted(int(i) for i in data["positions"]))
        return ids, np.array([data["positions"][i] for i in ids], float).reshape(-1, 2)
    if "ids" not in data:
        raise FileFormatError("balls", "needs either positions, or ids with a layout")
    layout = data.get("layout", "spread")
    if layout not in _LAYOUTS:
        raise UnknownNameError("ball layout", layout, _LAYOUTS)
    spacing = finite_in("balls spacing", data.get("spacing", 0.02), 0.0, 1.0, "m")
    ids = tuple(int(i) for i in data["ids"])
    return ids, lay_out(table, len(ids), generator, spacing, spread=layout == "spread")


def lay_out(table: TableModel, count: int, generator: np.random.Generator, spacing: float, spread: bool) -> np.ndarray:
    """Return (count, 2) ball positions [m], the cue ball first, within an arm's reach of its middle.

    Args:
        table: that they lie on.
        count: of balls.
        generator: of the draw.
        spacing: smallest gap between balls and from ball to cushion [m].
        spread: of 30 candidates take the one farthest from the balls that lie already.

    Raises:
        FileFormatError: so many balls do not fit.
    """
    half = np.array([table.length, table.width]) / 2
    free = half - table.ball_stop - spacing
    apart = 2 * table.ball_radius + spacing
    found = np.empty((0, 2))
    while len(found) < count:
        room = free if len(found) else np.minimum(free, 0.55 * half)
        candidates = generator.uniform(-room, room, (30 if spread else 1000, 2))
        # Measured from all balls, and twice from a pocket's mouth, where a ball would leave the game at once.
        others = np.vstack([found, np.full((1, 2), 1e3)])
        gap = np.linalg.norm(candidates[:, None] - others, axis=2).min(axis=1)
        mouths = np.array([p.position for p in table.pockets]).reshape(-1, 2)
        mouth = np.linalg.norm(candidates[:, None] - mouths, axis=2).min(axis=1, initial=np.inf)
        allowed = (gap >= apart) & (mouth >= 2.5 * table.drop_radius)
        if not allowed.any():
            if not spread:
                raise FileFormatError("balls", f"{count} balls do not fit with a spacing of {spacing} m")
            spread = False
            continue
        best = int(np.argmax(np.where(allowed, gap, -1.0))) if spread else int(np.argmax(allowed))
        found = np.vstack([found, candidates[best]])
    return found
