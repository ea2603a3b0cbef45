"""Which pictures of a board are worth keeping, and what is still missing for a calibration."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from cue_perception.boards import Board, Corners
from cue_perception.camera import Intrinsics

COLUMNS, ROWS = 6, 4
"""Regions of the image that the board should be seen in."""
HITS = 3
"""Corners seen in a region that cover it."""
_BARE = {"charuco": 2, "chessboard": 4}  # regions that may stay bare; a chessboard must be seen whole
_TILT = np.deg2rad(15)
_TILTED = 3  # views tilted so about either axis: flat views alone cannot tell focal length from distance
FEWEST_VIEWS = 10
_NEW = 0.04  # of the image's diagonal: corners of the board have moved so far since any view kept
_STILL = 0.004  # of the diagonal from one image to the next
_BLUR = 4.0  # px, for images up to 1280 px wide


@dataclass(frozen=True)
class View:
    """A picture of the board that is kept.

    Attributes:
        corners: seen in it.
        frame: (4, 2) of the whole board's own corners in the image [px], some perhaps outside.
        tilt: (2,) of the board about the image's x and y axes, roughly [rad].
        blur: width of its edges [px].
        name: of the picture, for messages.
    """

    corners: Corners
    frame: np.ndarray
    tilt: np.ndarray
    blur: float
    name: str = ""


@dataclass
class Collector:
    """Keeps views that differ from each other, and knows what is missing.

    Attributes:
        board: to look for.
        wanted: views; more are kept only while something is missing.
        live: pictures come one right after the other, so that motion between them can be told.
    """

    board: Board
    wanted: int = 40
    live: bool = False
    views: list[View] = field(default_factory=list)
    size: tuple[int, int] = (0, 0)
    seen: int = 0
    _last: np.ndarray | None = None

    def offer(self, image: np.ndarray, name: str = "") -> str:
        """Look at a picture (h, w, 3) uint8; return why it is not kept, empty = it is kept."""
        size = image.shape[1], image.shape[0]
        if self.size == (0, 0):
            self.size = size
        if size != self.size:
            return f"is {size[0]} x {size[1]} px, the others {self.size[0]} x {self.size[1]}"
        self.seen += 1
        corners = self.board.find(image)
        if corners is None:
            self._last = None
            return "no board in sight"
        view = self._measure(image, corners, name)
        last, self._last = self._last, view.frame
        diagonal = float(np.hypot(*size))
        if self.live and (last is None or np.abs(view.frame - last).max() > _STILL * diagonal):
            return "hold the board still"
        if view.blur > self.blur_limit:
            return f"blurred ({view.blur:.1f} px)"
        near = [np.linalg.norm(view.frame - v.frame, axis=1).mean() for v in self.views]
        if near and min(near) < _NEW * diagonal:
            return "like a view that is kept already"
        if len(self.views) >= self.wanted and not self._helps(view):
            return "adds nothing that is missing"
        self.views.append(view)
        return ""

    @property
    def blur_limit(self) -> float:
        """Return the widest edges allowed [px]."""
        return _BLUR * max(1.0, self.size[0] / 1280)

    def _measure(self, image: np.ndarray, corners: Corners, name: str) -> View:
        points = self.board.points[corners.ids]
        homography = cv2.findHomography(points[:, :2], corners.pixels)[0]
        w, h = self.board.columns * self.board.square, self.board.rows * self.board.square
        whole = np.array([[0, 0], [w, 0], [w, h], [0, h]], float)
        frame = cv2.perspectiveTransform(whole.reshape(-1, 1, 2), homography).reshape(-1, 2)
        return View(corners, frame, _tilt(points, corners.pixels, self.size), self.board.blur(image, corners), name)

    def _helps(self, view: View) -> bool:
        if np.any((self._tilted() < _TILTED) & (np.abs(view.tilt) > _TILT)):
            return True
        return bool(np.any((self.hits() < HITS) & (self._hits(view) > 0)))

    def _hits(self, view: View) -> np.ndarray:
        place = np.floor(view.corners.pixels / np.array(self.size) * [COLUMNS, ROWS]).astype(int)
        x, y = np.clip(place, 0, [COLUMNS - 1, ROWS - 1]).T
        hits = np.zeros((ROWS, COLUMNS), int)
        np.add.at(hits, (y, x), 1)
        return hits

    def hits(self) -> np.ndarray:
        """Return how many corners were seen in each region of the image (ROWS, COLUMNS)."""
        return np.sum([self._hits(v) for v in self.views], axis=0) if self.views else np.zeros((ROWS, COLUMNS), int)

    def covered(self) -> np.ndarray:
        """Return which regions of the image (ROWS, COLUMNS) have been covered."""
        return self.hits() >= HITS

    def _tilted(self) -> np.ndarray:
        """Return how many views are tilted about the image's x and y axes (2,)."""
        if not self.views:
            return np.zeros(2, int)
        return np.sum([np.abs(v.tilt) > _TILT for v in self.views], axis=0)

    def missing(self) -> list[str]:
        """Return what is still needed, in words; empty = nothing."""
        wants = []
        bare = ~self.covered()
        if bare.sum() > _BARE[self.board.kind]:
            wants.append(f"the board in the image's {_where(bare)}")
        for axis, how in enumerate(("tilted forwards or backwards", "turned to the left or right")):
            lacking = _TILTED - int(self._tilted()[axis])
            if lacking > 0:
                wants.append(f"{lacking} more view{'s' * (lacking > 1)} with the board {how} by 20 to 45 degrees")
        if len(self.views) < FEWEST_VIEWS:
            wants.append(f"{FEWEST_VIEWS - len(self.views)} more views, {FEWEST_VIEWS} are the least")
        return wants


def _tilt(points: np.ndarray, pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the tilt (2,) [rad] about the image's x and y axes, as a usual lens would see it."""
    lens = Intrinsics.guess(*size, horizontal_view=1.0)
    found, rotation, _ = cv2.solvePnP(points, pixels, lens.matrix, None, flags=cv2.SOLVEPNP_IPPE)
    if not found:
        return np.zeros(2)
    normal = cv2.Rodrigues(rotation)[0][:, 2]
    normal = normal * np.sign(normal[2] or 1.0)
    return np.array([np.arctan2(normal[1], normal[2]), np.arctan2(normal[0], normal[2])])


def _where(bare: np.ndarray) -> str:
    """Return in words where regions (ROWS, COLUMNS) lie."""
    names = []
    for rows, vertical in ((slice(0, 1), "top"), (slice(1, ROWS - 1), ""), (slice(ROWS - 1, ROWS), "bottom")):
        for columns, level in (
            (slice(0, 2), "left"),
            (slice(2, COLUMNS - 2), ""),
            (slice(COLUMNS - 2, COLUMNS), "right"),
        ):
            if bare[rows, columns].any():
                names.append(" ".join(w for w in (vertical, level) if w) or "middle")
    return ", ".join(names)
