"""The arm's node over ROS, with a fake FollowJointTrajectory server and fake ball states in the test's own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from std_srvs.srv import SetBool, Trigger

from cue_arm.arm_node import ArmNode
from cue_arm.push import NOT_THERE
from cue_arm.testing import JOINT_STATE_PERIOD, sample
from cue_arm.trajectory import JointTrajectory
from cue_core import BallState, Motion, Shot, TableModel
from cue_core.arm_codes import ArmCode
from cue_core.ros.conversions import ball_to_msg, seconds_to_stamp, shot_to_msg, stamp_to_nanoseconds, table_to_msg
from cue_core.ros.qos import LATCHED, STATES, STATES_LATCHED
from cue_msgs.action import ExecuteShot, PushBall
from cue_msgs.msg import BallStateArray, ShotExecution, TableInfo
from cue_sim.robot import RobotConfig

CONFIG = Path(__file__).resolve().parents[3] / "config"
ROBOT_FILE = str(CONFIG / "robots" / "ur5e.yaml")
CUE_BALL = BallState(0, np.array([-0.1, 0.05]))
DOMAIN = "91"

pytestmark = pytest.mark.ros


def spin_until(ready: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait for what the executor in the background brings."""
    end, tick = time.monotonic() + timeout, threading.Event()
    while not ready():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        tick.wait(0.005)


class Bench(Node):
    """Table, balls, robot driver and client of the arm under test."""

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        super().__init__("bench")
        self.robot, self.group = robot, ReentrantCallbackGroup()
        self.accept, self.failure, self.hold_at, self.plays = True, "", 2.0, True
        self.release = threading.Event()
        self.then: Callable[[], None] = lambda: None
        self.pace = 1.0
        self.goals: list[Any] = []
        self.held = threading.Event()
        self.executions: list[ShotExecution] = []
        self.feedback: list[str] = []
        self.stamp = 100.0
        self.q = robot.home.copy()
        self.tables = self.create_publisher(TableInfo, "table_info", LATCHED)
        self.balls = self.create_publisher(BallStateArray, "ball_states", STATES_LATCHED)
        self.joints = self.create_publisher(JointState, "joint_states", STATES_LATCHED)
        self.create_subscription(
            ShotExecution, "shot_execution", self.executions.append, LATCHED, callback_group=self.group
        )
        self.client = ActionClient(self, ExecuteShot, "execute_shot", callback_group=self.group)
        self.pusher = ActionClient(self, PushBall, "push_ball", callback_group=self.group)
        self.stop = self.create_client(Trigger, "arm/stop", callback_group=self.group)
        self.enable = self.create_client(SetBool, "arm/enable", callback_group=self.group)
        self.server = ActionServer(
            self,
            FollowJointTrajectory,
            "follow_joint_trajectory",
            execute_callback=self.follow,
            goal_callback=lambda _goal: GoalResponse.ACCEPT if self.accept else GoalResponse.REJECT,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
            callback_group=self.group,
        )
        self.tables.publish(table_to_msg(table, seconds_to_stamp(0.0)))
        self.show_balls([CUE_BALL])
        self.say_joints(self.q, np.zeros(6))

    def reset(self) -> None:
        self.accept, self.failure, self.hold_at, self.plays = True, "", 2.0, True
        self.release.clear()
        self.then = lambda: None
        self.pace = 1.0
        self.held.clear()
        self.executions.clear()
        self.feedback.clear()
        self.goals.clear()
        self.q = self.robot.home.copy()
        self.show_balls([CUE_BALL])
        self.stamp += 0.1
        self.say_joints(self.q, np.zeros(6))

    def show_balls(self, balls: list[BallState], calibrated: bool = True) -> None:
        message = BallStateArray(balls=[ball_to_msg(b) for b in balls], calibrated=calibrated, settled=True)
        message.header.stamp = seconds_to_stamp(self.stamp)
        self.balls.publish(message)

    def say_joints(self, q: np.ndarray, v: np.ndarray) -> None:
        message = JointState(name=list(self.robot.joint_names), position=q.tolist(), velocity=v.tolist())
        message.header.stamp = seconds_to_stamp(self.stamp)
        self.joints.publish(message)

    def follow(self, goal: Any) -> FollowJointTrajectory.Result:
        """Play the trajectory at once, but hold at a share of it until released or cancelled."""
        self.goals.append(goal)
        points = goal.request.trajectory.points
        trajectory = JointTrajectory(
            np.array([stamp_to_nanoseconds(p.time_from_start) / 1e9 for p in points]),
            np.array([p.positions for p in points]),
            np.array([p.velocities for p in points]),
            np.array([p.accelerations for p in points]),
        )
        count = int(trajectory.duration / self.pace / JOINT_STATE_PERIOD) + 2
        times = np.arange(1, count) * JOINT_STATE_PERIOD
        for time_since, q, v in zip(times, *sample(trajectory, times, self.pace), strict=True):
            if not self.plays:
                break
            if time_since * self.pace > self.hold_at * trajectory.duration:
                self.held.set()
                spin_until(lambda: goal.is_cancel_requested or self.release.is_set(), 20.0, "a cancel or a release")
                self.hold_at = 2.0
                if goal.is_cancel_requested:
                    self.say_joints(self.q, np.zeros(6))
                    goal.canceled()
                    return FollowJointTrajectory.Result(error_code=0, error_string="canceled")
            self.q = q
            self.stamp += JOINT_STATE_PERIOD
            self.say_joints(q, v)
        self.stamp += JOINT_STATE_PERIOD
        self.say_joints(self.q, np.zeros(6))
        self.then()
        if self.failure:
            goal.abort()
            return FollowJointTrajectory.Result(error_code=-4, error_string=self.failure)
        goal.succeed()
        return FollowJointTrajectory.Result(error_code=0)

    def send(self, shot: Any) -> Any:
        """Send a shot and return its handle."""
        message = shot_to_msg(shot) if isinstance(shot, Shot) else shot
        future = self.client.send_goal_async(
            ExecuteShot.Goal(shot=message), feedback_callback=lambda m: self.feedback.append(m.feedback.phase)
        )
        spin_until(future.done, 10.0, "the answer to a goal")
        return future.result()

    def switch(self, on: bool) -> None:
        """Call arm/enable."""
        spin_until(self.enable.service_is_ready, 5.0, "arm/enable")
        future = self.enable.call_async(SetBool.Request(data=on))
        spin_until(future.done, 5.0, "the answer of arm/enable")
        assert future.result().success

    def result(self, handle: Any) -> tuple[int, ExecuteShot.Result]:
        """Return status and result of a shot."""
        future = handle.get_result_async()
        spin_until(future.done, 20.0, "the result of a shot")
        return future.result().status, future.result().result

    def play(self, shot: Any) -> ExecuteShot.Result:
        handle = self.send(shot)
        assert handle.accepted
        return self.result(handle)[1]


class Graph:
    """Nodes spinning in the background."""

    def __init__(self) -> None:
        self.executor = MultiThreadedExecutor(num_threads=16)
        self.thread = threading.Thread(target=self.executor.spin, daemon=True)
        self.thread.start()

    def arm(self, **parameters: object) -> ArmNode:
        given = {"robot": ROBOT_FILE, "use_sim_time": True, "state_timeout": 3.0, **parameters}
        arm = ArmNode(parameter_overrides=[Parameter(k, value=v) for k, v in given.items()])
        self.executor.add_node(arm)
        return arm

    def remove(self, node: Node) -> None:
        self.executor.remove_node(node)
        node.destroy_node()


@pytest.fixture(scope="module")
def graph() -> Iterator[Graph]:
    os.environ["ROS_DOMAIN_ID"] = DOMAIN
    with rclpy.init():
        graph = Graph()
        yield graph
        graph.executor.shutdown(timeout_sec=2.0)


@pytest.fixture(scope="module")
def shared_bench(graph: Graph) -> Iterator[Bench]:
    bench = Bench(RobotConfig.load(ROBOT_FILE), TableModel.load(CONFIG / "tables" / "small.yaml"))
    graph.executor.add_node(bench)
    yield bench
    graph.remove(bench)


@pytest.fixture(scope="module")
def arm(graph: Graph, shared_bench: Bench) -> Iterator[ArmNode]:
    arm = graph.arm()
    spin_until(shared_bench.client.server_is_ready, 10.0, "the arm's action server")
    yield arm
    graph.remove(arm)


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    shared_bench.reset()
    return shared_bench


_names = iter(f"shot-{i}" for i in range(1000))


def shot(**changes: Any) -> Shot:
    return Shot(next(_names), **{"speed": 0.5, "azimuth": 0.4, **changes})


def test_codes_are_those_of_the_action() -> None:
    for code in ArmCode:
        assert getattr(ExecuteShot.Result, code.name) == code
        other = {"INVALID_SHOT": "INVALID_PUSH", "ALREADY_STRUCK": "ALREADY_PUSHED"}.get(code.name, code.name)
        assert getattr(PushBall.Result, other) == code
    assert PushBall.Result.NOT_THERE == NOT_THERE


def test_a_shot_is_struck_measured_and_told(arm: ArmNode, bench: Bench) -> None:
    asked = shot()
    status, result = bench.result(bench.send(asked))
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, "")
    assert result.struck and result.achieved.valid
    assert result.achieved.tip_speed == pytest.approx(0.5, rel=0.01)
    assert result.strike_time == result.achieved.contact_time
    spin_until(lambda: any(e.phase == ShotExecution.FINISHED for e in bench.executions), 5.0, "FINISHED")
    assert bench.executions[0].phase == ShotExecution.STARTED
    last = bench.executions[-1]
    assert last.shot.id == asked.shot_id and last.stroke.valid and last.header.frame_id == "table"
    assert stamp_to_nanoseconds(last.header.stamp) > stamp_to_nanoseconds(last.stroke.contact_time)
    assert len(bench.goals) == 1  # approach, stroke and retreat in one trajectory
    assert bench.feedback[0] == "planning"
    again = bench.play(asked)
    assert again.error_code == ExecuteShot.Result.ALREADY_STRUCK and again.struck
    assert again.achieved == result.achieved and len(bench.goals) == 1


@pytest.mark.parametrize(
    "changes, code, text",
    [
        ({"speed": -3.0}, ArmCode.INVALID_SHOT, "speed is -3.0, allowed is 0.01 to 15"),
        ({"azimuth": float("nan")}, ArmCode.INVALID_SHOT, "azimuth is nan"),
        ({"id": ""}, ArmCode.INVALID_SHOT, "no id"),
        ({"speed": 4.0}, ArmCode.UNREACHABLE, "no joint solution"),
        ({"vertical_offset": -0.5}, ArmCode.COLLISION, "would touch"),
    ],
)
def test_shots_that_cannot_be_played_are_refused(
    arm: ArmNode, bench: Bench, changes: dict[str, Any], code: ArmCode, text: str
) -> None:
    message = shot_to_msg(shot())
    for name, value in changes.items():
        setattr(message, name, value)
    result = bench.play(message)
    assert result.error_code == code and text in result.error_msg, result.error_msg
    assert not bench.goals and not bench.executions and not result.achieved.valid


def test_a_moving_or_missing_cue_ball_is_refused(arm: ArmNode, bench: Bench) -> None:
    bench.show_balls([BallState(0, CUE_BALL.position, velocity=np.array([0.3, 0.0]), motion=Motion.MOVING)])
    spin_until(lambda: "not at rest" in bench.play(shot()).error_msg, 5.0, "a refusal for motion")
    bench.show_balls([BallState(3, CUE_BALL.position)])
    spin_until(lambda: "no cue ball" in bench.play(shot()).error_msg, 5.0, "a refusal for no cue ball")
    bench.show_balls([CUE_BALL], calibrated=False)
    spin_until(lambda: "not known yet" in bench.play(shot()).error_msg, 20.0, "a refusal for no table")
    assert bench.play(shot()).error_code == ArmCode.NO_BALL


def test_a_cancel_is_accepted_at_once_and_the_next_shot_goes_home_first(arm: ArmNode, bench: Bench) -> None:
    bench.hold_at = 0.2
    handle = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    asked = time.monotonic()
    answer = handle.cancel_goal_async()
    spin_until(answer.done, 5.0, "the answer to a cancel")
    assert answer.result().goals_canceling
    assert time.monotonic() - asked < 0.5  # 100 ms on an idle machine; this one is shared
    status, result = bench.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert (result.error_code, result.struck) == (ArmCode.CANCELED, False)
    spin_until(lambda: bench.executions[-1].phase == ShotExecution.FINISHED, 5.0, "FINISHED")
    assert bench.executions[-1].error_code == ArmCode.CANCELED
    assert np.abs(bench.q - bench.robot.home).max() > 0.05
    assert bench.play(shot()).error_code == 0
    np.testing.assert_allclose(bench.q, bench.robot.home, atol=1e-3)


def test_a_newer_shot_is_rejected_while_a_stroke_runs(arm: ArmNode, bench: Bench) -> None:
    bench.hold_at = 0.3
    older = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    assert not bench.send(shot()).accepted
    bench.release.set()
    assert bench.result(older)[1].error_code == 0


def test_a_newer_shot_takes_over_before_the_stroke(arm: ArmNode, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    planning, go_on = threading.Event(), threading.Event()
    assert arm._player._workplace is not None
    backend = arm._player._workplace.backend
    plan = backend.plan

    def slow_plan(request: Any, progress: Any) -> Any:
        planning.set()
        assert go_on.wait(10.0)
        return plan(request, progress)

    monkeypatch.setattr(backend, "plan", slow_plan)
    older = bench.send(shot())
    spin_until(planning.is_set, 5.0, "planning to begin")
    newer_shot = shot()
    newer = bench.send(newer_shot)
    go_on.set()
    status, result = bench.result(older)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ArmCode.PREEMPTED)
    assert newer_shot.shot_id in result.error_msg
    assert bench.result(newer)[1].error_code == 0
    assert len(bench.goals) == 1


def test_a_refusal_or_an_abort_of_the_driver_is_told(arm: ArmNode, bench: Bench) -> None:
    bench.accept = False
    result = bench.play(shot())
    assert result.error_code == ArmCode.CONTROLLER and "refused" in result.error_msg
    bench.accept, bench.failure = True, "shoulder_lift_joint is 0.2 rad off"
    result = bench.play(shot())
    assert result.error_code == ArmCode.TOLERANCE and "shoulder_lift_joint is 0.2 rad off" in result.error_msg
    assert result.struck  # it played to the end before it complained, so a person must look first
    assert bench.play(shot()).error_code == ArmCode.STOPPED
    bench.switch(True)
    bench.failure, bench.plays = "", False
    result = bench.play(shot())
    assert result.error_code == ArmCode.CONTROLLER and "did not reach the ball" in result.error_msg


def test_disabling_stops_a_stroke_and_refuses_the_next(arm: ArmNode, bench: Bench) -> None:
    bench.hold_at = 0.2
    handle = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    bench.switch(False)
    assert bench.result(handle)[1].error_code == ArmCode.STOPPED
    assert bench.play(shot()).error_code == ArmCode.STOPPED
    bench.switch(True)
    assert bench.play(shot()).error_code == 0


def test_a_stop_breaks_off_and_holds_until_enabled(arm: ArmNode, bench: Bench) -> None:
    bench.hold_at = 0.2
    handle = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    spin_until(bench.stop.service_is_ready, 5.0, "arm/stop")
    future = bench.stop.call_async(Trigger.Request())
    spin_until(future.done, 5.0, "the answer of arm/stop")
    assert future.result().success
    result = bench.result(handle)[1]
    assert result.error_code == ArmCode.STOPPED and "arm/stop was called" in result.error_msg
    refused = bench.play(shot())
    assert refused.error_code == ArmCode.STOPPED and "arm/enable" in refused.error_msg
    bench.switch(True)
    assert bench.play(shot()).error_code == 0


def test_a03_a_reported_speed_slider_is_told_with_the_shot(arm: ArmNode, bench: Bench) -> None:
    slider = bench.create_publisher(Float64, "speed_scaling_state_broadcaster/speed_scaling", STATES)
    spin_until(lambda: slider.get_subscription_count() > 0, 5.0, "the arm to listen to the slider")
    slider.publish(Float64(data=80.0))
    spin_until(lambda: arm._player.scaling == 0.8, 5.0, "80 %")
    bench.pace = 0.8
    result = bench.play(shot())
    assert (result.error_code, result.struck) == (0, True)
    assert result.achieved.tip_speed == pytest.approx(0.4, rel=0.01)
    assert result.error_msg == "slowed to 80% of the planned pace, the robot reports 80%"
    assert bench.executions[-1].pace == pytest.approx(0.8, rel=0.02)
    slider.publish(Float64(data=100.0))
    spin_until(lambda: arm._player.scaling == 1.0, 5.0, "100 %")
    bench.destroy_publisher(slider)


def test_joint_states_that_are_no_numbers_are_not_believed(arm: ArmNode, bench: Bench) -> None:
    before = arm._situation.newest_joints()
    bench.stamp += 0.1
    bench.say_joints(np.full(6, np.nan), np.zeros(6))
    assert bench.play(shot()).error_code == 0
    assert before is not None and np.all(np.isfinite(arm._situation.joints_since(before[0]).positions))


def test_an_arm_that_hears_nothing_stops(arm: ArmNode, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.hold_at = 0.2
    handle = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    monkeypatch.setattr(arm, "_now", lambda: 100.0)
    result = bench.result(handle)[1]
    assert result.error_code in (ArmCode.CONTROLLER, ArmCode.NO_BALL)
    assert "has fallen silent" in result.error_msg, result.error_msg
    monkeypatch.undo()
    bench.show_balls([CUE_BALL])
    bench.say_joints(bench.q, np.zeros(6))
    assert bench.play(shot()).error_code == 0


def test_a_ball_is_pushed_and_what_cannot_be_pushed_is_refused(arm: ArmNode, bench: Bench) -> None:
    spin_until(bench.pusher.server_is_ready, 10.0, "push_ball")

    def push(**fields: Any) -> PushBall.Result:
        goal = PushBall.Goal(**{"id": next(_names), "ball_id": 0, "goal": [-0.1, 0.05], **fields})
        future = bench.pusher.send_goal_async(goal)
        spin_until(future.done, 10.0, "the answer to a push")
        future = future.result().get_result_async()
        spin_until(future.done, 20.0, "the result of a push")
        return future.result().result

    codes = PushBall.Result
    for fields, code, text in (
        ({"id": ""}, codes.INVALID_PUSH, "no id"),
        ({"goal": [0.0, float("nan")]}, codes.INVALID_PUSH, "not finite"),
        ({"goal": [3.0, 0.0]}, codes.INVALID_PUSH, "not on the table"),
        ({"tolerance": -1.0}, codes.INVALID_PUSH, "tolerance"),
        ({"ball_id": 9}, codes.NO_BALL, "no ball 9"),
    ):
        result = push(**fields)
        assert result.error_code == code and text in result.error_msg, result.error_msg
    there = push()
    assert (there.error_code, there.strokes, there.moved) == (0, 0, False)
    bench.then = lambda: bench.show_balls([BallState(0, np.array([-0.05, 0.05]))])
    result = push(id="once", goal=[-0.05, 0.05])
    assert (result.error_code, result.strokes, result.moved) == (0, 1, True), result.error_msg
    np.testing.assert_allclose(result.position, [-0.05, 0.05])
    assert push(id="once", goal=[-0.05, 0.05]).error_code == codes.ALREADY_PUSHED
    assert not bench.executions  # no shot


def test_a_clock_set_back_ends_the_stroke_and_the_next_one_runs(arm: ArmNode, bench: Bench) -> None:
    bench.hold_at = 0.2
    handle = bench.send(shot())
    spin_until(bench.held.is_set, 10.0, "the stroke to run")
    bench.stamp -= 5.0
    bench.say_joints(bench.q, np.zeros(6))
    status, result = bench.result(handle)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ArmCode.TIME_RESET)
    assert bench.play(shot()).error_code == 0


def test_a_driver_that_falls_silent_times_out(graph: Graph, arm: ArmNode, bench: Bench) -> None:
    patience = arm._player._executor.patience
    arm._player._executor.patience = type(patience)(patience.state, patience.accept, 1.0)
    try:
        bench.hold_at = 0.2
        result = bench.play(shot())
        assert result.error_code == ArmCode.TIMEOUT and "nothing heard" in result.error_msg
    finally:
        arm._player._executor.patience = patience


def test_a_respawned_arm_remembers_and_tells_how_the_last_stroke_ended(
    graph: Graph, arm: ArmNode, bench: Bench, tmp_path: Path
) -> None:
    """The process is killed in mid-stroke, for real; its successor closes the shot and never strikes it again."""
    program = "import sys; from cue_arm.arm_node import main; sys.exit(main())"
    arguments = ["--ros-args", "-r", "__ns:=/second", "-p", "use_sim_time:=true"]
    for topic in ("table_info", "ball_states", "joint_states", "follow_joint_trajectory", "shot_execution"):
        kinds = (
            (topic,)
            if topic != "follow_joint_trajectory"
            else tuple(
                f"{topic}/_action/{part}" for part in ("send_goal", "get_result", "cancel_goal", "feedback", "status")
            )
        )
        for kind in kinds:
            arguments += ["-r", f"/second/{kind}:=/{kind}"]
    arguments += ["-p", f"robot:={ROBOT_FILE}", "-p", f"run_dir:={tmp_path}"]
    client = ActionClient(bench, ExecuteShot, "/second/execute_shot", callback_group=bench.group)
    asked = shot()
    bench.hold_at = 0.2

    def send() -> Any:
        spin_until(client.server_is_ready, 20.0, "the second arm's action server")
        future = client.send_goal_async(ExecuteShot.Goal(shot=shot_to_msg(asked)))
        spin_until(future.done, 20.0, "the answer to a goal")
        return future.result()

    with subprocess.Popen([sys.executable, "-c", program, *arguments]) as first:
        try:
            assert send().accepted
            spin_until(bench.held.is_set, 20.0, "the stroke to run")
        finally:
            first.send_signal(signal.SIGKILL)
    bench.release.set()  # the driver plays on to the end, home
    spin_until(lambda: np.abs(bench.q - bench.robot.home).max() < 1e-3, 10.0, "the arm at home")
    bench.executions.clear()
    with subprocess.Popen([sys.executable, "-c", program, *arguments]) as second:
        try:
            spin_until(lambda: bool(bench.executions), 20.0, "what became of the shot")
            told = bench.executions[-1]
            assert (told.phase, told.shot.id) == (ShotExecution.FINISHED, asked.shot_id)
            assert told.error_code == ArmCode.CONTROLLER and "restarted" in told.error_msg
            handle = send()
            future = handle.get_result_async()
            spin_until(future.done, 20.0, "the result of the shot")
            assert future.result().result.error_code == ArmCode.ALREADY_STRUCK
            assert len(bench.goals) == 1
        finally:
            second.send_signal(signal.SIGINT)
    assert second.returncode == 0
    client.destroy()


def test_a_missing_robot_file_is_one_line_and_exit_code_two() -> None:
    program = "import sys; from cue_arm.arm_node import main; sys.exit(main())"
    for parameter, text in (
        ("robot:=/nowhere.yaml", "/nowhere.yaml: no such file"),
        ("robot:=''", "parameter robot is empty"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, "--ros-args", "-p", parameter],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "ROS_DOMAIN_ID": "92"},
        )
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
