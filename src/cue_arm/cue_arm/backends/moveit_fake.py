"""A fake of exactly the MoveItPy calls that the backend makes, with the same names, arguments and refusals.

The planning scene is real in that it collides what it was told of, in the frames it was told; planning is OMPL's
RRT-Connect and a straight line of the tip. Signatures follow moveit_py's bindings of Jazzy and Kilted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np

from cue_arm.backends.moveit_config import BASE_LINK, GROUP, TIP_LINK
from cue_arm.chain import SerialChain
from cue_arm.free_motion import move
from cue_arm.trajectory import JointTrajectory, join
from cue_arm.way_round import way_round
from cue_core.table import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, add_robot, robot_model

_SUCCESS, _FAILURE = 1, 99999  # moveit_msgs/MoveItErrorCodes
_CHECKS = 4000
_STEP = 0.02  # rad
_FAR = np.array([0.0, 0.0, 50.0])


def _vector() -> SimpleNamespace:
    return SimpleNamespace(x=0.0, y=0.0, z=0.0, w=0.0)


@dataclass
class Pose:
    """geometry_msgs/Pose."""

    position: Any = field(default_factory=_vector)
    orientation: Any = field(default_factory=_vector)


@dataclass
class PoseStamped:
    """geometry_msgs/PoseStamped."""

    header: Any = field(default_factory=lambda: SimpleNamespace(frame_id=""))
    pose: Pose = field(default_factory=Pose)


@dataclass
class SolidPrimitive:
    """shape_msgs/SolidPrimitive."""

    BOX = 1
    SPHERE = 2
    type: int = 0
    dimensions: list[float] = field(default_factory=list)


@dataclass
class CollisionObject:
    """moveit_msgs/CollisionObject; operations are bytes as rosidl makes them of the message's byte constants."""

    ADD = b"\x00"
    REMOVE = b"\x01"
    header: Any = field(default_factory=lambda: SimpleNamespace(frame_id=""))
    id: str = ""
    primitives: list[SolidPrimitive] = field(default_factory=list)
    primitive_poses: list[Pose] = field(default_factory=list)
    operation: bytes = b"\x00"


class RobotModel:
    """moveit.core.robot_model.RobotModel, as far as it is handed on."""

    def __init__(self, joints: int) -> None:
        """Know the number of joints."""
        self.joints = joints


class RobotState:
    """moveit.core.robot_state.RobotState."""

    def __init__(self, robot_model: RobotModel) -> None:
        """Be at zero."""
        if not isinstance(robot_model, RobotModel):
            raise TypeError("incompatible constructor arguments")
        self._positions = np.zeros(robot_model.joints)
        self.dirty = False

    def set_joint_group_positions(self, joint_model_group_name: str, position_values: np.ndarray) -> None:
        """Set the positions of a group."""
        values = np.asarray(position_values, float)
        if joint_model_group_name == GROUP and values.shape != self._positions.shape:
            raise ValueError(f"Expected {len(self._positions)} values for joint model group, got {values.size}")
        self._positions, self.dirty = values.copy(), True

    def get_joint_group_positions(self, joint_model_group_name: str) -> np.ndarray:
        """Return the positions of a group."""
        return self._positions.copy()

    def update(self) -> None:
        """Bring the transforms up to date."""
        self.dirty = False


class PlanningScene:
    """moveit.core.planning_scene.PlanningScene."""

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        """Hold the robot alone."""
        self._robot, self._table = robot, table
        self.objects: dict[str, CollisionObject] = {}
        self._built: Any = None
        self.current_state = RobotState(RobotModel(len(robot.joint_names)))

    def apply_collision_object(self, collision_object_msg: CollisionObject, color_msg: Any = None) -> None:
        """Add or remove an object."""
        message = collision_object_msg
        if message.header.frame_id != BASE_LINK:
            raise RuntimeError(f"Unknown frame: {message.header.frame_id}")
        if message.operation == CollisionObject.REMOVE:
            self.objects.pop(message.id, None)
        else:
            if not message.primitives or len(message.primitives) != len(message.primitive_poses):
                raise RuntimeError("Number of primitive shapes does not match number of poses")
            self.objects[message.id] = message
        self._built = None

    def is_state_colliding(self, robot_state: RobotState, joint_model_group_name: str, verbose: bool = False) -> bool:
        """Tell whether the robot touches itself or an object."""
        if robot_state.dirty:
            raise RuntimeError("the state's transforms are not up to date")
        return self.collides(robot_state.get_joint_group_positions(joint_model_group_name))

    def collides(self, q: np.ndarray) -> bool:
        """Tell it of a configuration (n,) [rad]."""
        if self._built is None:
            self._built = self._build()
        model, data, joints, always = self._built
        data.qpos[joints] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        pairs = {tuple(sorted(map(int, data.contact.geom[i]))) for i in range(data.ncon) if data.contact.dist[i] < 0}
        return bool(pairs - always)

    def _build(self) -> tuple[Any, Any, np.ndarray, set[tuple[int, ...]]]:
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        add_robot(spec, self._robot, self._table)
        for geom in spec.geoms:
            geom.contype, geom.conaffinity = 1, 3
        table_from_base = self._robot.table_from_base(self._table)
        for name, thing in self.objects.items():
            for shape, pose in zip(thing.primitives, thing.primitive_poses, strict=True):
                turn = np.zeros(9)
                o, p = pose.orientation, pose.position
                mujoco.mju_quat2Mat(turn, np.array([o.w, o.x, o.y, o.z]))
                quaternion = np.zeros(4)
                mujoco.mju_mat2Quat(quaternion, (table_from_base[:3, :3] @ turn.reshape(3, 3)).ravel())
                place = table_from_base[:3, :3] @ [p.x, p.y, p.z] + table_from_base[:3, 3]
                box = shape.type == SolidPrimitive.BOX
                spec.worldbody.add_geom(
                    name=name,
                    type=mujoco.mjtGeom.mjGEOM_BOX if box else mujoco.mjtGeom.mjGEOM_SPHERE,
                    size=[d / 2 for d in shape.dimensions] if box else [shape.dimensions[0], 0, 0],
                    pos=place,
                    quat=quaternion,
                    contype=2,
                    conaffinity=0,
                )
        model = spec.compile()
        data = mujoco.MjData(model)
        joints = np.array([model.joint(name).qposadr[0] for name in self._robot.joint_names])
        data.qpos[joints] = self._robot.home
        mujoco.mj_forward(model, data)
        always = {tuple(sorted(map(int, data.contact.geom[i]))) for i in range(data.ncon)}
        return model, data, joints, always


class PlanRequestParameters:
    """moveit.planning.PlanRequestParameters."""

    def __init__(self, moveit_py: MoveItPy, namespace: str) -> None:
        """Read the parameters of a namespace."""
        given = moveit_py.parameters[namespace]["plan_request_params"]
        self.planner_id = str(given["planner_id"])
        self.planning_pipeline = str(given["planning_pipeline"])
        self.planning_attempts = int(given["planning_attempts"])
        self.planning_time = float(given["planning_time"])
        self.max_velocity_scaling_factor = float(given["max_velocity_scaling_factor"])
        self.max_acceleration_scaling_factor = float(given["max_acceleration_scaling_factor"])


class RobotTrajectory:
    """moveit.core.robot_trajectory.RobotTrajectory."""

    def __init__(self, names: tuple[str, ...], motion: JointTrajectory) -> None:
        """Hold a motion."""
        self._names, self._motion = names, motion

    def get_robot_trajectory_msg(self, joint_filter: tuple[str, ...] = ()) -> Any:
        """Return a moveit_msgs/RobotTrajectory; its joints are in another order than the robot's, as MoveIt may do."""
        order = np.argsort(self._names)
        points = []
        for row in range(len(self._motion.times)):
            nanoseconds = round(float(self._motion.times[row]) * 1e9)
            points.append(
                SimpleNamespace(
                    positions=self._motion.positions[row, order].tolist(),
                    velocities=self._motion.velocities[row, order].tolist(),
                    accelerations=self._motion.accelerations[row, order].tolist(),
                    time_from_start=SimpleNamespace(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9),
                )
            )
        names = [self._names[i] for i in order]
        return SimpleNamespace(joint_trajectory=SimpleNamespace(joint_names=names, points=points))


class MotionPlanResponse:
    """moveit.core.planning_interface.MotionPlanResponse; true when a plan was found."""

    def __init__(self, trajectory: RobotTrajectory | None) -> None:
        """Hold what was found, or nothing."""
        self.trajectory = trajectory
        self.error_code = SimpleNamespace(val=_FAILURE if trajectory is None else _SUCCESS)

    def __bool__(self) -> bool:
        """Tell whether a plan was found."""
        return self.trajectory is not None


class PlanningComponent:
    """moveit.planning.PlanningComponent."""

    def __init__(self, moveit: MoveItPy) -> None:
        """Plan for the whole arm."""
        self._moveit = moveit
        self._start: np.ndarray | None = None
        self._goal: np.ndarray | PoseStamped | None = None

    def set_start_state(self, configuration_name: str | None = None, robot_state: RobotState | None = None) -> bool:
        """Set the start."""
        if (configuration_name is None) == (robot_state is None):
            raise ValueError("Must specify exactly one of configuration name and robot state")
        assert robot_state is not None  # named states are not used
        self._start = robot_state.get_joint_group_positions(GROUP)
        return True

    def set_goal_state(
        self,
        configuration_name: str | None = None,
        robot_state: RobotState | None = None,
        pose_stamped_msg: PoseStamped | None = None,
        pose_link: str | None = None,
    ) -> bool:
        """Set the goal: a state, or a pose of a link."""
        if (pose_stamped_msg is None) != (pose_link is None):
            raise ValueError("Must specify both message and corresponding link")
        if sum(x is not None for x in (configuration_name, robot_state, pose_stamped_msg)) != 1:
            raise ValueError("Must specify exactly one goal")
        if pose_link not in (None, TIP_LINK):
            raise ValueError(f"Unknown link {pose_link}")
        self._goal = pose_stamped_msg if robot_state is None else robot_state.get_joint_group_positions(GROUP)
        return True

    def plan(self, single_plan_parameters: PlanRequestParameters | None = None) -> MotionPlanResponse:
        """Plan with the scene as it is now."""
        assert single_plan_parameters is not None and self._start is not None
        line = single_plan_parameters.planner_id == "LIN"
        motion = self._line() if line else self._way(single_plan_parameters)
        names = self._moveit.robot.joint_names
        return MotionPlanResponse(None if motion is None else RobotTrajectory(names, motion))

    def _way(self, parameters: PlanRequestParameters) -> JointTrajectory | None:
        robot, scene, start, goal = self._moveit.robot, self._moveit.scene, self._start, self._goal
        assert isinstance(goal, np.ndarray) and start is not None
        lower, upper = robot.limits("lower"), robot.limits("upper")
        if scene.collides(start) or scene.collides(goal):
            return None
        corners = way_round(start, goal, lower, upper, lambda q: not scene.collides(q), _CHECKS)
        if corners is None:
            return None
        velocity = parameters.max_velocity_scaling_factor * robot.limits("velocity")
        acceleration = parameters.max_acceleration_scaling_factor * robot.limits("acceleration")
        return join([move(a, b, velocity, acceleration, 300.0, 0.05) for a, b in pairwise(corners)])

    def _line(self) -> JointTrajectory | None:
        moveit, goal, start = self._moveit, self._goal, self._start
        assert isinstance(goal, PoseStamped) and start is not None
        table_from_base = moveit.robot.table_from_base(moveit.table)
        turn = np.zeros(9)
        o, p = goal.pose.orientation, goal.pose.position
        mujoco.mju_quat2Mat(turn, np.array([o.w, o.x, o.y, o.z]))
        rotation = table_from_base[:3, :3] @ turn.reshape(3, 3)
        end = table_from_base[:3, :3] @ [p.x, p.y, p.z] + table_from_base[:3, 3]
        begin = moveit.chain.forward(start)[0][0]
        rows = [start]
        for share in np.linspace(0.0, 1.0, 20)[1:]:
            q, error = moveit.chain.solve((begin + share * (end - begin))[None], rotation[None], rows[-1][None])
            if error[0] > 1e-4 or moveit.scene.collides(q[0]):
                return None
            rows.append(q[0])
        positions = np.array(rows)
        times = np.linspace(0.0, 1.0, len(rows))
        velocities = np.gradient(positions, times, axis=0)
        velocities[[0, -1]] = 0.0
        return JointTrajectory(times, positions, velocities, np.zeros_like(positions))


class PlanningSceneMonitor:
    """moveit.planning.PlanningSceneMonitor."""

    def __init__(self, scene: PlanningScene) -> None:
        """Guard a scene."""
        self._scene = scene

    @contextmanager
    def read_write(self) -> Iterator[PlanningScene]:
        """Give the scene to change it."""
        yield self._scene

    @contextmanager
    def read_only(self) -> Iterator[PlanningScene]:
        """Give the scene to look at it."""
        yield self._scene


class MoveItPy:
    """moveit.planning.MoveItPy."""

    def __init__(
        self, node_name: str, config_dict: dict[str, Any], provide_planning_service: bool, *, made_for: Any
    ) -> None:
        """Refuse a configuration without what MoveIt cannot start without."""
        needed = {"robot_description", "robot_description_semantic", "planning_pipelines"}
        if node_name != "moveit_py" or not needed <= config_dict.keys():
            raise RuntimeError("Planning plugin name or robot description is missing")
        for name in config_dict["planning_pipelines"]["pipeline_names"]:
            if not config_dict[name]["planning_plugins"]:
                raise RuntimeError(f"no planning plugin for pipeline {name}")
        self.parameters = config_dict
        self.robot, self.table = made_for
        self.scene = PlanningScene(self.robot, self.table)
        self.chain = SerialChain.from_model(robot_model(self.robot, self.table), self.robot.joint_names, TIP_SITE)

    def get_planning_component(self, planning_component_name: str) -> PlanningComponent:
        """Return the planner of a group."""
        if planning_component_name != GROUP:
            raise RuntimeError(f"Group '{planning_component_name}' was not found")
        return PlanningComponent(self)

    def get_planning_scene_monitor(self) -> PlanningSceneMonitor:
        """Return the guard of the scene."""
        return PlanningSceneMonitor(self.scene)

    def get_robot_model(self) -> RobotModel:
        """Return the robot model."""
        return RobotModel(len(self.robot.joint_names))


class FakeMoveIt:
    """Stands in for what :func:`cue_arm.backends.moveit.load_moveit` returns; ``started`` keeps the instances."""

    PlanRequestParameters = PlanRequestParameters
    RobotState = RobotState
    CollisionObject = CollisionObject
    SolidPrimitive = SolidPrimitive
    Pose = Pose
    PoseStamped = PoseStamped

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        """Be for one robot; the real one reads it from robot_description."""
        self._made_for = robot, table
        self.started: list[MoveItPy] = []

    def MoveItPy(self, node_name: str, config_dict: dict[str, Any], provide_planning_service: bool) -> MoveItPy:  # noqa: N802
        """Start a fake MoveIt."""
        self.started.append(MoveItPy(node_name, config_dict, provide_planning_service, made_for=self._made_for))
        return self.started[-1]
