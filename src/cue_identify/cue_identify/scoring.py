"""How far a predicted shot is from the observed one. The agent, the gate and the report use these figures alike.

A prediction to score starts from the rest positions observed before the shot and from the achieved stroke alone:
nothing observed during the shot may help it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cue_core.balls import BallState, Visibility
from cue_core.shots import BallTrack, ShotRecord

MOVED = 0.003
"""A ball whose rest position changed by more than this has moved [m]: above what a tracker wanders."""

_SLOW = 0.02  # [m/s] below it, noise decides the direction of an observed step


class Prediction(Protocol):
    """What is scored; ``cue_sim.twin.Trajectory`` is one. Arrays follow the order of the ball ids."""

    @property
    def positions(self) -> np.ndarray:
        """(T, n, 2) at the times asked for; a pocketed ball stays where it vanished [m]."""

    @property
    def rest_positions(self) -> np.ndarray:
        """(n, 2) where each ball came to rest or vanished in a pocket [m]."""


@dataclass(frozen=True)
class ShotScore:
    """Errors of one predicted shot.

    Attributes:
        shot_id: of the record.
        rest_error: see :func:`rest_error` [m].
        along_track_error: see :func:`along_track_error` [m]; NaN where nothing was seen to move.
    """

    shot_id: str
    rest_error: float
    along_track_error: float


def observed_rest(record: ShotRecord) -> dict[int, np.ndarray]:
    """Return the observed (2,) rest position [m] of each ball that was in play before the shot.

    A ball that vanished in a pocket rests where its track ends. A ball that was lost, or left the table, is left out.
    """
    tracks = {track.ball_id: track for track in record.tracks}
    after = {ball.ball_id: ball for ball in record.after}
    found: dict[int, np.ndarray] = {}
    for ball in record.before:
        if not ball.in_play:
            continue
        track, end = tracks.get(ball.ball_id), after.get(ball.ball_id)
        if _is_pocketed(track, end):
            if track is not None and len(track.time):
                found[ball.ball_id] = track.position[-1]
        elif end is not None and end.in_play:
            found[ball.ball_id] = end.position
        elif end is None:
            moved = track is not None and len(track.time)
            found[ball.ball_id] = track.position[-1] if track is not None and moved else ball.position
    return found


def _is_pocketed(track: BallTrack | None, end: BallState | None) -> bool:
    return (track is not None and track.pocketed) or (end is not None and end.visibility is Visibility.POCKETED)


def rest_error(record: ShotRecord, prediction: Prediction, ball_ids: Sequence[int]) -> float:
    """Return the mean distance [m] between predicted and observed rest positions over the balls that moved.

    Balls count that moved in the observation or in the prediction (by more than :data:`MOVED`). A pocketed ball
    rests where it vanished, observed as well as predicted: both pocketed in the same pocket differ by centimetres,
    one pocketed and one not by the way between. NaN where no ball moved.
    """
    order = {ball_id: i for i, ball_id in enumerate(ball_ids)}
    before = {ball.ball_id: ball.position for ball in record.before}
    errors = []
    for ball_id, seen in observed_rest(record).items():
        if ball_id not in order:
            continue
        predicted = prediction.rest_positions[order[ball_id]]
        start = before[ball_id]
        if max(np.linalg.norm(seen - start), np.linalg.norm(predicted - start)) > MOVED:
            errors.append(float(np.linalg.norm(predicted - seen)))
    return float(np.mean(errors)) if errors else float("nan")


def sample_times(record: ShotRecord) -> np.ndarray:
    """Return the (T,) times after the strike at which a prediction must be sampled to be scored, increasing [s]."""
    times = np.concatenate([np.zeros(1), *(track.time for track in record.tracks)])
    return np.unique(times[times >= 0])


def along_track_error(record: ShotRecord, times: np.ndarray, prediction: Prediction, ball_ids: Sequence[int]) -> float:
    """Return the mean size [m] of the position error along the observed direction of travel.

    The mean runs over all samples, from the strike on, of all balls seen to move; a ball not yet moving, or at rest,
    has the direction in which it will leave or came. It tells an error of pace from one of direction. NaN where
    nothing was seen to move.

    Args:
        record: the observed shot.
        times: (T,) sample times of the prediction, from :func:`sample_times`.
        prediction: sampled at ``times``.
        ball_ids: in the prediction's order.
    """
    order = {ball_id: i for i, ball_id in enumerate(ball_ids)}
    errors = []
    for track in record.tracks:
        if track.ball_id not in order:
            continue
        direction = travel_direction(track)
        after_strike = track.time >= 0
        if direction is None or not after_strike.any():
            continue
        rows = np.searchsorted(times, track.time[after_strike])
        difference = prediction.positions[rows, order[track.ball_id]] - track.position[after_strike]
        errors.append(np.abs(np.sum(difference * direction[after_strike], axis=1)))
    return float(np.mean(np.concatenate(errors))) if errors else float("nan")


def travel_direction(track: BallTrack) -> np.ndarray | None:
    """Return the (n, 2) unit direction of travel at each sample, None for a track that stays put.

    Central differences; where the ball is too slow for them, the nearest earlier moving sample decides, else the next.
    """
    if len(track.time) < 2 or np.ptp(track.position, axis=0).max() < MOVED:
        return None
    step = np.empty_like(track.position)
    step[1:-1] = track.position[2:] - track.position[:-2]
    step[0], step[-1] = track.position[1] - track.position[0], track.position[-1] - track.position[-2]
    span = np.empty_like(track.time)
    span[1:-1] = track.time[2:] - track.time[:-2]
    span[0], span[-1] = track.time[1] - track.time[0], track.time[-1] - track.time[-2]
    length = np.linalg.norm(step, axis=1)
    moving = np.flatnonzero(length > _SLOW * span)
    if not len(moving):
        return None
    nearest = moving[np.maximum(np.searchsorted(moving, np.arange(len(length)), side="right") - 1, 0)]
    return step[nearest] / length[nearest, None]


def score_shot(record: ShotRecord, times: np.ndarray, prediction: Prediction, ball_ids: Sequence[int]) -> ShotScore:
    """Return both errors of one shot; see the two functions."""
    return ShotScore(
        record.shot_id,
        rest_error(record, prediction, ball_ids),
        along_track_error(record, times, prediction, ball_ids),
    )


def mean_score(scores: Sequence[ShotScore]) -> tuple[float, float]:
    """Return the mean rest error and along-track error [m] over shots, NaNs left out; NaN where none is left."""

    def mean(values: list[float]) -> float:
        kept = [v for v in values if np.isfinite(v)]
        return float(np.mean(kept)) if kept else float("nan")

    return mean([s.rest_error for s in scores]), mean([s.along_track_error for s in scores])
