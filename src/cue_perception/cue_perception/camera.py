"""The camera: intrinsics, lens distortion, pose, and the ways between pixels and the table frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.checks import finite_in, load_yaml
from cue_core.errors import FileFormatError

DISTORTION_MODELS = {"plumb_bob": (4, 5), "rational_polynomial": (8, 12, 14)}
"""Names that ROS gives to OpenCV's models, and how many coefficients each may have."""


@dataclass(frozen=True)
class Intrinsics:
    """What a lens does, in OpenCV's model (optical frame: z forward, x right, y down).

    Attributes:
        width: of the image [px].
        height: [px].
        matrix: (3, 3) K; pixel centres lie at whole numbers [px].
        distortion: (n,) plumb_bob or rational_polynomial coefficients; empty = none.
    """

    width: int
    height: int
    matrix: np.ndarray
    distortion: np.ndarray = field(default_factory=lambda: np.zeros(5))

    def __post_init__(self) -> None:
        """Check sizes and focal lengths.

        Raises:
            OutOfRangeError: naming the field and its range.
        """
        finite_in("width", self.width, 16, 16384, "px")
        finite_in("height", self.height, 16, 16384, "px")
        finite_in("focal length fx", self.matrix[0, 0], 1.0, 1e6, "px")
        finite_in("focal length fy", self.matrix[1, 1], 1.0, 1e6, "px")

    def undistort(self, pixels: np.ndarray) -> np.ndarray:
        """Return normalised image coordinates (n, 2) of pixels (n, 2)."""
        focal, centre = self.matrix[[0, 1], [0, 1]], self.matrix[:2, 2]
        target = (np.asarray(pixels, float).reshape(-1, 2) - centre) / focal
        found = target
        if np.any(self.distortion):
            for _ in range(30):  # fixed point: contracts by the local distortion, and all versions of OpenCV agree
                error = (self.distort(found) - centre) / focal - target
                found = found - error
                if np.abs(error).max(initial=0.0) < 1e-10:
                    break
        return found

    def distort(self, normalised: np.ndarray) -> np.ndarray:
        """Return pixels (..., 2) of normalised image coordinates (..., 2)."""
        x, y = normalised[..., 0], normalised[..., 1]
        d = np.zeros(14)
        d[: len(self.distortion)] = self.distortion
        if d.any():
            r2 = x * x + y * y
            radial = (1 + r2 * (d[0] + r2 * (d[1] + r2 * d[4]))) / (1 + r2 * (d[5] + r2 * (d[6] + r2 * d[7])))
            xy2 = 2 * x * y
            x, y = (
                x * radial + d[2] * xy2 + d[3] * (r2 + 2 * x * x) + r2 * (d[8] + r2 * d[9]),
                y * radial + d[2] * (r2 + 2 * y * y) + d[3] * xy2 + r2 * (d[10] + r2 * d[11]),
            )
        return np.stack([self.matrix[0, 0] * x + self.matrix[0, 2], self.matrix[1, 1] * y + self.matrix[1, 2]], -1)

    @classmethod
    def load(cls, path: Path | str) -> Intrinsics:
        """Read a calibration YAML in the form that ROS's camera_calibration writes.

        Raises:
            FileFormatError: the file is missing or malformed.
        """
        data = load_yaml(path)
        try:
            model = str(data.get("distortion_model", "plumb_bob"))
            matrix = np.array(data["camera_matrix"]["data"], float).reshape(3, 3)
            distortion = np.array(data["distortion_coefficients"]["data"], float).ravel()
            width, height = int(data["image_width"]), int(data["image_height"])
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"is no camera calibration: {type(error).__name__} {error}") from None
        if model not in DISTORTION_MODELS:
            raise FileFormatError(path, f"distortion_model is {model!r}, known are {', '.join(DISTORTION_MODELS)}")
        if len(distortion) not in DISTORTION_MODELS[model]:
            counts = " or ".join(str(n) for n in DISTORTION_MODELS[model])
            raise FileFormatError(path, f"holds {len(distortion)} distortion coefficients, {model} has {counts}")
        if not (np.isfinite(matrix).all() and np.isfinite(distortion).all()):
            raise FileFormatError(path, "camera matrix and distortion coefficients are not all finite")
        lens = cls(width, height, matrix, distortion)
        if not (0 < matrix[0, 2] < width and 0 < matrix[1, 2] < height):
            raise FileFormatError(
                path,
                f"the optical centre ({matrix[0, 2]:g}, {matrix[1, 2]:g}) lies outside the image"
                f" of {width} x {height} px",
            )
        return lens

    @classmethod
    def guess(cls, width: int, height: int, horizontal_view: float = 1.2) -> Intrinsics:
        """Return a distortion-free lens with a horizontal field of view [rad]: better than nothing, not metric."""
        focal = 0.5 * width / np.tan(0.5 * horizontal_view)
        return cls(width, height, np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]]))


@dataclass(frozen=True)
class Camera:
    """A camera that knows where it is.

    Attributes:
        intrinsics: of the lens.
        rotation: (3, 3) camera_from_table.
        translation: (3,) of the table's origin in the optical frame [m].
    """

    intrinsics: Intrinsics
    rotation: np.ndarray
    translation: np.ndarray

    @cached_property
    def position(self) -> np.ndarray:
        """Return the (3,) optical centre in the table frame [m]."""
        return -self.rotation.T @ self.translation

    def project(self, points: np.ndarray) -> np.ndarray:
        """Return pixels (..., 2) of points (..., 3) [m] in the table frame."""
        return self.intrinsics.distort(self.project_normalised(points))

    def project_normalised(self, points: np.ndarray) -> np.ndarray:
        """Return normalised image coordinates (..., 2) of points (..., 3) [m] in the table frame."""
        inside = points @ self.rotation.T + self.translation
        return inside[..., :2] / inside[..., 2:]

    def on_plane(self, pixels: np.ndarray, height: float) -> np.ndarray:
        """Return table coordinates (n, 2) [m] of pixels (n, 2), all at one height [m] above the cloth."""
        normalised = self.intrinsics.undistort(pixels)
        rays = np.column_stack([normalised, np.ones(len(normalised))]) @ self.rotation
        scale = (height - self.position[2]) / rays[:, 2]
        return self.position[:2] + rays[:, :2] * scale[:, None]

    def jacobian(self, positions: np.ndarray, height: float) -> np.ndarray:
        """Return d pixel / d table (n, 2, 2) [px/m] for points (n, 2) [m] at one height."""
        step = 1e-4
        shifted = positions[:, None, :] + step * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        pixels = self.project(np.concatenate([shifted, np.full((*shifted.shape[:2], 1), height)], -1))
        return np.stack([pixels[:, 0] - pixels[:, 1], pixels[:, 2] - pixels[:, 3]], -1) / (2 * step)

    def half_turned(self) -> Camera:
        """Return the same view with the table frame turned by 180 degrees about z."""
        return Camera(self.intrinsics, self.rotation @ np.diag([-1.0, -1.0, 1.0]), self.translation)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_dict` takes back."""
        lens = self.intrinsics
        return {
            "width": lens.width,
            "height": lens.height,
            "matrix": lens.matrix.tolist(),
            "distortion": lens.distortion.tolist(),
            "rotation": self.rotation.tolist(),
            "translation": self.translation.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Camera:
        """Read back what :meth:`to_dict` gave.

        Raises:
            FileFormatError: a field is missing or malformed.
        """
        try:
            lens = Intrinsics(
                int(data["width"]),
                int(data["height"]),
                np.array(data["matrix"], float).reshape(3, 3),
                np.array(data["distortion"], float),
            )
            rotation = np.array(data["rotation"], float).reshape(3, 3)
            return cls(lens, rotation, np.array(data["translation"], float).reshape(3))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError("camera", f"malformed: {type(error).__name__} {error}") from None


def sphere_outline(camera: Camera, centres: np.ndarray, radius: float, count: int) -> np.ndarray:
    """Return the outline (n, count, 3) [m] of spheres as the camera sees it: the circle where rays touch them.

    Args:
        camera: that looks.
        centres: (n, 3) [m] in the table frame.
        radius: of the spheres [m].
        count: points per outline; the first points right in the image, then turning towards down.
    """
    ray = centres - camera.position
    distance = np.linalg.norm(ray, axis=1, keepdims=True)
    axis = ray / distance
    middle = centres - axis * (radius**2 / distance)
    rim = radius * np.sqrt(1 - (radius / distance) ** 2)
    right = camera.rotation[0] - (axis @ camera.rotation[0])[:, None] * axis
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    down = np.cross(axis, right)
    angle = 2 * np.pi * np.arange(count) / count
    turn = np.cos(angle)[:, None] * right[:, None] + np.sin(angle)[:, None] * down[:, None]
    return middle[:, None] + rim[:, None] * turn
