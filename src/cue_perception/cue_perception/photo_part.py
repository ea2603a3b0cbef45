"""A part of a picture at another scale, and the lens and camera for it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cue_perception.camera import Camera, Intrinsics

_MARGIN = 0.20  # of the cloth's size, kept around it


@dataclass(frozen=True)
class Part:
    """A part of a picture at another scale: pixel = (part pixel + 0.5) / scale - 0.5 + corner."""

    image: np.ndarray
    scale: float
    corner: np.ndarray

    def whole(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels of the whole picture (..., 2) of pixels of the part."""
        return (pixels + 0.5) / self.scale - 0.5 + self.corner

    def inside(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels of the part (..., 2) of pixels of the whole picture."""
        return (pixels - self.corner + 0.5) * self.scale - 0.5

    def lens(self, lens: Intrinsics) -> Intrinsics:
        """Return the lens of the part of the lens of the whole picture."""
        return _moved_lens(lens, self.scale, self.inside, self.image)


def lab_of(image: np.ndarray) -> np.ndarray:
    """Return the CIE Lab (h, w, 3) float32 of a BGR uint8 image."""
    return np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_BGR2LAB))


def _moved_lens(lens: Intrinsics, scale: float, inside: object, image: np.ndarray) -> Intrinsics:
    matrix = lens.matrix.copy()
    matrix[[0, 1], [0, 1]] *= scale
    matrix[:2, 2] = inside(lens.matrix[:2, 2])  # type: ignore[operator]
    return Intrinsics(image.shape[1], image.shape[0], matrix, lens.distortion)


def cut(image: np.ndarray, quad: np.ndarray, span: float) -> Part:
    """Return the part of a picture around a quadrilateral, its longer side about ``span`` px, never enlarged much."""
    low, high = quad.min(axis=0), quad.max(axis=0)
    grow = _MARGIN * (high - low).max()
    x0, y0 = np.clip(np.floor(low - grow), 0, None).astype(int)
    x1, y1 = np.minimum(np.ceil(high + grow).astype(int) + 1, [image.shape[1], image.shape[0]])
    cut = image[y0:y1, x0:x1]
    scale = min(span / float((high - low).max()), 1.5)
    size = (max(round(cut.shape[1] * scale), 16), max(round(cut.shape[0] * scale), 16))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(cut, size, interpolation=how) if abs(scale - 1) > 0.02 else cut.copy()
    return Part(small, small.shape[1] / cut.shape[1], np.array([x0, y0], float))


def rescaled(image: np.ndarray, part: Part, camera: Camera, scale: float) -> tuple[Part, Camera]:
    """Return the same part of the picture at another scale, and the camera for it."""
    size = np.array(part.image.shape[1::-1]) / part.scale
    x0, y0 = part.corner.astype(int)
    x1, y1 = np.minimum(np.round(part.corner + size).astype(int), [image.shape[1], image.shape[0]])
    cut = image[y0:y1, x0:x1]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(
        cut, (max(round(cut.shape[1] * scale), 16), max(round(cut.shape[0] * scale), 16)), interpolation=how
    )
    new = Part(small, small.shape[1] / cut.shape[1], part.corner)
    ratio = new.scale / part.scale
    lens = _moved_lens(camera.intrinsics, ratio, lambda p: (p + 0.5) * ratio - 0.5, small)
    return new, Camera(lens, camera.rotation, camera.translation)


def whole_camera(image: np.ndarray, part: Part, camera: Camera) -> Camera:
    """Return the camera for pixels of the whole picture."""
    lens = camera.intrinsics
    matrix = lens.matrix.copy()
    matrix[[0, 1], [0, 1]] /= part.scale
    matrix[:2, 2] = part.whole(lens.matrix[:2, 2])
    whole = Intrinsics(image.shape[1], image.shape[0], matrix, lens.distortion)
    return Camera(whole, camera.rotation, camera.translation)
