"""Markers beside the table: which end of it is which, whether the image is mirrored, and whether the size is right.

A rectangle looks the same after half a turn, and a mirrored table is a possible table; a marker whose place is known
ends both doubts, and one whose side is known measures the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from cue_core.checks import finite_in, load_yaml, only_keys
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.errors import TableNotFoundError
from cue_perception.reconstruct import Reconstruction
from cue_perception.scale import MARKERS

_NEAR = 0.10  # m: markers are laid down by hand ...
_APART = 0.05  # m: ... and the other reading must be worse by at least this
_WRONG_SIZE = 0.03  # relative: markers that differ so much from the preset tell of another table
_SHRUNK = 0.5  # px: blur draws the corners of every marker inwards, so that more markers do not help


@dataclass(frozen=True)
class Marker:
    """A square marker seen in an image.

    Attributes:
        marker_id: in its family.
        corners: (4, 2) from the marker's own top left, clockwise as it was printed [px].
    """

    marker_id: int
    corners: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        """Return where the diagonals cross (2,) [px]: the middle of the marker, whatever the perspective."""
        a, b, c, d = (np.append(p, 1.0) for p in self.corners)
        cross = np.cross(np.cross(a, c), np.cross(b, d))
        return np.asarray(cross[:2] / cross[2])


@dataclass(frozen=True)
class MarkerLayout:
    """Where markers lie.

    Attributes:
        family: one of ``cue_perception.scale.MARKERS``.
        places: id: (2,) of the marker's middle in the table frame [m].
        side: of the black squares [m]; 0 = not known, then they tell directions only.
        height: of the markers above the cloth [m]; None = that of the cushion noses, as on the frame.
    """

    family: str
    places: Mapping[int, np.ndarray]
    side: float = 0.0
    height: float | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UnknownNameError: no such family.
            OutOfRangeError: naming the value and its range.
        """
        if self.family not in MARKERS:
            raise UnknownNameError("marker family", self.family, sorted(MARKERS))
        finite_in("side of the markers", self.side, 0.0, 1.0, "m")
        if self.height is not None:
            finite_in("height of the markers", self.height, -2.0, 2.0, "m")
        for marker_id, place in self.places.items():
            for axis, value in zip("xy", place, strict=True):
                finite_in(f"{axis} of marker {marker_id}", value, -10.0, 10.0, "m")

    @classmethod
    def load(cls, path: Path | str) -> MarkerLayout:
        """Read ``family``, ``places`` (id: [x, y]), and perhaps ``side`` and ``height``, from YAML.

        Raises:
            CueError: the file is missing or malformed, or a value is not allowed.
        """
        data = load_yaml(path)
        only_keys(path, data, ("family", "places", "side", "height"), needed=("family", "places"))
        try:
            places = {int(key): np.array(place, float).reshape(2) for key, place in dict(data["places"]).items()}
        except (TypeError, ValueError) as error:
            raise FileFormatError(path, f"places are not written id: [x, y]: {error}") from None
        if not places:
            raise FileFormatError(path, "places no marker")
        height = data.get("height")
        return cls(str(data["family"]), places, data.get("side", 0.0), height)


@dataclass(frozen=True)
class MarkerReading:
    """What markers say.

    Attributes:
        half_turn: the table frame should be turned by 180 degrees; None = they do not tell.
        misses: by marker id, how far [m] each lies from its place, in the frame that is right.
        size_ratio: true size of the table over that of the preset; nan = no marker of known side lies flat.
        size_sigma: its standard deviation.
    """

    half_turn: bool | None
    misses: dict[int, float]
    size_ratio: float
    size_sigma: float


def find_markers(image: np.ndarray, family: str) -> list[Marker]:
    """Return the markers of a family in an image (h, w, 3) BGR or (h, w), uint8.

    Raises:
        UnknownNameError: no such family.
    """
    if family not in MARKERS:
        raise UnknownNameError("marker family", family, sorted(MARKERS))
    parameters = cv2.aruco.DetectorParameters()
    parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(MARKERS[family]), parameters)
    corners, ids, _ = detector.detectMarkers(image)
    if not len(corners):
        return []
    found = [Marker(int(k), c.reshape(4, 2).astype(float)) for k, c in zip(ids.ravel(), corners, strict=True)]
    return sorted(found, key=lambda m: m.marker_id)


def is_mirrored(image: np.ndarray, layout: MarkerLayout) -> bool | None:
    """Tell whether an image is mirrored: its markers can only be read in a mirror; None = there are none."""
    known = [m for m in find_markers(image, layout.family) if m.marker_id in layout.places]
    if known:
        return False
    flipped = find_markers(np.ascontiguousarray(image[:, ::-1]), layout.family)
    return True if any(m.marker_id in layout.places for m in flipped) else None


def read_markers(markers: Sequence[Marker], camera: Camera, table: TableModel, layout: MarkerLayout) -> MarkerReading:
    """Compare markers with where they should lie.

    Args:
        markers: seen in the image.
        camera: as the cushions tell, in either of the two frames.
        table: preset.
        layout: of the markers.
    """
    level = table.nose_height if layout.height is None else layout.height
    known = [m for m in markers if m.marker_id in layout.places]
    if not known:
        return MarkerReading(None, {}, float("nan"), float("nan"))
    seen = camera.on_plane(np.array([m.centre for m in known]), level)
    places = np.array([layout.places[m.marker_id] for m in known])
    as_is, turned = (np.linalg.norm(sign * seen - places, axis=1) for sign in (1.0, -1.0))
    better, worse = sorted((as_is, turned), key=lambda d: float(np.median(d)))
    tells = np.median(better) < _NEAR and np.median(worse) - np.median(better) > _APART
    half_turn = bool(better is turned) if tells else None
    misses = {m.marker_id: float(d) for m, d in zip(known, better, strict=True)}
    return MarkerReading(half_turn, misses, *_size(markers, camera, level, layout.side))


def _size(markers: Sequence[Marker], camera: Camera, level: float, side: float) -> tuple[float, float]:
    """Return true over assumed size, from the sides of markers that lie level, and its standard deviation."""
    ratios, common = [], []
    for marker in markers if side > 0 else ():
        flat = camera.on_plane(marker.corners, level)
        sides = np.linalg.norm(flat - np.roll(flat, 1, axis=0), axis=1)
        if sides.max() > 1.25 * sides.min():
            continue  # it does not lie level
        pixels = float(np.linalg.norm(marker.corners - np.roll(marker.corners, 1, axis=0), axis=1).mean())
        ratios.append(side / float(sides.mean()))
        common.append(_SHRUNK / pixels)
    if not ratios:
        return float("nan"), float("nan")
    sigma = np.hypot(np.median(common), np.std(ratios) / np.sqrt(len(ratios)))
    return float(np.median(ratios)), float(sigma)


def orient(found: Reconstruction, image: np.ndarray, table: TableModel, layout: MarkerLayout) -> Reconstruction:
    """Return a reconstruction in the frame that the markers tell; the same one where they tell nothing.

    Raises:
        TableNotFoundError: the image is mirrored, the markers lie elsewhere, or they say that the table has another
            size than the preset.
    """
    if is_mirrored(image, layout):
        raise TableNotFoundError("the image is mirrored: its markers can only be read in a mirror; turn that off")
    reading = read_markers(find_markers(image, layout.family), found.camera, table, layout)
    if not reading.misses:
        return found
    off = abs(reading.size_ratio - 1)
    if off > max(_WRONG_SIZE, 3 * reading.size_sigma):
        raise TableNotFoundError(
            f"the markers' sides say that the table is {reading.size_ratio * table.length:.3f} m long, the preset"
            f" {table.name} says {table.length:.3f} m"
        )
    if reading.half_turn is None:
        apart = ", ".join(f"{k} by {miss:.2f} m" for k, miss in sorted(reading.misses.items()))
        raise TableNotFoundError(f"the markers do not tell the table's ends apart: they lie off their places, {apart}")
    return half_turned(found) if reading.half_turn else found


def half_turned(found: Reconstruction) -> Reconstruction:
    """Return the same reconstruction with the table frame turned by 180 degrees about z."""
    turn = np.diag([-1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    return replace(found, camera=found.camera.half_turned(), covariance=turn @ found.covariance @ turn)
