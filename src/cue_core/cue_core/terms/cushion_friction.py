"""Friction of a ball at a cushion's nose."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.cushion_friction[:] = values[:, 0]


TERM = Term(
    "cushion_friction",
    "friction at the cushions' noses",
    (Parameter("cushion_friction", "1", 0.20, 0.0, 0.50, "ball on cushion nose", "Mathavan 2010"),),
    _write,
)
