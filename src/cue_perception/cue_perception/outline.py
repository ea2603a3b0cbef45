"""Ball centres to a fraction of a pixel: the outline of a sphere at a known height is fitted to the edges around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cue_perception.camera import Camera, sphere_outline
from cue_perception.noses import sample

_RAYS = 40
_HALVES = (5.0, 3.5, 2.75)  # px on either side of the outline, round by round: stripes and spots are left outside
_STEP = 0.5  # px
_CLOSE = 0.6  # px: a prediction that one round moves no further needs no other ...
_GOOD_SUPPORT = 0.55  # ... if so much of the outline is seen
_NEXT, _PREVIOUS = np.roll(np.arange(_RAYS), -1), np.roll(np.arange(_RAYS), 1)
_FLOOR = 0.10  # px: pixel grid, shading and lens model limit what many edge points can average away ...
_SMOOTH = 0.12  # px: ... and edges that scatter by more than this ...
_HIDDEN = 2.0  # sigma in radii, times the square of the share of the outline that is missing beyond 15 %
_DRAWN = 1.2  # ... belong partly to a stripe or a neighbour, which draw all of one side: px of shift per px of scatter


@dataclass(frozen=True)
class OutlineFit:
    """Balls measured in one image; arrays have one entry per ball.

    Attributes:
        position: (n, 2) in the table frame [m].
        covariance: (n, 2, 2) [m^2].
        support: (n,) share of the outline with an edge where it should be, 0..1.
        scatter: (n,) of those edges about the outline [px].
        swelling: (n,) mean offset of the edges from the outline, + outwards [px].
        contrast: (n,) mean grey-level step across the outline.
    """

    position: np.ndarray
    covariance: np.ndarray
    support: np.ndarray
    scatter: np.ndarray
    swelling: np.ndarray
    contrast: np.ndarray

    def chosen(self, which: np.ndarray) -> OutlineFit:
        """Return some of the balls, by a mask or by indices."""
        return OutlineFit(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def joined(self, other: OutlineFit) -> OutlineFit:
        """Return these balls and then others."""
        both = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return OutlineFit(*(np.concatenate(pair) for pair in both))


def fit_outlines(
    image: np.ndarray, camera: Camera, start: np.ndarray, radius: float, rounds: int = 3, expected: int = 0
) -> OutlineFit:
    """Fit spheres that rest on the cloth.

    Args:
        image: (h, w, 3) BGR uint8, as taken.
        camera: that looks.
        start: (n, 2) first guesses [m]; a third of a radius off is near enough.
        radius: of the balls [m].
        rounds: of fitting.
        expected: so many of the first guesses are predictions, which mostly need one round.
    """
    position = np.array(start, float).reshape(-1, 2)
    n = len(position)
    if n == 0:
        return OutlineFit(position, np.zeros((0, 2, 2)), *(np.zeros(0) for _ in range(4)))
    known = _fit(image, camera, position[:expected], radius, (_HALVES[-1],))
    again = np.ones(n, bool)
    again[:expected] = (known.moved > _CLOSE) | (known.fit.support < _GOOD_SUPPORT)
    if not again.any():
        return known.fit
    others = _fit(image, camera, position[again], radius, [_HALVES[min(k, len(_HALVES) - 1)] for k in range(rounds)])
    if again.all():
        return others.fit
    first = np.flatnonzero(~again)
    both = known.fit.chosen(first).joined(others.fit)
    order = np.argsort(np.concatenate([first, np.flatnonzero(again)]))
    return both.chosen(order)


class _Fitted(NamedTuple):
    """A fit, and how far its last round moved each centre (n,) [px]."""

    fit: OutlineFit
    moved: np.ndarray


def _fit(image: np.ndarray, camera: Camera, start: np.ndarray, radius: float, halves: Sequence[float]) -> _Fitted:
    """Fit in rounds, each with edges searched for within so many pixels of the outline."""
    position = start.copy()
    n = len(position)
    if n == 0:
        return _Fitted(OutlineFit(position, np.zeros((0, 2, 2)), *(np.zeros(0) for _ in range(4))), np.zeros(0))
    jacobian = camera.jacobian(position, radius)
    for half in halves:
        centres = np.column_stack([position, np.full(n, radius)])
        pixels = camera.project(sphere_outline(camera, centres, radius, _RAYS))
        tangent = pixels[:, _NEXT] - pixels[:, _PREVIOUS]
        tangent /= np.sqrt(np.sum(tangent**2, axis=-1, keepdims=True))
        normal = np.stack([tangent[..., 1], -tangent[..., 0]], -1)  # outwards, as the outline turns right to down
        offset, step, good = _edges(image, pixels, normal, half)
        design = np.ones((n, _RAYS, 3))
        design[..., :2] = normal @ jacobian  # d offset / d position
        weight = good.astype(float)
        prior = np.zeros((n, 3, 3))
        prior[:, 2, 2] = 1 / 0.6**2  # the radius is known; blur and shading move all edges alike
        for _ in range(5 if len(halves) > 1 else 3):
            weighted = np.swapaxes(design * weight[..., None], 1, 2)
            normal_matrix = weighted @ design / 0.3**2 + prior
            normal_matrix[:, [0, 1], [0, 1]] += 1e-6
            solution = np.linalg.solve(normal_matrix, weighted @ offset[..., None] / 0.3**2)[..., 0]
            residual = offset - (design @ solution[..., None])[..., 0]
            sigma = np.clip(1.4826 * np.median(np.where(good, np.abs(residual), 1.0), axis=1), 0.12, 0.8)
            weight = good * np.clip(1 - (residual / (3.5 * sigma[:, None])) ** 2, 0, None) ** 2
        move = solution[:, :2]
        limit = 1.2 * radius
        length = np.sqrt(np.sum(move**2, axis=1, keepdims=True))
        move = move * np.minimum(1, limit / np.maximum(length, 1e-12))
        position = position + move
    moved = np.sqrt(np.sum((jacobian @ move[..., None])[..., 0] ** 2, axis=1))
    used = weight > 0.1
    count = used.sum(axis=1)
    scatter = np.sqrt(np.sum(weight * residual**2, axis=1) / np.maximum(weight.sum(axis=1), 1e-9))
    # Neighbouring rays see the same pixels: about every second one is news.
    spread = np.maximum(scatter, 0.08)
    shape = np.swapaxes(design * weight[..., None], 1, 2) @ design / (2 * spread**2)[:, None, None] + prior
    shape[:, [0, 1], [0, 1]] += 1e-3
    covariance = np.linalg.inv(shape)[:, :2, :2]
    inverse = np.linalg.inv(jacobian)
    shift = _FLOOR**2 + (_DRAWN * np.clip(scatter - _SMOOTH, 0, None)) ** 2
    covariance = covariance + shift[:, None, None] * inverse @ np.swapaxes(inverse, 1, 2)
    # What hides part of a ball draws edges of its own: such a centre may be off by some tenths of a radius.
    hidden = _HIDDEN * radius * np.clip(0.85 - count / _RAYS, 0, 1) ** 2
    covariance = covariance + (hidden**2)[:, None, None] * np.eye(2)
    contrast = np.sum(np.where(used, step, 0.0), axis=1) / np.maximum(count, 1)
    return _Fitted(OutlineFit(position, covariance, count / _RAYS, scatter, solution[:, 2], contrast), moved)


def _edges(
    image: np.ndarray, pixels: np.ndarray, normal: np.ndarray, half: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, per ball and ray (n, r), where the colour changes [px], by how much, and whether it is an edge.

    The edge is where the colour changes fastest: shading and the shadow beside the ball change it too, but slowly.
    """
    steps = np.arange(-half, half + 1e-9, _STEP)
    values = sample(image, pixels[..., None, :] + steps[:, None] * normal[..., None, :]).astype(np.float32)
    middle = 0.5 * (steps[1:] + steps[:-1])
    slope = np.diff(values, axis=-2)
    smooth = slope.copy()
    smooth[..., 1:-1, :] = 0.25 * slope[..., :-2, :] + 0.5 * slope[..., 1:-1, :] + 0.25 * slope[..., 2:, :]
    k = np.argmax(np.einsum("...c,...c->...", smooth, smooth)[..., 2:-2], axis=-1) + 2
    direction = np.take_along_axis(smooth, k[..., None, None], axis=-2)
    direction /= np.maximum(np.sqrt(np.sum(direction**2, axis=-1, keepdims=True)), 1e-6)
    along = np.einsum("...kc,...jc->...k", slope, direction)  # of the change that is fastest, how much happens where
    offset = middle[k]
    for _ in range(3):
        window = np.clip(1.25 - np.abs(middle - offset[..., None]), 0, 0.5) * 2
        weight = window * np.maximum(along, 0)
        total = weight.sum(axis=-1)
        offset = np.sum(weight * middle, axis=-1) / np.maximum(total, 1e-6)
    whole = np.sqrt(np.sum((values[..., -2:, :].mean(axis=-2) - values[..., :2, :].mean(axis=-2)) ** 2, axis=-1))
    good = (total > 22) & (total > 0.4 * whole) & (np.abs(offset) < half - 0.75)
    return offset, total, good
