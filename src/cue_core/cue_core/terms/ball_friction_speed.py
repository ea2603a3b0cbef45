"""Friction between balls that falls with slip, as measured: 0.00995 + 0.108 exp(-1.088 v)."""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import SPEED_DECAY, Knobs


def _write(values: np.ndarray, knobs: Knobs) -> None:
    falls = values[:, 0] != 0
    knobs.ball_friction_floor[falls] = ((1 - values[:, 0]) * knobs.ball_friction)[falls]
    knobs.ball_friction_decay[falls] = SPEED_DECAY


TERM = Term(
    "ball_friction_speed",
    "friction between balls that falls with slip",
    (
        Parameter(
            "ball_friction_fall",
            "1",
            0.0,
            -0.3,
            1.0,
            f"share of it that is gone at high slip, as exp(-{SPEED_DECAY} v)",
            "0.92 (Alciatore TP A-14)",
            False,
            0.3,
        ),
    ),
    _write,
)
