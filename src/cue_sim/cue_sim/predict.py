"""Predictions of shots: the start after a stroke, and what the posterior says about where balls come to rest.

>>> start = start_from(balls, stroke, parameters, table, twin.ball_ids)
>>> prediction = predict(twin, balls, shot, estimate, times, ensemble=32, generator=np.random.default_rng(0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.balls import BallState
from cue_core.errors import CueError, FileFormatError
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shots import BallTrack, Shot, Stroke
from cue_core.table import TableModel
from cue_sim.kernel import EventKind
from cue_sim.strike import lift, strike
from cue_sim.twin import Start, Trajectory, Twin

CUE_BALL = 0
_TILT = [list(PARAMETERS).index(name) for name in ("tilt_x", "tilt_y")]
_ROLLING = list(PARAMETERS).index("rolling_friction")
_STEEPEST = 0.9  # [-] of the rolling resistance: what the fit supposes of beds on which balls rest


class TwinFaultError(CueError):
    """A simulation that cannot be trusted."""

    def __init__(self, fault: str, where: str) -> None:
        """Name the fault and what was simulated."""
        super().__init__(f"the simulation of {where} failed: {fault}")


@dataclass(frozen=True)
class Prediction:
    """What a shot will do, in the twin's ball order and the table frame.

    Attributes:
        mean: trajectory with the estimate's own values.
        rest_mean: (n, 2) over the ensemble [m].
        rest_covariance: (n, 2, 2) over the ensemble [m^2].
        pocket_probability: (n,) share of the ensemble in which the ball is pocketed by this shot.
        samples: ensemble members used, those with a fault left out.
    """

    mean: Trajectory
    rest_mean: np.ndarray
    rest_covariance: np.ndarray
    pocket_probability: np.ndarray
    samples: int

    def tracks(self, ball_ids: Sequence[int]) -> tuple[BallTrack, ...]:
        """Return the mean trajectory as one track per ball; it ends where the ball is pocketed."""
        return tracks_of(self.mean, ball_ids)


def tracks_of(path: Trajectory, ball_ids: Sequence[int]) -> tuple[BallTrack, ...]:
    """Return a sampled trajectory as one track per ball; it ends where the ball is pocketed."""
    return tuple(_track(path, k, ball) for k, ball in enumerate(ball_ids))


def _track(path: Trajectory, index: int, ball_id: int) -> BallTrack:
    gone = path.pocketed[:, index]
    length = int(np.argmax(gone)) + 1 if gone.any() else len(gone)
    covariance = np.zeros((length, 2, 2))
    return BallTrack(ball_id, path.times[:length], path.positions[:length, index], covariance, bool(gone.any()))


def rest_fault(path: Trajectory) -> str | None:
    """Return why the rest positions of a whole shot cannot be trusted: its fault, or balls that still move; or None."""
    if path.fault is None and not np.isfinite(path.rest_time):
        return f"balls still move after {path.stop_time:.3g} s"
    return path.fault


def for_balls(twin: Twin, ball_ids: Sequence[int]) -> Twin:
    """Return the same table with other balls; those that the twin has keep their sizes and masses.

    Raises:
        CueError: the balls make no sense.
    """
    ids = tuple(int(b) for b in ball_ids)
    if ids == twin.ball_ids:
        return twin
    return Twin(
        twin.table,
        ids,
        radii={b: r for b, r in twin.radii.items() if b in ids},
        masses={b: m for b, m in twin.masses.items() if b in ids},
        largest_step=twin.largest_step,
        impact_step=twin.impact_step,
        extras=twin.extras,
        correction=twin.correction,
    )


def start_from(
    balls: Sequence[BallState],
    stroke: Stroke | Shot,
    parameters: np.ndarray,
    table: TableModel,
    ball_ids: Sequence[int] | None = None,
) -> Start:
    """Return the balls just after a stroke at the resting cue ball.

    Args:
        balls: observed rest positions before the shot.
        stroke: as the joint states measured it, or as planned.
        parameters: (P,) in the order of ``PARAMETERS``.
        table: geometry.
        ball_ids: ball order of the twin; None = that of ``balls``. A ball that is not among ``balls``, or not in play,
            does not take part; balls beyond the twin's are refused.

    Raises:
        FileFormatError: no cue ball in play, a ball twice, or one in play that the twin lacks.
        OutOfRangeError: a stroke that no cue can make.
    """
    order = tuple(ball_ids) if ball_ids is not None else tuple(b.ball_id for b in balls)
    playing = [b.ball_id for b in balls if b.in_play]
    if len(set(playing)) < len(playing):
        raise FileFormatError("balls", f"each may be there once, got {playing}")
    present = {b.ball_id: b for b in balls if b.in_play}
    if CUE_BALL not in present or CUE_BALL not in order:
        raise FileFormatError("balls", f"need the cue ball (id 0) in play, got {sorted(present)}")
    beyond = sorted(set(present) - set(order))
    if beyond:
        raise FileFormatError("balls", f"{beyond} are not in the twin, which has {list(order)}")
    count = len(order)
    positions, velocities, spins, lifts = (
        np.zeros((count, 2)),
        np.zeros((count, 2)),
        np.zeros((count, 3)),
        np.zeros(count),
    )
    for k, ball in enumerate(order):
        if ball in present:
            positions[k] = present[ball].position
    velocities[order.index(CUE_BALL)], spins[order.index(CUE_BALL)] = strike(parameters, table, stroke)
    lifts[order.index(CUE_BALL)] = lift(parameters, stroke)
    return Start(positions, velocities, spins, np.array([ball in present for ball in order]), lifts)


def sample_parameters(estimate: ParameterEstimate, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return (count, P) draws from the estimate's posterior, clipped to the parameters' bounds."""
    covariance = (estimate.covariance + estimate.covariance.T) / 2
    free = np.flatnonzero(np.diag(covariance) > 0)
    variance, axes = np.linalg.eigh(covariance[np.ix_(free, free)])
    # the sign of an eigenvector is the library's whim: fix it, so that one seed gives one ensemble
    if len(free):
        axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(len(axes))] < 0, -1.0, 1.0)
    normal = generator.standard_normal((count, len(variance)))
    drawn = np.tile(estimate.values, (count, 1))
    drawn[:, free] += (normal * np.sqrt(np.maximum(variance, 0.0))) @ axes.T
    return possible(drawn)


def possible(vectors: np.ndarray) -> np.ndarray:
    """Return (B, P) parameters within their bounds, on whose bed balls can rest.

    The slope of a bed on which balls were found at rest is less than the rolling resistance. A wide Gaussian knows
    nothing of that; the balls of such a draw would roll to a cushion and never rest.
    """
    low = np.array([p.minimum for p in PARAMETERS.values()])
    high = np.array([p.maximum for p in PARAMETERS.values()])
    found = np.clip(vectors, low, high)
    most = _STEEPEST * found[:, _ROLLING]
    slope = np.linalg.norm(found[:, _TILT], axis=1)
    found[:, _TILT] *= np.minimum(1.0, most / np.maximum(slope, 1e-12))[:, None]
    return found


def predict_all(
    twin: Twin,
    balls: Sequence[BallState],
    strokes: Sequence[Stroke | Shot],
    estimate: ParameterEstimate,
    times: np.ndarray | Sequence[float] = (),
    ensemble: int = 0,
    generator: np.random.Generator | None = None,
    threads: int | None = 1,
) -> list[Prediction | TwinFaultError]:
    """Predict shots that each start from the same balls, with the estimate and its posterior.

    All see the same draws, so that their predictions differ by the stroke alone.

    Args:
        twin: of the table, with at least the balls in play.
        balls: resting balls before each shot.
        strokes: to predict.
        estimate: whose values and covariance count.
        times: (T,) when to sample the mean trajectories [s].
        ensemble: draws from the posterior; 0 = the mean only.
        generator: for the draws.
        threads: None = one per CPU core; the result does not depend on it.

    Returns:
        For each stroke its prediction, or why its simulation cannot be trusted.

    Raises:
        FileFormatError: the balls do not fit the twin, or an ensemble without a generator.
        OutOfRangeError: a stroke that no cue can make.
    """
    if ensemble and generator is None:
        raise FileFormatError("prediction", "an ensemble needs a random generator")
    if not strokes:
        return []
    order = twin.ball_ids
    vectors = np.empty((0, len(estimate.values)))
    if ensemble and generator is not None:
        vectors = sample_parameters(estimate, ensemble, generator)
    rows = np.concatenate([estimate.values[None], vectors])
    starts = [start_from(balls, stroke, row, twin.table, order) for stroke in strokes for row in rows]
    sampled = [np.asarray(times, float) if row == 0 else np.empty(0) for _ in strokes for row in range(len(rows))]
    paths = twin.simulate_batch(starts, np.tile(rows, (len(strokes), 1)), sampled, threads=threads)
    found: list[Prediction | TwinFaultError] = []
    for k, stroke in enumerate(strokes):
        first = k * len(rows)
        where = getattr(stroke, "shot_id", "") or "the stroke"
        found.append(_prediction(starts[first], paths[first : first + len(rows)], where))
    return found


def _prediction(start: Start, paths: Sequence[Trajectory], where: str) -> Prediction | TwinFaultError:
    """Return what the mean and the ensemble behind it say."""
    mean, count = paths[0], len(paths[0].rest_positions)
    if fault := rest_fault(mean):
        return TwinFaultError(fault, where)
    if len(paths) == 1:
        gone = (mean.rest_pocketed & start.in_play).astype(float)
        return Prediction(mean, mean.rest_positions, np.zeros((count, 2, 2)), gone, 0)
    whole = [p for p in paths[1:] if rest_fault(p) is None]
    if not whole:
        return TwinFaultError("every member of the ensemble", where)
    rest = np.array([p.rest_positions for p in whole])
    centred = rest - rest.mean(axis=0)
    covariance = np.einsum("bni,bnj->nij", centred, centred) / max(len(whole) - 1, 1)
    pocketed = np.mean([p.rest_pocketed & start.in_play for p in whole], axis=0)
    return Prediction(mean, rest.mean(axis=0), covariance, pocketed, len(whole))


def predict(
    twin: Twin,
    balls: Sequence[BallState],
    stroke: Stroke | Shot,
    estimate: ParameterEstimate,
    times: np.ndarray | Sequence[float] = (),
    ensemble: int = 0,
    generator: np.random.Generator | None = None,
    threads: int | None = 1,
) -> Prediction:
    """Predict one shot; see :func:`predict_all`.

    Raises:
        FileFormatError: the balls do not fit the twin, or an ensemble without a generator.
        TwinFaultError: its simulation cannot be trusted.
    """
    (found,) = predict_all(twin, balls, [stroke], estimate, times, ensemble, generator, threads)
    if isinstance(found, TwinFaultError):
        raise found
    return found


def contact_counts(path: Trajectory) -> tuple[int, int]:
    """Return the numbers of ball-ball and cushion contacts."""
    return path.contacts(EventKind.BALL_BALL), path.contacts(EventKind.CUSHION)
