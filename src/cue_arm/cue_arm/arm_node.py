"""The arm's node: action ``execute_shot`` over a FollowJointTrajectory server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory as JointTrajectoryMsg
from trajectory_msgs.msg import JointTrajectoryPoint

from cue_arm.ledger import Ledger, LedgerEntry
from cue_arm.planner import MinkBackend
from cue_arm.player import Outcome, Patience, Phase, Player
from cue_arm.settings import StrokeSettings
from cue_arm.situation import Interrupt, Situation
from cue_arm.trajectory import JointTrajectory
from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError
from cue_core.ros.conversions import (
    ball_from_msg,
    seconds_to_stamp,
    shot_from_msg,
    shot_to_msg,
    stamp_to_seconds,
    stroke_to_msg,
    table_from_msg,
    table_header,
)
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import LATCHED, STATES, STATES_LATCHED
from cue_core.settings import check_settings, setting
from cue_core.table import TableModel
from cue_msgs.action import ExecuteShot
from cue_msgs.msg import BallStateArray, ShotExecution, TableInfo
from cue_sim.robot import RobotConfig

_SAME_TABLE = 3e-4  # m (and kg)


@dataclass(frozen=True)
class ArmConfig:
    """What the node is told; strokes are shaped by :class:`StrokeSettings`."""

    robot: str = setting("", "robot file (config/robots/*.yaml)")
    follow_joint_trajectory: str = setting("follow_joint_trajectory", "action of the robot's driver")
    run_dir: str = setting("", "folder of the ledger of struck shots; empty = remember nothing")
    state_timeout: float = setting(5.0, "wait for joint and ball states, wall time", "s", 0.1, 600.0)
    accept_timeout: float = setting(10.0, "wait for the driver's answers, wall time", "s", 0.1, 600.0)
    silence_timeout: float = setting(60.0, "give up a stroke of which nothing is heard, wall time", "s", 1.0, 3600.0)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the parameter.
        """
        check_settings(self)


class _DriverRun:
    """One goal at the driver, see :class:`cue_arm.player.Run`."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._handle: Any = None
        self._cancel_wanted = False
        self.accepted: bool | None = None
        self.ended = False
        self.failure = ""
        self.lost = False

    def cancel(self) -> None:
        with self._situation.changed:
            self._cancel_wanted = True
            handle = self._handle
        if handle is not None:
            handle.cancel_goal_async()

    def probe(self) -> None:
        """A result asked for again is answered at once, status UNKNOWN, by a server that does not know the goal."""
        if self._handle is not None:
            self._handle.get_result_async().add_done_callback(self._on_result)

    def on_answer(self, future: Any) -> None:
        handle = future.result()
        with self._situation.changed:
            self.accepted = bool(handle.accepted)
            if self.accepted:
                self._handle = handle
            self._situation.changed.notify_all()
        if self.accepted:
            handle.get_result_async().add_done_callback(self._on_result)
            if self._cancel_wanted:
                handle.cancel_goal_async()

    def _on_result(self, future: Any) -> None:
        answer = future.result()
        with self._situation.changed:
            if answer is None or self.ended:
                return
            if answer.status == GoalStatus.STATUS_UNKNOWN:
                self.lost = True
            else:
                code, text = answer.result.error_code, answer.result.error_string
                if answer.status == GoalStatus.STATUS_CANCELED:
                    self.failure = text or "canceled"
                elif answer.status != GoalStatus.STATUS_SUCCEEDED or code != FollowJointTrajectory.Result.SUCCESSFUL:
                    self.failure = f"{text or 'no reason given'} (code {code})"
                self.ended = True
            self._situation.changed.notify_all()


class _Driver:
    """The robot's FollowJointTrajectory server, see :class:`cue_arm.player.Controller`."""

    def __init__(self, node: Node, name: str, joints: tuple[str, ...], situation: Situation) -> None:
        self._client: Any = ActionClient(node, FollowJointTrajectory, name, callback_group=ReentrantCallbackGroup())
        self._joints, self._situation = joints, situation

    def available(self) -> bool:
        return bool(self._client.server_is_ready())

    def send(self, trajectory: JointTrajectory) -> _DriverRun:
        run = _DriverRun(self._situation)
        goal = FollowJointTrajectory.Goal(trajectory=_trajectory_to_msg(trajectory, self._joints))
        self._client.send_goal_async(goal).add_done_callback(run.on_answer)
        return run


def _trajectory_to_msg(trajectory: JointTrajectory, joints: tuple[str, ...]) -> JointTrajectoryMsg:
    points = []
    for time, q, qd, qdd in zip(
        trajectory.times, trajectory.positions, trajectory.velocities, trajectory.accelerations, strict=True
    ):
        nanoseconds = round(float(time) * 1e9)
        points.append(
            JointTrajectoryPoint(
                positions=q.tolist(),
                velocities=qd.tolist(),
                accelerations=qdd.tolist(),
                time_from_start=Duration(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9),
            )
        )
    return JointTrajectoryMsg(joint_names=list(joints), points=points)


def _alike(a: TableModel, b: TableModel) -> bool:
    """Tell whether a refined table differs by too little to plan anew for it."""
    lengths = [name for name, value in a.to_dict().items() if isinstance(value, float)]
    return all(abs(getattr(a, name) - getattr(b, name)) < _SAME_TABLE for name in lengths)


class ArmNode(Node):
    """Converts, lets a :class:`Player` play, and publishes."""

    def __init__(self, **options: Any) -> None:
        """Declare parameters, read the robot, and say how the last stroke of an earlier process ended."""
        super().__init__("arm", **options)
        config, self._settings = declare(self, ArmConfig), declare(self, StrokeSettings)
        if not config.robot:
            raise CueError("arm: parameter robot is empty, needs a robot file (config/robots/*.yaml)")
        self._robot = RobotConfig.load(config.robot)
        self._situation = Situation()
        self._health = Health(self)
        self._table: TableModel | None = None
        self._enabled = True
        self._interrupts: dict[bytes, Interrupt] = {}
        self._execution = self.create_publisher(ShotExecution, "shot_execution", LATCHED)
        driver = _Driver(self, config.follow_joint_trajectory, self._robot.joint_names, self._situation)
        patience = Patience(config.state_timeout, config.accept_timeout, config.silence_timeout)
        self._player = Player(self._situation, driver, Ledger(config.run_dir), patience, self._report)
        left_open = self._player.close_open_entry()
        if left_open is not None:
            self._report(Phase.FINISHED, left_open)
        self._listen(BallStateArray, "ball_states", self._on_balls, STATES_LATCHED)
        # A real driver does not keep joint states; the simulated world does, as its clock may stand when a node starts.
        simulated = bool(self.get_parameter("use_sim_time").value)
        self._listen(JointState, "joint_states", self._on_joints, STATES_LATCHED if simulated else STATES)
        self._listen(TableInfo, "table_info", self._on_table, LATCHED)
        self.create_service(SetBool, "arm/enable", self._on_enable, callback_group=ReentrantCallbackGroup())
        self._server = ActionServer(
            self,
            ExecuteShot,
            "execute_shot",
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=self._on_cancel,
            callback_group=ReentrantCallbackGroup(),
        )

    def _listen(self, kind: Any, topic: str, callback: Any, qos: QoSProfile) -> None:
        self.create_subscription(kind, topic, callback, qos, callback_group=MutuallyExclusiveCallbackGroup())

    def _on_balls(self, msg: BallStateArray) -> None:
        try:
            self._situation.add_balls(tuple(ball_from_msg(b) for b in msg.balls) if msg.calibrated else None)
        except ValueError as error:
            self._health.error(f"ball_states: {error}")

    def _on_joints(self, msg: JointState) -> None:
        try:
            order = [msg.name.index(name) for name in self._robot.joint_names]
            positions = np.array(msg.position, float)[order]
            velocities = np.array(msg.velocity, float)[order] if len(msg.velocity) else None
        except (ValueError, IndexError):
            return  # of another robot, or without positions
        self._health.tick("joint states")
        back = self._situation.add_joints(stamp_to_seconds(msg.header.stamp), positions, velocities)
        # Before the stroke it does not matter: what is planned is checked against the newest states.
        if back and self._player.executing:
            self._interrupt_all(ArmCode.TIME_RESET, "the clock was set back")

    def _on_table(self, msg: TableInfo) -> None:
        try:
            table = table_from_msg(msg)
            if self._table is not None and _alike(table, self._table):
                return
            self._player.set_backend(MinkBackend(self._robot, table, self._settings), table)
            self._table = table
        except CueError as error:
            self._health.error(f"table_info: {error}")
            self.get_logger().error(f"table_info cannot be used: {error}")

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._enabled = request.data
        if not self._enabled:
            self._interrupt_all(ArmCode.STOPPED, "the arm was disabled")
        response.success, response.message = True, "enabled" if self._enabled else "disabled"
        return response

    def _on_goal(self, request: ExecuteShot.Goal) -> GoalResponse:
        """A stroke that runs is not broken off for another one; planning is."""
        if self._player.executing:
            self.get_logger().warning(f"shot {request.shot.id} rejected: another stroke is running")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _on_accepted(self, goal: Any) -> None:
        interrupt = Interrupt(self._situation.changed)
        with self._situation.changed:
            if self._player.executing:  # it began since the goal was accepted
                interrupt.set(ArmCode.PREEMPTED, "another stroke is running")
            else:
                self._interrupt_all(ArmCode.PREEMPTED, f"shot {goal.request.shot.id} took over")
            self._interrupts[bytes(goal.goal_id.uuid)] = interrupt
        goal.execute()

    def _on_cancel(self, goal: Any) -> CancelResponse:
        interrupt = self._interrupts.get(bytes(goal.goal_id.uuid))
        if interrupt is not None:
            interrupt.set(ArmCode.CANCELED, "canceled")
        return CancelResponse.ACCEPT

    def _interrupt_all(self, code: ArmCode, text: str) -> None:
        for interrupt in list(self._interrupts.values()):
            interrupt.set(code, text)

    def _execute(self, goal: Any) -> ExecuteShot.Result:
        key = bytes(goal.goal_id.uuid)

        def feedback(phase: str, progress: float) -> None:
            if goal.is_active:
                goal.publish_feedback(ExecuteShot.Feedback(phase=phase, progress=float(progress)))

        try:
            outcome = self._play(goal.request, self._interrupts[key], feedback)
        finally:
            del self._interrupts[key]
        result = ExecuteShot.Result(
            achieved=stroke_to_msg(outcome.stroke),
            struck=outcome.struck,
            error_code=int(outcome.code),
            error_msg=outcome.text,
        )
        result.strike_time = result.achieved.contact_time
        name = goal.request.shot.id
        if outcome.code == ArmCode.NONE:
            self._health.ok()
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            self._health.warn(f"shot {name}: {outcome.text}")
            self.get_logger().warning(f"shot {name}: {outcome.code.name}: {outcome.text}")
            goal.abort()
        return result

    def _play(self, request: ExecuteShot.Goal, interrupt: Interrupt, feedback: Any) -> Outcome:
        try:
            shot = shot_from_msg(request.shot)
        except CueError as error:
            return Outcome(ArmCode.INVALID_SHOT, str(error))
        if not shot.shot_id:
            return Outcome(ArmCode.INVALID_SHOT, "the shot has no id")
        if not self._enabled:
            return Outcome(ArmCode.STOPPED, "the arm is disabled")
        return self._player.play(shot, interrupt, feedback)

    def _report(self, phase: Phase, entry: LedgerEntry) -> None:
        newest = self._situation.newest_joints()
        stamp = 0.0 if newest is None else newest[0]
        if phase == Phase.STRUCK and entry.stroke is not None:
            stamp = entry.stroke.contact_time
        self._execution.publish(
            ShotExecution(
                header=table_header(seconds_to_stamp(stamp)),
                shot=shot_to_msg(entry.shot),
                phase=int(phase),
                stroke=stroke_to_msg(entry.stroke),
                error_code=int(entry.code),
                error_msg=entry.text,
            )
        )


def main() -> int:
    """Run the arm."""
    return run_node(ArmNode, threads=8)  # an execute callback blocks one of them, a preempted one another
