"""The twin: simulate shots of a calibrated table, alone or in batches.

>>> twin = Twin(table, ball_ids=(0, 1, 3))
>>> path = twin.simulate(start, parameters, times)
"""

from __future__ import annotations

import copy
import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from cue_core.errors import FileFormatError
from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim import kernel
from cue_sim.kernel import IMPACT_STEP, LARGEST_STEP, Event, EventKind, Laws, Layout
from cue_sim.model import build_spec
from cue_sim.overlap import separate

HORIZON = 20.0
"""Longest simulated shot [s]; on any cloth within the parameters' bounds balls rest sooner."""


@dataclass(frozen=True)
class Start:
    """Balls at time zero, in the twin's ball order and the table frame.

    Attributes:
        positions: (n, 2) centres [m].
        velocities: (n, 2) [m/s].
        spins: (n, 3) angular velocities about the table's axes [rad/s].
        in_play: (n,) bool; other balls do not take part.
    """

    positions: np.ndarray
    velocities: np.ndarray
    spins: np.ndarray
    in_play: np.ndarray

    @classmethod
    def at_rest(cls, positions: np.ndarray, in_play: np.ndarray | None = None) -> Start:
        """Return resting balls at (n, 2) positions [m]."""
        n = len(positions)
        playing = np.ones(n, bool) if in_play is None else np.array(in_play, bool)
        return cls(np.array(positions, float), np.zeros((n, 2)), np.zeros((n, 3)), playing)


@dataclass(frozen=True)
class Trajectory:
    """What the balls did, in the twin's ball order and the table frame.

    Attributes:
        times: (T,) after the start [s].
        positions: (T, n, 2) [m]; a pocketed ball stays at its pocket's centre, one not in play at its start; NaN after
            the contact at which the simulation was told to stop.
        pocketed: (T, n) bool; true too for balls that were not in play.
        rest_positions: (n, 2) at the end [m]; at the stop for a simulation that was told to.
        rest_pocketed: (n,) bool at the end.
        rest_time: when the last ball stopped travelling [s]; NaN = not within the horizon, or stopped before.
        events: in order of time.
        fault: None, or why the simulation cannot be trusted: "not finite", "energy gain", "escape".
        stop_time: when the simulation ended [s].
        steps: MuJoCo steps made.
    """

    times: np.ndarray
    positions: np.ndarray
    pocketed: np.ndarray
    rest_positions: np.ndarray
    rest_pocketed: np.ndarray
    rest_time: float
    events: tuple[Event, ...]
    fault: str | None
    stop_time: float
    steps: int

    def contacts(self, kind: EventKind) -> int:
        """Return how many events of a kind there were."""
        return sum(event.kind == kind for event in self.events)


class _Worker:
    """A model and a state of its own, for one thread at a time: the time step lives in the model."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = copy.copy(model)
        self.data = mujoco.MjData(self.model)


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

        Raises:
            CueError: balls or steps make no sense.
            KernelError: the native kernel is not built.
        """
        kernel.library()
        if not 0 < impact_step < largest_step <= 0.05:
            raise FileFormatError(
                "twin", f"needs 0 < impact_step < largest_step <= 0.05 s, got {impact_step}, {largest_step}"
            )
        self.table = table
        self.ball_ids = tuple(int(b) for b in ball_ids)
        self.radii = dict(radii or {})
        self.masses = dict(masses or {})
        self.largest_step = largest_step
        self.impact_step = impact_step
        self.extras = dict(extras or {})
        self.model = build_spec(table, self.ball_ids, radii=radii, masses=masses, visual=False).compile()
        self.layout = Layout.of(self.model, table, self.ball_ids)
        self._workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()

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
        )

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        try:
            worker = self._workers.get_nowait()
        except queue.Empty:
            worker = _Worker(self.model)
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
            OutOfRangeError: a cloth on which nothing comes to rest.
        """
        return self._run(start, self._laws(parameters), _checked_times(times), until_contact or 0, horizon)

    def simulate_batch(
        self,
        starts: Sequence[Start],
        parameters: np.ndarray,
        times: np.ndarray | Sequence[float] | Sequence[np.ndarray] = (),
        until_contact: int | Sequence[int | None] | None = None,
        horizon: float = HORIZON,
        threads: int | None = None,
    ) -> list[Trajectory]:
        """Play many shots, the same bits for any number of threads.

        Args:
            starts: B starts.
            parameters: (B, P), or (P,) for all.
            times: (T,) for all, or B arrays.
            until_contact: for all, or B values; see :meth:`simulate`.
            horizon: [s].
            threads: None = one per CPU core.

        Raises:
            FileFormatError: counts or shapes do not fit.
        """
        count = len(starts)
        parameters = np.asarray(parameters, float)
        vectors = [parameters] * count if parameters.ndim == 1 else list(parameters)
        nested = len(times) > 0 and np.ndim(times[0]) == 1
        sampled: list[Any] = list(times) if nested else [times] * count
        limits: list[Any] = [until_contact] * count if np.ndim(until_contact) == 0 else list(until_contact)  # type: ignore[arg-type]
        if not len(vectors) == len(sampled) == len(limits) == count:
            raise FileFormatError(
                "batch",
                f"has {count} starts, {len(vectors)} parameter vectors, {len(sampled)} times, {len(limits)} limits",
            )
        jobs: list[tuple[Start, np.ndarray, np.ndarray, int, float]] = [
            (start, self._laws(vector), _checked_times(t), limit or 0, horizon)
            for start, vector, t, limit in zip(starts, vectors, sampled, limits, strict=True)
        ]
        workers = min(threads or os.cpu_count() or 1, max(count, 1))
        if workers == 1:
            return [self._run(*job) for job in jobs]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda job: self._run(*job), jobs))

    def _laws(self, parameters: np.ndarray | None) -> np.ndarray:
        values = nominal_values() if parameters is None else parameters
        return Laws.from_parameters(values, **self.extras).array()

    def _run(self, start: Start, laws: np.ndarray, times: np.ndarray, limit: int, horizon: float) -> Trajectory:
        n = len(self.ball_ids)
        position, velocity, spin = (
            np.ascontiguousarray(a, float) for a in (start.positions, start.velocities, start.spins)
        )
        in_play = np.ascontiguousarray(start.in_play, np.int32)
        if position.shape != (n, 2) or velocity.shape != (n, 2) or spin.shape != (n, 3) or in_play.shape != (n,):
            raise FileFormatError(
                "start", f"does not fit {n} balls: positions {position.shape}, velocities {velocity.shape}"
            )
        playing = in_play.astype(bool)
        count = len(times)
        sampled = np.full((count, n, 2), np.nan)
        pocketed = np.zeros((count, n), np.uint8)
        finite = all(np.isfinite(a[playing]).all() for a in (position, velocity, spin)) and np.isfinite(laws).all()
        if not finite:
            nowhere = np.full((n, 2), np.nan)
            return Trajectory(
                times, sampled, pocketed.astype(bool), nowhere, ~playing, np.nan, (), "not finite", 0.0, 0
            )
        position = separate(self.layout, position, playing)
        with self._worker() as worker:
            kernel.start(worker.model, worker.data, self.layout, position, velocity, spin, in_play)
            outcome = kernel.advance(
                worker.model,
                worker.data,
                self.layout,
                laws,
                in_play,
                horizon,
                self.largest_step,
                self.impact_step,
                contact_limit=limit,
                stop_at_rest=True,
                check_energy=True,
                times=times,
                position_out=sampled,
                pocketed_out=pocketed,
            )
            stop = float(worker.data.time)
            rest = self.layout.positions(worker.data)
        if outcome.status == 1:
            sampled[outcome.sampled :] = rest
            pocketed[outcome.sampled :] = in_play == 0
        gone = pocketed.astype(bool)
        sampled[:, ~playing] = position[~playing]
        rest[~playing] = position[~playing]
        for event in outcome.events:
            if event.kind == EventKind.POCKET:
                ball = self.ball_ids.index(event.ball)
                sampled[gone[:, ball], ball] = rest[ball] = self.layout.pocket_positions[event.other]
        rest_time = stop if outcome.status == 1 else np.nan
        return Trajectory(
            times,
            sampled,
            gone,
            rest,
            in_play == 0,
            rest_time,
            tuple(outcome.events),
            outcome.fault,
            stop,
            outcome.steps,
        )


def _remake(
    table: TableModel,
    ball_ids: tuple[int, ...],
    radii: Mapping[int, float],
    masses: Mapping[int, float],
    largest_step: float,
    impact_step: float,
    extras: Mapping[str, Any],
) -> Twin:
    return Twin(
        table,
        ball_ids,
        radii=radii,
        masses=masses,
        largest_step=largest_step,
        impact_step=impact_step,
        extras=extras,
    )


def _checked_times(times: np.ndarray | Sequence[float]) -> np.ndarray:
    out = np.ascontiguousarray(times, float)
    if out.ndim != 1 or (len(out) and (not np.isfinite(out).all() or out[0] < 0 or np.any(np.diff(out) < 0))):
        raise FileFormatError("times", "must be one row of finite seconds from 0 on, increasing")
    return out
