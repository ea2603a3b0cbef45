"""The simulated camera: renders the scene headless and does to the picture what lens and sensor do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import mujoco
import numpy as np

from cue_sim.graphics import make_context
from cue_sim.lens import Pinhole, lens_maps
from cue_sim.scene import CAMERA, MOVING, ball_body, build_scene, shadow_body
from cue_sim.world_config import WorldConfig

_NOISE_POOL = 1 << 22
_BLUR_STEPS = 3  # pictures added up for motion blur ...
_BLUR_FROM = 0.75  # ... when a ball moves this far [px] during the exposure


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


class Region(NamedTuple):
    """A rectangle of pixels; right and bottom lie just outside."""

    left: int
    top: int
    right: int
    bottom: int


def _merged(states: Sequence[tuple[Region, bytes]]) -> list[tuple[Region, bytes]]:
    """Unite rectangles that overlap, so that each pixel is drawn with everything that can be in it; drop empty ones."""
    todo = [s for s in states if s[0].right > s[0].left and s[0].bottom > s[0].top]
    done: list[tuple[Region, bytes]] = []
    while todo:
        region, state = todo.pop(0)
        for other in done:
            a = other[0]
            if a.left < region.right and region.left < a.right and a.top < region.bottom and region.top < a.bottom:
                done.remove(other)
                union = Region(
                    min(a.left, region.left),
                    min(a.top, region.top),
                    max(a.right, region.right),
                    max(a.bottom, region.bottom),
                )
                todo.append((union, other[1] + state))
                break
        else:
            done.append((region, state))
    return done


def ball_radius(model: Any, ball_id: int) -> float:
    """Return the radius [m] of a ball of a scene."""
    return float(model.geom_size[model.body(ball_body(ball_id)).geomadr[0], 0])


class Renderer:
    """Draws a scene from its camera. All calls from one thread.

    The table is drawn once; then only what surrounds balls and robot is drawn again, and only where something changed.
    A picture is still a function of the state alone, so that a frame drawn again is the same to the last bit.
    """

    def __init__(self, model: Any, ideal: Pinhole) -> None:
        """Make a context for pictures of the ideal camera's size, and draw the empty table.

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
        self._free = {model.joint(i).name: int(model.joint(i).qposadr[0]) for i in range(model.njnt)}
        self._robot = np.array([i for i in range(model.ngeom) if model.geom(i).name.startswith("robot/")])
        self._radii = model.geom_size[self._robot, 0]
        self._lengths = np.where(
            model.geom_type[self._robot] == mujoco.mjtGeom.mjGEOM_SPHERE, 0.0, model.geom_size[self._robot, 1]
        )
        self._drawn: dict[tuple[Region, bytes], np.ndarray] = {}
        self._option.geomgroup[MOVING] = 0
        self._update()
        self._empty = self._draw(Region(0, 0, ideal.width, ideal.height))
        self._option.geomgroup[MOVING] = 1

    def render(self, balls: Mapping[int, BallPose], joints: Mapping[str, float], ahead: float = 0.0) -> np.ndarray:
        """Return the ideal RGB picture (height, width, 3); ``ahead`` [s] moves the balls along their velocities."""
        self._gl.make_current()  # another renderer of this thread may have come in between
        qpos = self._data.qpos
        states: list[tuple[Region, bytes]] = []
        for name, angle in joints.items():
            qpos[self._free[name]] = round(angle, 6)  # the servo's trembling is no reason to draw again
        for ball_id, ball in balls.items():
            at = self._free[ball_body(ball_id)]
            # A ball in a pocket lies in the dark below the table.
            place = np.array([0.0, 0.0, -0.5]) if ball.pocketed else ball.position + ahead * ball.velocity
            qpos[at : at + 3], qpos[at + 3 : at + 7] = place, ball.orientation
            shadow = self._model.body(shadow_body(ball_id)).mocapid[0]
            self._data.mocap_pos[shadow] = [place[0], place[1], min(place[2] - ball_radius(self._model, ball_id), 0.0)]
        self._update()
        for ball_id, ball in balls.items():
            if not ball.pocketed:
                at = self._free[ball_body(ball_id)]
                radius = 1.6 * ball_radius(self._model, ball_id)
                states.append((self._region(qpos[at : at + 3][None], np.array([radius])), qpos[at : at + 7].tobytes()))
        angles = np.array([qpos[self._free[name]] for name in joints])
        states.append((self._robot_region(), angles.tobytes()))
        picture = self._empty.copy()
        drawn = {}
        for region, state in _merged(states):
            part = self._drawn.get((region, state))
            if part is None:
                part = self._draw(region)
            drawn[region, state] = part
            picture[region.top : region.bottom, region.left : region.right] = part
        if ahead == 0.0:
            self._drawn = drawn
        return picture

    def _update(self) -> None:
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )

    def _draw(self, region: Region) -> np.ndarray:
        """Draw one region, through the part of the frustum that belongs to it."""
        width, height = region.right - region.left, region.bottom - region.top
        for eye in self._scene.camera:
            pixel = float(eye.frustum_near) / self._ideal.focal
            eye.frustum_center = (0.5 * (region.left + region.right) - 0.5 * self._ideal.width) * pixel
            eye.frustum_width = 0.5 * width * pixel
            eye.frustum_top = (0.5 * self._ideal.height - region.top) * pixel
            eye.frustum_bottom = (0.5 * self._ideal.height - region.bottom) * pixel
        area = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, area, self._context)
        return picture[::-1]

    def _region(self, places: np.ndarray, radii: np.ndarray) -> Region:
        """Return the part of the picture that spheres at (n, 3) places [m] can touch; empty when all are outside."""
        axes = self._data.cam_xmat[self._camera.fixedcamid].reshape(3, 3)
        x, y, z = ((places - self._data.cam_xpos[self._camera.fixedcamid]) @ axes).T
        depth = np.maximum(-z - radii, 0.05)
        scale = self._ideal.focal / depth
        u, v, r = scale * x, -scale * y, scale * radii * 1.2 + 2.0
        # A sphere at the edge of the picture reaches further out than in its middle: 1.2 covers views up to 90 degrees.
        width, height = self._ideal.width, self._ideal.height
        left = int(np.clip(np.floor((u - r).min() + 0.5 * width), 0, width))
        right = int(np.clip(np.ceil((u + r).max() + 0.5 * width), 0, width))
        top = int(np.clip(np.floor((v - r).min() + 0.5 * height), 0, height))
        bottom = int(np.clip(np.ceil((v + r).max() + 0.5 * height), 0, height))
        return Region(left, top, max(right, left), max(bottom, top))

    def _robot_region(self) -> Region:
        centres = self._data.geom_xpos[self._robot]
        axes = self._data.geom_xmat[self._robot].reshape(-1, 3, 3)[:, :, 2] * self._lengths[:, None]
        steps = np.linspace(-1.0, 1.0, 9)[:, None, None]
        places = (centres + steps * axes).reshape(-1, 3)
        return self._region(places, np.tile(self._radii, 9))

    def close(self) -> None:
        """Free the context."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


class SimulatedCamera:
    """Lens and sensor in front of a renderer: the same frame gives the same picture, bit for bit."""

    def __init__(self, world: WorldConfig, prepare: Callable[[Any], None] | None = None) -> None:
        """Build the scene of a world.

        Args:
            world: that is looked at.
            prepare: told the scene's ``mujoco.MjModel`` before anything is drawn, for other lamps or colours.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        self._camera = world.camera
        self._seed = world.seed
        ideal, self._map_x, self._map_y = lens_maps(world.camera)
        # Fixed-point maps halve the time of the look-up.
        self._map_x, self._map_y = cv2.convertMaps(self._map_x, self._map_y, cv2.CV_16SC2)
        model = build_scene(world.table, world.ball_ids, world.robot, world.camera, ideal)
        if prepare is not None:
            prepare(model)
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
