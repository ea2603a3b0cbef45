"""Cloth that is slower in some places than in others: a smooth field over the bed.

The factor on rolling friction is exp(f), f a sum of tensor products of cubic B-splines at 5 x 3 nodes, from rail to
rail. Beyond the outermost nodes the coefficients repeat, so equal ones are an even factor. It is always positive.
"""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import FIELD, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.cloth_field += values


TERM = Term(
    "cloth_field",
    "rolling friction that differs from place to place",
    tuple(
        Parameter(
            f"cloth_field_{i}_{j}",
            "1",
            0.0,
            -0.7,
            0.7,
            f"logarithm of the factor on rolling friction at node {i} of {FIELD[0]} along x, {j} of {FIELD[1]} along y",
            "typical: worn and dirty places differ by some ten per cent",
            False,
            0.15,
        )
        for i in range(FIELD[0])
        for j in range(FIELD[1])
    ),
    _write,
)
