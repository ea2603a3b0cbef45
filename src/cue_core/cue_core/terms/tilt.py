"""A bed that is not level."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs

_LEVELLED = "a table is levelled with a spirit level of about 1 mm/m"


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.tilt_x[:], knobs.tilt_y[:] = values.T


TERM = Term(
    "tilt",
    "slope of the bed",
    tuple(
        Parameter(
            f"tilt_{axis}",
            "rad",
            0.0,
            -0.01,
            0.01,
            f"slope of the bed: positive accelerates a ball along +{axis}",
            _LEVELLED,
            prior_stddev=0.002,
        )
        for axis in "xy"
    ),
    _write,
)
