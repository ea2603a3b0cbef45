"""Balls that are lighter or heavier than the others. Only their ratios show, so the cue ball is the measure."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import BALLS, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.mass_ratio *= values


TERM = Term(
    "ball_mass",
    "mass of each ball",
    tuple(
        Parameter(
            f"mass_ratio_{i}",
            "1",
            1.0,
            0.7,
            1.3,
            f"mass of ball {i} over what the twin has",
            "WPA: 156-170 g; UK bar: cue ball 94 g, others 116 g",
            False,
            0.05,
        )
        for i in range(BALLS)
    ),
    _write,
    belongs="ball",
    reference=(0,),
)
