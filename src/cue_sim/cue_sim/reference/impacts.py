"""Two bodies meet: rigid impacts with restitution along the contact normal and Coulomb friction across it.

An impact is over before anything else moves. It is described by its impulse P; a ball of mass m and radius R that is
struck at the arm r from its centre leaves with

    v + P/m  (the level part: the cloth carries the upright part)        w + r x P / (2/5 m R^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cue_sim.laws import Laws
from cue_sim.reference.motion import State

SLOW = 2e-3
"""Approach [m/s] below which bodies that meet again and again hop; see :func:`rebound`."""
_SLOWEST = 5e-4
_LEVEL = np.array([1.0, 1.0, 0.0])


@dataclass(frozen=True)
class Body:
    """A ball in an impact.

    Attributes:
        radius: [m].
        mass: [kg].
        velocity: (3,) [m/s].
        spin: (3,) [rad/s], table axes.
    """

    radius: float
    mass: float
    velocity: np.ndarray
    spin: np.ndarray

    @classmethod
    def of(cls, state: State, radius: float, mass: float) -> Body:
        """Return the body of a ball on the cloth."""
        velocity = np.array([state.velocity.real, state.velocity.imag, 0.0])
        return cls(radius, mass, velocity, np.array([state.lean.real, state.lean.imag, state.upright]))

    def state(self, place: complex) -> State:
        """Return it as a ball on the cloth at a place [m]."""
        return State(place, complex(*self.velocity[:2]), complex(*self.spin[:2]), float(self.spin[2]))

    @property
    def inertia(self) -> float:
        """Return the moment of inertia of the solid sphere [kg m^2]."""
        return 0.4 * self.mass * self.radius**2

    def point_velocity(self, arm: np.ndarray) -> np.ndarray:
        """Return the (3,) velocity [m/s] of the ball's material at ``arm`` (3,) [m] from its centre."""
        return self.velocity + np.cross(self.spin, arm)

    def struck(self, arm: np.ndarray, impulse: np.ndarray) -> Body:
        """Return the ball after an ``impulse`` (3,) [N s] at ``arm`` (3,) [m]."""
        velocity = self.velocity + _LEVEL * impulse / self.mass
        return replace(self, velocity=velocity, spin=self.spin + np.cross(arm, impulse) / self.inertia)


def point_directions(arm: np.ndarray) -> np.ndarray:
    """Return the (3, 6) matrix that makes a ball's velocity and spin the velocity of its point at ``arm`` (3,) [m].

    It leaves out the ball's upright velocity, which the cloth keeps at zero.
    """
    x, y, z = arm
    turning = np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])
    return np.hstack([np.diag(_LEVEL), turning])


def rebound(approach: float, restitution: float, hops: bool = False) -> float:
    """Return the speed [m/s] at which two bodies part that met at the speed ``approach``.

    That is ``restitution`` times the approach, but for one case. A ball that its spin or the slope presses against
    something bounces ever lower and ever sooner, without end in a finite time. Where two bodies meet again within
    moments and below 2 mm/s, the impact is therefore elastic, and they part at 0.5 mm/s or more: the pressed ball
    ``hops`` on, a micrometre high, which passes on the same push and the same friction as the steady contact would.
    """
    return max(approach, _SLOWEST) if hops else restitution * approach


def ball_friction(laws: Laws, slip: float) -> float:
    """Return the coefficient of friction between balls at a slip [m/s] (Alciatore, TP A.14)."""
    floor = laws.ball_friction_floor
    if laws.ball_friction_decay == 0:
        return laws.ball_friction
    return floor + (laws.ball_friction - floor) * math.exp(-laws.ball_friction_decay * slip)


def cushion_restitution(laws: Laws, cushion: int, speed: float) -> float:
    """Return the restitution of a cushion for a speed across it in plan view [m/s]."""
    slope = laws.cushion_restitution_slope
    wanted = laws.cushion_restitution + laws.cushion_offset[cushion] + slope * (speed - 1.0)
    return min(max(wanted, 0.05), max(1.0, laws.cushion_restitution))


def own_parameters(laws: Laws, slot: str) -> dict[str, float]:
    """Return the own parameters of the law chosen for "ball" or "cushion"; those not given are nominal."""
    nominal = {name: item.nominal for name, item in laws.law(slot).parameters.items()}
    return {**nominal, **getattr(laws, f"{slot}_parameters")}


def ball_on_ball(first: Body, second: Body, normal: np.ndarray, laws: Laws, hops: bool = False) -> np.ndarray:
    """Return the impulse (3,) [N s] on the second of two balls that meet (Alciatore, TP A.5 and A.14).

    Args:
        first: ball.
        second: ball.
        normal: (3,) from the first's centre to the second's.
        laws: coefficients.
        hops: they are pressed together; see :func:`rebound`.
    """
    arms = first.radius * normal, -second.radius * normal
    velocity = second.point_velocity(arms[1]) - first.point_velocity(arms[0])
    approach = -float(velocity @ normal)
    slip = velocity + approach * normal
    lightness = 1 / first.mass + 1 / second.mass
    push = (approach + rebound(approach, laws.ball_restitution, hops)) / lightness
    # What would stop the slip: along the cloth an impulse moves and turns a ball (1 + 5/2 over m), up and down it only
    # turns it, for the cloth holds its height (5/2 over m).
    level = np.array([-normal[1], normal[0], 0.0]) / math.hypot(normal[0], normal[1])
    upright = np.cross(normal, level)
    stop = -(slip @ level) / (3.5 * lightness) * level - (slip @ upright) / (2.5 * lightness) * upright
    return push * normal + limited(stop, slip, ball_friction(laws, float(np.linalg.norm(slip))) * push)


def ball_on_nose(ball: Body, normal: np.ndarray, cushion: int, laws: Laws, hops: bool = False) -> np.ndarray:
    """Return the impulse (3,) [N s] of a cushion's nose on a ball: restitution and Coulomb friction at the nose.

    The rubber's edge lies above the ball's centre, so the normal rises from the ball into it. The blow is that of a
    free rigid sphere (after Mathavan, Jackson and Parkin, Proc. IMechE C 224, 2010), and its upright part goes into the
    slate.

    Args:
        ball: that comes.
        normal: (3,) from the ball's centre to the rubber.
        cushion: index.
        laws: coefficients.
        hops: they are pressed together; see :func:`rebound`.
    """
    velocity = ball.point_velocity(ball.radius * normal)
    approach = float(velocity @ normal)
    slip = velocity - approach * normal
    plan_speed = approach / math.hypot(normal[0], normal[1])
    push = ball.mass * (approach + rebound(approach, cushion_restitution(laws, cushion, plan_speed), hops))
    return -push * normal + limited(-2 / 7 * ball.mass * slip, slip, laws.cushion_friction * push)


def limited(stop: np.ndarray, slip: np.ndarray, limit: float) -> np.ndarray:
    """Return the friction's impulse: ``stop`` (3,) [N s] ends the slip; more than ``limit`` friction cannot give.

    Then it acts against the ``slip`` (3,) [m/s] that was there.
    """
    if np.linalg.norm(stop) <= limit:
        return stop
    return -limit * slip / np.linalg.norm(slip)
