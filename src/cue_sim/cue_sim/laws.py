"""Coefficients of the billiards laws; the laws themselves are ``native/cloth.c``, ``impact.c`` and ``cluster.c``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_core.parameters import PARAMETERS


@dataclass(frozen=True)
class Laws:
    """Coefficients of the laws, SI: the twin's parameters, then effects that only hidden worlds have.

    Attributes:
        gravity: [m/s^2].
        ball_friction_floor: friction between balls at high slip.
        ball_friction_decay: [s/m]; the friction falls from ``ball_friction`` to the floor as exp(-decay slip).
        rolling_slope: [s/m] relative growth of rolling friction with speed.
        nap: relative growth of rolling friction along x, the same decrease along y.
        cushion_offset: (6,) added to the restitution of each cushion, in the order of ``table.cushions``.
    """

    sliding_friction: float
    rolling_friction: float
    spinning_deceleration: float
    ball_restitution: float
    ball_friction: float
    cushion_restitution: float
    cushion_restitution_slope: float
    cushion_friction: float
    tip_restitution: float
    tilt_x: float
    tilt_y: float
    gravity: float = 9.81
    ball_friction_floor: float = 0.0
    ball_friction_decay: float = 0.0
    rolling_slope: float = 0.0
    nap: float = 0.0
    cushion_offset: tuple[float, ...] = (0.0,) * 6

    def __post_init__(self) -> None:
        """Refuse a wrong count of cushions, and a cloth on which nothing comes to rest.

        Raises:
            OutOfRangeError: naming the coefficient.
            FileFormatError: cushion offsets are not six.
        """
        if len(self.cushion_offset) != 6:
            raise FileFormatError("laws", f"cushion_offset needs 6 values, got {len(self.cushion_offset)}")
        for name in ("sliding_friction", "rolling_friction"):
            value = getattr(self, name)
            if not np.isnan(value):  # a NaN is reported as a fault of the simulation
                finite_in(name, value, 1e-5, 10.0)

    @classmethod
    def from_parameters(cls, values: np.ndarray, **extras: Any) -> Laws:
        """Build from a (P,) vector in the order of ``PARAMETERS``; ``extras`` are the fields beyond.

        Raises:
            FileFormatError: the vector has another length.
        """
        values = np.asarray(values, float)
        if values.shape != (len(PARAMETERS),):
            raise FileFormatError("parameter vector", f"has shape {values.shape}, needs ({len(PARAMETERS)},)")
        named: dict[str, Any] = dict(zip(PARAMETERS, map(float, values), strict=True))
        return cls(**named, **extras)

    def array(self) -> np.ndarray:
        """Return the (22,) coefficients in the order of ``cue_laws``."""
        flat: list[float] = []
        for item in fields(self):
            value = getattr(self, item.name)
            flat.extend(value if item.name == "cushion_offset" else (value,))
        return np.array(flat, float)
