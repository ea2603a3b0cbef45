"""Cushions that do not stand where the table's plan has them."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import CUSHIONS, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.nose_offset += values


TERM = Term(
    "noses",
    "line of each cushion",
    tuple(
        Parameter(
            f"nose_offset_{i}",
            "m",
            0.0,
            -0.006,
            0.006,
            f"by which nose and jaws of cushion {i} stand further into the table",
            "nose lines of a recorded carom table are off by millimetres",
            False,
            0.001,
        )
        for i in range(CUSHIONS)
    ),
    _write,
    belongs="cushion",
)
