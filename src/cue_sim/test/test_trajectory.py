"""Trajectories: splines, what is refused and with which code, stopping."""

from __future__ import annotations

import numpy as np
import pytest

from cue_sim.config_files import config_file
from cue_sim.robot import RobotConfig
from cue_sim.trajectory import (
    Follower,
    GoalError,
    JointTrajectory,
    Tolerances,
    TrajectoryCode,
    check_goal,
    check_motion,
    stopping,
)

ROBOT = RobotConfig.load(config_file("robots", "ur5e"))
HOME = ROBOT.home
STILL = np.zeros(6)


def _goal(move: float = 0.2, duration: float = 1.0, names: tuple[str, ...] = ROBOT.joint_names) -> JointTrajectory:
    times = np.array([0.0, duration])
    positions = np.stack([HOME, HOME + move])
    return check_goal(ROBOT, names, times, positions, np.zeros((2, 6)), np.zeros((2, 6)))


@pytest.mark.parametrize("order", [1, 3, 5])
def test_a_spline_passes_its_points_with_their_derivatives(order: int) -> None:
    generator = np.random.default_rng(3)
    points = generator.uniform(-1, 1, (3, 4, 6))
    times = np.array([0.0, 0.3, 0.5, 1.1])
    trajectory = JointTrajectory(times, points[0], points[1] if order >= 3 else None, points[2] if order >= 5 else None)
    for i, time in enumerate(times[:-1]):
        position, velocity, acceleration = trajectory.sample(time)
        np.testing.assert_allclose(position, points[0, i], atol=1e-12)
        if order >= 3:
            np.testing.assert_allclose(velocity, points[1, i], atol=1e-9)
        if order >= 5:
            np.testing.assert_allclose(acceleration, points[2, i], atol=1e-8)


def test_velocity_and_acceleration_are_the_derivatives() -> None:
    trajectory = JointTrajectory(np.array([0.0, 1.0]), np.stack([HOME, HOME + 1]), np.zeros((2, 6)), np.zeros((2, 6)))
    h = 1e-5
    before, now, after = (trajectory.sample(0.4 + k * h) for k in (-1, 0, 1))
    np.testing.assert_allclose(now[1], (after[0] - before[0]) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(now[2], (after[1] - before[1]) / (2 * h), rtol=1e-6)


def test_joints_may_come_in_any_order() -> None:
    order = [3, 1, 0, 5, 4, 2]
    positions = np.stack([HOME, HOME + 0.1 * np.arange(6)])
    names = [ROBOT.joint_names[i] for i in order]
    goal = check_goal(ROBOT, names, np.array([0.0, 1.0]), positions[:, order])
    np.testing.assert_array_equal(goal.positions, positions)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"names": ("a", "b")}, TrajectoryCode.INVALID_JOINTS, "shoulder_pan_joint"),
        ({"times": np.array([0.0, 0.0])}, TrajectoryCode.INVALID_GOAL, "increase"),
        ({"times": np.array([-0.1, 1.0])}, TrajectoryCode.INVALID_GOAL, "increase"),
        ({"times": np.empty(0), "positions": np.empty((0, 6))}, TrajectoryCode.INVALID_GOAL, "no points"),
        ({"positions": np.full((2, 6), np.nan)}, TrajectoryCode.INVALID_GOAL, "finite"),
        ({"velocities": np.zeros((2, 5))}, TrajectoryCode.INVALID_GOAL, "velocities need 6"),
    ],
)
def test_malformed_goals_are_refused_with_a_code(change: dict, code: TrajectoryCode, says: str) -> None:
    given = {
        "names": ROBOT.joint_names,
        "times": np.array([0.0, 1.0]),
        "positions": np.stack([HOME, HOME]),
        "velocities": None,
        **change,
    }
    with pytest.raises(GoalError, match=says) as caught:
        check_goal(ROBOT, given["names"], given["times"], given["positions"], given["velocities"])
    assert caught.value.code is code


def test_a_goal_that_begins_elsewhere_is_refused() -> None:
    with pytest.raises(GoalError, match="rad off at shoulder_pan_joint"):
        check_motion(ROBOT, _goal(), HOME + np.array([0.2, 0, 0, 0, 0, 0]), STILL)


def test_a_goal_beyond_a_limit_is_refused_and_says_which() -> None:
    with pytest.raises(GoalError, match="reaches velocity"):
        check_motion(ROBOT, _goal(move=1.0, duration=0.2), HOME, STILL)
    with pytest.raises(GoalError, match=r"elbow_joint reaches position 3\.1"):
        check_motion(ROBOT, _goal(move=1.0, duration=5.0), HOME, STILL)


def test_stopping_keeps_the_deceleration_and_ends_still() -> None:
    velocity = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.1])
    brake = stopping(HOME, velocity, np.full(6, 10.0))
    assert brake.duration == pytest.approx(0.3)
    for time in np.linspace(0, 0.29, 7):
        assert np.abs(brake.sample(time)[2]).max() <= 10.0 + 1e-9
    position, speed, _ = brake.sample(1.0)
    np.testing.assert_allclose(position, HOME + velocity * 0.15)
    assert not speed.any()


def test_the_follower_judges_path_and_goal() -> None:
    follower = Follower(ROBOT, HOME)
    tolerances = Tolerances(np.full(6, 0.05), np.full(6, 0.01), 0.2)

    follower.start(_goal(), tolerances, 10.0)
    follower.judge(10.5, HOME + 0.1)
    assert follower.active
    follower.judge(11.01, HOME + 0.2)
    assert follower.outcome == (TrajectoryCode.SUCCESSFUL, "")

    follower.start(_goal(), tolerances, 20.0)
    follower.judge(20.5, HOME + np.array([0.1, 0.1, 0.2, 0.1, 0.1, 0.1]))
    assert follower.outcome is not None and follower.outcome[0] is TrajectoryCode.PATH_TOLERANCE_VIOLATED
    assert "elbow_joint" in follower.outcome[1]

    follower.start(_goal(), tolerances, 30.0)
    follower.judge(31.1, HOME + 0.15)
    assert follower.active  # it may come late
    follower.judge(31.3, HOME + 0.15)
    assert follower.outcome is not None and follower.outcome[0] is TrajectoryCode.GOAL_TOLERANCE_VIOLATED
