"""The arm's position servo: computed torque at 500 Hz within the motors' effort, like an industrial controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from cue_core.checks import finite_in
from cue_sim.robot import RobotConfig


@dataclass(frozen=True)
class ServoConfig:
    """Gains of the servo.

    Attributes:
        rate: control cycles per second, a UR5e's [Hz].
        stiffness: pull back per position error [1/s^2].
        damping: pull back per velocity error [1/s].
    """

    rate: float = 500.0
    stiffness: float = 10000.0
    damping: float = 200.0

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
        """
        finite_in("servo rate", self.rate, 100.0, 2000.0, "Hz")
        finite_in("servo stiffness", self.stiffness, 1.0, 1e6, "1/s^2")
        finite_in("servo damping", self.damping, 0.1, 1e4, "1/s")


class Servo:
    """Joint torques for wanted joint motion, in a model that holds the robot of :func:`cue_sim.robot.add_robot`."""

    def __init__(self, model: Any, robot: RobotConfig, config: ServoConfig) -> None:
        """Find the robot's joints in the model.

        Raises:
            KeyError: the robot is not in it.
        """
        self._config = config
        self._qpos = np.array([int(model.joint(name).qposadr[0]) for name in robot.joint_names])
        self._dof = np.array([int(model.joint(name).dofadr[0]) for name in robot.joint_names])
        self._motor = np.array([int(model.actuator(name).id) for name in robot.joint_names])
        self._effort = robot.limits("effort")
        self._friction = model.dof_frictionloss[self._dof].copy()
        self._damping = np.ravel(model.dof_damping[self._dof]).copy()
        self._full = np.zeros((model.nv, model.nv))

    def positions(self, data: Any) -> np.ndarray:
        """Return the (6,) measured joint positions [rad]."""
        return data.qpos[self._qpos].copy()

    def velocities(self, data: Any) -> np.ndarray:
        """Return the (6,) measured joint velocities [rad/s]."""
        return data.qvel[self._dof].copy()

    def efforts(self, data: Any) -> np.ndarray:
        """Return the (6,) motor torques [N m]."""
        return data.ctrl[self._motor].copy()

    def place(self, data: Any, positions: np.ndarray) -> None:
        """Set the joints to (6,) [rad], still."""
        data.qpos[self._qpos] = positions
        data.qvel[self._dof] = 0.0

    def control(self, model: Any, data: Any, wanted: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Write motor torques for the wanted (6,) position, velocity and acceleration.

        Inertia and gravity terms are those of the last physics step, one step old, as a real controller's are.
        """
        position, velocity, acceleration = wanted
        mujoco.mj_fullM(model, data, self._full)
        inertia = self._full[np.ix_(self._dof, self._dof)]
        pull = (
            acceleration
            + self._config.damping * (velocity - data.qvel[self._dof])
            + self._config.stiffness * (position - data.qpos[self._qpos])
        )
        # Friction is known to a controller as a smooth model only; what is left of it is the tracking error.
        friction = self._friction * np.tanh(velocity / 0.02) + self._damping * velocity
        torque = inertia @ pull + data.qfrc_bias[self._dof] + 0.9 * friction
        data.ctrl[self._motor] = np.clip(torque, -self._effort, self._effort)
