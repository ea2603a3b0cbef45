"""Many small robust least-squares problems at once, each with a few unknowns of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_OUTLIERS = 2.0  # in variances: a sample further off counts less and less
_ITERATIONS = 15
_TOLERANCE, _PATIENCE = 1e-3, 2  # relative gain of no problem, so many times in a row, ends it
_STEP = 1e-2


def descend_each(
    errors: Callable[[np.ndarray], np.ndarray], owner: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where damped Gauss-Newton descents end, (n, k), and their costs (n,).

    A problem's cost is the sum over its samples of a robust function of the error, and over its unknowns of their
    squares: all in standard deviations.

    Args:
        errors: takes (n, k) unknowns and returns (T, 2) errors of all samples.
        owner: (T,) the problem that each sample belongs to.
        start: (n, k).
    """
    x = start.copy()
    count, size = x.shape
    now = errors(x)
    cost, damping, idle = _cost(now, owner, x), np.full(count, 1e-2), 0
    for _ in range(_ITERATIONS):
        slope = np.empty((*now.shape, size))
        for k in range(size):
            moved = x.copy()
            moved[:, k] += _STEP
            slope[..., k] = (errors(moved) - now) / _STEP
        weight = 1 / (1 + np.sum(now**2, axis=1) / _OUTLIERS)
        normal, gradient = np.zeros((count, size, size)), x.copy()
        np.add.at(normal, owner, np.einsum("t,tak,tal->tkl", weight, slope, slope))
        np.add.at(gradient, owner, np.einsum("t,tak,ta->tk", weight, slope, now))
        normal += np.eye(size)
        damped = normal + damping[:, None, None] * normal * np.eye(size)
        trial = x - np.linalg.solve(damped, gradient[..., None])[..., 0]
        then = errors(trial)
        trial_cost = _cost(then, owner, trial)
        good = trial_cost < cost
        idle = idle + 1 if np.all(cost - trial_cost < _TOLERANCE * cost) else 0
        x[good], cost[good] = trial[good], trial_cost[good]
        now = np.where(good[owner, None], then, now)
        damping = np.where(good, damping / 4, damping * 5)
        if idle == _PATIENCE:
            break
    return x, cost


def _cost(errors: np.ndarray, owner: np.ndarray, x: np.ndarray) -> np.ndarray:
    lost = _OUTLIERS * np.log1p(np.sum(errors**2, axis=1) / _OUTLIERS)
    return np.bincount(owner, lost, minlength=len(x)) + np.sum(x**2, axis=1)
