"""What on the bed is not cloth: the cloth's colour as a smooth function of place, and pixels that differ from it."""

from __future__ import annotations

import cv2
import numpy as np

_POWERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3), (4, 0), (2, 2), (0, 4))
"""Of a and b, the place from left to right and from top to bottom, in each term of the cloth's colour."""


class ClothModel:
    """The colour of the cloth over one region of an image, which may be looked at in reduced resolution."""

    def __init__(self, region: np.ndarray, bed: np.ndarray, factor: int = 1) -> None:
        """Learn the cloth from an image; balls and whatever else may lie on it.

        Args:
            region: (h, w, 3) BGR uint8.
            bed: (h, w) uint8, 255 where the bed is seen.
            factor: by which both are reduced before anything is done, 1 = not.
        """
        self.factor = factor
        height, width = bed.shape
        self._size = (max(width // factor, 1), max(height // factor, 1))
        self.bed = self._reduced(bed) if factor == 1 else np.where(self._reduced(bed) == 255, 255, 0).astype(np.uint8)
        self._learn(region)

    def _reduced(self, image: np.ndarray) -> np.ndarray:
        """Return the image with pixels of ``factor`` x ``factor`` old ones: their means, as far as that is cheap."""
        if self.factor == 1:
            return image
        width, height = self._size
        whole = image[: height * self.factor, : width * self.factor]
        if self.factor > 2:  # the mean of four places within the new pixel; of all it takes five times as long
            whole = cv2.resize(whole, (2 * width, 2 * height), interpolation=cv2.INTER_LINEAR)
        return cv2.resize(whole, self._size, interpolation=cv2.INTER_AREA)

    def _learn(self, region: np.ndarray) -> None:
        sharp = self._reduced(region)
        smooth = cv2.GaussianBlur(sharp, (0, 0), 1.0).astype(np.float32)
        margin = max(round(9 / self.factor), 3)
        inner = cv2.erode(self.bed, np.ones((margin, margin), np.uint8))
        v, u = np.nonzero(inner)
        keep = slice(None, None, max(len(u) // 20000, 1))
        v, u = v[keep], u[keep]
        height, width = self.bed.shape
        values = smooth[v, u].astype(float)

        def basis(u: np.ndarray, v: np.ndarray) -> np.ndarray:
            a, b = 2 * u / width - 1, 2 * v / height - 1
            return np.stack([a**i * b**j for i, j in _POWERS], -1)

        design = basis(u.astype(float), v.astype(float))
        use = np.linalg.norm(values - np.median(values, axis=0), axis=1) < 60
        for _ in range(6):
            weights, *_ = np.linalg.lstsq(design[use], values[use], rcond=None)
            error = np.linalg.norm(values - design @ weights, axis=1)
            use = error < max(3.5 * float(np.median(error[use])), 5.0)
        cloth_bgr = np.median(values[use], axis=0)
        # The same polynomial at every pixel: of powers along the rows and along the columns, far fewer sums.
        powers = np.zeros((5, 5, 3))  # of b, of a, channel
        for (i, j), term in zip(_POWERS, weights, strict=True):
            powers[j, i] = term
        across, down = (
            np.stack([x**k for k in range(5)]).astype(np.float32)
            for x in (2 * np.arange(width) / width - 1, 2 * np.arange(height) / height - 1)
        )
        mixed = powers.astype(np.float32)
        model = np.stack([down.T @ (mixed[..., c] @ across) for c in range(3)], -1)
        # First axis along the cloth's colour: a shadow moves a pixel along it, another paint across it.
        axis = cloth_bgr / max(float(np.linalg.norm(cloth_bgr)), 1.0)
        helper = np.array([1.0, 0, 0]) if abs(axis[0]) < 0.8 else np.array([0, 1.0, 0])
        second = np.cross(axis, helper)
        second /= np.linalg.norm(second)
        self._axes = np.stack([axis, second, np.cross(axis, second)]).astype(np.float32)
        self._cloth = cv2.transform(model, self._axes)
        residual = cv2.transform(sharp.astype(np.float32), self._axes) - self._cloth
        quiet = residual[v[use], u[use]]
        noise = 1.4826 * np.median(np.abs(quiet), axis=0)
        self._across = float(max(4.5 * np.hypot(noise[1], noise[2]), 14.0))
        self._brighter = float(max(5.0 * noise[0], 22.0))
        self._darker = float(max(0.45 * np.linalg.norm(cloth_bgr), 5.0 * noise[0]))

    def foreground(self, region: np.ndarray) -> np.ndarray:
        """Return 255 where the bed shows something else than cloth, in the model's resolution."""
        turned = cv2.transform(self._reduced(region).astype(np.float32), self._axes)
        cv2.subtract(turned, self._cloth, dst=turned)
        along, second, third = cv2.split(turned)
        across = cv2.magnitude(second, third)
        _, mask = cv2.threshold(across, self._across, 255, cv2.THRESH_BINARY)
        _, brighter = cv2.threshold(along, self._brighter, 255, cv2.THRESH_BINARY)
        _, darker = cv2.threshold(along, -self._darker, 255, cv2.THRESH_BINARY_INV)
        mask = cv2.max(cv2.max(mask, brighter), darker).astype(np.uint8)
        return np.asarray(cv2.bitwise_and(mask, self.bed, dst=mask))
