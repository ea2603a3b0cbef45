"""Balls: identities, colours and observed states."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from cue_core.errors import UnknownNameError


class Motion(IntEnum):
    """Motion of a ball; values equal the constants of ``cue_msgs/BallState``."""

    UNKNOWN = 0
    STATIONARY = 1
    MOVING = 2
    SPINNING = 3
    SLIDING = 4
    ROLLING = 5
    POCKETED = 6
    AIRBORNE = 7


class Visibility(IntEnum):
    """How the tracker knows of a ball; values equal the constants of ``cue_msgs/BallState``."""

    VISIBLE = 0
    OCCLUDED = 1
    LOST = 2
    POCKETED = 3
    OFF_TABLE = 4


# sRGB 0..1 of a usual phenolic set; 9..15 are the striped balls of 1..7.
_COLOURS: dict[int, tuple[str, tuple[float, float, float]]] = {
    0: ("white", (0.95, 0.94, 0.90)),
    1: ("yellow", (0.96, 0.78, 0.10)),
    2: ("blue", (0.08, 0.16, 0.55)),
    3: ("red", (0.80, 0.08, 0.09)),
    4: ("purple", (0.33, 0.12, 0.42)),
    5: ("orange", (0.96, 0.42, 0.06)),
    6: ("green", (0.03, 0.36, 0.17)),
    7: ("maroon", (0.42, 0.07, 0.11)),
    8: ("black", (0.05, 0.05, 0.05)),
}


def ball_colour(ball_id: int) -> tuple[str, tuple[float, float, float]]:
    """Return the colour name and sRGB (0..1) of ball 0..15; 9..15 repeat 1..7.

    Raises:
        UnknownNameError: no such ball.
    """
    if not 0 <= ball_id <= 15:
        raise UnknownNameError("ball id", ball_id, [f"{i:02d}" for i in range(16)])
    return _COLOURS[ball_id if ball_id <= 8 else ball_id - 8]


@dataclass(frozen=True)
class BallState:
    """One ball at one instant, in the table frame.

    Attributes:
        ball_id: 0 = cue ball, 1..15 = object balls.
        position: (2,) centre [m].
        covariance: (2, 2) of the position [m^2].
        velocity: (2,) [m/s].
        velocity_covariance: (2, 2) [m^2/s^2].
        colour: colour class; empty = not classified.
        identity_confidence: probability that the id is right, 0..1.
    """

    ball_id: int
    position: np.ndarray
    covariance: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(2))
    velocity_covariance: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    motion: Motion = Motion.STATIONARY
    visibility: Visibility = Visibility.VISIBLE
    colour: str = ""
    identity_confidence: float = 1.0

    @property
    def in_play(self) -> bool:
        """True while the ball lies on the table (it may be hidden)."""
        return self.visibility in (Visibility.VISIBLE, Visibility.OCCLUDED)

    def at_rest(self) -> BallState:
        """Return the same ball, still."""
        return replace(self, velocity=np.zeros(2), velocity_covariance=np.zeros((2, 2)), motion=Motion.STATIONARY)
