"""What a report tells, gathered from a run folder: nothing here draws."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cue.offline_inputs import carrying
from cue_core.errors import FileFormatError
from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import ShotLog, read_lines
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_identify.offline import told_verdicts
from cue_identify.scoring import mean_score, sample_times, score_shot
from cue_sim.portable import read_statement
from cue_sim.predict import start_from
from cue_sim.twin import Trajectory, Twin

_DENSE_STEP = 1 / 60  # [s] between points of a drawn prediction


@dataclass(frozen=True)
class HeldOutShot:
    """One shot that only judged, observed and predicted.

    Attributes:
        record: as observed.
        ball_ids: order of the predictions.
        unfitted: by the nominal parameters, sampled densely for drawing.
        calibrated: by the final estimate, likewise.
        unfitted_error: rest-position error [m].
        calibrated_error: rest-position error [m].
    """

    record: ShotRecord
    ball_ids: tuple[int, ...]
    unfitted: Trajectory
    calibrated: Trajectory
    unfitted_error: float
    calibrated_error: float


@dataclass(frozen=True)
class RevisionError:
    """How well one estimate explains the held-out shots.

    Attributes:
        revision: of the estimate; 0 = unfitted.
        shots: count of shots that it was fitted to.
        rest_error: mean over the held-out shots [m].
        along_track_error: mean over the held-out shots [m].
    """

    revision: int
    shots: int
    rest_error: float
    along_track_error: float


@dataclass(frozen=True)
class RunData:
    """A run folder, read and replayed.

    Attributes:
        folder: of the run.
        summary: ``summary.json``.
        table: of the twin.
        estimates: nominal first, then every promoted one in order.
        held_out: the shots that only judged.
        curve: errors of each estimate over the same held-out shots.
        decisions: lines of ``agent.jsonl``.
        shots: every record.
        truth: lines of ``score.jsonl``, empty on a real table.
        verdicts: what was said of each parameter of the final estimate, by name.
        portable: what ``twin.xml`` says of itself; empty = nothing.
    """

    folder: Path
    summary: Mapping[str, Any]
    table: TableModel
    estimates: tuple[ParameterEstimate, ...]
    held_out: tuple[HeldOutShot, ...]
    curve: tuple[RevisionError, ...]
    decisions: tuple[Mapping[str, Any], ...]
    shots: tuple[ShotRecord, ...]
    truth: tuple[Mapping[str, Any], ...]
    verdicts: Mapping[str, str] = field(default_factory=dict)
    portable: Mapping[str, Any] = field(default_factory=dict)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileFormatError(path, "no such file; is this the folder of a finished run?") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(path, f"cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise FileFormatError(path, f"holds a {type(data).__name__}, needs an object")
    return data


def _portable_statement(path: Path) -> dict[str, Any]:
    try:
        return read_statement(path)
    except FileFormatError:  # there is none, or one of an earlier version, which says nothing
        return {}


def _predict(twin: Twin, record: ShotRecord, values: np.ndarray, times: np.ndarray) -> Trajectory:
    assert record.achieved is not None  # chosen by the caller
    start = start_from(record.before, record.achieved, values, twin.table, twin.ball_ids)
    return twin.simulate(start, values, times)


def _held_out_shot(table: TableModel, record: ShotRecord, final: ParameterEstimate) -> HeldOutShot:
    ball_ids = tuple(b.ball_id for b in record.before if b.in_play)
    plain = Twin(table, ball_ids)
    end = max((track.time[-1] for track in record.tracks), default=1.0)
    times = np.union1d(sample_times(record), np.arange(0.0, end + 4.0, _DENSE_STEP))
    unfitted = _predict(plain, record, ParameterEstimate.nominal().values, times)
    calibrated = _predict(carrying(plain, final), record, final.values, times)
    errors = [score_shot(record, times, trajectory, ball_ids).rest_error for trajectory in (unfitted, calibrated)]
    return HeldOutShot(record, ball_ids, unfitted, calibrated, errors[0], errors[1])


def _error_curve(
    table: TableModel, records: Sequence[ShotRecord], estimates: Sequence[ParameterEstimate]
) -> tuple[RevisionError, ...]:
    curve = []
    for estimate in estimates:
        scores = []
        for record in records:
            ball_ids = tuple(b.ball_id for b in record.before if b.in_play)
            times = sample_times(record)
            trajectory = _predict(carrying(Twin(table, ball_ids), estimate), record, estimate.values, times)
            scores.append(score_shot(record, times, trajectory, ball_ids))
        rest, along = mean_score(scores)
        curve.append(RevisionError(estimate.revision, len(estimate.shot_ids), rest, along))
    return tuple(curve)


def read_run(folder: Path | str) -> RunData:
    """Read a run folder and replay its held-out shots with every promoted estimate.

    Raises:
        FileFormatError: a file that a finished run has is missing or malformed; names it.
    """
    folder = Path(folder)
    summary = _read_json(folder / "summary.json")
    table = TableModel.from_dict(_read_json(folder / "twin.json")["table"], folder / "twin.json")
    shots = tuple(ShotLog(folder / "shots.jsonl").read())
    lines = [line for line in read_lines(folder / "estimates.jsonl") if line.get("promoted")]
    fitted = [e for e in (ParameterEstimate.from_dict(line) for line in lines) if e.revision > 0]
    estimates = (ParameterEstimate.nominal(), *fitted)
    held_out_ids = [row["shot_id"] for row in summary.get("held_out", {}).get("per_shot", [])]
    by_id = {record.shot_id: record for record in shots}
    records = [by_id[i] for i in held_out_ids if i in by_id and by_id[i].usable]
    return RunData(
        folder=folder,
        summary=summary,
        table=table,
        estimates=estimates,
        held_out=tuple(_held_out_shot(table, record, estimates[-1]) for record in records),
        curve=_error_curve(table, records, estimates),
        decisions=tuple(read_lines(folder / "agent.jsonl")),
        shots=shots,
        truth=tuple(read_lines(folder / "score.jsonl")),
        verdicts=told_verdicts(estimates[-1], lines[-1].get("verdicts", ()) if fitted else ()),
        portable=_portable_statement(folder / "twin.xml"),
    )


def finite(value: Any) -> float:
    """Return a number as float, NaN for anything that is none."""
    return float(value) if isinstance(value, int | float) else math.nan
