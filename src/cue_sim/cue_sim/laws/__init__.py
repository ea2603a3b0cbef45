"""The billiards laws: which there are, their coefficients, and each on its own.

>>> available("cushion")
('coulomb', 'han2005', 'mathavan2010', 'stronge')
>>> law = find("cushion", "mathavan2010")
>>> after = law(CushionImpact(velocity, spin, radius, mass, tilt), laws)

A law of cloth, balls or cushion is one file in ``native/laws``: dropped in and built, it is listed here and may be
named in :class:`Laws`, in ``Twin(extras={"cushion_law": ...})`` and in a world's file.
"""

from cue_sim.laws.coefficients import EXTRAS, GIVEN, HOP_HEIGHT, SLATE_RESTITUTION, Laws, lift_off_speed
from cue_sim.laws.evaluate import (
    BallImpact,
    BallOutcome,
    ClothMotion,
    ClothOutcome,
    CueStroke,
    CushionImpact,
    CushionOutcome,
    StrikeOutcome,
)
from cue_sim.laws.library import SLOTS, KernelError
from cue_sim.laws.registry import Law, NativeLaw, available, find
from cue_sim.laws.rows import COLUMNS, knobs_of

__all__ = [
    "COLUMNS",
    "EXTRAS",
    "GIVEN",
    "HOP_HEIGHT",
    "SLATE_RESTITUTION",
    "SLOTS",
    "BallImpact",
    "BallOutcome",
    "ClothMotion",
    "ClothOutcome",
    "CueStroke",
    "CushionImpact",
    "CushionOutcome",
    "KernelError",
    "Law",
    "Laws",
    "NativeLaw",
    "StrikeOutcome",
    "available",
    "find",
    "knobs_of",
    "lift_off_speed",
]
