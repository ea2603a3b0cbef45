"""Backend ``moveit``: MoveIt 2 plans the ways to the ball and home, and has its say on the straight stroke.

Written against MoveItPy of Jazzy and Kilted and tested with ``moveit_fake``; it has not run against a real MoveIt.

MoveIt has no planner that passes a point at an asked speed. So the stroke's timing is this project's own, as with the
default backend, and two parts of MoveIt check it: Pilz LIN must find the same straight way of the tip, ending in the
same joint configuration, and the planning scene must find every configuration of it free. The ways there and back are
OMPL's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cue_arm.backends.moveit_config import GROUP, TIP_LINK, moveit_parameters
from cue_arm.errors import ArmError, CollisionError, UnreachableError
from cue_arm.planner import MinkBackend, Progress, StrokePlan, _Scene
from cue_arm.rails import rail_boxes
from cue_arm.reach import Candidate
from cue_arm.stroke import TipPath, check_aftermath
from cue_arm.trajectory import JointTrajectory, join
from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError
from cue_core.shots import Shot
from cue_core.table import TableModel

_BED_THICKNESS = 0.05  # m
_CHECK_STRIDE = 2  # every how many samples a motion is shown to the planning scene
_SAME_BRANCH = 0.05  # rad
_AT_HOME = 0.02  # rad


class MoveItError(CueError):
    """MoveIt cannot be used on this machine."""


def load_moveit() -> Any:
    """Return the parts of MoveItPy that this backend calls, as attributes of one object.

    Raises:
        MoveItError: MoveIt is not installed.
    """
    import sys
    from types import SimpleNamespace

    added = [] if "--params-file" in sys.argv else ["--params-file", ""]
    sys.argv += added  # MoveItPy looks for it while it is imported, and ends the process where it is missing
    try:
        from geometry_msgs.msg import Pose, PoseStamped
        from moveit.core.robot_state import RobotState
        from moveit.planning import MoveItPy, PlanRequestParameters
        from moveit_msgs.msg import CollisionObject
        from shape_msgs.msg import SolidPrimitive
    except (ImportError, SystemExit) as error:
        raise MoveItError(f"backend moveit needs MoveIt 2 with moveit_py: {error}") from None
    finally:
        if added:
            del sys.argv[-len(added) :]
    return SimpleNamespace(
        MoveItPy=MoveItPy,
        PlanRequestParameters=PlanRequestParameters,
        RobotState=RobotState,
        CollisionObject=CollisionObject,
        SolidPrimitive=SolidPrimitive,
        Pose=Pose,
        PoseStamped=PoseStamped,
    )


class MoveItScene:
    """One MoveItPy with a planning scene that holds table, rails and balls; the cue is a link of the robot model."""

    def __init__(self, backend: MinkBackend, api: Any) -> None:
        """Start MoveIt and lay out the table.

        Raises:
            MoveItError: MoveIt does not start.
        """
        robot, table = backend.robot, backend.table
        self._api, self._names, self._table = api, robot.joint_names, table
        self._base_from_table = np.linalg.inv(robot.table_from_base(table))
        parameters = moveit_parameters(robot, table, backend.settings)
        try:
            # The parameters' file that MoveItPy writes is for a node of this name.
            self._moveit = api.MoveItPy(node_name="moveit_py", config_dict=parameters, provide_planning_service=False)
        except RuntimeError as error:
            raise MoveItError(f"MoveIt does not start: {error}") from None
        self._arm = self._moveit.get_planning_component(GROUP)
        self._monitor = self._moveit.get_planning_scene_monitor()
        self._model = self._moveit.get_robot_model()
        self._free = api.PlanRequestParameters(self._moveit, "free")
        self._straight = api.PlanRequestParameters(self._moveit, "straight")
        self._frame = "base_link"
        self._shown: tuple[str, ...] = ()
        self._lay_table(table)

    def show_balls(self, balls: Mapping[int, np.ndarray]) -> None:
        """Make (2,) positions by id [m] the balls of the scene."""
        names = tuple("cue ball" if i == 0 else f"ball {i}" for i in balls)
        radius = self._table.ball_radius
        with self._monitor.read_write() as scene:
            for name in self._shown:
                if name not in names:
                    scene.apply_collision_object(self._object(name, "REMOVE", []))
            for name, place in zip(names, balls.values(), strict=True):
                sphere = self._primitive("SPHERE", [radius])
                pose = self._pose(np.array([place[0], place[1], radius]), np.eye(3))
                scene.apply_collision_object(self._object(name, "ADD", [(sphere, pose)]))
            scene.current_state.update()
        self._shown = names

    def check(self, configurations: np.ndarray, when: str) -> None:
        """Show configurations (m, n) [rad] to the planning scene.

        Raises:
            CollisionError: one of them touches something; MoveIt's log names the pair.
        """
        with self._monitor.read_only() as scene:
            for row in configurations:
                state = self._state(row)
                if scene.is_state_colliding(robot_state=state, joint_model_group_name=GROUP, verbose=True):
                    raise CollisionError("arm or cue", "something in MoveIt's scene", when)

    def way(self, start: np.ndarray, goal: np.ndarray, when: str) -> JointTrajectory:
        """Return OMPL's way between two configurations (n,) [rad].

        Raises:
            UnreachableError: there is none.
        """
        self._arm.set_start_state(robot_state=self._state(start))
        self._arm.set_goal_state(robot_state=self._state(goal))
        return self._plan(self._free, when)

    def line(self, start: np.ndarray, position: np.ndarray, rotation: np.ndarray, when: str) -> JointTrajectory:
        """Return Pilz LIN's straight way of the tip to a pose in the table frame (3,) [m], (3, 3).

        Raises:
            UnreachableError: there is none.
        """
        self._arm.set_start_state(robot_state=self._state(start))
        goal = self._api.PoseStamped()
        goal.header.frame_id = self._frame
        goal.pose = self._pose(position, rotation)
        self._arm.set_goal_state(pose_stamped_msg=goal, pose_link=TIP_LINK)
        return self._plan(self._straight, when)

    def _plan(self, parameters: Any, when: str) -> JointTrajectory:
        answer = self._arm.plan(single_plan_parameters=parameters)
        if not answer:
            code = getattr(answer.error_code, "val", answer.error_code)
            raise UnreachableError(f"MoveIt ({parameters.planner_id}) finds no way {when} (error code {code})")
        return _trajectory(answer.trajectory.get_robot_trajectory_msg().joint_trajectory, self._names)

    def _state(self, configuration: np.ndarray) -> Any:
        state = self._api.RobotState(self._model)
        state.set_joint_group_positions(GROUP, np.asarray(configuration, float))
        state.update()
        return state

    def _lay_table(self, table: TableModel) -> None:
        out = np.array([table.length, table.width]) / 2 + table.rail_width
        boxes = {"cloth": (np.array([*-out, -_BED_THICKNESS]), np.array([*out, 0.0])), **rail_boxes(table)}
        with self._monitor.read_write() as scene:
            for name, (low, high) in boxes.items():
                box = self._primitive("BOX", (high - low).tolist())
                pose = self._pose((low + high) / 2, np.eye(3))
                scene.apply_collision_object(self._object(name, "ADD", [(box, pose)]))
            scene.current_state.update()

    def _object(self, name: str, operation: str, shapes: Sequence[tuple[Any, Any]]) -> Any:
        thing = self._api.CollisionObject()
        thing.header.frame_id = self._frame
        thing.id = name
        thing.primitives = [shape for shape, _ in shapes]
        thing.primitive_poses = [pose for _, pose in shapes]
        thing.operation = getattr(self._api.CollisionObject, operation)
        return thing

    def _primitive(self, kind: str, dimensions: list[float]) -> Any:
        shape = self._api.SolidPrimitive()
        shape.type = getattr(self._api.SolidPrimitive, kind)
        shape.dimensions = dimensions
        return shape

    def _pose(self, position: np.ndarray, rotation: np.ndarray) -> Any:
        """Return a geometry_msgs/Pose in the base frame of a pose (3,) [m], (3, 3) in the table frame."""
        turn = self._base_from_table[:3, :3]
        pose = self._api.Pose()
        x, y, z = turn @ position + self._base_from_table[:3, 3]
        pose.position.x, pose.position.y, pose.position.z = float(x), float(y), float(z)
        x, y, z, w = _quaternion(turn @ rotation)
        pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = x, y, z, w
        return pose


@dataclass
class MoveItBackend(MinkBackend):
    """See the module.

    Attributes:
        api: the parts of MoveItPy; None = the installed one.
    """

    api: Any = None
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Start MoveIt.

        Raises:
            MoveItError: it is not installed, or does not start.
        """
        super().__post_init__()
        self._moveit = MoveItScene(self, self.api or load_moveit())

    def plan_home(self, start: np.ndarray, balls: Mapping[int, np.ndarray]) -> JointTrajectory | None:
        """Return MoveIt's way home from wherever the arm rests; see the Protocol."""
        if np.abs(start - self.robot.home).max() < _AT_HOME:
            return None
        with self._turn:
            self._moveit.show_balls(balls)
            self._moveit.check(start[None], "where it rests now")
            return self._moveit.way(start, self.robot.home, "on the way home")

    def touches(self, configuration: np.ndarray) -> bool:
        """Tell whether MoveIt's scene finds the arm in touch with anything in a configuration (n,) [rad]."""
        with self._turn:
            self._moveit.show_balls({})
            try:
                self._moveit.check(configuration[None], "")
            except CollisionError:
                return True
        return False

    def _play(
        self, scene: _Scene, way: Candidate, start: np.ndarray, progress: Progress, shot: Shot | None = None
    ) -> StrokePlan:
        path, stroke = self._stroke(way.path, way)
        if shot is not None:
            named = [(f"ball {i}", np.asarray(p, float)) for i, p in scene.others.items()]
            check_aftermath(shot, scene.ball, named, self.table, path, self.settings)
        progress(0.6)
        with self._turn:
            moveit = self._moveit
            moveit.show_balls(scene.others)
            moveit.check(stroke.positions[::_CHECK_STRIDE], "in the stroke")
            self._agree(path, stroke)
            moveit.show_balls(scene.all)
            before = stroke.positions[stroke.times < path.contact_time - 2 * self.settings.period]
            moveit.check(before[::_CHECK_STRIDE], "in the stroke")
            approach = moveit.way(start, stroke.positions[0], "on the way to the ball")
            progress(0.8)
            moveit.show_balls(scene.others)  # the ball is on its way
            retreat = moveit.way(stroke.positions[-1], self.robot.home, "on the way home")
        later = approach.duration
        progress(1.0)
        return StrokePlan(
            trajectory=join([approach, stroke, retreat]),
            path=path,
            stroke_start=later + path.stroke_start,
            contact_time=later + path.contact_time,
            rise_start=later + path.rise_start,
        )

    def _agree(self, path: TipPath, stroke: JointTrajectory) -> None:
        """Ask Pilz for the straight way from back to front.

        Raises:
            UnreachableError: it finds none, or another one.
        """
        first, last = (int(np.searchsorted(stroke.times, t)) for t in (path.stroke_start, path.rise_start))
        line = self._moveit.line(stroke.positions[first], path.front, path.rotation, "along the stroke")
        off = float(np.abs(line.positions[-1] - stroke.positions[min(last, len(stroke.times) - 1)]).max())
        if off > _SAME_BRANCH:
            raise UnreachableError(f"MoveIt's straight stroke ends {off:.2f} rad away from the planned one")


def _trajectory(message: Any, names: Sequence[str]) -> JointTrajectory:
    """Convert a trajectory_msgs/JointTrajectory.

    Raises:
        ArmError: it has no points, or other joints.
    """
    given = list(message.joint_names)
    if sorted(given) != sorted(names) or not message.points:
        raise ArmError(ArmCode.CONTROLLER, f"MoveIt's trajectory has {len(message.points)} points of joints {given}")
    order = [given.index(name) for name in names]
    times = np.array([p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in message.points])
    positions = np.array([p.positions for p in message.points], float)[:, order]
    if len(times) == 1:  # there already
        times, positions = np.array([0.0, 0.1]), np.repeat(positions, 2, axis=0)
        return JointTrajectory(times, positions, np.zeros_like(positions), np.zeros_like(positions))
    rows = []
    for name, source in (("velocities", positions), ("accelerations", None)):
        values = [list(getattr(p, name)) for p in message.points]
        if all(len(v) == len(names) for v in values):
            rows.append(np.array(values, float)[:, order])
        else:
            rows.append(np.gradient(rows[-1] if source is None else source, times, axis=0))
    velocities, accelerations = rows
    velocities[[0, -1]] = 0.0
    return JointTrajectory(times - times[0], positions, velocities, accelerations)


def _quaternion(rotation: np.ndarray) -> tuple[float, float, float, float]:
    """Return the quaternion xyzw of a matrix (3, 3)."""
    import mujoco

    wxyz = np.zeros(4)
    mujoco.mju_mat2Quat(wxyz, np.ascontiguousarray(rotation).ravel())
    w, x, y, z = (float(v) for v in wxyz)
    return x, y, z, w
