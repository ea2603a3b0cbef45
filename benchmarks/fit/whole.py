"""Whole shots in the fitter's twin, as the methods that CUE is compared with see them.

They get what CUE gets: the usable records with the initial states that its preparation reads off them, the strokes'
directions as well as stroke and samples tell them, the same twin, batches and threads. What they do not get is CUE's:
segments, nuisances, the growth of errors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cue_core.parameters import PARAMETERS, default_fitted, nominal_values
from cue_core.shots import ShotRecord
from cue_identify.gate import split
from cue_identify.observations import CUE_BALL, ShotData, observe
from cue_identify.replay import Budget, Replayer, Trial, TwinSimulator, cue_direction

FAULT = 1.0
"""What a sample of a failed simulation counts as [m]."""


class TimeIsUpError(Exception):
    """Ends a method from inside its own loop."""


@dataclass
class Curve:
    """What a method knew when; the clock stands still while it is scored.

    Attributes:
        score: held-out error [m] of parameters (P,).
        target: error at which the race is won [m]; zero = never stop for it.
        limit: longest time [s].
        points: [seconds, simulations, error] each time the method's best changed.
    """

    score: Callable[[np.ndarray], float]
    target: float
    limit: float
    points: list[list[float]] = field(default_factory=list)
    _began: float = field(default_factory=lambda: time.perf_counter())
    _paused: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the method's own time [s]."""
        return time.perf_counter() - self._began - self._paused

    def note(self, values: np.ndarray, simulations: int) -> None:
        """Take the method's best parameters (P,) so far.

        Raises:
            TimeIsUpError: they are good enough.
        """
        now, paused = self.seconds, time.perf_counter()
        error = self.score(values)
        self.points.append([now, float(simulations), error])
        self._paused += time.perf_counter() - paused
        if error <= self.target:
            raise TimeIsUpError

    def check(self) -> None:
        """Look at the clock.

        Raises:
            TimeIsUpError: the time is used up.
        """
        if self.seconds > self.limit:
            raise TimeIsUpError

    def reached(self, error: float) -> float | None:
        """Return when the error was first no larger than ``error`` [s]; None = never."""
        return next((point[0] for point in self.points if point[2] <= error), None)

    def stays(self, error: float) -> float | None:
        """Return from when on the error was no larger than ``error`` [s]; None = it ended larger."""
        since: float | None = None
        for seconds, _, now in self.points:
            since = None if now > error else seconds if since is None else since
        return since


def observed_turn(shot: ShotData, way: float) -> float:
    """Return how far [rad] the cue ball set off from the direction ``way`` [rad] of the measured stroke.

    The samples before its first contact say so, and the stroke's own stated deviation; CUE's preparation believes the
    stroke less than that, since it goes on to fit the direction.
    """
    along, across = np.array([math.cos(way), math.sin(way)]), np.array([-math.sin(way), math.cos(way)])
    start = next(ball.position for ball in shot.balls if ball.ball_id == CUE_BALL)
    seen = shot.observed[shot.free] - start
    reach, aside = seen @ along, seen @ across
    precision = 1.0 / np.einsum("i,kij,j->k", across, shot.covariance[shot.free], across)
    prior = 1.0 / max(shot.stroke.azimuth_stddev, 1e-6) ** 2
    return float(np.sum(precision * reach * aside) / (np.sum(precision * reach**2) + prior))


class WholeShots:
    """Residuals and costs of whole shots, many parameter vectors at once.

    Attributes:
        names: of the d parameters searched.
        low, high, nominal: (d,) bounds and textbook values, in the parameters' units.
        scale: (d,) typical size of a step: a quarter of the range.
    """

    def __init__(self, simulator: TwinSimulator, records: Sequence[ShotRecord], curve: Curve, threads: int) -> None:
        """Prepare the records as a fit does."""
        chosen = split(records, (), (), simulator.ball_ids, (), simulator.why_doubtful)
        usable = sorted((*chosen.train, *chosen.held_out), key=lambda record: record.index)
        ways = [cue_direction(simulator, record, nominal_values()) for record in usable]
        self._shots = [observe(record, way) for record, way in zip(usable, ways, strict=True)]
        self._turns = [observed_turn(shot, way) for shot, way in zip(self._shots, ways, strict=True)]
        self._replayer, self._curve = Replayer(simulator, Budget(10**12), threads), curve
        self.names = default_fitted()
        self._index = [list(PARAMETERS).index(name) for name in self.names]
        self.low = np.array([PARAMETERS[name].minimum for name in self.names])
        self.high = np.array([PARAMETERS[name].maximum for name in self.names])
        self.nominal = nominal_values()[self._index]
        self.scale = 0.25 * (self.high - self.low)
        self._best = np.inf

    @property
    def simulations(self) -> int:
        """Return how many shots have been simulated."""
        return self._replayer.budget.spent

    def full(self, x: np.ndarray) -> np.ndarray:
        """Return all parameters (P,) of those searched (d,)."""
        values = nominal_values()
        values[self._index] = np.clip(x, self.low, self.high)
        return values

    def residuals(self, points: np.ndarray) -> np.ndarray:
        """Return (k, m, 2) predicted less observed positions [m] of the m samples of all shots, at points (k, d).

        Raises:
            TimeIsUpError: see :class:`Curve`.
        """
        self._curve.check()
        shots = list(zip(self._shots, self._turns, strict=True))
        trials = [Trial(shot, values, turn) for values in map(self.full, points) for shot, turn in shots]
        found = [
            np.full_like(t.shot.observed, FAULT) if r.fault else r.position - t.shot.observed
            for t, r in zip(trials, self._replayer.run(trials), strict=True)
        ]
        count = len(self._shots)
        return np.stack([np.concatenate(found[i : i + count]) for i in range(0, len(found), count)])

    def costs(self, residuals: np.ndarray, clip: float) -> np.ndarray:
        """Return (k,) means over the samples of the distance, clipped [m], of residuals (k, m, 2)."""
        return np.minimum(np.linalg.norm(residuals, axis=2), clip).mean(axis=1)

    def tell(self, x: np.ndarray, cost: float) -> None:
        """Note the point (d,) if its cost is the lowest so far.

        Raises:
            TimeIsUpError: see :class:`Curve`.
        """
        if cost < self._best:
            self._best = cost
            self._curve.note(self.full(x), self._replayer.budget.spent)
