"""Replays shots in the twin, many at once, within a budget."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cue_core.balls import BallState
from cue_core.shots import ShotRecord, Stroke
from cue_core.table import TableModel
from cue_identify.errors import FitCode, FitError
from cue_identify.observations import CUE_BALL, ShotData
from cue_identify.scoring import ShotScore, sample_times, score_shot

if TYPE_CHECKING:
    from cue_sim.twin import Twin

_FROZEN_GAP = 0.002  # [m] below it two balls count as touching: two observed places are no better than that
_CHUNK = 48  # simulations between two looks at the cancel flag: some tenths of a second at most
_HORIZON = 60.0  # [s] every ball rests by then, as in cue_sim.twin


class Simulator(Protocol):
    """What a fit needs of the twin. Parameter vectors (P,) follow ``cue_core.parameters.PARAMETERS``."""

    ball_ids: tuple[int, ...]

    @property
    def largest_step(self) -> float:
        """Largest time step [s]."""

    def start(self, balls: Sequence[BallState], stroke: Stroke, values: np.ndarray) -> Any:
        """Return the state just after the tip left the cue ball."""

    def idle(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the parameters that no shot could tell anything of."""

    def why_doubtful(self, record: ShotRecord) -> str:
        """Return why no simulation can be held against this shot; empty = nothing against it."""

    def simulate(
        self, starts: Sequence[Any], values: np.ndarray, times: Sequence[np.ndarray], horizon: float, threads: int
    ) -> list[Any]:
        """Return a trajectory for each start, with ``values`` (B, P); same bits for any number of threads."""


class TwinSimulator:
    """The MuJoCo twin as a :class:`Simulator`."""

    def __init__(self, table: TableModel, ball_ids: Sequence[int], **settings: Any) -> None:
        """Build the twin of a table with these balls; ``settings`` are further ones of ``cue_sim.twin.Twin``."""
        from cue_sim.predict import start_from
        from cue_sim.twin import Twin

        self._table, self._start_from = table, start_from
        self._twin = Twin(table, tuple(ball_ids), **settings)
        self.ball_ids = tuple(ball_ids)

    @property
    def twin(self) -> Twin:
        """The twin itself."""
        return self._twin

    @property
    def settings(self) -> dict[str, Any]:
        """What the twin was made with beside table and balls, but for a correction."""
        names = ("radii", "masses", "largest_step", "impact_step", "extras")
        return {name: getattr(self._twin, name) for name in names}

    def corrected(self, correction: Mapping[str, Any] | None) -> TwinSimulator:
        """Return the same twin with a correction (``cue_sim.correction``, as plain data), and no other; None = none.

        Raises:
            FileFormatError: it is none.
        """
        from cue_sim.correction import Correction

        if correction is None and self._twin.correction is None:
            return self
        learned = None if correction is None else Correction.from_dict(correction)
        return TwinSimulator(self._table, self.ball_ids, **self.settings, correction=learned)

    @property
    def largest_step(self) -> float:
        """Largest time step [s]."""
        return self._twin.largest_step

    def start(self, balls: Sequence[BallState], stroke: Stroke, values: np.ndarray) -> Any:
        """Return the state just after the tip left the cue ball."""
        return self._start_from(balls, stroke, values, self._table, self.ball_ids)

    def idle(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the parameters that change nothing in a lively shot: the model does not use them."""
        from cue_sim.probe import unused_parameters

        return unused_parameters(self._table, names, self._twin.extras)

    def why_doubtful(self, record: ShotRecord) -> str:
        """Name two balls that moved and touched beforehand: how a blow splits hangs on gaps that no camera sees."""
        moved = set(record.moved_ball_ids())
        balls = [ball for ball in record.before if ball.in_play and ball.ball_id in moved]
        for first, second in itertools.combinations(balls, 2):
            gap = float(np.linalg.norm(first.position - second.position)) - 2 * self._table.ball_radius
            if gap < _FROZEN_GAP:
                return f"balls {first.ball_id} and {second.ball_id} touched when they were struck"
        return ""

    def simulate(
        self, starts: Sequence[Any], values: np.ndarray, times: Sequence[np.ndarray], horizon: float, threads: int
    ) -> list[Any]:
        """Return a trajectory for each start."""
        return self._twin.simulate_batch(list(starts), values, list(times), horizon=horizon, threads=threads)


@dataclass(frozen=True)
class Progress:
    """How far a fit has got.

    Attributes:
        evaluations: simulated shots so far.
        best_cost: of the present stage.
        seconds_left: estimate, wall clock [s].
        stage: for people.
        evaluations_per_second: so far, wall clock.
        values: (P,) parameters that the fit has come to; None = none yet.
    """

    evaluations: int
    best_cost: float
    seconds_left: float
    stage: str
    evaluations_per_second: float = float("nan")
    values: np.ndarray | None = None


@dataclass
class Budget:
    """Counts simulated shots, tells about progress, and stops a fit that nobody wants any more.

    Attributes:
        limit: of simulated shots.
        stop: why the fit must end now, or None; looked at between chunks of simulations.
        report: takes the progress.
        spent: simulated shots so far.
        faults: simulations that failed; they score worst.
        best_cost: of the present stage.
        stage: present one.
        best_values: (P,) parameters that the fit has come to.
    """

    limit: int
    stop: Callable[[], FitError | None] = lambda: None
    report: Callable[[Progress], None] = lambda progress: None
    spent: int = 0
    faults: int = 0
    best_cost: float = float("inf")
    stage: str = "start"
    best_values: np.ndarray | None = None
    _begin: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Tell the progress and look whether to go on.

        Raises:
            FitError: what ``stop`` says.
        """
        rate = self.spent / max(time.monotonic() - self._begin, 1e-6)
        left = max(self.limit - self.spent, 0) / rate if self.spent else float("nan")
        self.report(Progress(self.spent, self.best_cost, left, self.stage, rate, self.best_values))
        reason = self.stop()
        if reason is not None:
            raise reason

    def left(self) -> int:
        """Return how many simulated shots are left."""
        return self.limit - self.spent


@dataclass(frozen=True)
class Trial:
    """One shot to replay.

    Attributes:
        shot: what to compare with.
        values: (P,) parameters.
        turn: of the stroke's azimuth [rad].
        gain: relative change of the tip's speed.
        shift: of the sample times: the strike was this much earlier than the record says [s].
        offsets: (k, 2) of the movers' positions before the shot [m]; None = zero.
    """

    shot: ShotData
    values: np.ndarray
    turn: float
    gain: float = 0.0
    shift: float = 0.0
    offsets: np.ndarray | None = None


@dataclass(frozen=True)
class Replayed:
    """A replayed shot at its m samples.

    Attributes:
        position: (m, 2) [m].
        velocity: (m, 2), by differences over the sample times [m/s].
        fault: what the twin says went wrong; empty = nothing.
    """

    position: np.ndarray
    velocity: np.ndarray
    fault: str = ""


class Replayer:
    """Runs trials through a simulator, in chunks of a fixed size so that results do not depend on the threads."""

    def __init__(self, simulator: Simulator, budget: Budget, threads: int = 0) -> None:
        """Set up; ``threads`` 0 = as many as this process may use cores."""
        self.simulator, self.budget = simulator, budget
        self.threads = threads or len(os.sched_getaffinity(0))
        self._order = {ball_id: i for i, ball_id in enumerate(simulator.ball_ids)}

    def run(self, trials: Sequence[Trial]) -> list[Replayed]:
        """Replay the trials.

        Raises:
            FitError: the budget's ``stop`` says so.
        """
        # Trials of like length share a chunk, since a chunk has one horizon.
        order = sorted(range(len(trials)), key=lambda i: float(trials[i].shot.times[-1]))
        found: list[Replayed | None] = [None] * len(trials)
        for first in range(0, len(order), _CHUNK):
            places = order[first : first + _CHUNK]
            for place, replayed in zip(places, self._chunk([trials[i] for i in places]), strict=True):
                found[place] = replayed
            self.budget.check()
        return [replayed for replayed in found if replayed is not None]

    def _chunk(self, trials: Sequence[Trial]) -> list[Replayed]:
        starts = [self._start(trial) for trial in trials]
        times = [np.maximum(trial.shot.times + trial.shift, 0.0) for trial in trials]
        horizon = max(float(t[-1]) for t in times) + 1e-6
        values = np.stack([trial.values for trial in trials])
        trajectories = self.simulator.simulate(starts, values, times, horizon, self.threads)
        self.budget.spent += len(trials)
        return [self._read(*case) for case in zip(trials, times, trajectories, strict=True)]

    def _start(self, trial: Trial) -> Any:
        stroke = trial.shot.stroke
        turned = replace(stroke, azimuth=stroke.azimuth + trial.turn, tip_speed=stroke.tip_speed * (1 + trial.gain))
        balls = trial.shot.balls
        if trial.offsets is not None:
            moves = dict(zip(trial.shot.movers, trial.offsets, strict=True))
            balls = tuple(replace(b, position=b.position + moves.get(b.ball_id, 0.0)) for b in balls)
        return self.simulator.start(balls, turned, trial.values)

    def _read(self, trial: Trial, times: np.ndarray, trajectory: Any) -> Replayed:
        shot = trial.shot
        columns = np.array([self._order[int(b)] for b in shot.ball_id])
        position = np.asarray(trajectory.positions)[shot.time_index, columns]
        fault = trajectory.fault or ("" if np.isfinite(position).all() else "not finite")
        if fault:
            self.budget.faults += 1
            return Replayed(np.zeros_like(position), np.zeros_like(position), fault)
        return Replayed(position, _velocity(times, np.asarray(trajectory.positions))[shot.time_index, columns])

    def score(self, records: Sequence[ShotRecord], values: np.ndarray) -> list[ShotScore]:
        """Return the errors of parameters ``values`` (P,) on records, predicted from the achieved strokes alone.

        A shot on which the twin fails has infinite errors.
        """
        scores: list[ShotScore] = []
        ids = self.simulator.ball_ids
        for first in range(0, len(records), _CHUNK):
            chunk = records[first : first + _CHUNK]
            starts, times = [], []
            for record in chunk:
                if record.achieved is None:
                    raise FitError(
                        FitCode.INVALID_GOAL, f"shot {record.shot_id} has no measured stroke to predict from"
                    )
                balls = [ball for ball in record.before if ball.in_play]
                starts.append(self.simulator.start(balls, record.achieved, values))
                times.append(sample_times(record))
            batch = np.tile(values, (len(chunk), 1))
            trajectories = self.simulator.simulate(starts, batch, times, _HORIZON, self.threads)
            self.budget.spent += len(chunk)
            for record, time_, trajectory in zip(chunk, times, trajectories, strict=True):
                failed = ShotScore(record.shot_id, float("inf"), float("inf"))
                scores.append(failed if trajectory.fault else score_shot(record, time_, trajectory, ids))
            self.budget.check()
        return scores


def _velocity(times: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (T, n, 2) central differences of positions (T, n, 2); zero where the times coincide."""
    if len(times) < 2:
        return np.zeros_like(positions)
    below = np.maximum(np.arange(len(times)) - 1, 0)
    above = np.minimum(np.arange(len(times)) + 1, len(times) - 1)
    span = times[above] - times[below]
    rate = np.divide(1.0, span, out=np.zeros_like(span), where=span > 1e-9)
    return (positions[above] - positions[below]) * rate[:, None, None]


def cue_direction(simulator: Simulator, record: ShotRecord, values: np.ndarray) -> float:
    """Return the direction [rad] in which the twin sends the cue ball of a usable record for the achieved stroke."""
    if record.achieved is None:
        raise FitError(FitCode.INVALID_GOAL, f"shot {record.shot_id} has no measured stroke")
    start = simulator.start([b for b in record.before if b.in_play], record.achieved, values)
    vx, vy = np.asarray(start.velocities)[simulator.ball_ids.index(CUE_BALL)]
    towards = float(np.arctan2(vy, vx))
    # Kept within half a turn of the stroke, so that the difference of both is small.
    return record.achieved.azimuth + float(np.angle(np.exp(1j * (towards - record.achieved.azimuth))))
