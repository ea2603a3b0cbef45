"""Flat boards whose corners are known: ChArUco and chessboard, to find in images and to print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import CueError, UnknownNameError

KINDS = ("charuco", "chessboard")
_MODULES = 8  # cells of a marker's grid in one square: 4 of code, 1 of border and 1 of margin on either side
_FEWEST = 8  # corners for one view to be of use


@dataclass(frozen=True)
class Corners:
    """Corners of a board seen in an image.

    Attributes:
        ids: (n,) indices into :attr:`Board.points`.
        pixels: (n, 2) where they are [px]; pixel centres lie at whole numbers.
    """

    ids: np.ndarray
    pixels: np.ndarray


@dataclass(frozen=True)
class Board:
    """A board of squares.

    Attributes:
        kind: ``charuco`` carries markers in its white squares, so that any part of it tells which part it is;
            ``chessboard`` must be seen whole.
        columns: of squares.
        rows: of squares.
        square: side of a square, as printed [m].
    """

    kind: str = "charuco"
    columns: int = 11
    rows: int = 8
    square: float = 0.024

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            UnknownNameError: no such kind of board.
            OutOfRangeError: naming the field and its range.
        """
        if self.kind not in KINDS:
            raise UnknownNameError("board", self.kind, KINDS)
        finite_in("columns of squares", self.columns, 4, 30)
        finite_in("rows of squares", self.rows, 4, 30)
        finite_in("square", self.square, 0.002, 0.5, "m")

    @cached_property
    def points(self) -> np.ndarray:
        """Return the inner corners (n, 3) on the board, row by row: x right, y down, z = 0 [m]."""
        x, y = np.meshgrid(np.arange(1, self.columns), np.arange(1, self.rows))
        flat = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
        return np.asarray(flat * self.square)

    @cached_property
    def cells(self) -> np.ndarray:
        """Return the printed pattern (8 rows, 8 columns) as booleans, True = black, 8 x 8 cells in each square."""
        if self.kind == "chessboard":
            x, y = np.meshgrid(np.arange(self.columns), np.arange(self.rows))
            return np.kron((x + y) % 2 == 0, np.ones((_MODULES, _MODULES), bool))
        size = self.columns * _MODULES, self.rows * _MODULES
        image = self._charuco.generateImage((size[0] * 4, size[1] * 4), marginSize=0, borderBits=1)
        return image[2::4, 2::4] < 128

    @cached_property
    def _charuco(self) -> cv2.aruco.CharucoBoard:
        # As few different markers as will do: the fewer, the less can be taken for one.
        needed = self.columns * self.rows // 2
        count = next(n for n in (50, 100, 250, 1000) if n >= needed)
        dictionary = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, f"DICT_4X4_{count}"))
        marker = self.square * (_MODULES - 2) / _MODULES
        return cv2.aruco.CharucoBoard((self.columns, self.rows), self.square, marker, dictionary)

    @cached_property
    def _detector(self) -> cv2.aruco.CharucoDetector:
        parameters = cv2.aruco.DetectorParameters()
        parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
        return cv2.aruco.CharucoDetector(self._charuco, cv2.aruco.CharucoParameters(), parameters)

    def find(self, image: np.ndarray) -> Corners | None:
        """Return the corners seen in an image (h, w) or (h, w, 3) uint8; None where there are too few for a view."""
        grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        if self.kind == "chessboard":
            found, pixels = cv2.findChessboardCornersSB(
                grey, (self.columns - 1, self.rows - 1), flags=cv2.CALIB_CB_NORMALIZE_IMAGE | cv2.CALIB_CB_ACCURACY
            )
            if not found:
                return None
            return Corners(np.arange(len(self.points)), pixels.reshape(-1, 2).astype(float))
        pixels, ids, _, _ = self._detector.detectBoard(grey)
        if ids is None or len(ids) < _FEWEST:
            return None
        ids, pixels = ids.ravel(), pixels.reshape(-1, 2).astype(np.float32)
        spots = self.points[ids, :2]
        if np.linalg.matrix_rank(spots - spots.mean(axis=0), tol=0.5 * self.square) < 2:
            return None  # all on one line
        reach = 0.9 * self._spacing(ids, pixels) / _MODULES  # stays clear of the markers around the corner
        half = int(np.clip(round(reach), 2, 12))
        stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 1e-3)
        refined = cv2.cornerSubPix(grey, pixels.reshape(-1, 1, 2).copy(), (half, half), (-1, -1), stop).reshape(-1, 2)
        near = np.linalg.norm(refined - pixels, axis=1) < half
        return Corners(ids, np.where(near[:, None], refined, pixels).astype(float))

    def _spacing(self, ids: np.ndarray, pixels: np.ndarray) -> float:
        """Return the median distance [px] of neighbouring corners."""
        pairs = self.neighbours(ids)
        if not len(pairs):
            return 0.0
        return float(np.median(np.linalg.norm(pixels[pairs[:, 0]] - pixels[pairs[:, 1]], axis=1)))

    def neighbours(self, ids: np.ndarray) -> np.ndarray:
        """Return pairs (m, 2) of places in ``ids`` (n,) whose corners share a side of a square."""
        place = np.full(len(self.points), -1)
        place[ids] = np.arange(len(ids))
        grid = place.reshape(self.rows - 1, self.columns - 1)
        beside = np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], 1)
        below = np.stack([grid[:-1].ravel(), grid[1:].ravel()], 1)
        pairs = np.concatenate([beside, below])
        return pairs[(pairs >= 0).all(axis=1)]

    def blur(self, image: np.ndarray, corners: Corners) -> float:
        """Return the width of the edges between squares [px]: 1 is crisp, a Gaussian blur of sigma s gives 2.5 s."""
        grey = (image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)).astype(np.float32)
        pairs = self.neighbours(corners.ids)
        if not len(pairs):
            return float("inf")
        one, other = corners.pixels[pairs[:, 0]], corners.pixels[pairs[:, 1]]
        length = np.linalg.norm(other - one, axis=1, keepdims=True)
        across = (other - one)[:, ::-1] * [-1, 1] / length
        steps = np.linspace(-0.45, 0.45, 129)[:, None, None] * length
        points = ((one + other) / 2 + across * steps).astype(np.float32)  # (129, m, 2)
        profile = cv2.remap(grey, points[..., 0], points[..., 1], cv2.INTER_LINEAR)
        slope = np.abs(np.diff(profile, axis=0))[48:80].max(axis=0) / (steps[1] - steps[0]).ravel()
        contrast = np.percentile(profile, 95, axis=0) - np.percentile(profile, 5, axis=0)
        return float(np.median(contrast / np.maximum(slope, 1e-6)))

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.kind}, {self.columns} x {self.rows} squares of {1000 * self.square:g} mm"


def parse_squares(text: str) -> tuple[int, int]:
    """Return columns and rows of ``11x8``.

    Raises:
        CueError: it is not written so.
    """
    columns, cross, rows = text.lower().partition("x")
    if not (cross and columns.isdecimal() and rows.isdecimal()):
        raise CueError(f"squares are written COLUMNSxROWS, as 11x8, not {text!r}")
    return int(columns), int(rows)
