"""Rewards: a number for one shot, from all that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cue_core.shots import Shot, Stroke
from cue_sim.predict import CUE_BALL
from cue_sim.twin import Trajectory


@dataclass(frozen=True)
class Situation:
    """Balls at rest, in the twin's ball order and the table frame.

    Attributes:
        positions: (n, 2) centres [m]; a pocketed ball lies at its pocket's centre.
        in_play: (n,) bool.
    """

    positions: np.ndarray
    in_play: np.ndarray


@dataclass(frozen=True)
class Transition:
    """One shot, as a reward sees it.

    Attributes:
        ball_ids: order of the ball axes.
        before: the balls before it.
        shot: as asked for.
        stroke: as struck, with its noise.
        path: the trajectory, without a fault.
        after: the balls after it.
        goal: (2,) where the goal ball should come to rest [m]; None = no goal.
        goal_ball: its place in ``ball_ids``; None = no goal.
        parameters: (P,) in the order of ``PARAMETERS``: those of this episode.
    """

    ball_ids: tuple[int, ...]
    before: Situation
    shot: Shot
    stroke: Stroke
    path: Trajectory
    after: Situation
    goal: np.ndarray | None
    goal_ball: int | None
    parameters: np.ndarray

    @property
    def goal_distance(self) -> float:
        """Return how far the goal ball rests from the goal [m]; NaN without one."""
        if self.goal is None or self.goal_ball is None:
            return float("nan")
        return float(np.hypot(*(self.after.positions[self.goal_ball] - self.goal)))

    @property
    def pocketed(self) -> np.ndarray:
        """Return (n,) bool: the balls that this shot pocketed."""
        return self.before.in_play & ~self.after.in_play


Reward = Callable[[Transition], float]
"""Returns a finite number for one shot; it is not asked about simulations that failed."""


def goal_distance(transition: Transition) -> float:
    """Return minus the goal ball's distance from the goal [m]; 0 without a goal."""
    return 0.0 if transition.goal is None else -transition.goal_distance


def pocketed(transition: Transition) -> float:
    """Return 1 for each object ball pocketed, and -1 if the cue ball was."""
    ids = np.array(transition.ball_ids)
    gone = transition.pocketed
    return float(np.sum(gone[ids != CUE_BALL])) - float(np.any(gone[ids == CUE_BALL]))


REWARDS: Mapping[str, Reward] = MappingProxyType({"goal_distance": goal_distance, "pocketed": pocketed})
"""Rewards by the name that the option ``reward`` takes."""
