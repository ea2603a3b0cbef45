"""Forward and inverse kinematics of a serial arm for many configurations at once (numpy, product of exponentials)."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

_DAMPING = 1e-3  # m^2: keeps steps short near singular poses; vanishes with the error, so convergence stays quadratic


@dataclass(frozen=True)
class SerialChain:
    """The hinge joints between the base and the cue tip, in the table frame.

    Attributes:
        names: of the joints, base first.
        axes: (n, 3) unit joint axes with every joint at zero.
        anchors: (n, 3) a point on each axis with every joint at zero [m].
        tip_position: (3,) of the tip with every joint at zero [m].
        tip_rotation: (3, 3) table_from_tip with every joint at zero.
        lower: (n,) joint limits [rad]; ``upper`` likewise.
    """

    names: tuple[str, ...]
    axes: np.ndarray
    anchors: np.ndarray
    tip_position: np.ndarray
    tip_rotation: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def from_model(cls, model: mujoco.MjModel, joint_names: tuple[str, ...], tip_site: str) -> SerialChain:
        """Read the chain from a MuJoCo model whose listed joints move the tip, base first."""
        data = mujoco.MjData(model)
        ids = [model.joint(name).id for name in joint_names]
        data.qpos[model.jnt_qposadr[ids]] = 0.0
        mujoco.mj_kinematics(model, data)
        site = model.site(tip_site).id
        return cls(
            names=tuple(joint_names),
            axes=data.xaxis[ids].copy(),
            anchors=data.xanchor[ids].copy(),
            tip_position=data.site_xpos[site].copy(),
            tip_rotation=data.site_xmat[site].reshape(3, 3).copy(),
            lower=model.jnt_range[ids, 0].copy(),
            upper=model.jnt_range[ids, 1].copy(),
        )

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return tip positions (m, 3) [m] and rotations (m, 3, 3) table_from_tip of configurations (m, n) [rad]."""
        rotation, offset, _, _ = self._links(np.atleast_2d(np.asarray(q, float)))
        return rotation @ self.tip_position + offset, rotation @ self.tip_rotation

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the tip Jacobians (m, 6, n) of configurations (m, n): linear [m/rad] above angular [-]."""
        rotation, offset, axes, anchors = self._links(np.atleast_2d(np.asarray(q, float)))
        tip = rotation @ self.tip_position + offset
        return np.concatenate([_cross(axes, tip[:, None] - anchors), axes], axis=2).transpose(0, 2, 1)

    def solve(
        self,
        position: np.ndarray,
        rotation: np.ndarray,
        start: np.ndarray,
        iterations: int = 12,
        tolerance: float = 1e-6,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Damped Newton from ``start`` (m, n) towards tip poses (m, 3) [m], (m, 3, 3); limits are not enforced.

        Returns:
            configurations (m, n) [rad] and the remaining error (m,): position [m] plus angle [rad].
        """
        q = np.array(start, float)
        error = np.full(len(q), np.inf)
        open_rows = np.arange(len(q))
        for step in range(iterations + 1):
            turn, offset, axes, anchors = self._links(q[open_rows])
            tip = turn @ self.tip_position + offset
            linear = position[open_rows] - tip
            angular = _rotation_vector(rotation[open_rows] @ (turn @ self.tip_rotation).transpose(0, 2, 1))
            size = np.linalg.norm(linear, axis=1) + np.linalg.norm(angular, axis=1)
            error[open_rows] = size
            keep = size > tolerance
            open_rows = open_rows[keep]
            if step == iterations or not len(open_rows):
                break
            axes, anchors, tip = axes[keep], anchors[keep], tip[keep]
            jacobian = np.concatenate([_cross(axes, tip[:, None] - anchors), axes], axis=2).transpose(0, 2, 1)
            twist = np.concatenate([linear[keep], angular[keep]], axis=1)
            gain = (_DAMPING * np.minimum(1.0, size[keep] ** 2))[:, None, None] * np.eye(6)
            square = jacobian @ jacobian.transpose(0, 2, 1) + gain + 1e-12 * np.eye(6)
            change = (jacobian.transpose(0, 2, 1) @ np.linalg.solve(square, twist[..., None]))[..., 0]
            largest = np.abs(change).max(axis=1, keepdims=True)
            q[open_rows] += change * np.minimum(1.0, 1.0 / np.maximum(largest, 1e-12))
        return q, error

    def _links(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the last link's motion (m, 3, 3), (m, 3) and each joint's axis and anchor (m, n, 3), table frame."""
        count, joints = q.shape
        rotation = np.broadcast_to(np.eye(3), (count, 3, 3))
        offset = np.zeros((count, 3))
        axes, anchors = np.empty((count, joints, 3)), np.empty((count, joints, 3))
        turns = _turns(self.axes, q)
        for i in range(joints):
            axes[:, i] = rotation @ self.axes[i]
            anchors[:, i] = rotation @ self.anchors[i] + offset
            offset = anchors[:, i] - (rotation @ (turns[:, i] @ self.anchors[i])[..., None])[..., 0]
            rotation = rotation @ turns[:, i]
        return rotation, offset, axes, anchors


def _turns(axes: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return rotation matrices (m, n, 3, 3) about axes (n, 3) by angles (m, n) [rad] (Rodrigues)."""
    x, y, z = axes.T
    zero = np.zeros_like(x)
    skew = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(-1, 3, 3)
    sine, versine = np.sin(q)[..., None, None], (1 - np.cos(q))[..., None, None]
    return np.eye(3) + sine * skew + versine * (skew @ skew)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross product along the last axis; np.cross is several times slower."""
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], -1)


def _rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return rotation vectors (m, 3) [rad] of matrices (m, 3, 3); near a half turn only the size is right."""
    sine = 0.5 * np.stack(
        [
            rotation[:, 2, 1] - rotation[:, 1, 2],
            rotation[:, 0, 2] - rotation[:, 2, 0],
            rotation[:, 1, 0] - rotation[:, 0, 1],
        ],
        -1,
    )
    size = np.linalg.norm(sine, axis=1)
    angle = np.arctan2(size, 0.5 * (np.trace(rotation, axis1=1, axis2=2) - 1))
    return sine * (angle / np.maximum(size, 1e-9))[:, None]
