"""What the simulated camera looks at: the table, balls with shadows and the robot; nothing here has dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from cue_core.table import TableModel
from cue_sim.lens import CameraConfig, Pinhole
from cue_sim.robot import RobotConfig, add_robot
from cue_sim.scenery import add_scenery, dress_ball

CAMERA = "lens"
"""Name of the camera in the model."""
MOVING = 1
"""Geom group of everything that moves."""


def ball_body(ball_id: int) -> str:
    """Return the name of a ball's body, which is also that of its free joint."""
    return f"ball_{ball_id}"


def shadow_body(ball_id: int) -> str:
    """Return the name of the mocap body that carries a ball's shadow."""
    return f"shadow_{ball_id}"


def build_scene(
    table: TableModel, ball_ids: Sequence[int], robot: RobotConfig, camera: CameraConfig, ideal: Pinhole
) -> Any:
    """Return the compiled ``mujoco.MjModel`` of everything the camera sees, in the table frame.

    Balls hang on free joints named :func:`ball_body`, the camera is called :data:`CAMERA`.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "scene"
    spec.compiler.degree = False
    _quality(spec, ideal)
    add_scenery(spec, table)
    for ball_id in ball_ids:
        _ball(spec, table, ball_id)
    add_robot(spec, robot, table)
    for body in spec.bodies:
        for geom in body.geoms:
            if body.name != "world":
                geom.group = MOVING
    pose = camera.table_from_camera
    quaternion = np.zeros(4)
    # MuJoCo's cameras look along -z with y up; optical frames along z with y down.
    mujoco.mju_mat2Quat(quaternion, (pose[:3, :3] * np.array([1.0, -1.0, -1.0])).ravel())
    spec.worldbody.add_camera(
        name=CAMERA, pos=pose[:3, 3], quat=quaternion, fovy=float(np.degrees(ideal.vertical_view))
    )
    return spec.compile()


def _quality(spec: Any, ideal: Pinhole) -> None:
    spec.visual.quality.offsamples = 4
    spec.visual.quality.shadowsize = 1024
    spec.visual.global_.offwidth = ideal.width
    spec.visual.global_.offheight = ideal.height
    spec.visual.map.znear = 0.05
    spec.visual.map.zfar = 20.0
    spec.visual.map.shadowclip = 1.2
    spec.stat.extent = 1.0
    spec.stat.center = [0.0, 0.0, 0.0]
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 20, 12


def _ball(spec: Any, table: TableModel, ball_id: int) -> None:
    radius = table.ball_radius
    body = spec.worldbody.add_body(name=ball_body(ball_id), pos=[0, 0, radius])
    body.add_freejoint(name=ball_body(ball_id))
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], contype=0, conaffinity=0)
    dress_ball(spec, body, ball_id, radius, numbered=True)
    _shadow(spec, radius, ball_id)


def _shadow(spec: Any, radius: float, ball_id: int) -> None:
    """The soft shadow under a ball, as two wide lamps cast it."""
    body = spec.worldbody.add_body(name=shadow_body(ball_id), mocap=True)
    for k, size in enumerate((1.35, 1.15, 0.95, 0.75)):
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=[0, 0, 0.0002 * (k + 1)],
            size=[size * radius, 0.0001, 0],
            rgba=[0.0, 0.0, 0.0, 0.12],
            contype=0,
            conaffinity=0,
        )
