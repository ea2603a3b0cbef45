"""The restitution that all cushions share."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.cushion_restitution[:] = values[:, 0]


TERM = Term(
    "cushions",
    "restitution of all cushions",
    (
        Parameter(
            "cushion_restitution",
            "1",
            0.85,
            0.40,
            1.00,
            "along the contact normal at the nose, at 1 m/s",
            "Mathavan 2010; Alciatore, billiards.colostate.edu",
        ),
    ),
    _write,
)
