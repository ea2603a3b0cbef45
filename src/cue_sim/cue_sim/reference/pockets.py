"""How a pocket takes a ball: over the drop it falls, and is gone unless a jaw turns it round in time.

A ball whose centre has been past the drop's edge for a time t lies d = g t^2 / 2 deep and leans against the edge by
beta, cos(beta) = 1 - d/R. To get out again, the blow on the edge must leave it the speed g t with which it climbs d:

    v cos(beta) - g t sin(beta) >= g t.

It is gone as soon as that fails, and at the latest when it meets the liner: when all of it is over the hole, or its
centre is past the hole's middle. (A model of this project; its other half is ``native/pocket.c``.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from cue_core.table import Pocket
from cue_sim.reference.motion import Curve
from cue_sim.reference.roots import first_fall


@dataclass(frozen=True)
class Drop:
    """A pocket's hole, for balls of one radius.

    Attributes:
        place: of its middle [m].
        edge: radius of the drop's edge [m].
        inner: a ball whose centre is nearer to the middle is over the hole with all of itself [m].
        outwards: unit vector away from the table.
        ball_radius: [m].
    """

    place: complex
    edge: float
    inner: float
    outwards: complex
    ball_radius: float

    @classmethod
    def of(cls, pocket: Pocket, ball_radius: float) -> Drop:
        """Return a table's pocket as a ball of a radius [m] finds it."""
        x, y = (float(v) for v in pocket.position)
        outwards = complex(math.copysign(1.0, x) if x != 0 else 0.0, math.copysign(1.0, y))
        inner = max(pocket.radius - ball_radius, 0.3 * pocket.radius)
        return cls(complex(x, y), pocket.radius, inner, outwards / abs(outwards), ball_radius)

    def leaves(self, curve: Curve, end: float) -> float:
        """Return when in [0, end] a ball over the drop is back beyond its edge [s]; inf = not."""
        a, b, c = curve[0] - self.place, curve[1], curve[2]
        distance = (
            abs(a) ** 2 - self.edge**2,
            2 * (a.conjugate() * b).real,
            abs(b) ** 2 + 2 * (a.conjugate() * c).real,
            2 * (b.conjugate() * c).real,
            abs(c) ** 2,
        )
        return first_fall([-x for x in distance], end)

    def passes_middle(self, curve: Curve, end: float) -> float:
        """Return when in [0, end] the centre of a ball is past the hole's middle [s]; inf = not."""
        turn = self.outwards.conjugate()
        left = [-(p * turn).real for p in (curve[0] - self.place, curve[1], curve[2])]
        return first_fall(left, end)

    def falls(self, curve: Curve, end: float, since: float, gravity: float) -> float:
        """Return when in [0, end] a ball can no longer get out, ``since`` [s] over the drop already; inf = not yet."""

        def spare(t: float) -> float:
            return _spare_speed(abs(curve[1] + 2 * t * curve[2]), since + t, self.ball_radius, gravity)

        # Balls change their speed too slowly to gain what each moment over the drop costs them: one change of sign.
        last = min(end, math.sqrt(2 * self.ball_radius / gravity))
        if spare(0.0) <= 0:
            return 0.0
        return brentq(spare, 0.0, last, xtol=1e-15) if spare(last) < 0 else math.inf


def _spare_speed(speed: float, time: float, radius: float, gravity: float) -> float:
    """What a ball that turned round now, ``time`` over the drop, would have more than it needs to get out [m/s]."""
    if time <= 0:
        return math.inf
    cosine = 1 - 0.5 * gravity * time**2 / radius
    if cosine <= 0:
        return -math.inf
    sine = math.sqrt(1 - cosine**2)
    return speed * cosine - gravity * time * (1 + sine)
