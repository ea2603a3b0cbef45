"""One picture of a table by a camera of which nothing is known: table, lens, and balls in pixels and on the cloth."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics, sphere_outline
from cue_perception.cloth import ClothRegion, find_cloth
from cue_perception.detector import Detection
from cue_perception.errors import TableNotFoundError
from cue_perception.free_lens import Held, View
from cue_perception.photo_balls import find_balls, painted, swelling
from cue_perception.photo_part import Part, lab_of, whole_camera
from cue_perception.photo_table import USUAL, best_table, nominal, nose_corners
from cue_perception.table_signs import TableSigns, table_signs

_DIM = 110.0  # grey levels
_WHITE = 230.0  # grey levels
_NOISY = 5.0  # grey levels
_FITTING_COST = 14.0


@dataclass(frozen=True)
class Reading:
    """What one picture shows.

    Attributes:
        camera: pose and lens, in pixels of the whole picture.
        table: as seen; its length is nominal (2 m).
        view: the fit behind it, in pixels of the part searched.
        balls: as measured.
        pixels: (n, 2) their centres in the whole picture [px].
        pixel_covariance: (n, 2, 2) [px^2].
        outlines: (n, 36, 2) [px].
        ball_ratio: ball radius over the table's length as measured; nan without balls.
        ball_ratio_sigma: its standard deviation.
        corners: (4, 2) of the nose rectangle, top left first, clockwise [px].
        cloth: (3,) CIE Lab.
        signs: what of a table was seen beside its outline.
    """

    camera: Camera
    table: TableModel
    view: View
    balls: tuple[Detection, ...]
    pixels: np.ndarray
    pixel_covariance: np.ndarray
    outlines: np.ndarray
    ball_ratio: float
    ball_ratio_sigma: float
    corners: np.ndarray
    cloth: np.ndarray
    signs: TableSigns


def read_photo(image: np.ndarray, table: TableModel | None = None, lens: Intrinsics | None = None) -> Reading:
    """Find the table and the balls in a picture.

    Args:
        image: (h, w, 3) BGR uint8 of any size.
        table: of known shape; None = estimate it. The table in the answer has the nominal length in either case.
        lens: known calibration; None = estimate it.

    Raises:
        TableNotFoundError: the picture shows no table, or not enough of it; the message says what was looked for.
    """
    image = _calm(_lit(image))
    part, view, region, held, table = _seen(image, table, lens)
    signs = table_signs(lab_of(part.image), view, _cloth_lab(region))
    part, view, balls = find_balls(image, part, view, held, table, region.colour)
    return _reading(image, part, view, balls, region, signs)


def find_view(image: np.ndarray, table: TableModel) -> tuple[Camera, View, np.ndarray]:
    """Return the camera that sees a table of known size, lens and all; the fit behind it; and the cloth's 8-bit Lab.

    Args:
        image: (h, w, 3) BGR uint8.
        table: of known size.

    Raises:
        TableNotFoundError: no table of this shape is in the picture.
    """
    part, view, region, held, _ = _seen(_calm(_lit(image)), table, None)
    if not held.aspect:
        raise TableNotFoundError(
            f"the table seen is {view.table.length / view.table.width:.2f} times as long as wide, not"
            f" {table.length / table.width:.2f}"
        )
    camera = whole_camera(image, part, view.camera)
    size = table.length / view.table.length
    return Camera(camera.intrinsics, camera.rotation, camera.translation * size), view, region.colour


def _seen(
    image: np.ndarray, table: TableModel | None, lens: Intrinsics | None
) -> tuple[Part, View, ClothRegion, Held, TableModel | None]:
    """Return where the table is, what of it was held, and the table if it is the one that was named."""
    height, width = image.shape[:2]
    if lens is not None and (lens.width, lens.height) != (width, height):
        raise TableNotFoundError(
            f"the image is {width} x {height} px, the calibration says {lens.width} x {lens.height}"
        )
    held = Held(lens=lens is not None, aspect=table is not None)
    if table is not None:
        table = nominal(table)
    regions = find_cloth(image)[:3]
    best, problems = best_table(image, regions, lens, table or USUAL, held)
    if table is not None and (best is None or best[0] > _FITTING_COST):
        # Perhaps it is another table than was said: balls and outline in pixels are right all the same.
        free = Held(lens=held.lens)
        other, _ = best_table(image, regions, lens, USUAL, free)
        if other is not None and (best is None or other[0] < best[0] - 5):
            best, held, table = other, free, None
    if best is None:
        raise TableNotFoundError("; ".join(dict.fromkeys(problems)))
    _, view, part, region = best
    return part, view, region, held, table


def _cloth_lab(region: ClothRegion) -> np.ndarray:
    """Return the CIE Lab (3,) of a cloth."""
    return np.asarray(region.colour / np.array([2.55, 1, 1]) - np.array([0, 128, 128]))


def _lit(image: np.ndarray) -> np.ndarray:
    """Return a dark picture brightened: what counts as an edge or as paint is told in grey levels."""
    levels = image[::8, ::8].max(axis=-1)
    bright, brightest = (max(float(v), 1.0) for v in np.percentile(levels, (80, 97)))
    # A lit table in the dark: what is cut off at white changes its hue.
    gain = min(_DIM / bright, _WHITE / brightest, 4.0)
    return image if gain <= 1 else np.clip(image * gain, 0, 255).astype(np.uint8)


def _calm(image: np.ndarray) -> np.ndarray:
    """Return a noisy picture smoothed: faint edges drown in noise, and specks look like balls."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.float32)
    # Differences that neither an even slope nor a straight edge has (Immerkaer 1996); most of a picture is even.
    rough = cv2.filter2D(grey, -1, np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32))
    noise = 1.4826 * float(np.median(np.abs(rough))) / 6.0
    return image if noise < _NOISY else np.asarray(cv2.GaussianBlur(image, (0, 0), 1.3))


def _reading(
    image: np.ndarray, part: Part, view: View, balls: list[Detection], region: ClothRegion, signs: TableSigns
) -> Reading:
    camera, table = view.camera, view.table
    positions = np.array([b.position for b in balls]).reshape(-1, 2)
    centres = np.column_stack([positions, np.full(len(balls), table.ball_radius)])
    outlines = part.whole(camera.project(sphere_outline(camera, centres, table.ball_radius, 36))).reshape(-1, 36, 2)
    jacobian = camera.jacobian(positions, table.ball_radius) / part.scale
    metric = np.array([b.covariance for b in balls]).reshape(-1, 2, 2)
    covariance = jacobian @ metric @ np.swapaxes(jacobian, 1, 2)
    sharp = [b for b in balls if b.sharp]
    ratio = sigma = float("nan")
    if sharp:
        each = table.ball_radius + swelling(camera, table, sharp)
        pixel = table.length / float(np.linalg.norm(np.diff(nose_corners(camera, table), axis=0), axis=1).max())
        ratio = float(np.median(each)) / table.length
        sigma = float(np.hypot(1.2 * np.std(each) / np.sqrt(len(each)), 0.25 * pixel)) / table.length
    whole = whole_camera(image, part, camera)
    balls = painted(part.image, camera, table, balls)
    return Reading(
        whole,
        table,
        view,
        tuple(balls),
        outlines.mean(axis=1).reshape(-1, 2),
        covariance,
        outlines,
        ratio,
        sigma,
        nose_corners(whole, table),
        _cloth_lab(region),
        signs,
    )
