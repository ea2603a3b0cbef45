"""Pushing a ball: slow strokes whose tip stays behind it until it rests, looked at and corrected one after the other.

A ball that one point pushes is unstable: what the tip is off to a side grows by a factor e for every R + r of way
or more.
So a long way is cut into short pushes; between them the arm leaves the camera's view, and the next push aims anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from cue_arm.errors import ArmError, CollisionError
from cue_arm.planner import ArmBackend, Progress, StrokePlan
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import SpeedProfile, TipPath, tip_rotation
from cue_core.settings import check_settings, setting
from cue_core.table import TableModel

NOT_THERE = 15
"""Error code of ``cue_msgs/action/PushBall`` beside those of ArmCode: the ball does not come to its goal."""
# Elevation [rad] and height of the contact over the ball's equator [R + r]: level where it goes, else over the rail.
_RAISED = ((0.0, 0.0), (0.2, 0.0), (0.4, 0.0), (0.4, 0.3), (0.6, 0.3), (0.75, 0.35))
_ROLLS = (0.0, 0.4, -0.4)  # rad: of the cue about its axis


@dataclass(frozen=True)
class PushSettings:
    """How balls are pushed."""

    speed: float = setting(0.05, "of the tip, at most", "m/s", 0.005, 0.3)
    braking: float = setting(
        0.03, "of the tip; less than the cloth's of the ball, which then stays at it", "m/s^2", 0.005, 1.0
    )
    longest: float = setting(0.10, "way of one push, at most", "m", 0.005, 0.5)
    run_up: float = setting(0.006, "way of the tip to the ball", "m", 0.002, 0.05)
    tolerance: float = setting(0.003, "distance from the goal that is near enough", "m", 0.0005, 0.05)
    most_strokes: int = setting(16, "pushes of one ball, at most", "1", 1, 100)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the setting.
        """
        check_settings(self)


@dataclass(frozen=True)
class PushRequest:
    """One push of a ball towards its goal.

    Attributes:
        ball_id: of the ball to push.
        ball: (2,) where it rests [m].
        goal: (2,) where it shall rest in the end [m].
        others: (2,) positions by id of all other balls in play [m].
        start: (n,) where the joints rest now [rad].
    """

    ball_id: int
    ball: np.ndarray
    goal: np.ndarray
    others: Mapping[int, np.ndarray]
    start: np.ndarray


@dataclass(frozen=True)
class LevelPath(TipPath):
    """A tip that moves level, however much the cue is raised."""

    @property
    def forward(self) -> np.ndarray:
        """Return (3,) the direction of the motion."""
        level = np.array([self.rotation[0, 0], self.rotation[1, 0], 0.0])
        return level / np.linalg.norm(level)


def next_stop(ball: np.ndarray, goal: np.ndarray, settings: PushSettings) -> np.ndarray:
    """Return where the next push shall leave the ball (2,) [m]: equal parts, none longer than the longest."""
    way = np.asarray(goal, float) - np.asarray(ball, float)
    parts = max(math.ceil(float(np.linalg.norm(way)) / settings.longest - 1e-9), 1)
    return np.asarray(ball, float) + way / parts


def push_path(
    ball: np.ndarray,
    stop: np.ndarray,
    table: TableModel,
    tip_radius: float,
    stroke: StrokeSettings,
    settings: PushSettings,
    elevation: float = 0.0,
    height: float = 0.0,
    roll: float = 0.0,
) -> LevelPath:
    """Return the tip's path that pushes a ball (2,) to a stop (2,) [m]."""
    way = np.asarray(stop, float) - np.asarray(ball, float)
    length, azimuth = float(np.linalg.norm(way)), math.atan2(way[1], way[0])
    speed = min(settings.speed, math.sqrt(2 * settings.braking * length))
    ramp_down = speed / settings.braking
    profile = SpeedProfile(
        speed=speed,
        ramp_up=max(settings.run_up / speed, stroke.shortest_ramp),
        lead=0.5 * settings.run_up,
        through=max(length - 0.5 * speed * ramp_down, 0.0),
        ramp_down=ramp_down,
    )
    rotation = tip_rotation(azimuth, elevation, roll)
    behind = math.sqrt(1.0 - height**2)
    to_ball = np.array([behind * math.cos(azimuth), behind * math.sin(azimuth), -height])
    sphere = np.array([*ball, table.ball_radius]) - (table.ball_radius + tip_radius) * to_ball
    return LevelPath(
        contact=sphere + tip_radius * rotation[:, 0],
        rotation=rotation,
        profile=profile,
        hover=stroke.hover,
        lower_time=stroke.lower_time,
        settle_time=stroke.settle_time,
        rise_time=stroke.rise_time,
    )


def plan_push(
    backend: ArmBackend,
    table: TableModel,
    request: PushRequest,
    stroke: StrokeSettings,
    settings: PushSettings,
    progress: Progress,
) -> StrokePlan:
    """Return the motion of one push towards the goal.

    Raises:
        UnreachableError, CollisionError: why there is none, also when another ball or a cushion is in its way.
    """
    stop = next_stop(request.ball, request.goal, settings)
    _check_way(request, stop, table)
    refused: ArmError | None = None
    tip_radius = backend.reach.robot.cue.tip_radius
    for (elevation, height), roll in product(_RAISED, _ROLLS):
        if elevation > stroke.largest_elevation:
            continue
        path = push_path(request.ball, stop, table, tip_radius, stroke, settings, elevation, height, roll)
        try:
            return backend.plan_path(path, request.start, request.ball_id, request.ball, request.others, progress)
        except ArmError as error:
            refused = refused or error
    assert refused is not None  # a level cue is always allowed
    raise refused


def _check_way(request: PushRequest, stop: np.ndarray, table: TableModel) -> None:
    """Refuse to push a ball into another one, into a cushion or off the bed.

    Raises:
        CollisionError: naming both.
    """
    name = "cue ball" if request.ball_id == 0 else f"ball {request.ball_id}"
    half = np.array([table.length, table.width]) / 2 - table.ball_stop
    if np.any(np.abs(stop) > half):
        raise CollisionError(name, "a cushion", "on its way")
    way = stop - request.ball
    square = float(way @ way)
    for other, place in request.others.items():
        offset = np.asarray(place, float) - request.ball
        share = float(np.clip(offset @ way / square, 0.0, 1.0)) if square > 0 else 0.0
        if share > 0.0 and np.linalg.norm(offset - share * way) < 2 * table.ball_radius:
            raise CollisionError(name, "cue ball" if other == 0 else f"ball {other}", "on its way")
