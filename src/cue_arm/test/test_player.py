"""One shot from request to result, with a fake controller: every way it can end."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from cue_arm.envelope import Envelope
from cue_arm.executor import CANCELED
from cue_arm.guard import Guard
from cue_arm.ledger import Ledger, LedgerEntry
from cue_arm.planner import MinkBackend, Progress, StrokePlan, StrokeRequest
from cue_arm.player import Outcome, Patience, Phase, Player, Push, Workplace
from cue_arm.push import NOT_THERE, PushSettings
from cue_arm.scene_check import SceneError, check_scene, cue_in_the_rail
from cue_arm.situation import Interrupt, Situation
from cue_arm.stroke import tip_rotation
from cue_arm.stroke_model import StrokeModel
from cue_arm.testing import FakeController, FakeRun
from cue_arm.trajectory import JointTrajectory
from cue_core import BallState, Motion, Shot, Visibility
from cue_core.arm_codes import ArmCode

SHOT = Shot("shot-1", 0.5, 0.4)
CUE_BALL = BallState(0, np.array([-0.1, 0.05]))
PATIENCE = Patience(state=0.2, accept=0.3, silence=0.6)


class Remembering:
    """A backend that plans what it is asked once and remembers it over all tests of this file."""

    def __init__(self, backend: MinkBackend, known: dict[tuple[object, ...], StrokePlan]) -> None:
        self._backend, self._known = backend, known
        self.robot, self.table, self.reach = backend.robot, backend.table, backend.reach
        self.plan_path, self.plan_home = backend.plan_path, backend.plan_home

    def plan(self, request: StrokeRequest, progress: Progress = lambda _share: None) -> StrokePlan:
        shot = replace(request.shot, shot_id="any")
        balls = tuple((i, p.tobytes()) for i, p in sorted(request.balls.items()))
        key = (shot, request.cue_ball.tobytes(), balls, np.round(request.start, 6).tobytes())
        if key not in self._known:
            self._known[key] = self._backend.plan(request, progress)
        progress(0.0)
        return self._known[key]


_known: dict[tuple[object, ...], StrokePlan] = {}


@dataclass
class Rig:
    """A player with everything it needs, as the world is when all is well."""

    backend: Remembering
    run_dir: str = ""
    reports: list[tuple[Phase, LedgerEntry]] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.situation = Situation()
        self.controller = FakeController(self.situation)
        self.interrupt = Interrupt(self.situation.changed)
        self.guard, self.model = Guard(), StrokeModel(self.backend.table.ball_radius)
        self.player = Player(
            self.situation,
            self.controller,
            Ledger(self.run_dir),
            PATIENCE,
            lambda p, e: self.reports.append((p, e)),
            self.guard,
        )
        table = self.backend.table
        self.workplace = Workplace(self.backend, table, Envelope(self.backend.robot, table), self.model)
        self.player.set_workplace(self.workplace)
        self.situation.add_balls((CUE_BALL,))
        self.situation.add_joints(10.0, self.backend.robot.home, np.zeros(6))

    def play(self, shot: Shot = SHOT) -> Outcome:
        return self.player.play(shot, self.interrupt, lambda phase, _share: self.phases.append(phase))

    def reported(self) -> list[Phase]:
        return [phase for phase, _ in self.reports]


@pytest.fixture
def rig(backend: MinkBackend) -> Rig:
    return Rig(Remembering(backend, _known))


def test_a_shot_is_played_measured_and_reported(rig: Rig) -> None:
    outcome = rig.play()
    assert outcome.code == ArmCode.NONE and outcome.struck
    assert outcome.stroke is not None
    assert outcome.stroke.tip_speed == pytest.approx(0.5, rel=0.01)
    assert outcome.stroke.azimuth == pytest.approx(0.4, abs=0.002)
    assert outcome.stroke.contact_time > 10.0
    assert rig.reported() == [Phase.STARTED, Phase.STRUCK, Phase.FINISHED]
    assert rig.reports[-1][1].stroke == outcome.stroke
    assert rig.phases[0] == "planning"
    newest = rig.situation.newest_joints()
    assert newest is not None
    np.testing.assert_allclose(newest[1], rig.backend.robot.home, atol=1e-6)


def test_the_same_id_is_not_struck_twice(rig: Rig) -> None:
    first, second = rig.play(), rig.play()
    assert second.code == ArmCode.ALREADY_STRUCK and second.struck and second.stroke == first.stroke
    assert len(rig.controller.runs) == 1


def test_a_shot_that_an_earlier_process_began_is_closed_and_not_struck_again(
    backend: MinkBackend, tmp_path: Path
) -> None:
    Ledger(str(tmp_path)).start(SHOT)  # and then it was killed
    rig = Rig(Remembering(backend, _known), str(tmp_path))
    entry = rig.player.close_open_entry()
    assert entry is not None and entry.finished and entry.code == ArmCode.CONTROLLER and entry.struck is None
    outcome = rig.play()
    assert outcome.code == ArmCode.ALREADY_STRUCK and "nobody saw how it ended" in outcome.text
    assert not rig.controller.runs
    assert Rig(Remembering(backend, _known), str(tmp_path)).player.close_open_entry() == entry


@pytest.mark.parametrize(
    "balls, text",
    [
        (None, "no ball_states"),
        ((BallState(3, np.zeros(2)),), r"no cue ball \(id 0\) on the table; there are 3"),
        ((BallState(0, np.zeros(2), visibility=Visibility.POCKETED),), "there are none"),
        (
            (BallState(0, np.zeros(2), velocity=np.array([0.2, 0.0]), motion=Motion.MOVING),),
            "the cue ball is not at rest",
        ),
        ((CUE_BALL, BallState(4, np.full(2, 0.1), velocity=np.array([0.0, 0.3]))), "ball 4 is not at rest"),
        ((BallState(0, np.array([np.nan, 0.0])),), "no finite position"),
    ],
)
def test_without_a_resting_cue_ball_nothing_moves(rig: Rig, balls: tuple[BallState, ...] | None, text: str) -> None:
    rig.situation.add_balls(balls)
    outcome = rig.play()
    assert outcome.code == ArmCode.NO_BALL
    assert re.search(text, outcome.text), outcome.text
    assert not rig.reports and not rig.controller.runs


def test_refusals_of_the_planner_come_through(rig: Rig) -> None:
    rig.situation.add_balls((CUE_BALL, BallState(5, CUE_BALL.position - 0.055 * np.array([np.cos(0.4), np.sin(0.4)]))))
    assert rig.play().code == ArmCode.COLLISION
    assert rig.play(Shot("fast", 4.0, 0.4)).code == ArmCode.UNREACHABLE
    assert not rig.reports


def test_without_joint_states_or_a_controller_nothing_moves(backend: MinkBackend) -> None:
    rig = Rig(Remembering(backend, _known))
    rig.controller.is_there = False
    assert rig.play() == Outcome(ArmCode.CONTROLLER, "no follow_joint_trajectory server")
    blind = Rig(Remembering(backend, _known))
    blind.situation = blind.player._situation = Situation()
    blind.situation.add_balls((CUE_BALL,))
    assert blind.play() == Outcome(ArmCode.CONTROLLER, "no joint_states")


def test_an_arm_that_moves_is_awaited_and_then_refused(rig: Rig) -> None:
    rig.situation.add_joints(10.01, rig.backend.robot.home, np.full(6, 0.3))
    assert rig.play() == Outcome(ArmCode.CONTROLLER, "the arm does not come to rest")


def test_a_refused_trajectory_may_be_tried_again(rig: Rig) -> None:
    rig.controller.accepts = False
    outcome = rig.play()
    assert outcome.code == ArmCode.CONTROLLER and "refused the trajectory" in outcome.text
    assert rig.reported() == [Phase.STARTED, Phase.FINISHED]
    rig.controller.accepts = True
    assert rig.play().code == ArmCode.NONE


def test_a_controller_that_never_answers_times_out(rig: Rig) -> None:
    rig.controller.accepts = None
    outcome = rig.play()
    assert outcome.code == ArmCode.TIMEOUT and "did not answer" in outcome.text
    assert rig.controller.runs[0].canceled
    assert rig.reported()[-1] == Phase.FINISHED


def test_a_stroke_of_which_nothing_is_heard_times_out(rig: Rig) -> None:
    rig.controller.ends = False
    rig.controller.plays_until = 0.3
    outcome = rig.play()
    assert outcome.code == ArmCode.TIMEOUT and not outcome.struck
    assert rig.controller.runs[0].canceled


def test_a06_a_protective_stop_before_the_ball_strikes_nothing_and_waits_for_a_person(rig: Rig) -> None:
    rig.controller.plays_until, rig.controller.failure = 0.2, "protective stop"
    outcome = rig.play()
    assert outcome.code == ArmCode.PROTECTIVE_STOP and "protective stop" in outcome.text
    assert not outcome.struck and outcome.stroke is None
    assert rig.reported() == [Phase.STARTED, Phase.FINISHED]
    rig.controller.plays_until, rig.controller.failure = 1.0, ""
    refused = rig.play()
    assert refused.code == ArmCode.STOPPED and "arm/enable" in refused.text and len(rig.controller.runs) == 1
    rig.guard.enable()
    assert rig.play().code == ArmCode.NONE


def test_a06_a_controller_taken_away_is_a_protective_stop(rig: Rig) -> None:
    rig.controller.plays_until, rig.controller.failure, rig.controller.code = 0.2, "deactivated", CANCELED
    assert rig.play().code == ArmCode.PROTECTIVE_STOP
    assert rig.guard.reason


def test_a06_an_arm_that_freezes_is_stopped_for_good(rig: Rig) -> None:
    rig.controller.ends, rig.controller.plays_until = False, 0.2
    results: list[Outcome] = []
    thread = threading.Thread(target=lambda: results.append(rig.play()))
    thread.start()
    assert rig.situation.wait(lambda: bool(rig.controller.runs), 5.0)
    newest = rig.situation.newest_joints()
    assert newest is not None
    for i in range(1, 50):
        rig.situation.add_joints(newest[0] + 0.1 * i, newest[1], np.zeros(6))
        thread.join(timeout=0.01)
    thread.join(timeout=5.0)
    assert results[0].code == ArmCode.PROTECTIVE_STOP and "stood still for 3 s" in results[0].text
    assert rig.controller.runs[0].canceled and rig.guard.reason


def test_the_shot_after_an_abort_goes_home_first(rig: Rig) -> None:
    rig.controller.plays_until, rig.controller.failure, rig.controller.code = 0.2, "0.2 rad off", -4
    assert rig.play().code == ArmCode.TOLERANCE and not rig.guard.reason
    rig.controller.plays_until, rig.controller.failure, rig.controller.code = 1.0, "", 0
    assert rig.play().code == ArmCode.NONE
    again, first = rig.controller.runs[1].trajectory, rig.controller.runs[0].trajectory
    assert again.duration > first.duration
    assert np.abs(again.positions - rig.backend.robot.home).max(axis=1)[1:-1].min() < 1e-6


def test_a06_an_abort_just_past_the_ball_is_struck_then_aborted_and_waits_for_a_person(rig: Rig) -> None:
    plan = rig.backend.plan(StrokeRequest(SHOT, np.array(CUE_BALL.position), {}, rig.backend.robot.home))
    rig.controller.plays_until = (plan.contact_time + 0.03) / plan.trajectory.duration
    rig.controller.failure, rig.controller.code = "0.2 rad off", -4
    outcome = rig.play()
    assert outcome.code == ArmCode.TOLERANCE and outcome.struck and outcome.stroke is not None
    assert outcome.stroke.tip_speed == pytest.approx(0.5, rel=0.01)
    assert rig.reported() == [Phase.STARTED, Phase.STRUCK, Phase.FINISHED]
    assert rig.reports[-1][1].code == ArmCode.TOLERANCE
    refused = rig.play(Shot("next", 0.5, 0.4))
    assert refused.code == ArmCode.STOPPED and "struck, then" in refused.text
    rig.guard.enable()
    assert rig.play().code == ArmCode.ALREADY_STRUCK


def test_a05_success_without_motion_is_no_success(rig: Rig) -> None:
    rig.controller.plays_until = 0.01
    outcome = rig.play()
    assert outcome.code == ArmCode.CONTROLLER and "did not reach the ball" in outcome.text
    assert not outcome.struck and rig.model.count == 0


@pytest.mark.parametrize("reported", [0.45, 1.0])
def test_a03_a_slowed_robot_is_noticed_whether_it_says_so_or_not(rig: Rig, reported: float) -> None:
    rig.controller.pace, rig.player.scaling = 0.45, reported
    outcome = rig.play()
    assert outcome.code == ArmCode.NONE and outcome.stroke is not None
    assert outcome.stroke.tip_speed == pytest.approx(0.225, rel=0.01)
    assert outcome.pace == pytest.approx(0.45, rel=0.02)
    assert outcome.text.startswith("slowed to 45% of the planned pace")
    assert ("the robot reports 45%" in outcome.text) == (reported < 1)
    assert rig.reports[-1][1].pace == outcome.pace
    assert rig.model.count == 0  # what the slider does is no habit of the arm


def test_a03_a_robot_at_zero_per_cent_is_not_told_to_strike(rig: Rig) -> None:
    rig.player.scaling = 0.0
    outcome = rig.play()
    assert outcome.code == ArmCode.STOPPED and "0 %" in outcome.text and not rig.controller.runs


def test_a02_table_and_cue_in_the_scene_are_verified_before_the_first_shot(
    backend: MinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    envelope = Envelope(backend.robot, backend.table)
    check_scene(backend, envelope)
    probe = cue_in_the_rail(backend)
    pair = backend.reach.clearance.touching(probe)
    assert pair is not None and pair[0].startswith("cue") and pair[1].endswith("rail")
    monkeypatch.setattr(backend.reach.clearance, "touching", lambda _q: None)  # a scene without a cue
    with pytest.raises(SceneError, match="planner's scene lacks the table or the cue"):
        check_scene(backend, envelope)
    monkeypatch.undo()
    short = replace(backend.robot, cue=replace(backend.robot.cue, below=0.02))
    with pytest.raises(SceneError, match="envelope lacks the table or the cue"):
        check_scene(backend, Envelope(short, backend.table))


def test_a02_a_tool_that_would_pass_through_something_is_refused_by_name(rig: Rig) -> None:
    """The cue low over a rail, and an arm that touches already: planner and envelope each name the pair."""
    rig.situation.add_balls((BallState(0, np.array([0.0, 0.235])),))
    outcome = rig.play(Shot("low", 0.3, -1.57))
    assert outcome.code == ArmCode.COLLISION and re.search(r"cue .* would touch .*rail", outcome.text), outcome.text
    table, robot = rig.backend.table, rig.backend.robot
    inside = rig.backend.reach.chain.solve(
        np.array([[0.0, -table.width / 2 - 0.02, 0.02]]), tip_rotation(1.57, 0.0)[None], robot.home[None], 40
    )[0][0]
    rig.situation.add_balls((CUE_BALL,))
    rig.situation.add_joints(10.1, inside, np.zeros(6))
    outcome = rig.play()
    assert outcome.code == ArmCode.COLLISION and "where it rests now" in outcome.text, outcome.text
    assert not rig.controller.runs


def test_whatever_plans_the_envelope_has_the_last_word(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rig.backend.plan

    def hasty(request: StrokeRequest, progress: Progress) -> StrokePlan:
        good = plan(request, progress)
        fast = JointTrajectory(
            good.trajectory.times / 3,
            good.trajectory.positions,
            3 * good.trajectory.velocities,
            9 * good.trajectory.accelerations,
        )
        return replace(good, trajectory=fast)

    monkeypatch.setattr(rig.backend, "plan", hasty)
    outcome = rig.play()
    assert outcome.code == ArmCode.ENVELOPE and outcome.text.startswith("joint velocity"), outcome.text
    assert not rig.controller.runs and not rig.reports


def test_what_the_arm_does_to_strokes_is_learnt_and_compensated(rig: Rig) -> None:
    rig.controller.pace = 0.975  # within what passes for full pace
    for number in range(2):
        assert rig.play(Shot(f"learn-{number}", 0.5, 0.4)).code == ArmCode.NONE
    last = rig.play(Shot("last", 0.5, 0.4))
    assert rig.model.count == 3 and last.stroke is not None
    assert last.stroke.tip_speed == pytest.approx(0.5, rel=0.005)


def test_a_ball_is_pushed_until_it_is_there(rig: Rig) -> None:
    """The fake arm moves no ball, so the ball is put where each push should have left it."""
    goal, told = CUE_BALL.position + np.array([0.0, 0.15]), []
    send = rig.controller.send

    def send_and_move(trajectory: JointTrajectory) -> FakeRun:
        run = send(trajectory)
        now = rig.situation.balls_on_table()[0]
        rig.situation.add_balls((BallState(0, now + 0.075 * np.array([0.0, 1.0])),))
        return run

    rig.controller.send = send_and_move  # type: ignore[method-assign]
    push = Push("push-1", 0, goal)
    outcome = rig.player.push(push, rig.interrupt, lambda phase, distance, strokes: told.append((phase, strokes)))
    assert outcome.code == ArmCode.NONE and outcome.moved and outcome.strokes == 2, outcome
    np.testing.assert_allclose(outcome.position, goal, atol=1e-9)
    assert told[0] == ("planning", 0) and told[-1][1] == 1
    again = rig.player.push(push, rig.interrupt, lambda *_: None)
    assert again.code == ArmCode.ALREADY_STRUCK and not rig.reports


def test_a_ball_that_does_not_come_is_given_up(rig: Rig) -> None:
    rig.player.set_workplace(replace(rig.workplace, push=PushSettings(most_strokes=2)))
    push = Push("push-1", 0, CUE_BALL.position + np.array([0.05, 0.0]))
    outcome = rig.player.push(push, rig.interrupt, lambda *_: None)
    assert outcome.code == NOT_THERE and outcome.strokes == 2 and "50.0 mm away" in outcome.text
    missing = rig.player.push(Push("push-2", 7, np.zeros(2)), rig.interrupt, lambda *_: None)
    assert missing.code == ArmCode.NO_BALL and "no ball 7" in missing.text


@pytest.mark.parametrize("code", [ArmCode.CANCELED, ArmCode.STOPPED, ArmCode.TIME_RESET])
def test_an_interrupted_stroke_is_stopped(rig: Rig, code: ArmCode) -> None:
    rig.controller.ends, rig.controller.plays_until = False, 0.2
    results: list[Outcome] = []
    thread = threading.Thread(target=lambda: results.append(rig.play()))
    thread.start()
    assert rig.situation.wait(lambda: bool(rig.controller.runs), 5.0)
    rig.interrupt.set(code, "enough")
    thread.join(timeout=5.0)
    assert results and results[0].code == code and results[0].text == "enough" and not results[0].struck
    assert rig.controller.runs[0].canceled
    assert rig.reported() == [Phase.STARTED, Phase.FINISHED]


def test_an_interrupt_before_the_stroke_moves_nothing(rig: Rig) -> None:
    rig.interrupt.set(ArmCode.PREEMPTED, "shot b took over")
    assert rig.play() == Outcome(ArmCode.PREEMPTED, "shot b took over")
    assert not rig.reports and not rig.controller.runs


def test_a_stop_that_is_not_confirmed_ends_all_the_same(rig: Rig) -> None:
    rig.controller.ends, rig.controller.answers_cancel, rig.controller.plays_until = False, False, 0.2
    thread_results: list[Outcome] = []
    thread = threading.Thread(target=lambda: thread_results.append(rig.play()))
    thread.start()
    assert rig.situation.wait(lambda: bool(rig.controller.runs), 5.0)
    rig.interrupt.set(ArmCode.CANCELED, "canceled")
    thread.join(timeout=5.0)
    assert thread_results[0].code == ArmCode.CANCELED and "did not confirm the stop" in thread_results[0].text


def test_a_goal_that_the_controller_forgot_is_noticed(backend: MinkBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cue_arm.executor._PROBE", 0.1)
    rig = Rig(Remembering(backend, _known))
    rig.controller.ends, rig.controller.forgets, rig.controller.plays_until = False, True, 0.2
    outcome = rig.play()
    assert outcome.code == ArmCode.CONTROLLER and "lost the trajectory" in outcome.text


def test_a_ledger_that_cannot_be_written_keeps_the_arm_still(backend: MinkBackend, tmp_path: Path) -> None:
    rig = Rig(Remembering(backend, _known), str(tmp_path / "run"))
    (tmp_path / "run" / "arm_ledger.jsonl").mkdir()
    outcome = rig.play()
    assert outcome.code == ArmCode.STOPPED and "cannot be written" in outcome.text
    assert not rig.controller.runs


def test_a_clock_set_back_is_noticed_and_a_short_step_is_mended() -> None:
    situation, q = Situation(), np.zeros(6)
    for stamp in (1.0, 1.1, 1.2):
        assert not situation.add_joints(stamp, q, q)
    assert not situation.add_joints(1.1, q + 1, q)
    np.testing.assert_array_equal(situation.joints_since(0.0).times, [1.0, 1.1])
    assert situation.add_joints(0.1, q, q)
    np.testing.assert_array_equal(situation.joints_since(0.0).times, [0.1])


def test_velocities_that_a_driver_leaves_out_are_taken_from_positions() -> None:
    situation = Situation()
    situation.add_joints(1.0, np.zeros(6), None)
    assert situation.at_rest()
    situation.add_joints(1.1, np.full(6, 0.1), None)
    newest = situation.newest_joints()
    assert newest is not None
    np.testing.assert_allclose(newest[2], 1.0)
    assert situation.joints_since(0.0).velocities is None


def test_what_changes_during_planning_is_planned_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, plans = rig.backend.plan, []

    def moved_meanwhile(request: StrokeRequest, progress: Progress) -> StrokePlan:
        plans.append(request)
        if len(plans) == 1:
            rig.situation.add_balls((BallState(0, CUE_BALL.position + np.array([0.02, 0.0])),))
        return plan(request, progress)

    monkeypatch.setattr(rig.backend, "plan", moved_meanwhile)
    assert rig.play().code == ArmCode.NONE
    assert [float(r.cue_ball[0]) for r in plans] == pytest.approx([-0.1, -0.08])


def test_a_world_that_does_not_hold_still_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, count = rig.backend.plan, iter(range(1, 10))

    def moved_meanwhile(request: StrokeRequest, progress: Progress) -> StrokePlan:
        rig.situation.add_balls((BallState(0, CUE_BALL.position + np.array([0.01 * next(count), 0.0])),))
        return plan(request, progress)

    monkeypatch.setattr(rig.backend, "plan", moved_meanwhile)
    outcome = rig.play()
    assert outcome.code == ArmCode.NO_BALL and "moved while the stroke was planned" in outcome.text
    assert not rig.controller.runs
