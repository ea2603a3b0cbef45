"""Rubber gives back less of a faster blow."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.cushion_restitution_slope[:] = values[:, 0]


TERM = Term(
    "cushion_slope",
    "change of the cushions' restitution with speed",
    (
        Parameter(
            "cushion_restitution_slope",
            "s/m",
            0.0,
            -0.25,
            0.10,
            "change of it per m/s of normal speed",
            "Alciatore, billiards.colostate.edu",
            prior_stddev=0.06,  # rubber loses a few per cent per m/s
        ),
    ),
    _write,
)
