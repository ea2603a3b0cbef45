"""Balls measured again in a picture without shadows: the rim of a dark shadow looks like that of a ball."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline
from cue_perception.detector import Detection
from cue_perception.noses import sample
from cue_perception.outline import OutlineFit, fit_outlines

_DEEPEST = 0.6  # share of the cloth's light that a shadow may take
_GOOD = 0.22  # px: outlines that fit so well need no second look
PAINT = 20.0  # grey levels: what differs so much from the cloth, in light or shadow, is something else
_ALONE = 0.8  # of 1: a disc full of paint with next to none around
_STARTS = np.concatenate(
    [np.zeros((1, 2)), 0.5 * np.column_stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)])]
)


def without_shadows(image: np.ndarray, cloth: np.ndarray, reach: float) -> np.ndarray:
    """Return an image (h, w, 3) float32 in which shadows on the cloth look like the cloth: about zero.

    A shadow moves a colour along the cloth's own, towards black; paint moves it across. So what is darker along the
    cloth's colour is taken back by as much as a shadow can darken.

    Args:
        image: (h, w, 3) BGR uint8.
        cloth: (3,) BGR of the cloth.
        reach: over which the light on the cloth is even [px].
    """
    pixels = image.astype(np.float32)
    axis = (cloth / max(float(np.linalg.norm(cloth)), 1.0)).astype(np.float32)
    along = cv2.transform(pixels, axis[None])
    squared = cv2.transform(cv2.multiply(pixels, pixels), np.ones((1, 3), np.float32))
    off = np.sqrt(np.maximum(squared - along * along, 0))
    like = ((off < 0.18 * along + 8) & (along > 0.5 * float(np.linalg.norm(cloth)))).astype(np.float32)
    small = (max(like.shape[1] // 8, 1), max(like.shape[0] // 8, 1))
    total, level = (
        cv2.resize(
            cv2.GaussianBlur(cv2.resize(plane, small, interpolation=cv2.INTER_AREA), (0, 0), max(reach / 8, 1.0)),
            like.shape[::-1],
            interpolation=cv2.INTER_LINEAR,
        )
        for plane in (like, along * like)
    )
    level = level / np.maximum(total, 1e-3)
    level = np.where(total > 0.02, level, float(np.linalg.norm(cloth)))
    darker = np.minimum(along - level, 0) + _DEEPEST * level
    change = np.where(along < level, np.minimum(darker, 0), along - level)
    return np.asarray(pixels + cv2.merge([(change - along) * a for a in axis]), np.float32)


def settle(
    image: np.ndarray, camera: Camera, table: TableModel, cloth: np.ndarray, balls: list[Detection]
) -> list[Detection]:
    """Return the balls, those with doubtful outlines measured again.

    Args:
        image: (h, w, 3) BGR uint8.
        camera: that took it.
        table: with the balls' radius.
        cloth: (3,) BGR.
        balls: as detected.
    """
    doubtful = [k for k, b in enumerate(balls) if not b.sharp or b.scatter > _GOOD or b.support < 0.9]
    if not doubtful:
        return balls
    radius = table.ball_radius
    scale = float(np.linalg.norm(camera.jacobian(np.zeros((1, 2)), radius)[0], axis=0).mean())
    flat = without_shadows(image, cloth, 3 * scale * radius)
    starts = np.concatenate([balls[k].position + radius * _STARTS for k in doubtful])
    before = fit_outlines(image, camera, np.array([balls[k].position for k in doubtful]), radius)
    after = fit_outlines(flat, camera, starts, radius)
    settled = list(balls)
    for n, k in enumerate(doubtful):
        mine = slice(n * len(_STARTS), (n + 1) * len(_STARTS))
        near = np.linalg.norm(after.position[mine] - balls[k].position, axis=1) < 0.9 * radius
        apart = [
            np.linalg.norm(after.position[mine] - b.position, axis=1) > 1.5 * radius
            for j, b in enumerate(settled)
            if j != k
        ]
        worth = _worth(after)[mine] + _filled(flat, camera, after.position[mine], radius)
        worth = np.where(np.logical_and.reduce([near, *apart]), worth, -np.inf)
        best = int(np.argmax(worth))
        known = float(_worth(before)[n] + _filled(flat, camera, balls[k].position[None], radius)[0])
        known = known if balls[k].sharp else -1.0
        if worth[best] < known + 0.05:
            continue
        i = n * len(_STARTS) + best
        if after.support[i] > 0.55 and after.scatter[i] < 0.8:
            settled[k] = replace(
                balls[k],
                position=after.position[i],
                covariance=after.covariance[i],
                support=float(after.support[i]),
                swelling=float(after.swelling[i]),
                scatter=float(after.scatter[i]),
                sharp=True,
            )
    # A blurred patch that runs on beyond the ball's rim is a part of an arm, a cue or a net.
    blurred = [k for k, b in enumerate(settled) if not b.sharp]
    if not blurred:
        return settled
    alone = _filled(flat, camera, np.array([settled[k].position for k in blurred]), radius) > _ALONE
    gone = {k for k, kept in zip(blurred, alone, strict=True) if not kept}
    return [b for k, b in enumerate(settled) if k not in gone]


def _filled(flat: np.ndarray, camera: Camera, positions: np.ndarray, radius: float) -> np.ndarray:
    """Return how much (n,) of a ball's disc shows paint, less what is painted just outside it, 0..1."""
    angle = 2 * np.pi * np.arange(24) / 24
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    centres = np.column_stack([positions, np.full(len(positions), radius)])
    rim = camera.project(sphere_outline(camera, centres, radius, 4))
    right, down = (rim[:, 0] - rim[:, 2]) / 2, (rim[:, 1] - rim[:, 3]) / 2
    middle = rim.mean(axis=1)
    shares = []
    for reach in (0.4, 0.65, 0.85, 1.25):
        at = middle[:, None] + reach * (circle[:, :1] * right[:, None] + circle[:, 1:] * down[:, None])
        shares.append((np.linalg.norm(sample(flat, at), axis=-1) > PAINT).mean(axis=1))
    return np.asarray(0.2 * shares[0] + 0.35 * shares[1] + 0.45 * shares[2] - 0.4 * shares[3])


def _worth(fit: OutlineFit) -> np.ndarray:
    """Return how well each outline fits: much of it seen, without scatter, of the right size."""
    return np.asarray(fit.support - 0.8 * fit.scatter - 0.15 * np.abs(fit.swelling))
