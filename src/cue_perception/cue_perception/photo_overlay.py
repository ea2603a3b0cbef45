"""The picture that shows a person what was found in a photograph."""

from __future__ import annotations

import cv2
import numpy as np

from cue_perception.photo_result import PhotoResult

_SHIFT = 4
_NOSE, _SURE, _UNSURE, _DARK = (80, 255, 80), (255, 255, 255), (0, 140, 255), (0, 0, 0)


def draw_photo(image: np.ndarray, result: PhotoResult) -> np.ndarray:
    """Return the image (h, w, 3) with noses, table frame and balls drawn over it."""
    picture = image.copy()
    thick = max(1, round(max(image.shape) / 1000))
    table, camera = result.table, result.camera

    def line(points: np.ndarray, colour: tuple[int, int, int], closed: bool = False) -> None:
        fixed = np.round(points * (1 << _SHIFT)).astype(np.int32).reshape(-1, 1, 2)
        cv2.polylines(picture, [fixed], closed, colour, thick, cv2.LINE_AA, _SHIFT)

    for cushion in table.cushions:
        along = cushion.start + np.linspace(0, 1, 30)[:, None] * (cushion.end - cushion.start)
        line(camera.project(np.column_stack([along, np.full(30, table.nose_height)])), _NOSE)
    for corner in result.reading.corners:
        cv2.drawMarker(picture, (round(corner[0]), round(corner[1])), _NOSE, cv2.MARKER_CROSS, 12 * thick, thick)
    for axis, colour in ((np.array([1.0, 0.0]), (60, 60, 255)), (np.array([0.0, 1.0]), (60, 255, 60))):
        tip = 0.15 * table.length * axis
        ends = camera.project(np.array([[0, 0, 0], [*tip, 0]]))
        a, b = (tuple(round(float(v)) for v in end) for end in ends)
        cv2.arrowedLine(picture, a, b, colour, thick, cv2.LINE_AA)
    order = np.argsort(result.reading.pixels[:, 0])
    for ball, k in zip(result.balls, order, strict=True):
        colour = _SURE if ball.confidence > 0.5 else _UNSURE
        line(result.reading.outlines[k], colour, closed=True)
        at = (int(ball.pixel[0] + 1.1 * ball.radius), int(ball.pixel[1] - 0.7 * ball.radius))
        number = "" if ball.kind.number is None else f"{ball.kind.number} "
        for width, ink in ((3 * thick, _DARK), (thick, colour)):
            cv2.putText(
                picture, number + ball.kind.name, at, cv2.FONT_HERSHEY_SIMPLEX, 0.42 * thick, ink, width, cv2.LINE_AA
            )
    return picture
