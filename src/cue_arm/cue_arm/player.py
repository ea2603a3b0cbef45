"""Plays shots and pushes: checks, plans, writes the ledger, has the motion executed, measures. Blocking, no ROS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from cue_arm.envelope import Envelope
from cue_arm.errors import ArmError
from cue_arm.executor import Controller, Executor, Feedback, Patience
from cue_arm.guard import Guard
from cue_arm.ledger import Ledger, LedgerEntry, PushLedger
from cue_arm.measure import measure_pace, measure_stroke
from cue_arm.planner import ArmBackend, StrokePlan, StrokeRequest
from cue_arm.push import NOT_THERE, PushRequest, PushSettings, plan_push
from cue_arm.settings import StrokeSettings
from cue_arm.situation import Interrupt, Situation
from cue_arm.stroke_model import StrokeModel
from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError
from cue_core.shots import Shot, Stroke
from cue_core.table import TableModel

__all__ = ["Outcome", "Patience", "Phase", "Player", "Push", "PushOutcome", "Workplace"]

FULL_PACE = 0.97
"""Share of the planned pace below which a robot counts as slowed."""

_PLANS = 2  # attempts when the world changes while a stroke is planned
_ROLLING = 20.0  # s of wall time: until then balls are awaited that roll on after a push
_SEEN_BEFORE = 0.1  # s: ball states may be this much older than the arm's rest


class Phase(IntEnum):
    """Values equal the constants of ``cue_msgs/ShotExecution``."""

    STARTED = 0
    STRUCK = 1
    FINISHED = 2


@dataclass(frozen=True)
class Workplace:
    """What a player needs to know of one table.

    Attributes:
        backend: plans.
        table: beside which the arm stands.
        envelope: that every motion must keep to.
        model: of what the arm makes of its strokes; None = commands are taken as they are.
        stroke: how strokes are shaped; ``push`` how balls are pushed.
    """

    backend: ArmBackend
    table: TableModel
    envelope: Envelope
    model: StrokeModel | None = None
    stroke: StrokeSettings = field(default_factory=StrokeSettings)
    push: PushSettings = field(default_factory=PushSettings)


@dataclass(frozen=True)
class Outcome:
    """How a shot ended.

    Attributes:
        code: and ``text``: why, where it was not played as asked; a text without a code tells that it was slowed.
        struck: the tip met the ball.
        stroke: as measured.
        pace: measured share of the planned pace; 0 = not measured.
    """

    code: ArmCode
    text: str = ""
    struck: bool = False
    stroke: Stroke | None = None
    pace: float = 0.0


@dataclass(frozen=True)
class Push:
    """A ball to be pushed to (2,) [m]; ``tolerance`` [m] is near enough, 0 = the workplace's."""

    push_id: str
    ball_id: int
    goal: np.ndarray
    tolerance: float = 0.0


@dataclass(frozen=True)
class PushOutcome:
    """How a push ended; ``position`` (2,) [m] is where the ball was last seen, None = nowhere.

    Codes are those of ArmCode, and :data:`cue_arm.push.NOT_THERE`.
    """

    code: int
    text: str = ""
    moved: bool = False
    position: np.ndarray | None = None
    strokes: int = 0


Report = Callable[[Phase, LedgerEntry], None]
Told = Callable[[str, float, int], None]


class Player:
    """Plays shots and pushes one after the other."""

    def __init__(
        self,
        situation: Situation,
        controller: Controller,
        ledger: Ledger,
        patience: Patience,
        report: Report,
        guard: Guard | None = None,
        pushes: PushLedger | None = None,
    ) -> None:
        """Keep the parts; ``report`` publishes the phases of a shot."""
        self._situation, self._ledger, self._report = situation, ledger, report
        self._executor = Executor(situation, controller, patience)
        self._guard, self._pushes = guard or Guard(), pushes or PushLedger()
        self._workplace: Workplace | None = None
        self._turn = threading.Lock()
        self.executing = False
        self.scaling = 1.0  # speed scaling as the robot reports it, 0..1

    def set_workplace(self, workplace: Workplace) -> None:
        """Play there from the next shot on."""
        with self._situation.changed:
            self._workplace = workplace
            self._situation.changed.notify_all()

    def play(self, shot: Shot, interrupt: Interrupt, feedback: Feedback) -> Outcome:
        """Play a shot; never raises for what can go wrong on the way."""
        with self._turn:  # an older shot that was preempted ends first
            try:
                interrupt.check()
                known = self._ledger.find(shot.shot_id)
                if known is not None:
                    return _already(known)
                place = self._place(interrupt, feedback)
                sent = [shot]

                def make(balls: Mapping[int, np.ndarray], joints: np.ndarray) -> StrokePlan:
                    plan, sent[0] = self._plan_stroke(place, shot, balls, joints, interrupt, feedback)
                    return plan

                plan, balls = self._prepare(place, 0, make, interrupt)
            except ArmError as error:
                return Outcome(error.code, str(error))
            return self._play(place, shot, sent[0], plan, balls[0], interrupt, feedback)

    def push(self, push: Push, interrupt: Interrupt, told: Told) -> PushOutcome:
        """Push a ball until it rests at its goal; never raises for what can go wrong on the way."""
        with self._turn:
            strokes, moved = 0, False
            try:
                interrupt.check()
                if self._pushes.known(push.push_id):
                    return PushOutcome(ArmCode.ALREADY_STRUCK, f"push {push.push_id} was begun before", True)
                place = self._place(interrupt, lambda phase, _share: told(phase, 0.0, 0))
                if not place.table.inside(push.goal):
                    text = f"goal {np.round(push.goal, 3).tolist()} m is not on the table"
                    return PushOutcome(ArmCode.INVALID_SHOT, text)
                near = push.tolerance or place.push.tolerance
                while True:
                    self._situation.wait(self._situation.balls_rest, _ROLLING, interrupt)
                    balls = self._situation.playable_balls(self._executor.patience.state, interrupt, push.ball_id)
                    distance = float(np.linalg.norm(balls[push.ball_id] - push.goal))
                    if distance <= near:
                        return PushOutcome(ArmCode.NONE, "", moved, balls[push.ball_id], strokes)
                    if strokes >= place.push.most_strokes:
                        text = f"still {1e3 * distance:.1f} mm away after {strokes} pushes"
                        return PushOutcome(NOT_THERE, text, moved, balls[push.ball_id], strokes)
                    code, text, touched = self._push_once(place, push, distance, strokes, interrupt, told)
                    strokes, moved = strokes + 1, moved or touched
                    if code != ArmCode.NONE:
                        return PushOutcome(code, text, moved, self._last_seen(push.ball_id), strokes)
            except ArmError as error:
                return PushOutcome(error.code, str(error), moved, self._last_seen(push.ball_id), strokes)

    def close_open_entry(self) -> LedgerEntry | None:
        """Finish a shot that an earlier process left open, and return the newest entry."""
        last = self._ledger.last
        if last is None or last.finished:
            return last
        text = "the arm's process was restarted during the stroke"
        return self._ledger.finish(last.shot.shot_id, None, None, ArmCode.CONTROLLER, text)

    def _place(self, interrupt: Interrupt, feedback: Feedback) -> Workplace:
        """Wait for a table, if the arm may move at all."""
        self._guard.check()
        feedback("planning", 0.0)
        if not self._situation.wait(lambda: self._workplace is not None, self._executor.patience.state, interrupt):
            raise ArmError(ArmCode.NO_BALL, "no table_info yet")
        assert self._workplace is not None
        return self._workplace

    def _prepare(
        self,
        place: Workplace,
        target: int,
        make: Callable[[Mapping[int, np.ndarray], np.ndarray], StrokePlan],
        interrupt: Interrupt,
    ) -> tuple[StrokePlan, dict[int, np.ndarray]]:
        """Plan for the balls and joints as they are, once more if they changed meanwhile, and check the envelope."""
        situation, patience = self._situation, self._executor.patience
        for _ in range(_PLANS):
            balls = situation.playable_balls(patience.state, interrupt, target)
            if not situation.wait(situation.at_rest, patience.state, interrupt):
                silent = situation.newest_joints() is None
                raise ArmError(ArmCode.CONTROLLER, "no joint_states" if silent else "the arm does not come to rest")
            if not situation.wait(self._executor.available, patience.accept, interrupt):
                raise ArmError(ArmCode.CONTROLLER, "no follow_joint_trajectory server")
            newest = situation.newest_joints()
            assert newest is not None
            plan = make(balls, newest[1])
            if situation.same(newest[1], balls):
                newest = situation.newest_joints()
                assert newest is not None
                place.envelope.check(plan.trajectory, newest[1])
                self._guard.check()
                if self.scaling < 0.01:
                    raise ArmError(ArmCode.STOPPED, "the robot reports a speed scaling of 0 %")
                return plan, balls
        raise ArmError(ArmCode.NO_BALL, "the arm or the balls moved while the stroke was planned")

    def _plan_stroke(
        self,
        place: Workplace,
        shot: Shot,
        balls: Mapping[int, np.ndarray],
        joints: np.ndarray,
        interrupt: Interrupt,
        feedback: Feedback,
    ) -> tuple[StrokePlan, Shot]:
        """Return a plan and the shot that it is for: the asked one as this arm must be told it, where that works."""

        def progress(share: float) -> None:
            interrupt.check()
            feedback("planning", share)

        others = {i: p for i, p in balls.items() if i != 0}
        asked = place.model.compensate(shot) if place.model is not None else shot
        try:
            return place.backend.plan(StrokeRequest(asked, balls[0], others, joints), progress), asked
        except ArmError as error:
            if asked == shot or error.code not in (ArmCode.UNREACHABLE, ArmCode.COLLISION):
                raise
        return place.backend.plan(StrokeRequest(shot, balls[0], others, joints), progress), shot

    def _play(
        self,
        place: Workplace,
        shot: Shot,
        sent: Shot,
        plan: StrokePlan,
        ball: np.ndarray,
        interrupt: Interrupt,
        feedback: Feedback,
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
            begin = self._now()
            try:
                code, text = self._executor.execute(plan, begin, interrupt, feedback)
            except Exception as error:  # whoever was told that it started must be told that it ended
                self._finish(shot, None, None, ArmCode.CONTROLLER, f"internal error: {error}")
                raise
            stroke = self._measure(place, begin, ball, 0)
            if code == ArmCode.NONE and stroke is None:
                code, text = ArmCode.CONTROLLER, "the controller reported success, but the tip did not reach the ball"
            pace = self._pace(plan, begin) if code == ArmCode.NONE else None
            text = self._judge(code, text, stroke is not None, pace)
            if code == ArmCode.NONE and stroke is not None and not text and place.model is not None:
                self._learn(place.model, sent, stroke)
            # Without joint states nobody can say that the ball was not struck.
            blind = stroke is None and code == ArmCode.TIME_RESET
            self._finish(shot, None if blind else stroke is not None, stroke, code, text, pace or 0.0)
            return Outcome(code, text, stroke is not None, stroke, pace or 0.0)
        finally:
            self.executing = False

    def _push_once(
        self, place: Workplace, push: Push, distance: float, strokes: int, interrupt: Interrupt, told: Told
    ) -> tuple[ArmCode, str, bool]:
        """Plan and execute one push; return how it ended and whether the tip met the ball."""

        def feedback(phase: str, _share: float) -> None:
            told(phase, distance, strokes)

        def progress(share: float) -> None:
            interrupt.check()
            feedback("planning", share)

        def make(balls: Mapping[int, np.ndarray], joints: np.ndarray) -> StrokePlan:
            others = {i: p for i, p in balls.items() if i != push.ball_id}
            request = PushRequest(push.ball_id, balls[push.ball_id], push.goal, others, joints)
            return plan_push(place.backend, place.table, request, place.stroke, place.push, progress)

        plan, balls = self._prepare(place, push.ball_id, make, interrupt)
        with self._situation.changed:
            interrupt.check()
            self.executing = True
        try:
            try:
                self._pushes.start(push.push_id)
            except CueError as error:
                raise ArmError(ArmCode.STOPPED, str(error)) from None
            begin = self._now()
            code, text = self._executor.execute(plan, begin, interrupt, feedback)
            touched = self._measure(place, begin, balls[push.ball_id], push.ball_id) is not None
            if code == ArmCode.NONE and not touched:
                code, text = ArmCode.CONTROLLER, "the controller reported success, but the tip did not reach the ball"
            text = self._judge(code, text, touched, None)
        finally:
            self.executing = False
        if code != ArmCode.NONE:
            return code, text, touched
        since = self._now() - _SEEN_BEFORE
        patience = self._executor.patience.state
        if not self._situation.wait(lambda: self._situation.seen_since(since, push.ball_id), patience):
            return ArmCode.NO_BALL, f"ball {push.ball_id} was not seen after the push", touched
        return code, text, touched

    def _judge(self, code: ArmCode, text: str, struck: bool, pace: float | None) -> str:
        """Return what to say; stop the arm where a person must look before it moves again."""
        if code == ArmCode.PROTECTIVE_STOP or (struck and code == ArmCode.TOLERANCE):
            self._guard.stop(f"{'struck, then ' if struck else ''}{text}")
        if code == ArmCode.NONE and pace is not None and pace < FULL_PACE:
            reported = f", the robot reports {self.scaling:.0%}" if self.scaling < FULL_PACE else ""
            return f"slowed to {pace:.0%} of the planned pace{reported}"
        return text

    def _learn(self, model: StrokeModel, sent: Shot, stroke: Stroke) -> None:
        try:
            model.observe(sent, stroke)
        except CueError:  # a full disk loses what was learnt, not the shot
            return

    def _finish(
        self, shot: Shot, struck: bool | None, stroke: Stroke | None, code: ArmCode, text: str, pace: float = 0.0
    ) -> None:
        entry = self._ledger.finish(shot.shot_id, struck, stroke, code, text, pace)
        if stroke is not None:
            self._report(Phase.STRUCK, entry)
        self._report(Phase.FINISHED, entry)

    def _now(self) -> float:
        newest = self._situation.newest_joints()
        return 0.0 if newest is None else newest[0]

    def _last_seen(self, ball_id: int) -> np.ndarray | None:
        return self._situation.balls_on_table().get(ball_id)

    def _pace(self, plan: StrokePlan, begin: float) -> float | None:
        record = self._situation.joints_since(begin)
        return measure_pace(record, plan.trajectory.times, plan.trajectory.positions)

    def _measure(self, place: Workplace, begin: float, ball: np.ndarray, ball_id: int) -> Stroke | None:
        reach = place.backend.reach
        return measure_stroke(
            self._situation.joints_since(begin),
            reach.chain,
            ball,
            place.table.ball_radius,
            reach.robot.cue.tip_radius,
            ball_stddev=self._situation.stddev_of(ball_id),
        )


def _already(entry: LedgerEntry) -> Outcome:
    known = "" if entry.struck else "; it was begun, and nobody saw how it ended"
    return Outcome(ArmCode.ALREADY_STRUCK, f"shot {entry.shot.shot_id} was struck before{known}", True, entry.stroke)
