"""Joint motion along a tip path, by differential inverse kinematics (mink)."""

from __future__ import annotations

import mink
import mujoco
import numpy as np

from cue_arm.errors import UnreachableError
from cue_arm.stroke import TipPath
from cue_arm.trajectory import JointTrajectory, sample_times
from cue_core.table import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model

_CLOSE = 1e-7  # m and rad
_ITERATIONS = 8
_SMOOTH = 0.5  # share of the acceleration limits by which a spline through the points may differ from what is meant
_SINGULAR = 1e-3  # least singular value of the tip Jacobian that is still trusted
_SOLVER = "daqp"


class PathTracker:
    """Turns tip paths into joint positions, velocities and accelerations of one robot."""

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        """Build the kinematic model."""
        self._robot = robot
        self._model = robot_model(robot, table)
        self._data = mujoco.MjData(self._model)
        self._configuration = mink.Configuration(self._model)
        self._task = mink.FrameTask(TIP_SITE, "site", position_cost=1.0, orientation_cost=1.0)
        self._limits = [mink.ConfigurationLimit(self._model)]
        self._site = self._model.site(TIP_SITE).id
        self._body = int(self._model.site_bodyid[self._site])
        self._spare = self._model.nv > 6  # more joints than a pose of the tip asks for

    def follow(self, path: TipPath, start: np.ndarray, period: float) -> JointTrajectory:
        """Return the joint motion (n joints) along a path from a configuration at its begin [rad].

        Velocities and accelerations come from the tip's through the Jacobian, not from differences.

        Args:
            path: of the tip.
            start: (n,) configuration near the path's first pose [rad].
            period: between samples [s].

        Raises:
            UnreachableError: a pose on the way has no solution in this branch, or is singular.
        """
        times = sample_times(path.duration, period)
        position, velocity, acceleration = path.at(times)
        joints = len(start)
        q, qd, qdd = np.empty((len(times), joints)), np.empty((len(times), joints)), np.empty((len(times), joints))
        still, drift = np.zeros((2, joints))
        guess = np.array(start, float)
        for i in range(len(times)):
            for again in range(2 if self._spare and i else 1):
                if again:  # the tip leaves some of the motion open: there positions must follow the velocities
                    step = times[i] - times[i - 1]
                    drift = (qd[i] - qd[i - 1]) / step
                    guess = q[i - 1] + step * (qd[i - 1] + qd[i]) / 2 + step**2 / 12 * (qdd[i - 1] - qdd[i])
                q[i] = self._solve(position[i], path.rotation, guess, times[i])
                qd[i], qdd[i] = self._rates(q[i], velocity[i], acceleration[i], times[i], drift if i else still)
            if i + 1 < len(times):
                step = times[i + 1] - times[i]
                guess = q[i] + step * qd[i] + 0.5 * step**2 * qdd[i]
        self._check_smooth(times, q, qd, qdd)
        return JointTrajectory(times, q, qd, qdd)

    def _check_smooth(self, times: np.ndarray, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> None:
        """Refuse motion whose positions do not follow its velocities: a joint met its limit, and others made way."""
        step = np.diff(times)[:, None]
        off = np.diff(q, axis=0) - step * (qd[1:] + qd[:-1]) / 2 - step**2 / 12 * (qdd[:-1] - qdd[1:])
        # What a spline through the points would add to the accelerations.
        added = 6 * np.abs(off) / step**2 / self._robot.limits("acceleration")
        if added.max() > _SMOOTH:
            i, joint = np.unravel_index(int(np.argmax(added)), added.shape)
            raise UnreachableError(f"{self._robot.joint_names[joint]} would jump at {times[i]:.2f} s of the stroke")

    def efforts(self, motion: JointTrajectory) -> np.ndarray:
        """Return motor torques (samples, n) [N m], gravity, inertia and friction included."""
        rows = []
        for i in range(len(motion.times)):
            self._data.qpos[:] = motion.positions[i]
            self._data.qvel[:] = motion.velocities[i]
            self._data.qacc[:] = motion.accelerations[i]
            mujoco.mj_inverse(self._model, self._data)
            rows.append(self._data.qfrc_inverse.copy())
        return np.array(rows)

    def _solve(self, position: np.ndarray, rotation: np.ndarray, guess: np.ndarray, time: float) -> np.ndarray:
        pose = mink.SE3.from_rotation_and_translation(mink.SO3.from_matrix(rotation), position)
        self._task.set_target(pose)
        self._configuration.update(guess)
        for _ in range(_ITERATIONS):
            if np.abs(self._task.compute_error(self._configuration)).max() < _CLOSE:
                return self._configuration.q.copy()
            try:
                step = mink.solve_ik(
                    self._configuration, [self._task], 1.0, _SOLVER, damping=1e-12, limits=self._limits
                )
            except mink.NoSolutionFound:
                break
            self._configuration.integrate_inplace(step, 1.0)
        near = (
            np.abs(self._configuration.q - self._robot.limits("lower")),
            np.abs(self._configuration.q - self._robot.limits("upper")),
        )
        for side in near:
            if side.min() < 1e-3:
                raise UnreachableError(
                    f"{self._robot.joint_names[int(np.argmin(side))]} meets its limit at {time:.2f} s"
                )
        raise UnreachableError(f"no joint solution at {time:.2f} s of the stroke: out of reach or singular")

    def _rates(
        self, q: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, time: float, drift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return joint velocities and accelerations; of ``drift`` (n,) [rad/s^2], what the tip does not feel."""
        model, data = self._model, self._data
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self._site)
        if np.linalg.svd(jacobian, compute_uv=False)[-1] < _SINGULAR:
            raise UnreachableError(f"the arm is singular at {time:.2f} s of the stroke")
        inverse = np.linalg.pinv(jacobian)
        rates = inverse @ np.concatenate([velocity, np.zeros(3)])
        data.qvel[:] = rates
        mujoco.mj_comVel(model, data)
        change = np.zeros((6, model.nv))
        mujoco.mj_jacDot(model, data, change[:3], change[3:], data.site_xpos[self._site], self._body)
        wanted = np.concatenate([acceleration, np.zeros(3)]) - change @ rates
        return rates, inverse @ (wanted - jacobian @ drift) + drift if self._spare else inverse @ wanted
