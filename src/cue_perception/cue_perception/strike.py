"""When the cue met the ball: between two images, from the ball's path after it."""

from __future__ import annotations

import numpy as np

from cue_perception.track import Sample

_DECELERATION = 1.0  # m/s^2: between rolling (0.1) and sliding (2) ...
_DECELERATION_SIGMA = 0.8
_MOST = 6  # images after the strike


def strike_time(
    rest: np.ndarray, rest_covariance: np.ndarray, samples: list[Sample], frame: float
) -> tuple[float, float, int]:
    """Extrapolate a ball's first straight stretch back to where it lay.

    Args:
        rest: (2,) position before [m].
        rest_covariance: (2, 2) [m^2].
        samples: of the ball from the last one at rest on, oldest first.
        frame: time between images [s].

    Returns:
        Time of the strike and its standard deviation [s], and how many moving samples it rests on.
    """
    noise = float(np.sqrt(np.trace(rest_covariance) / 2)) + 1e-4
    distance = np.array([np.linalg.norm(s.position - rest) for s in samples])
    moved = np.flatnonzero(distance > max(5 * noise, 0.0015))
    if not len(moved):
        return (samples[-1].time if samples else 0.0), frame, 0
    first = int(moved[0])
    path = _straight(rest, samples[first : first + _MOST])
    last_still = samples[first - 1].time if first else samples[0].time - frame
    earliest, latest = last_still - 0.5 * frame, samples[first].time
    guess, spread = 0.5 * (last_still + latest), (latest - last_still) / np.sqrt(12) + 1e-3
    if len(path) < 2:
        return guess, float(spread), len(path)
    s = np.array([float(np.linalg.norm(p.position - rest)) for p in path])
    sigma = np.array([np.sqrt(np.trace(p.covariance) / 2) + noise for p in path])
    t = np.array([p.time for p in path])
    speed = (s[-1] - s[0]) / (t[-1] - t[0])
    x = np.array([t[0] - s[0] / max(speed, 1e-3), max(speed, 1e-3), _DECELERATION])

    def model(x: np.ndarray) -> np.ndarray:
        tau = t - x[0]
        return np.concatenate(
            [(x[1] * tau - 0.5 * x[2] * tau**2 - s) / sigma, [(x[2] - _DECELERATION) / _DECELERATION_SIGMA]]
        )

    jacobian = np.zeros((len(t) + 1, 3))
    for _ in range(6):  # Gauss-Newton: three unknowns, nearly linear
        tau = t - x[0]
        jacobian[:-1, 0] = (-x[1] + x[2] * tau) / sigma
        jacobian[:-1, 1] = tau / sigma
        jacobian[:-1, 2] = -0.5 * tau**2 / sigma
        jacobian[-1, 2] = 1 / _DECELERATION_SIGMA
        x = x - np.linalg.lstsq(jacobian, model(x), rcond=None)[0]
    if not np.isfinite(x).all() or not earliest <= x[0] <= latest + 0.1 * frame:
        return float(np.clip(x[0] if np.isfinite(x[0]) else guess, earliest, latest)), float(spread), len(path)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    return float(x[0]), float(np.sqrt(covariance[0, 0]) + 2e-4), len(path)


def _straight(rest: np.ndarray, samples: list[Sample]) -> list[Sample]:
    """Return the samples up to the first turn or sudden loss of speed."""
    path = samples[:1]
    direction = samples[0].position - rest
    direction = direction / max(float(np.linalg.norm(direction)), 1e-9)
    pace = None
    for before, after in zip(samples, samples[1:], strict=False):
        step = after.position - before.position
        along, across = float(step @ direction), float(abs(step[1] * direction[0] - step[0] * direction[1]))
        speed = along / max(after.time - before.time, 1e-6)
        if along <= 0 or across > 0.1 * along + 1e-3 or (pace is not None and speed < 0.8 * pace - 0.05):
            break
        path.append(after)
        pace = speed
    # The first stretch ends at a contact too, which only the step after it shows.
    return path
