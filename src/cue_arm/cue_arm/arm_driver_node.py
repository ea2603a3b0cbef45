"""The robot's FollowJointTrajectory server as the arm's node sees it."""

from __future__ import annotations

from typing import Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory as JointTrajectoryMsg
from trajectory_msgs.msg import JointTrajectoryPoint

from cue_arm.executor import CANCELED
from cue_arm.situation import Situation
from cue_arm.trajectory import JointTrajectory


class DriverRun:
    """One goal at the driver, see :class:`cue_arm.executor.Run`."""

    def __init__(self, situation: Situation) -> None:
        """Wait for the driver's answer."""
        self._situation = situation
        self._handle: Any = None
        self._cancel_wanted = False
        self.accepted: bool | None = None
        self.ended = False
        self.failure = ""
        self.code = 0
        self.lost = False

    def cancel(self) -> None:
        """Ask for a stop, also of a goal that is not accepted yet."""
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
        """Take the driver's answer to the goal."""
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
                    self.failure, self.code = text or "canceled", CANCELED
                elif answer.status != GoalStatus.STATUS_SUCCEEDED or code != FollowJointTrajectory.Result.SUCCESSFUL:
                    self.failure, self.code = f"{text or 'no reason given'} (code {code})", code
                self.ended = True
            self._situation.changed.notify_all()


class Driver:
    """The robot's FollowJointTrajectory server, see :class:`cue_arm.executor.Controller`."""

    def __init__(self, node: Node, name: str, joints: tuple[str, ...], situation: Situation) -> None:
        """Look for the action ``name``."""
        self._client: Any = ActionClient(node, FollowJointTrajectory, name, callback_group=ReentrantCallbackGroup())
        self._joints, self._situation = joints, situation

    def available(self) -> bool:
        """Tell whether the driver can be reached."""
        return bool(self._client.server_is_ready())

    def send(self, trajectory: JointTrajectory) -> DriverRun:
        """Send a goal."""
        run = DriverRun(self._situation)
        goal = FollowJointTrajectory.Goal(trajectory=trajectory_to_msg(trajectory, self._joints))
        self._client.send_goal_async(goal).add_done_callback(run.on_answer)
        return run


def trajectory_to_msg(trajectory: JointTrajectory, joints: tuple[str, ...]) -> JointTrajectoryMsg:
    """Convert a trajectory."""
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
