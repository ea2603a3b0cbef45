"""When the cue met the ball: between two images, from the ball's path after it."""

from __future__ import annotations

import itertools

import numpy as np

from cue_perception.track import FULL, Sample

_DECELERATION = 1.0  # m/s^2: between rolling (0.1) and sliding (2) ...
_DECELERATION_SIGMA = 0.8
_MOST = 6  # images after the strike
_ARM_SIGMA = 0.002  # s: joint states against the camera clock


def strike_time(
    rest: np.ndarray,
    rest_covariance: np.ndarray,
    samples: list[Sample],
    frame: float,
    contact_time: float | None = None,
) -> tuple[float, float]:
    """Return when a ball was struck, and the standard deviation of that [s].

    The images tell it by themselves, to a few milliseconds where the ball is in full view. The arm's own contact time
    is better, if it is on the same clock: it is taken unless a clear view of the ball speaks for a later time, as it
    does where the images come late. A ball cannot move before it is touched, so an earlier time from the images is an
    error.

    Args:
        rest: (2,) position before [m].
        rest_covariance: (2, 2) [m^2].
        samples: of the ball from well before the strike on, oldest first.
        frame: time between images [s].
        contact_time: of the arm [s]; None = unknown.
    """
    seen, spread, clear = seen_strike_time(rest, rest_covariance, samples, frame)
    if contact_time is None:
        return seen, spread
    if clear and seen > contact_time + max(5 * spread, 0.02):
        return seen, spread
    return contact_time, _ARM_SIGMA


def seen_strike_time(
    rest: np.ndarray, rest_covariance: np.ndarray, samples: list[Sample], frame: float
) -> tuple[float, float, bool]:
    """Extrapolate a ball's first straight stretch back to where it lay.

    Returns:
        Time of the strike, its standard deviation [s], and whether the ball was in full view around it.
    """
    clear = [s for s in samples if s.support > FULL] or samples
    noise = float(np.sqrt(np.trace(rest_covariance) / 2)) + 1e-4
    moved = [k for k, s in enumerate(clear) if np.linalg.norm(s.position - rest) > max(5 * noise, 0.0015)]
    if not moved:
        return (clear[-1].time if clear else 0.0), frame, False
    first = moved[0]
    latest = clear[first].time
    last_still = clear[first - 1].time if first else latest - frame
    earliest = last_still - 0.5 * frame
    guess, spread = 0.5 * (last_still + latest), float((latest - last_still) / np.sqrt(12) + 1e-3)
    if latest - last_still > 1.6 * frame:
        return guess, spread, False  # hidden meanwhile: it may even have met a cushion
    path = _straight(rest, clear[first : first + _MOST])
    if len(path) < 2:
        return guess, spread, False
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
        return float(np.clip(x[0] if np.isfinite(x[0]) else guess, earliest, latest)), spread, False
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    return float(x[0]), float(np.sqrt(covariance[0, 0]) + 2e-4), True


def _straight(rest: np.ndarray, samples: list[Sample]) -> list[Sample]:
    """Return the samples up to the first turn or sudden loss of speed."""
    path = samples[:1]
    # The first sample may have moved by little more than its noise: the second knows the direction better.
    direction = samples[min(1, len(samples) - 1)].position - rest
    direction = direction / max(float(np.linalg.norm(direction)), 1e-9)
    pace = None
    for before, after in itertools.pairwise(samples):
        step = after.position - before.position
        along, across = float(step @ direction), float(abs(step[1] * direction[0] - step[0] * direction[1]))
        speed = along / max(after.time - before.time, 1e-6)
        if along <= 0 or across > 0.1 * along + 1e-3 or (pace is not None and speed < 0.8 * pace - 0.05):
            break
        path.append(after)
        pace = speed
    # The first stretch ends at a contact too, which only the step after it shows.
    return path
