"""The cloth: sliding, rolling and spinning friction, alike everywhere and in every direction."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs

_ALCIATORE = "Alciatore, billiards.colostate.edu"


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.sliding_friction[:], knobs.rolling_friction[:], knobs.spinning_deceleration[:] = values.T


TERM = Term(
    "cloth",
    "friction of the cloth: sliding, rolling, spinning",
    (
        Parameter("sliding_friction", "1", 0.20, 0.05, 0.50, "ball on cloth, sliding", _ALCIATORE),
        Parameter("rolling_friction", "1", 0.010, 0.002, 0.030, "rolling deceleration / g times 7/5", _ALCIATORE),
        Parameter(
            "spinning_deceleration", "rad/s^2", 10.0, 2.0, 40.0, "decay of spin about the vertical", _ALCIATORE, False
        ),
    ),
    _write,
)
