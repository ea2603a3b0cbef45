"""Rolling friction that grows with speed."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.rolling_slope += values[:, 0]


TERM = Term(
    "rolling_slope",
    "rolling friction that grows with speed",
    (
        Parameter(
            "rolling_slope",
            "s/m",
            0.0,
            -0.05,
            0.8,
            "relative growth of rolling friction per m/s",
            "0.0040 + 0.0015 v on a recorded carom table: 0.375 s/m",
            False,
            0.15,
        ),
    ),
    _write,
)
