"""A small ray-cast table for tests: images whose truth is known to the micrometre, without any OpenGL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from cue_core.balls import ball_colour
from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics

SMALL = TableModel(
    name="small",
    length=1.06,
    width=0.53,
    ball_radius=0.01905,
    ball_mass=0.04,
    nose_height=0.0242,
    corner_mouth=0.070,
    side_mouth=0.074,
    corner_shelf=0.012,
    side_shelf=0.003,
    rail_width=0.07,
)


def look_at(
    lens: Intrinsics,
    position: tuple[float, float, float],
    target: tuple[float, float, float] = (0.0, 0.0, 0.0),
    roll: float = 0.0,
) -> Camera:
    """Return a camera at a position [m] that looks at a target; image up is as near to +y as may be, then rolled."""
    eye = np.array(position, float)
    forward = np.array(target, float) - eye
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 1.0, 0.0] if abs(forward[1]) < 0.999 else [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    c, s = np.cos(roll), np.sin(roll)
    rotation = np.stack([c * right + s * down, c * down - s * right, forward])
    return Camera(lens, rotation, -rotation @ eye)


def lens_640(distortion: Sequence[float] = (-0.12, 0.03, 0.0005, -0.0004, 0.0)) -> Intrinsics:
    """Return a 640x360 lens, 1.15 rad wide."""
    lens = Intrinsics.guess(640, 360, 1.15)
    return Intrinsics(640, 360, lens.matrix + np.array([[0, 0, 1.7], [0, 0, -2.3], [0, 0, 0]]), np.array(distortion))


@dataclass
class Scene:
    """A table with balls under a lamp.

    Attributes:
        camera: that looks.
        table: geometry.
        cloth: RGB 0..1.
        floor: RGB 0..1 of everything around the frame.
        noise: standard deviation [grey levels].
        blur: Gaussian sigma [px].
        highlights: lamps mirrored in each ball.
        samples: rays per pixel side.
    """

    camera: Camera
    table: TableModel = SMALL
    cloth: tuple[float, float, float] = (0.10, 0.35, 0.62)
    wood: tuple[float, float, float] = (0.33, 0.20, 0.11)
    floor: tuple[float, float, float] = (0.42, 0.40, 0.38)
    noise: float = 1.5
    blur: float = 0.6
    highlights: int = 1
    samples: int = 3
    shadows: bool = True
    light: tuple[float, float, float] = (0.3, 0.2, 1.6)
    _background: np.ndarray | None = field(default=None, repr=False)

    def _rays(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        normalised = self.camera.intrinsics.undistort(np.column_stack([u.ravel(), v.ravel()]))
        rays = np.column_stack([normalised, np.ones(len(normalised))]) @ self.camera.rotation
        return rays / np.linalg.norm(rays, axis=1, keepdims=True)

    def _at(self, rays: np.ndarray, height: float) -> np.ndarray:
        scale = (height - self.camera.position[2]) / np.minimum(rays[:, 2], -1e-6)
        return self.camera.position[:2] + rays[:, :2] * scale[:, None]

    def _in_mouth(self, p: np.ndarray) -> np.ndarray:
        t = self.table
        x, y = np.abs(p[:, 0]), np.abs(p[:, 1])
        corner = t.length / 2 - x + t.width / 2 - y < t.corner_mouth / np.sqrt(2)
        side = (x < t.side_mouth / 2) & (y > t.width / 2)
        return corner | side

    def _solid_top(self, p: np.ndarray) -> np.ndarray:
        t = self.table
        outside = (np.abs(p[:, 0]) > t.length / 2) | (np.abs(p[:, 1]) > t.width / 2)
        return outside & ~(self._in_mouth(p) & self._near_pocket(p))

    def _near_pocket(self, p: np.ndarray) -> np.ndarray:
        return np.any([np.hypot(*(p - k.position).T) < 1.25 * k.radius for k in self.table.pockets], axis=0)

    def _shade_table(self, rays: np.ndarray, balls: np.ndarray) -> np.ndarray:
        t = self.table
        top, bed = self._at(rays, t.nose_height), self._at(rays, 0.0)
        cloth = np.array(self.cloth)
        colour = np.empty((len(rays), 3))
        colour[:] = cloth
        light = np.array(self.light)
        falloff = light[2] ** 2 / (light[2] ** 2 + 0.6 * np.sum((bed - light[:2]) ** 2, axis=1))
        if self.shadows:
            for ball in balls:
                away = (ball - light[:2]) * t.ball_radius / (light[2] - t.ball_radius)
                d = np.hypot(*(bed - ball - away).T) / t.ball_radius
                falloff *= 1 - 0.35 * np.clip((1.15 - d) / 0.3, 0, 1)
        colour *= falloff[:, None]
        hole = np.any([np.hypot(*(bed - k.position).T) < k.radius for k in t.pockets], axis=0)
        colour[hole] = 0.03
        face = ((np.abs(bed[:, 0]) > t.length / 2) | (np.abs(bed[:, 1]) > t.width / 2)) & ~self._in_mouth(bed)
        colour[face] = 0.55 * cloth
        solid = self._solid_top(top)
        colour[solid] = 0.78 * cloth
        reach = np.maximum(np.abs(top[:, 0]) - t.length / 2, np.abs(top[:, 1]) - t.width / 2)
        colour[solid & (reach > 0.03)] = self.wood
        colour[reach > t.rail_width] = self.floor
        pocket_top = self._near_pocket(top) & self._in_mouth(top) & (reach > 0)
        deep = (
            pocket_top
            & np.any([np.hypot(*(bed - k.position).T) > k.radius for k in t.pockets], axis=0)
            & ((np.abs(bed[:, 0]) > t.length / 2 + 0.02) | (np.abs(bed[:, 1]) > t.width / 2 + 0.02))
        )
        colour[deep] = 0.05
        return colour

    def _shade_balls(self, rays: np.ndarray, colour: np.ndarray, balls: dict[int, np.ndarray]) -> None:
        t, eye, light = self.table, self.camera.position, np.array(self.light)
        solid = self._solid_top(self._at(rays, t.nose_height))
        nearest = np.full(len(rays), np.inf)
        for ball_id, position in balls.items():
            offset = eye - np.array([*position, t.ball_radius])
            b = rays @ offset
            disc = b * b - (offset @ offset - t.ball_radius**2)
            distance = -b - np.sqrt(np.maximum(disc, 0))
            hit = (disc > 0) & (distance < nearest)
            point = eye + rays * distance[:, None]
            hit &= ~(solid & (point[:, 2] < t.nose_height))
            nearest[hit] = distance[hit]
            normal = (point[hit] - [*position, t.ball_radius]) / t.ball_radius
            to_light = light - point[hit]
            to_light /= np.linalg.norm(to_light, axis=1, keepdims=True)
            shade = 0.45 + 0.55 * np.clip(np.sum(normal * to_light, axis=1), 0, 1)
            base = np.array(ball_colour(ball_id)[1]) * np.ones((int(hit.sum()), 1))
            if ball_id > 8:
                base[np.abs(normal[:, 1]) > 0.6] = ball_colour(0)[1]
            shown = base * shade[:, None]
            for k in range(self.highlights):
                lamp = light + 0.5 * k * np.array([np.cos(2.1 * k), np.sin(2.1 * k), 0])
                half = (lamp - point[hit]) / np.linalg.norm(lamp - point[hit], axis=1, keepdims=True) - rays[hit]
                half /= np.linalg.norm(half, axis=1, keepdims=True)
                glint = np.clip(np.sum(normal * half, axis=1), 0, 1) ** 180
                shown += glint[:, None] * (1 - shown)
            colour[hit] = shown

    def _cast(self, x0: int, y0: int, x1: int, y1: int, balls: dict[int, np.ndarray]) -> np.ndarray:
        n = self.samples
        step = (np.arange(n) - (n - 1) / 2) / n
        u = (np.arange(x0, x1)[:, None] + step).ravel()
        v = (np.arange(y0, y1)[:, None] + step).ravel()
        rays = self._rays(*np.meshgrid(u, v))
        colour = self._shade_table(rays, np.array([b for b in balls.values()]).reshape(-1, 2))
        self._shade_balls(rays, colour, balls)
        return colour.reshape(y1 - y0, n, x1 - x0, n, 3).mean(axis=(1, 3))

    def background(self) -> np.ndarray:
        """Return the empty table (h, w, 3) RGB 0..1, without noise and blur."""
        if self._background is None:
            lens = self.camera.intrinsics
            self._background = self._cast(0, 0, lens.width, lens.height, {})
        return self._background

    def clean(self, balls: dict[int, np.ndarray]) -> np.ndarray:
        """Return the image (h, w, 3) RGB 0..1 with balls {id: (2,) [m]}, without noise and blur."""
        image, lens = self.background().copy(), self.camera.intrinsics
        for _ball_id, position in balls.items():
            near = {i: p for i, p in balls.items() if np.hypot(*(p - position)) < 7 * self.table.ball_radius}
            u, v = self.camera.project(np.array([*position, self.table.ball_radius]))
            scale = np.linalg.norm(self.camera.jacobian(position[None], self.table.ball_radius)[0], axis=0).max()
            half = int(np.ceil(2.2 * self.table.ball_radius * scale)) + 2
            x0, y0 = max(int(u) - half, 0), max(int(v) - half, 0)
            x1, y1 = min(int(u) + half, lens.width), min(int(v) + half, lens.height)
            if x0 < x1 and y0 < y1:
                image[y0:y1, x0:x1] = self._cast(x0, y0, x1, y1, near)
        return image

    def render(
        self,
        balls: dict[int, np.ndarray],
        rng: np.random.Generator,
        overlay: Callable[[np.ndarray], None] | None = None,
    ) -> np.ndarray:
        """Return a BGR uint8 image; ``overlay(image)`` may draw into the clean BGR 0..255 one first."""
        image = np.ascontiguousarray(self.clean(balls)[..., ::-1]) * 255
        if overlay is not None:
            overlay(image)
        if self.blur > 0:
            image = cv2.GaussianBlur(image, (0, 0), self.blur)
        return np.clip(image + rng.normal(0, self.noise, image.shape) + 0.5, 0, 255).astype(np.uint8)
