"""Motion between two joint configurations at rest, time-optimal within speed, acceleration and jerk limits (Ruckig)."""

from __future__ import annotations

import numpy as np
import ruckig

from cue_arm.errors import UnreachableError
from cue_arm.trajectory import JointTrajectory, sample_times


def move(
    start: np.ndarray,
    goal: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    jerk: float,
    period: float,
) -> JointTrajectory:
    """Return the motion from rest at ``start`` to rest at ``goal``, straight in joint space.

    Args:
        start: (n,) [rad].
        goal: (n,) [rad].
        velocity: (n,) largest speeds [rad/s].
        acceleration: (n,) largest accelerations [rad/s^2].
        jerk: largest of every joint [rad/s^3].
        period: between samples [s].

    Raises:
        UnreachableError: Ruckig finds none (a number is not finite or a limit not positive).
    """
    joints = len(start)
    if np.abs(goal - start).max() < 1e-9:
        still = np.zeros((2, joints))
        return JointTrajectory(np.array([0.0, period]), np.stack([start, goal]), still, still)
    problem = ruckig.InputParameter(joints)
    problem.current_position, problem.target_position = list(start), list(goal)
    problem.max_velocity, problem.max_acceleration = list(velocity), list(acceleration)
    problem.max_jerk = [jerk] * joints
    problem.synchronization = ruckig.Synchronization.Phase
    solution = ruckig.Trajectory(joints)
    result = ruckig.Ruckig(joints).calculate(problem, solution)
    if result not in (ruckig.Result.Working, ruckig.Result.Finished):
        raise UnreachableError(
            f"no motion from {np.round(start, 3).tolist()} to {np.round(goal, 3).tolist()}: {result}"
        )
    times = sample_times(solution.duration, period)
    rows = np.array([solution.at_time(float(t))[:3] for t in times])
    rows[0, 0], rows[-1, 0] = start, goal
    rows[[0, -1], 1:] = 0.0
    return JointTrajectory(times, rows[:, 0], rows[:, 1], rows[:, 2])
