"""Joint trajectories as ros2_control's joint_trajectory_controller takes them: checks, splines, tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cue_core.errors import CueError
from cue_sim.robot import RobotConfig


class TrajectoryCode(IntEnum):
    """Error codes of ``control_msgs/action/FollowJointTrajectory``."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


class GoalError(CueError):
    """A trajectory goal is refused; ``code`` says why in the action's terms."""

    def __init__(self, code: TrajectoryCode, text: str) -> None:
        """Keep the code beside the text."""
        self.code = code
        super().__init__(text)


@dataclass(frozen=True)
class Tolerances:
    """How far the measured joints may be from the wanted ones.

    Attributes:
        path: (n,) on the way [rad].
        goal: (n,) at the end [rad].
        goal_time: how long after the end the goal may be reached [s].
    """

    path: np.ndarray
    goal: np.ndarray
    goal_time: float

    @classmethod
    def default(cls, joints: int = 6) -> Tolerances:
        """Return 0.1 rad on the way, 0.01 rad at the end, half a second, for an arm with that many joints."""
        return cls(np.full(joints, 0.1), np.full(joints, 0.01), 0.5)


@dataclass(frozen=True)
class JointTrajectory:
    """Way points, in the order of the robot's joints.

    Attributes:
        times: (n,) after the start, increasing [s].
        positions: (n, joints) [rad].
        velocities: (n, joints) [rad/s] or None: straight lines between the points.
        accelerations: (n, joints) [rad/s^2] or None: cubic splines; with them quintic ones.
    """

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray | None = None
    accelerations: np.ndarray | None = None

    @property
    def duration(self) -> float:
        """Return the time of the last point [s]."""
        return float(self.times[-1])

    def starting_from(self, position: np.ndarray, velocity: np.ndarray) -> JointTrajectory:
        """Return the trajectory that leaves from a state (n,), (n,) at time zero if it does not begin there itself."""
        if self.times[0] <= 0.0:
            return self
        still = np.zeros((1, len(position)))
        return JointTrajectory(
            np.concatenate([[0.0], self.times]),
            np.vstack([position, self.positions]),
            None if self.velocities is None else np.vstack([velocity, self.velocities]),
            None if self.accelerations is None else np.vstack([still, self.accelerations]),
        )

    def sample(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (n,) position, velocity and acceleration; still at the last point after the end."""
        if time >= self.times[-1] or len(self.times) == 1:
            still = np.zeros(self.positions.shape[1])
            return self.positions[-1].copy(), still, still.copy()
        i = max(int(np.searchsorted(self.times, time, side="right")) - 1, 0)
        span = self.times[i + 1] - self.times[i]
        coefficients = self._segment(i, span)
        t = max(time - self.times[i], 0.0)
        powers = t ** np.arange(len(coefficients))
        position = powers @ coefficients
        first = coefficients[1:] * np.arange(1, len(coefficients))[:, None]
        second = first[1:] * np.arange(1, len(first))[:, None]
        return position, powers[: len(first)] @ first, powers[: len(second)] @ second

    def _segment(self, i: int, span: float) -> np.ndarray:
        """Return (k, joints) polynomial coefficients of segment ``i``, lowest power first."""
        p0, p1 = self.positions[i], self.positions[i + 1]
        if self.velocities is None:
            zero = np.zeros_like(p0)
            return np.stack([p0, (p1 - p0) / span, zero, zero])
        v0, v1 = self.velocities[i], self.velocities[i + 1]
        move = p1 - p0
        if self.accelerations is None:
            square = (3 * move / span - 2 * v0 - v1) / span
            cube = (v0 + v1 - 2 * move / span) / span**2
            return np.stack([p0, v0, square, cube])
        a0, a1 = self.accelerations[i], self.accelerations[i + 1]
        third = (20 * move - (8 * v1 + 12 * v0) * span - (3 * a0 - a1) * span**2) / (2 * span**3)
        fourth = (-30 * move + (14 * v1 + 16 * v0) * span + (3 * a0 - 2 * a1) * span**2) / (2 * span**4)
        fifth = (12 * move - 6 * (v1 + v0) * span + (a1 - a0) * span**2) / (2 * span**5)
        return np.stack([p0, v0, a0 / 2, third, fourth, fifth])


_START_TOLERANCE = 0.05  # rad between the trajectory's first point at time zero and the robot
_LIMIT_SLACK = 1.02  # a planner that keeps the limits may exceed them by rounding and between its points
_CHECK_STEP = 0.008  # s: the spline is checked this densely, the rate of the joint states


def check_goal(
    robot: RobotConfig,
    joint_names: Sequence[str],
    times: np.ndarray,
    positions: np.ndarray,
    velocities: np.ndarray | None = None,
    accelerations: np.ndarray | None = None,
) -> JointTrajectory:
    """Return the trajectory in the robot's joint order if the robot can follow it.

    Args:
        robot: whose joints and limits count.
        joint_names: in any order, each exactly once.
        times: (n,) [s].
        positions: (n, joints) [rad] in the order of ``joint_names``; velocities and accelerations likewise or None.
        velocities: [rad/s].
        accelerations: [rad/s^2].

    Raises:
        GoalError: wrong joints, times, numbers or limits; says which.
    """
    if sorted(joint_names) != sorted(robot.joint_names):
        raise GoalError(
            TrajectoryCode.INVALID_JOINTS,
            f"joints are {', '.join(joint_names) or 'none'}; needs {', '.join(robot.joint_names)}",
        )
    if len(times) == 0:
        raise GoalError(TrajectoryCode.INVALID_GOAL, "the trajectory has no points")
    order = [list(joint_names).index(name) for name in robot.joint_names]
    columns: list[np.ndarray | None] = []
    for what, rows in (("positions", positions), ("velocities", velocities), ("accelerations", accelerations)):
        if rows is not None and (rows.shape != (len(times), len(order)) or not np.all(np.isfinite(rows))):
            raise GoalError(TrajectoryCode.INVALID_GOAL, f"{what} need {len(order)} finite numbers in every point")
        columns.append(None if rows is None else rows[:, order])
    if columns[1] is None:
        columns[2] = None
    if not np.all(np.isfinite(times)) or times[0] < 0.0 or np.any(np.diff(times) <= 0.0):
        raise GoalError(TrajectoryCode.INVALID_GOAL, "time_from_start must increase from point to point, from 0 on")
    assert columns[0] is not None  # for the type checker: positions are never None
    return JointTrajectory(np.asarray(times, float), columns[0], columns[1], columns[2])


def check_motion(
    robot: RobotConfig, trajectory: JointTrajectory, position: np.ndarray, velocity: np.ndarray
) -> JointTrajectory:
    """Return the trajectory from the robot's state (n,) [rad], (n,) [rad/s] on, if it keeps the limits all along.

    Raises:
        GoalError: it begins elsewhere or leaves a position or velocity limit.
    """
    if trajectory.times[0] <= 0.0:
        off = np.abs(trajectory.positions[0] - position)
        if np.any(off > _START_TOLERANCE):
            joint = int(np.argmax(off))
            raise GoalError(
                TrajectoryCode.INVALID_GOAL,
                f"begins {off[joint]:.3f} rad off at {robot.joint_names[joint]}, allowed is {_START_TOLERANCE}",
            )
    whole = trajectory.starting_from(position, velocity)
    lower, upper, fastest = robot.limits("lower"), robot.limits("upper"), robot.limits("velocity")
    for time in np.union1d(np.arange(0.0, whole.duration, _CHECK_STEP), whole.times):
        at, speed, _ = whole.sample(float(time))
        for bad, what, value, limit in (
            ((at < lower - 1e-6) | (at > upper + 1e-6), "position", at, np.where(at < lower, lower, upper)),
            (np.abs(speed) > _LIMIT_SLACK * fastest, "velocity", speed, fastest),
        ):
            if np.any(bad):
                joint = int(np.argmax(bad))
                raise GoalError(
                    TrajectoryCode.INVALID_GOAL,
                    f"{robot.joint_names[joint]} reaches {what} {value[joint]:.3f} at {time:.3f} s, "
                    f"its limit is {limit[joint]:.3f}",
                )
    return whole


def stopping(position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> JointTrajectory:
    """Return the trajectory that brings all joints from (n,) [rad], (n,) [rad/s] to rest together.

    Args:
        position: set point now.
        velocity: set point now.
        acceleration: (n,) largest [rad/s^2]; the slowest joint decides how long it takes.
    """
    time = max(float(np.max(np.abs(velocity) / acceleration)), 1e-3)
    end = position + 0.5 * velocity * time  # a cubic with these ends is the parabola of constant deceleration
    return JointTrajectory(
        np.array([0.0, time]), np.stack([position, end]), np.stack([velocity, np.zeros_like(velocity)])
    )


class Follower:
    """Follows one trajectory at a time and judges how well; holds the last set point otherwise. Times in s."""

    def __init__(self, robot: RobotConfig, position: np.ndarray) -> None:
        """Hold at ``position`` (n,) [rad]."""
        self._robot = robot
        self._trajectory = JointTrajectory(np.zeros(1), position[None].copy())
        self._tolerances = Tolerances.default(len(position))
        self._begin = 0.0
        self.active = False
        self.outcome: tuple[TrajectoryCode, str] | None = None

    def start(self, trajectory: JointTrajectory, tolerances: Tolerances, time: float) -> None:
        """Begin a trajectory that :func:`check_motion` returned; a former one is dropped."""
        self._trajectory, self._tolerances, self._begin = trajectory, tolerances, time
        self.active, self.outcome = True, None

    def stop(self, time: float) -> None:
        """Decelerate from the present set point and hold."""
        position, velocity, _ = self.set_point(time)
        self.brake(stopping(position, velocity, 0.5 * self._robot.limits("acceleration")), time)

    def brake(self, trajectory: JointTrajectory, time: float) -> None:
        """Follow a trajectory of :func:`stopping` that nobody asked for, and hold."""
        self._trajectory, self._begin, self.active = trajectory, time, False

    def set_point(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (n,) wanted position, velocity and acceleration."""
        return self._trajectory.sample(time - self._begin)

    def busy(self, time: float) -> bool:
        """Tell whether a trajectory is followed or the arm still brakes."""
        return self.active or time - self._begin < self._trajectory.duration

    def elapsed(self, time: float) -> float:
        """Return the time since the start [s]."""
        return time - self._begin

    def judge(self, time: float, position: np.ndarray) -> None:
        """Compare the measured (n,) position [rad] with the wanted one; ends the trajectory where that decides it."""
        if not self.active:
            return
        error = np.abs(position - self.set_point(time)[0])
        since = time - self._begin - self._trajectory.duration
        if since < 0.0:
            if np.any(error > self._tolerances.path):
                self._fail(TrajectoryCode.PATH_TOLERANCE_VIOLATED, error, self._tolerances.path, time)
        elif np.all(error <= self._tolerances.goal):
            self.active, self.outcome = False, (TrajectoryCode.SUCCESSFUL, "")
        elif since > self._tolerances.goal_time:
            self._fail(TrajectoryCode.GOAL_TOLERANCE_VIOLATED, error, self._tolerances.goal, time)

    def _fail(self, code: TrajectoryCode, error: np.ndarray, allowed: np.ndarray, time: float) -> None:
        joint = int(np.argmax(error / allowed))
        name = self._robot.joint_names[joint]
        self.stop(time)
        self.outcome = (code, f"{name} is {error[joint]:.4f} rad off, allowed is {allowed[joint]:.4f}")
