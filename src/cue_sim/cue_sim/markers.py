"""What people see of the twin in RViz, as plain data: the table, the balls as seen, ghosts where they should stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cue_core.balls import BallState, ball_colour
from cue_core.table import TableModel
from cue_sim.predict import Prediction

Colour = tuple[float, float, float, float]


@dataclass(frozen=True)
class Mark:
    """One marker in the table frame.

    Attributes:
        group: namespace; group and number together name a marker.
        number: within the group.
        shape: ``"box"``, ``"sphere"``, ``"cylinder"``, ``"lines"`` (pairs of points) or ``"path"``; ``""`` = remove it.
        colour: red, green, blue, opacity, 0..1.
        position: (3,) [m].
        size: (3,) along its axes [m]; for lines the width comes first.
        yaw: about z [rad].
        points: (k, 3) of lines and paths [m].
    """

    group: str
    number: int
    shape: str
    colour: Colour = (0.0, 0.0, 0.0, 0.0)
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    points: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))


def table_marks(table: TableModel) -> list[Mark]:
    """Return cloth, nose lines and pockets."""
    red, green, blue = table.cloth_colour
    ends = [(*end, table.nose_height) for cushion in table.cushions for end in (cushion.start, cushion.end)]
    marks = [
        Mark("cloth", 0, "box", (red, green, blue, 1.0), (0.0, 0.0, -0.005), (table.length, table.width, 0.01)),
        Mark("noses", 0, "lines", (0.6 * red, 0.6 * green, 0.6 * blue, 1.0), size=(0.006,) * 3, points=np.array(ends)),
    ]
    for number, pocket in enumerate(table.pockets):
        x, y = map(float, pocket.position)
        size = (2 * pocket.radius, 2 * pocket.radius, 0.002)
        marks.append(Mark("pockets", number, "cylinder", (0.02, 0.02, 0.02, 1.0), (x, y, 0.0), size))
    return marks


def ball_marks(balls: Sequence[BallState], radius: float) -> list[Mark]:
    """Return the balls in play as the tracker sees them; the others are removed."""
    return [
        Mark(
            "balls", b.ball_id, "sphere", (*ball_colour(b.ball_id)[1], 1.0), _at(b.position, radius), (2 * radius,) * 3
        )
        if b.in_play
        else Mark("balls", b.ball_id, "")
        for b in balls
    ]


def prediction_marks(prediction: Prediction, ball_ids: Sequence[int], radius: float) -> list[Mark]:
    """Return ghosts at the predicted rest positions, two-sigma ellipses, and the mean paths, of balls that move."""
    marks = []
    for k, ball in enumerate(ball_ids):
        path = prediction.mean.positions[:, k]
        rest = prediction.rest_mean[k]
        if len(path) < 2 or float(np.ptp(path, axis=0).max()) < 1e-3 or not np.isfinite(rest).all():
            marks += [Mark(group, ball, "") for group in ("ghosts", "rest_uncertainty", "paths")]
            continue
        rgb = ball_colour(ball)[1]
        variance, axes = np.linalg.eigh(prediction.rest_covariance[k])
        narrow, wide = (4 * math.sqrt(max(float(v), 1e-8)) for v in variance)
        yaw = math.atan2(axes[1, 1], axes[0, 1])
        points = np.column_stack([path, np.full(len(path), radius)])
        marks += [
            Mark("ghosts", ball, "sphere", (*rgb, 0.35), _at(rest, radius), (2 * radius,) * 3),
            Mark("rest_uncertainty", ball, "cylinder", (*rgb, 0.25), _at(rest, 0.001), (wide, narrow, 0.001), yaw),
            Mark("paths", ball, "path", (*rgb, 0.8), size=(0.004,) * 3, points=points),
        ]
    return marks


def _at(position: np.ndarray, height: float) -> tuple[float, float, float]:
    return float(position[0]), float(position[1]), height
