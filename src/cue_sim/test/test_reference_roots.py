"""The reference's root finder against numpy's, and where that one fails: grazing passes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cue_sim.reference.roots import first_fall, sign_changes, value


def test_quartics_against_numpy():
    rng = np.random.default_rng(3)
    falls = 0
    for _ in range(400):
        c = rng.normal(size=5) * 10.0 ** rng.integers(-3, 2, 5)
        roots = np.roots(c[::-1])
        real = np.sort(roots[np.abs(roots.imag) < 1e-9].real)
        expected = [t for t in real if 0 < t < 3]
        assert sign_changes(tuple(c), 3.0) == pytest.approx(expected, rel=1e-6)
        falling = [t for t in expected if np.polyval(np.polyder(c[::-1]), t) < 0]
        if c[0] > 0:
            falls += bool(falling)
            assert first_fall(tuple(c), 3.0) == pytest.approx(falling[0] if falling else math.inf, rel=1e-6)
    assert falls > 40


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_lower_powers_with_leading_zeros(degree):
    c = [0.0] * 5
    c[0], c[degree] = 1.0, -(2.0**degree)
    assert first_fall(c, 1.0) == pytest.approx(0.5, abs=1e-15)
    assert first_fall(c, 0.4) == math.inf


@pytest.mark.parametrize("depth", [1e-3, 1e-9, 1e-14])
def test_a_grazing_pass_is_decided_by_its_depth(depth):
    """(t - 1)^2 (t - 3)^2 touches zero twice, at its lowest points: lifted it never falls below, lowered it does."""
    touching = np.polynomial.polynomial.polyfromroots([1, 1, 3, 3])
    lifted, lowered = touching.copy(), touching.copy()
    lifted[0] += depth
    lowered[0] -= depth
    assert first_fall(tuple(lifted), 5.0) == math.inf
    at = first_fall(tuple(lowered), 5.0)
    assert at == pytest.approx(1 - math.sqrt(depth) / 2, abs=0.01 * math.sqrt(depth) + depth)
    assert 1e-9 > value(tuple(lowered), at) > -1e-9


def test_the_start_counts_where_the_polynomial_falls_on():
    assert first_fall((0.0, -1.0), 1.0) == 0.0
    assert first_fall((-1e-12, -1.0), 1.0) == 0.0
    assert first_fall((0.0, 0.0, -1.0), 1.0) == 0.0
    assert first_fall((0.0, 1.0), 1.0) == math.inf
    assert first_fall((0.0, 1.0, -2.0), 1.0) == pytest.approx(0.5)  # up first, then down
    assert first_fall((-0.2, 1.0, -1.0), 2.0) == pytest.approx(0.5 + math.sqrt(0.05))
    assert first_fall((-0.3, 1.0, -1.0), 2.0) == 0.5  # still below zero when it begins to fall again
    assert first_fall((-0.3, 1.0, -1.0), 2.0, deepest=0.01) == math.inf


def test_times_are_good_to_a_picosecond():
    """A ball at 1 m/s towards another one: the time is known."""
    gap, reach = 0.3, 0.057
    for offset in (0.0, 0.02, 0.05, 0.0569999):
        c = ((gap**2 + offset**2) - reach**2, -2 * gap, 1.0, 0.0, 0.0)
        assert first_fall(c, 1.0) == pytest.approx(gap - math.sqrt(reach**2 - offset**2), abs=1e-12)
