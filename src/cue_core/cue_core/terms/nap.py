"""The nap of the cloth: rolling costs more along one direction than across it.

The factor on rolling friction is 1 + s cos(2 (direction - phi)), s the strength and phi where it is largest. Its two
parameters are s cos(2 phi) and s sin(2 phi), so that no strength is no special case.
"""

from __future__ import annotations

import numpy as np

from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import Knobs

_SOURCE = "rolling friction about 10 % less along one axis of a recorded carom table"


def _write(values: np.ndarray, knobs: Knobs) -> None:
    knobs.nap_x2 += values[:, 0]
    knobs.nap_y2 += values[:, 1]


TERM = Term(
    "nap",
    "rolling friction that depends on the direction",
    (
        Parameter(
            "nap_x2", "1", 0.0, -0.3, 0.3, "growth of rolling friction along x, less along y", _SOURCE, False, 0.05
        ),
        Parameter("nap_y2", "1", 0.0, -0.3, 0.3, "growth of it along the diagonal x = y", _SOURCE, False, 0.05),
    ),
    _write,
)
