"""What drives the world: the lockstep rule or the wall clock, goals, checkpoints. Runs in one thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cue_sim.goals import Goal, GoalKeeper
from cue_sim.lockstep import Decision, Lockstep, LockstepConfig
from cue_sim.world import SECOND, JointSample, World, WorldEvent

_TICK = SECOND // 125  # publishing period of a world that runs by the wall clock [ns]
_CLOCK_REPEAT = 0.25  # s: a standing clock is told again, for nodes that come later
_LOST = 0.5  # s behind the wall clock at which a slow machine gives up catching up


class Listener(Protocol):
    """Who is told what the world does; called from the world's thread."""

    def on_clock(self, time_ns: int) -> None:
        """The simulation time, also repeatedly while it stands."""

    def on_joints(self, samples: Sequence[JointSample]) -> None:
        """Joint samples since the last call, oldest first."""

    def on_frame(self, frame: int, time_ns: int) -> None:
        """The world is at a camera frame; its state may be read."""

    def on_repeat(self, frame: int) -> None:
        """A frame that was told before must be told again."""

    def on_events(self, events: Sequence[WorldEvent]) -> None:
        """What happened in between."""

    def on_late(self, seconds: float) -> None:
        """The machine is too slow for the real-time factor: the clock lost this much and goes on from there."""


class WorldLoop:
    """Runs one world. The methods that tell it something may be called from any thread."""

    def __init__(
        self, world: World, listener: Listener, run_dir: str = "", config: LockstepConfig | None = None
    ) -> None:
        """Go on from the run folder's saved state, if there is one.

        Raises:
            CueError: the saved state is damaged or of another world.
        """
        self._world, self._listener = world, listener
        self._config = config or LockstepConfig()
        self._checkpoint = Path(run_dir) / "world_state.npz" if run_dir else None
        self.restored = self._checkpoint is not None and world.restore(self._checkpoint)
        self._lockstep = Lockstep(self._config, world.frame)
        self._goals = GoalKeeper(world)
        self._changed = threading.Condition()
        self._stopped = False
        self._open_shot = ""
        self._ended_goal = False
        self._newcomer = False

    @property
    def frame(self) -> int:
        """Return the newest frame."""
        return self._lockstep.frame

    # What others tell -------------------------------------------------------------------------------------------

    def submit(self, goal: Goal) -> None:
        """Take a trajectory goal."""
        with self._changed:
            self._goals.submit(goal)
            self._changed.notify()

    def cancel(self, goal: Goal) -> None:
        """Ask for the end of a goal."""
        with self._changed:
            goal.cancel = True
            self._changed.notify()

    def acknowledge(self, time_ns: int, settled: bool, calibrated: bool = True) -> None:
        """Take the tracker's word on the image of a time [ns]; a time that is no frame's is ignored."""
        frame = round(time_ns * self._world.config.camera.fps / SECOND)
        if self._world.time_of(frame) != time_ns:
            return
        with self._changed:
            if not calibrated:
                self._lockstep.calibration_lost(frame)
            self._lockstep.acknowledge(frame, settled)
            self._changed.notify()

    def report_shot(self, shot_id: str, finished: bool) -> None:
        """Take the arm's word that a shot has begun or finished."""
        with self._changed:
            self._open_shot = "" if finished else shot_id
            self._ended_goal = False
            self._changed.notify()

    def repeat_newest(self) -> None:
        """Tell the newest frame again: somebody new listens."""
        with self._changed:
            self._newcomer = True
            self._changed.notify()

    def stop(self) -> None:
        """End the loop; goals in flight are aborted."""
        with self._changed:
            self._stopped = True
            self._goals.end_all("the world ends")
            self._changed.notify()

    # The loop ---------------------------------------------------------------------------------------------------

    def run(self, lockstep: bool, real_time_factor: float = 1.0) -> None:
        """Run until :meth:`stop`.

        Raises:
            CueError: the simulation broke down, or a checkpoint cannot be written.
        """
        try:
            self._save()
            self._listener.on_joints([self._world.joints()])
            self._tell_frame()
            if lockstep:
                self._run_lockstep()
            else:
                self._run_by_wall_clock(real_time_factor)
        finally:
            with self._changed:
                self._goals.end_all("the world ended")

    def _run_lockstep(self) -> None:
        told = arm_since = time.monotonic()
        while True:
            with self._changed:
                if self._stopped:
                    return
                decision = self._decide()
                if decision is not Decision.ADVANCE:
                    self._changed.wait(_CLOCK_REPEAT)
                    decision = self._decide() if not self._stopped else Decision.WAIT_IDLE
                overdue = self._lockstep.unacknowledged if decision is Decision.WAIT_FOR_ACKNOWLEDGEMENT else ()
                newcomer, self._newcomer = self._newcomer, False
            now = time.monotonic()
            if decision is not Decision.WAIT_FOR_ARM:
                arm_since = now
            elif now - arm_since > self._config.arm_patience:
                self.report_shot("", finished=True)
            if decision is Decision.ADVANCE:
                self._advance_frame()
                told = time.monotonic()
                continue
            self._listener.on_clock(self._world.time)
            if newcomer and not overdue:
                overdue = (self._world.frame,)
            elif now - told < self._config.repeat_after and not newcomer:
                continue
            for frame in overdue:
                self._listener.on_repeat(frame)
            told = now

    def _decide(self) -> Decision:
        """Obey goals, then the rule; with the lock held, at a frame boundary."""
        self._end_goals()
        reporting = self._reporting
        self._goals.begin(
            lambda waited, active: reporting or self._lockstep.begin_goal(waited, active, self._world.moving)
        )
        return self._lockstep.decide(self._goals.busy, self._world.moving, self._reporting)

    @property
    def _reporting(self) -> bool:
        return bool(self._open_shot) and self._ended_goal and not self._goals.busy

    def _end_goals(self) -> None:
        if self._goals.settle():
            self._ended_goal = True

    def _advance_frame(self) -> None:
        samples = self._world.next_frame()
        with self._changed:
            self._lockstep.advanced()
            self._goals.count_frame()
        self._save()
        self._listener.on_joints(samples)
        self._tell_frame()

    def _run_by_wall_clock(self, factor: float) -> None:
        began, origin = time.monotonic(), self._world.time
        while True:
            with self._changed:
                if self._stopped:
                    return
                self._end_goals()
                self._goals.begin(lambda _waited, _active: True)
                if self._newcomer:
                    self._newcomer = False
                    self._listener.on_repeat(self._world.frame)
            until = min((self._world.time // _TICK + 1) * _TICK, self._world.frame_time)
            at_frame = until == self._world.frame_time
            samples = self._world.next_frame() if at_frame else self._world.run_to(until)
            ahead = began + (until - origin) / SECOND / factor - time.monotonic()
            if ahead > 0:
                self._sleep(ahead)
            elif ahead < -_LOST:
                began, origin = time.monotonic(), until
                self._listener.on_late(-ahead)
            self._listener.on_joints(samples)
            if at_frame:
                self._save()
                self._tell_frame()
            else:
                self._listener.on_clock(until)

    def _sleep(self, seconds: float) -> None:
        """Sleep that :meth:`stop` cuts short."""
        end = time.monotonic() + seconds
        with self._changed:
            while not self._stopped and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _tell_frame(self) -> None:
        self._listener.on_events(self._world.take_events())
        self._listener.on_frame(self._world.frame, self._world.time)
        self._listener.on_clock(self._world.time)

    def _save(self) -> None:
        if self._checkpoint:
            self._world.save(self._checkpoint)
