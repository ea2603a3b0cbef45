"""Does the cue alone, led along a stroke, touch rails, cloth or balls? No arm: a few microseconds a pose."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from cue_arm.rails import rail_boxes
from cue_arm.stroke import TipPath
from cue_core.table import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model

_BALLS = 16
_AWAY = 5.0  # m: where unused balls wait


class CueAlone:
    """The cue of a robot over one table."""

    def __init__(self, robot: RobotConfig, table: TableModel, clearance: float) -> None:
        """Build the scene; anything nearer than ``clearance`` [m] counts as touching."""
        arm = robot_model(robot, table)
        cue = arm.body("cue").id
        spec = mujoco.MjSpec()
        body = spec.worldbody.add_body(name="cue")
        body.add_freejoint()  # MuJoCo lets bodies that cannot move touch nothing that cannot either
        for geom in np.flatnonzero(arm.geom_bodyid == cue):
            body.add_geom(
                name=arm.geom(geom).name,
                type=mujoco.mjtGeom(int(arm.geom_type[geom])),
                size=arm.geom_size[geom],
                pos=arm.geom_pos[geom],
                quat=arm.geom_quat[geom],
                contype=1,
                conaffinity=2,
                margin=clearance,
            )
        out = np.array([table.length, table.width]) / 2 + table.rail_width
        boxes = {"cloth": (np.array([*-out, -0.05]), np.array([*out, 0.0])), **rail_boxes(table)}
        for name, (low, high) in boxes.items():
            spec.worldbody.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_BOX,
                pos=list((low + high) / 2),
                size=list((high - low) / 2),
                contype=2,
                conaffinity=0,
            )
        for index in range(_BALLS):
            ball = spec.worldbody.add_body(name=f"ball_{index}", mocap=True, pos=[0, 0, _AWAY + index])
            ball.add_geom(
                name=f"ball {index}",
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[table.ball_radius, 0, 0],
                contype=2,
                conaffinity=0,
            )
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        self._clearance, self._radius = clearance, table.ball_radius
        self._tip = arm.site_pos[arm.site(TIP_SITE).id].copy()
        self._balls = [int(self._model.body(f"ball_{i}").mocapid[0]) for i in range(_BALLS)]

    def place_balls(self, balls: Mapping[int, np.ndarray]) -> None:
        """Put balls by id at (2,) [m]; all others are taken off the table."""
        for index, mocap in enumerate(self._balls):
            x, y = balls.get(index, (0.0, 0.0))
            self._data.mocap_pos[mocap] = (x, y, self._radius if index in balls else _AWAY + index)

    def touching(self, path: TipPath) -> str:
        """Return what the cue touches at the key poses of a path, in words; empty = nothing."""
        model, data = self._model, self._data
        mujoco.mju_mat2Quat(data.qpos[3:7], path.rotation.ravel())
        offset = path.rotation @ self._tip
        for position in path.key_positions()[1:4]:  # hovering above them it is farther from everything
            data.qpos[:3] = position - offset
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_collision(model, data)
            for i in range(data.ncon):
                if data.contact.dist[i] < self._clearance:
                    pair = [model.geom(g).name for g in data.contact.geom[i]]
                    return f"cue would touch {next(name for name in pair if not name.startswith('robot/'))}"
        return ""
