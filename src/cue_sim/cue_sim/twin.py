"""The twin: simulate shots of a calibrated table, alone or in batches.

>>> twin = Twin(table, ball_ids=(0, 1, 3))
>>> path = twin.simulate(start, parameters, times)
"""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim import kernel
from cue_sim.correction import Correction, Features
from cue_sim.kernel import IMPACT_STEP, LARGEST_STEP, LONGEST_STEP, Layout
from cue_sim.laws import Laws
from cue_sim.model import build_spec
from cue_sim.path import Start, Trajectory
from cue_sim.rollouts import LawRows, Request, Rollouts, Steps, cores, roll_out

HORIZON = 60.0
"""Longest simulated shot [s]; on any cloth within the parameters' bounds balls rest sooner: at most 35 s after a stroke
of 3 m/s, on the largest table with the least friction and cushions that lose nothing."""
LONGEST_HORIZON = 1e4
"""Longest horizon that may be asked for [s]."""
FINEST_IMPACT, COARSEST_IMPACT = 1e-7, 1e-4
"""Shortest and longest step in which an impact may happen [s]; in the longest, a ball at 10 m/s moves by 1 mm."""

__all__ = ["HORIZON", "Start", "StepClock", "Trajectory", "Twin"]


@dataclass(frozen=True)
class StepClock:
    """Where the time of simulations went [s]: in total, and inside their MuJoCo steps; and how many steps they made."""

    total: float
    mujoco: float
    steps: int


class Twin:
    """A table with balls whose dynamics are the parameters given to each call; safe to use from several threads.

    Attributes:
        table: geometry.
        ball_ids: order of every ball axis.
        largest_step: of the event-aligned loop [s].
        impact_step: [s].
        layout: addresses in :attr:`model`.
    """

    def __init__(
        self,
        table: TableModel,
        ball_ids: Sequence[int],
        *,
        radii: Mapping[int, float] | None = None,
        masses: Mapping[int, float] | None = None,
        largest_step: float = LARGEST_STEP,
        impact_step: float = IMPACT_STEP,
        extras: Mapping[str, Any] | None = None,
        correction: Correction | None = None,
    ) -> None:
        """Compile the model.

        Args:
            table: geometry.
            ball_ids: 0..15, each once; at least one.
            radii: of single balls [m].
            masses: of single balls [kg].
            largest_step: [s].
            impact_step: [s].
            extras: fields of :class:`Laws` beyond the parameters, for tables with effects a twin does not fit.
            correction: learned beside the laws.

        Raises:
            CueError: balls or steps make no sense.
            KernelError: the native kernel is not built.
        """
        kernel.library()
        finite_in("impact_step", impact_step, FINEST_IMPACT, COARSEST_IMPACT, "s")
        finite_in("largest_step", largest_step, COARSEST_IMPACT, LONGEST_STEP, "s")
        self.table = table
        self.ball_ids = tuple(int(b) for b in ball_ids)
        self.radii = dict(radii or {})
        self.masses = dict(masses or {})
        if strange := sorted((set(self.radii) | set(self.masses)) - set(self.ball_ids)):
            raise FileFormatError("radii or masses", f"name balls {strange} that are not in the twin")
        self.largest_step = largest_step
        self.impact_step = impact_step
        self.extras = dict(extras or {})
        self.correction = correction
        self._features = None if correction is None else Features(correction)
        # refuses at once what every shot would
        self._nominal_row = Laws.from_parameters(nominal_values(), **self.extras).array()
        self.model = build_spec(table, self.ball_ids, radii=radii, masses=masses, visual=False).compile()
        self.layout = Layout.of(self.model, table, self.ball_ids)
        self._workers: queue.SimpleQueue[tuple[mujoco.MjModel, mujoco.MjData]] = queue.SimpleQueue()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what it was made from (process pools)."""
        return _remake, (
            self.table,
            self.ball_ids,
            self.radii,
            self.masses,
            self.largest_step,
            self.impact_step,
            self.extras,
            self.correction,
        )

    @contextmanager
    def _worker(self) -> Iterator[tuple[mujoco.MjModel, mujoco.MjData]]:
        """Lend a model and a state to one thread: the time step lives in the model."""
        try:
            worker = self._workers.get_nowait()
        except queue.Empty:
            model = copy.copy(self.model)
            worker = model, mujoco.MjData(model)
        try:
            yield worker
        finally:
            self._workers.put(worker)

    def index(self, ball_id: int) -> int:
        """Return the place of a ball in the ball order.

        Raises:
            FileFormatError: the twin has no such ball.
        """
        try:
            return self.ball_ids.index(ball_id)
        except ValueError:
            raise FileFormatError("twin", f"has no ball {ball_id}, only {list(self.ball_ids)}") from None

    def simulate(
        self,
        start: Start,
        parameters: np.ndarray | None,
        times: np.ndarray | Sequence[float] = (),
        until_contact: int | None = None,
        horizon: float = HORIZON,
    ) -> Trajectory:
        """Play one shot until all balls rest.

        The result does not depend on ``times``, and not on other simulations running beside it.

        Args:
            start: balls at time zero; overlaps are set apart by the smallest moves.
            parameters: (P,) in the order of ``PARAMETERS``; None = nominal.
            times: (T,) when to sample [s], increasing, within the horizon.
            until_contact: stop when this many ball-ball and cushion contacts have begun; later samples are NaN.
            horizon: longest simulated time [s].

        Raises:
            FileFormatError: a shape does not fit, or the times do not increase.
            OutOfRangeError: parameters without a meaning, such as a cloth on which nothing comes to rest.
        """
        values = nominal_values() if parameters is None else np.asarray(parameters, float)
        limit = until_contact or 0
        laws = LawRows.of(values[None], self.extras, True, self._nominal_row)
        return self._roll_out([start], laws, [_checked_times(times)], [limit], horizon).trajectories[0]

    def simulate_batch(
        self,
        starts: Sequence[Start],
        parameters: np.ndarray,
        times: np.ndarray | Sequence[float] | Sequence[np.ndarray] = (),
        until_contact: int | Sequence[int | None] | None = None,
        horizon: float = HORIZON,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | threading.Event | None = None,
        weights: np.ndarray | None = None,
    ) -> list[Trajectory]:
        """Play many shots, the same bits for any number of threads.

        A bad sample, be it the parameters, the start or what becomes of them, carries a fault; the others go on.

        Args:
            starts: B starts.
            parameters: (B, P), or (P,) for all.
            times: (T,) for all, or B arrays.
            until_contact: for all, or B values; see :meth:`simulate`.
            horizon: [s].
            threads: None = one per core that this process may use.
            progress: told (done, total), in the calling thread, about every hundredth of a second and at the end.
            cancelled: looked at as often; when it says yes, or is set, the batch ends within a few steps.
            weights: (B, W) of the correction, in place of its own.

        Raises:
            FileFormatError: counts or shapes do not fit.
            OutOfRangeError: one vector for all that has no meaning.
            RolloutsCancelledError: ``cancelled`` said so; nothing is returned.
        """
        count = len(starts)
        parameters = np.asarray(parameters, float)
        laws = self._law_rows(parameters, count)
        if weights is not None:
            size = 0 if self.correction is None else self.correction.size
            if np.shape(weights) != (count, size):
                raise FileFormatError("batch", f"needs weights of shape {(count, size)}, got {np.shape(weights)}")
        nested = len(times) > 0 and np.ndim(times[0]) == 1
        sampled = [_checked_times(t) for t in times] if nested else [_checked_times(times)] * count  # type: ignore[arg-type]
        limits: list[Any] = [until_contact] * count if np.ndim(until_contact) == 0 else list(until_contact)  # type: ignore[arg-type]
        if not len(laws.values) == len(sampled) == len(limits) == count:
            raise FileFormatError(
                "batch",
                f"has {count} starts, {len(laws.values)} parameter vectors, {len(sampled)} times, {len(limits)} limits",
            )
        asked = cancelled.is_set if isinstance(cancelled, threading.Event) else cancelled
        limits = [limit or 0 for limit in limits]
        return self._roll_out(
            starts, laws, sampled, limits, horizon, threads, progress, asked, weights=weights
        ).trajectories

    def clock_steps(self, starts: Sequence[Start], parameters: np.ndarray) -> StepClock:
        """Return what shots cost in all on one thread, and what their own ``mj_step`` calls alone cost.

        Each call of ``mj_step1`` and ``mj_step2`` is timed where it is made: the same states, contacts and step sizes.
        """
        laws = self._law_rows(np.asarray(parameters, float), len(starts))
        began = time.perf_counter()
        done = self._roll_out(starts, laws, [_checked_times(())] * len(starts), [0] * len(starts), clock=True)
        total = time.perf_counter() - began
        return StepClock(total, done.mujoco_seconds, sum(path.steps for path in done.trajectories))

    def _law_rows(self, parameters: np.ndarray, count: int) -> LawRows:
        if parameters.ndim != 1:
            return LawRows.of(parameters, self.extras, False, self._nominal_row)
        one = LawRows.of(parameters[None], self.extras, True, self._nominal_row)
        faults = {job: text for job in range(count) for text in one.faults.values()}
        return LawRows(np.tile(one.values, (count, 1)), faults, np.tile(one.latency, count))

    def _roll_out(
        self,
        starts: Sequence[Start],
        laws: LawRows,
        times: Sequence[np.ndarray],
        limits: Sequence[int],
        horizon: float = HORIZON,
        threads: int | None = 1,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        clock: bool = False,
        weights: np.ndarray | None = None,
    ) -> Rollouts:
        horizon = finite_in("horizon", horizon, 0.0, LONGEST_HORIZON, "s")
        if self.correction is not None:
            laws = laws.with_weights(self.correction.weights if weights is None else weights)
        request = Request(starts, laws, times, limits, horizon, self._features)
        steps = Steps(self.largest_step, self.impact_step)
        return roll_out(request, self.layout, self._worker, steps, threads or cores(), progress, cancelled, clock)


def _remake(
    table: TableModel,
    ball_ids: tuple[int, ...],
    radii: Mapping[int, float],
    masses: Mapping[int, float],
    largest_step: float,
    impact_step: float,
    extras: Mapping[str, Any],
    correction: Correction | None,
) -> Twin:
    return Twin(
        table,
        ball_ids,
        radii=radii,
        masses=masses,
        largest_step=largest_step,
        impact_step=impact_step,
        extras=extras,
        correction=correction,
    )


def _checked_times(times: np.ndarray | Sequence[float]) -> np.ndarray:
    out = np.ascontiguousarray(times, float)
    if out.ndim != 1 or (len(out) and (not np.isfinite(out).all() or out[0] < 0 or np.any(np.diff(out) < 0))):
        raise FileFormatError("times", "must be one row of finite seconds from 0 on, increasing")
    return out
