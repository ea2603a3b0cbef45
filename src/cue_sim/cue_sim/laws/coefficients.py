"""Coefficients of the billiards laws, and which law fills each slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS
from cue_sim.laws.library import SLOTS
from cue_sim.laws.registry import NativeLaw, native, own_values

HOP_HEIGHT = 3e-3
"""Default of :attr:`Laws.hop_height` [m].

A rolling ball that strikes another one full is lifted by the friction between them, at most mu (1 + e)/2 of its speed.
With the largest friction measured, 0.08 (Alciatore), that is 2.8 mm at 3 m/s: ordinary play stays below, and a flight
of less than 0.05 s and a tenth of a radius changes little. Breaks and jump strokes go beyond.
"""
SLATE_RESTITUTION = 0.5
"""Default of :attr:`Laws.slate_restitution`: ball dropped on a table (Alciatore, billiards.colostate.edu)."""


@dataclass(frozen=True)
class Laws:
    """Coefficients of the laws, SI: the twin's parameters, then what goes beyond them.

    The twin's parameters are the first eleven; see :data:`cue_core.parameters.PARAMETERS` for their meaning.

    Attributes:
        gravity: [m/s^2].
        ball_friction_floor: friction between balls at high slip.
        ball_friction_decay: [s/m]; the friction falls from ``ball_friction`` to the floor as exp(-decay slip).
        rolling_slope: [s/m] relative growth of rolling friction with speed.
        nap: relative growth of rolling friction along x, the same decrease along y.
        cushion_offset: (6,) added to the restitution of each cushion, in the order of ``table.cushions``.
        cloth_law: name of the law in this slot; :func:`cue_sim.laws.available` lists the names.
        ball_law: likewise, between balls.
        cushion_law: likewise, at the nose. What ``cushion_restitution`` and ``cushion_friction`` mean depends on it:
            a value fitted with one law is not one for another.
        cloth_parameters: the law's own parameters by name; those not named keep their nominal values.
        ball_parameters: likewise.
        cushion_parameters: likewise.
        slate_restitution: share of a downward blow that the slate gives back, for ``AIRBORNE`` events.
        nose_slate_restitution: the same for what a nose presses down. It presses for milliseconds, many times as long
            as a ball bounces off slate, so nothing of it comes back: 0; a lively slate has more.
        hop_height: [m] the model keeps balls on the cloth; where the vertical impulse P of an impact would throw one
            higher than this, by (P/m)^2 / (2 g), an ``AIRBORNE`` event says so.
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
    cloth_law: str = "coulomb"
    ball_law: str = "coulomb"
    cushion_law: str = "coulomb"
    cloth_parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    ball_parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    cushion_parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    slate_restitution: float = SLATE_RESTITUTION
    nose_slate_restitution: float = 0.0
    hop_height: float = HOP_HEIGHT

    def __post_init__(self) -> None:
        """Refuse what no table has, and a law that is not there.

        Raises:
            OutOfRangeError: naming the coefficient, or the law's own parameter.
            UnknownNameError: no such law, or no such parameter of it; lists the valid names.
            FileFormatError: cushion offsets are not six.
        """
        if len(self.cushion_offset) != 6:
            raise FileFormatError("laws", f"cushion_offset needs 6 values, got {len(self.cushion_offset)}")
        for cushion, offset in enumerate(self.cushion_offset):
            finite_in(f"cushion_offset of cushion {cushion}", offset, -1.0, 1.0)
        self._check("sliding_friction", 1e-5, 10.0)
        self._check("rolling_friction", 1e-5, 10.0)
        # whatever its direction and speed, a ball must roll and spin to rest
        self._check("spinning_deceleration", 1e-3, 1e4)
        self._check("rolling_slope", 0.0, 10.0)
        self._check("nap", -0.9, 0.9)
        # the contacts' friction cones in the model are 1 wide
        for name in ("ball_friction", "ball_friction_floor", "cushion_friction"):
            self._check(name, 0.0, 1.0)
        for name in ("slate_restitution", "nose_slate_restitution"):
            self._check(name, 0.0, 1.0)
        self._check("ball_friction_decay", 0.0, 100.0)
        self._check("cushion_restitution_slope", -10.0, 10.0)
        self._check("tip_restitution", 0.0, 1.0)
        # slopes are small angles: sin and tan are taken as the angle itself
        for name in ("tilt_x", "tilt_y"):
            self._check(name, -0.5, 0.5)
        self._check("gravity", 0.1, 100.0)
        self._check("hop_height", 0.0, 1e3)
        for slot, coefficient in (("ball", "ball_restitution"), ("cushion", "cushion_restitution")):
            self._check(coefficient, 0.0, 1.0 if self.law(slot).dissipative else 10.0)
        for slot in SLOTS:
            own_values(self.law(slot), getattr(self, f"{slot}_parameters"))

    def _check(self, name: str, low: float, high: float) -> None:
        finite_in(name, getattr(self, name), low, high)

    def law(self, slot: str) -> NativeLaw:
        """Return the law that fills a slot, "cloth", "ball" or "cushion".

        Raises:
            UnknownNameError: no such slot.
        """
        if slot not in SLOTS:
            raise UnknownNameError("slot of these laws", slot, SLOTS)
        return native(slot, getattr(self, f"{slot}_law"))

    @classmethod
    def from_parameters(cls, values: np.ndarray, **extras: Any) -> Laws:
        """Build from a (P,) vector in the order of ``PARAMETERS``; ``extras`` are the fields beyond.

        Raises:
            FileFormatError: the vector has another length.
            UnknownNameError: an extra is no field; lists the valid names.
            OutOfRangeError: see the class.
        """
        values = np.asarray(values, float)
        if values.shape != (len(PARAMETERS),):
            raise FileFormatError("parameter vector", f"has shape {values.shape}, needs ({len(PARAMETERS)},)")
        for name in extras:
            if name not in EXTRAS:
                raise UnknownNameError("field of the laws", name, EXTRAS)
        named: dict[str, Any] = dict(zip(PARAMETERS, map(float, values), strict=True))
        return cls(**named, **extras)

    def array(self) -> np.ndarray:
        """Return the (52,) coefficients in the order of ``cue_laws``: what the kernel takes."""
        laws = [self.law(slot) for slot in SLOTS]
        own = [own_values(law, getattr(self, f"{law.slot}_parameters")) for law in laws]
        return np.concatenate(
            [
                [getattr(self, name) for name in _PLAIN],
                self.cushion_offset,
                [law.index for law in laws],
                *own,
                [self.slate_restitution, self.nose_slate_restitution, self.hop_height],
            ]
        )


def lift_off_speed(row: np.ndarray) -> float:
    """Return the upward speed [m/s] beyond which a ball counts as airborne, from :meth:`Laws.array`."""
    return float(np.sqrt(2 * row[len(PARAMETERS)] * row[-1]))


EXTRAS = tuple(f.name for f in fields(Laws) if f.name not in PARAMETERS)
"""Names of the fields beyond the twin's parameters."""
_PLAIN = tuple(f.name for f in fields(Laws))[: len(PARAMETERS) + 5]
