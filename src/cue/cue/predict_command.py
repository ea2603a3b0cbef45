"""``cue predict``: recorded shots through the twin, with what the estimate's error bars leave open."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cue.offline_inputs import Model, choose_shots, read_model, read_source
from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.shots import ShotRecord
from cue_sim.predict import Prediction, for_balls, predict

_NINETY = 4.605  # 90 % quantile of chi-square with two degrees of freedom
_SENSOR = 0.001  # [m] of an observed rest position that has no covariance


@dataclass(frozen=True)
class BallRow:
    """One ball of one predicted shot.

    Attributes:
        shot: number.
        ball: id.
        predicted: (2,) rest position of the estimate's own values [m].
        pocketed: whether they pocket it.
        spread: (2, 2) covariance of the ensemble [m^2].
        pocket_share: of the ensemble.
        observed: (2,) [m]; None = not seen at rest on the table.
        seen_pocketed: whether it was pocketed.
        error: [m]; NaN where the two cannot be compared.
        moved: observed or predicted.
        inside: whether the 90 % ellipse of ensemble and camera holds what was seen; None = not told.
    """

    shot: int
    ball: int
    predicted: np.ndarray
    pocketed: bool
    spread: np.ndarray
    pocket_share: float
    observed: np.ndarray | None
    seen_pocketed: bool
    error: float
    moved: bool
    inside: bool | None


def predict_command(options: argparse.Namespace, write: Callable[[str], object] = print) -> int:
    """Print predicted and observed rest positions of recorded shots; return the exit code.

    Raises:
        CueError: no twin, no such shot, or a file is missing or malformed.
    """
    source = Path(options.run)
    contents = read_source(source, options.skip_bad)
    chosen = choose_shots(contents.records, options.shot, source)
    model = read_model(source, options.table, options.estimate, options.revision, contents.records)
    rows: list[BallRow] = []
    unpredicted: dict[int, str] = {}
    for record in chosen:
        generator = np.random.default_rng([options.seed, record.index])
        try:
            rows += predict_shot(model, record, options.ensemble, generator)
        except CueError as error:
            unpredicted[record.index] = str(error)
    if options.json:
        write(_json(model, rows, unpredicted))
        return 0
    write(f"predicted with {model.told}")
    write("shot ball   predicted x, y [m]  ± [mm]   observed x, y [m]   error [mm]")
    for record in chosen:
        if record.index in unpredicted:
            write(f"{record.index:>4}        not predicted: {unpredicted[record.index]}")
        for row in rows:
            if row.shot == record.index and (row.moved or options.all):
                write(_line(row))
    for line in summary(rows):
        write(line)
    return 0


def predict_shot(model: Model, record: ShotRecord, ensemble: int, generator: np.random.Generator) -> list[BallRow]:
    """Return how one shot was predicted, ball by ball.

    Raises:
        CueError: nobody knows the stroke, or the simulation failed.
    """
    stroke = record.achieved or record.commanded
    if stroke is None:
        raise CueError("no stroke was measured or commanded")
    balls = tuple(ball.ball_id for ball in record.before if ball.in_play)
    twin = for_balls(model.twin, balls)
    uncertain = bool(np.any(model.estimate.covariance))
    count = ensemble if uncertain else 0
    prediction = predict(twin, record.before, stroke, model.estimate, (), count, generator, threads=None)
    before = {ball.ball_id: ball for ball in record.before}
    after = {ball.ball_id: ball for ball in record.after}
    return [_row(record, k, before[ball], after.get(ball), prediction) for k, ball in enumerate(balls)]


def _row(record: ShotRecord, k: int, before: BallState, after: BallState | None, prediction: Prediction) -> BallRow:
    predicted, gone = prediction.mean.rest_positions[k], bool(prediction.mean.rest_pocketed[k])
    at_rest = after is not None and after.in_play
    seen_pocketed = after is not None and not after.in_play
    observed = after.position if after is not None and at_rest else None
    spread = prediction.rest_covariance[k]
    error, inside = math.nan, None
    if observed is not None:
        error = float(np.linalg.norm(predicted - observed))
    if observed is not None and prediction.samples and not gone and prediction.pocket_probability[k] == 0:
        camera = after.covariance if after is not None and after.covariance.any() else np.eye(2) * _SENSOR**2
        miss = prediction.rest_mean[k] - observed
        inside = bool(miss @ np.linalg.solve(spread + camera, miss) <= _NINETY)
    moved = gone or seen_pocketed or before.ball_id in record.moved_ball_ids()
    moved = moved or float(np.linalg.norm(predicted - before.position)) > 0.003
    return BallRow(
        shot=record.index,
        ball=before.ball_id,
        predicted=predicted,
        pocketed=gone,
        spread=spread,
        pocket_share=float(prediction.pocket_probability[k]) if prediction.samples else float(gone),
        observed=observed,
        seen_pocketed=seen_pocketed,
        error=error,
        moved=moved,
        inside=inside,
    )


def _line(row: BallRow) -> str:
    predicted = "       pocketed" if row.pocketed else f"{row.predicted[0]:>8.4f}{row.predicted[1]:>9.4f}"
    if 0.0 < row.pocket_share < 1.0:
        spread = f"{100 * row.pocket_share:.0f}% in"
    else:
        spread = "" if row.pocketed or not row.spread.any() else f"{1000 * math.sqrt(np.trace(row.spread)):.1f}"
    observed, error = "        unknown", ""
    if row.observed is not None:
        observed, error = f"{row.observed[0]:>8.4f}{row.observed[1]:>9.4f}", f"{1000 * row.error:.1f}"
    elif row.seen_pocketed:
        observed = "       pocketed"
    return f"{row.shot:>4} {row.ball:>4}   {predicted:<17} {spread:>7}   {observed:<17}   {error:>9}".rstrip()


def summary(rows: Sequence[BallRow]) -> list[str]:
    """Return what the predictions were worth, over the balls that moved."""
    moved = [row for row in rows if row.moved]
    errors = np.array([row.error for row in moved if math.isfinite(row.error) and not row.pocketed])
    lines = []
    if len(errors):
        lines.append(
            f"{len(errors)} balls that moved and stayed on the table: error median {1000 * np.median(errors):.1f} mm, "
            f"mean {1000 * np.mean(errors):.1f} mm, 90 % below {1000 * np.quantile(errors, 0.9):.1f} mm"
        )
    told = [row.inside for row in moved if row.inside is not None]
    if told:
        lines.append(f"{100 * np.mean(told):.0f} % of {len(told)} lie within the ensemble's 90 % ellipse")
    pockets = [row for row in moved if row.pocketed or row.seen_pocketed]
    if pockets:
        right = sum(row.pocketed == row.seen_pocketed for row in pockets)
        lines.append(f"{right} of {len(pockets)} balls that were pocketed, observed or predicted, were so in both")
    return lines


def _json(model: Model, rows: Sequence[BallRow], unpredicted: dict[int, str]) -> str:
    def place(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else [float(v) for v in values]

    return json.dumps(
        {
            "model": model.told,
            "revision": model.estimate.revision,
            "balls": [
                {
                    "shot": row.shot,
                    "ball": row.ball,
                    "predicted_m": place(row.predicted),
                    "predicted_pocketed": row.pocketed,
                    "covariance_m2": row.spread.tolist(),
                    "pocket_probability": row.pocket_share,
                    "observed_m": place(row.observed),
                    "observed_pocketed": row.seen_pocketed,
                    "error_m": row.error if math.isfinite(row.error) else None,
                    "moved": row.moved,
                }
                for row in rows
            ],
            "not_predicted": {str(shot): reason for shot, reason in unpredicted.items()},
        },
        indent=1,
    )
