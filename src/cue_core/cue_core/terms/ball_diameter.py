"""Balls that are smaller or larger than the others; their mass is a term of its own."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import BALLS, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.diameter_ratio *= values


TERM = Term(
    "ball_diameter",
    "diameter of each ball",
    tuple(
        Parameter(
            f"diameter_ratio_{i}",
            "1",
            1.0,
            0.92,
            1.08,
            f"diameter of ball {i} over what the twin has",
            "WPA: within 0.13 mm of 57.15; UK bar: cue ball 47.6 mm, others 50.8 mm",
            False,
            0.005,
        )
        for i in range(BALLS)
    ),
    _write,
    belongs="ball",
)
