"""Differences between replayed and observed shots, and what they cost."""

from __future__ import annotations

import itertools

import numpy as np

from cue_identify.observations import ShotData
from cue_identify.replay import Replayed

WORST = 1.0
"""Every sample of a failed simulation counts as this far off [m]: further than any table allows to be by chance."""

_FEWEST_SIGMAS = 2.0  # [-] noise alone is no outlier
_MOST_ALIKE = 4  # moving balls of one colour whose exchanges are all tried: 4! orders


def differences(shot: ShotData, replayed: Replayed) -> np.ndarray:
    """Return (m, 2) predicted minus observed positions [m].

    Balls of one colour are told apart by nothing but their paths: at each time the exchange that fits best is taken,
    so the cost does not depend on which of them the tracker gave which id.
    """
    if replayed.fault:
        return np.full_like(shot.observed, WORST / np.sqrt(2.0))
    difference = replayed.position - shot.observed
    for rows in shot.alike:
        if len(rows) > _MOST_ALIKE:
            continue
        orders = np.stack([rows[list(order)] for order in itertools.permutations(range(len(rows)))])
        cost = np.sum((replayed.position[rows] - shot.observed[orders]) ** 2, axis=(1, 3))  # (orders, times)
        best = np.argmin(cost, axis=0)
        matched = orders[best, :, np.arange(len(best))].T
        difference[rows] = replayed.position[rows] - shot.observed[matched]
    return difference


def whitened(shot: ShotData, vectors: np.ndarray) -> np.ndarray:
    """Return (m, 2) vectors [m] in standard deviations of their samples."""
    return np.einsum("mij,mj->mi", shot.whitener, vectors)


def time_profile(shot: ShotData, difference: np.ndarray, replayed: Replayed) -> float:
    """Return the time shift [s] that best explains the cue ball's samples before its first contact, to first order.

    The strike time is known to milliseconds only; later samples do not decide, since there wrong parameters show.
    """
    rate = whitened(shot, replayed.velocity)[shot.free]
    miss = whitened(shot, difference)[shot.free]
    shift = -float(np.sum(rate * miss)) / (float(np.sum(rate * rate)) + 1.0 / shot.strike_stddev**2)
    return float(np.clip(shift, -3 * shot.strike_stddev, 3 * shot.strike_stddev))


def robust_cost(shot: ShotData, replayed: Replayed, scale: float) -> tuple[float, float]:
    """Return mean log(1 + r^2 / (s^2 + spread^2)) over the samples, and the time shift [s] it was taken with.

    s is ``scale``, or two standard deviations of the sample where these are more.

    Args:
        shot: observed.
        replayed: predicted at the shot's samples.
        scale: distance that starts to count as an outlier [m].
    """
    difference = differences(shot, replayed)
    shift = 0.0
    if not replayed.fault:
        shift = time_profile(shot, difference, replayed)
        difference = difference + shift * replayed.velocity
    return float(np.mean(np.log1p(np.sum(difference**2, axis=1) / outlier_distance(shot, scale) ** 2))), shift


def outlier_distance(shot: ShotData, scale: float) -> np.ndarray:
    """Return (m,) from which distance on a difference is an outlier [m]: ``scale``, noise and spread considered."""
    return np.hypot(_tracked_scale(shot, scale), shot.spread)


def _tracked_scale(shot: ShotData, scale: float) -> np.ndarray:
    sigma = np.sqrt(0.5 * np.trace(shot.covariance, axis1=1, axis2=2))
    return np.maximum(scale, _FEWEST_SIGMAS * sigma)


def leniency(shot: ShotData, scale: float) -> float:
    """Return what the shot's spread spares a robust cost in the mean.

    Added to it, costs of one shot with different spreads can be compared: a replay must not win by being chaotic.
    """
    return float(np.mean(np.log1p(shot.spread**2 / _tracked_scale(shot, scale) ** 2)))


def outlier_scale(shot: ShotData, scale: float) -> np.ndarray:
    """Return (m,) from how many standard deviations on a residual is an outlier, ``scale`` being that in metres."""
    sigma = 1.0 / np.sqrt(np.abs(np.linalg.det(shot.whitener)))
    return np.maximum(scale / sigma, _FEWEST_SIGMAS)
