"""Smooth stretches of a ball's path between two contacts: position, velocity, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROLLING = (0.12, 0.08)
"""Deceleration of a rolling ball, mean and one sigma: cloths differ from 0.06 to 0.2 [m/s^2]."""
SLIDING = 2.2
"""One sigma of the acceleration of a ball that may slide: friction 0.2 g, in any direction [m/s^2]."""
_ACROSS = 0.06  # m/s^2: a rolling ball's path bends by spin about the vertical and by a table that is not level
_SIGMA = 1e-4  # m: no measurement is better


@dataclass(frozen=True, eq=False)
class Stretch:
    """A path of constant acceleration.

    Attributes:
        time: to which the coefficients belong [s].
        coefficients: (3, 2) position [m], velocity [m/s], acceleration [m/s^2].
        covariance: (6, 6) of the coefficients, in the order px, py, vx, vy, ax, ay.
        surprise: sum of squared residuals in their own sigmas.
        freedom: degrees of freedom of that sum.
    """

    time: float
    coefficients: np.ndarray
    covariance: np.ndarray
    surprise: float
    freedom: float

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return position (2,) [m], velocity (2,) [m/s], and the (2, 2) covariance of the position [m^2]."""
        tau = time - self.time
        row = np.array([1.0, tau, 0.5 * tau * tau])
        steps = np.zeros((2, 6))
        steps[0, ::2] = steps[1, 1::2] = row
        velocity = self.coefficients[1] + tau * self.coefficients[2]
        return row @ self.coefficients, velocity, steps @ self.covariance @ steps.T

    @property
    def likely(self) -> bool:
        """Tell whether the residuals are as small as they should be, with one in some hundred left out wrongly."""
        return self.surprise < self.freedom + 3.0 * np.sqrt(2.0 * self.freedom) + 2.0


def fit_stretch(
    time: np.ndarray, position: np.ndarray, covariance: np.ndarray, at: float, rolling: bool = False
) -> Stretch:
    """Fit constant acceleration to measurements.

    Args:
        time: (n,) of the measurements [s].
        position: (n, 2) [m].
        covariance: (n, 2, 2) of each [m^2].
        at: time to which the coefficients shall belong [s].
        rolling: the ball slows down as a rolling one does; else its acceleration may be that of sliding, any way.
    """
    tau = time - at
    row = np.stack([np.ones_like(tau), tau, 0.5 * tau * tau], -1)
    weight = 1 / np.maximum(0.5 * (covariance[:, 0, 0] + covariance[:, 1, 1]), _SIGMA**2)
    weighted = row.T * weight
    square = weighted @ row
    information = np.zeros((6, 6))
    information[::2, ::2] = information[1::2, 1::2] = square
    right = (weighted @ position).ravel()
    prior, mean = np.eye(2) / SLIDING**2, np.zeros(2)
    if rolling:
        way = position[-1] - position[0]
        length = float(np.sqrt(way @ way))
        if length > 2e-3:
            along = way / length
            across = np.array([-along[1], along[0]])
            prior = np.outer(along, along) / ROLLING[1] ** 2 + np.outer(across, across) / _ACROSS**2
            mean = -ROLLING[0] * along
        else:
            prior = np.eye(2) / ROLLING[0] ** 2
    information[4:, 4:] += prior
    right[4:] += prior @ mean
    spread = np.linalg.inv(information + 1e-9 * np.eye(6))
    coefficients = (spread @ right).reshape(3, 2)
    residual = position - row @ coefficients
    bend = coefficients[2] - mean
    surprise = float(np.sum(weight[:, None] * residual**2) + bend @ prior @ bend)
    return Stretch(at, coefficients, spread, surprise, 2.0 * len(tau) - 4.0)
