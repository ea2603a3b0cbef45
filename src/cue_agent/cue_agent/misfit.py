"""Where the fitted twin explains the recorded shots worst: growth of the error by what the ball did last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cue_agent.peers import Prediction
from cue_core.shots import BallTrack, ShotRecord
from cue_core.table import TableModel
from cue_identify.events import contact_times

KINDS = ("roll", "cushion", "ball")
"""What a stretch of a ball's path began with: the strike, a cushion, another ball."""
_NEAR = 0.02
"""What a ball may be away beyond the contact distance at the sample before a contact, beside its way [m]."""
_SHORT = 0.02
"""A stretch shorter than this says nothing [m]."""


@dataclass(frozen=True)
class Misfit:
    """How well one kind of stretch is explained.

    Attributes:
        growth: of the position error along such stretches [m per m of path].
        stretches: how many were seen.
    """

    growth: float
    stretches: int


def _interpolate(track: BallTrack, times: np.ndarray) -> np.ndarray:
    columns = [np.interp(times, track.time, track.position[:, i]) for i in range(2)]
    return np.stack(columns, -1)


def _nose_distance(table: TableModel, position: np.ndarray) -> float:
    return float(np.min(np.array([table.length / 2, table.width / 2]) - np.abs(position)))


def _contact_kind(record: ShotRecord, table: TableModel, track: BallTrack, time: float) -> str | None:
    """Return what the track's ball touched at about ``time``, None if nothing."""
    row = min(int(np.searchsorted(track.time, time)), len(track.time) - 1)
    position = track.position[row]
    after = min(row + 1, len(track.time) - 1)
    reach = _NEAR + float(np.linalg.norm(track.position[after] - track.position[max(row - 1, 0)]))
    others = {b.ball_id: b.position for b in record.before if b.in_play and b.ball_id != track.ball_id}
    for other in record.tracks:
        if other.ball_id in others and len(other.time):
            others[other.ball_id] = _interpolate(other, track.time[row : row + 1])[0]
    if any(np.linalg.norm(position - p) < 2 * table.ball_radius + reach for p in others.values()):
        return "ball"
    return "cushion" if _nose_distance(table, position) < table.ball_stop + reach else None


def stretches(record: ShotRecord, table: TableModel) -> list[tuple[str, BallTrack, slice]]:
    """Return each stretch between contacts of each moved ball: its kind, the track, and its samples."""
    contacts = contact_times(record)
    found = []
    for track in record.tracks:
        rows = np.searchsorted(track.time, 0.0)
        kind = "roll" if track.ball_id == 0 else "ball"  # an object ball is set off by a ball
        begin = int(rows)
        for time in contacts:
            touched = _contact_kind(record, table, track, float(time))
            row = int(np.searchsorted(track.time, time, side="right"))
            if touched is None or row >= len(track.time):
                continue
            found.append((kind, track, slice(begin, row)))
            kind, begin = touched, row
        found.append((kind, track, slice(begin, len(track.time))))
    return [s for s in found if s[2].stop - s[2].start >= 2]


def misfit(explained: Iterable[tuple[ShotRecord, Prediction]], table: TableModel) -> Mapping[str, Misfit]:
    """Return the misfit of each kind over records and what the twin predicts for them.

    The predictions' tracks must be sampled at the records' sample times. A kind that was not seen has growth 0.
    """
    error = dict.fromkeys(KINDS, 0.0)
    path = dict.fromkeys(KINDS, 0.0)
    count = dict.fromkeys(KINDS, 0)
    for record, prediction in explained:
        predicted = {t.ball_id: t for t in prediction.tracks}
        for kind, track, rows in stretches(record, table):
            seen = track.position[rows]
            length = float(np.sum(np.linalg.norm(np.diff(seen, axis=0), axis=1)))
            if length < _SHORT or track.ball_id not in predicted:
                continue
            off = _interpolate(predicted[track.ball_id], track.time[rows]) - seen
            error[kind] += float(np.linalg.norm(off[-1] - off[0]))
            path[kind] += length
            count[kind] += 1
    return {k: Misfit(error[k] / path[k] if path[k] else 0.0, count[k]) for k in KINDS}
