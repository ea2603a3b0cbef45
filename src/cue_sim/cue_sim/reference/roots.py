"""When does a polynomial first fall through zero? Every event of the simulation is such a question.

A polynomial is a tuple of coefficients, lowest power first. Between two neighbouring turning points it only rises or
only falls, so it has at most one zero there, which lies between values of opposite sign and cannot be missed. The
turning points are the zeros of the derivative, found in the same way, down to the quadratic with its formula. A pass
that just grazes zero is decided by the sign of its lowest point, to the last bits of the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Polynomial = Sequence[float]


def value(c: Polynomial, t: float) -> float:
    """Return the polynomial's value at ``t`` (Horner's rule)."""
    total = 0.0
    for coefficient in reversed(c):
        total = total * t + coefficient
    return total


def derivative(c: Polynomial) -> tuple[float, ...]:
    """Return the coefficients of the derivative."""
    return tuple(k * coefficient for k, coefficient in enumerate(c))[1:]


def sign_changes(c: Polynomial, end: float) -> list[float]:
    """Return where the polynomial changes its sign within (0, end), in order."""
    if len(c) <= 3:
        return [t for t in _quadratic_zeros(*c, *(0.0,) * (3 - len(c))) if 0 < t < end]
    stops = [0.0, *sign_changes(derivative(c), end), end]
    heights = [value(c, t) for t in stops]
    found = []
    for low, high, at_low, at_high in zip(stops, stops[1:], heights, heights[1:], strict=False):
        if (at_low < 0 < at_high) or (at_low > 0 > at_high):
            found.append(_zero_between(c, low, high))
        elif at_high == 0 and high < end:
            found.append(high)
    return found


def first_fall(c: Polynomial, end: float, deepest: float = math.inf) -> float:
    """Return the first time in [0, end] at which the polynomial is zero, or already below, and falls; inf = never.

    Args:
        c: coefficients, up to the fourth power.
        end: of the search.
        deepest: a stretch that begins to fall further below zero than this does not count.
    """
    stops = [0.0, *sign_changes(derivative(c), end), end]
    at_high = c[0]
    for low, high in pairwise(stops):
        at_low, at_high = at_high, value(c, high)
        if at_high >= at_low:
            continue
        if at_low > 0 > at_high:
            return _zero_between(c, low, high)
        if -deepest < at_low <= 0:
            return low
    return math.inf


def _quadratic_zeros(c0: float, c1: float, c2: float) -> list[float]:
    """Zeros at which a quadratic changes sign, by the formula that never subtracts what is nearly equal."""
    if c2 == 0:
        return [-c0 / c1] if c1 != 0 else []
    discriminant = c1 * c1 - 4 * c2 * c0
    if discriminant <= 0:
        return []
    q = -0.5 * (c1 + math.copysign(math.sqrt(discriminant), c1))
    return sorted((q / c2, c0 / q))


def _zero_between(c: Polynomial, low: float, high: float) -> float:
    """The zero between two places of opposite sign: Newton's steps, halving the bracket where they would leave it."""
    rising = value(c, high) > 0
    slope_of = derivative(c)
    t = 0.5 * (low + high)
    for _ in range(200):
        height = value(c, t)
        if height == 0:
            break
        if (height > 0) == rising:
            high = t
        else:
            low = t
        slope = value(slope_of, t)
        better = t - height / slope if slope != 0 else low
        if not low < better < high:
            better = 0.5 * (low + high)
        settled = abs(better - t) <= 4e-16 * max(high, 1e-3)
        t = better
        if settled:
            break
    return t
