"""What terms write into: everything that a twin lets be set for each sample.

The arrays belong to whoever simulates; they may be views of rows that a kernel reads. They hold the twin's own values
to begin with, so a term *sets* a coefficient that is its own and *adds to* (or multiplies) what others may have set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

CUSHIONS = 6
"""Most cushions of a table."""
BALLS = 16
"""Ball ids are 0..15."""
FIELD = (5, 3)
"""Nodes of the cloth field, along x and along y."""
SPEED_DECAY = 1.088
"""How fast friction between balls falls with slip [s/m], where it does (Alciatore, TP A.14)."""

SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("sliding_friction", "rolling_friction", "spinning_deceleration"), ()),
        **dict.fromkeys(("ball_restitution", "ball_friction"), ()),
        **dict.fromkeys(("cushion_restitution", "cushion_restitution_slope", "cushion_friction"), ()),
        **dict.fromkeys(("tip_restitution", "tilt_x", "tilt_y"), ()),
        **dict.fromkeys(("ball_friction_floor", "ball_friction_decay", "rolling_slope", "nap_x2", "nap_y2"), ()),
        "cushion_offset": (CUSHIONS,),
        "nose_offset": (CUSHIONS,),
        "mass_ratio": (BALLS,),
        "diameter_ratio": (BALLS,),
        "cloth_field": (FIELD[0] * FIELD[1],),
        **dict.fromkeys(("azimuth_bias", "latency"), ()),
    }
)
"""Shape of each knob for one sample."""


@dataclass
class Knobs:
    """Knobs of B samples; (B,) each, or (B, n).

    Attributes:
        sliding_friction: ball on cloth.
        rolling_friction: rolling deceleration / g times 7/5.
        spinning_deceleration: [rad/s^2].
        ball_restitution: between balls.
        ball_friction: between balls, at rest.
        cushion_restitution: along the normal at the nose, at 1 m/s.
        cushion_restitution_slope: [s/m].
        cushion_friction: at the nose.
        tip_restitution: between tip and cue ball: the gain of a stroke.
        tilt_x: [rad].
        tilt_y: [rad].
        ball_friction_floor: friction between balls at high slip.
        ball_friction_decay: [s/m]; 0 = friction does not fall.
        rolling_slope: [s/m] relative growth of rolling friction with speed.
        nap_x2: relative growth of rolling friction along x, and decrease along y: strength times cos(2 direction).
        nap_y2: the same along the diagonals: strength times sin(2 direction).
        cushion_offset: (B, 6) added to each cushion's restitution.
        nose_offset: (B, 6) [m] by which each cushion's nose and jaws stand further into the table.
        mass_ratio: (B, 16) of each ball by id, to its mass in the twin.
        diameter_ratio: (B, 16) the same of its diameter; the mass stays.
        cloth_field: (B, 15) logarithm of a factor on rolling friction, at the nodes of :data:`FIELD`, x slowest.
        azimuth_bias: [rad] added to a stroke's azimuth.
        latency: [s] by which a camera's times are late.
    """

    sliding_friction: np.ndarray
    rolling_friction: np.ndarray
    spinning_deceleration: np.ndarray
    ball_restitution: np.ndarray
    ball_friction: np.ndarray
    cushion_restitution: np.ndarray
    cushion_restitution_slope: np.ndarray
    cushion_friction: np.ndarray
    tip_restitution: np.ndarray
    tilt_x: np.ndarray
    tilt_y: np.ndarray
    ball_friction_floor: np.ndarray
    ball_friction_decay: np.ndarray
    rolling_slope: np.ndarray
    nap_x2: np.ndarray
    nap_y2: np.ndarray
    cushion_offset: np.ndarray
    nose_offset: np.ndarray
    mass_ratio: np.ndarray
    diameter_ratio: np.ndarray
    cloth_field: np.ndarray
    azimuth_bias: np.ndarray
    latency: np.ndarray

    @classmethod
    def neutral(cls, count: int) -> Knobs:
        """Return knobs of ``count`` samples that change nothing; coefficients without a neutral value are NaN."""
        unset = list(SHAPES)[:9]
        start = {**dict.fromkeys(unset, np.nan), "mass_ratio": 1.0, "diameter_ratio": 1.0}
        return cls(**{name: np.full((count, *shape), start.get(name, 0.0)) for name, shape in SHAPES.items()})
