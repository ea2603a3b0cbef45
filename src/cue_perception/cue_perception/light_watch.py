"""The cloth's colour watched image by image: exposure, white balance, saturation."""

from __future__ import annotations

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.edge_watch import Hidden
from cue_perception.noses import sample

_COLUMNS, _ROWS = 16, 9
_PER_IMAGE = 36
_FAST = 0.15  # weight of an image ...
_STEP, _FASTER = 0.06, 0.5  # ... and of one whose light is this much (log) off: a lamp was switched
_DARK = 8.0  # grey levels: a channel below says nothing
_WORTH = 0.05  # gain from which the picture is put right before balls are looked for
_BALANCE = 0.08  # log ratio of the channels that is called another white balance
_EXPOSURE = 0.18  # log gain of all that is called another exposure
_CLIPPED = 0.25  # share of the cloth
_LIMITS = (0.4, 2.5)


class LightWatch:
    """Compares the cloth with the cloth as learnt; balls, arms and sleeves over less than half of it do not count."""

    def __init__(self, camera: Camera, table: TableModel, image: np.ndarray) -> None:
        """Learn from the image (h, w, 3) BGR uint8 of the calibration."""
        reach = np.array([table.length / 2, table.width / 2]) - 1.5 * table.ball_radius
        x, y = np.meshgrid(np.linspace(-1, 1, _COLUMNS) * reach[0], np.linspace(-1, 1, _ROWS) * reach[1])
        self._points = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
        self._pixels = camera.project(self._points)
        size = [camera.intrinsics.width - 2, camera.intrinsics.height - 2]
        inside = np.all((self._pixels > 1) & (self._pixels < size), axis=1)
        self._points, self._pixels = self._points[inside], self._pixels[inside]
        learnt = self._colours(image, np.arange(len(self._points)))
        # What is no cloth now (a ball, a spot, a pocket) says nothing later either.
        off = np.linalg.norm(learnt - np.median(learnt, axis=0), axis=1) if len(learnt) else np.zeros(0)
        keep = off < max(3.5 * float(np.median(off)), 12.0) if len(off) else np.zeros(0, bool)
        self._points, self._pixels, self._learnt = self._points[keep], self._pixels[keep], learnt[keep]
        self._order = np.arange(len(self._points)).reshape(-1)[np.argsort(np.arange(len(self._points)) * 37 % 101)]
        self._turn = 0
        self.works = len(self._points) >= 24
        self._usable = np.median(self._learnt, axis=0) > _DARK if self.works else np.zeros(3, bool)
        self._bright0 = _bright(self._learnt)
        self._log = np.zeros(3)
        self._bright, self._dark = self._bright0, 0.0

    def look(self, image: np.ndarray, hidden: Hidden | None = None, in_view: bool = True) -> None:
        """Look at some places of an image (h, w, 3) BGR uint8; ``in_view``: it does show the table."""
        if not self.works:
            return
        chosen = np.take(self._order, np.arange(_PER_IMAGE) + self._turn, mode="wrap")
        self._turn += _PER_IMAGE
        if hidden is not None:
            chosen = chosen[~hidden(self._points[chosen])]
        if len(chosen) < 12:
            return
        now = self._colours(image, chosen)
        ratio = np.median(np.maximum(now, 1.0) / np.maximum(self._learnt[chosen], 1.0), axis=0)
        log = np.log(np.clip(ratio, 0.05, 20.0))
        if self._usable.any():
            log = np.where(self._usable, log, log[self._usable].mean())
        if in_view:
            change = log - self._log
            self._log += (_FASTER if np.abs(change).max() > _STEP else _FAST) * change
        self._bright += _FAST * (_bright(now) - self._bright)
        self._dark += _FAST * (float(np.mean(now.max(axis=1) < 12)) - self._dark)

    def _colours(self, image: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return mean colours (n, 3) of small patches."""
        if len(chosen) == 0:
            return np.zeros((0, 3))
        around = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]], float)
        return sample(image, self._pixels[chosen, None] + around).astype(float).mean(axis=1)

    @property
    def gains(self) -> np.ndarray:
        """Return by how much blue, green and red (3,) are brighter than when learnt."""
        return np.exp(self._log)

    @property
    def gain(self) -> float:
        """Return by how much the picture is brighter."""
        return float(np.exp(self._log.mean()))

    @property
    def balance(self) -> tuple[float, float] | None:
        """Return the gains of red and blue against green if they changed notably."""
        red, blue = self._log[2] - self._log[1], self._log[0] - self._log[1]
        return (
            (float(np.exp(red)), float(np.exp(blue))) if max(abs(red), abs(blue), abs(red - blue)) > _BALANCE else None
        )

    @property
    def exposure(self) -> float | None:
        """Return the gain of all channels if it changed notably."""
        return self.gain if abs(float(self._log.mean())) > _EXPOSURE else None

    @property
    def overexposed(self) -> bool:
        """Tell whether much of the cloth is at the end of the scale that was not."""
        return self._bright > self._bright0 + _CLIPPED

    @property
    def dark(self) -> bool:
        """Tell whether the light is out."""
        return self._dark > 0.5

    def corrected(self, image: np.ndarray) -> np.ndarray:
        """Return an image in the light that was learnt; the same array where that is (nearly) today's."""
        gains = self.gains
        if np.abs(gains - 1).max() < _WORTH or self.dark:
            return image
        gains = np.clip(gains, *_LIMITS)
        levels = np.arange(256.0)[:, None] / gains
        # The end of the scale stays there: what was clipped may have been brighter.
        top = np.clip((np.arange(256.0)[:, None] - 235) / 20, 0, 1)
        table = np.clip((1 - top) * levels + top * 255 + 0.5, 0, 255).astype(np.uint8)
        return np.asarray(cv2.LUT(image, table.reshape(256, 1, 3)))


def _bright(colours: np.ndarray) -> float:
    """Return the share of colours (n, 3) with a channel at the end of the scale."""
    return float(np.mean(colours.max(axis=1) >= 252)) if len(colours) else 0.0
