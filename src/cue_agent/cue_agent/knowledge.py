r"""What the session knows about the table, and what it wants to know: parameters' covariance and the goal.

The goal is to predict the table's typical shots. Each has a sensitivity :math:`S` (:mod:`cue_sim.outlook`): with a
covariance :math:`C` of the parameters, :math:`\operatorname{tr}(S C)` is the mean square of the rest error that
ignorance causes. The goal :math:`G` is their mean, each with the weight :func:`quiet` of its scatter: what luck
decides, knowledge does not. What a shot is worth for it: :mod:`cue_core.information`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_agent.candidates import generate
from cue_agent.peers import Foresight, Scene
from cue_agent.reach import Anywhere
from cue_core.balls import BallState
from cue_core.information import after, goal_error, goal_gain
from cue_core.shots import Shot
from cue_core.table import TableModel

SCATTER_SCALE = 0.05
"""Scatter of rest positions that halves a shot's weight [m]."""
LESSON_SCALE = 0.20
"""The same for what it teaches: chaos is marginalised in its information, but a fit does not follow all of it."""
_KINDS = ("aimed", "cushion", "random")  # of typical shots
_GAP = 0.01  # [m] between balls strewn on the table
_TRIES = 200

Ask = Callable[[Sequence[Shot], Sequence[BallState]], Sequence[Foresight | None]]


def quiet(scatter: float, scale: float = SCATTER_SCALE) -> float:
    """Return the weight q = 1 / (1 + (s / s_0)^2), 0..1, of a shot whose outcome luck scatters by ``scatter`` [m]."""
    return 1.0 / (1.0 + (scatter / scale) ** 2)


@dataclass(frozen=True)
class Knowledge:
    """What is known of the d fitted parameters, and what it is for.

    Attributes:
        names: of the parameters.
        covariance: (d, d) in their units.
        goal: (d, d) G [m^2 over their units].
    """

    names: tuple[str, ...]
    covariance: np.ndarray
    goal: np.ndarray

    @property
    def error(self) -> float:
        """Return the root mean square rest error that ignorance of the parameters causes in typical shots [m]."""
        return math.sqrt(goal_error(self.goal, self.covariance))

    def gain(self, information: np.ndarray) -> float:
        """Return how many e-folds [nat] a shot of this (d, d) information is expected to take off the error."""
        return goal_gain(information, self.covariance, self.goal)

    def after(self, information: np.ndarray) -> Knowledge:
        """Return what is known after a shot of this (d, d) information."""
        return replace(self, covariance=after(information, self.covariance))


def lesson(seen: Foresight) -> np.ndarray:
    """Return the (d, d) information of a shot, less of one so chaotic that a fit may not follow it."""
    return quiet(seen.scatter, LESSON_SCALE) * seen.information


def strew(table: TableModel, ball_ids: Sequence[int], rng: np.random.Generator) -> tuple[BallState, ...]:
    """Return balls at rest anywhere on the table, none touching; those that find no room are left out."""
    half = np.array([table.length, table.width]) / 2 - table.ball_stop - _GAP
    places: list[np.ndarray] = []
    found = []
    for ball_id in ball_ids:
        for place in rng.uniform(-half, half, (_TRIES, 2)):
            if all(np.linalg.norm(place - p) > 2 * table.ball_radius + _GAP for p in places):
                places.append(place)
                found.append(BallState(ball_id, place))
                break
    return tuple(found)


def typical_goal(
    table: TableModel,
    ball_ids: Sequence[int],
    speeds: tuple[float, float],
    count: int,
    rng: np.random.Generator,
    ask: Ask,
) -> Knowledge | None:
    """Return what is known, with the goal of typical shots on this table; None where the twin answers nothing.

    Args:
        table: that is to be explained.
        ball_ids: of the balls in play, the cue ball 0 first.
        speeds: slowest and fastest tip [m/s].
        count: of shots asked about, four from each lay-out of the balls.
        rng: of the draw.
        ask: the twin.
    """
    seen: list[Foresight] = []
    for first in range(0, count, 4):
        balls = strew(table, ball_ids, rng)
        drawn = generate(Scene(table, balls), _KINDS, min(4, count - first), rng, speeds, Anywhere())
        shots = [c.shot(f"goal-{first + i}") for i, c in enumerate(drawn)]
        seen += [f for f in ask(shots, balls) if f is not None]
    if not seen:
        return None
    weights = np.array([quiet(f.scatter) for f in seen])
    goal = np.einsum("n,nij->ij", weights / weights.sum(), np.array([f.sensitivity for f in seen]))
    return Knowledge(seen[0].names, seen[0].covariance, (goal + goal.T) / 2)
