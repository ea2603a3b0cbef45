"""What is printed on a ball: its colour, the white beside a stripe, the number in its white discs; a cube texture."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import cv2
import mujoco
import numpy as np

from cue_core.balls import ball_colour

IVORY = (0.93, 0.92, 0.88)
"""sRGB of everything white on a ball, and of a table's sights."""
DISC = math.radians(13)
"""Half the angle under which a ball's centre sees a number's disc: 1/2 inch on a ball of 2 1/4 inch."""
STRIPE = 0.53
"""A stripe reaches this far from its middle, in radii."""
_SIZE, _FINE = 64, 3  # texels along a face's edge; samples per texel along it
_INK = (0.03, 0.03, 0.03)
# Per face: its normal and the directions of growing column and row; the order of OpenGL's cube maps.
_FACES = (
    ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
    ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
)


@cache
def ball_texture(ball_id: int) -> np.ndarray:
    """Return the six faces of a ball's cube texture, (6 * 64, 64, 3) uint8 sRGB.

    The axis of a stripe is z. The number stands twice: at the poles of z on balls 1 to 8, of x on striped ones.

    Raises:
        UnknownNameError: no such ball.
    """
    colour = np.array(ball_colour(ball_id)[1])
    count = _SIZE * _FINE
    steps = (2 * np.arange(count) + 1) / count - 1
    column, row = np.meshgrid(steps, steps)
    faces = []
    for normal, right, down in _FACES:
        ray = np.array(normal) + column[..., None] * np.array(right) + row[..., None] * np.array(down)
        faces.append(_paint(ball_id, colour, ray / np.linalg.norm(ray, axis=2, keepdims=True)))
    fine = np.concatenate(faces).reshape(6 * _SIZE, _FINE, _SIZE, _FINE, 3)
    return np.rint(255 * fine.mean(axis=(1, 3))).astype(np.uint8)


def _paint(ball_id: int, colour: np.ndarray, ray: np.ndarray) -> np.ndarray:
    """Return the (..., 3) colours that a ball shows in the unit directions ``ray`` (..., 3) of its own frame."""
    picture = np.broadcast_to(colour, ray.shape).copy()
    if ball_id == 0:
        return picture
    axis, up = (2, 1) if ball_id <= 8 else (0, 2)
    if ball_id > 8:
        picture[np.abs(ray[..., 2]) > STRIPE] = IVORY
    disc = np.abs(ray[..., axis]) > math.cos(DISC)
    picture[disc] = IVORY
    label = _label(ball_id)
    half = label.shape[0] / 2
    # Across the disc, seen from outside: to the right and up, in disc radii.
    facing = np.sign(ray[disc][:, axis])
    side = (3 - axis - up) % 3
    turn = 1.0 if (up, side, axis) in ((1, 0, 2), (2, 1, 0), (0, 2, 1)) else -1.0
    across, upwards = turn * facing * ray[disc][:, side] / math.sin(DISC), ray[disc][:, up] / math.sin(DISC)
    at_row = np.clip(half * (1 - upwards), 0, 2 * half - 1).astype(int)
    at_column = np.clip(half * (1 + across), 0, 2 * half - 1).astype(int)
    ink = label[at_row, at_column, None]
    picture[disc] = ink * np.array(_INK) + (1 - ink) * picture[disc]
    return picture


def _label(ball_id: int) -> np.ndarray:
    """Return the (128, 128) ink 0..1 of a number, to be stretched over its disc."""
    page, text = np.zeros((128, 128), np.uint8), str(ball_id)
    font, scale, thick = cv2.FONT_HERSHEY_SIMPLEX, 3.0 if len(text) == 1 else 2.2, 11
    (width, height), _ = cv2.getTextSize(text, font, scale, thick)
    cv2.putText(page, text, (64 - width // 2, 64 + height // 2), font, scale, 255, thick, cv2.LINE_AA)
    return page / 255


def add_ball_texture(spec: Any, name: str, ball_id: int) -> None:
    """Add a ball's texture to a ``mujoco.MjSpec``, which can then no longer be written as XML."""
    picture = ball_texture(ball_id)
    texture = spec.add_texture(
        name=name, type=mujoco.mjtTexture.mjTEXTURE_CUBE, width=_SIZE, height=6 * _SIZE, nchannel=3
    )
    texture.data = picture.tobytes()
