"""Where the cloth is: the largest quadrilateral patch of one colour, whatever the colour."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np

from cue_perception.errors import TableNotFoundError

_BIN = 4  # Lab units per histogram bin of (a, b)
_TURNS = (35.0, 20.0)  # degrees between sides, at least; the second from low beside the table
_SPREADS = ((7.0, 12.0), (18.0, 25.0))  # Lab units about a hue; the second where light falls off steeply
_FULL = 0.95  # share of its four sides that a whole cloth fills
_TIGHT = (0.97, 1.25)  # area of the four sides about a patch, of the patch's hull
_SMALL = 640  # px; the search runs on an image no wider than this


@dataclass(frozen=True)
class ClothRegion:
    """The cloth in an image.

    Attributes:
        quad: (4, 2) corners of the cloth's outline, cushion tops included, in order around it [px].
        colour: (3,) Lab, 8-bit scale of OpenCV.
        fill: share of the quadrilateral that has the cloth's colour, 0..1.
    """

    quad: np.ndarray
    colour: np.ndarray
    fill: float


def find_cloth(image: np.ndarray, least_area: float = 0.04) -> list[ClothRegion]:
    """Return the patches that may be the cloth, best first.

    Args:
        image: (h, w, 3) BGR uint8, without lens distortion.
        least_area: share of the image that a cloth must cover.

    Raises:
        TableNotFoundError: no patch of one colour has four straight sides.
    """
    scale = min(1.0, _SMALL / image.shape[1])
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else image
    lab = cv2.cvtColor(cv2.GaussianBlur(small, (0, 0), 1.2), cv2.COLOR_BGR2LAB)
    problems: list[str] = []
    found: list[tuple[float, ClothRegion, float]] = []
    modes = _modes(lab)
    for spreads in _SPREADS:
        for mode, spread in itertools.product(modes, spreads):
            try:
                region = _region(lab, mode, spread, least_area)
            except TableNotFoundError as error:
                problems.append(str(error))
                continue
            found.append((region.fill * np.sqrt(abs(_area(region.quad))), region, scale))
        if any(region.fill > _FULL for _, region, _ in found):
            break
    if not found:
        raise TableNotFoundError("no cloth: " + "; ".join(dict.fromkeys(problems)))
    found.sort(key=lambda item: -item[0])
    return [ClothRegion((r.quad + 0.5) / s - 0.5, r.colour, r.fill) for _, r, s in found]


def _area(quad: np.ndarray) -> float:
    return float(cv2.contourArea(quad.astype(np.float32)))


def _modes(lab: np.ndarray, count: int = 5) -> list[np.ndarray]:
    """Return the (L, a, b) of the commonest hues, each at least 3 bins from the others."""
    bins = 256 // _BIN
    hist = cv2.calcHist([lab], [1, 2], None, [bins, bins], [0, 256, 0, 256])
    hist = cv2.GaussianBlur(hist, (0, 0), 1.0)
    modes = []
    for _ in range(count):
        _, peak, _, (b, a) = cv2.minMaxLoc(hist)
        if peak < 0.003 * lab.shape[0] * lab.shape[1]:
            break
        close = np.abs(lab[..., 1].astype(int) - (a + 0.5) * _BIN) + np.abs(lab[..., 2].astype(int) - (b + 0.5) * _BIN)
        inside = lab[close < 2 * _BIN]
        modes.append(np.median(inside, axis=0).astype(float))
        hist[max(a - 3, 0) : a + 4, max(b - 3, 0) : b + 4] = 0
    return modes


def _region(lab: np.ndarray, mode: np.ndarray, spread: float, least_area: float) -> ClothRegion:
    difference = lab.astype(np.float32) - mode.astype(np.float32)
    # A shadow or a cushion top is darker and, in Lab, a little greyer; the floor is of another hue.
    chroma = np.hypot(difference[..., 1], difference[..., 2])
    lightness = difference[..., 0]
    mask = ((chroma < spread) & (lightness > -0.45 * mode[0]) & (lightness < 0.35 * mode[0] + 10)).astype(np.uint8)
    mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    if len(stats) < 2:
        raise TableNotFoundError("no patch of one colour")
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    area = int(stats[largest, cv2.CC_STAT_AREA])
    if area < least_area * mask.size:
        raise TableNotFoundError(f"the largest patch of one colour covers {area / mask.size:.1%} of the image")
    contours, _ = cv2.findContours((labels == largest).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(contours, key=cv2.contourArea)
    hull = cv2.convexHull(outline)
    solidity = cv2.contourArea(outline) / max(cv2.contourArea(hull), 1.0)
    if solidity < 0.72:
        raise TableNotFoundError(f"the patch of cloth colour has ragged sides (solidity {solidity:.2f}): it leaks")
    quad = _straighten(_quadrilateral(hull), outline.reshape(-1, 2).astype(np.float32))
    if _sides_on_border(quad, lab.shape[1], lab.shape[0]) > 2:
        raise TableNotFoundError("a patch of one colour goes beyond the image")
    fill = float(cv2.contourArea(outline) / max(_area(quad), 1.0))
    if not 0.75 < fill < 1.08:
        raise TableNotFoundError(f"the patch of cloth colour is no quadrilateral (fills {fill:.2f} of one)")
    return ClothRegion(quad, mode, fill)


def _quadrilateral(hull: np.ndarray) -> np.ndarray:
    """Return the (4, 2) intersections of the hull's four longest sides, in order around it."""
    perimeter = cv2.arcLength(hull, True)
    polygon = cv2.approxPolyDP(hull, 0.012 * perimeter, True).reshape(-1, 2).astype(float)
    sides = np.roll(polygon, -1, axis=0) - polygon
    length = np.linalg.norm(sides, axis=1)
    direction = np.arctan2(sides[:, 1], sides[:, 0])
    chosen: list[int] = []
    for least_turn in _TURNS:
        chosen = []
        for i in np.argsort(-length):
            turn = [abs((direction[i] - direction[j] + np.pi) % (2 * np.pi) - np.pi) for j in chosen]
            if not turn or min(turn) > np.radians(least_turn):
                chosen.append(int(i))
            if len(chosen) == 4:
                break
        if len(chosen) == 4 and length[chosen[-1]] >= 0.04 * perimeter:
            break
    quads = []
    if len(chosen) == 4 and length[chosen[-1]] >= 0.04 * perimeter:
        quads.append(_around(polygon, sides, sorted(chosen)))
    area = cv2.contourArea(hull)
    if not quads or not _TIGHT[0] < _area(quads[0]) / area < _TIGHT[1]:
        # Seen from low at a corner, the shortest side of a cloth may be shorter than a pocket's cut.
        likely = sorted(int(i) for i in np.argsort(-length)[:7] if length[i] >= 0.03 * perimeter)
        for choice in itertools.combinations(likely, 4):
            try:
                quad = _around(polygon, sides, list(choice))
            except TableNotFoundError:
                continue
            if cv2.isContourConvex(quad.astype(np.float32)) and _area(quad) > _TIGHT[0] * area:
                quads.append(quad)
    if not quads:
        raise TableNotFoundError("the patch of cloth colour has no four straight sides")
    return min(quads, key=lambda quad: abs(np.log(max(_area(quad), 1.0) / area)))


def _around(polygon: np.ndarray, sides: np.ndarray, chosen: list[int]) -> np.ndarray:
    """Return the corners (4, 2) where four sides of a polygon meet."""
    corners = [
        _intersect(polygon[i], sides[i], polygon[j], sides[j])
        for i, j in zip(chosen, chosen[1:] + chosen[:1], strict=True)
    ]
    return np.array(corners)


def _straighten(quad: np.ndarray, outline: np.ndarray) -> np.ndarray:
    """Return the quadrilateral with each side fitted to the outline's points near it; pockets and balls pull little."""
    lines = []
    for i in range(4):
        start, side = quad[i], quad[(i + 1) % 4] - quad[i]
        length = np.linalg.norm(side)
        along, normal = side / length, np.array([-side[1], side[0]]) / length
        base = start
        for reach in (0.03, 0.012, 0.008):
            offset = outline - base
            s, d = offset @ along, offset @ normal
            near = (s > 0.04 * length) & (s < 0.96 * length) & (np.abs(d) < max(reach * length, 1.5))
            if near.sum() < 8:
                break
            vx, vy, x, y = cv2.fitLine(outline[near], cv2.DIST_HUBER, 0, 0.01, 0.01).ravel()
            along = np.array([vx, vy]) * np.sign(vx * along[0] + vy * along[1])
            normal = np.array([-along[1], along[0]])
            base = np.array([x, y]) + along * ((start - [x, y]) @ along)
        lines.append((base, along))
    return np.array([_intersect(*lines[i - 1], *lines[i]) for i in range(4)])


def _sides_on_border(quad: np.ndarray, width: int, height: int) -> int:
    count = 0
    for i in range(4):
        a, b = quad[i], quad[(i + 1) % 4]
        for axis, end in ((0, 0), (0, width - 1), (1, 0), (1, height - 1)):
            count += bool(abs(a[axis] - end) < 3 and abs(b[axis] - end) < 3)
    return count


def _intersect(p: np.ndarray, u: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    matrix = np.column_stack([u, -v])
    if abs(np.linalg.det(matrix)) < 1e-3 * np.linalg.norm(u) * np.linalg.norm(v):
        raise TableNotFoundError("neighbouring sides of the cloth are parallel")
    return p + u * np.linalg.solve(matrix, q - p)[0]
