"""Impacts followed from within: the laws of Mathavan, Jackson and Parkin, for the nose (2010) and for two balls (2014).

The impulse P that has flowed through the contact takes the place of time. At each moment Coulomb friction acts against
the slip that there is, at the contact, and at the slate under a ball that the contact presses down. The contact is
squeezed while the bodies approach, which takes work; it lets go until e^2 of that work is given back.

Sources: Proc. IMechE C 224 (2010) 1863-1873; Sports Engineering 17 (2014) 227-237.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.integrate import solve_ivp

from cue_core.errors import CueError
from cue_sim.laws import Laws
from cue_sim.reference.impacts import (
    Body,
    ball_friction,
    cushion_restitution,
    own_parameters,
    point_directions,
)

_TURN = 1e-4
"""Slip, as a share of the approach, over which friction changes sides: a step would stop the integrator."""
_UP = np.array([0.0, 0.0, 1.0])


class ImpactError(CueError):
    """The integration of an impact failed."""


def nose_mathavan2010(ball: Body, normal: np.ndarray, cushion: int, laws: Laws) -> Body:
    """Return a ball after its impact on a nose; arguments as :func:`.impacts.ball_on_nose`."""
    restitution = cushion_restitution(laws, cushion, float(ball.velocity @ normal) / float(np.hypot(*normal[:2])))
    slate = own_parameters(laws, "cushion")["slate_friction"]
    return _through([ball], normal, restitution, lambda _slip: laws.cushion_friction, slate)[0]


def pair_mathavan2014(first: Body, second: Body, normal: np.ndarray, laws: Laws) -> tuple[Body, Body]:
    """Return two balls after their impact; arguments as :func:`.impacts.ball_on_ball`."""
    slate = own_parameters(laws, "ball")["slate_friction"]
    after = _through([first, second], normal, laws.ball_restitution, lambda slip: ball_friction(laws, slip), slate)
    return after[0], after[1]


def _through(
    bodies: Sequence[Body], normal: np.ndarray, restitution: float, friction: Callable[[float], float], slate: float
) -> list[Body]:
    """Take a ball and a wall, or two balls, through their impact; ``normal`` runs from the first to the other.

    All velocities and spins are one vector V. With J the directions of a point, J V is its velocity, and an impulse P
    at it changes V by M^-1 J^T P.
    """
    n = len(bodies)
    contact = np.zeros((3, 6 * n))  # the first body's material at the contact, as seen from the second's
    feet = np.zeros((n, 3, 6 * n))  # each ball's lowest point
    for k, (body, sign) in enumerate(zip(bodies, (1.0, -1.0), strict=False)):
        own = slice(6 * k, 6 * k + 6)
        contact[:, own] = sign * point_directions(sign * body.radius * normal)
        feet[k, :, own] = point_directions(-body.radius * _UP)
    inverse = np.concatenate([np.repeat([1 / b.mass, 1 / b.inertia], 3) for b in bodies])
    moved_by_contact, moved_by_foot = inverse[:, None] * contact.T, inverse[:, None] * feet.transpose(0, 2, 1)
    approach = normal @ contact
    begin = np.concatenate([*(part for b in bodies for part in (b.velocity, b.spin)), [0.0]])
    speed = float(approach @ begin[:-1])

    def along(slip: np.ndarray) -> np.ndarray:
        # the unit vector of a slip, zero without slip, and smooth between
        return slip / math.sqrt(slip @ slip + (_TURN * speed) ** 2)

    def rates(_impulse: float, y: np.ndarray) -> np.ndarray:
        motion = y[:-1]
        closing = approach @ motion
        slip = contact @ motion - closing * normal
        push = -normal - friction(math.sqrt(slip @ slip)) * along(slip)
        change = moved_by_contact @ push
        for k, sign in enumerate((1.0, -1.0)[:n]):
            pressed = -sign * push[2]  # the slate pushes back what presses a ball down, and rubs
            if pressed > 0 and slate > 0:
                change -= moved_by_foot[k] @ (slate * pressed * along(feet[k] @ motion))
        return np.append(change, closing)  # the last one: the work done on the contact

    def parts(_impulse: float, y: np.ndarray) -> float:
        return float(approach @ y[:-1])

    scale = speed / sum(1 / b.mass for b in bodies)
    now = _until(parts, rates, begin, scale)
    kept = (1 - restitution**2) * float(now[-1])

    def is_over(_impulse: float, y: np.ndarray) -> float:
        return float(y[-1]) - kept

    if restitution > 0:
        now = _until(is_over, rates, now, scale)
    rows = now[:-1].reshape(n, 6)
    return [Body(b.radius, b.mass, row[:3], row[3:]) for b, row in zip(bodies, rows, strict=True)]


def _until(
    falls_to_zero: Callable[[float, np.ndarray], float],
    rates: Callable[[float, np.ndarray], np.ndarray],
    begin: np.ndarray,
    scale: float,
) -> np.ndarray:
    """Integrate over the impulse until a function of the state falls to zero; ``scale`` [N s] is about how far."""
    falls_to_zero.terminal, falls_to_zero.direction = True, -1  # type: ignore[attr-defined]
    solved = solve_ivp(rates, (0.0, 20 * scale), begin, "LSODA", events=falls_to_zero, rtol=1e-9, atol=1e-10)
    if solved.status != 1:
        raise ImpactError(f"an impact did not end: {solved.message}")
    return solved.y[:, -1]
