"""How a pocket takes a ball: over the drop it falls, and is gone unless a jaw turns it round in time.

A ball whose centre has been past the drop's edge for a time t lies d = g t^2 / 2 deep and leans against the edge by
beta, cos(beta) = 1 - d/R. Of the speed v at which it comes back to the edge, the blow there leaves

    w = v cos(beta) - g t sin(beta),

directed upwards by beta, and it needs g t of that to climb d. It is gone as soon as its speed is too small for that,
wherever it goes, and at the latest when it meets the liner: when all of it is over the hole, or its centre is past the
hole's middle. If it gets out, the height climbed, and that of the hop in which it ends, have cost it speed straight
away from the edge. (A model of this project; its other half is ``native/pocket.c``.)
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

    def climbs_out(self, place: complex, velocity: complex, time: float, gravity: float) -> complex | None:
        """Return the velocity [m/s] of a ball that is back at the edge, ``time`` [s] over the drop; None = it falls."""
        away = (place - self.place) / abs(place - self.place)
        speed = (velocity * away.conjugate()).real
        if _spare_speed(speed, time, self.ball_radius, gravity) < 0:
            return None
        depth, cosine, sine = _leaning(time, self.ball_radius, gravity)
        left = speed * cosine - gravity * time * sine
        # at the top of its way it has climbed the depth, or what its upward speed takes it to if that is more
        height = max(depth, (left * sine) ** 2 / (2 * gravity))
        return velocity + away * (math.sqrt(max(0.0, left**2 - 2 * gravity * height)) - speed)


def _leaning(time: float, radius: float, gravity: float) -> tuple[float, float, float]:
    """Depth [m] of a ball after a time over the drop; cosine and sine of the angle at which it leans on the edge."""
    depth = 0.5 * gravity * time**2
    cosine = 1 - depth / radius
    return depth, cosine, math.sqrt(max(0.0, 1 - cosine**2))


def _spare_speed(speed: float, time: float, radius: float, gravity: float) -> float:
    """What a ball that comes to the edge at this speed has more than it needs to get out [m/s]."""
    if time <= 0:
        return math.inf
    _, cosine, sine = _leaning(time, radius, gravity)
    if cosine <= 0:
        return -math.inf
    return speed * cosine - gravity * time * (1 + sine)
