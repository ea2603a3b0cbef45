"""One table's episodes, without Gymnasium's classes: actions to strokes, trajectories to observations and rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from cue_core.balls import BallState
from cue_core.checks import finite_in, only_keys
from cue_core.errors import CueError, FileFormatError
from cue_core.parameters import PARAMETERS, check_names
from cue_core.shots import MISCUE_OFFSET, Shot, Stroke
from cue_sim.gym.errors import ActionError, EpisodeError
from cue_sim.gym.layouts import given_layout, random_layout, random_spot
from cue_sim.gym.options import Ground, TableOptions
from cue_sim.gym.reward import Situation, Transition
from cue_sim.kernel import EventKind
from cue_sim.predict import CUE_BALL, rest_fault, sample_parameters, start_from
from cue_sim.twin import Start, Trajectory

ACTION_NAMES = ("speed", "azimuth", "side_offset", "vertical_offset")
_RESET_OPTIONS = ("positions", "goal", "parameters")
_ROUNDING = 1e-6  # what a float32 policy may lie outside a bound

Observation = dict[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """What Gymnasium's ``step`` returns."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Game:
    """One table: its balls, its goal and the parameters of its episode.

    :meth:`begin` gives what the twin needs to play a shot, :meth:`finish` takes what it made of it: between them many
    tables are simulated at once.

    Attributes:
        ground: the table.
        options: of the environment.
        faults: simulations that failed, since the start.
    """

    def __init__(self, ground: Ground, options: TableOptions) -> None:
        """Check what needs the table.

        Raises:
            CueError: the goal or the layout does not fit the table.
        """
        self.ground, self.options = ground, options
        self.faults = 0
        twin = ground.twin
        if options.goal_ball is not None and options.goal_ball not in twin.ball_ids:
            raise FileFormatError(
                "goal_ball", f"is {options.goal_ball}, the table has {list(twin.ball_ids)}; None = no goal"
            )
        self._goal_index = None if options.goal_ball is None else twin.index(options.goal_ball)
        self._fixed_goal = None if options.goal is None else self._checked_goal(options.goal)
        self._fixed_layout: Situation | None = None
        if options.layout == "observed":
            if not ground.observed:
                raise FileFormatError("layout", "'observed' needs a twin whose file holds positions")
            known = {b: p for b, p in ground.observed.items() if b in twin.ball_ids}
            self._fixed_layout = self._checked_layout(known)
        elif not isinstance(options.layout, str):
            self._fixed_layout = self._checked_layout(options.layout)
        offset, (slow, fast) = options.largest_offset, options.speed
        self._physical = np.array([[slow, -math.pi, -offset, -offset], [fast, math.pi, offset, offset]])
        self._low: np.ndarray = self._physical[0] if options.units == "physical" else -np.ones(4)
        self._high: np.ndarray = self._physical[1] if options.units == "physical" else np.ones(4)
        self._values = ground.estimate.values
        self._situation: Situation | None = None
        self._goal: np.ndarray | None = None
        self._shots = 0
        self._over = False
        self._pending: tuple[Shot, Stroke] | None = None

    # --- Spaces ---

    def action_space(self) -> spaces.Box:
        """Return the Box of an action, in the order of :data:`ACTION_NAMES`."""
        return spaces.Box(self._low, self._high, dtype=np.float64)

    def observation_space(self) -> spaces.Dict:
        """Return the Dict of ``positions`` (n, 2) [m], ``in_play`` (n,) and, where there is one, ``goal`` (2,) [m]."""
        table = self.ground.twin.table
        half = np.array([table.length, table.width]) / 2
        # a ball may rest between the jaws, short of the drop
        reach = np.max([half, *(np.abs(p.position) + p.radius for p in table.pockets)], axis=0)
        count = len(self.ground.twin.ball_ids)
        members: dict[str, spaces.Space[Any]] = {
            "positions": spaces.Box(np.tile(-reach, (count, 1)), np.tile(reach, (count, 1)), dtype=np.float64),
            "in_play": spaces.MultiBinary(count),
        }
        if self._goal_index is not None:
            members["goal"] = spaces.Box(-half, half, dtype=np.float64)
        return spaces.Dict(members)

    # --- Episode ---

    @property
    def situation(self) -> Situation:
        """Return the balls.

        Raises:
            EpisodeError: there was no reset yet.
        """
        if self._situation is None:
            raise EpisodeError("no episode has begun: call reset() first")
        return self._situation

    @property
    def goal(self) -> np.ndarray | None:
        """Return the episode's goal (2,) [m]; None = there is none."""
        return self._goal

    def reset(
        self, generator: np.random.Generator, options: Mapping[str, Any] | None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; draw its parameters, balls and goal unless they are given.

        Args:
            generator: of all that is drawn, in this order.
            options: ``positions`` (2,) [m] by ball id, ``goal`` (2,) [m], ``parameters`` by name.

        Raises:
            CueError: an option makes no sense.
        """
        options = options or {}
        only_keys("reset options", options, _RESET_OPTIONS)
        estimate = self.ground.estimate
        values = sample_parameters(estimate, 1, generator)[0] if self.ground.randomised else estimate.values.copy()
        for name, value in options.get("parameters", {}).items():
            check_names([name])
            p = PARAMETERS[name]
            values[list(PARAMETERS).index(name)] = finite_in(name, value, p.minimum, p.maximum, p.unit)
        if "positions" in options:
            situation = self._checked_layout(options["positions"])
        elif self._fixed_layout is not None:
            situation = self._fixed_layout
        else:
            situation = random_layout(self.ground.twin, generator)
        goal = self._fixed_goal
        if "goal" in options:
            goal = self._checked_goal(options["goal"])
        elif goal is None and self._goal_index is not None:
            radius = float(self.ground.twin.layout.radius[self._goal_index])
            goal = random_spot(self.ground.twin, generator, radius)
        self._values, self._situation, self._goal = values, situation, goal
        self._shots, self._over, self._pending = 0, False, None
        return self.observation(), {"parameters": values.copy(), "shots": 0}

    def shot(self, action: Any) -> Shot:
        """Return the shot that an action asks for.

        Args:
            action: (4,), see :meth:`action_space`.

        Raises:
            ActionError: not in the action space.
            EpisodeError: the episode is over, or none has begun.
        """
        if self._situation is None or self._over:
            raise EpisodeError("the episode is over, or none has begun: call reset() first")
        try:
            given = np.asarray(action, float)
        except (TypeError, ValueError):
            raise ActionError(action, ACTION_NAMES, self._low, self._high) from None
        outside = given.shape != (4,) or not np.isfinite(given).all()
        if outside or np.any(given < self._low - _ROUNDING) or np.any(given > self._high + _ROUNDING):
            raise ActionError(action, ACTION_NAMES, self._low, self._high)
        low, high = self._physical
        share = (np.clip(given, self._low, self._high) - self._low) / (self._high - self._low)
        speed, azimuth, side, vertical = np.clip(low + share * (high - low), low, high).tolist()
        return Shot(f"{self._shots}", speed, azimuth, side_offset=side, vertical_offset=vertical)

    def begin(self, generator: np.random.Generator, shot: Shot) -> tuple[Start, np.ndarray]:
        """Return the balls just after the stroke, and the (P,) parameters to simulate them with.

        Args:
            generator: of the strike noise.
            shot: from :meth:`shot`.

        Raises:
            EpisodeError: no episode has begun.
        """
        situation = self.situation
        stroke = self._stroke(shot, generator)
        twin = self.ground.twin
        balls = [
            BallState(ball, place)
            for ball, place, there in zip(twin.ball_ids, situation.positions, situation.in_play, strict=True)
            if there
        ]
        start = start_from(balls, stroke, self._values, twin.table, twin.ball_ids)
        start = replace(start, positions=situation.positions.copy())  # a pocketed ball stays at its pocket
        self._pending = shot, stroke
        return start, self._values

    def finish(self, path: Trajectory) -> Step:
        """Take the trajectory of the shot that :meth:`begin` gave.

        A simulation that failed ends the episode with ``truncated`` and its name in ``info["fault"]``; nothing is known
        of the balls then, so that none is shown in play.

        Raises:
            EpisodeError: no shot was begun.
            CueError: the reward is not finite.
        """
        if self._pending is None:
            raise EpisodeError("no shot was begun")
        (shot, stroke), self._pending = self._pending, None
        before = self.situation
        self._shots += 1
        info = self._info(shot, stroke, path)
        if fault := rest_fault(path):
            self.faults += 1
            self._over = True
            self._situation = Situation(before.positions, np.zeros_like(before.in_play))
            size = math.hypot(self.ground.twin.table.length, self.ground.twin.table.width)
            reward = -size if self.options.fault_reward is None else self.options.fault_reward
            return Step(self.observation(), float(reward), False, True, {**info, "fault": fault})
        after = Situation(path.rest_positions.copy(), before.in_play & ~path.rest_pocketed)
        self._situation = after
        twin = self.ground.twin
        transition = Transition(
            twin.ball_ids, before, shot, stroke, path, after, self._goal, self._goal_index, self._values
        )
        reward = float(self.options.reward_function(transition))
        if not math.isfinite(reward):
            raise CueError(f"the reward is {reward}, it must be finite")
        reached = (
            self._goal_index is not None
            and bool(after.in_play[self._goal_index])
            and transition.goal_distance <= self.options.goal_tolerance
        )
        info |= {"fault": "", "is_success": reached, "pocketed": transition.pocketed}
        if self._goal_index is not None:
            info["goal_distance"] = transition.goal_distance
        terminated = reached or self._is_lost(after)
        truncated = not terminated and self._shots >= self.options.max_shots
        self._over = terminated or truncated
        return Step(self.observation(), reward, terminated, truncated, info)

    def observation(self) -> Observation:
        """Return the balls at rest; those not in play lie at 0."""
        situation = self.situation
        shown = {
            "positions": np.where(situation.in_play[:, None], situation.positions, 0.0),
            "in_play": situation.in_play.astype(np.int8),
        }
        if self._goal is not None:
            shown["goal"] = self._goal.copy()
        return shown

    def _is_lost(self, after: Situation) -> bool:
        """Tell whether no shot can follow: no cue ball, no goal ball, or no object ball left of those there were."""
        twin = self.ground.twin
        if not after.in_play[twin.index(CUE_BALL)]:
            return True
        if self._goal_index is not None:
            return not after.in_play[self._goal_index]
        return len(twin.ball_ids) > 1 and int(after.in_play.sum()) == 1

    def _info(self, shot: Shot, stroke: Stroke, path: Trajectory) -> dict[str, Any]:
        return {
            "parameters": self._values.copy(),
            "shots": self._shots,
            "shot": np.array([shot.speed, shot.azimuth, shot.side_offset, shot.vertical_offset]),
            "stroke": np.array([stroke.tip_speed, stroke.azimuth, stroke.side_offset, stroke.vertical_offset]),
            "duration": float(path.stop_time),
            "events": {kind.name.lower(): path.contacts(kind) for kind in EventKind},
        }

    def _stroke(self, shot: Shot, generator: np.random.Generator) -> Stroke:
        noise = self.options.noise
        if noise == type(noise)():
            return Stroke(shot.speed, shot.azimuth, side_offset=shot.side_offset, vertical_offset=shot.vertical_offset)
        draw = generator.standard_normal(4)
        offset = np.array([shot.side_offset, shot.vertical_offset]) + noise.offset * draw[2:]
        offset *= min(1.0, MISCUE_OFFSET / max(float(np.hypot(*offset)), 1e-12))
        return Stroke(
            tip_speed=float(np.clip(shot.speed * (1 + noise.speed * draw[0]), 0.0, 15.0)),
            azimuth=shot.azimuth + noise.azimuth * float(draw[1]),
            side_offset=float(offset[0]),
            vertical_offset=float(offset[1]),
        )

    def _checked_layout(self, places: Mapping[int, Any]) -> Situation:
        situation = given_layout(self.ground.twin, places)
        if self._goal_index is not None and not situation.in_play[self._goal_index]:
            raise FileFormatError("layout", f"needs the goal ball {self.options.goal_ball}, got {sorted(places)}")
        return situation

    def _checked_goal(self, goal: Any) -> np.ndarray:
        if self._goal_index is None:
            raise FileFormatError("goal", "needs a goal_ball")
        spot = np.asarray(goal, float)
        if spot.shape != (2,) or not np.isfinite(spot).all() or not self.ground.twin.table.inside(spot):
            table = self.ground.twin.table
            raise FileFormatError(
                "goal", f"is {goal!r}, must be where a ball can lie on a table of {table.length:g} x {table.width:g} m"
            )
        return spot
