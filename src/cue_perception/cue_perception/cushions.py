"""Where frame and cushion noses run in a picture from a camera of which nothing is known yet.

Every side of a table shows several long edges: the cloth's end at the frame, the nose, the foot of its face, the end of
its shadow. Cushions are equally wide all round, and a rectangle seen in perspective maps onto a rectangle: both hold
for the noses alone, so the four sides are judged together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter1d

from cue_perception.errors import TableNotFoundError
from cue_perception.noses import sample

ALONG = np.concatenate([np.linspace(0.09, 0.44, 20), np.linspace(0.56, 0.91, 20)])  # the middle may be a pocket
_MIDDLE = len(ALONG) // 2
BENDS = list(itertools.product(np.linspace(-0.015, 0.015, 7), np.linspace(-0.02, 0.02, 9)))
_STEEP = list(itertools.product(np.linspace(-0.06, 0.06, 25), (-0.012, 0.0, 0.012)))
_UNSEEN = 0.03  # worth below which a side rather shows no nose at all
_GAP = 0.035  # depth: a dark nose or shadow may part the cushion's cloth from the bed's by so much
_WIDTHS = np.linspace(0.024, 0.12, 59)  # cushion tops, in widths of the table
_USUAL_WIDTH = 0.046  # pool 0.04 .. 0.05, full-size snooker 0.028, home tables up to 0.07
_NEAREST = 0.009  # depth: the frame's own edge lies nearer
_WEAK = -1.8  # score of an outline that is hardly one
_TOLERANCE = 0.007  # depth: how equal the tops are
_FAINT = 0.35  # Lab units per pixel: weaker edges are noise


@dataclass(frozen=True)
class Edge:
    """One long edge along a side: depth(s) = depth + tilt (s - 1/2) + bow 4 s (1 - s), s = 0..1 along the side.

    Attributes:
        depth: in the middle of the chord, as a share of the way to the opposite side.
        tilt: of the chord.
        bow: how much a lens bends it.
        strength: colour change [Lab units per pixel].
        darkens: change of lightness inwards, of the strength, -1..1; > 0: darker inside.
    """

    depth: float
    tilt: float
    bow: float
    strength: float
    darkens: float


@dataclass(frozen=True)
class Outline:
    """The noses of a table in an image.

    Attributes:
        corners: (4, 2) where the noses' lines meet, in order around the table [px]; side i goes from corner i to i + 1.
        lines: of the four sides, (n, 2) points [px] along the nose, bowed as the lens bows it; none where it is hidden.
        frame: (4, 2) the same of the cloth's ends at the frame [px].
        width: of the cushions' tops, in widths of the table.
        score: how much speaks for it.
    """

    corners: np.ndarray
    lines: tuple[np.ndarray, ...]
    frame: np.ndarray
    width: float
    score: float


def find_outline(lab: np.ndarray, quad: np.ndarray, colour: np.ndarray, aspect: float | None = None) -> list[Outline]:
    """Return the likeliest nose rectangles, best first.

    Args:
        lab: (h, w, 3) CIE Lab float32.
        quad: (4, 2) rough outline of the cloth, in order around it [px].
        colour: (3,) of the cloth, CIE Lab.
        aspect: length over width between the noses; None = about two.

    Raises:
        TableNotFoundError: no four edges run along the four sides.
    """
    frames = [quad]
    for _ in range(4):  # a rough outline may cut a shaded cushion off, and then runs askew
        frames.append(_frame(lab, frames[-1], colour))
        if np.abs(frames[-1] - frames[-2]).max() < 1.5:
            break
    outlines = _outlines(lab, frames[-1], aspect)
    if not outlines or outlines[0].score < _WEAK:  # the search for the frame may have gone astray
        outlines += _outlines(lab, quad, aspect)
        outlines.sort(key=lambda o: -o.score)
        outlines = outlines[:4]
    outlines += _bare(lab, quad)
    if not outlines:
        raise TableNotFoundError("along the sides of the cloth run no edges that could be cushion noses")
    return outlines


def _outlines(lab: np.ndarray, frame: np.ndarray, aspect: float | None) -> list[Outline]:
    """Return the likeliest nose rectangles within a frame (4, 2) [px], best first."""
    sides = [Side(lab, frame, i, -0.01, 0.24) for i in range(4)]
    edges = [side.edges(_NEAREST) for side in sides]
    lengths = [float(np.linalg.norm(frame[(i + 1) % 4] - frame[i])) for i in range(4)]
    one, other = lengths[0] + lengths[2], lengths[1] + lengths[3]
    ratio = aspect or float(np.clip(max(one, other) / min(one, other), 1.7, 2.3))
    found = []
    for first_long, share in itertools.product((True, False), _WIDTHS):
        if (first_long and one < 0.8 * other) or (not first_long and other < 0.8 * one):
            continue  # only an oblique view may show the long sides as the shorter ones
        across, along = share / (1 + 2 * share), share / (ratio + 2 * share)
        chosen, score = [], -0.5 * (np.log(share / _USUAL_WIDTH) / 0.4) ** 2
        for i, options in enumerate(edges):
            target = across if (i % 2 == 0) == first_long else along
            hidden = Edge(target, 0.0, 0.0, 0.0, 0.0)
            values = [_worth(e) * np.exp(-0.5 * ((e.depth - target) / _TOLERANCE) ** 2) for e in options]
            best = int(np.argmax(values)) if values else 0
            seen = bool(values) and values[best] > _UNSEEN
            chosen.append(options[best] if seen else hidden)
            score += np.log(0.05 + (float(values[best]) if seen else 0.0))
        found.append((score, share, chosen))
    found.sort(key=lambda item: -item[0])
    outlines: list[Outline] = []
    taken: list[list[Edge]] = []
    for score, share, chosen in found:
        if sum(e.strength > 0 for e in chosen) < 3 or any(
            all(a == b for a, b in zip(chosen, others, strict=True)) for others in taken
        ):
            continue
        taken.append(chosen)
        chords = [side.line(edge)[[0, -1]] for side, edge in zip(sides, chosen, strict=True)]
        traces = [side.line(e) if e.strength else np.zeros((0, 2)) for side, e in zip(sides, chosen, strict=True)]
        outlines.append(Outline(meeting(chords), tuple(traces), frame, share, float(score)))
        if len(outlines) == 4:
            break
    return outlines


def _bare(lab: np.ndarray, quad: np.ndarray) -> list[Outline]:
    """Return the outline of the cloth itself: cushions of another colour, or black with shade, end it at the noses."""
    sides = [Side(lab, quad, i, -0.02, 0.02) for i in range(4)]
    ends = [max(side.edges(-1.0), key=lambda e: e.strength, default=None) for side in sides]
    known = [e for e in ends if e is not None]
    if len(known) < 4:
        return []
    traces = [side.line(edge) for side, edge in zip(sides, known, strict=True)]
    score = float(sum(np.log(0.05 + 0.15 * _worth(e)) for e in known))
    return [Outline(meeting([t[[0, -1]] for t in traces]), tuple(traces), quad, 0.0, score)]


def _worth(edge: Edge) -> float:
    """Return how much an edge looks like a nose: strong, and darker below the nose than on top of the cushion."""
    return edge.strength / (edge.strength + 1.0) * (1.0 + 0.35 * edge.darkens)


class Side:
    """The strip along one side of a quadrilateral, sampled as if it were seen from above."""

    def __init__(self, lab: np.ndarray, quad: np.ndarray, index: int, low: float, high: float) -> None:
        corners = np.roll(quad, -index, axis=0).astype(np.float32)
        square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
        self.to_image = cv2.getPerspectiveTransform(square, corners)
        reach = 0.5 * (np.linalg.norm(corners[3] - corners[0]) + np.linalg.norm(corners[2] - corners[1]))
        self.step = 0.5 / float(reach)
        self.depth = np.arange(low, high, self.step)
        grid = np.stack(np.meshgrid(ALONG, self.depth), -1).reshape(-1, 1, 2)
        pixels = cv2.perspectiveTransform(grid, self.to_image).reshape(-1, 2)
        self.colours = sample(lab, pixels).reshape(len(self.depth), len(ALONG), 3)
        self.seen = np.all((pixels > 1) & (pixels < [lab.shape[1] - 2, lab.shape[0] - 2]), axis=1).reshape(
            len(self.depth), len(ALONG)
        )

    def edges(self, nearest: float, most: int = 7, bends: list[tuple[float, float]] = BENDS) -> list[Edge]:
        """Return the strongest edges at least so deep."""
        slope = np.gradient(gaussian_filter1d(self.colours, 1.6, axis=0), axis=0)
        planes = np.ascontiguousarray(slope.transpose(2, 0, 1), np.float32)
        rows = np.arange(len(self.depth))[:, None]
        best = np.zeros(len(self.depth))
        which = np.zeros(len(self.depth), int)
        typical = np.zeros((len(self.depth), 3))
        for k, (tilt, bow) in enumerate(bends):
            shift = tilt * (ALONG - 0.5) + bow * 4 * ALONG * (1 - ALONG)
            at = np.clip(rows + np.round(shift / self.step).astype(int), 0, len(self.depth) - 1)
            values = np.sort(planes[:, at, np.arange(len(ALONG))], axis=-1)  # much faster than np.median
            here = 0.5 * (values[..., _MIDDLE - 1] + values[..., _MIDDLE]).T
            strength = np.linalg.norm(here, axis=1) * (1 - 4.0 * abs(tilt) - 2.0 * abs(bow))
            better = strength > best
            best[better], which[better], typical[better] = strength[better], k, here[better]
        order = np.argsort(-best)
        chosen: list[int] = []
        for k in order:
            if best[k] < _FAINT or len(chosen) == most:
                break
            if self.depth[k] < nearest or not 3 < k < len(best) - 4 or best[k] < best[k - 3 : k + 4].max():
                continue
            if all(abs(k - other) > 5 for other in chosen):
                chosen.append(int(k))
        found = []
        for k in chosen:
            tilt, bow = bends[which[k]]
            darkens = float(-typical[k, 0] / max(np.linalg.norm(typical[k]), 1e-6))
            found.append(Edge(float(self.depth[k]), float(tilt), float(bow), float(best[k]), darkens))
        return found

    def cloth_end(self, colour: np.ndarray) -> float:
        """Return the depth at which the cloth ends at the frame: cushion tops of cloth lie inside."""
        chroma = np.hypot(self.colours[..., 1] - colour[1], self.colours[..., 2] - colour[2])
        spread = 9.0 + 0.22 * float(np.hypot(colour[1], colour[2]))
        like = (chroma < spread) & (self.colours[..., 0] > 0.45 * colour[0]) & self.seen
        share = like.mean(axis=1)
        end = None
        for k in range(len(share) - 1, -1, -1):
            if share[k] > 0.5:
                end = k
            elif end is not None and (end - k) * self.step > _GAP:
                break
        return float(self.depth[end]) if end is not None else 0.0

    def line(self, edge: Edge) -> np.ndarray:
        """Return points (25, 2) [px] of an edge from end to end; the ends lie on its chord."""
        s = np.linspace(0, 1, 25)
        depth = edge.depth + edge.tilt * (s - 0.5) + edge.bow * 4 * s * (1 - s)
        points = np.column_stack([s, depth]).reshape(-1, 1, 2)
        return cv2.perspectiveTransform(points, self.to_image).reshape(-1, 2)


def _frame(lab: np.ndarray, quad: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return the corners (4, 2) of the cloth's ends at the frame, from a rough outline."""
    sides = [Side(lab, quad, i, -0.12, 0.16) for i in range(4)]
    lines = []
    for side in sides:
        end = side.cloth_end(colour)
        near = [e for e in side.edges(-1.0, 12, _STEEP) if abs(e.depth - end) < 0.015]
        edge = max(near, key=lambda e: e.strength) if near else Edge(end, 0.0, 0.0, 0.0, 0.0)
        lines.append(side.line(edge)[[0, -1]])
    return meeting(lines)


def meeting(lines: list[np.ndarray]) -> np.ndarray:
    """Return where each side, two points (2, 2), meets the one before it, (4, 2)."""
    corners = []
    for i in range(4):
        (p, a), (q, b) = lines[i - 1], lines[i]
        u, v = a - p, b - q
        matrix = np.column_stack([u, -v])
        if abs(np.linalg.det(matrix)) < 1e-3 * np.linalg.norm(u) * np.linalg.norm(v):
            raise TableNotFoundError("neighbouring cushions run parallel in the image")
        corners.append(p + u * np.linalg.solve(matrix, q - p)[0])
    return np.array(corners)
