"""The URDF for RViz and MoveIt is the same robot as the MuJoCo model."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from cue_core.table import TableModel
from cue_sim.robot import RobotConfig, robot_model
from cue_sim.urdf import robot_urdf

CONFIG = Path(__file__).resolve().parents[3] / "config"
ROBOTS = sorted(path.stem for path in (CONFIG / "robots").glob("*.yaml"))
LONG = {int(mujoco.mjtGeom.mjGEOM_CAPSULE), int(mujoco.mjtGeom.mjGEOM_CYLINDER)}
KEEP_ALL = '<mujoco><compiler fusestatic="false" discardvisual="true" balanceinertia="false"/></mujoco>'


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_and_mjcf_are_the_same_robot(name):
    robot = RobotConfig.load(CONFIG / "robots" / f"{name}.yaml")
    table = TableModel.load(CONFIG / "tables" / "small.yaml")
    mine = robot_model(robot, table)
    text = robot_urdf(robot)
    other = mujoco.MjModel.from_xml_string(text.replace("</robot>", f"{KEEP_ALL}</robot>"))
    assert [other.joint(i).name for i in range(other.njnt)] == list(robot.joint_names)
    np.testing.assert_allclose(other.jnt_range, mine.jnt_range, atol=1e-6)
    a, b = mujoco.MjData(mine), mujoco.MjData(other)
    table_from_base = robot.table_from_base(table)
    rng = np.random.default_rng(1)
    for _ in range(5):
        a.qpos[:] = b.qpos[:] = rng.uniform(robot.limits("lower"), robot.limits("upper"))
        mujoco.mj_kinematics(mine, a)
        mujoco.mj_comPos(mine, a)
        mujoco.mj_kinematics(other, b)
        mujoco.mj_comPos(other, b)
        for body in [*(joint.replace("_joint", "_link") for joint in robot.joint_names), "cue"]:
            here, there = a.body(body), b.body(body)
            np.testing.assert_allclose(here.xpos, placed(table_from_base, there.xpos), atol=1e-6)
            turned = table_from_base[:3, :3] @ there.xmat.reshape(3, 3)
            np.testing.assert_allclose(here.xmat.reshape(3, 3), turned, atol=1e-6)
            np.testing.assert_allclose(here.xipos, placed(table_from_base, there.xipos), atol=1e-6)
            assert mine.body(body).mass == pytest.approx(other.body(body).mass)
        for site in ("tool0", "cue_tip"):
            np.testing.assert_allclose(a.site(site).xpos, placed(table_from_base, b.body(site).xpos), atol=1e-6)
        np.testing.assert_allclose(capsules(mine, a, np.eye(4)), capsules(other, b, table_from_base), atol=1e-6)


def placed(target_from_source, points):
    """Return points (..., 3) in the target frame."""
    return points @ target_from_source[:3, :3].T + target_from_source[:3, 3]


def capsules(model, data, table_from_model):
    """Return (k, 7): middle, half axis up to its sign, and radius of every capsule or of its cylinder."""
    rows = []
    for i in range(model.ngeom):
        if int(model.geom_type[i]) not in LONG:
            continue
        if model.geom(i).name == "robot/pedestal":
            continue
        axis = table_from_model[:3, :3] @ data.geom_xmat[i].reshape(3, 3)[:, 2] * model.geom_size[i, 1]
        rows.append([*placed(table_from_model, data.geom_xpos[i]), *np.abs(axis), model.geom_size[i, 0]])
    rows = np.array(rows)
    return rows[np.lexsort(np.round(rows, 4).T)]
