"""Recorded shots as a shot log: what a camera saw of strokes that nobody measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cue_core.balls import BallState, ball_colour
from cue_core.errors import FileFormatError
from cue_core.shot_log import ShotLog
from cue_core.shots import BallTrack, ShotRecord
from cue_core.table import TableModel
from cue_identify.real_shots.recording import MATCH_TABLE, POSITION_NOISE, BallPath, RecordedShot, read_shots

CUE, OTHER, RED = 0, 1, 3
"""Ids in the log. Ball 0 is the one that was struck, white or yellow, since every shot of a log begins with ball 0; the
other player's ball is 1. Colours tell which is which."""

_FRAME = 0.02  # [s] of the recordings
_MOVED = 0.004  # [m]: less, from the first sample to the last, is noise of a ball at rest


def import_recording(source: Path | str, log: Path | str, table: TableModel = MATCH_TABLE) -> list[ShotRecord]:
    """Read recorded shots and append them to a shot log, all or, when anything is wrong, none.

    Args:
        source: in the format that :mod:`cue_identify.real_shots.recording` tells.
        log: ``shots.jsonl``; made when missing.
        table: on which they were played.

    Returns:
        What was appended.

    Raises:
        FileFormatError: either file is malformed or cannot be used, or the log holds one of these shots already.
    """
    target = ShotLog(log)
    held = target.read()
    records = to_records(read_shots(source, table), first_index=len(held))
    if twice := sorted({r.shot_id for r in held} & {r.shot_id for r in records}):
        raise FileFormatError(log, f"holds shot {twice[0]} already")
    for record in records:
        target.append(record)
    return records


def to_records(shots: Sequence[RecordedShot], first_index: int = 0) -> list[ShotRecord]:
    """Return recorded shots as records without commanded and achieved stroke, in the table frame.

    Samples that the recording moved to the border of the table are left out of the tracks.

    Args:
        shots: in order.
        first_index: of the first record.
    """
    return [_record(shot, first_index + i) for i, shot in enumerate(shots)]


def _record(shot: RecordedShot, index: int) -> ShotRecord:
    struck = shot.cue_ball
    ids = {struck: CUE, "red": RED, ("yellow" if struck == "white" else "white"): OTHER}
    if struck == "red":
        raise FileFormatError(f"shot {shot.shot_id}", "begins with the red ball, which no player strikes")
    began, doubt = _strike_time(shot.balls[struck])
    order = sorted(ids, key=lambda ball: ids[ball])
    moved = [ball for ball in order if ball == struck or _moves(shot.balls[ball])]
    return ShotRecord(
        shot_id=str(shot.shot_id),
        index=index,
        commanded=None,
        achieved=None,
        strike_time=began,
        strike_time_stddev=doubt,
        before=tuple(_at_rest(ids[ball], ball, shot.balls[ball].positions[0]) for ball in order),
        after=tuple(_at_rest(ids[ball], ball, shot.balls[ball].positions[-1]) for ball in order),
        tracks=tuple(_track(ids[ball], shot.balls[ball], began) for ball in moved),
    )


def _moves(path: BallPath) -> bool:
    return len(path.times) > 2 or float(np.hypot(*(path.positions[-1] - path.positions[0]))) > _MOVED


def _strike_time(path: BallPath) -> tuple[float, float]:
    """Return when a ball left its place [s], told by its first samples in motion, and how well that is known."""
    t, p = path.times, path.positions
    if len(t) < 4:
        return (float(t[1]) if len(t) > 2 else float(t[0])), _FRAME
    speed = float(np.hypot(*(p[3] - p[1]))) / float(t[3] - t[1])
    way = float(np.hypot(*(p[1] - p[0])))
    earliest = float(t[0])
    return (max(earliest, float(t[1]) - way / speed) if speed > 0 else float(t[1])), _FRAME / 2


def _at_rest(ball_id: int, colour: str, position: np.ndarray) -> BallState:
    known = {ball_colour(i)[0] for i in (CUE, OTHER, RED)}
    return BallState(
        ball_id,
        position.copy(),
        covariance=np.eye(2) * POSITION_NOISE**2,
        colour=colour if colour in known else "",
    )


def _track(ball_id: int, path: BallPath, began: float) -> BallTrack:
    kept = ~path.projected
    count = int(kept.sum())
    covariance = np.broadcast_to(np.eye(2) * POSITION_NOISE**2, (count, 2, 2)).copy()
    return BallTrack(ball_id, path.times[kept] - began, path.positions[kept].copy(), covariance)
