"""Options of the environments, and the table they stand for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.checks import finite_in, only_keys
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS, ParameterEstimate, check_names
from cue_core.shots import MISCUE_OFFSET
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.export import load_twin
from cue_sim.gym.reward import REWARDS, Reward
from cue_sim.predict import CUE_BALL, for_balls
from cue_sim.twin import Twin

DEFAULT_TABLE = "small"
DEFAULT_BALLS = 6


@dataclass(frozen=True)
class StrikeNoise:
    """How far a stroke may miss what was asked for: standard deviations of Gaussians.

    Attributes:
        speed: relative to the speed asked for.
        azimuth: [rad].
        offset: of the side and of the vertical offset [ball radii].
    """

    speed: float = 0.0
    azimuth: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            OutOfRangeError: naming the field and its range.
        """
        finite_in("strike_noise speed", self.speed, 0.0, 0.5)
        finite_in("strike_noise azimuth", self.azimuth, 0.0, 1.0, "rad")
        finite_in("strike_noise offset", self.offset, 0.0, MISCUE_OFFSET, "ball radii")


@dataclass(frozen=True)
class TableOptions:
    """What ``gymnasium.make`` takes.

    Attributes:
        twin: ``twin.json`` of a calibrated table, or the run folder that holds it; its table, parameters and balls.
        table: instead of it, name of a preset in ``config/tables``, its path, or the table itself.
        parameters: values that replace the estimate's, by name.
        posterior: draw the parameters anew at each reset, from the twin's covariance.
        spread: the same with these standard deviations, by name, in the parameters' units; others stay.
        balls: how many, or which ids; None = those of the twin, or six.
        layout: positions (2,) [m] by ball id; ``"random"``; ``"observed"`` = as the twin's file has them.
        speed: slowest and fastest stroke [m/s].
        largest_offset: of the tip, to each side and up and down [ball radii]; the corners must not miscue.
        units: of the action: ``"normalised"`` to [-1, 1], or ``"physical"``.
        strike_noise: how far strokes miss.
        reward: a name in ``REWARDS``, or a function.
        goal_ball: id of the ball that should come to rest at the goal; None = no goal.
        goal: (2,) [m]; None = random at each reset.
        goal_tolerance: the episode ends with the goal ball this near the goal [m].
        max_shots: the episode is truncated after so many.
        fault_reward: of a simulation that failed; None = minus the table's diagonal, below any distance.
    """

    twin: str | Path | None = None
    table: str | Path | TableModel | None = None
    parameters: Mapping[str, float] | None = None
    posterior: bool = False
    spread: Mapping[str, float] | None = None
    balls: int | Sequence[int] | None = None
    layout: str | Mapping[int, Sequence[float]] = "random"
    speed: tuple[float, float] = (0.2, 2.5)
    largest_offset: float = 0.35
    units: str = "normalised"
    strike_noise: StrikeNoise | Mapping[str, float] = StrikeNoise()
    reward: str | Reward = "goal_distance"
    goal_ball: int | None = 1
    goal: Sequence[float] | None = None
    goal_tolerance: float = 0.02
    max_shots: int = 10
    fault_reward: float | None = None

    def __post_init__(self) -> None:
        """Check what needs no table.

        Raises:
            CueError: naming the option, what was given and what is allowed.
        """
        if self.twin is not None and self.table is not None:
            raise FileFormatError("options", f"give twin or table, not both: {self.twin}, {self.table}")
        if self.posterior and self.spread is not None:
            raise FileFormatError("options", "give posterior (the twin's covariance) or spread, not both")
        low, high = (finite_in("speed", v, 0.01, 15.0, "m/s") for v in _pair("speed", self.speed))
        if not low < high:
            raise FileFormatError("speed", f"needs the slower before the faster, got {low}, {high}")
        finite_in("largest_offset", self.largest_offset, 0.01, MISCUE_OFFSET / math.sqrt(2), "ball radii")
        _one_of("units", self.units, ("normalised", "physical"))
        if isinstance(self.layout, str):
            _one_of("layout", self.layout, ("random", "observed"))
        if not callable(self.reward):
            _one_of("reward", self.reward, REWARDS)
        finite_in("goal_tolerance", self.goal_tolerance, 0.0, 1.0, "m")
        finite_in("max_shots", self.max_shots, 1, 100_000)
        if self.fault_reward is not None:
            finite_in("fault_reward", self.fault_reward, -1e6, 1e6)
        if isinstance(self.strike_noise, Mapping):
            only_keys("strike_noise", self.strike_noise, [f.name for f in fields(StrikeNoise)])
            object.__setattr__(self, "strike_noise", StrikeNoise(**self.strike_noise))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TableOptions:
        """Build from keyword arguments.

        Raises:
            FileFormatError: an unknown one; lists the known ones.
            CueError: a value makes no sense.
        """
        only_keys("CUE/Table", options, [f.name for f in fields(cls)])
        return cls(**options)

    @property
    def noise(self) -> StrikeNoise:
        """Return the noise of the strokes."""
        assert isinstance(self.strike_noise, StrikeNoise)  # __post_init__ has seen to it
        return self.strike_noise

    @property
    def reward_function(self) -> Reward:
        """Return the reward."""
        return self.reward if callable(self.reward) else REWARDS[self.reward]


@dataclass(frozen=True)
class Ground:
    """The table that an environment plays on.

    Attributes:
        twin: simulates it.
        estimate: of its parameters.
        randomised: parameters are drawn from the estimate at each reset.
        observed: (2,) [m] by ball id, from the twin's file.
    """

    twin: Twin
    estimate: ParameterEstimate
    randomised: bool
    observed: Mapping[int, np.ndarray]


def load_ground(options: TableOptions) -> Ground:
    """Build the twin that the options ask for.

    Raises:
        FileFormatError: a file is missing or malformed, no cue ball, no covariance to draw from.
        UnknownNameError: no such table or parameter.
        OutOfRangeError: a parameter beyond its bounds.
    """
    observed: dict[int, np.ndarray] = {}
    if options.twin is not None:
        path = Path(options.twin)
        path = path / "twin.json" if path.is_dir() else path
        twin, estimate = load_twin(path)
        stored = json.loads(path.read_text(encoding="utf-8")).get("positions_m", {})
        observed = {int(ball): np.array(place, float) for ball, place in stored.items()}
        twin = for_balls(twin, _ball_ids(options.balls, twin.ball_ids))
    else:
        table = options.table if options.table is not None else DEFAULT_TABLE
        if not isinstance(table, TableModel):
            table = TableModel.load(config_file("tables", str(table)))
        twin = Twin(table, _ball_ids(options.balls, tuple(range(DEFAULT_BALLS))))
        estimate = ParameterEstimate.nominal()
    return Ground(twin, _adjusted(estimate, options), options.posterior or options.spread is not None, observed)


def _adjusted(estimate: ParameterEstimate, options: TableOptions) -> ParameterEstimate:
    names = list(PARAMETERS)
    values, covariance = estimate.values.copy(), estimate.covariance
    for name, value in (options.parameters or {}).items():
        check_names([name])
        p = PARAMETERS[name]
        values[names.index(name)] = finite_in(name, value, p.minimum, p.maximum, p.unit)
    if options.spread is not None:
        covariance = np.zeros((len(names), len(names)))
        for name, value in options.spread.items():
            check_names([name])
            p = PARAMETERS[name]
            k = names.index(name)
            covariance[k, k] = finite_in(f"spread {name}", value, 0.0, p.maximum - p.minimum, p.unit) ** 2
    if (options.posterior or options.spread is not None) and not np.any(covariance):
        raise FileFormatError(
            "posterior" if options.posterior else "spread",
            "there is no covariance to draw from; give a calibrated twin, or spread={parameter: stddev}",
        )
    return replace(estimate, values=values, covariance=covariance)


def _ball_ids(asked: int | Sequence[int] | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    if asked is None:
        ids = usual
    elif isinstance(asked, (int, np.integer)):
        ids = tuple(range(int(finite_in("balls", asked, 1, 16))))
    else:
        ids = tuple(int(b) for b in asked)
    if CUE_BALL not in ids:
        raise FileFormatError("balls", f"need the cue ball (id 0), got {list(ids)}")
    return ids


def _one_of(name: str, value: object, known: Sequence[str] | Mapping[str, Any]) -> None:
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(name, value, known)


def _pair(name: str, value: Sequence[float]) -> tuple[float, float]:
    if np.shape(value) != (2,):
        raise FileFormatError(name, f"needs two numbers, got {value!r}")
    return value[0], value[1]
