"""Fits without ROS.

>>> outcome = fit("runs/20260101-120000/shots.jsonl", "config/tables/small.yaml")
>>> outcome.estimate.values, outcome.reason
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import ShotLog
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitOutcome, FitRequest, Fitter
from cue_identify.replay import Budget, Progress, Replayer, TwinSimulator
from cue_identify.scoring import ShotScore


def ball_ids_of(records: Sequence[ShotRecord]) -> tuple[int, ...]:
    """Return the ids of all balls that were ever in play, in order; the cue ball is always among them."""
    return tuple(sorted({0} | {ball.ball_id for record in records for ball in record.before if ball.in_play}))


def fit(
    shots_path: Path | str,
    table: TableModel | Path | str,
    held_out: Sequence[str] = (),
    parameters: Sequence[str] = (),
    evaluations: int = 0,
    seed: int = 0,
    threads: int = 0,
    present: ParameterEstimate | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> FitOutcome:
    """Fit a shot log.

    Args:
        shots_path: ``shots.jsonl``.
        table: model or preset file.
        held_out: shot ids that only judge; empty = the newest ones judge, then are fitted too.
        parameters: names to fit; empty = the default set.
        evaluations: budget of simulated shots; 0 = default.
        seed: of the search.
        threads: 0 = one per core; no influence on the result.
        present: estimate to start from and to beat; None = nominal.
        report: takes the progress several times a second.

    Raises:
        FileFormatError: a file is missing or damaged.
        FitError: with its code.
    """
    records = ShotLog(shots_path).read()
    if not records:
        raise FitError(FitCode.NO_SHOTS, f"{shots_path} holds no shot")
    model = table if isinstance(table, TableModel) else TableModel.load(table)
    fitter = Fitter(TwinSimulator(model, ball_ids_of(records)), FitConfig(threads=threads))
    request = FitRequest((), tuple(held_out), tuple(parameters), evaluations, seed)
    return fitter.fit(records, request, present, report=report)


def score(records: Sequence[ShotRecord], table: TableModel, values: np.ndarray) -> list[ShotScore]:
    """Return the errors of parameters ``values`` (P,) on records, predicted from the achieved strokes alone."""
    replayer = Replayer(TwinSimulator(table, ball_ids_of(records)), Budget(limit=len(records)))
    return replayer.score(records, values)
