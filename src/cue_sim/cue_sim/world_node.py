"""Node ``world``: the hidden table and the arm behind a robot driver's interface; owner of the clock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Duration, Time
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory as TrajectoryMsg

from cue_core.errors import CueError
from cue_core.ros.conversions import stamp_to_nanoseconds, table_header, xyzw_from_wxyz
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import LATCHED, STATES, STATES_LATCHED
from cue_core.settings import setting
from cue_msgs.msg import BallStateArray, BallTruth, ShotExecution, WorldState
from cue_sim.goals import Ending, Goal
from cue_sim.trajectory import GoalError, JointTrajectory, Tolerances, TrajectoryCode, check_goal
from cue_sim.world import JointSample, World, WorldEvent
from cue_sim.world_config import WorldChoice, WorldConfig
from cue_sim.world_loop import WorldLoop


@dataclass(frozen=True)
class WorldNodeConfig(WorldChoice):
    """Settings of the node."""

    run_dir: str = setting("", "run folder for the world's state; empty = keep nothing")
    lockstep: bool = setting(True, "advance only when the tracker has seen the last images and something is wanted")
    real_time_factor: float = setting(1.0, "simulated per wall time where lockstep is off", low=0.05, high=100.0)


def stamp(time_ns: int) -> Time:
    """Return a stamp of whole nanoseconds."""
    return Time(sec=time_ns // 10**9, nanosec=time_ns % 10**9)


def seconds(duration: Duration) -> float:
    """Return a duration [s]."""
    return duration.sec + 1e-9 * duration.nanosec


def trajectory_from_msg(config: WorldConfig, msg: TrajectoryMsg) -> JointTrajectory:
    """Convert and check a trajectory.

    Raises:
        GoalError: it cannot be followed; says why.
    """

    def rows(name: str) -> np.ndarray | None:
        lists = [list(getattr(point, name)) for point in msg.points]
        if name != "positions" and not any(lists):
            return None
        if len({len(values) for values in lists}) != 1:
            raise GoalError(TrajectoryCode.INVALID_GOAL, f"{name} differ in number from point to point")
        return np.array(lists, float)

    times = np.array([seconds(point.time_from_start) for point in msg.points])
    if not len(times):
        return check_goal(config.robot, msg.joint_names, times, np.empty((0, len(config.robot.links))))
    positions = rows("positions")
    assert positions is not None
    return check_goal(config.robot, msg.joint_names, times, positions, rows("velocities"), rows("accelerations"))


def tolerances_from_msg(config: WorldConfig, goal: FollowJointTrajectory.Goal) -> Tolerances:
    """Convert tolerances; 0 = the default, negative = none.

    Raises:
        GoalError: a joint is unknown.
    """
    default = Tolerances.default(len(config.robot.links))

    def merged(values: np.ndarray, given: Sequence[JointTolerance]) -> np.ndarray:
        values = values.copy()
        for item in given:
            if item.name not in config.robot.joint_names:
                raise GoalError(TrajectoryCode.INVALID_JOINTS, f"tolerance for unknown joint {item.name!r}")
            if item.position != 0.0:
                values[config.robot.joint_names.index(item.name)] = item.position if item.position > 0 else np.inf
        return values

    late = seconds(goal.goal_time_tolerance)
    return Tolerances(
        merged(default.path, goal.path_tolerance), merged(default.goal, goal.goal_tolerance), late or default.goal_time
    )


class WorldNode(Node):
    """Publishes what a robot driver and a clock publish, and the truth for the simulated camera and the score."""

    def __init__(self) -> None:
        """Build the world and start its thread.

        Raises:
            CueError: a file or setting is wrong.
        """
        super().__init__("world")
        self._thread: threading.Thread | None = None
        self._settings = declare(self, WorldNodeConfig)
        s = self._settings
        self._config = s.load()
        self._world = World(self._config)
        self._loop = WorldLoop(self._world, self, s.run_dir)
        if self._loop.restored:
            self.get_logger().info(f"going on from {s.run_dir} at frame {self._world.frame}")
        self._newest: deque[WorldState] = deque(maxlen=2)
        self._listeners = 0
        self._health = Health(self)
        self._clock_publisher = self.create_publisher(Clock, "/clock", 10)
        self._joint_publisher = self.create_publisher(JointState, "joint_states", STATES_LATCHED)
        self._truth_publisher = self.create_publisher(WorldState, "ground_truth/state", STATES)
        group = ReentrantCallbackGroup()
        self.create_subscription(BallStateArray, "ball_states", self._on_ball_states, STATES, callback_group=group)
        self.create_subscription(ShotExecution, "shot_execution", self._on_execution, LATCHED, callback_group=group)
        self._goals: dict[bytes, Goal] = {}
        self._action = ActionServer(
            self,
            FollowJointTrajectory,
            "follow_joint_trajectory",
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
            callback_group=group,
        )
        wall = RosClock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(0.5, self._look_for_newcomers, callback_group=group, clock=wall)
        self._failure: CueError | None = None
        self._thread = threading.Thread(target=self._run, name="world", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run(self._settings.lockstep, self._settings.real_time_factor)
        except CueError as error:
            self.get_logger().fatal(str(error))
            self._failure = error
        except Exception:
            if self.context.ok():
                raise

    def destroy_node(self) -> None:
        """Stop the world first; it may not have begun."""
        if self._thread:
            self._loop.stop()
            self._thread.join(timeout=1.0)
        super().destroy_node()

    # What the world tells (from its thread) -----------------------------------------------------------------------

    def on_clock(self, time_ns: int) -> None:
        """Publish the time."""
        self._clock_publisher.publish(Clock(clock=stamp(time_ns)))

    def on_joints(self, samples: Sequence[JointSample]) -> None:
        """Publish joint states."""
        for sample in samples:
            msg = JointState(name=list(self._config.robot.joint_names))
            msg.header.stamp = stamp(sample.time)
            msg.position, msg.velocity = sample.positions.tolist(), sample.velocities.tolist()
            msg.effort = sample.efforts.tolist()
            self._joint_publisher.publish(msg)

    def on_frame(self, frame: int, time_ns: int) -> None:
        """Publish the truth for the camera."""
        truth = self._world.balls()
        msg = WorldState(header=table_header(stamp(time_ns)), frame=frame, moving=self._world.moving)
        for i, ball_id in enumerate(self._config.ball_ids):
            msg.balls.append(
                BallTruth(
                    id=ball_id,
                    pocketed=bool(truth.pocketed[i]),
                    position=truth.positions[i],
                    orientation=xyzw_from_wxyz(truth.orientations[i]),
                    velocity=truth.velocities[i],
                    angular_velocity=truth.spins[i],
                )
            )
        msg.joint_names = list(self._config.robot.joint_names)
        msg.joint_positions = self._world.joints().positions.tolist()
        self._newest.append(msg)
        self._truth_publisher.publish(msg)
        self._health.tick("frame")

    def on_repeat(self, frame: int) -> None:
        """Publish a frame again."""
        for msg in self._newest:
            if msg.frame == frame:
                self._truth_publisher.publish(msg)

    def on_events(self, events: Sequence[WorldEvent]) -> None:
        """Log what happened; nothing the arm touches besides the cue ball goes unseen."""
        for event in events:
            text = f"{event.time / 1e9:.4f} s: {event.kind}: {event.text}"
            if event.kind == "collision":
                self.get_logger().warning(text)
                self._health.set("last collision", text)
            else:
                self.get_logger().info(text)

    def on_late(self, seconds: float) -> None:
        """Say that the machine is too slow."""
        text = f"too slow for real-time factor {self._settings.real_time_factor}: the clock lost {seconds:.1f} s"
        self._health.warn(text)
        self.get_logger().warning(text, throttle_duration_sec=10.0)

    # What others tell ---------------------------------------------------------------------------------------------

    def _on_ball_states(self, msg: BallStateArray) -> None:
        self._loop.acknowledge(stamp_to_nanoseconds(msg.header.stamp), msg.settled, msg.calibrated)

    def _on_execution(self, msg: ShotExecution) -> None:
        self._loop.report_shot(msg.shot.id, msg.phase == ShotExecution.FINISHED)

    def _look_for_newcomers(self) -> None:
        if self._failure:
            raise self._failure  # ends the process with one line
        count = self._truth_publisher.get_subscription_count()
        if count > self._listeners:
            self._loop.repeat_newest()
        self._listeners = count

    def _on_goal(self, request: FollowJointTrajectory.Goal) -> GoalResponse:
        try:
            trajectory_from_msg(self._config, request.trajectory)
            tolerances_from_msg(self._config, request)
        except GoalError as error:
            self.get_logger().warning(f"trajectory goal refused: {error}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _on_cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal = self._goals.get(bytes(handle.goal_id.uuid))
        if goal:
            self._loop.cancel(goal)
        return CancelResponse.ACCEPT

    def _execute(self, handle: ServerGoalHandle) -> FollowJointTrajectory.Result:
        request = handle.request
        goal = Goal(trajectory_from_msg(self._config, request.trajectory), tolerances_from_msg(self._config, request))
        key = bytes(handle.goal_id.uuid)
        self._goals[key] = goal
        self._loop.submit(goal)
        if handle.is_cancel_requested:
            self._loop.cancel(goal)
        goal.ended.wait()
        del self._goals[key]
        if goal.ending is Ending.SUCCEEDED:
            handle.succeed()
        elif goal.ending is Ending.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        return FollowJointTrajectory.Result(error_code=int(goal.code), error_string=goal.text)


def main() -> int:
    """Run the node."""
    return run_node(WorldNode, threads=8)
