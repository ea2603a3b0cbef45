"""Object-ball tracks: what a struck ball did after the hit, with the state to start a simulation of it from.

The cue ball's spin is unknown in a recorded match, so balls that *were struck* are scored. A track runs from the hit
until just before the ball may touch another one. Its initial state is fitted to the first samples alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from cue_identify.real_shots.rebounds import Rebound, find_rebounds
from cue_identify.real_shots.recording import MATCH_TABLE, POSITION_NOISE, BallPath, RecordedShot

START = 0.10
"""A simulation starts this long after the hit [s]."""
WINDOW = 0.30
"""Samples up to here after the hit [s] make the initial state; later ones are scored."""
MIN_TRAVEL = 0.5
"""Shortest scored path [m]."""

_TOUCH = 0.090  # [m]: two centres nearer than this, between samples, may touch: 1.5 diameters
_BEFORE_TOUCH = 0.020  # [s] by which a track ends before that
_LARGEST_CHI2 = 4.0  # reduced; above it the first samples are no undisturbed motion
_LEAST_WINDOW = 4  # samples
_LEAST_SCORED = 3  # samples
_STRIKER_SAMPLES = 6
_STRAIGHT = 0.0015  # [m]
_SLOW = 0.05  # [m/s]: slower balls hardly leave their place
# The state is a measurement, not a prediction: it is made with usual values of the cloth and never fitted.
GRAVITY, SLIDING, _ROLLING = 9.81, 0.20, 0.005


@dataclass(frozen=True)
class Striker:
    """What hit the ball.

    Attributes:
        speed: just before the hit [m/s].
        cut: angle from the struck ball's direction to the striker's, positive to the left [rad].
        throw: angle from the line of centres at the hit to the struck ball's direction, positive to the left [rad].
        throw_stddev: of it [rad].
    """

    speed: float
    cut: float
    throw: float
    throw_stddev: float


@dataclass(frozen=True)
class Track:
    """A struck ball.

    Attributes:
        shot_id: of the recording.
        ball: its colour.
        hit_time: [s] in the recording.
        hit_speed: right after the hit [m/s].
        direction: of motion after the hit, azimuth [rad].
        start_time: of the initial state, ``START`` after the hit or earlier [s] in the recording.
        start_position: (2,) [m], table frame.
        start_velocity: (2,) [m/s].
        striker: None where its last way was not seen.
        rebounds: in order, by the samples' times [s] and cushion.
        times: (T,) of the samples that are scored [s], after ``start_time``.
        positions: (T, 2) of them [m].
        rebounds_before: (T,) how many rebounds the ball had had at each.
        travel: length of the path from the start to the last scored sample [m].
    """

    shot_id: int
    ball: str
    hit_time: float
    hit_speed: float
    direction: float
    start_time: float
    start_position: np.ndarray
    start_velocity: np.ndarray
    striker: Striker | None
    rebounds: tuple[tuple[float, int], ...]
    times: np.ndarray
    positions: np.ndarray
    rebounds_before: np.ndarray
    travel: float

    @property
    def sliding_time(self) -> float:
        """Return how long the ball had moved at the initial state [s]."""
        return self.start_time - self.hit_time


class _RefusedError(Exception):
    """A struck ball makes no track; the text says why."""


def extract_tracks(shots: Sequence[RecordedShot]) -> tuple[list[Track], dict[str, int]]:
    """Return the tracks of all shots in order, and how many struck balls were refused for each reason."""
    tracks: list[Track] = []
    refused: Counter[str] = Counter()
    for shot in shots:
        for ball, path in shot.balls.items():
            if ball == shot.cue_ball or len(path.times) < 6:
                continue
            try:
                tracks.append(_track(shot, ball))
            except _RefusedError as reason:
                refused[str(reason)] += 1
    return tracks, dict(sorted(refused.items()))


def slide_then_roll(since: np.ndarray, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the way [m] and speed [m/s] of a ball, hit without spin, at times ``since`` (T,) after the hit [s].

    Args:
        since: the hit.
        speed: right after the hit [m/s]; it rolls once 2/7 of it is gone (Alciatore TP 4.1).
    """
    since = np.maximum(np.asarray(since, float), 0.0)
    slide = np.minimum(since, 2 * speed / (7 * SLIDING * GRAVITY))
    rolling = 5 / 7 * speed
    roll = np.minimum(np.maximum(since - 2 * speed / (7 * SLIDING * GRAVITY), 0.0), rolling / (_ROLLING * GRAVITY))
    way = speed * slide - 0.5 * SLIDING * GRAVITY * slide**2 + rolling * roll - 0.5 * _ROLLING * GRAVITY * roll**2
    return way, speed - SLIDING * GRAVITY * slide - _ROLLING * GRAVITY * roll


def _track(shot: RecordedShot, ball: str) -> Track:
    path = shot.balls[ball]
    t, p = path.times, path.positions
    hit, speed = _first_guess(path)
    end = _end(shot, ball, hit)
    seen = (t > hit - 1e-9) & (t <= end + 1e-9)
    times, positions, projected = t[seen], p[seen], path.projected[seen]
    rebounds = find_rebounds(MATCH_TABLE, times, positions)
    first_rebound = times[rebounds[0].sample] - 0.005 if rebounds else np.inf
    window = (times <= min(hit + WINDOW, first_rebound - 1e-9)) & ~projected
    if window.sum() < _LEAST_WINDOW:
        raise _RefusedError("too few samples before a cushion or a gap")
    place, hit, speed, direction = _initial_fit(p[0], times[window], positions[window], hit, speed)
    last = times[window][-1]
    ahead = np.array([np.cos(direction), np.sin(direction)])
    start = hit + min(START, last - hit)  # earlier where a cushion comes first
    way, start_speed = slide_then_roll(np.array([start - hit]), speed)
    start_position = place + way[0] * ahead
    scored = (times > last + 1e-9) & ~projected
    if scored.sum() < _LEAST_SCORED:
        raise _RefusedError("too few samples to score")
    travel = float(np.hypot(*np.diff(np.vstack([start_position, positions[times > start]]), axis=0).T).sum())
    if travel < MIN_TRAVEL:
        raise _RefusedError("travels less than half a metre")
    return Track(
        shot_id=shot.shot_id,
        ball=ball,
        hit_time=hit,
        hit_speed=speed,
        direction=direction,
        start_time=start,
        start_position=start_position,
        start_velocity=start_speed[0] * ahead,
        striker=_striker(shot, ball, hit, place, ahead),
        rebounds=tuple((float(times[r.sample]), r.cushion) for r in rebounds),
        times=times[scored] - start,
        positions=positions[scored],
        rebounds_before=_rebounds_before(rebounds, times, scored),
        travel=travel,
    )


def _rebounds_before(rebounds: Sequence[Rebound], times: np.ndarray, scored: np.ndarray) -> np.ndarray:
    when = np.array([times[r.sample] for r in rebounds])
    return np.searchsorted(when, times[scored], side="right")


def _first_guess(path: BallPath) -> tuple[float, float]:
    """Return when the ball was hit [s] and how fast it left [m/s], from its first two or three samples in motion."""
    t, p = path.times, path.positions
    j = min(len(t) - 1, 3)
    speed = float(np.hypot(*(p[j] - p[1]))) / (t[j] - t[1])
    if speed < _SLOW or t[j] - t[1] > 0.5:
        raise _RefusedError("starts too slowly")
    return float(t[1] - np.hypot(*(p[1] - p[0])) / speed), speed


def _end(shot: RecordedShot, ball: str, hit: float) -> float:
    """Return when the track ends [s]: before another ball may touch this one again, or with the record."""
    path = shot.balls[ball]
    grid = np.arange(hit + 0.02, path.times[-1], 0.001)
    if len(grid) < 300:
        raise _RefusedError("is seen too shortly")
    here = path.at(grid)
    others = [other.at(grid) for name, other in shot.balls.items() if name != ball]
    near = np.min([np.hypot(*(other - here).T) for other in others], axis=0) < _TOUCH
    free = np.flatnonzero(~near)
    if not len(free) or grid[free[0]] > hit + WINDOW:
        raise _RefusedError("the striker stays close")
    again = np.flatnonzero(near & (grid > grid[free[0]]))
    end = float(grid[again[0]]) - _BEFORE_TOUCH if len(again) else float(path.times[-1])
    if end < hit + WINDOW:
        raise _RefusedError("touches another ball at once")
    return end


def _initial_fit(
    rest: np.ndarray, times: np.ndarray, positions: np.ndarray, hit: float, speed: float
) -> tuple[np.ndarray, float, float, float]:
    """Return place (2,), time, speed and azimuth of the hit; the rest position weighs as much as a sample."""
    ahead = positions[-1] - rest

    def misfit(x: np.ndarray) -> np.ndarray:
        way, _ = slide_then_roll(times - x[2], x[3])
        predicted = x[:2] + way[:, None] * [np.cos(x[4]), np.sin(x[4])]
        return np.r_[(predicted - positions).ravel(), rest - x[:2]] / POSITION_NOISE

    first = [*rest, hit, speed, np.arctan2(ahead[1], ahead[0])]
    fit = least_squares(misfit, first, x_scale=[1e-3, 1e-3, 1e-3, 1e-2, 1e-2])
    if 2 * fit.cost / (2 * len(times) - 3) > _LARGEST_CHI2:
        raise _RefusedError("leaves otherwise than a ball hit once does")
    return fit.x[:2], float(fit.x[2]), float(fit.x[3]), float(fit.x[4])


def _striker(shot: RecordedShot, ball: str, hit: float, place: np.ndarray, ahead: np.ndarray) -> Striker | None:
    """Return the striker from its last samples before the hit, if they lie on a straight line."""
    others = [path for name, path in shot.balls.items() if name != ball]
    path = min(others, key=lambda other: float(np.hypot(*(other.at(np.array([hit]))[0] - place))))
    t = path.times
    last = np.flatnonzero((t < hit - 0.002) & (t > hit - 0.25) & ~path.projected)[-_STRIKER_SAMPLES:]
    if len(last) and last[0] == 0:
        last = last[1:]  # the rest sample before the stroke
    while len(last) >= 3 and _bend(path.positions[last]) > _STRAIGHT:
        last = last[1:]  # a cushion or a curve before
    if len(last) < 3:
        return None
    q = path.positions[last]
    velocity = np.polyfit(t[last] - t[last[0]], q, 1)[0]
    speed = float(np.hypot(*velocity))
    cut = float(np.arctan2(ahead[0] * velocity[1] - ahead[1] * velocity[0], velocity @ ahead))
    # At the hit the centres are a diameter apart, and the struck ball lies `beside` the striker's line.
    along = velocity / speed
    left = np.array([-along[1], along[0]])
    middle = q.mean(axis=0)
    diameter = 2 * MATCH_TABLE.ball_radius
    beside = float((place - middle) @ left)
    if abs(beside) >= diameter:
        return None
    centres = np.arctan2(along[1], along[0]) + np.arcsin(beside / diameter)
    towards = np.cos(np.arcsin(beside / diameter))
    reach = float((place - middle) @ along) - diameter * towards
    spread = float((((q - middle) @ along) ** 2).sum())
    # The line's distance from the struck ball, a direction off both; errors of samples near each other are much alike.
    doubt = POSITION_NOISE * np.sqrt(1 / len(last) + reach**2 / spread + 0.5)
    thrown = float(np.arctan2(ahead[1], ahead[0]) - centres)
    thrown = (thrown + np.pi) % (2 * np.pi) - np.pi
    return Striker(speed, cut, thrown, float(doubt / (diameter * towards)))


def _bend(q: np.ndarray) -> float:
    """Return the largest distance [m] of points (n, 2) from the line through the first and the last."""
    way = q[-1] - q[0]
    length = float(np.hypot(*way))
    return float(np.abs((q - q[0]) @ np.array([-way[1], way[0]])).max()) / length if length > 0.02 else np.inf
