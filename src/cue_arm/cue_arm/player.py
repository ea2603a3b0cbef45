"""Plays one shot: checks, plans, writes the ledger, has the trajectory executed, measures. Blocking, no ROS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Protocol

import numpy as np

from cue_arm.errors import ArmError
from cue_arm.ledger import Ledger, LedgerEntry
from cue_arm.measure import measure_stroke
from cue_arm.planner import ArmBackend, StrokePlan, StrokeRequest
from cue_arm.situation import Interrupt, Situation
from cue_arm.trajectory import JointTrajectory
from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError
from cue_core.shots import Shot, Stroke
from cue_core.table import TableModel

_SETTLE_TIMEOUT = 5.0  # s of wall time: joint states may be on their way when the result is there
_QUIET = 0.5  # s of wall time without news after which none is on its way
_STILL_TIME = 0.15  # s of robot time; longer than the pause behind the ball
_POLL = 0.25  # s of wall time
_PROBE = 2.0  # s of wall time without news after which the controller is asked whether it still knows the goal
_NEAR_END = 0.05  # rad
_PLANS = 2  # attempts when the world changes while a stroke is planned


class Phase(IntEnum):
    """Values equal the constants of ``cue_msgs/ShotExecution``."""

    STARTED = 0
    STRUCK = 1
    FINISHED = 2


class Run(Protocol):
    """One trajectory given to the controller. Its fields change under the situation's condition."""

    accepted: bool | None  # None = not answered yet
    ended: bool
    failure: str  # empty = success
    lost: bool  # the controller does not know this goal (any more)

    def cancel(self) -> None:
        """Ask for a stop."""
        ...

    def probe(self) -> None:
        """Ask whether the controller still knows the goal; sets ``lost`` if not."""
        ...


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


@dataclass(frozen=True)
class Outcome:
    """How a shot ended.

    Attributes:
        code: and ``text``: why, where it was not played as asked.
        struck: the tip met the ball.
        stroke: as measured.
    """

    code: ArmCode
    text: str = ""
    struck: bool = False
    stroke: Stroke | None = None


Feedback = Callable[[str, float], None]
Report = Callable[[Phase, LedgerEntry], None]


class Player:
    """Plays shots one after the other."""

    def __init__(
        self, situation: Situation, controller: Controller, ledger: Ledger, patience: Patience, report: Report
    ) -> None:
        """Keep the parts; ``report`` publishes the phases of a shot."""
        self._situation, self._controller, self._ledger = situation, controller, ledger
        self._patience, self._report = patience, report
        self._backend: ArmBackend | None = None
        self._table: TableModel | None = None
        self._turn = threading.Lock()
        self.executing = False

    def set_backend(self, backend: ArmBackend, table: TableModel) -> None:
        """Plan with this from the next shot on."""
        with self._situation.changed:
            self._backend, self._table = backend, table
            self._situation.changed.notify_all()

    def play(self, shot: Shot, interrupt: Interrupt, feedback: Feedback) -> Outcome:
        """Play a shot; never raises for what can go wrong on the way."""
        with self._turn:  # an older shot that was preempted ends first
            try:
                interrupt.check()
                known = self._ledger.find(shot.shot_id)
                if known is not None:
                    return _already(known)
                plan, ball = self._plan(shot, interrupt, feedback)
            except ArmError as error:
                return Outcome(error.code, str(error))
            return self._play(shot, plan, ball, interrupt, feedback)

    def close_open_entry(self) -> LedgerEntry | None:
        """Finish a shot that an earlier process left open, and return the newest entry."""
        last = self._ledger.last
        if last is None or last.finished:
            return last
        text = "the arm's process was restarted during the stroke"
        return self._ledger.finish(last.shot.shot_id, None, None, ArmCode.CONTROLLER, text)

    def _plan(self, shot: Shot, interrupt: Interrupt, feedback: Feedback) -> tuple[StrokePlan, np.ndarray]:
        situation, patience = self._situation, self._patience
        feedback("planning", 0.0)
        if not situation.wait(lambda: self._backend is not None, patience.state, interrupt):
            raise ArmError(ArmCode.NO_BALL, "no table_info yet")
        assert self._backend is not None

        def progress(share: float) -> None:
            interrupt.check()
            feedback("planning", share)

        for _ in range(_PLANS):
            balls = situation.playable_balls(patience.state, interrupt)
            if not situation.wait(situation.at_rest, patience.state, interrupt):
                silent = situation.newest_joints() is None
                raise ArmError(ArmCode.CONTROLLER, "no joint_states" if silent else "the arm does not come to rest")
            if not situation.wait(self._controller.available, patience.accept, interrupt):
                raise ArmError(ArmCode.CONTROLLER, "no follow_joint_trajectory server")
            newest = situation.newest_joints()
            assert newest is not None
            others = {i: p for i, p in balls.items() if i != 0}
            plan = self._backend.plan(StrokeRequest(shot, balls[0], others, newest[1]), progress)
            if situation.same(newest[1], balls):
                return plan, balls[0]
        raise ArmError(ArmCode.NO_BALL, "the arm or the balls moved while the stroke was planned")

    def _play(
        self, shot: Shot, plan: StrokePlan, ball: np.ndarray, interrupt: Interrupt, feedback: Feedback
    ) -> Outcome:
        with self._situation.changed:
            if interrupt.reason is not None:
                return Outcome(interrupt.reason.code, str(interrupt.reason))
            self.executing = True
        try:
            try:
                self._ledger.start(shot)
            except CueError as error:  # what cannot be remembered must not be struck
                return Outcome(ArmCode.STOPPED, str(error))
            self._report(Phase.STARTED, LedgerEntry(shot))
            newest = self._situation.newest_joints()
            begin = 0.0 if newest is None else newest[0]
            try:
                code, text = self._execute(plan, begin, interrupt, feedback)
            except Exception as error:  # whoever was told that it started must be told that it ended
                self._finish(shot, None, None, ArmCode.CONTROLLER, f"internal error: {error}")
                raise
            stroke = self._measure(begin, ball)
            if code == ArmCode.NONE and stroke is None:
                code, text = ArmCode.CONTROLLER, "the controller reported success, but the tip did not reach the ball"
            # Without joint states nobody can say that the ball was not struck.
            blind = stroke is None and code == ArmCode.TIME_RESET
            self._finish(shot, None if blind else stroke is not None, stroke, code, text)
            return Outcome(code, text, stroke is not None, stroke)
        finally:
            self.executing = False

    def _execute(self, plan: StrokePlan, begin: float, interrupt: Interrupt, feedback: Feedback) -> tuple[ArmCode, str]:
        """Send the trajectory and see it through; a stop is asked for and awaited when interrupted."""
        situation, patience = self._situation, self._patience
        run = self._controller.send(plan.trajectory)
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
                return (
                    ArmCode.CONTROLLER,
                    f"the controller refused the trajectory: {run.failure or 'no reason given'}",
                )
            if run.ended:
                self._settle(plan, begin, run)
                if interrupt.reason is not None and (run.failure or interrupt.reason.code != ArmCode.CANCELED):
                    return interrupt.reason.code, str(interrupt.reason)
                return (
                    (ArmCode.CONTROLLER, f"the controller stopped: {run.failure}")
                    if run.failure
                    else (ArmCode.NONE, "")
                )
            if run.lost:
                return ArmCode.CONTROLLER, "the controller lost the trajectory (was it restarted?)"
            if run.accepted is None and now - sent > patience.accept:
                run.cancel()
                return ArmCode.TIMEOUT, f"the controller did not answer within {patience.accept:.0f} s"
            if situation.news != news:
                news, heard = situation.news, now
                feedback(*_phase(plan, situation, begin))
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

    def _finish(self, shot: Shot, struck: bool | None, stroke: Stroke | None, code: ArmCode, text: str) -> None:
        entry = self._ledger.finish(shot.shot_id, struck, stroke, code, text)
        if stroke is not None:
            self._report(Phase.STRUCK, entry)
        self._report(Phase.FINISHED, entry)

    def _measure(self, begin: float, ball: np.ndarray) -> Stroke | None:
        assert self._backend is not None and self._table is not None
        reach = self._backend.reach
        record = self._situation.joints_since(begin)
        return measure_stroke(record, reach.chain, ball, self._table.ball_radius, reach.robot.cue.tip_radius)


def _already(entry: LedgerEntry) -> Outcome:
    known = "" if entry.struck else "; it was begun, and nobody saw how it ended"
    return Outcome(ArmCode.ALREADY_STRUCK, f"shot {entry.shot.shot_id} was struck before{known}", True, entry.stroke)


def _phase(plan: StrokePlan, situation: Situation, begin: float) -> tuple[str, float]:
    newest = situation.newest_joints()
    time_since = 0.0 if newest is None else newest[0] - begin
    share = float(np.clip(time_since / plan.trajectory.duration, 0.0, 1.0))
    if time_since < plan.stroke_start:
        return "approaching", share
    return ("striking" if time_since < plan.rise_start else "retreating"), share
