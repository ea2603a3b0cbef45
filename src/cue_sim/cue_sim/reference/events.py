"""When does a ball meet a ball, a nose, a pocket? Exact times from the quadratic paths of :mod:`.motion`.

Two balls touch when the square of their distance, a quartic in time, falls to the square of their reach. A nose is a
capsule: its straight part is met where the distance from a line, a quadratic, falls to the reach; its round ends, and
a pocket's edge, where a quartic does. Points of the plane are complex numbers x + iy, as in :mod:`.motion`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.table import TableModel
from cue_sim.geometry import NOSE_RADIUS, contact_tilt, cushion_index, nose_segments
from cue_sim.reference.motion import Curve
from cue_sim.reference.pockets import Drop
from cue_sim.reference.roots import first_fall

FROZEN = 1e-6
"""Gap [m] below which bodies count as touching: a blow runs through them."""
_NO_GAP = 1e-12  # m: a gap that is rounding
_NO_SPEED = 1e-9  # m/s: an approach that is rounding


@dataclass(frozen=True)
class Nose:
    """The axis of one nose capsule, or a round end (then both ends are one point).

    Attributes:
        cushion: index of the cushion it belongs to.
        start: of the axis [m].
        end: of the axis [m].
    """

    cushion: int
    start: complex
    end: complex

    def nearest(self, place: complex) -> complex:
        """Return the point of the axis that is nearest to a place [m]."""
        line = self.end - self.start
        if line == 0:
            return self.start
        share = ((place - self.start) * line.conjugate()).real / abs(line) ** 2
        return self.start + min(max(share, 0.0), 1.0) * line


class Surroundings:
    """Everything of a table that a ball of one radius can meet.

    Attributes:
        noses: straight parts, then round ends, each once.
        drops: the pockets.
        reach: from a nose's axis to the centre of a touching ball, in plan view [m].
        lift: sine of the angle at which a nose meets the ball, above the horizontal.
    """

    def __init__(self, table: TableModel, radius: float, offsets: Sequence[float] = (0.0,) * 6) -> None:
        """Work out the geometry for a ball's radius [m]; ``offsets`` [m] are how far each cushion stands inwards."""
        round_off = NOSE_RADIUS * table.ball_radius
        axis_height = table.nose_height + round_off * math.sin(contact_tilt(table))
        self.lift = (axis_height - radius) / (radius + round_off)
        self.reach = (radius + round_off) * math.sqrt(1 - self.lift**2)
        index = cushion_index(table)
        lines, ends = [], {}
        inwards = [offset * complex(*c.normal) for c, offset in zip(table.cushions, offsets, strict=False)]
        for cushion, first, last in nose_segments(table).values():
            shift = inwards[index[cushion]]
            nose = Nose(index[cushion], complex(*first) + shift, complex(*last) + shift)
            lines.append(nose)
            for point in (nose.start, nose.end):
                ends[point] = Nose(nose.cushion, point, point)
        self.noses = (*lines, *ends.values())
        self.drops = tuple(Drop.of(pocket, radius) for pocket in table.pockets)
        behind = round_off * math.cos(contact_tilt(table)) - self.reach - max(0.0, *offsets)
        self._free = complex(table.length / 2 + behind, table.width / 2 + behind)  # no nose reaches in here

    def first_nose(self, curve: Curve, end: float) -> tuple[float, Nose | None]:
        """Return when [s, after the curve's start] a ball meets its next nose before ``end``, and which; inf, None."""
        free = self._free
        if all(abs(p.real) < free.real and abs(p.imag) < free.imag for p in _control_points(curve, end)):
            return math.inf, None
        best: tuple[float, Nose | None] = (math.inf, None)
        for nose in self.noses:
            if nose.start == nose.end:
                time = circle_entry(moved(curve, nose.start), self.reach, end)
            else:
                time = line_entry(moved(curve, nose.start), nose.end - nose.start, self.reach, end)
            if time < best[0]:
                best = time, nose
        return best

    def first_drop(self, curve: Curve, end: float) -> tuple[float, int]:
        """Return when [s, after the curve's start] a ball crosses the edge of a drop before ``end``, and which."""
        entries = [circle_entry(moved(curve, drop.place), drop.edge, end) for drop in self.drops]
        time = min(entries, default=math.inf)
        return time, entries.index(time) if time < math.inf else -1


def ball_reach(first: float, second: float) -> float:
    """Return the distance in plan view [m] of the centres of two touching balls of these radii on one plane."""
    return 2 * math.sqrt(first * second)


def circle_entry(curve: Curve, radius: float, end: float) -> float:
    """Return the first time in [0, end] at which a moving point comes within ``radius`` of the origin; inf = never."""
    if _passes_by(curve, radius, end):
        return math.inf
    a, b, c = curve
    height = abs(a) ** 2 - radius**2
    closing = 2 * (a.conjugate() * b).real
    if abs(height) < 2 * radius * _NO_GAP and abs(closing) < 2 * radius * _NO_SPEED:
        height = closing = 0.0  # touching, at rest: what follows decides
    square = abs(b) ** 2 + 2 * (a.conjugate() * c).real
    return first_fall((height, closing, square, 2 * (b.conjugate() * c).real, abs(c) ** 2), end)


def line_entry(curve: Curve, line: complex, reach: float, end: float) -> float:
    """Return when in [0, end] a point comes within ``reach`` of the segment from the origin to ``line``, broadside."""
    if _passes_by((curve[0] - 0.5 * line, curve[1], curve[2]), reach + 0.5 * abs(line), end):
        return math.inf
    length = abs(line)
    turn = line.conjugate() / length
    a, b, c = (p * turn for p in curve)  # along the line and across it
    best = math.inf
    for side in (1.0, -1.0):
        height, closing = side * a.imag - reach, side * b.imag
        if abs(height) < _NO_GAP and abs(closing) < _NO_SPEED:
            height = closing = 0.0
        time = first_fall((height, closing, side * c.imag), end, deepest=0.01 * reach)
        if time < best and 0 <= (a + (b + c * time) * time).real <= length:
            best = time
    return best


def difference(first: Curve, second: Curve) -> Curve:
    """Return the path of the second point as seen from the first."""
    return second[0] - first[0], second[1] - first[1], second[2] - first[2]


def tilted_normal(plan: complex, lift: float) -> np.ndarray:
    """Return the (3,) unit vector that runs along ``plan`` in plan view and rises by the sine ``lift``."""
    level = math.sqrt(1 - lift**2) / abs(plan)
    return np.array([plan.real * level, plan.imag * level, lift])


def moved(curve: Curve, origin: complex) -> Curve:
    """Return the path as seen from an origin [m]."""
    return curve[0] - origin, curve[1], curve[2]


def _control_points(curve: Curve, end: float) -> Sequence[complex]:
    """The corners of a triangle that holds the whole path over [0, end] (Bézier's)."""
    a, b, c = curve
    middle = a + 0.5 * end * b
    return a, middle, middle + end * (0.5 * b + end * c)


def _passes_by(curve: Curve, radius: float, end: float) -> bool:
    """Tell, cheaply, that the path stays out of the circle: along the chord or across it, the triangle is clear."""
    p, q, r = _control_points(curve, end)
    chord = r - p
    size = abs(chord)
    turn = chord.conjugate() / size if size > 0 else 1.0
    p, q, r = p * turn, q * turn, r * turn
    return (
        min(p.imag, q.imag, r.imag) > radius
        or max(p.imag, q.imag, r.imag) < -radius
        or min(p.real, q.real, r.real) > radius
        or max(p.real, q.real, r.real) < -radius
    )
