"""Many shots at once: shots x parameter sets x starts, spread over threads that need no interpreter in between.

A thread calls the kernel once and takes jobs until none is left (``native/batch.c``); each has a model and a state of
its own. What becomes of a job depends on nothing but the job, so any number of threads gives the same bits.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import mujoco
import numpy as np

from cue_core.errors import CueError, FileFormatError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.terms import SHAPES, write
from cue_sim import kernel
from cue_sim.correction import Features
from cue_sim.kernel import Event, EventKind, Layout
from cue_sim.laws import GIVEN, Laws, knobs_of, lift_off_speed
from cue_sim.overlap import log_moves
from cue_sim.path import Start, Trajectory
from cue_sim.structures import OUTCOME, Batch, Options

STEP_LIMIT = 100_000
"""MuJoCo steps after which a shot is given up as a fault; a break of fifteen balls takes some thousands."""
EVENT_CAPACITY = 1024
_ROUND = 512  # jobs whose samples and events share one piece of memory
_LOOK = 0.01  # [s] between two looks at the progress and the cancel flag
_KINDS = {kind.value: kind for kind in EventKind}
_LOW = np.array([p.minimum for p in PARAMETERS.values()])
_HIGH = np.array([p.maximum for p in PARAMETERS.values()])
_NOMINAL = nominal_values()
_BEYOND = len(GIVEN)
_ADDED_TO = frozenset(SHAPES)

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]
Workers = Callable[[], AbstractContextManager[tuple[mujoco.MjModel, mujoco.MjData]]]


class RolloutsCancelledError(CueError):
    """A batch was cancelled; what was done of it is dropped."""

    def __init__(self, done: int, total: int) -> None:
        """Say how far it got."""
        super().__init__(f"cancelled after {done} of {total} simulations")
        self.done, self.total = done, total


class LawRows(NamedTuple):
    """Laws of every job: (B, L) rows, faults of the jobs that make no sense, by job, and latencies (B,) [s].

    A latency is how late a camera's times are: what it shows at t is where the balls were at t less that.
    """

    values: np.ndarray
    faults: dict[int, str]
    latency: np.ndarray

    def with_weights(self, weights: np.ndarray) -> LawRows:
        """Return the same with (W,) or (B, W) weights of a learned correction behind each row."""
        tail = np.broadcast_to(weights, (len(self.values), np.shape(weights)[-1]))
        return self._replace(values=np.concatenate([self.values, tail], axis=1))

    @classmethod
    def of(
        cls, vectors: np.ndarray, extras: Mapping[str, Any], strict: bool, template: np.ndarray | None = None
    ) -> LawRows:
        """Return the laws of (B, P) parameter vectors with the same extras; what they refuse becomes a fault.

        Args:
            vectors: parameters.
            extras: fields of :class:`Laws` beyond them.
            strict: raise instead.
            template: the row of nominal parameters with these extras, where it is known.

        Raises:
            FileFormatError: a vector has another length.
            CueError: the extras, or with ``strict`` the parameters, are refused.
        """
        if vectors.ndim != 2 or vectors.shape[1] != len(PARAMETERS):
            raise FileFormatError("parameter vector", f"has shape {vectors.shape[1:]}, needs ({len(PARAMETERS)},)")
        if template is None:
            template = Laws.from_parameters(nominal_values(), **extras).array()
        rows = np.tile(template, (len(vectors), 1))
        knobs = knobs_of(rows)
        write(vectors, knobs)
        faults: dict[int, str] = {}
        within = np.all((vectors >= _LOW) & (vectors <= _HIGH), axis=1)
        if not _ADDED_TO.isdisjoint(extras):  # what a parameter is added to may be too much together
            within &= np.all(vectors[:, _BEYOND:] == _NOMINAL[_BEYOND:], axis=1)
        for job in np.flatnonzero(~within):
            if not np.isfinite(vectors[job]).all():
                faults[int(job)] = kernel.FAULTS[-1]
                continue
            try:
                Laws.from_parameters(vectors[job], **extras)
            except CueError as error:
                if strict:
                    raise
                faults[int(job)] = f"bad parameters: {error}"
        return cls(rows, faults, knobs.latency)


class Request(NamedTuple):
    """What to simulate: B starts, their laws, sample times (B arrays) and contact limits (0 = none); horizon [s].

    Where something was learned beside the laws, ``features`` are its bumps, whose weights follow the laws in each row.
    """

    starts: Sequence[Start]
    laws: LawRows
    times: Sequence[np.ndarray]
    limits: Sequence[int]
    horizon: float
    features: Features | None = None


class Steps(NamedTuple):
    """Step policy: largest and impact step [s]."""

    largest: float
    impact: float


class Rollouts(NamedTuple):
    """Trajectories in the order of the starts, and the time [s] inside MuJoCo's steps (0 = not asked for)."""

    trajectories: list[Trajectory]
    mujoco_seconds: float


def roll_out(
    request: Request,
    layout: Layout,
    workers: Workers,
    steps: Steps,
    threads: int = 1,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    clock: bool = False,
) -> Rollouts:
    """Simulate all jobs.

    Args:
        request: the jobs.
        layout: of the workers' models.
        workers: gives a thread its model and state.
        steps: step policy.
        threads: how many.
        progress: told (done, total) from the calling thread, about every hundredth of a second.
        cancelled: asked as often; when it says yes, the batch ends at once.
        clock: measure the time inside MuJoCo's steps.

    Raises:
        FileFormatError: a start does not fit the balls.
        RolloutsCancelledError: ``cancelled`` said yes.
    """
    total, seconds = len(request.starts), 0.0
    out: list[Trajectory] = []
    for first in range(0, total, _ROUND):
        part = _Round(request, first, min(first + _ROUND, total), layout, steps, clock)
        tell = None if progress is None else partial(_tell, progress, first, total)
        part.run(workers, threads, tell, cancelled)
        if part.struct.cancel:
            raise RolloutsCancelledError(first + part.struct.done, total)
        out.extend(part.trajectories())
        seconds += float(part.outcome["seconds"].sum())
    return Rollouts(out, seconds)


def _tell(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


class _Round:
    """Jobs that share their memory."""

    def __init__(self, request: Request, first: int, last: int, layout: Layout, steps: Steps, clock: bool) -> None:
        self._layout, self._count, n = layout, last - first, len(layout.ball_ids)
        self._starts, self._times = request.starts[first:last], request.times[first:last]
        self._faults = {job - first: text for job, text in request.laws.faults.items() if first <= job < last}
        count = self._count
        self._position, self._velocity = np.empty((count, n, 2)), np.empty((count, n, 2))
        self._spin, self._in_play = np.empty((count, n, 3)), np.empty((count, n), np.int32)
        for job, start in enumerate(self._starts):
            shapes = start.positions.shape, start.velocities.shape, start.spins.shape, start.in_play.shape
            if shapes != ((n, 2), (n, 2), (n, 3), (n,)):
                raise FileFormatError(
                    "start", f"does not fit {n} balls: positions {shapes[0]}, velocities {shapes[1]}, spins {shapes[2]}"
                )
            if start.lifts is not None and np.shape(start.lifts) != (n,):
                raise FileFormatError("start", f"does not fit {n} balls: lifts {np.shape(start.lifts)}")
            self._position[job], self._velocity[job] = start.positions, start.velocities
            self._spin[job], self._in_play[job] = start.spins, start.in_play
        laws = np.ascontiguousarray(request.laws.values[first:last])
        refused = np.zeros(count, np.int32)
        refused[list(self._faults)] = kernel.BAD_LAWS
        limits = np.array(request.limits[first:last], np.int32)
        self._first_time = np.zeros(count + 1, np.int64)
        np.cumsum([len(t) for t in self._times], out=self._first_time[1:])
        times = np.concatenate(self._times) if count else np.empty(0)
        late = request.laws.latency[first:last]
        if late.any():
            times = np.maximum(times - np.repeat(late, np.diff(self._first_time)), 0.0)
        self._sample = np.empty((len(times), n, 2))
        self._pocketed = np.empty((len(times), n), bool)
        self._rest = np.empty((count, n, 2))
        self._event = np.empty((count, EVENT_CAPACITY, 4))
        self.outcome = np.empty(count, OUTCOME)
        self._keep = laws, refused, limits, times, request.features
        self.struct = Batch(
            count,
            laws.shape[1],
            event_capacity=EVENT_CAPACITY,
            options=Options(request.horizon, *steps, 0, True, True, STEP_LIMIT, clock),
        )
        if request.features is not None:
            self.struct.learned = ctypes.addressof(request.features.struct)
        self.struct.options.cancel = ctypes.addressof(self.struct) + Batch.cancel.offset
        for name, array in (
            ("laws", laws),
            ("refused", refused),
            ("position", self._position),
            ("velocity", self._velocity),
            ("spin", self._spin),
            ("in_play", self._in_play),
            ("contact_limit", limits),
            ("first_time", self._first_time),
            ("time", times),
            ("sample", self._sample),
            ("pocketed", self._pocketed),
            ("rest", self._rest),
            ("event", self._event),
            ("outcome", self.outcome),
        ):
            setattr(self.struct, name, array.ctypes.data)

    def run(
        self, workers: Workers, threads: int, progress: Callable[[int], None] | None, cancelled: Cancelled | None
    ) -> None:
        """Do all jobs, or stop; the struct's ``cancel`` tells."""
        address, ended = ctypes.addressof(self.struct), threading.Event()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                with workers() as (model, data):
                    kernel.work(self._layout, model, data, address)
            except BaseException as error:
                failures.append(error)
                self.struct.cancel = 1
            finally:
                ended.set()

        watched = progress is not None or cancelled is not None
        threads = max(1, min(threads, self._count))
        others = [threading.Thread(target=work, daemon=True) for _ in range(threads - (not watched))]
        for thread in others:
            thread.start()
        try:
            if not watched:
                work()
            while watched and any(thread.is_alive() for thread in others):
                ended.wait(_LOOK)
                if cancelled is not None and cancelled():
                    self.struct.cancel = 1
                elif progress is not None:
                    progress(self.struct.done)
                if ended.is_set():  # the others end within the shot they are at
                    for thread in others:
                        thread.join(_LOOK)
        except BaseException:
            self.struct.cancel = 1
            raise
        finally:
            for thread in others:
                thread.join()
        if failures:
            raise failures[0]
        if self.struct.done == self._count:  # cancelled too late to matter
            self.struct.cancel = 0
            if progress is not None:
                progress(self.struct.done)

    def trajectories(self) -> list[Trajectory]:
        """Return what became of each job."""
        gone = self._in_play == 0
        ids, bounds = self._layout.ball_ids, self._first_time.tolist()
        out = []
        for job, (status, events, steps, moved, time, gain, _) in enumerate(self.outcome.tolist()):
            if moved:
                log_moves(self._layout, self._starts[job].positions, self._position[job])
            rows = self._event[job, :events].tolist()
            begin, end = bounds[job], bounds[job + 1]
            out.append(
                Trajectory(
                    self._times[job],
                    self._sample[begin:end],
                    self._pocketed[begin:end],
                    self._rest[job],
                    gone[job],
                    time if status == kernel.REST else np.nan,
                    (
                        *self._jumps(job),
                        *(
                            Event(t, _KINDS[int(k)], ids[int(a)], ids[int(b)] if k == EventKind.BALL_BALL else int(b))
                            for t, k, a, b in rows
                        ),
                    ),
                    self._faults.get(job) if status == kernel.BAD_LAWS else kernel.fault(status),
                    time,
                    steps,
                    gain,
                )
            )
        return out

    def _jumps(self, job: int) -> list[Event]:
        """Return an event for each ball that the stroke would have lifted off the cloth."""
        start = self._starts[job]
        if start.lifts is None:
            return []
        high = np.flatnonzero(
            (np.asarray(start.lifts, float) > lift_off_speed(self._keep[0][job])) & np.asarray(start.in_play, bool)
        )
        return [Event(0.0, EventKind.AIRBORNE, self._layout.ball_ids[i], 0) for i in high]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
