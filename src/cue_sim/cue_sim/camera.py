"""The simulated camera: renders the scene headless and does to the picture what lens and sensor do."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import mujoco
import numpy as np

from cue_core.errors import CueError
from cue_sim.lens import Pinhole, lens_maps
from cue_sim.scene import CAMERA, ball_body, build_scene
from cue_sim.world_config import WorldConfig

_BACKENDS = ("egl", "osmesa")
_NOISE_POOL = 1 << 22
_BLUR_STEPS = 3  # pictures added up for motion blur ...
_BLUR_FROM = 0.75  # ... when a ball moves this far [px] during the exposure


class NoGraphicsError(CueError):
    """No OpenGL context without a display can be made."""


@dataclass(frozen=True)
class BallPose:
    """One ball as the camera meets it, in the table frame.

    Attributes:
        position: (3,) [m].
        orientation: (4,) unit quaternion wxyz, table_from_ball.
        velocity: (3,) [m/s].
        pocketed: not to be seen.
    """

    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    pocketed: bool = False


def make_context(width: int, height: int) -> Any:
    """Return a current OpenGL context: EGL, else OSMesa; ``MUJOCO_GL`` picks one. Belongs to the calling thread.

    Raises:
        NoGraphicsError: none works; one line says what was tried.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower()
    problems = []
    for name in (asked,) if asked in _BACKENDS else _BACKENDS:
        os.environ["PYOPENGL_PLATFORM"] = name
        try:
            context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            context.make_current()
            return context
        except Exception as error:  # PyOpenGL raises whatever its loader met
            problems.append(f"{name}: {' '.join(str(error).split()) or type(error).__name__}")
    raise NoGraphicsError(
        "no OpenGL without a display (" + "; ".join(problems) + "); install libegl1 and libgl1-mesa-dri, or libosmesa6"
    )


class Renderer:
    """Draws a scene from its camera. All calls from one thread."""

    def __init__(self, model: Any, ideal: Pinhole) -> None:
        """Make a context for pictures of the ideal camera's size.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        self._model, self._ideal = model, ideal
        self._data = mujoco.MjData(model)
        self._gl = make_context(ideal.width, ideal.height)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        # Shadow maps would double the time of a picture in software.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(CAMERA).id
        self._picture = np.empty((ideal.height, ideal.width, 3), np.uint8)
        self._free = {model.joint(i).name: int(model.joint(i).qposadr[0]) for i in range(model.njnt)}

    def render(self, balls: Mapping[int, BallPose], joints: Mapping[str, float], ahead: float = 0.0) -> np.ndarray:
        """Return the ideal RGB picture (height, width, 3); ``ahead`` [s] moves the balls along their velocities."""
        qpos = self._data.qpos
        for ball_id, ball in balls.items():
            at = self._free[ball_body(ball_id)]
            # A ball in a pocket lies in the dark below the table.
            qpos[at : at + 3] = (0.0, 0.0, -0.5) if ball.pocketed else ball.position + ahead * ball.velocity
            qpos[at + 3 : at + 7] = ball.orientation
        for name, angle in joints.items():
            qpos[self._free[name]] = angle
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        area = mujoco.MjrRect(0, 0, self._ideal.width, self._ideal.height)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(self._picture, None, area, self._context)
        return self._picture[::-1]

    def close(self) -> None:
        """Free the context."""
        self._context.free()
        self._gl.free()


class SimulatedCamera:
    """Lens and sensor in front of a renderer: the same frame gives the same picture, bit for bit."""

    def __init__(self, world: WorldConfig) -> None:
        """Build the scene of a world.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        self._camera = world.camera
        self._seed = world.seed
        ideal, self._map_x, self._map_y = lens_maps(world.camera)
        # Fixed-point maps halve the time of the look-up.
        self._map_x, self._map_y = cv2.convertMaps(self._map_x, self._map_y, cv2.CV_16SC2)
        model = build_scene(world.table, world.ball_ids, world.robot, world.camera, ideal)
        self._renderer = Renderer(model, ideal)
        generator = np.random.default_rng([world.seed, 0x6E6F6973])
        self._noise = (world.camera.noise * generator.standard_normal(_NOISE_POOL, dtype=np.float32)).astype(np.float16)
        self._noise = np.clip(np.rint(self._noise), -127, 127).astype(np.int8)

    def picture(self, frame: int, balls: Mapping[int, BallPose], joints: Mapping[str, float]) -> np.ndarray:
        """Return the BGR picture (height, width, 3) of a frame."""
        camera = self._camera
        fastest = max((float(np.linalg.norm(b.velocity)) for b in balls.values() if not b.pocketed), default=0.0)
        shift = fastest * camera.exposure * float(camera.focal.max()) / max(float(camera.position[2]), 0.1)
        if shift < _BLUR_FROM:
            ideal = self._renderer.render(balls, joints)
        else:
            moments = camera.exposure * ((np.arange(_BLUR_STEPS) + 0.5) / _BLUR_STEPS - 0.5)
            sum_ = np.zeros(self._renderer.render(balls, joints, 0.0).shape, np.uint16)
            for moment in moments:
                sum_ += self._renderer.render(balls, joints, float(moment))
            ideal = (sum_ // _BLUR_STEPS).astype(np.uint8)
        picture = cv2.remap(ideal, self._map_x, self._map_y, cv2.INTER_LINEAR)
        picture = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        if camera.blur > 0:
            picture = cv2.GaussianBlur(picture, (0, 0), camera.blur)
        if camera.gain != 1.0:
            picture = cv2.convertScaleAbs(picture, alpha=camera.gain)
        if camera.noise > 0:
            start = np.random.default_rng([self._seed, frame]).integers(0, _NOISE_POOL - picture.size)
            noise = self._noise[start : start + picture.size].reshape(picture.shape)
            picture = cv2.add(picture, noise, dtype=cv2.CV_8U)
        return picture

    def close(self) -> None:
        """Free the graphics."""
        self._renderer.close()


def write_png(path: str, picture: np.ndarray) -> None:
    """Write a BGR picture.

    Raises:
        CueError: it cannot be written.
    """
    if not cv2.imwrite(path, picture):
        raise CueError(f"{path}: cannot be written")


def ball_poses(
    ids: Sequence[int], positions: np.ndarray, radius: float, pocketed: Sequence[bool] | None = None
) -> dict[int, BallPose]:
    """Return still balls on the cloth at (n, 2) positions [m]; for tests and pictures."""
    upright = np.array([1.0, 0.0, 0.0, 0.0])
    gone = [False] * len(ids) if pocketed is None else pocketed
    return {
        i: BallPose(np.array([*position, radius]), upright, np.zeros(3), bool(out))
        for i, position, out in zip(ids, positions, gone, strict=True)
    }
