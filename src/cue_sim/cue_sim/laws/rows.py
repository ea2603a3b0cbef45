"""The rows of numbers that the kernel reads: one for each sample, laid out as ``cue_laws`` in ``native/laws/law.h``."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from cue_core.terms import BALLS, CUSHIONS, FIELD, SHAPES, Knobs
from cue_sim.laws.library import OWN, SLOTS

SHAPE: MappingProxyType[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("sliding_friction", "rolling_friction", "spinning_deceleration"), ()),
        **dict.fromkeys(("ball_restitution", "ball_friction"), ()),
        **dict.fromkeys(("cushion_restitution", "cushion_restitution_slope", "cushion_friction"), ()),
        **dict.fromkeys(("tip_restitution", "tilt_x", "tilt_y", "gravity"), ()),
        **dict.fromkeys(("ball_friction_floor", "ball_friction_decay", "rolling_slope", "nap_x2"), ()),
        "cushion_offset": (CUSHIONS,),
        "law": (len(SLOTS),),
        "own": (len(SLOTS), OWN),
        **dict.fromkeys(("slate_restitution", "nose_slate_restitution", "hop_height", "nap_y2"), ()),
        "nose_offset": (CUSHIONS,),
        "mass_ratio": (BALLS,),
        "diameter_ratio": (BALLS,),
        "cloth_field": (FIELD[0] * FIELD[1],),
    }
)
"""What a row holds, in order, and in which shape."""
_ENDS = np.cumsum([int(np.prod(shape)) for shape in SHAPE.values()])
COLUMNS = MappingProxyType(
    {name: slice(int(end - np.prod(SHAPE[name])), int(end)) for name, end in zip(SHAPE, _ENDS, strict=True)}
)
"""Where in a row it stands."""
SIZE = int(_ENDS[-1])
"""Numbers in a row; more may follow for a learned correction."""


def knobs_of(rows: np.ndarray) -> Knobs:
    """Return the knobs of (B, L) rows: what is written into them is written into the rows.

    Knobs that the kernel does not read, those of strokes and cameras, are zeros of their own.
    """
    knobs = {}
    for name, shape in SHAPES.items():
        if name not in COLUMNS:
            knobs[name] = np.zeros((len(rows), *shape))
        else:
            part = rows[:, COLUMNS[name]]
            knobs[name] = part if shape else part[:, 0]
    return Knobs(**knobs)
