"""Joint trajectories: data, joining, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class JointTrajectory:
    """Joint motion from rest to rest.

    Attributes:
        times: (n,) strictly increasing, from 0 [s].
        positions: (n, joints) [rad].
        velocities: (n, joints) [rad/s].
        accelerations: (n, joints) [rad/s^2].
    """

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    accelerations: np.ndarray

    @property
    def duration(self) -> float:
        """Return the time of the last point [s]."""
        return float(self.times[-1])

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what no speed [rad/s] and acceleration [rad/s^2] exceeds up to each point, (n, joints) each.

        Drivers go along quintics between the points; their Bernstein coefficients bound them.
        """
        h = np.diff(self.times)[:, None]
        p, v, a = self.positions, self.velocities, self.accelerations
        curve = np.stack(
            [
                p[:-1],
                p[:-1] + h * v[:-1] / 5,
                p[:-1] + 2 * h * v[:-1] / 5 + h**2 * a[:-1] / 20,
                p[1:] - 2 * h * v[1:] / 5 + h**2 * a[1:] / 20,
                p[1:] - h * v[1:] / 5,
                p[1:],
            ]
        )
        rate = 5 * np.diff(curve, axis=0) / h
        change = 4 * np.diff(rate, axis=0) / h
        return (
            np.concatenate([np.abs(v[:1]), np.abs(rate).max(axis=0)]),
            np.concatenate([np.abs(a[:1]), np.abs(change).max(axis=0)]),
        )


def sample_times(duration: float, period: float) -> np.ndarray:
    """Return 0, period, 2 period ... and ``duration`` itself [s]; the last step may be up to 1.5 periods."""
    count = max(int(np.floor(duration / period - 0.5)), 0)
    return np.concatenate([period * np.arange(count + 1), [duration]])


def join(legs: Sequence[JointTrajectory]) -> JointTrajectory:
    """Return legs that each end at rest where the next begins as one trajectory."""
    times, rows = [legs[0].times], [legs[0]]
    for leg in legs[1:]:
        times.append(times[-1][-1] + leg.times[1:])
        rows.append(JointTrajectory(leg.times[1:], leg.positions[1:], leg.velocities[1:], leg.accelerations[1:]))
    return JointTrajectory(
        np.concatenate(times),
        np.concatenate([r.positions for r in rows]),
        np.concatenate([r.velocities for r in rows]),
        np.concatenate([r.accelerations for r in rows]),
    )
