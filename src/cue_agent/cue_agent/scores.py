"""How far the twin's predictions are from what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cue_agent.peers import Prediction, Twin, TwinError
from cue_core.shots import Shot, ShotRecord
from cue_identify.scoring import ShotScore, sample_times, score_shot


@dataclass(frozen=True)
class _Sampled:
    """A prediction in the form that :mod:`cue_identify.scoring` takes."""

    positions: np.ndarray
    rest_positions: np.ndarray


def achieved_shot(record: ShotRecord) -> Shot:
    """Return the shot that was played: the stroke as measured, not as commanded.

    Raises:
        ValueError: no stroke was measured.
    """
    stroke = record.achieved
    if stroke is None:
        raise ValueError(f"shot {record.shot_id} has no measured stroke")
    limit = 0.5  # a tip that strikes further out is measured badly rather than a miscue that moved the ball
    return Shot(
        record.shot_id,
        stroke.tip_speed,
        stroke.azimuth,
        max(stroke.elevation, 0.0),
        float(np.clip(stroke.side_offset, -limit, limit)),
        float(np.clip(stroke.vertical_offset, -limit, limit)),
    )


def replay(twin: Twin, record: ShotRecord, revision: int) -> Prediction:
    """Return what the twin predicts for a recorded shot from the balls observed before it and the achieved stroke.

    Raises:
        TwinError: it cannot.
    """
    balls = [b.at_rest() for b in record.before if b.in_play]
    times = sample_times(record).tolist()
    (prediction,) = twin.predict([achieved_shot(record)], balls, revision=revision, times=times)
    if prediction is None:
        raise TwinError(f"the twin cannot simulate shot {record.shot_id}")
    return prediction


def score(record: ShotRecord, prediction: Prediction) -> ShotScore:
    """Return the errors of a prediction that was sampled at the record's sample times."""
    times = sample_times(record)
    tracks = {t.ball_id: t.position for t in prediction.tracks}
    columns = []
    for n, ball_id in enumerate(prediction.ball_ids):
        rows = tracks.get(ball_id, np.zeros((0, 2)))[: len(times)]
        # A track ends where its ball is pocketed; the ball stays there.
        rest = np.tile(prediction.rest[n], (len(times) - len(rows), 1))
        columns.append(np.concatenate([rows, rest]))
    sampled = _Sampled(np.stack(columns, axis=1), prediction.rest)
    return score_shot(record, times, sampled, prediction.ball_ids)


def place_stddev(record: ShotRecord) -> float:
    """Return how far off the balls at rest after a shot may be seen [m], by the tracker; NaN where it does not say."""
    variances = [np.trace(b.covariance) / 2 for b in record.after if b.in_play]
    known = [float(v) for v in variances if np.isfinite(v) and v > 0]
    return float(np.sqrt(np.median(known))) if known else float("nan")


def score_to_dict(found: ShotScore) -> dict[str, Any]:
    """Return plain data for the summary."""
    return {"rest_error_m": found.rest_error, "along_track_error_m": found.along_track_error}
