"""The gain of a stroke. A heavy tip makes (1 + e) of its speed the ball's, so one number says all of it."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.tip_restitution[:] = values[:, 0]


TERM = Term(
    "strike",
    "speed of the cue ball for that of the tip",
    (
        Parameter(
            "tip_restitution",
            "1",
            0.73,
            0.30,
            1.00,
            "between tip and cue ball",
            "Alciatore, billiards.colostate.edu",
        ),
    ),
    _write,
)
