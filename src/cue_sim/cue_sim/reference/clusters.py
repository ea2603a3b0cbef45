"""Balls that touch beforehand: a blow runs through them, and no order of two-body impacts tells how.

On the time scale of a contact (0.2 ms) the balls do not travel, but they are springs. Each contact c is squeezed by
s_c and pushes with Hertz's force, of which it gives back e^2 of the work on the way out; across it acts Coulomb
friction. With J the contacts' directions, M the balls' masses and inertias, v = J V the velocities at the contacts and
P the impulses that have flowed through them so far,

    ds_c/dt = -v_c . n_c          dP_c/dt = f_c (n_c - mu slip_c / |slip_c|)          v = v_0 + (J M^-1 J^T) P
    f_c = k_c s_c^(3/2) (1 on the way in, e^2 on the way out)

integrated until the last contact is open. One pair alone leaves with the restitution e. The stiffness only sets the
clock, so it is chosen to make the greatest squeeze of the first blow and its time 1. (Hertz's contact: Johnson,
Contact Mechanics, 1985; chains of balls: Herrmann and Seitz, Am. J. Phys. 50, 1982.)

A cushion's rubber is a hundred times slower than the balls: they have parted before it answers, so the blow of a ball
that is frozen to a cushion is that of the balls first, and of the cushion after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.integrate import solve_ivp

from cue_core.errors import CueError
from cue_sim.laws import Laws
from cue_sim.reference.impacts import Body, point_directions

_TURN = 1e-3
"""Speed, as a share of the blow's, over which force and friction change sides: a step would stop the integrator."""
_LONGEST = 200.0  # units of time; one contact lasts 2.94


class ClusterError(CueError):
    """The integration of a blow through touching balls failed."""


def blow(
    bodies: Sequence[Body], contacts: Sequence[tuple[int, int, np.ndarray]], laws: Laws
) -> tuple[list[Body], list[bool]]:
    """Return the balls after a blow has run through their contacts, and which contacts it ran through.

    Args:
        bodies: n balls, one of which comes.
        contacts: (first, second, (3,) normal from first to second) of the C pairs that touch.
        laws: coefficients.

    Raises:
        ClusterError: the integrator gave up.
    """
    count, n = len(contacts), len(bodies)
    directions = _directions(bodies, contacts)
    motion = np.concatenate([np.concatenate([b.velocity, b.spin]) for b in bodies])
    inverse = np.concatenate([np.repeat([1 / b.mass, 1 / b.inertia], 3) for b in bodies])
    mobility = (directions * inverse) @ directions.T
    normals = np.array([normal for _, _, normal in contacts])
    before = directions @ motion

    approach = -np.einsum("ck,ck->c", before.reshape(count, 3), normals)
    speed = float(approach.max())
    masses = np.array([_together(bodies[i].mass, bodies[j].mass) for i, j, _ in contacts])
    radii = np.array([_together(bodies[i].radius, bodies[j].radius) for i, j, _ in contacts])
    struck = int(approach.argmax())
    stiffness = 1.25 * masses[struck] * speed * np.sqrt(radii / radii[struck])
    returned = laws.ball_restitution**2

    def rates(_time: float, y: np.ndarray) -> np.ndarray:
        squeeze, impulse = y[:count], y[count:]
        velocity = (before + mobility @ impulse).reshape(count, 3)
        opening = np.einsum("ck,ck->c", velocity, normals)
        slip = velocity - opening[:, None] * normals
        size = np.sqrt(np.einsum("ck,ck->c", slip, slip))
        way_out = 0.5 + 0.5 * np.tanh(opening / (_TURN * speed))
        force = stiffness * np.maximum(squeeze, 0.0) ** 1.5 * (1 - (1 - returned) * way_out)
        friction = _friction(laws, size) / np.hypot(size, _TURN * speed)
        push = force[:, None] * (normals - friction[:, None] * slip)
        return np.concatenate([-opening / speed, push.ravel()])

    def closed(_time: float, y: np.ndarray) -> float:
        return float(y[:count].max()) - 1e-12

    closed.terminal, closed.direction = True, -1  # type: ignore[attr-defined]
    scale = masses[struck] * speed
    solved = solve_ivp(
        rates,
        (0.0, _LONGEST),
        np.zeros(4 * count),
        method="RK45",
        rtol=1e-8,
        atol=np.concatenate([np.full(count, 1e-9), np.full(3 * count, 1e-9 * scale)]),
        events=closed,
    )
    if solved.status != 1:
        raise ClusterError(f"a blow through {n} touching balls did not end: {solved.message}")
    impulse = solved.y[count:, -1]
    after = (motion + inverse * (directions.T @ impulse)).reshape(n, 6)
    pushed = np.einsum("ck,ck->c", impulse.reshape(count, 3), normals) > _TURN * scale
    return [Body(b.radius, b.mass, after[k, :3], after[k, 3:]) for k, b in enumerate(bodies)], pushed.tolist()


def _directions(bodies: Sequence[Body], contacts: Sequence[tuple[int, int, np.ndarray]]) -> np.ndarray:
    """J, (3 C, 6 n): from all balls' velocities and spins to those of the second over the first at each contact."""
    out = np.zeros((len(contacts), 3, 6 * len(bodies)))
    for c, (i, j, normal) in enumerate(contacts):
        for ball, sign in ((i, -1.0), (j, 1.0)):
            own = slice(6 * ball, 6 * ball + 6)
            out[c, :, own] = sign * point_directions(-sign * bodies[ball].radius * normal)
    return out.reshape(3 * len(contacts), 6 * len(bodies))


def _friction(laws: Laws, slip: np.ndarray) -> np.ndarray:
    """Coefficient of friction of each contact at its slip [m/s]; see :func:`.impacts.ball_friction`."""
    floor = laws.ball_friction_floor if laws.ball_friction_decay else laws.ball_friction
    return floor + (laws.ball_friction - floor) * np.exp(-laws.ball_friction_decay * slip)


def _together(first: float, second: float) -> float:
    """Reduced mass, and radius of the sphere on a plane, that stand for a pair."""
    return first * second / (first + second)
