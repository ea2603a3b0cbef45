"""Pictures for where a person would look: the table from above, a shot as predicted and as seen, errors by shot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from cue_agent.llm.registry import Picture
from cue_agent.peers import Prediction, Scene
from cue_core.shots import ShotRecord
from cue_core.table import TableModel

_WIDTH = 960
_MARGIN = 40
_CLOTH, _RAIL, _INK, _PAPER = (96, 122, 60), (40, 60, 90), (20, 20, 20), (250, 250, 250)
_SEEN, _PREDICTED = (255, 255, 255), (60, 200, 255)
_COLOURS = (
    (245, 245, 245),
    (30, 200, 240),
    (190, 80, 30),
    (40, 40, 210),
    (130, 40, 90),
    (30, 120, 240),
    (60, 130, 40),
    (30, 30, 120),
    (30, 30, 30),
)
"""Of the cue ball and balls 1 to 8, BGR; 9 to 15 are like 1 to 7."""


def png_of(image: np.ndarray) -> bytes:
    """Return a (h, w, 3) BGR image as PNG."""
    _, data = cv2.imencode(".png", image)
    return bytes(data)


class _Canvas:
    """The table from above, x to the right and y up, as the table frame has them."""

    def __init__(self, table: TableModel) -> None:
        self.table = table
        self.scale = (_WIDTH - 2 * _MARGIN) / table.length
        height = int(table.width * self.scale) + 2 * _MARGIN
        self.image = np.full((height, _WIDTH, 3), _RAIL, np.uint8)
        corner = np.array([table.length, table.width]) / 2
        cv2.rectangle(self.image, self.at(-corner), self.at(corner), _CLOTH, -1)
        for pocket in table.pockets:
            cv2.circle(self.image, self.at(pocket.position), int(0.03 * self.scale), _INK, -1)
        for x in np.arange(-10, 11) * 0.2:  # every 20 cm, so that places can be read off
            if abs(x) < table.length / 2:
                self.text(f"{x:.1f}", np.array([x, -table.width / 2]), (0, 16))
        for y in np.arange(-10, 11) * 0.2:
            if abs(y) < table.width / 2:
                self.text(f"{y:.1f}", np.array([-table.length / 2, y]), (-34, 4))

    def at(self, position: np.ndarray) -> tuple[int, int]:
        x, y = float(position[0]), float(position[1])
        height = self.image.shape[0]
        return int(_WIDTH / 2 + x * self.scale), int(height / 2 - y * self.scale)

    def text(self, words: str, position: np.ndarray, offset: tuple[int, int] = (0, 0)) -> None:
        x, y = self.at(position)
        place = (x + offset[0], y + offset[1])
        cv2.putText(self.image, words, place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, _PAPER, 1, cv2.LINE_AA)

    def ball(self, ball_id: int, position: np.ndarray) -> None:
        radius = max(int(self.table.ball_radius * self.scale), 3)
        colour = _COLOURS[ball_id if ball_id < len(_COLOURS) else ball_id % len(_COLOURS) + 1]
        cv2.circle(self.image, self.at(position), radius, colour, -1, cv2.LINE_AA)
        cv2.circle(self.image, self.at(position), radius, _INK, 1, cv2.LINE_AA)
        self.text(str(ball_id), position, (radius + 2, -radius))

    def way(self, positions: np.ndarray, colour: tuple[int, int, int], dots: bool = False) -> None:
        points = np.array([self.at(p) for p in positions], np.int32)
        if dots:
            for x, y in points[::3]:
                cv2.circle(self.image, (int(x), int(y)), 2, colour, -1, cv2.LINE_AA)
        elif len(points) > 1:
            cv2.polylines(self.image, [points], False, colour, 2, cv2.LINE_AA)

    def picture(self, caption: str) -> Picture:
        return Picture(png_of(self.image), caption)


def draw_scene(scene: Scene, foreseen: Sequence[Prediction] = ()) -> Picture:
    """Return the table with its balls, and ways that are foreseen."""
    canvas = _Canvas(scene.table)
    for prediction in foreseen:
        for track in prediction.tracks:
            canvas.way(track.position, _PREDICTED)
    for ball in scene.balls:
        if ball.in_play:
            canvas.ball(ball.ball_id, ball.position)
    more = "; lines: as the twin foresees it" if foreseen else ""
    return canvas.picture(f"the table from above as it was reconstructed, scale in metres, balls by number{more}")


def draw_shot(table: TableModel, record: ShotRecord, prediction: Prediction | None) -> Picture:
    """Return a shot as it was seen (white dots), and as the twin has it (lines)."""
    canvas = _Canvas(table)
    if prediction is not None:
        for track in prediction.tracks:
            canvas.way(track.position, _PREDICTED)
    for track in record.tracks:
        canvas.way(track.position, _SEEN, dots=True)
    for ball in record.before:
        if ball.in_play:
            canvas.ball(ball.ball_id, ball.position)
    return canvas.picture(f"shot {record.shot_id} from above: white dots as seen, yellow lines as the twin has it")


def draw_errors(errors: Mapping[str, tuple[float, float]]) -> Picture:
    """Return bars of rest errors [m] by shot: of the twin before any fit (grey), and now (blue)."""
    height, width, base = 320, _WIDTH, 280
    image = np.full((height, width, 3), _PAPER, np.uint8)
    most = max([0.01, *(v for pair in errors.values() for v in pair if v == v)])
    step = (width - 80) / max(len(errors), 1)
    for n, (shot_id, pair) in enumerate(errors.items()):
        left = 60 + n * step
        for k, (value, colour) in enumerate(zip(pair, ((170, 170, 170), (200, 110, 40)), strict=True)):
            if value == value:
                begin = (int(left + k * step * 0.35), int(base - 240 * value / most))
                cv2.rectangle(image, begin, (int(left + (k + 1) * step * 0.35), base), colour, -1)
        cv2.putText(image, shot_id, (int(left), 300), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
    for share in (0.0, 0.5, 1.0):
        place = (4, int(base - 240 * share))
        cv2.putText(image, f"{100 * share * most:.1f} cm", place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
    return Picture(png_of(image), "rest error by shot: grey before any fit, blue with the estimate in use")


def draw_image(image: np.ndarray, region: Sequence[float] = ()) -> Picture:
    """Return a camera image (h, w, 3), or a region of it: left, top, width, height as shares of the whole."""
    caption = "the newest camera image"
    if region:
        height, width = image.shape[:2]
        left, top = int(region[0] * width), int(region[1] * height)
        right = min(max(int((region[0] + region[2]) * width), left + 8), width)
        bottom = min(max(int((region[1] + region[3]) * height), top + 8), height)
        image, caption = image[min(top, height - 8) : bottom, min(left, width - 8) : right], "a crop of that image"
    scale = min(_WIDTH / image.shape[1], 720 / image.shape[0])
    size = (max(int(image.shape[1] * scale), 1), max(int(image.shape[0] * scale), 1))
    return Picture(png_of(cv2.resize(image, size, interpolation=cv2.INTER_AREA)), caption)
