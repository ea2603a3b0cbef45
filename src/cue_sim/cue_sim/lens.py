"""The modelled camera: pose, intrinsics and lens distortion, in OpenCV's conventions (pixel centres at integers)."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError


@dataclass(frozen=True)
class CameraConfig:
    """A camera above the table.

    Attributes:
        position: (3,) of the lens in the table frame [m].
        target: (3,) point in the table frame that the optical axis meets [m].
        roll: of the picture about the optical axis; 0 = the table's +y points up in it [rad].
        width, height: of the picture [px].
        fps: pictures per second [1/s].
        focal: (2,) focal lengths fx, fy [px].
        centre: (2,) principal point [px].
        distortion: (4,) k1, k2, p1, p2 of OpenCV's ``plumb_bob``.
        exposure: time during which a picture gathers light, centred on its stamp [s].
        blur: standard deviation of the optical blur [px].
        noise: standard deviation of the sensor noise [8-bit levels].
        gain: brightness factor.
        latency: from exposure to publication; only where the world runs by the wall clock [s].
    """

    position: np.ndarray
    target: np.ndarray
    roll: float
    width: int
    height: int
    fps: float
    focal: np.ndarray
    centre: np.ndarray
    distortion: np.ndarray
    exposure: float
    blur: float
    noise: float
    gain: float
    latency: float

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
            FileFormatError: the camera looks along the table's y axis or sits in its own target.
        """
        for name, values, count, bound in (
            ("position", self.position, 3, 20.0),
            ("target", self.target, 3, 20.0),
            ("centre", self.centre, 2, 1e4),
            ("distortion", self.distortion, 4, 1.0),
        ):
            if np.shape(values) != (count,):
                raise FileFormatError(f"camera {name}", f"needs {count} numbers")
            for value in values:
                finite_in(f"camera {name}", value, -bound, bound)
        if np.shape(self.focal) != (2,):
            raise FileFormatError("camera focal", "needs 2 numbers")
        for value in self.focal:
            finite_in("camera focal", value, 10.0, 1e5, "px")
        finite_in("camera roll", self.roll, -np.pi, np.pi, "rad")
        finite_in("camera width", self.width, 64, 4096, "px")
        finite_in("camera height", self.height, 64, 4096, "px")
        finite_in("camera fps", self.fps, 1.0, 240.0, "1/s")
        finite_in("camera exposure", self.exposure, 0.0, 1.0 / self.fps, "s")
        finite_in("camera blur", self.blur, 0.0, 10.0, "px")
        finite_in("camera noise", self.noise, 0.0, 50.0, "levels")
        finite_in("camera gain", self.gain, 0.1, 5.0)
        finite_in("camera latency", self.latency, 0.0, 1.0, "s")
        axis = self.target - self.position
        if np.linalg.norm(np.cross(axis, [0.0, 1.0, 0.0])) < 1e-3:
            raise FileFormatError("camera target", "lies at the camera or along the table's y axis from it")

    @property
    def table_from_camera(self) -> np.ndarray:
        """Return the (4, 4) pose of the optical frame (z forward, x right, y down) in the table frame."""
        forward = (self.target - self.position) / np.linalg.norm(self.target - self.position)
        down = -np.array([0.0, 1.0, 0.0])
        down = down - forward * (down @ forward)
        down /= np.linalg.norm(down)
        right = np.cross(down, forward)
        c, s = np.cos(self.roll), np.sin(self.roll)
        pose = np.eye(4)
        pose[:3, 0], pose[:3, 1], pose[:3, 2] = c * right + s * down, c * down - s * right, forward
        pose[:3, 3] = self.position
        return pose

    @property
    def matrix(self) -> np.ndarray:
        """Return the (3, 3) intrinsic matrix [px]."""
        return np.array([[self.focal[0], 0, self.centre[0]], [0, self.focal[1], self.centre[1]], [0, 0, 1.0]])

    def project(self, points: np.ndarray) -> np.ndarray:
        """Return the (n, 2) pixels at which (n, 3) points in the table frame [m] appear."""
        camera_from_table = np.linalg.inv(self.table_from_camera)
        turn, _ = cv2.Rodrigues(camera_from_table[:3, :3])
        pixels, _ = cv2.projectPoints(
            np.asarray(points, float).reshape(-1, 1, 3), turn, camera_from_table[:3, 3], self.matrix, self.distortion
        )
        return pixels.reshape(-1, 2)


@dataclass(frozen=True)
class Pinhole:
    """The ideal picture that is rendered: square pixels, principal point in the middle.

    Attributes:
        width, height: [px].
        focal: [px].
    """

    width: int
    height: int
    focal: float

    @property
    def vertical_view(self) -> float:
        """Return the vertical field of view [rad]."""
        return float(2 * np.arctan(0.5 * self.height / self.focal))


def undistort(camera: CameraConfig, pixels: np.ndarray) -> np.ndarray:
    """Return the (n, 2) ideal ray x/z, y/z of each of (n, 2) pixels.

    Fixed-point iteration to convergence; OpenCV 4's own stops after 5 rounds, a pixel short at the corners.
    """
    bent = (pixels - camera.centre) / camera.focal
    k1, k2, p1, p2 = camera.distortion
    rays = bent.copy()
    for _ in range(100):
        x, y = rays.T
        square = x * x + y * y
        shift = np.stack([2 * p1 * x * y + p2 * (square + 2 * x * x), p1 * (square + 2 * y * y) + 2 * p2 * x * y], -1)
        better = (bent - shift) / (1 + k1 * square + k2 * square**2)[:, None]
        change = float(np.abs(better - rays).max())
        rays = better
        if change < 1e-10:
            return rays
    raise FileFormatError("camera distortion", f"{camera.distortion.tolist()} folds the picture over")


def lens_maps(camera: CameraConfig) -> tuple[Pinhole, np.ndarray, np.ndarray]:
    """Return the ideal picture to render, and where in it each pixel of the lens's picture comes from.

    The two (height, width) float32 maps are for ``cv2.remap``. The ideal picture is as large as the lens's rays need.
    """
    u, v = np.meshgrid(np.arange(camera.width, dtype=float), np.arange(camera.height, dtype=float))
    rays = undistort(camera, np.stack([u.ravel(), v.ravel()], -1))
    focal = float(np.mean(camera.focal))
    # Two pixels of margin for the interpolation; even sizes keep the middle between pixels.
    half = np.ceil(focal * np.abs(rays).max(axis=0)) + 2
    ideal = Pinhole(int(2 * half[0]), int(2 * half[1]), focal)
    source = focal * rays + [ideal.width / 2 - 0.5, ideal.height / 2 - 0.5]
    shape = (camera.height, camera.width)
    return ideal, source[:, 0].reshape(shape).astype(np.float32), source[:, 1].reshape(shape).astype(np.float32)
