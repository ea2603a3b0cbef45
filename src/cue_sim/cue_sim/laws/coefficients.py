"""Coefficients of the billiards laws, and which law fills each slot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS
from cue_core.terms import BALLS, CUSHIONS, FIELD, SHAPES, write
from cue_sim.laws.library import SLOTS
from cue_sim.laws.registry import NativeLaw, native, own_values
from cue_sim.laws.rows import COLUMNS, SHAPE, SIZE, knobs_of

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

    The first eleven have to be given; :class:`cue_core.terms.Knobs` says what they mean, and what the further fields
    mean that terms write into. Where a term and an extra are about the same, they add up.

    Attributes:
        gravity: [m/s^2].
        ball_friction_floor: friction between balls at high slip.
        ball_friction_decay: [s/m]; the friction falls from ``ball_friction`` to the floor as exp(-decay slip).
        rolling_slope: [s/m] relative growth of rolling friction with speed.
        nap_x2: relative growth of rolling friction along x, the same decrease along y.
        nap_y2: the same along the diagonals x = y and x = -y.
        cushion_offset: (6,) added to the restitution of each cushion, in the order of ``table.cushions``.
        nose_offset: (6,) [m] by which each cushion stands further into the table.
        mass_ratio: (16,) of each ball by id, to its mass in the twin.
        diameter_ratio: (16,) likewise.
        cloth_field: (15,) logarithm of a factor on rolling friction at nodes on the bed
            (:mod:`cue_core.terms.cloth_field`).
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
    nap_x2: float = 0.0
    nap_y2: float = 0.0
    cushion_offset: tuple[float, ...] = (0.0,) * CUSHIONS
    nose_offset: tuple[float, ...] = (0.0,) * CUSHIONS
    mass_ratio: tuple[float, ...] = (1.0,) * BALLS
    diameter_ratio: tuple[float, ...] = (1.0,) * BALLS
    cloth_field: tuple[float, ...] = (0.0,) * (FIELD[0] * FIELD[1])
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
            FileFormatError: a field of several numbers has too few or too many.
        """
        for name, what, low, high, unit in _MANY:
            given = getattr(self, name)
            if len(given) != SHAPE[name][0]:
                raise FileFormatError("laws", f"{name} needs {SHAPE[name][0]} values, got {len(given)}")
            for k, number in enumerate(given):
                finite_in(f"{name} of {what} {k}", number, low, high, unit)
        self._check("sliding_friction", 1e-5, 10.0)
        self._check("rolling_friction", 1e-5, 10.0)
        # whatever its direction and speed, a ball must roll and spin to rest
        self._check("spinning_deceleration", 1e-3, 1e4)
        self._check("rolling_slope", -0.08, 10.0)  # even at 12 m/s something is left
        for name in ("nap_x2", "nap_y2"):
            self._check(name, -0.9, 0.9)
        finite_in("strength of nap_x2 and nap_y2", math.hypot(self.nap_x2, self.nap_y2), 0.0, 0.9)
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
        nominal: dict[str, Any] = {name: PARAMETERS[name].nominal for name in GIVEN}
        row = cls(**nominal, **extras).array()[None]
        write(values[None], knobs_of(row))
        fields_of_terms = {}
        for name in _BY_TERMS:
            part = row[0, COLUMNS[name]].tolist()
            fields_of_terms[name] = tuple(part) if SHAPE[name] else part[0]
        return cls(**{**extras, **fields_of_terms})

    def array(self) -> np.ndarray:
        """Return the coefficients in the order of ``cue_laws``: what the kernel takes."""
        row = np.zeros(SIZE)
        laws = [self.law(slot) for slot in SLOTS]
        computed: dict[str, Any] = {
            "law": [law.index for law in laws],
            "own": np.ravel([own_values(law, getattr(self, f"{law.slot}_parameters")) for law in laws]),
        }
        for name, place in COLUMNS.items():
            row[place] = computed[name] if name in computed else getattr(self, name)
        return row


def lift_off_speed(row: np.ndarray) -> float:
    """Return the upward speed [m/s] beyond which a ball counts as airborne, from :meth:`Laws.array`."""
    return float(np.sqrt(2 * row[COLUMNS["gravity"]][0] * row[COLUMNS["hop_height"]][0]))


GIVEN = tuple(f.name for f in fields(Laws))[:11]
"""Names of the coefficients without which there are no laws."""
EXTRAS = tuple(f.name for f in fields(Laws) if f.name not in GIVEN)
"""Names of the further fields."""
_BY_TERMS = tuple(name for name in SHAPES if name in COLUMNS)
_MANY = (
    ("cushion_offset", "cushion", -1.0, 1.0, ""),
    ("nose_offset", "cushion", -0.01, 0.01, "m"),
    ("mass_ratio", "ball", 0.2, 5.0, ""),
    ("diameter_ratio", "ball", 0.8, 1.25, ""),
    ("cloth_field", "node", -3.0, 3.0, ""),
)
