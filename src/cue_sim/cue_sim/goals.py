"""Trajectory goals of the simulated robot: at most one is followed, the newest wins, each one ends exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from cue_sim.trajectory import Follower, GoalError, JointTrajectory, Tolerances, TrajectoryCode, check_motion
from cue_sim.world import SECOND, World


class Ending(Enum):
    """How a goal ended, in the terms of an action."""

    SUCCEEDED = "succeeded"
    ABORTED = "aborted"
    CANCELED = "canceled"


@dataclass(eq=False)
class Goal:
    """One goal; ``ended`` is set once ``ending``, ``code`` and ``text`` say how.

    Attributes:
        trajectory: as :func:`cue_sim.trajectory.check_goal` returned it.
        tolerances: of the robot's motion.
        cancel: its owner does not want it any more.
        waited: frames since it came.
    """

    trajectory: JointTrajectory
    tolerances: Tolerances
    cancel: bool = False
    waited: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    ending: Ending | None = None
    code: TrajectoryCode = TrajectoryCode.SUCCESSFUL
    text: str = ""

    def end(self, ending: Ending, code: TrajectoryCode, text: str) -> None:
        """End it; a second call changes nothing."""
        if not self.ended.is_set():
            self.ending, self.code, self.text = ending, code, text
            self.ended.set()


class GoalKeeper:
    """Begins, replaces, cancels and ends goals; called between two steps of the world."""

    def __init__(self, world: World) -> None:
        """Keep the goals of one world."""
        self._world = world
        self._waiting: Goal | None = None
        self._active: Goal | None = None

    @property
    def _follower(self) -> Follower:
        return self._world.follower

    @property
    def _now(self) -> float:
        return self._world.time / SECOND

    @property
    def busy(self) -> bool:
        """Tell whether a goal is followed or the arm brakes after one."""
        return self._active is not None or self._follower.busy(self._now)

    def submit(self, goal: Goal) -> None:
        """Take a new goal; one that still waits is given up for it."""
        if self._waiting:
            self._waiting.end(Ending.ABORTED, TrajectoryCode.INVALID_GOAL, "replaced by a newer goal before it began")
        self._waiting = goal

    def count_frame(self) -> None:
        """Note that a frame has passed."""
        if self._waiting:
            self._waiting.waited += 1

    def settle(self) -> bool:
        """End what has ended and obey cancellations; True = a goal that had begun ended."""
        waiting, active = self._waiting, self._active
        if waiting and waiting.cancel:
            waiting.end(Ending.CANCELED, TrajectoryCode.SUCCESSFUL, "canceled before it began")
            self._waiting = None
        if not active:
            return False
        if active.cancel and self._follower.active:
            done, whole = self._follower.elapsed(self._now), active.trajectory.duration
            active.text = f"canceled after {done:.3f} of {whole:.3f} s"
            self._follower.stop(self._now)
            self._follower.outcome = None
        if self._follower.busy(self._now):
            return False
        outcome = self._follower.outcome
        if outcome is None:
            active.end(Ending.CANCELED, TrajectoryCode.SUCCESSFUL, active.text)
        else:
            code, text = outcome
            good = code is TrajectoryCode.SUCCESSFUL
            active.end(Ending.SUCCEEDED if good else Ending.ABORTED, code, text)
        self._active = None
        return True

    def begin(self, allowed: Callable[[int, bool], bool]) -> None:
        """Begin the waiting goal if ``allowed(frames it has waited, a goal is followed)``."""
        goal = self._waiting
        if not goal or not allowed(goal.waited, self.busy):
            return
        self._waiting = None
        position, velocity, _ = self._follower.set_point(self._now)
        try:
            whole = check_motion(self._world.config.robot, goal.trajectory, position, velocity)
        except GoalError as error:
            goal.end(Ending.ABORTED, error.code, str(error))
            return
        if self._active:
            self._active.end(Ending.ABORTED, TrajectoryCode.INVALID_GOAL, "replaced by a newer goal")
        self._follower.start(whole, goal.tolerances, self._now)
        self._active = goal

    def end_all(self, text: str) -> None:
        """Abort everything: the world ends."""
        for goal in (self._waiting, self._active):
            if goal:
                goal.end(Ending.ABORTED, TrajectoryCode.INVALID_GOAL, text)
        self._waiting = self._active = None
