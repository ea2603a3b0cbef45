"""Pictures of what the tracker sees, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from cue_core.balls import BallState, Visibility, ball_colour
from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline

_SHIFT = 4  # bits of sub-pixel places in OpenCV's drawing
_NOSE, _POCKET, _SEEN, _HIDDEN, _DARK = (80, 255, 80), (255, 160, 60), (255, 255, 255), (0, 165, 255), (0, 0, 0)


def draw_overlay(
    image: np.ndarray,
    camera: Camera,
    table: TableModel,
    balls: Sequence[BallState] = (),
    trails: Mapping[int, np.ndarray] | None = None,
    scale: float = 1.0,
    text: str = "",
    arm: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """Return the image (h, w, 3) with noses, pockets, balls and trails {id: (n, 2) [m]} drawn over it, enlarged.

    ``arm``: outlines (m, 2) [px] of what is masked.
    """
    picture = (
        image.copy() if scale == 1.0 else cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    )

    def place(points: np.ndarray, height: float) -> np.ndarray:
        pixels = camera.project(np.column_stack([points, np.full(len(points), height)]))
        return _fixed(pixels, scale)

    for cushion in table.cushions:
        line = cushion.start + np.linspace(0, 1, 20)[:, None] * (cushion.end - cushion.start)
        cv2.polylines(picture, [place(line, table.nose_height)], False, _NOSE, 1, cv2.LINE_AA, _SHIFT)
    angle = np.linspace(0, 2 * np.pi, 40)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    for pocket in table.pockets:
        ring = place(pocket.position + pocket.radius * circle, 0.0)
        cv2.polylines(picture, [ring], True, _POCKET, 1, cv2.LINE_AA, _SHIFT)
    for outline in arm:
        cv2.polylines(picture, [_fixed(outline, scale)], True, _HIDDEN, 1, cv2.LINE_AA, _SHIFT)
    for trail in (trails or {}).values():
        if len(trail) > 1:
            cv2.polylines(picture, [place(trail, table.ball_radius)], False, _SEEN, 1, cv2.LINE_AA, _SHIFT)
    for ball in balls:
        if ball.visibility not in (Visibility.VISIBLE, Visibility.OCCLUDED):
            continue
        centre = np.array([[*ball.position, table.ball_radius]])
        outline = camera.project(sphere_outline(camera, centre, table.ball_radius, 36))[0]
        colour = _SEEN if ball.visibility == Visibility.VISIBLE else _HIDDEN
        cv2.polylines(picture, [_fixed(outline, scale)], True, colour, 1, cv2.LINE_AA, _SHIFT)
        middle = (outline.mean(axis=0) + 0.5) * scale - 0.5
        label = f"{ball.ball_id} {ball_colour(ball.ball_id)[0]}"
        at = (int(middle[0] + 11 * scale), int(middle[1] - 7 * scale))
        for thickness, ink in ((3, _DARK), (1, colour)):
            cv2.putText(picture, label, at, cv2.FONT_HERSHEY_SIMPLEX, 0.35 * max(scale, 1), ink, thickness, cv2.LINE_AA)
    if text:
        for thickness, ink in ((3, _DARK), (1, _SEEN)):
            cv2.putText(picture, text, (8, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.45, ink, thickness, cv2.LINE_AA)
    return picture


def _fixed(pixels: np.ndarray, scale: float) -> np.ndarray:
    return np.round(((pixels + 0.5) * scale - 0.5) * (1 << _SHIFT)).astype(np.int32).reshape(-1, 1, 2)
