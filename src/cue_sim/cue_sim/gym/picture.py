"""Pictures of a table at rest, for ``render``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_sim.graphics import make_context
from cue_sim.gym.reward import Situation
from cue_sim.model import build_spec
from cue_sim.twin import Twin

PICTURE_SIZE = (640, 400)
"""Usual width and height [px]."""
SMALLEST_PICTURE, LARGEST_PICTURE = 16, 4096
"""Allowed width and height [px]."""
_VIEW = math.radians(40)  # vertical opening of the camera
_TILT = math.radians(65)  # of its line of sight above the cloth
_HIDDEN = -0.6  # where a ball out of play is put [m]: below the bed


def checked_size(size: Sequence[int]) -> tuple[int, int]:
    """Return a picture's width and height [px].

    Raises:
        CueError: they are not two, or out of range.
    """
    if len(size) != 2:
        raise FileFormatError("picture_size", f"needs width and height, got {size}")
    width, height = (int(finite_in("picture_size", v, SMALLEST_PICTURE, LARGEST_PICTURE, "px")) for v in size)
    return width, height


class TablePainter:
    """Draws a table from above one long side. All calls from one thread."""

    def __init__(self, twin: Twin, width: int, height: int) -> None:
        """Build the visible model and a context.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        table = twin.table
        spec = build_spec(table, twin.ball_ids, radii=twin.radii, masses=twin.masses)
        spec.visual.global_.offwidth, spec.visual.global_.offheight = width, height
        spec.visual.quality.offsamples = 4
        spec.visual.map.znear = 0.05
        spec.stat.extent = 1.0
        for ball in twin.ball_ids:  # balls out of play go below the table
            spec.body(f"ball_{ball}").add_joint(name=f"ball_{ball}_z", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1])
        goal = spec.worldbody.add_body(name="goal", mocap=True)
        goal.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            size=[table.ball_radius, 0.0005, 0],
            rgba=[1.0, 1.0, 1.0, 0.5],
            contype=0,
            conaffinity=0,
        )
        # the whole frame of the table in view, whichever side is the tight one
        half_x, half_y = table.length / 2 + table.rail_width, table.width / 2 + table.rail_width
        wide = half_x * height / width
        distance = 1.05 * max(wide, half_y * math.sin(_TILT)) / math.tan(_VIEW / 2) + half_y * math.cos(_TILT)
        back, up = math.cos(_TILT), math.sin(_TILT)
        spec.worldbody.add_camera(
            name="gym",
            pos=[0, -distance * back, distance * up],
            xyaxes=[1, 0, 0, 0, up, back],
            fovy=math.degrees(_VIEW),
        )
        self._ids = twin.ball_ids
        self._width, self._height = width, height
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        self._gl = make_context(width, height)
        self._scene = mujoco.MjvScene(self._model, maxgeom=1000)
        self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = self._model.camera("gym").id

    def paint(self, situation: Situation, goal: np.ndarray | None = None) -> np.ndarray:
        """Return an RGB picture (height, width, 3) of the balls in play, and of the goal as a pale disc.

        Args:
            situation: balls in the twin's order.
            goal: (2,) [m]; None = not shown.
        """
        self._gl.make_current()
        qpos = self._data.qpos
        for ball, place, shown in zip(self._ids, situation.positions, situation.in_play, strict=True):
            for axis, value in zip("xyz", (*place, 0.0 if shown else _HIDDEN), strict=True):
                qpos[self._model.joint(f"ball_{ball}_{axis}").qposadr[0]] = value
        self._data.mocap_pos[0] = [*goal, 0.0005] if goal is not None else [0, 0, _HIDDEN]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            mujoco.MjvOption(),
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        area = mujoco.MjrRect(0, 0, self._width, self._height)
        picture = np.empty((self._height, self._width, 3), np.uint8)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, area, self._context)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free the context."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()
