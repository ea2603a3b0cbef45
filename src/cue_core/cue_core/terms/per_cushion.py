"""Cushions that differ in their restitution from each other."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import CUSHIONS, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.cushion_offset += values


TERM = Term(
    "per_cushion",
    "restitution of each cushion apart",
    tuple(
        Parameter(
            f"cushion_offset_{i}",
            "1",
            0.0,
            -0.1,
            0.1,
            f"added to the restitution of cushion {i}, in the order of the table's cushions",
            "cushions of a recorded carom table differ by up to 0.016",
            False,
            0.02,
        )
        for i in range(CUSHIONS)
    ),
    _write,
    belongs="cushion",
)
