"""A cue that does not point where its joints say."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.azimuth_bias += values[:, 0]


TERM = Term(
    "azimuth_bias",
    "error of the strokes' direction",
    (
        Parameter(
            "azimuth_bias",
            "rad",
            0.0,
            -0.05,
            0.05,
            "added to the azimuth of every stroke, anticlockwise",
            "typical of a hand-eye calibration",
            False,
            0.005,
        ),
    ),
    _write,
)
