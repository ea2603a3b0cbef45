"""Balls of the cloth's own colour: what shows is a round outline of the right size, a highlight and some shade."""

from __future__ import annotations

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline
from cue_perception.detector import Detection
from cue_perception.noses import sample
from cue_perception.outline import fit_outlines

_RADIUS = 8.0  # px: of balls in the picture where outlines vote
_EDGE = 3.0  # grey levels per pixel: weaker edges do not vote ...
_NOISE = 4.0  # ... nor such below this multiple of what the bed usually shows
_VOTES = 0.30  # share of a whole outline
_MOST = 24  # places looked at
_SUPPORT, _SWELLING = 0.55, 0.9  # share of the outline that is seen, px ...
_PLAIN, _SCATTERED = 0.40, 0.8  # ... and more of it where edges scatter: share, share per pixel
_LIT = 14.0  # grey levels: a highlight is so much lighter than the cloth around, ...
_SHADED = 9.0  # ... and paint differs by so much in the mean


def faint_balls(image: np.ndarray, camera: Camera, table: TableModel, known: list[Detection]) -> list[Detection]:
    """Return balls that differ little from the cloth, beside those that are known.

    Args:
        image: (h, w, 3) BGR uint8.
        camera: that took it.
        table: with the balls' radius.
        known: already found.
    """
    radius = table.ball_radius
    seeds = _round_places(image, camera, table)
    seeds = _apart(seeds, np.array([b.position for b in known]).reshape(-1, 2), 1.7 * radius)[:_MOST]
    if not len(seeds):
        return []
    fit = fit_outlines(image, camera, seeds, radius)
    good = (fit.support > np.maximum(_SUPPORT, _PLAIN + _SCATTERED * fit.scatter)) & (np.abs(fit.swelling) < _SWELLING)
    good &= np.linalg.norm(fit.position - seeds, axis=1) < 0.6 * radius
    half = np.array([table.length / 2, table.width / 2]) - 0.9 * radius
    good &= np.all(np.abs(fit.position) < half, axis=1)
    order = np.flatnonzero(good)[np.argsort(-(fit.support - fit.scatter)[good])]
    found: list[Detection] = []
    taken = np.array([b.position for b in known]).reshape(-1, 2)
    for k in order:
        place = fit.position[k]
        if len(taken) and np.linalg.norm(taken - place, axis=1).min() < 1.7 * radius:
            continue
        colour = _paint(image, camera, place, radius)
        if colour is None:
            continue
        taken = np.concatenate([taken, place[None]])
        found.append(
            Detection(
                place,
                fit.covariance[k],
                colour,
                0.0,
                float(fit.support[k]),
                swelling=float(fit.swelling[k]),
                scatter=float(fit.scatter[k]),
            )
        )
    return found


def _round_places(image: np.ndarray, camera: Camera, table: TableModel) -> np.ndarray:
    """Return where edges lie about a point as a ball's outline does (n, 2) [m], most of it first."""
    radius = table.ball_radius
    x, y = table.length / 2, table.width / 2
    depth = (camera.rotation @ np.array([0.0, 0.0, radius]) + camera.translation)[2]
    shrink = min(_RADIUS * depth / (camera.intrinsics.matrix[0, 0] * radius), 1.0)
    small = cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA) if shrink < 1 else image
    smooth = cv2.GaussianBlur(small, (0, 0), 0.8).astype(np.float32)
    across, down = (np.asarray(cv2.Sobel(smooth, cv2.CV_32F, *order, ksize=3)) / 8 for order in ((1, 0), (0, 1)))
    each: np.ndarray = np.hypot(across, down)
    channel = np.argmax(each, axis=2)[..., None]  # the colour that changes most tells
    dx, dy, strength = (np.take_along_axis(a, channel, axis=2)[..., 0] for a in (across, down, each))
    corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]]) * (1 - 0.3 * radius / y)
    bed = np.zeros(strength.shape, np.uint8)
    outline = (camera.project(np.column_stack([corners, np.full(4, radius)])) + 0.5) * shrink - 0.5
    cv2.fillConvexPoly(bed, np.round(outline).astype(np.int32), 255)
    inside = bed > 0
    if not inside.any():
        return np.zeros((0, 2))
    usual = float(np.median(strength[inside]))
    v, u = np.nonzero(inside & (strength > max(_EDGE, _NOISE * usual)))
    if not len(u):
        return np.zeros((0, 2))
    pixels = (np.column_stack([u, v]) + 0.5) / shrink - 0.5
    place = camera.on_plane(pixels, radius)
    away = np.column_stack([place, np.full(len(place), radius)]) @ camera.rotation[2] + camera.translation[2]
    reach = shrink * camera.intrinsics.matrix[0, 0] * radius / away
    votes: np.ndarray = np.zeros(strength.shape, np.float32)
    step = np.column_stack([dx[v, u], dy[v, u]]) / strength[v, u, None]
    for sign in (-1.0, 1.0):
        at = np.round(np.column_stack([u, v]) + sign * reach[:, None] * step).astype(int)
        within = np.all((at >= 0) & (at < [votes.shape[1], votes.shape[0]]), axis=1)
        np.add.at(votes, (at[within, 1], at[within, 0]), 1 / (2 * np.pi * reach[within]))
    votes = np.asarray(cv2.boxFilter(votes, -1, (3, 3), normalize=False))
    size = 2 * round(_RADIUS / 2) + 1
    peak = (votes >= cv2.dilate(votes, np.ones((size, size), np.uint8))) & (votes > _VOTES) & inside
    v, u = np.nonzero(peak)
    order = np.argsort(-votes[v, u], kind="stable")[: 4 * _MOST]
    return camera.on_plane((np.column_stack([u, v])[order] + 0.5) / shrink - 0.5, radius)


def _apart(places: np.ndarray, known: np.ndarray, least: float) -> np.ndarray:
    """Return places (n, 2) that are no nearer than that to one known or listed before."""
    kept: list[np.ndarray] = []
    for place in places:
        others = [known, np.array(kept).reshape(-1, 2)]
        if all(np.linalg.norm(o - place, axis=1).min(initial=np.inf) > least for o in others):
            kept.append(place)
    return np.array(kept).reshape(-1, 2)


def _paint(image: np.ndarray, camera: Camera, place: np.ndarray, radius: float) -> np.ndarray | None:
    """Return the CIE Lab (3,) of what fills an outline; None where it is cloth as around it, without a highlight."""
    centre = np.array([[*place, radius]])
    rim = camera.project(sphere_outline(camera, centre, radius, 24))[0]
    middle = rim.mean(axis=0)
    disc = np.concatenate([middle + r * (rim - middle) for r in (0.15, 0.35, 0.55, 0.72, 0.85)])
    around = np.concatenate([middle + r * (rim - middle) for r in (1.45, 1.7)])
    inner, outer = (sample(image, at).astype(float) for at in (disc, around))
    cloth = np.median(outer, axis=0)
    lit = np.percentile(inner.mean(axis=1), 97) - np.percentile(outer.mean(axis=1), 97)
    off = float(np.abs(np.median(inner, axis=0) - cloth).max())
    if not (lit > _LIT and off > 0.3 * _SHADED) and off < _SHADED:
        return None
    lab = cv2.cvtColor((inner[None] / 255).astype(np.float32), cv2.COLOR_BGR2LAB)[0]
    return np.asarray(np.median(lab, axis=0), float)
