"""The arm's node: actions ``execute_shot`` and ``push_ball`` over a FollowJointTrajectory server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from std_srvs.srv import SetBool, Trigger

from cue_arm.arm_driver_node import Driver
from cue_arm.backends import BACKENDS, make_backend
from cue_arm.envelope import Envelope, EnvelopeSettings
from cue_arm.guard import Guard, Watchdog
from cue_arm.ledger import Ledger, LedgerEntry, PushLedger
from cue_arm.player import Outcome, Patience, Phase, Player, Push, PushOutcome, Workplace
from cue_arm.push import PushSettings
from cue_arm.scene_check import check_scene
from cue_arm.settings import StrokeSettings
from cue_arm.situation import Interrupt, Situation
from cue_arm.stroke_model import STROKE_MODEL_FILE, StrokeModel
from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError, UnknownNameError
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
from cue_msgs.action import ExecuteShot, PushBall
from cue_msgs.msg import BallStateArray, ShotExecution, TableInfo
from cue_sim.robot import RobotConfig

_SAME_TABLE = 3e-4  # m (and kg)
_ACTION = "follow_joint_trajectory"
_WATCH = 0.02  # s of wall time between looks at the watchdog
_LARGEST_TOLERANCE = 0.1  # m


@dataclass(frozen=True)
class ArmConfig:
    """What the node is told; strokes are shaped by :class:`StrokeSettings`."""

    robot: str = setting("", "robot file (config/robots/*.yaml)")
    backend: str = setting("mink", f"what plans: {', '.join(BACKENDS)}")
    follow_joint_trajectory: str = setting(
        "follow_joint_trajectory", "action of the robot's driver; empty = the robot file's"
    )
    speed_scaling: str = setting("", "topic on which the driver tells its speed slider [%]; empty = the robot file's")
    enabled: bool = setting(True, "may move at once; otherwise arm/enable must be called first")
    compensate: bool = setting(True, "learn what the arm makes of its strokes, and command what achieves the asked")
    run_dir: str = setting("", "folder of the ledger of struck shots; empty = remember nothing")
    state_timeout: float = setting(5.0, "wait for joint and ball states, wall time", "s", 0.1, 600.0)
    accept_timeout: float = setting(10.0, "wait for the driver's answers, wall time", "s", 0.1, 600.0)
    joint_timeout: float = setting(0.5, "a moving arm is stopped after this long without joint states", "s", 0.02, 60.0)
    camera_timeout: float = setting(1.0, "likewise without ball states", "s", 0.05, 60.0)
    silence_timeout: float = setting(60.0, "give up a stroke of which nothing is heard, wall time", "s", 1.0, 3600.0)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError, UnknownNameError: naming the parameter.
        """
        check_settings(self)
        if self.backend not in BACKENDS:
            raise UnknownNameError("backend", self.backend, BACKENDS)


def _name(request: Any) -> str:
    """Return what a goal is called in messages."""
    return f"push {request.id}" if isinstance(request, PushBall.Goal) else f"shot {request.shot.id}"


def _alike(a: TableModel, b: TableModel) -> bool:
    """Tell whether a refined table differs by too little to plan anew for it."""
    lengths = [name for name, value in a.to_dict().items() if isinstance(value, float)]
    return all(abs(getattr(a, name) - getattr(b, name)) < _SAME_TABLE for name in lengths)


class ArmNode(Node):
    """Converts, lets a :class:`Player` play, and publishes."""

    def __init__(self, **options: Any) -> None:
        """Declare parameters, read the robot, and say how the last stroke of an earlier process ended."""
        super().__init__("arm", **options)
        self._config, self._settings = declare(self, ArmConfig), declare(self, StrokeSettings)
        self._limits = declare(self, EnvelopeSettings, "envelope")
        self._pushing = declare(self, PushSettings, "push")
        config = self._config
        if not config.robot:
            raise CueError("arm: parameter robot is empty, needs a robot file (config/robots/*.yaml)")
        self._robot = RobotConfig.load(config.robot)
        self._situation = Situation()
        self._health = Health(self)
        self._table: TableModel | None = None
        self._model: StrokeModel | None = None
        self._guard = Guard(config.run_dir, config.enabled)
        self._watchdog = Watchdog(config.joint_timeout, config.camera_timeout)
        self._interrupts: dict[bytes, Interrupt] = {}
        self._execution = self.create_publisher(ShotExecution, "shot_execution", LATCHED)
        action = config.follow_joint_trajectory or self._robot.driver.get(_ACTION, _ACTION)
        driver = Driver(self, action, self._robot.joint_names, self._situation)
        patience = Patience(config.state_timeout, config.accept_timeout, config.silence_timeout)
        ledger, pushes = Ledger(config.run_dir), PushLedger(config.run_dir)
        self._player = Player(self._situation, driver, ledger, patience, self._report, self._guard, pushes)
        left_open = self._player.close_open_entry()
        if left_open is not None:
            self._report(Phase.FINISHED, left_open)
        self._listen(BallStateArray, "ball_states", self._on_balls, STATES_LATCHED)
        # A real driver does not keep joint states; the simulated world does, as its clock may stand when a node starts.
        simulated = bool(self.get_parameter("use_sim_time").value)
        self._listen(JointState, "joint_states", self._on_joints, STATES_LATCHED if simulated else STATES)
        self._listen(TableInfo, "table_info", self._on_table, LATCHED)
        scaling = config.speed_scaling or self._robot.driver.get("speed_scaling", "")
        if scaling:
            self._listen(Float64, scaling, self._on_scaling, STATES)
        self.create_service(SetBool, "arm/enable", self._on_enable, callback_group=ReentrantCallbackGroup())
        self.create_service(Trigger, "arm/stop", self._on_stop, callback_group=ReentrantCallbackGroup())
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_WATCH, self._watch, callback_group=MutuallyExclusiveCallbackGroup(), clock=steady)
        self._servers = [
            ActionServer(
                self,
                kind,
                name,
                execute_callback=execute,
                goal_callback=self._on_goal,
                handle_accepted_callback=self._on_accepted,
                cancel_callback=self._on_cancel,
                callback_group=ReentrantCallbackGroup(),
            )
            for kind, name, execute in (
                (ExecuteShot, "execute_shot", self._execute),
                (PushBall, "push_ball", self._execute_push),
            )
        ]

    def _listen(self, kind: Any, topic: str, callback: Any, qos: QoSProfile) -> None:
        self.create_subscription(kind, topic, callback, qos, callback_group=MutuallyExclusiveCallbackGroup())

    def _on_balls(self, msg: BallStateArray) -> None:
        self._watchdog.heard("ball_states", self._now())
        try:
            balls = tuple(ball_from_msg(b) for b in msg.balls) if msg.calibrated else None
            self._situation.add_balls(balls, stamp_to_seconds(msg.header.stamp))
        except ValueError as error:
            self._health.error(f"ball_states: {error}")

    def _on_joints(self, msg: JointState) -> None:
        try:
            order = [msg.name.index(name) for name in self._robot.joint_names]
            positions = np.array(msg.position, float)[order]
            velocities = np.array(msg.velocity, float)[order] if len(msg.velocity) else None
        except (ValueError, IndexError):
            return  # of another robot, or without positions
        if not np.all(np.isfinite(positions)) or (velocities is not None and not np.all(np.isfinite(velocities))):
            self._health.error("joint_states are not finite")
            return  # as good as silence, which stops a moving arm
        self._health.tick("joint states")
        self._watchdog.heard("joint_states", self._now())
        back = self._situation.add_joints(stamp_to_seconds(msg.header.stamp), positions, velocities)
        # Before the stroke it does not matter: what is planned is checked against the newest states.
        if back and self._player.executing:
            self._interrupt_all(ArmCode.TIME_RESET, "the clock was set back")

    def _on_table(self, msg: TableInfo) -> None:
        try:
            table = table_from_msg(msg)
            if self._table is not None and _alike(table, self._table):
                return
            if self._config.compensate and (self._table is None or self._table.ball_radius != table.ball_radius):
                path = Path(self._config.run_dir) / STROKE_MODEL_FILE if self._config.run_dir else ""
                self._model = StrokeModel(table.ball_radius, path)
            backend = make_backend(self._config.backend, self._robot, table, self._settings)
            envelope = Envelope(self._robot, table, self._limits)
            check_scene(backend, envelope)
            self._player.set_workplace(Workplace(backend, table, envelope, self._model, self._settings, self._pushing))
            self._table = table
        except CueError as error:
            self._health.error(f"table_info: {error}")
            self.get_logger().error(f"table_info cannot be used: {error}")

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if request.data:
            self._guard.enable()
        else:
            self._stop("the arm was disabled")
        reason = self._guard.reason
        response.success = bool(request.data) == (not reason)
        response.message = reason or "enabled"
        return response

    def _on_stop(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._stop("arm/stop was called")
        response.success, response.message = True, self._guard.reason
        return response

    def _stop(self, reason: str) -> None:
        self._interrupt_all(ArmCode.STOPPED, reason)  # first: the latch is written to the disk
        self._guard.stop(reason)
        self._health.warn(reason)
        self.get_logger().warning(reason)

    def _on_scaling(self, msg: Float64) -> None:
        if math.isfinite(msg.data):
            self._player.scaling = min(max(msg.data / 100.0, 0.0), 1.0)

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def _watch(self) -> None:
        """Stop a moving arm that hears nothing; what it needs before it moves is awaited by the player."""
        stale = self._watchdog.stale(self._now()) if self._player.executing else None
        if stale is not None:
            self._interrupt_all(stale.code, str(stale))

    def _on_goal(self, request: Any) -> GoalResponse:
        """A stroke that runs is not broken off for another one; planning is."""
        if self._player.executing:
            self.get_logger().warning(f"{_name(request)} rejected: another stroke is running")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _on_accepted(self, goal: Any) -> None:
        interrupt = Interrupt(self._situation.changed)
        with self._situation.changed:
            if self._player.executing:  # it began since the goal was accepted
                interrupt.set(ArmCode.PREEMPTED, "another stroke is running")
            else:
                self._interrupt_all(ArmCode.PREEMPTED, f"{_name(goal.request)} took over")
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
        self._end(goal, _name(goal.request), outcome.code, outcome.text)
        return result

    def _play(self, request: ExecuteShot.Goal, interrupt: Interrupt, feedback: Any) -> Outcome:
        try:
            shot = shot_from_msg(request.shot)
        except CueError as error:
            return Outcome(ArmCode.INVALID_SHOT, str(error))
        if not shot.shot_id:
            return Outcome(ArmCode.INVALID_SHOT, "the shot has no id")
        return self._player.play(shot, interrupt, feedback)

    def _execute_push(self, goal: Any) -> PushBall.Result:
        key = bytes(goal.goal_id.uuid)

        def told(phase: str, distance: float, strokes: int) -> None:
            if goal.is_active:
                goal.publish_feedback(PushBall.Feedback(phase=phase, distance=distance, strokes=strokes))

        try:
            outcome = self._push(goal.request, self._interrupts[key], told)
        finally:
            del self._interrupts[key]
        result = PushBall.Result(
            moved=outcome.moved,
            strokes=outcome.strokes,
            position=[math.nan, math.nan] if outcome.position is None else outcome.position.tolist(),
            error_code=int(outcome.code),
            error_msg=outcome.text,
        )
        self._end(goal, _name(goal.request), outcome.code, outcome.text)
        return result

    def _push(self, request: PushBall.Goal, interrupt: Interrupt, told: Any) -> PushOutcome:
        goal = np.array(request.goal, float)
        if not request.id:
            return PushOutcome(ArmCode.INVALID_SHOT, "the push has no id")
        if not np.all(np.isfinite(goal)):
            return PushOutcome(ArmCode.INVALID_SHOT, f"goal {goal.tolist()} m is not finite")
        if not 0.0 <= request.tolerance <= _LARGEST_TOLERANCE:
            text = f"tolerance is {request.tolerance} m, allowed is 0 to {_LARGEST_TOLERANCE} m"
            return PushOutcome(ArmCode.INVALID_SHOT, text)
        push = Push(request.id, int(request.ball_id), goal, float(request.tolerance))
        return self._player.push(push, interrupt, told)

    def _end(self, goal: Any, name: str, code: int, text: str) -> None:
        """End a goal as its code says."""
        if code == ArmCode.NONE:
            if text or self._guard.reason:
                self._health.warn(text or self._guard.reason)
            else:
                self._health.ok()
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            self._health.warn(f"{name}: {text}")
            self.get_logger().warning(f"{name}: {ArmCode(code).name}: {text}")
            goal.abort()

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
                pace=float(entry.pace),
                error_code=int(entry.code),
                error_msg=entry.text,
            )
        )


def main() -> int:
    """Run the arm."""
    return run_node(ArmNode, threads=8)  # an execute callback blocks one of them, a preempted one another
