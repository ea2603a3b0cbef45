"""Balls that touch or nearly do: a blow runs through them, and no order of two-body impacts tells how.

On the time scale of a contact (0.3 ms) the balls travel by less than a millimetre, and they are springs. Each contact c
is squeezed by s_c and pushes with Hertz's force, of which it gives back e^2 of the work on the way out; across it acts
Coulomb friction. With J the contacts' directions, M the balls' masses and inertias, v = J V the velocities at the
contacts and P the impulses that have flowed through them so far,

    ds_c/dt = -v_c . n_c          dP_c/dt = f_c (n_c - mu slip_c / |slip_c|)          v = v_0 + (J M^-1 J^T) P
    f_c = k_c s_c^(3/2) (1 on the way in, e^2 on the way out)

integrated until the last contact is open. One pair alone leaves with the restitution e. A pair with a gap takes part
from the moment when the balls, on their way meanwhile, have closed it; n_c is the normal of that moment. (Hertz's
contact: Johnson, Contact Mechanics, 1985; chains of balls: Herrmann and Seitz, Am. J. Phys. 50, 1982.)

A cushion's rubber is a hundred times slower than the balls: they have parted before it answers, so the blow of a ball
that is frozen to a cushion is that of the balls first, and of the cushion after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from cue_core.errors import CueError
from cue_sim.laws import Laws
from cue_sim.reference.impacts import Body, point_directions

_STIFFNESS = 5.84e9 / (1 - 0.34**2)
"""E / (1 - nu^2) of phenolic resin [Pa]; Crown, on collisions of phenolic resin spheres."""
_NEIGHBOURHOOD = 2.94
"""Gaps of so many greatest squeezes may be closed by a blow: the duration of a contact times the speed."""
_TURN = 1e-3
"""Speed, as a share of the blow's, over which force and friction change sides: a step would stop the integrator."""
_LONGEST = 200.0  # units of time; one contact lasts 2.94


class ClusterError(CueError):
    """The integration of a blow through touching balls failed."""


class Blow(NamedTuple):
    """The balls afterwards; per contact whether more than a trace of the blow ran through it, and whether any did."""

    bodies: list[Body]
    pushed: list[bool]
    reached: list[bool]


def squeeze(first: Body, second: Body, speed: float) -> float:
    """Return by how much two balls that meet at a speed [m/s] are squeezed [m] (Hertz)."""
    stiffness = 2 / 3 * _STIFFNESS * np.sqrt(_together(first.radius, second.radius))
    return float((1.25 * _together(first.mass, second.mass) * speed**2 / stiffness) ** 0.4)


def neighbourhood(first: Body, second: Body, speed: float) -> float:
    """Return up to which gap [m] other pairs may take part in the blow of two balls that meet at a speed [m/s]."""
    return _NEIGHBOURHOOD * squeeze(first, second, speed)


def blow(
    bodies: Sequence[Body],
    contacts: Sequence[tuple[int, int, np.ndarray]],
    laws: Laws,
    gaps: Sequence[float] | None = None,
) -> Blow:
    """Return what becomes of balls when a blow runs through them.

    Args:
        bodies: n balls, one of which comes.
        contacts: (first, second, (3,) normal from first to second) of the C pairs that touch or nearly do.
        laws: coefficients.
        gaps: (C,) of the pairs in plan view [m]; None = all touch.

    Raises:
        ClusterError: the integrator gave up.
    """
    wave = _Wave(bodies, contacts, laws, np.zeros(len(contacts)) if gaps is None else np.asarray(gaps, float))
    after, impulse = wave.run()
    along = np.einsum("ck,ck->c", impulse, wave.normals) / wave.impulse
    return Blow(
        [Body(b.radius, b.mass, after[k, :3], after[k, 3:]) for k, b in enumerate(bodies)],
        (along > _TURN).tolist(),
        (along > 1e-12).tolist(),
    )


class _Wave:
    """The differential equation of a blow: in y stand the squeezes, the impulses, and the balls' shifts in plan view.

    Lengths are in greatest squeezes of the pair that is struck, times in those over its speed.
    """

    def __init__(
        self, bodies: Sequence[Body], contacts: Sequence[tuple[int, int, np.ndarray]], laws: Laws, gaps: np.ndarray
    ) -> None:
        self.bodies, self.contacts, self.laws = bodies, contacts, laws
        self.count, self.n = len(contacts), len(bodies)
        self.first, self.second = (np.array([c[k] for c in contacts]) for k in (0, 1))
        self.normals = np.array([normal for _, _, normal in contacts], float)
        self.motion = np.concatenate([np.concatenate([b.velocity, b.spin]) for b in bodies])
        self.inverse = np.concatenate([np.repeat([1 / b.mass, 1 / b.inertia], 3) for b in bodies])
        self.met = gaps <= 0.0
        self._point()
        approach = -np.einsum("ck,ck->c", self.before.reshape(self.count, 3), self.normals)
        struck = int(np.where(self.met, approach, -np.inf).argmax())
        self.speed = float(approach[struck])
        masses = np.array([_together(bodies[i].mass, bodies[j].mass) for i, j, _ in contacts])
        radii = np.array([_together(bodies[i].radius, bodies[j].radius) for i, j, _ in contacts])
        self.impulse = masses[struck] * self.speed
        self.stiffness = 1.25 * self.impulse * np.sqrt(radii / radii[struck])
        unit = squeeze(bodies[self.first[struck]], bodies[self.second[struck]], self.speed)
        self.reach = np.array([2 * np.sqrt(bodies[i].radius * bodies[j].radius) for i, j, _ in contacts]) / unit
        self.level = np.hypot(*self.normals.T[:2])
        self.apart = self.normals[:, :2] * ((self.reach + gaps / unit) / self.level)[:, None]

    def _point(self) -> None:
        """Work out what depends on the normals."""
        contacts = [(i, j, self.normals[c]) for c, (i, j, _) in enumerate(self.contacts)]
        self.directions = _directions(self.bodies, contacts)
        self.mobility = (self.directions * self.inverse) @ self.directions.T
        self.before = self.directions @ self.motion

    def _moving(self, impulse: np.ndarray) -> np.ndarray:
        """The (n, 6) velocities and spins after (3 C,) impulses."""
        return (self.motion + self.inverse * (self.directions.T @ impulse)).reshape(self.n, 6)

    def _plan(self, y: np.ndarray) -> np.ndarray:
        """The (C, 2) way from the first ball of each pair to its second."""
        shift = y[4 * self.count :].reshape(self.n, 2)
        return self.apart + shift[self.second] - shift[self.first]

    def rates(self, _time: float, y: np.ndarray) -> np.ndarray:
        impulse = y[self.count : 4 * self.count]
        velocity = (self.before + self.mobility @ impulse).reshape(self.count, 3)
        opening = np.einsum("ck,ck->c", velocity, self.normals)
        slip = velocity - opening[:, None] * self.normals
        size = np.sqrt(np.einsum("ck,ck->c", slip, slip))
        way_out = 0.5 + 0.5 * np.tanh(opening / (_TURN * self.speed))
        squeezed = np.where(self.met, np.maximum(y[: self.count], 0.0), 0.0)
        force = self.stiffness * squeezed**1.5 * (1 - (1 - self.laws.ball_restitution**2) * way_out)
        friction = _friction(self.laws, size) / np.hypot(size, _TURN * self.speed)
        push = force[:, None] * (self.normals - friction[:, None] * slip)
        closing = np.where(self.met, -opening, 0.0)
        return np.concatenate([closing / self.speed, push.ravel(), self._moving(impulse)[:, :2].ravel() / self.speed])

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the balls' (n, 6) velocities and spins when all contacts are open, and the (C, 3) impulses."""

        def opened(_time: float, y: np.ndarray) -> float:
            return float(y[: self.count][self.met].max()) - 1e-12

        def meets(_time: float, y: np.ndarray) -> float:
            gaps = np.hypot(*self._plan(y).T) - self.reach
            return float(np.where(self.met, np.inf, gaps).min(initial=1e9))

        for stop in (opened, meets):
            stop.terminal, stop.direction = True, -1  # type: ignore[attr-defined]
        scale = np.repeat([1.0, self.impulse, 1.0], [self.count, 3 * self.count, 2 * self.n])
        y, now = np.zeros(len(scale)), 0.0
        while True:
            solved = solve_ivp(
                self.rates, (now, _LONGEST), y, method="RK45", rtol=1e-9, atol=1e-10 * scale, events=(opened, meets)
            )
            if solved.status != 1:
                raise ClusterError(f"a blow through {self.n} balls did not end: {solved.message}")
            y, now = solved.y[:, -1], float(solved.t[-1])
            if len(solved.t_events[0]):
                impulse = y[self.count : 4 * self.count]
                return self._moving(impulse), impulse.reshape(self.count, 3)
            plan = self._plan(y)
            distance = np.hypot(*plan.T)
            closed = ~self.met & (distance - self.reach <= 1e-9)
            self.normals[closed, :2] = (self.level / distance)[closed, None] * plan[closed]
            self.met |= closed
            self._point()


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
