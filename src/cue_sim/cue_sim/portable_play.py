"""Shots and single impacts, played on the portable copy and on the exact twin, so that the two can be compared."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import mujoco
import numpy as np

from cue_core.errors import CueError
from cue_core.parameters import ParameterEstimate
from cue_sim import kernel
from cue_sim.kernel import Layout
from cue_sim.laws import Laws
from cue_sim.path import Start
from cue_sim.portable import PortableParameters, portable_spec, ratios
from cue_sim.rollouts import cores
from cue_sim.twin import Twin

SETTLED = 0.02
"""Time after which a probed impact is over in both models [s]."""
_REST_SPEED = 2e-3  # m/s: slower balls rest; at a hundredth of g they would still roll 0.02 mm
_LOOK = 100  # steps between two looks whether all rest
_DIVERGED = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
_KERNEL_STEP = 1e-3  # s: the kernel's spins are in the ball's frame, whose turning wants small steps

Cancelled = Callable[[], bool]
_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")


class PortableCancelledError(CueError):
    """A fit or a measurement of the portable copy was cancelled."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the fit of the portable copy was cancelled")


@dataclass(frozen=True)
class Rest:
    """Where balls came to rest.

    Attributes:
        positions: (n, 2) [m]; of a pocketed ball its pocket's centre.
        pocketed: (n,) bool; also of balls that were not in play.
    """

    positions: np.ndarray
    pocketed: np.ndarray


class PortableTable:
    """The compiled portable copy of a twin, without scenery; safe to use from several threads."""

    def __init__(self, twin: Twin, estimate: ParameterEstimate, parameters: PortableParameters) -> None:
        """Compile.

        Args:
            twin: whose table and balls these are.
            estimate: of its parameters, of which the tilt counts.
            parameters: of the contacts.
        """
        spec = portable_spec(
            twin.table,
            twin.ball_ids,
            estimate,
            parameters=parameters,
            radii=twin.radii,
            masses=twin.masses,
            visual=False,
        )
        self.model = spec.compile()
        self._radius = twin.layout.radius * ratios(estimate, "ball_diameter", twin.ball_ids)
        self._free: queue.SimpleQueue[mujoco.MjData] = queue.SimpleQueue()
        self._pockets = twin.layout.pocket_positions.reshape(-1, 2)

    def play(
        self,
        starts: Sequence[Start],
        horizon: float = 60.0,
        threads: int | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[Rest]:
        """Play shots until all balls rest, the same bits for any number of threads.

        Args:
            starts: balls at time zero, in the twin's order.
            horizon: longest time simulated [s].
            threads: None = one per core.
            cancelled: asked between pieces of a shot.

        Raises:
            PortableCancelledError: ``cancelled`` said so.
            CueError: a simulation became unstable.
        """

        def one(start: Start) -> Rest:
            with self._begun(start) as data:
                for _ in range(int(horizon / self.model.opt.timestep / _LOOK)):
                    _stop_if(cancelled)
                    mujoco.mj_step(self.model, data, nstep=_LOOK)
                    if any(data.warning[w].number for w in _DIVERGED):  # MuJoCo has put the balls back by now
                        raise CueError("a simulation of the portable copy became unstable")
                    if self._at_rest(data):
                        break
                return self._rest(data, start)

        return _threaded(one, starts, threads)

    def follow(
        self,
        starts: Sequence[Start],
        times: Sequence[np.ndarray],
        threads: int | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[np.ndarray]:
        """Return the (T, n, 2) positions [m] of each shot at its own times (T,) [s]."""

        def one(job: tuple[Start, np.ndarray]) -> np.ndarray:
            _stop_if(cancelled)
            found = []
            with self._begun(job[0]) as data:
                for time in job[1]:
                    steps = int((time - data.time) / self.model.opt.timestep)
                    if steps > 0:
                        mujoco.mj_step(self.model, data, nstep=steps)
                    velocity = data.qvel.reshape(-1, 6)[:, :2]
                    found.append(self._state(data)[:, :2] + (time - data.time) * velocity)
            return np.array(found)

        return _threaded(one, list(zip(starts, times, strict=True)), threads)

    def impacts(
        self, starts: Sequence[Start], threads: int | None = None, cancelled: Cancelled | None = None
    ) -> np.ndarray:
        """Return (B, n, 3) of :func:`rolling` after each probed impact [m/s]."""
        steps = round(SETTLED / self.model.opt.timestep)

        def one(start: Start) -> np.ndarray:
            _stop_if(cancelled)
            with self._begun(start) as data:
                mujoco.mj_step(self.model, data, nstep=steps)
                velocity = data.qvel.reshape(-1, 6).copy()
                spins = np.empty((len(self._radius), 3))
                for spin, own, turn in zip(spins, velocity[:, 3:], self._state(data)[:, 3:], strict=True):
                    mujoco.mju_rotVecQuat(spin, own, turn)
            return rolling(velocity[:, :2], spins, self._radius)

        return np.array(_threaded(one, starts, threads))

    @contextmanager
    def _begun(self, start: Start) -> Iterator[mujoco.MjData]:
        try:
            data = self._free.get_nowait()
        except queue.Empty:
            data = mujoco.MjData(self.model)
        mujoco.mj_resetData(self.model, data)
        self._place(data, start)
        yield data
        self._free.put(data)

    def _place(self, data: mujoco.MjData, start: Start) -> None:
        state, velocity = self._state(data), data.qvel.reshape(-1, 6)
        for k, radius in enumerate(self._radius):
            state[k] = [*start.positions[k], radius, 1, 0, 0, 0]
            if not start.in_play[k]:  # on the tray, far away
                state[k, :3] = [100.0 + k, 0.0, -3 * radius]
                continue
            velocity[k, :2], velocity[k, 3:] = start.velocities[k], start.spins[k]

    @staticmethod
    def _state(data: mujoco.MjData) -> np.ndarray:
        return data.qpos.reshape(-1, 7)  # every joint of the model is a ball's

    def _at_rest(self, data: mujoco.MjData) -> bool:
        velocity = data.qvel.reshape(-1, 6).copy()
        velocity[:, 3:] *= self._radius[:, None]
        on_bed = self._state(data)[:, 2] > 0
        return bool(np.all(np.abs(velocity[on_bed][:, :5]) < _REST_SPEED))

    def _rest(self, data: mujoco.MjData, start: Start) -> Rest:
        state = self._state(data)
        place, gone = state[:, :2].copy(), state[:, 2] < 0
        for k in np.flatnonzero(gone):
            if not start.in_play[k]:
                place[k] = start.positions[k]
            elif len(self._pockets):
                place[k] = self._pockets[np.argmin(np.linalg.norm(self._pockets - place[k], axis=1))]
        return Rest(place, gone)


class ExactImpacts:
    """The exact twin, asked for what a single impact does to spins as well as to velocities."""

    def __init__(self, twin: Twin, estimate: ParameterEstimate) -> None:
        """Use the twin's own model and laws with the estimate's values."""
        self._laws = Laws.from_parameters(estimate.values, **twin.extras)
        self._model, self._twin = twin.model, twin
        self._radius = twin.layout.radius * ratios(estimate, "ball_diameter", twin.ball_ids)

    def impacts(self, starts: Sequence[Start]) -> np.ndarray:
        """Return (B, n, 3) of :func:`rolling` after each probed impact [m/s]."""
        model = copy.copy(self._model)  # its time step changes
        data, layout = mujoco.MjData(model), Layout.of(model, self._twin.table, self._twin.ball_ids)
        found = []
        for start in starts:
            playing = np.ascontiguousarray(start.in_play, np.int32)
            position, velocity, spin = (
                np.ascontiguousarray(a, float) for a in (start.positions, start.velocities, start.spins)
            )
            kernel.start(model, data, layout, position, velocity, spin, playing)
            kernel.advance(model, data, layout, self._laws, playing, SETTLED, _KERNEL_STEP)
            found.append(rolling(layout.velocities(data), layout.spins(data), self._radius))
        return np.array(found)


def rolling(velocity: np.ndarray, spin: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return what of a ball's motion sliding on a level cloth does not change.

    Args:
        velocity: (n, 2) [m/s].
        spin: (n, 3) about the table's axes [rad/s].
        radius: (n,) [m].

    Returns:
        (n, 3): the velocity once it rolls, v - 2/7 of the slip v + R w x (-z); R times the upright spin [m/s].
    """
    slip = velocity + radius[:, None] * np.stack([-spin[:, 1], spin[:, 0]], axis=1)
    return np.column_stack([velocity - 2 / 7 * slip, radius * spin[:, 2]])


def _stop_if(cancelled: Cancelled | None) -> None:
    if cancelled is not None and cancelled():
        raise PortableCancelledError()


def _threaded(one: Callable[[_Job], _Answer], jobs: Sequence[_Job], threads: int | None) -> list[_Answer]:
    workers = min(threads or cores(), max(len(jobs), 1))
    if workers == 1:
        return [one(job) for job in jobs]
    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(one, jobs))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever interrupts does not wait for what has not begun
