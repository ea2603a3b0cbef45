"""What goes into a law and what comes out, in plain local coordinates: for tests, diagrams and teaching.

An impact is seen from above, in level axes of its own: y points from the ball into the nose (or from ball 0 to ball 1),
x to the right of one who looks along y, z up. Arrays may have any leading axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_core.parameters import PARAMETERS, Parameter, nominal_values
from cue_core.shots import Shot, Stroke
from cue_core.table import TableModel
from cue_sim.laws.library import load

if TYPE_CHECKING:
    from cue_sim.laws.coefficients import Laws
    from cue_sim.laws.registry import Law, NativeLaw


@dataclass(frozen=True)
class CushionImpact:
    """A ball at the nose of a cushion.

    Attributes:
        velocity: (..., 2) along the nose and into it [m/s]; a ball that does not approach stays as it is.
        spin: (..., 3) [rad/s].
        radius: [m].
        mass: [kg].
        tilt: of the contact normal above the horizontal [rad]; see :func:`cue_sim.geometry.contact_tilt`.
    """

    velocity: np.ndarray
    spin: np.ndarray
    radius: float
    mass: float
    tilt: float


@dataclass(frozen=True)
class CushionOutcome:
    """The ball just afterwards.

    Attributes:
        velocity: (..., 2) [m/s].
        spin: (..., 3) [rad/s].
        nose: (..., 3) impulse of the nose on the ball [N s].
        slate: (..., 3) impulse of the slate on it: friction, and the push that holds the ball's height.
    """

    velocity: np.ndarray
    spin: np.ndarray
    nose: np.ndarray
    slate: np.ndarray


@dataclass(frozen=True)
class BallImpact:
    """Two balls that touch; ball 1 lies along +y of ball 0.

    Attributes:
        velocity: (..., 2, 2) of each ball [m/s].
        spin: (..., 2, 3) of each ball [rad/s].
        radii: of both [m].
        masses: of both [kg].
    """

    velocity: np.ndarray
    spin: np.ndarray
    radii: tuple[float, float]
    masses: tuple[float, float]


@dataclass(frozen=True)
class BallOutcome:
    """The two balls just afterwards.

    Attributes:
        velocity: (..., 2, 2) [m/s].
        spin: (..., 2, 3) [rad/s].
        contact: (..., 3) impulse of ball 0 on ball 1 [N s].
        slate: (..., 2, 3) impulse of the slate on each ball.
    """

    velocity: np.ndarray
    spin: np.ndarray
    contact: np.ndarray
    slate: np.ndarray


@dataclass(frozen=True)
class ClothMotion:
    """A ball on the cloth, table axes, and for how long it moves on.

    Attributes:
        position: (..., 2) [m].
        velocity: (..., 2) [m/s].
        spin: (..., 3) [rad/s].
        time: (...) [s]; one number serves all.
        radius: [m].
    """

    position: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray
    time: np.ndarray | float
    radius: float


@dataclass(frozen=True)
class ClothOutcome:
    """The ball when the time is over: ``position`` (..., 2) m, ``velocity`` (..., 2) m/s, ``spin`` (..., 3) rad/s."""

    position: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray


@dataclass(frozen=True)
class CueStroke:
    """A cue that meets the resting cue ball of a table."""

    stroke: Stroke | Shot
    table: TableModel


@dataclass(frozen=True)
class StrikeOutcome:
    """The cue ball just after the tip has left it, table axes: ``velocity`` (2,) m/s, ``spin`` (3,) rad/s."""

    velocity: np.ndarray
    spin: np.ndarray


def evaluate(law: NativeLaw, before: Any, laws: Laws) -> Any:
    """Return what a native law makes of ``before``; see :meth:`NativeLaw.__call__`."""
    if getattr(laws, f"{law.slot}_law") != law.name:
        choice: dict[str, Any] = {f"{law.slot}_law": law.name, f"{law.slot}_parameters": {}}
        laws = replace(laws, **choice)
    vector = laws.array()
    if law.slot == "cushion" and isinstance(before, CushionImpact):
        return _cushion(before, vector)
    if law.slot == "ball" and isinstance(before, BallImpact):
        return _ball(before, vector)
    if law.slot == "cloth" and isinstance(before, ClothMotion):
        return _cloth(before, vector)
    wanted = {"cushion": CushionImpact, "ball": BallImpact, "cloth": ClothMotion}[law.slot].__name__
    raise FileFormatError(f"{law.slot} law {law.name!r}", f"takes a {wanted}, got a {type(before).__name__}")


def _rows(where: str, array: Any, shape: tuple[int, ...], leading: tuple[int, ...] | None = None) -> np.ndarray:
    """Return a fresh contiguous copy, after checking the trailing shape and the leading one."""
    out = np.array(array, float, order="C")
    depth = out.ndim - len(shape)
    if depth < 0 or out.shape[depth:] != shape or (leading is not None and out.shape[:depth] != leading):
        want = f"{leading or '(...)'} + {shape}"
        raise FileFormatError(where, f"has shape {out.shape}, needs {want}")
    return out


def _body(radius: float, mass: float) -> None:
    finite_in("radius", radius, 1e-3, 1.0, "m")
    finite_in("mass", mass, 1e-3, 100.0, "kg")


def _cushion(before: CushionImpact, laws: np.ndarray) -> CushionOutcome:
    _body(before.radius, before.mass)
    finite_in("tilt", before.tilt, -1.5, 1.5, "rad")
    velocity = _rows("velocity", before.velocity, (2,))
    lead = velocity.shape[:-1]
    spin = _rows("spin", before.spin, (3,), lead)
    nose, slate = np.zeros((*lead, 3)), np.zeros((*lead, 3))
    load().cue_evaluate_cushion(
        laws.ctypes.data,
        velocity.size // 2,
        before.mass,
        before.radius,
        before.tilt,
        *(a.ctypes.data for a in (velocity, spin, nose, slate)),
    )
    return CushionOutcome(velocity, spin, nose, slate)


def _ball(before: BallImpact, laws: np.ndarray) -> BallOutcome:
    velocity = _rows("velocity", before.velocity, (2, 2))
    lead = velocity.shape[:-2]
    spin = _rows("spin", before.spin, (2, 3), lead)
    masses, radii = _rows("masses", before.masses, (2,), ()), _rows("radii", before.radii, (2,), ())
    for ball in range(2):
        _body(radii[ball], masses[ball])
    contact, slate = np.zeros((*lead, 3)), np.zeros((*lead, 2, 3))
    load().cue_evaluate_ball(
        laws.ctypes.data,
        velocity.size // 4,
        *(a.ctypes.data for a in (masses, radii, velocity, spin, contact, slate)),
    )
    return BallOutcome(velocity, spin, contact, slate)


def _cloth(before: ClothMotion, laws: np.ndarray) -> ClothOutcome:
    finite_in("radius", before.radius, 1e-3, 1.0, "m")
    position = _rows("position", before.position, (2,))
    lead = position.shape[:-1]
    velocity, spin = _rows("velocity", before.velocity, (2,), lead), _rows("spin", before.spin, (3,), lead)
    time = np.ascontiguousarray(np.broadcast_to(np.asarray(before.time, float), lead))
    if not np.all(time >= 0):
        raise FileFormatError("time", "must be seconds from 0 on")
    load().cue_evaluate_cloth(
        laws.ctypes.data,
        position.size // 2,
        before.radius,
        *(a.ctypes.data for a in (time, position, velocity, spin)),
    )
    return ClothOutcome(position, velocity, spin)


@dataclass(frozen=True)
class RigidCue:
    """The strike (:mod:`cue_sim.strike`); fulfils :class:`Law`.

    It acts before the simulation starts and is the only one, so ``Laws`` has no field to choose it. In the hidden
    worlds an arm strikes with an elastic tip instead, and this law is then an approximation.
    """

    slot: str = "strike"
    name: str = "rigid_cue"
    source: str = "Alciatore, billiards.colostate.edu, TP A.30 and A.31"
    description: str = "a heavy rigid cue whose tip does not slip, with tip restitution and squirt"
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)

    def __call__(self, before: CueStroke, laws: Laws, /) -> StrikeOutcome:
        """Return the cue ball's motion; of ``laws`` only ``tip_restitution`` counts.

        Raises:
            OutOfRangeError: an offset beyond the miscue limit, or a speed that no cue has.
        """
        from cue_sim.strike import strike

        vector = nominal_values()
        vector[list(PARAMETERS).index("tip_restitution")] = laws.tip_restitution
        return StrikeOutcome(*strike(vector, before.table, before.stroke))


STRIKES: Mapping[str, Law] = MappingProxyType({"rigid_cue": RigidCue()})
"""Laws of the slot "strike" by name."""
