"""What balls at rest say: the slope of the bed is less than the cloth resists.

A ball rests on a tilted bed only while the slope's acceleration is less than the rolling resistance, both falling by
the same 5/7 once it rolls: hypot(tilt_x, tilt_y) < rolling_friction. Every shot begins and ends with balls at rest, so
this is an observation like any other; a handful of shots, which leave friction and slope open, need it most.
"""

from __future__ import annotations

import numpy as np

from cue_core.parameters import PARAMETERS
from cue_identify.space import Space

_SURE = 0.9  # [-] share of the resistance up to which the slope is free
_WIDTH = 0.02  # [-] of that share, beyond which it is refused
_STEP = 1e-6  # of a unit coordinate
_NAMES = ("tilt_x", "tilt_y", "rolling_friction")
_PLACES = tuple(list(PARAMETERS).index(name) for name in _NAMES)


def restlessness(values: np.ndarray) -> float:
    """Return by how much a vector of all parameters (P,) breaks the rule, in standard deviations; 0 = not at all."""
    tilt_x, tilt_y, friction = (float(values[i]) for i in _PLACES)
    share = np.hypot(tilt_x, tilt_y) / max(friction, 1e-9)
    return max(float(share) - _SURE, 0.0) / _WIDTH


def restlessness_slope(space: Space, unit: np.ndarray) -> np.ndarray:
    """Return the (d,) derivative of :func:`restlessness` by the unit coordinates, zero where it is zero."""
    here, slope = restlessness(space.values(unit)), np.zeros(len(unit))
    if here == 0.0:
        return slope
    for i in (space.names.index(name) for name in _NAMES if name in space.names):
        step = -_STEP if unit[i] > 0.5 else _STEP
        moved = unit.copy()
        moved[i] += step
        slope[i] = (restlessness(space.values(moved)) - here) / step
    return slope
