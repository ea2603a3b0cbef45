"""Node ``display``: what RViz shows beside the nodes' own markers, and the robot's model and transforms.

It draws only what somebody looks at. Nothing depends on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_msgs.msg import String

import cue.display_marks_node as draw
from cue.ros_topics_node import message_class, published, wanted
from cue.topics import topic
from cue_arm.reach_map import ReachMap
from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.ros import conversions as convert
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.polling import Ears
from cue_core.settings import check_settings, setting
from cue_core.table import TableModel
from cue_msgs.msg import AgentStatus, BallStateArray, ShotExecution, ShotRecord
from cue_msgs.srv import PredictShots
from cue_sim.robot import RobotConfig, robot_model
from cue_sim.urdf import robot_urdf

_HEARD = ("table_info", "ball_states", "shot_execution", "shot_records", "agent_status", "joint_states")
_DRAWN = ("display/pocket_risk", "display/residuals", "display/reach", "display/status")
_NOTHING = object()
_NEAR = 0.002  # m: a ball that lies this near to where it lay has not moved


@dataclass(frozen=True)
class DisplayConfig:
    """Settings of the node."""

    robot: str = setting("", "path of the robot file; empty = no robot is drawn")
    rate: float = setting(10.0, "of what is drawn", "1/s", 0.5, 60.0)
    ensemble: int = setting(32, "twins that the pocket risk of the next shot is taken from", low=2, high=1000)
    directions: int = setting(36, "of strokes, for which it is drawn whether the arm can play them", low=4, high=360)
    speed: float = setting(0.5, "of the tip in these strokes", "m/s", 0.05, 5.0)
    driver: bool = setting(False, "a driver publishes the robot's model and transforms; only its base is told here")
    driver_turn: float = setting(3.141592653589793, "of the driver's base_link from the robot file's base", "rad")

    def __post_init__(self) -> None:
        """Check bounds.

        Raises:
            OutOfRangeError: naming the field.
        """
        check_settings(self)


class RobotPose:
    """The robot's transforms by joint angles."""

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        """Stand the robot beside a table."""
        self._model = robot_model(robot, table)
        self._data = mujoco.MjData(self._model)
        self._joints = robot.joint_names
        self.table_from_base = robot.table_from_base(table)

    def transforms(self, names: list[str], positions: np.ndarray) -> list[tuple[str, str, np.ndarray]]:
        """Return (parent, child, (4, 4) parent_from_child) from ``table`` to ``cue_tip``.

        Raises:
            CueError: a joint is missing.
        """
        if not set(self._joints) <= set(names):
            raise CueError(f"joint_states name {names}, the robot has {list(self._joints)}")
        for joint in self._joints:
            self._data.joint(joint).qpos[0] = positions[names.index(joint)]
        mujoco.mj_kinematics(self._model, self._data)
        found = [("table", "base_link", self.table_from_base)]
        parent, table_from_parent = "base_link", self.table_from_base
        for name in [*(joint.replace("_joint", "_link") for joint in self._joints), "cue"]:
            body = self._data.body(name)
            here = _pose(body.xpos, body.xmat)
            found.append((parent, name, np.linalg.inv(table_from_parent) @ here))
            parent, table_from_parent = name, here
        for name in ("tool0", "cue_tip"):
            site = self._data.site(name)
            found.append(("cue", name, np.linalg.inv(table_from_parent) @ _pose(site.xpos, site.xmat)))
        return found


def _pose(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation.reshape(3, 3), position
    return pose


class DisplayNode(Node):
    """See the module."""

    def __init__(self) -> None:
        """Declare parameters and connect."""
        super().__init__("display")
        self._config = config = declare(self, DisplayConfig)
        self._robot = RobotConfig.load(config.robot) if config.robot else None
        self._health = Health(self)
        live = not self.get_parameter("use_sim_time").value
        self._ears = Ears(self)
        for name in _HEARD:
            self._ears.listen(message_class(topic(name).kind), name, wanted(topic(name), live))
        self._out: dict[str, Any] = {
            name: self.create_publisher(message_class(topic(name).kind), name, published(topic(name)))
            for name in (*_DRAWN, "tf")
        }
        if self._robot is not None and not config.driver:
            kind = topic("robot_description")
            self._out["robot_description"] = self.create_publisher(
                message_class(kind.kind), "robot_description", published(kind)
            )
            self._out["robot_description"].publish(String(data=robot_urdf(self._robot)))
        self._predict: Client = self.create_client(PredictShots, "predict_shots")
        self._last: dict[str, Any] = {}
        self._table: TableModel | None = None
        self._pose: RobotPose | None = None
        self._reach: ReachMap | None = None
        self._shares = np.empty((0, 0))
        self._told: dict[str, object] = {}
        self._predicted: tuple[str, dict[int, np.ndarray], Any] | None = None
        self._asked = ""
        self._thinking = threading.Lock()
        self._timer = self.create_timer(1 / config.rate, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _look(self) -> None:
        """Take what has come and draw what changed, if somebody looks."""
        for heard in self._ears.take():
            self._last[heard.topic] = heard.message
        try:
            self._draw()
        except CueError as error:
            self._health.warn(str(error))
            self.get_logger().warning(str(error), throttle_duration_sec=30.0)

    def _draw(self) -> None:
        info = self._last.pop("table_info", None)
        if info is not None:
            self._table = convert.table_from_msg(info)
            self._pose = RobotPose(self._robot, self._table) if self._robot is not None else None
            self._reach = None
            self._told.clear()
        joints = self._last.pop("joint_states", None)
        if joints is not None and self._pose is not None:
            self._tell_robot(joints)
        if self._table is None:
            return
        table = self._table
        status: AgentStatus | None = self._last.get("agent_status")
        if status is not None:
            self._once("display/status", status, lambda: draw.status_text(status, table))
        execution: ShotExecution | None = self._last.get("shot_execution")
        if execution is not None and execution.phase == ShotExecution.STARTED and execution.shot.id != self._asked:
            self._ask(execution)
        if self._predicted is not None:
            self._draw_prediction(table)
        balls: BallStateArray | None = self._last.get("ball_states")
        if balls is not None and balls.settled and self._watched("display/reach"):
            self._draw_reach(balls, table)

    def _watched(self, name: str) -> bool:
        return bool(self._out[name].get_subscription_count() > 0)

    def _once(self, name: str, state: object, make: Callable[[], Any]) -> None:
        """Publish what a state looks like, unless it is drawn already or nobody looks."""
        if self._told.get(name) is not state and self._watched(name):
            self._told[name] = state
            self._out[name].publish(make())
            self._health.tick(name)

    def _clear(self, name: str, stamp: Any) -> None:
        """Take away what was drawn of a shot that is over."""
        make = draw.residuals if name == "display/residuals" else draw.pocket_risk
        self._once(name, _NOTHING, lambda: make(stamp, {}, {}, 0.0))

    def _tell_robot(self, joints: Any) -> None:
        assert self._pose is not None
        if self._config.driver:
            turn = np.eye(4)
            c, s = np.cos(self._config.driver_turn), np.sin(self._config.driver_turn)
            turn[:2, :2] = [[c, -s], [s, c]]
            found = [("table", "base_link", self._pose.table_from_base @ turn)]
        else:
            found = self._pose.transforms(list(joints.name), np.array(joints.position))
        message = message_class(topic("tf").kind)()
        for parent, child, parent_from_child in found:
            pose = convert.pose_to_msg(parent_from_child)
            transform = TransformStamped(child_frame_id=child)
            transform.header.stamp, transform.header.frame_id = joints.header.stamp, parent
            transform.transform.translation.x = pose.position.x
            transform.transform.translation.y = pose.position.y
            transform.transform.translation.z = pose.position.z
            transform.transform.rotation = pose.orientation
            message.transforms.append(transform)
        self._out["tf"].publish(message)
        self._health.tick("tf")

    def _ask(self, execution: ShotExecution) -> None:
        """Ask the twin for the shot that begins: where balls should rest, and which may be pocketed."""
        if not (self._watched("display/pocket_risk") or self._watched("display/residuals")):
            return
        balls: BallStateArray | None = self._last.get("ball_states")
        if balls is None or not self._predict.service_is_ready():
            return
        self._asked = execution.shot.id
        self._predicted = None
        self._clear("display/residuals", execution.header.stamp)
        before = {b.ball_id: b.position for b in map(convert.ball_from_msg, balls.balls) if b.in_play}
        request = PredictShots.Request(
            shots=[execution.shot],
            balls=balls.balls,
            revision=PredictShots.Request.REVISION_LATEST,
            ensemble=self._config.ensemble,
        )

        def answered(future: Any) -> None:
            answer = future.result()
            if answer is not None and not answer.error_code and not answer.predictions[0].fault:
                self._predicted = execution.shot.id, before, answer.predictions[0]

        self._predict.call_async(request).add_done_callback(answered)

    def _draw_prediction(self, table: TableModel) -> None:
        assert self._predicted is not None
        shot_id, before, prediction = self._predicted
        stamp = self.get_clock().now().to_msg()
        risk = dict(zip(prediction.ball_ids, prediction.pocket_probability, strict=True))
        record: ShotRecord | None = self._last.get("shot_records")
        if record is None or record.shot_id != shot_id:
            self._once(
                "display/pocket_risk", prediction, lambda: draw.pocket_risk(stamp, before, risk, table.ball_radius)
            )
            return
        self._clear("display/pocket_risk", stamp)
        seen = {b.ball_id: b.position for b in map(convert.ball_from_msg, record.after) if b.in_play}
        rest = {
            ball: np.array([x, y])
            for ball, x, y in zip(prediction.ball_ids, prediction.rest_x, prediction.rest_y, strict=True)
            if _moved(ball, np.array([x, y]), seen, before)
        }
        self._once(
            "display/residuals",
            record,
            lambda: draw.residuals(record.header.stamp, rest, seen, table.ball_radius),
        )

    def _draw_reach(self, balls: BallStateArray, table: TableModel) -> None:
        """Draw the fan of directions when the balls lie elsewhere; it takes a moment, so it is done beside."""
        states = tuple(map(convert.ball_from_msg, balls.balls))
        drawn = self._told.get("display/reach")
        if (drawn is not None and _same(states, drawn)) or not self._thinking.acquire(blocking=False):
            return
        self._told["display/reach"] = states

        def think() -> None:
            try:
                self._publish_reach(states, balls, table)
            except CueError as error:
                self.get_logger().warning(f"no reach drawn: {error}", throttle_duration_sec=30.0)
            finally:
                self._thinking.release()

        threading.Thread(target=think, name="reach", daemon=True).start()

    def _publish_reach(self, states: tuple[BallState, ...], balls: BallStateArray, table: TableModel) -> None:
        where = {b.ball_id: b.position for b in states if b.in_play}
        if self._robot is None:
            return
        if 0 not in where:
            nothing = np.empty(0)
            self._out["display/reach"].publish(draw.reach_fan(balls.header.stamp, None, nothing, nothing))
            return
        if self._reach is None:
            self._reach = ReachMap.cached(self._robot, table)
            self._shares = self._reach.share_playable()
        azimuths = np.linspace(-np.pi, np.pi, self._config.directions, endpoint=False)
        others = {ball: position for ball, position in where.items() if ball}
        can = [self._reach.reachable(where[0], float(a), self._config.speed, others)[0] for a in azimuths]
        stamp, reach = balls.header.stamp, self._reach
        marks = draw.reach_fan(stamp, where[0], azimuths, np.array(can))
        marks.markers.append(draw.reach_heat(stamp, reach.x, reach.y, self._shares))
        self._out["display/reach"].publish(marks)
        self._health.tick("display/reach")


def _moved(ball: int, rest: np.ndarray, seen: dict[int, np.ndarray], before: dict[int, np.ndarray]) -> bool:
    """Tell whether a ball moved, as predicted or as seen."""
    if ball not in seen or ball not in before:
        return False
    return bool(max(np.linalg.norm(rest - before[ball]), np.linalg.norm(seen[ball] - before[ball])) > _NEAR)


def _same(states: tuple[BallState, ...], drawn: Any) -> bool:
    """Tell whether all balls lie where they lay."""
    return len(states) == len(drawn) and all(
        one.in_play == other.in_play and float(np.linalg.norm(one.position - other.position)) < _NEAR
        for one, other in zip(states, drawn, strict=True)
    )


def main() -> int:
    """Run the node and return its exit code."""
    return run_node(DisplayNode, threads=2)
