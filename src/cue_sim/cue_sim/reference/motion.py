"""How a ball moves on the cloth between two events: pieces on which its path is a quadratic in time.

The plane of the table is the complex plane: a place, a velocity, a slip is x + iy. So is the leaning part of a spin,
w = w_x + i w_y; the spin about the vertical stands apart, for nothing but its own decay changes it on the cloth.
The cloth touches the ball at its lowest point, which moves with the slip

    u = v + i R w.

A ball **slides** while u is not zero, **rolls** when only v is not, else **spins** or **rests**. Sliding and rolling
obey one equation: something, called y here, is pulled against its own direction by friction and along the slope of
the bed, until it is gone,

    dy/dt = -drag y/|y| + push,

    sliding:  y = u,  drag = 7/2 mu_s g,  push = g tilt,       v = v0 + 2/7 (y - y0) + 5/7 g tilt t
    rolling:  y = v,  drag = 5/7 mu_r g,  push = 5/7 g tilt,   v = y

(Alciatore, billiards.colostate.edu, TP 4.1 and B.8). On a level bed y keeps its direction: |y| falls evenly, the phase
is one piece and its quadratic exact. On a tilted bed y turns, and a rolling friction that grows with speed changes its
pull, as does uneven cloth: there is no such form then, and the phase is cut into short pieces, each a quadratic through
the exact ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from scipy.interpolate import NdBSpline

from cue_core.errors import CueError, UnknownNameError
from cue_core.terms import FIELD
from cue_sim.laws import Laws

Curve = tuple[complex, complex, complex]
"""A path in the plane: place = c0 + c1 t + c2 t^2 [m]."""

PIECE_ERROR = 1e-9
"""How far [m] a piece of a curved phase may be from the true path between its ends."""
LONGEST_PIECE = 0.02
"""Way [m] of a ball on uneven cloth in one piece: much less than the distance of the field's nodes."""
_LAST_PIECE = 1e-3  # s: a curved phase that ends sooner has no time left to turn (it ends within 0.1 um)
_STILL = 1e-12  # m/s: slower is rounding


class SteepBedError(CueError):
    """The bed is steeper than its cloth's rolling friction, so balls would never come to rest."""

    def __init__(self, tilt: float, friction: float) -> None:
        """Name both sides."""
        super().__init__(
            f"the bed's tilt is {tilt:g} rad, its rolling friction {friction:g}; the reference needs tilt < friction"
        )


class Phase(IntEnum):
    """What a ball does."""

    REST = 0
    SPINNING = 1
    ROLLING = 2
    SLIDING = 3


@dataclass(frozen=True)
class State:
    """A ball at one time.

    Attributes:
        place: x + iy of its centre [m].
        velocity: [m/s].
        lean: w_x + i w_y, the level part of its spin [rad/s].
        upright: w_z [rad/s].
    """

    place: complex
    velocity: complex
    lean: complex
    upright: float

    def slip(self, radius: float) -> complex:
        """Return the velocity of the ball's lowest point over the cloth [m/s]."""
        return self.velocity + 1j * radius * self.lean


@dataclass(frozen=True)
class Piece:
    """A stretch of a ball's motion with one law.

    Attributes:
        phase: sliding, rolling, spinning or resting.
        start: absolute time [s].
        duration: [s]; inf = for ever.
        state: at the start.
        bend: half the acceleration [m/s^2].
        twist: rate of ``lean`` [rad/s^2].
        fade: rate at which the upright spin's size falls [rad/s^2].
        end: the state in which the next piece begins.
    """

    phase: Phase
    start: float
    duration: float
    state: State
    bend: complex
    twist: complex
    fade: float
    end: State

    def at(self, time: float) -> State:
        """Return the state at an absolute time within the piece [s]."""
        t, s = time - self.start, self.state
        if t == self.duration:
            return self.end
        place = s.place + (s.velocity + self.bend * t) * t
        return State(place, s.velocity + 2 * self.bend * t, s.lean + self.twist * t, _faded(s.upright, self.fade * t))

    def curve(self, time: float) -> Curve:
        """Return the path as a quadratic in the time after ``time`` [s, absolute]."""
        t, s = time - self.start, self.state
        return s.place + (s.velocity + self.bend * t) * t, s.velocity + 2 * self.bend * t, self.bend


class Field:
    """A smooth factor on rolling friction over the bed, as :mod:`cue_core.terms.cloth_field` defines it.

    Attributes:
        least: the factor is nowhere smaller.
    """

    def __init__(self, coefficients: Sequence[float], size: tuple[float, float]) -> None:
        """Take the (15,) logarithms at the nodes, x slowest, and length and width of the bed [m]."""
        inner = np.reshape(coefficients, FIELD)
        knots = [np.arange(-5.0, nodes + 5.0) for nodes in FIELD]  # in distances of the nodes, from the first one
        self._scale = [(nodes - 1) / length for nodes, length in zip(FIELD, size, strict=True)]
        self._surface = NdBSpline(tuple(knots), np.pad(inner, 3, mode="edge"), 3)
        self.least = math.exp(float(inner.min()))

    def factor(self, place: complex) -> float:
        """Return the factor at a place [m]."""
        at = (place.real * self._scale[0], place.imag * self._scale[1])
        nodes = [min(max(u + 0.5 * (n - 1), 0.0), n - 1.0) for u, n in zip(at, FIELD, strict=True)]
        return math.exp(float(self._surface(nodes)))


class Cloth:
    """The cloth's laws, as makers of pieces."""

    def __init__(self, laws: Laws, size: tuple[float, float] = (1.0, 1.0)) -> None:
        """Keep the coefficients; ``size`` of the bed [m], over which a field of rolling friction is spread.

        Raises:
            SteepBedError: a ball would not rest.
            UnknownNameError: another cloth law than "coulomb".
        """
        if laws.cloth_law != "coulomb":
            raise UnknownNameError("cloth law of the reference", laws.cloth_law, ["coulomb"])
        self.gravity = laws.gravity
        self.tilt = complex(laws.tilt_x, laws.tilt_y)
        self.sliding = laws.sliding_friction
        self.rolling = laws.rolling_friction
        self.rolling_slope = laws.rolling_slope
        self.nap = complex(laws.nap_x2, laws.nap_y2)
        self.field = Field(laws.cloth_field, size) if any(laws.cloth_field) else None
        self.fade = laws.spinning_deceleration
        least = self.rolling * (1 - abs(self.nap)) * (1.0 if self.field is None else self.field.least)
        if abs(self.tilt) >= least:
            raise SteepBedError(abs(self.tilt), least)

    def piece(self, state: State, radius: float, start: float) -> Piece:
        """Return the motion that begins in a state at an absolute time [s], for a ball of a radius [m]."""
        slip = state.slip(radius)
        if abs(slip) > _STILL:
            return self._sliding(state, slip, radius, start)
        if abs(state.velocity) > _STILL:
            return self._rolling(state, radius, start)
        still = State(state.place, 0j, 0j, state.upright)
        if state.upright != 0 and self.fade > 0:
            rest = State(state.place, 0j, 0j, 0.0)
            return Piece(Phase.SPINNING, start, abs(state.upright) / self.fade, still, 0j, 0j, self.fade, rest)
        return Piece(Phase.REST, start, math.inf, still, 0j, 0j, 0.0, still)

    def _sliding(self, state: State, slip: complex, radius: float, start: float) -> Piece:
        slope = self.gravity * self.tilt
        duration, slip_end, swept = self._pull(slip, Phase.SLIDING, state.place)
        v0, t = state.velocity, duration
        velocity = v0 + 2 / 7 * (slip_end - slip) + 5 / 7 * slope * t
        place = state.place + v0 * t + 2 / 7 * (swept - slip * t) + 5 / 14 * slope * t * t
        bend = (place - state.place - v0 * t) / (t * t)
        # friction moves the centre and, at the arm R below it, turns the ball: I dw/dt = R x friction, I = 2/5 m R^2
        twist = -2.5j / radius * (2 * bend - slope)
        end = State(place, velocity, (slip_end - velocity) / (1j * radius), _faded(state.upright, self.fade * t))
        return Piece(Phase.SLIDING, start, t, state, bend, twist, self.fade, end)

    def _rolling(self, state: State, radius: float, start: float) -> Piece:
        duration, velocity, swept = self._pull(state.velocity, Phase.ROLLING, state.place)
        place = state.place + swept
        bend = (swept - state.velocity * duration) / duration**2
        rolling = 1j / radius  # spin of a ball that rolls, for each m/s
        begin = State(state.place, state.velocity, rolling * state.velocity, state.upright)
        end = State(place, velocity, rolling * velocity, _faded(state.upright, self.fade * duration))
        return Piece(Phase.ROLLING, start, duration, begin, bend, rolling * 2 * bend, self.fade, end)

    def _drag(self, y: complex, phase: Phase, place: complex) -> float:
        if phase == Phase.SLIDING:
            return 3.5 * self.sliding * self.gravity
        friction = self.rolling * (1 + self.rolling_slope * abs(y))
        if self.nap != 0:
            friction *= 1 + (self.nap.conjugate() * y * y).real / abs(y) ** 2
        if self.field is not None:
            friction *= self.field.factor(place)
        return 5 / 7 * friction * self.gravity

    def _pull(self, y: complex, phase: Phase, place: complex) -> tuple[float, complex, complex]:
        """Follow dy/dt to its end, or for a piece: how long [s], y at the end, and the integral of y.

        Only rolling, where that integral is the way, depends on the place at which it begins.
        """
        push = self.gravity * self.tilt * (1 if phase == Phase.SLIDING else 5 / 7)
        size = abs(y)
        along = y / size
        left = size / (self._drag(y, phase, place) - (push * along.conjugate()).real)
        turns = abs((push * along.conjugate()).imag) > 1e-15 * self.gravity
        uneven = phase == Phase.ROLLING and self.field is not None
        changes = phase == Phase.ROLLING and (self.rolling_slope != 0 or uneven)
        if not (turns or changes) or left < _LAST_PIECE:
            return left, 0j, 0.5 * y * left

        def rate(y: complex, way: complex) -> complex:
            return push - self._drag(y, phase, place + way) * y / abs(y)

        share = 2 / 7 if phase == Phase.SLIDING else 1.0
        h = min(0.25 * left, LONGEST_PIECE / size) if uneven else 0.25 * left
        while True:
            end, swept = _runge_kutta(rate, y, h)
            # a quadratic through both ends of a path with a steady jerk j is off by up to 2/81 j h^3
            if 2 / 81 * share * abs(rate(end, swept) - rate(y, 0j)) * h * h <= PIECE_ERROR:
                return h, end, swept
            h *= 0.5


def _faded(upright: float, loss: float) -> float:
    return math.copysign(max(abs(upright) - loss, 0.0), upright)


def _runge_kutta(rate: Callable[[complex, complex], complex], y: complex, h: float) -> tuple[complex, complex]:
    """One step of order four of dy/dt = rate(y, integral of y): y after h, and the integral."""
    k1 = rate(y, 0j)
    y2 = y + 0.5 * h * k1
    k2 = rate(y2, 0.5 * h * y)
    y3 = y + 0.5 * h * k2
    k3 = rate(y3, 0.5 * h * y2)
    k4 = rate(y + h * k3, h * y3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), h * y + h * h / 6 * (k1 + k2 + k3)
