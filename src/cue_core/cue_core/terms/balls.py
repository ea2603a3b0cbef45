"""Impacts of two balls: restitution and friction."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.ball_restitution[:], knobs.ball_friction[:] = values.T


TERM = Term(
    "balls",
    "restitution and friction between balls",
    (
        Parameter("ball_restitution", "1", 0.95, 0.70, 1.00, "between balls", "Alciatore, billiards.colostate.edu"),
        Parameter("ball_friction", "1", 0.06, 0.0, 0.25, "between balls", "Alciatore TP A-14"),
    ),
    _write,
)
