"""Where the cushion noses are: edges between the bed and the frame, to a fraction of a pixel."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter1d, uniform_filter1d
from scipy.optimize import least_squares
from scipy.special import ndtr

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics


def sample(image: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Return the bilinear colours (..., c) of a float32 or uint8 image at pixels (..., 2)."""
    flat: np.ndarray = pixels.astype(np.float32).reshape(-1, 2)
    count = len(flat)
    width = min(count, _ROW)  # OpenCV takes no map longer than 32767 either way
    if count % width:
        flat = np.concatenate([flat, np.zeros((width - count % width, 2), np.float32)])
    u, v = flat[:, 0].reshape(-1, width), flat[:, 1].reshape(-1, width)
    values = cv2.remap(image, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    values = values.reshape(len(flat), -1)[:count]
    return values.reshape(*pixels.shape[:-1], -1)


def nose_candidates(
    image: np.ndarray, lens: Intrinsics, quad: np.ndarray, depth: float, most: int = 4
) -> list[list[tuple[float, float]]]:
    """Return, per side of the cloth's outline, where edges run along that side.

    The outline is taken as a rectangle seen in perspective: what runs along a side in the world runs along it here.

    Args:
        image: (h, w, 3) Lab float32, as taken (with distortion).
        lens: of the camera.
        quad: (4, 2) outline of the cloth in undistorted pixels; side i goes from corner i to i + 1.
        depth: how far from the outline to look, in units of the distance to the opposite side.
        most: candidates per side.

    Returns:
        Four lists of (depth, strength), strongest first; depth 0 is the outline.
    """
    sides = []
    for i in range(4):
        corners = np.roll(quad, -i, axis=0).astype(np.float32)
        to_image = cv2.getPerspectiveTransform(np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32), corners)
        reach_px = 0.5 * (np.linalg.norm(corners[3] - corners[0]) + np.linalg.norm(corners[2] - corners[1]))
        step = 0.5 / reach_px
        d = np.arange(-0.015, depth, step)
        s = np.concatenate([np.linspace(0.10, 0.42, 60), np.linspace(0.58, 0.90, 60)])
        grid = np.stack(np.meshgrid(s, d), -1).reshape(-1, 1, 2).astype(np.float64)
        pixels = cv2.perspectiveTransform(grid, to_image).reshape(-1, 2)
        profile = np.median(sample(image, redistort(lens, pixels)).reshape(len(d), len(s), 3), axis=1)
        profile = gaussian_filter1d(profile, 1.5, axis=0)
        slope = np.linalg.norm(np.gradient(profile, axis=0), axis=1)
        peaks = [k for k in range(2, len(d) - 2) if slope[k] >= slope[k - 1] and slope[k] > slope[k + 1]]
        peaks = [k for k in peaks if slope[k] > 0.6]
        peaks.sort(key=lambda k: -slope[k])
        sides.append([(float(d[k]), float(slope[k])) for k in peaks[:most]])
    return sides


def redistort(lens: Intrinsics, pixels: np.ndarray) -> np.ndarray:
    """Return pixels as taken (n, 2) of undistorted ones (the same K without distortion)."""
    focal, centre = lens.matrix[[0, 1], [0, 1]], lens.matrix[:2, 2]
    return lens.distort((pixels - centre) / focal)


_ENDS = 0.06  # of a nose left out at either end: jaws
_ROW = 4096
_BED = 9.0
"""How far inside a nose the bed's colour is taken [px]."""
_SHADE = (0.45, 0.2, 0.12)
"""Lightness of the face below a nose, of the bed's: usual, one sigma among tables, and among cushions of one."""
_DEPTH = (0.35, 0.6, 0.2)
"""How deep below the nose the strip is seen, of the nose's height; one sigma of its logarithm as above."""
_BLUR = (0.8, 0.3)  # px
_MISFIT = 0.015
"""By how much a profile may differ from the model, of the bed's lightness ..."""
_LEVELS = 0.5
"""... and at least [Lab units]."""
_ROUGH = 2.0  # px: one sigma of where a nose was expected
_PLACES = np.arange(-4.0, 4.01, 0.5)  # px
_ALIKE = 4.0  # so many neighbouring places of a profile tell as much as one: blur, half pixels
_UNMODELLED = 0.12
"""One sigma of the bias where the strip is too wide to be modelled [px]."""


@dataclass(frozen=True)
class NoseEdges:
    """Edge points along one cushion.

    Attributes:
        points: (n, 3) on the predicted nose [m].
        normals: (n, 2) in the image, towards the bed.
        offsets: (n,) of the edge from the predicted nose along the normals [px].
        steps: (k,) places of the profile along the normal [px].
        profile: (k, 3) typical Lab colour across the nose, from the cushion's top to the bed.
        peak: where the profile changes fastest near the nose [px].
        depth_shift: how far a point moves along the normal per metre below the nose [px/m]; < 0: the nose hides it.
    """

    points: np.ndarray
    normals: np.ndarray
    offsets: np.ndarray
    steps: np.ndarray
    profile: np.ndarray
    peak: float
    depth_shift: float


def nose_edges(
    image: np.ndarray, camera: Camera, table: TableModel, reach: float = 3.0, per_metre: float = 150.0
) -> list[NoseEdges]:
    """Measure the edge at many places along each nose that is in view.

    Args:
        image: (h, w, 3) Lab float32, as taken.
        camera: pose so far.
        table: geometry.
        reach: how far from the predicted nose to look [px].
        per_metre: places per metre of nose.
    """
    found = []
    steps = np.arange(-reach - 3, _BED + 1.01, 0.5)
    for cushion in table.cushions:
        length = float(np.linalg.norm(cushion.end - cushion.start))
        share = np.linspace(_ENDS, 1 - _ENDS, max(int(length * per_metre), 12))
        line = np.column_stack([cushion.start + share[:, None] * (cushion.end - cushion.start), 0 * share])
        line[:, 2] = table.nose_height
        pixel = camera.project(line)
        along = np.gradient(pixel, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        normal = np.column_stack([-along[:, 1], along[:, 0]])
        inside = camera.project(line + 1e-3 * np.array([*cushion.normal, 0.0]))
        normal *= np.sign(np.sum(normal * (inside - pixel), axis=1))[:, None]
        below = camera.project(line - [0, 0, 1e-3])
        shift = float(np.median(np.sum(normal * (below - pixel), axis=1))) * 1e3
        seen = _in_view(camera, line, pixel)
        if seen.sum() < 8:
            continue
        colours = sample(image, pixel[seen, None] + steps[:, None] * normal[seen, None])
        slope = np.gradient(uniform_filter1d(colours, 3, axis=1), axis=1)
        typical = np.median(slope, axis=0)  # the step that most of this cushion shows
        weight = np.linalg.norm(typical, axis=1)
        inner = range(2, len(steps) - 2)
        peaks = [
            k for k in inner if abs(steps[k]) <= reach and weight[k] >= weight[k - 1] and weight[k] > weight[k + 1]
        ]
        peaks = [k for k in peaks if weight[k] > 0.5]
        if not peaks:
            continue
        best = min(peaks, key=lambda k: abs(steps[k]))  # the foot of the face may be the stronger edge
        direction = typical[best] / weight[best]
        near = np.abs(steps - steps[best]) <= 1.5
        score = slope @ direction
        k = np.clip(np.argmax(np.where(near, score, -np.inf), axis=1), 1, len(steps) - 2)
        row = np.arange(len(k))
        strong = score[row, k] > 0.4 * weight[best]
        offsets = steps[k] + 0.5 * _vertex(score[row, k - 1], score[row, k], score[row, k + 1])
        mean = typical @ direction
        peak = steps[best] + 0.5 * float(_vertex(mean[best - 1], mean[best], mean[best + 1]))
        found.append(
            NoseEdges(
                line[seen][strong],
                normal[seen][strong],
                offsets[strong],
                steps,
                np.median(colours, axis=0),
                peak,
                shift,
            )
        )
    return found


def places_in_view(camera: Camera, table: TableModel, per_metre: float = 150.0) -> int:
    """Return at how many places of the noses :func:`nose_edges` looks for an edge."""
    count = 0
    for cushion in table.cushions:
        length = float(np.linalg.norm(cushion.end - cushion.start))
        share = np.linspace(_ENDS, 1 - _ENDS, max(int(length * per_metre), 12))
        line = np.column_stack([cushion.start + share[:, None] * (cushion.end - cushion.start), 0 * share])
        line[:, 2] = table.nose_height
        count += int(_in_view(camera, line, camera.project(line)).sum())
    return count


def _in_view(camera: Camera, line: np.ndarray, pixel: np.ndarray) -> np.ndarray:
    """Tell which points (n, 3) [m], seen at pixels (n, 2), lie before the camera and well inside its picture."""
    lens = camera.intrinsics
    before = (line @ camera.rotation.T + camera.translation)[:, 2] > 0
    return before & np.all((pixel > _BED) & (pixel < [lens.width - _BED - 1, lens.height - _BED - 1]), axis=1)


def _vertex(left: np.ndarray, middle: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return where the parabola through three neighbours peaks, -1..1 steps from the middle one."""
    bend = left - 2 * middle + right
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(np.where(bend < 0, 0.5 * (left - right) / bend, 0.0), -1, 1)


def edge_bias(edges: list[NoseEdges], nose_height: float) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much each cushion's peak lies off its nose (n,) [px], and the covariance of that (n, n) [px^2].

    Seen from the bed's side, a nose shows a strip of shaded face below it. A strip narrower than the blur shifts the
    edge without showing up as one of its own. How wide it is follows from the direction of view, but for how deep it
    reaches; how dark, from the lamps. Both are alike on all cushions, not the same: faces look different ways. So one
    model of top, strip and bed is fitted to all profiles, with what is usual as a prior, and what profiles and prior
    leave open is the covariance.
    """
    bias, covariance = np.zeros(len(edges)), _UNMODELLED**2 * np.eye(len(edges))
    chosen = [i for i, e in enumerate(edges) if _DEPTH[0] * nose_height * e.depth_shift < _BED - 2]
    if not chosen:
        return bias, covariance
    edges = [edges[i] for i in chosen]
    count = len(edges)
    peak = np.array([e.peak for e in edges])
    height = nose_height * np.array([e.depth_shift for e in edges])
    beds = np.array([max(float(e.profile[e.steps > e.steps[-1] - 1.5, 0].mean()), 1.0) for e in edges])
    levels = [e.profile[:, 0] / bed for e, bed in zip(edges, beds, strict=True)]
    tops = np.array([float(level[e.steps < -2.5].mean()) for e, level in zip(edges, levels, strict=True)])
    misfit = np.maximum(_MISFIT, _LEVELS / beds)

    def residual(p: np.ndarray) -> np.ndarray:
        nose, deeper, lighter, top, bed = p[3:].reshape(count, 5).T
        width = np.maximum(_DEPTH[0] * np.exp(_DEPTH[1] * p[0] + _DEPTH[2] * deeper) * height, 0.0)
        dark = _SHADE[0] + _SHADE[1] * p[1] + _SHADE[2] * lighter
        blur = _BLUR[0] + _BLUR[1] * p[2]
        parts = [p[:3], deeper, lighter, nose / _ROUGH, top - tops, bed - 1.0]
        for i, e in enumerate(edges):
            seen = _across(e.steps - nose[i], width[i], top[i], dark[i], bed[i], blur)
            parts.append((seen - levels[i]) / misfit[i])
        return np.concatenate(parts)

    # The strip may have drawn the nearest edge, not the nose: begin where the whole profiles say.
    best, first = np.inf, (0.0, 0.0, peak)
    for deep in (-1.0, 0.0, 1.0):
        for light in (-1.0, 0.5):
            total, noses = 0.0, []
            for i, e in enumerate(edges):
                width = max(_DEPTH[0] * np.exp(_DEPTH[1] * deep) * height[i], 0.0)
                dark = _SHADE[0] + _SHADE[1] * light
                seen = _across(e.steps - _PLACES[:, None], width, tops[i], dark, 1.0, _BLUR[0])
                off = np.sum((seen - levels[i]) ** 2, axis=1) / misfit[i] ** 2 + (_PLACES / _ROUGH) ** 2
                total += float(off.min())
                noses.append(_PLACES[np.argmin(off)])
            if total < best:
                best, first = total, (deep, light, np.array(noses))
    each = np.column_stack([first[2], np.zeros((count, 2)), tops, np.ones(count)])
    low = np.concatenate([[-3.0, -2.2, -1.6], np.full(5 * count, -np.inf)])
    high = np.concatenate([[2.0, 2.7, 7.0], np.full(5 * count, np.inf)])
    start = np.concatenate([first[:2], [0.0], each.ravel()])
    fit = least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=2.0, x_scale="jac", max_nfev=60)
    # Weights allow for more misfit than most tables show: how far off the fit may be follows from what they show.
    usual, seen_off = 3 + 5 * count, residual(fit.x)
    shown = np.clip(_ALIKE * np.mean(seen_off[usual:] ** 2), 0.04, 1.0)
    tell = fit.jac[:usual].T @ fit.jac[:usual] + shown * fit.jac[usual:].T @ fit.jac[usual:]
    inverse = np.linalg.inv(fit.jac.T @ fit.jac)
    spread = inverse @ tell @ inverse
    bias[chosen] = peak - fit.x[3::5]
    covariance[np.ix_(chosen, chosen)] = spread[3::5, 3::5]
    return bias, covariance


def _across(place: np.ndarray, width: float, top: float, dark: float, bed: float, blur: float) -> np.ndarray:
    """Return the lightness at places (...) [px] from a nose: a cushion's top, a strip of dark face, the bed."""
    return np.asarray(top + (dark - top) * ndtr(place / blur) + (bed - dark) * ndtr((place - width) / blur))
