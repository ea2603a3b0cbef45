"""``cue predict``: recorded shots through the twin, with what error bars, stroke and start leave open."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cue.offline_inputs import Model, choose_shots, read_model, read_source
from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.shots import Shot, ShotRecord, Stroke
from cue_identify.scoring import MOVED
from cue_sim.outlook import Unknowns
from cue_sim.path import Trajectory
from cue_sim.predict import TwinFaultError, for_balls, rest_fault, sample_parameters, start_from
from cue_sim.twin import Twin

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
            rows += predict_shot(model, record, options.ensemble, generator, options.only_parameters)
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


@dataclass(frozen=True)
class _Ensemble:
    """What may happen, by what is not known: (k,) members that simulated well.

    Attributes:
        mean: the prediction of the values themselves.
        rests: (k, n, 2) [m].
        pocketed: (k, n) bool.
    """

    mean: Trajectory
    rests: np.ndarray
    pocketed: np.ndarray


def predict_shot(
    model: Model, record: ShotRecord, members: int, generator: np.random.Generator, only_parameters: bool = False
) -> list[BallRow]:
    """Return how one shot was predicted, ball by ball.

    Args:
        model: twin and estimate.
        record: of which only the balls at rest and the stroke are used, and what is compared with.
        members: of the ensemble; 0 = none.
        generator: of its draws.
        only_parameters: take stroke and places as they were measured, without their errors.

    Raises:
        CueError: nobody knows the stroke, or the simulation failed.
    """
    stroke = record.achieved or _as_stroke(record.commanded)
    if stroke is None:
        raise CueError("no stroke was measured or commanded")
    if not stroke.tip_speed > 0:
        raise CueError(f"its stroke has a tip speed of {stroke.tip_speed:g} m/s")
    balls = [ball for ball in record.before if ball.in_play]
    ids = tuple(ball.ball_id for ball in balls)
    twin = for_balls(model.twin, ids)
    mean = twin.simulate(start_from(balls, stroke, model.estimate.values, twin.table, ids), model.estimate.values)
    if fault := rest_fault(mean):
        raise TwinFaultError(fault, f"shot {record.shot_id or record.index}")
    unknowns = Unknowns(azimuth=0.0, speed=0.0, place=0.0) if only_parameters else Unknowns()
    uncertain = bool(np.any(model.estimate.covariance)) or not only_parameters
    ensemble = _ensemble(model, twin, balls, stroke, mean, members if uncertain else 0, generator, unknowns)
    after = {ball.ball_id: ball for ball in record.after}
    return [_row(record, k, ball, after.get(ball.ball_id), ensemble) for k, ball in enumerate(balls)]


def _as_stroke(shot: Shot | None) -> Stroke | None:
    if shot is None:
        return None
    return Stroke(
        shot.speed,
        shot.azimuth,
        elevation=shot.elevation,
        side_offset=shot.side_offset,
        vertical_offset=shot.vertical_offset,
    )


def _ensemble(
    model: Model,
    twin: Twin,
    balls: Sequence[BallState],
    stroke: Stroke,
    mean: Trajectory,
    members: int,
    generator: np.random.Generator,
    unknowns: Unknowns,
) -> _Ensemble:
    vectors = sample_parameters(model.estimate, members, generator)
    azimuth = math.hypot(stroke.azimuth_stddev, unknowns.azimuth) if unknowns.azimuth else 0.0
    speed = math.hypot(stroke.tip_speed_stddev / stroke.tip_speed, unknowns.speed) if unknowns.speed else 0.0
    starts = []
    for vector in vectors:
        turn, gain = azimuth * generator.standard_normal(), speed * generator.standard_normal()
        struck = replace(stroke, azimuth=stroke.azimuth + turn, tip_speed=stroke.tip_speed * max(1.0 + gain, 0.1))
        moved = [replace(b, position=b.position + unknowns.place * generator.standard_normal(2)) for b in balls]
        starts.append(start_from(moved, struck, vector, twin.table, twin.ball_ids))
    paths = twin.simulate_batch(starts, vectors, threads=None) if starts else []
    good = [path for path in paths if rest_fault(path) is None]
    n = len(balls)
    rests = np.array([path.rest_positions for path in good]).reshape(-1, n, 2)
    return _Ensemble(mean, rests, np.array([path.rest_pocketed for path in good], bool).reshape(-1, n))


def _row(record: ShotRecord, k: int, before: BallState, after: BallState | None, ensemble: _Ensemble) -> BallRow:
    predicted, gone = ensemble.mean.rest_positions[k], bool(ensemble.mean.rest_pocketed[k])
    seen_pocketed = after is not None and not after.in_play
    observed = after.position if after is not None and after.in_play else None
    members = len(ensemble.rests)
    share = float(ensemble.pocketed[:, k].mean()) if members else float(gone)
    staying = ensemble.rests[~ensemble.pocketed[:, k], k] if members else np.zeros((0, 2))
    spread = np.cov(staying.T) if len(staying) > 2 else np.zeros((2, 2))
    error, inside = math.nan, None
    if observed is not None:
        error = float(np.linalg.norm(predicted - observed))
    if after is not None and observed is not None and len(staying) > 2 and not gone and share < 0.5:
        camera = after.covariance if after.covariance.any() else np.eye(2) * _SENSOR**2
        miss = staying.mean(axis=0) - observed
        inside = bool(miss @ np.linalg.solve(spread + camera, miss) <= _NINETY)
    moved = gone or seen_pocketed or before.ball_id in record.moved_ball_ids()
    return BallRow(
        shot=record.index,
        ball=before.ball_id,
        predicted=predicted,
        pocketed=gone,
        spread=spread,
        pocket_share=share,
        observed=observed,
        seen_pocketed=seen_pocketed,
        error=error,
        moved=moved or float(np.linalg.norm(predicted - before.position)) > MOVED,
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
