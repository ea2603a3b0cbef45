"""Noses of a table seen obliquely: the far cushion shows its face, the near one hides the bed's end.

From above, cloth ends at the frame on all sides alike (see :mod:`cue_perception.cushions`). From low beside the table a
patch of cloth colour ends at the frame on one side, at the foot of a shaded face on another. So frame, nose and foot
are told apart on each side by what a rough camera says of how far the foot lies from the nose there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.cushions import ALONG, Edge, Outline, Side, meeting

_LOW, _HIGH = -0.20, 0.26  # depth searched
_SAME = 5.0  # px: a bent line so near to a stronger one shows the same edge
_WIDTHS = np.linspace(0.026, 0.09, 33)  # cushion tops, in widths of the table
_USUAL_WIDTH, _WIDTH_SPREAD = 0.046, 0.35
_TOLERANCE = 0.006
_BENDS = list(itertools.product(np.linspace(-0.04, 0.04, 17), np.linspace(-0.015, 0.015, 7)))
_MOST = 12
_NOISE = 0.6  # Lab units per pixel


@dataclass(frozen=True)
class _Choice:
    frame: float
    nose: Edge
    worth: float


def face_depths(camera: Camera, table: TableModel, quad: np.ndarray) -> np.ndarray:
    """Return how much deeper than its nose each cushion's foot appears (4,), in the depths of ``Side``; < 0: hidden.

    Args:
        camera: that sees the table about right.
        table: of about the right proportions.
        quad: (4, 2) [px]; side i goes from corner i to i + 1.
    """
    x, y = table.length / 2, table.width / 2
    middles = np.array([[0, y], [x, 0], [0, -y], [-x, 0]], float)
    nose = camera.project(np.column_stack([middles, np.full(4, table.nose_height)]))
    foot = camera.project(np.column_stack([middles, np.zeros(4)]))
    depths = np.zeros(4)
    for i in range(4):
        near = int(np.argmin(np.linalg.norm(nose - (quad[i] + quad[(i + 1) % 4]) / 2, axis=1)))
        corners = np.roll(quad, -i, axis=0).astype(np.float32)
        to_depth = cv2.getPerspectiveTransform(corners, np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32))
        both = cv2.perspectiveTransform(np.array([[nose[near]], [foot[near]]]), to_depth).reshape(2, 2)
        depths[i] = both[1, 1] - both[0, 1]
    return depths


def long_sides_first(camera: Camera, table: TableModel, quad: np.ndarray) -> bool:
    """Return whether the first and the third side of a quadrilateral (4, 2) [px] are the long cushions."""
    north = camera.project(np.array([0.0, table.width / 2, table.nose_height]))
    middles = (quad + np.roll(quad, -1, axis=0)) / 2
    return int(np.argmin(np.linalg.norm(middles - north, axis=1))) % 2 == 0


def oblique_outlines(
    lab: np.ndarray, quad: np.ndarray, colour: np.ndarray, faces: np.ndarray, long_first: bool, aspect: float
) -> list[Outline]:
    """Return the likeliest nose rectangles of a table seen obliquely, best first.

    Args:
        lab: (h, w, 3) CIE Lab float32.
        quad: (4, 2) rough outline of the cloth [px].
        colour: (3,) of the cloth, CIE Lab.
        faces: (4,) from :func:`face_depths`.
        long_first: whether the first and the third side are the long ones.
        aspect: length over width.
    """
    sides = [Side(lab, quad, i, _LOW, _HIGH) for i in range(4)]
    edges = [_distinct(side) for side in sides]
    cloth = [_like_cloth(side, colour) for side in sides]
    found = []
    for width in _WIDTHS:
        across, along = width / (1 + 2 * width), width / (aspect + 2 * width)
        score = -0.5 * (np.log(width / _USUAL_WIDTH) / _WIDTH_SPREAD) ** 2
        chosen: list[_Choice] = []
        for i in range(4):
            top = across if (i % 2 == 0) == long_first else along
            best = _best(edges[i], cloth[i], sides[i], top, float(faces[i]))
            if best is None:
                break
            chosen.append(best)
            score += best.worth
        if len(chosen) == 4:
            found.append((score, width, chosen))
    found.sort(key=lambda item: -item[0])
    outlines: list[Outline] = []
    taken: list[list[Edge]] = []
    for score, width, chosen in found:
        noses = [c.nose for c in chosen]
        if noses in taken:
            continue
        taken.append(noses)
        traces = [side.line(nose) for side, nose in zip(sides, noses, strict=True)]
        outlines.append(Outline(meeting([t[[0, -1]] for t in traces]), tuple(traces), quad, float(width), float(score)))
        if len(outlines) == 4:
            break
    return outlines


def _distinct(side: Side) -> list[Edge]:
    """Return the edges along a side without those that are a stronger one, bent."""
    kept: list[Edge] = []
    lines: list[np.ndarray] = []
    for edge in side.edges(_LOW, 40, _BENDS):
        line = edge.depth + edge.tilt * (ALONG - 0.5) + edge.bow * 4 * ALONG * (1 - ALONG)
        same = [
            (np.abs(line - other).min() < 2 * side.step and np.sign(edge.darkens) == np.sign(known.darkens))
            or (np.abs(line - other).mean() < 2 * _SAME * side.step and abs(edge.darkens - known.darkens) < 0.5)
            for other, known in zip(lines, kept, strict=True)
        ]
        if not any(same):
            kept.append(edge)
            lines.append(line)
        if len(kept) == _MOST:
            break
    return kept


def _like_cloth(side: Side, colour: np.ndarray) -> np.ndarray:
    """Return at each depth the share (n,) of places with the hue of the cloth, in shade or not."""
    chroma = np.hypot(side.colours[..., 1] - colour[1], side.colours[..., 2] - colour[2])
    spread = 8.0 + 0.35 * float(np.hypot(colour[1], colour[2]))
    like = (chroma < spread) & (side.colours[..., 0] > 0.3 * colour[0]) & side.seen
    return np.asarray(like.mean(axis=1))


def _strength(edge: Edge) -> float:
    return edge.strength / (edge.strength + 1.0)


def _unexplained(edge: Edge) -> float:
    """Return how much an edge asks for a reason: the faintest are noise."""
    return max(edge.strength - _NOISE, 0.0) / (edge.strength + 1.0 - _NOISE)


def _best(edges: list[Edge], cloth: np.ndarray, side: Side, top: float, face: float) -> _Choice | None:
    """Return the frame and the nose that explain a side's edges best, its cushion's top being so wide."""
    best: _Choice | None = None
    shown = max(face, 0.0)
    for nose in edges:
        start = nose.depth - top
        if start < _LOW + 0.015:
            continue
        near = [e for e in edges if abs(e.depth - start) < 2.5 * _TOLERANCE and e is not nose]
        frame = max((_strength(e) * np.exp(-0.5 * ((e.depth - start) / _TOLERANCE) ** 2) for e in near), default=0.0)
        worth = 1.0 * _strength(nose) * (1 + 0.25 * nose.darkens) + 1.0 * frame
        inside = _mean(cloth, side, start + 0.003, nose.depth - 0.003)
        outside = _mean(cloth, side, start - 0.02, start - 0.004)
        worth += 0.8 * (inside - outside) - 0.8 * (1 - _mean(cloth, side, nose.depth + 1.3 * shown + 0.01, _HIGH))
        end = nose.depth + 1.4 * shown + 0.012  # a face throws its shadow a little beyond its foot
        for edge in edges:
            if edge.depth > end:
                worth -= 1.0 * _unexplained(edge)
            elif start + 0.008 < edge.depth < nose.depth - 0.006:
                worth -= 0.4 * _unexplained(edge)
        if shown > 0.01:
            feet = [e for e in edges if nose.depth + 0.45 * shown < e.depth < end]
            worth += 0.5 * max((_strength(e) for e in feet), default=0.0)
        if best is None or worth > best.worth:
            best = _Choice(start, nose, worth)
    return best


def _mean(cloth: np.ndarray, side: Side, low: float, high: float) -> float:
    """Return the mean share of cloth colour between two depths."""
    within = cloth[(side.depth >= low) & (side.depth <= high)]
    return float(within.mean()) if len(within) else 0.0
