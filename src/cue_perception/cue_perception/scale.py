"""How large a table is, from everything that tells: its known size, its balls, and markers of known size in view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.errors import UnknownNameError
from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.photo_table import LENGTHS

POOL_BALL = 0.05715
"""Diameter [m]: WPA, 2 1/4 inches."""
SNOOKER_BALL = 0.0525
"""Diameter [m]: WPBSA."""
_USUAL = 0.04  # relative: how near a ratio of ball to table must come to that of a table on sale
_ANOTHER = 0.15
"""Relative: a named table that disagrees so much with its balls or markers is not the one in the picture."""
_MARKER_SPAN = 1600  # px: longer side of the picture in which markers only need be read
MARKERS = {
    "aruco_4x4": cv2.aruco.DICT_4X4_250,
    "aruco_5x5": cv2.aruco.DICT_5X5_250,
    "aruco_original": cv2.aruco.DICT_ARUCO_ORIGINAL,
    "apriltag_36h11": cv2.aruco.DICT_APRILTAG_36h11,
    "apriltag_25h9": cv2.aruco.DICT_APRILTAG_25h9,
}
"""Families of square markers, name -> OpenCV's number."""


@dataclass(frozen=True)
class ScaleEstimate:
    """One way to tell the table's size.

    Attributes:
        source: "table", "balls", "markers", or "proportions" (the table on sale whose balls are as large beside it).
        length: of the table between the noses of the short cushions [m].
        sigma: standard deviation [m].
        assumed: what had to be taken as known.
    """

    source: str
    length: float
    sigma: float
    assumed: str


@dataclass(frozen=True)
class Scale:
    """The table's size, and how far the ways to tell it disagree.

    Attributes:
        length: used [m].
        source: where it is from.
        known: someone said the size of the table, of its balls or of a marker; otherwise all lengths are a guess.
        estimates: all of them.
        disagreement: largest difference of two estimates from known sizes, relative; 0 with fewer than two.
    """

    length: float
    source: str
    known: bool
    estimates: tuple[ScaleEstimate, ...]
    disagreement: float


def find_scale(
    ratio: float,
    ratio_sigma: float,
    table: TableModel | None,
    presets: Sequence[TableModel] = (),
    ball_diameter: float | None = None,
    snooker: bool = False,
    markers: Sequence[ScaleEstimate] = (),
) -> Scale:
    """Tell the size of a table.

    Args:
        ratio: ball radius over the table's length as seen; nan without balls.
        ratio_sigma: its standard deviation.
        table: preset that someone named; its balls are taken as known too.
        presets: tables on sale.
        ball_diameter: that someone named [m].
        snooker: the balls are those of snooker.
        markers: estimates from :func:`marker_estimates`.
    """
    known: list[ScaleEstimate] = list(markers)
    guesses: list[ScaleEstimate] = []
    seen = bool(np.isfinite(ratio)) and ratio > 0
    if table is not None:
        known.append(ScaleEstimate("table", table.length, 0.004 * table.length, f"preset {table.name}"))
    diameter = ball_diameter or (2 * table.ball_radius if table is not None else None)
    if seen and diameter is not None:
        known.append(_from_balls(ratio, ratio_sigma, diameter))
    if seen and diameter is None:
        near = [p for p in presets if abs(p.ball_radius / p.length / ratio - 1) < _USUAL]
        near.sort(key=lambda p: abs(np.log(p.ball_radius / p.length / ratio)))
        guesses += [ScaleEstimate("proportions", p.length, 0.05 * p.length, f"preset {p.name}") for p in near]
        guesses.append(_from_balls(ratio, ratio_sigma, SNOOKER_BALL if snooker else POOL_BALL))
    order = {"table": 0, "markers": 1, "balls": 2}
    known.sort(key=lambda e: order[e.source])
    lengths = [e.length for e in known]
    apart = float(max(lengths) / min(lengths) - 1) if len(lengths) > 1 else 0.0
    if apart > _ANOTHER and table is not None:
        # That is another table. Balls differ less in size than tables do, and a marker was measured by somebody.
        known.sort(key=lambda e: e.source == "table")
    used = (known or guesses or [ScaleEstimate("nothing", 2.0, 1.0, "nominal: no ball and no size is known")])[0]
    return Scale(used.length, used.source, bool(known), tuple(known + guesses), apart)


def _from_balls(ratio: float, ratio_sigma: float, diameter: float) -> ScaleEstimate:
    length = 0.5 * diameter / ratio
    return ScaleEstimate("balls", length, length * ratio_sigma / ratio, f"ball diameter {1000 * diameter:g} mm")


def marker_estimates(
    image: np.ndarray, camera: Camera, table: TableModel, side: float, family: str = "", height: float | None = None
) -> list[ScaleEstimate]:
    """Return the table's length by square markers lying level on the frame (or elsewhere at one height).

    Args:
        image: (h, w, 3) BGR uint8.
        camera: in units in which the table has the length of ``table``.
        table: as seen.
        side: of a marker's black square [m].
        family: one of :data:`MARKERS`; empty = the one that is found most often.
        height: of the markers above the cloth, in the units of ``table``; None = that of the noses.

    Raises:
        UnknownNameError: no such family.
    """
    if family and family not in MARKERS:
        raise UnknownNameError("marker family", family, sorted(MARKERS))
    level = table.nose_height if height is None else height
    best, name = _find_markers(image, family)
    found = []
    for quad in best:
        place = camera.on_plane(quad, level)
        sides = np.linalg.norm(place - np.roll(place, 1, axis=0), axis=1)
        if sides.max() > 1.25 * sides.min():
            continue  # not level, or no marker
        pixels = np.linalg.norm(quad - np.roll(quad, 1, axis=0), axis=1).mean()
        length = table.length * side / float(sides.mean())
        spread = float(np.hypot(sides.std() / sides.mean() / 2, 0.3 / pixels))
        found.append((length, max(spread, 0.003)))
    if not found:
        return []
    lengths = np.array([f[0] for f in found])
    sigma = float(np.hypot(np.median([f[1] for f in found]), lengths.std() / lengths.mean()) * np.median(lengths))
    assumed = f"{len(found)} {name} markers of {1000 * side:g} mm level at the height of the noses"
    return [ScaleEstimate("markers", float(np.median(lengths)), sigma / np.sqrt(len(found)), assumed)]


def _find_markers(image: np.ndarray, family: str = "") -> tuple[list[np.ndarray], str]:
    """Return the corners (4, 2) [px] of the markers of the family that is seen most often, and its name."""
    best: list[np.ndarray] = []
    name = family
    for candidate in [family] if family else sorted(MARKERS):
        detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(MARKERS[candidate]))
        corners, _, _ = detector.detectMarkers(image)
        if len(corners) > len(best):
            best, name = [c.reshape(4, 2) for c in corners], candidate
    return best, name


def mirrored(image: np.ndarray, family: str = "") -> bool | None:
    """Tell whether a picture is mirrored, by markers in it; None without any.

    A mirrored table is a possible table, and stripes and solids look alike in a mirror. Square markers do not: their
    codes differ from those of their mirror images.
    """
    shrink = _MARKER_SPAN / max(image.shape[:2])
    if shrink < 1:
        image = cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    as_is, _ = _find_markers(image, family)
    turned, _ = _find_markers(np.ascontiguousarray(image[:, ::-1]), family)
    if len(as_is) == len(turned):
        return None
    return len(turned) > len(as_is)


def resized(table: TableModel, camera: Camera, length: float) -> tuple[TableModel, Camera, float]:
    """Return table, camera and factor for the same view of a table of another length [m]."""
    factor = length / table.length
    values = table.to_dict()
    for name in LENGTHS:
        values[name] = values[name] * factor
    return TableModel.from_dict(values), Camera(camera.intrinsics, camera.rotation, camera.translation * factor), factor
