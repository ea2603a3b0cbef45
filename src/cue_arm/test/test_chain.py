"""Kinematics of many configurations at once, against MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from cue_arm.chain import SerialChain
from cue_core import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model


@pytest.fixture
def chain(robot: RobotConfig, table: TableModel) -> SerialChain:
    return SerialChain.from_model(robot_model(robot, table), robot.joint_names, TIP_SITE)


def test_forward_kinematics_and_jacobian_are_mujocos(chain: SerialChain, robot: RobotConfig, table: TableModel) -> None:
    model = robot_model(robot, table)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    configurations = rng.uniform(-3, 3, (20, 6))
    positions, rotations = chain.forward(configurations)
    jacobians = chain.jacobian(configurations)
    for q, position, rotation, jacobian in zip(configurations, positions, rotations, jacobians, strict=True):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        expected = np.zeros((6, 6))
        mujoco.mj_jacSite(model, data, expected[:3], expected[3:], model.site(TIP_SITE).id)
        np.testing.assert_allclose(position, data.site(TIP_SITE).xpos, atol=1e-12)
        np.testing.assert_allclose(rotation, data.site(TIP_SITE).xmat.reshape(3, 3), atol=1e-12)
        np.testing.assert_allclose(jacobian, expected, atol=1e-12)


def test_inverse_kinematics_returns_to_the_pose(chain: SerialChain) -> None:
    rng = np.random.default_rng(1)
    q = np.array([0.3, -1.9, 2.0, -1.7, -1.5, 0.4]) + rng.uniform(-0.3, 0.3, (50, 6))
    position, rotation = chain.forward(q)
    found, error = chain.solve(position, rotation, q + rng.uniform(-0.1, 0.1, q.shape))
    assert error.max() < 1e-6
    again, _ = chain.forward(found)
    np.testing.assert_allclose(again, position, atol=1e-6)


def test_an_unreachable_pose_keeps_its_error(chain: SerialChain) -> None:
    _, rotation = chain.forward(np.zeros(6))
    _, error = chain.solve(np.array([[5.0, 0.0, 0.0]]), rotation, np.zeros((1, 6)))
    assert error[0] > 1.0
