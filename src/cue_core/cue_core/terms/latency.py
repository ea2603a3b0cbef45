"""A camera whose times are late."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.latency += values[:, 0]


TERM = Term(
    "latency",
    "delay of the camera against the strokes",
    (
        Parameter(
            "latency",
            "s",
            0.0,
            -0.1,
            0.1,
            "at time t the balls are seen where they were at t less this",
            "typical of USB cameras: 10-80 ms",
            False,
            0.02,
        ),
    ),
    _write,
)
