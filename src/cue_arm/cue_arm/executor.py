"""Has one motion executed by the controller, and says how it ended. Blocking, no ROS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from cue_arm.planner import StrokePlan
from cue_arm.situation import Interrupt, Situation
from cue_arm.trajectory import JointTrajectory
from cue_core.arm_codes import ArmCode

_SETTLE_TIMEOUT = 5.0  # s of wall time: joint states may be on their way when the result is there
_QUIET = 0.5  # s of wall time without news after which none is on its way
_STILL_TIME = 0.15  # s of robot time; longer than the pause behind the ball
_POLL = 0.25  # s of wall time
_PROBE = 2.0  # s of wall time without news after which the controller is asked whether it still knows the goal
_NEAR_END = 0.05  # rad
_STALLED = 3.0  # s of robot time without motion in the middle of a trajectory
_MOVED = 0.002  # rad
_TOLERANCE_CODES = (-4, -5)  # of control_msgs/FollowJointTrajectory: path and goal tolerance violated
_SAFETY_WORDS = ("protective", "emergency", "safeguard", "safety")


class Run(Protocol):
    """One trajectory given to the controller. Its fields change under the situation's condition."""

    accepted: bool | None  # None = not answered yet
    ended: bool
    failure: str  # empty = success
    code: int  # of control_msgs/FollowJointTrajectory; 1 = cancelled
    lost: bool  # the controller does not know this goal (any more)

    def cancel(self) -> None:
        """Ask for a stop."""
        ...

    def probe(self) -> None:
        """Ask whether the controller still knows the goal; sets ``lost`` if not."""
        ...


CANCELED = 1
"""``Run.code`` of a goal that ended as cancelled."""


class Controller(Protocol):
    """Whatever executes trajectories."""

    def available(self) -> bool:
        """Tell whether the controller can be reached."""
        ...

    def send(self, trajectory: JointTrajectory) -> Run:
        """Give it a trajectory."""
        ...


@dataclass(frozen=True)
class Patience:
    """How long peers may be silent, in wall time [s]: the states, the driver's answers, a running stroke."""

    state: float = 5.0
    accept: float = 10.0
    silence: float = 60.0


Feedback = Callable[[str, float], None]


def failure_code(run: Run) -> ArmCode:
    """Tell a robot that stopped by itself from one that could not keep to the trajectory, and from the rest."""
    if any(word in run.failure.lower() for word in _SAFETY_WORDS):
        return ArmCode.PROTECTIVE_STOP
    if run.code in _TOLERANCE_CODES:
        return ArmCode.TOLERANCE
    # A driver takes its controller away when the robot stops by itself: the goal is cancelled, and nobody asked for it.
    return ArmCode.PROTECTIVE_STOP if run.code == CANCELED else ArmCode.CONTROLLER


class Executor:
    """Executes motions one after the other."""

    def __init__(self, situation: Situation, controller: Controller, patience: Patience) -> None:
        """Keep the parts."""
        self._situation, self._controller, self.patience = situation, controller, patience

    def available(self) -> bool:
        """Tell whether the controller can be reached."""
        return self._controller.available()

    def execute(self, plan: StrokePlan, begin: float, interrupt: Interrupt, feedback: Feedback) -> tuple[ArmCode, str]:
        """Send a trajectory and see it through; a stop is asked for and awaited when interrupted."""
        situation, patience = self._situation, self.patience
        run = self._controller.send(plan.trajectory)
        stall = _Stall(plan.trajectory)
        stopping_since: float | None = None
        sent = heard = probed = time.monotonic()
        news = situation.news
        while True:
            self._wait_for_news(run, news)
            now = time.monotonic()
            if interrupt.reason is not None and stopping_since is None:
                stopping_since = now
                run.cancel()
            if run.accepted is False:
                why = run.failure or "no reason given"
                return ArmCode.CONTROLLER, f"the controller refused the trajectory: {why}"
            if run.ended:
                self._settle(plan, begin, run)
                if interrupt.reason is not None and (run.failure or interrupt.reason.code != ArmCode.CANCELED):
                    return interrupt.reason.code, str(interrupt.reason)
                if run.failure:
                    return failure_code(run), f"the controller stopped: {run.failure}"
                return ArmCode.NONE, ""
            if run.lost:
                return ArmCode.CONTROLLER, "the controller lost the trajectory (was it restarted?)"
            if run.accepted is None and now - sent > patience.accept:
                run.cancel()
                return ArmCode.TIMEOUT, f"the controller did not answer within {patience.accept:.0f} s"
            if situation.news != news:
                news, heard = situation.news, now
                feedback(*_phase(plan, situation, begin))
                newest = situation.newest_joints()
                if newest is not None and stall.look(newest[0], newest[1]):
                    interrupt.set(
                        ArmCode.PROTECTIVE_STOP,
                        f"the arm has stood still for {_STALLED:.0f} s in the middle of its motion, as after a "
                        "protective stop",
                    )
            if now - max(heard, probed) > _PROBE:
                probed = now
                run.probe()
            if stopping_since is not None and now - stopping_since > patience.accept:
                reason = interrupt.reason
                assert reason is not None
                return reason.code, f"{reason}; the controller did not confirm the stop"
            if now - heard > patience.silence:
                run.cancel()
                return ArmCode.TIMEOUT, f"nothing heard of the arm for {patience.silence:.0f} s"

    def _wait_for_news(self, run: Run, news: int) -> None:
        situation = self._situation
        situation.wait(lambda: run.ended or run.lost or run.accepted is False or situation.news != news, _POLL)

    def _heard_more(self, news: int) -> bool:
        return self._situation.news != news

    def _settle(self, plan: StrokePlan, begin: float, run: Run) -> None:
        """Wait until the joint states have caught up with the result, or no more come."""
        situation = self._situation

        def caught_up() -> bool:
            newest = situation.newest_joints()
            if newest is None or not situation.at_rest(since=max(begin, newest[0] - _STILL_TIME)):
                return False
            if run.failure:
                return newest[0] > begin + _STILL_TIME
            return newest[0] > begin + plan.rise_start and bool(
                np.abs(newest[1] - plan.trajectory.positions[-1]).max() < _NEAR_END
            )

        end = time.monotonic() + _SETTLE_TIMEOUT
        while not caught_up() and time.monotonic() < end:
            news = situation.news
            if not situation.wait(partial(self._heard_more, news), _QUIET):
                return  # the simulated clock stands


class _Stall:
    """Notices an arm that stands still although its trajectory has not come to its end."""

    def __init__(self, trajectory: JointTrajectory) -> None:
        self._start, self._end = trajectory.positions[0], trajectory.positions[-1]
        self._place: np.ndarray | None = None
        self._since = 0.0

    def look(self, time_now: float, positions: np.ndarray) -> bool:
        if self._place is None or np.abs(positions - self._place).max() > _MOVED:
            self._place, self._since = positions, time_now
        if time_now - self._since <= _STALLED:
            return False
        # One that has come to its end, or has not begun yet, waits for something else.
        return all(np.abs(positions - end).max() > _NEAR_END for end in (self._start, self._end))


def _phase(plan: StrokePlan, situation: Situation, begin: float) -> tuple[str, float]:
    newest = situation.newest_joints()
    time_since = 0.0 if newest is None else newest[0] - begin
    share = float(np.clip(time_since / plan.trajectory.duration, 0.0, 1.0))
    if time_since < plan.stroke_start:
        return "approaching", share
    return ("striking" if time_since < plan.rise_start else "retreating"), share
