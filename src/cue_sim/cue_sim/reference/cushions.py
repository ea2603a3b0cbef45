"""Laws of the cushion by name, written anew from their papers; each takes a ball to what leaves the nose.

The default, Coulomb friction at a rigid nose, is :func:`.impacts.ball_on_nose`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from cue_core.errors import UnknownNameError
from cue_sim.laws import Laws
from cue_sim.reference.impacts import Body, ball_on_nose, cushion_restitution, limited, own_parameters
from cue_sim.reference.integrated import nose_mathavan2010

NoseLaw = Callable[[Body, np.ndarray, int, Laws], Body]
"""Ball, (3,) normal from its centre to the rubber, cushion's index, coefficients: the ball afterwards."""


def nose_coulomb(ball: Body, normal: np.ndarray, cushion: int, laws: Laws) -> Body:
    """Restitution and Coulomb friction at a rigid nose."""
    return ball.struck(ball.radius * normal, ball_on_nose(ball, normal, cushion, laws))


def nose_han2005(ball: Body, normal: np.ndarray, cushion: int, laws: Laws) -> Body:
    """The rigid nose with restitution and friction as Han measured them.

    They change with the level speed V into the cushion and with the angle of incidence, eqs. 26 and 27 of J. Mech. Sci.
    Tech. 19 (2005); the table's coefficients are their values at 1 m/s and at 45 degrees.
    """
    own = own_parameters(laws, "cushion")
    level = normal[:2] / math.hypot(normal[0], normal[1])
    into = float(ball.velocity[:2] @ level)
    along = abs(float(ball.velocity[0] * level[1] - ball.velocity[1] * level[0]))

    def measured_restitution(speed: float) -> float:
        linear, square = own["restitution_linear"], own["restitution_quadratic"]
        if square < 0:
            speed = min(speed, max(0.0, -linear / (2 * square)))  # beyond its top, the end of the data, it stays
        return own["restitution_constant"] + linear * speed + square * speed**2

    def measured_friction(incidence: float) -> float:
        return max(0.0, own["friction_constant"] - own["friction_linear"] * incidence)

    e = cushion_restitution(laws, cushion, into) * measured_restitution(into) / measured_restitution(1.0)
    mu = laws.cushion_friction * measured_friction(math.atan2(along, into)) / measured_friction(math.pi / 4)
    velocity = ball.point_velocity(ball.radius * normal)
    approach = float(velocity @ normal)
    slip = velocity - approach * normal
    push = ball.mass * (1 + min(max(e, 0.0), 1.0)) * approach
    impulse = -push * normal + limited(-2 / 7 * ball.mass * slip, slip, mu * push)
    return ball.struck(ball.radius * normal, impulse)


def nose_stronge(ball: Body, normal: np.ndarray, cushion: int, laws: Laws) -> Body:
    """Springs along and across the normal, the latter held by Coulomb friction (Stronge, Impact Mechanics, ch. 5).

    In units of the mass, the approach and the normal spring's frequency the normal force is sin(t) until pi/2, then it
    falls as a cosine e times as fast. Across it the slip v of the surface and the spring's force f obey dv/dt = -7/2 f;
    the contact sticks, df/dt = v / compliance, until f is the friction's limit mu N, and slips at that limit until the
    slip beyond the spring's own motion is gone.
    """
    velocity = ball.point_velocity(ball.radius * normal)
    approach = float(velocity @ normal)
    slip = velocity - approach * normal
    size = float(np.linalg.norm(slip))
    e = min(cushion_restitution(laws, cushion, approach / math.hypot(normal[0], normal[1])), 1.0)
    unit = ball.mass * approach
    impulse = -(1 + e) * unit * normal
    if size > 0:
        compliance = own_parameters(laws, "cushion")["compliance_ratio"]
        impulse -= unit * _held_by_springs(size / approach, laws.cushion_friction, e, compliance) * slip / size
    return ball.struck(ball.radius * normal, impulse)


class _Springs(NamedTuple):
    """The contact while its normal spring is squeezed, or lets go; ``load``: the normal force, ``change``: its rate."""

    duration: float
    load: Callable[[float], float]
    change: Callable[[float], float]
    mu: float
    compliance: float


def _held_by_springs(slip: float, mu: float, e: float, compliance: float) -> float:
    """Impulse against the slip, both over the approach."""
    quarter = math.pi / 2
    squeezed = _Springs(quarter, math.sin, math.cos, mu, compliance)
    let_go = _Springs(e * quarter, lambda t: math.cos(t / e), lambda t: -math.sin(t / e) / e, mu, compliance)
    y = np.array([slip, 0.0, 0.0])  # slip of the surface, force of the spring, impulse
    sticks, side = slip / compliance <= mu, 1.0
    for springs in (squeezed, let_go):
        time = 0.0
        while time < springs.duration:
            solved = solve_ivp(
                _rates,
                (time, springs.duration),
                y,
                "DOP853",
                events=_turns,
                args=(springs, sticks, side),
                rtol=1e-10,
                atol=1e-13,
            )
            y = solved.y[:, -1]
            if solved.status == 1:
                sticks = not sticks and solved.t[-1] > time  # what turns at once cannot stick
                side = math.copysign(1.0, y[1])
            time = float(solved.t[-1])
    return float(y[2])


def _rates(t: float, y: np.ndarray, springs: _Springs, sticks: bool, side: float) -> list[float]:
    return [-3.5 * y[1], y[0] / springs.compliance if sticks else side * springs.mu * springs.change(t), y[1]]


def _turns(t: float, y: np.ndarray, springs: _Springs, sticks: bool, side: float) -> float:
    """Falls to zero when friction can hold a sticking contact no longer, or a slip no longer outruns the spring."""
    if sticks:
        return springs.mu * springs.load(t) - abs(y[1])
    return side * y[0] / springs.compliance - springs.mu * springs.change(t)


_turns.terminal, _turns.direction = True, -1  # type: ignore[attr-defined]


CUSHION_LAWS: dict[str, NoseLaw] = {
    "coulomb": nose_coulomb,
    "han2005": nose_han2005,
    "mathavan2010": nose_mathavan2010,
    "stronge": nose_stronge,
}


def nose_law(name: str) -> NoseLaw:
    """Return a cushion law by name.

    Raises:
        UnknownNameError: the reference has none of that name.
    """
    if name not in CUSHION_LAWS:
        raise UnknownNameError("cushion law of the reference", name, CUSHION_LAWS)
    return CUSHION_LAWS[name]
