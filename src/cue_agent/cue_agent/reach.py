"""Which strokes can be played: the arm's own fast test, or a geometric rule where no robot is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from cue_agent.peers import Scene
from cue_core.errors import CueError
from cue_core.shots import Shot
from cue_core.table import TableModel

CUE_LENGTH = 0.16
"""Length behind the cue ball's centre that a level cue and its back-swing need free of balls [m]."""
CUE_RADIUS = 0.012
"""Half the width that the cue and the arm's tool need [m]."""
RAIL_ROOM = 0.05
"""From the cue ball's centre back to the nose line along the stroke: closer, a level cue is stopped by the rail [m]."""
FROZEN_GAP = 0.002
"""Gap below which two balls count as touching: such clusters are a known error of every impact model [m]."""
RAISED = 0.3
"""Elevation from which the geometric rule lets a cue pass over the rail [rad]."""
SECTORS = 36
SPEED_CLASS = 0.3
"""Width of the classes of tip speed in which sectors of directions are looked at [m/s]."""
TYPICAL_SPEED = 0.4
"""Tip speed for which it is asked how much of the table remains playable [m/s]."""


class Reach(Protocol):
    """Says where the arm can strike; ``cue_arm.reach.Reach`` is one, ``cue_arm.reach_map.ReachMap`` another."""

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float,
        balls: Mapping[int, np.ndarray],
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """Return whether a stroke can be played, and if not, why.

        Args:
            cue_ball: (2,) position [m].
            azimuth: of the stroke [rad].
            speed: of the tip at contact [m/s].
            balls: (2,) positions by id of the balls in play [m].
            elevation: of the cue [rad].
        """

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Shot:
        """Return the shot as it can be played: as it is, or with the cue raised over what lies behind the ball.

        Raises:
            CueError: why not even a raised cue plays it.
        """


MakeReach = Callable[[TableModel], Reach]


class Anywhere:
    """Reach of an arm without limits."""

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float,
        balls: Mapping[int, np.ndarray],
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """See :class:`Reach`."""
        return True, ""

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Shot:
        """See :class:`Reach`."""
        return shot


class GeometricReach:
    """Room for a level cue behind the cue ball, whatever arm holds it."""

    def __init__(self, table: TableModel) -> None:
        """Look at this table."""
        self._table = table

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float,
        balls: Mapping[int, np.ndarray],
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """See :class:`Reach`."""
        direction = unit(azimuth)
        back = distance_to_nose(self._table, cue_ball, -direction)
        if back < RAIL_ROOM and elevation < RAISED:
            return False, f"cushion {back * 1e3:.0f} mm behind the cue ball"
        for ball_id, position in balls.items():
            offset = position - cue_ball
            along = -float(offset @ direction)
            aside = abs(float(offset @ np.array([-direction[1], direction[0]])))
            if 0 < along < CUE_LENGTH and aside < self._table.ball_radius + CUE_RADIUS:
                return False, f"ball {ball_id} is in the cue's way"
        return True, ""

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Shot:
        """See :class:`Reach`."""
        why = ""
        for other in (shot, replace(shot, elevation=RAISED, vertical_offset=0.2)):
            can, why = self.reachable(cue_ball, other.azimuth, other.speed, balls, other.elevation)
            if can:
                return other
        raise CueError(why)


def reach_of(robot: str, progress: Callable[[str], None] = lambda _text: None, run_dir: str = "") -> MakeReach:
    """Return what makes the reach for a robot file; for an empty name, the geometric rule.

    Args:
        robot: file.
        progress: told, while a map is built, how far it is; raises to break off.
        run_dir: folder of the run that gets a copy of the map, for its report; empty = none.

    Raises:
        CueError: the robot file cannot be used.
    """
    if not robot:
        return GeometricReach
    from cue_arm.reach_map import ReachMap  # loads MuJoCo, which no session without an arm needs
    from cue_sim.robot import RobotConfig

    config = RobotConfig.load(robot)

    def told(share: float) -> None:
        progress(f"mapping where the arm reaches: {share:.0%}")

    return lambda table: ReachMap.cached(config, table, progress=told, beside=run_dir)


def unit(azimuth: float) -> np.ndarray:
    """Return the (2,) direction of an azimuth [rad]."""
    return np.array([math.cos(azimuth), math.sin(azimuth)])


def distance_to_nose(table: TableModel, position: np.ndarray, direction: np.ndarray) -> float:
    """Return the way [m] from ``position`` (2,) along the unit ``direction`` (2,) to the rectangle of the noses."""
    ways = [
        (math.copysign(half, d) - p) / d
        for half, p, d in zip((table.length / 2, table.width / 2), position, direction, strict=True)
        if abs(d) > 1e-12
    ]
    return float(min(ways))


class SectorReach:
    """What an arm's reach says for sectors of directions and classes of speed: a few calls for thousands of proposals.

    It serves one scene; what it lets pass is to be asked of the arm itself.
    """

    def __init__(self, reach: Reach) -> None:
        """Ask ``reach``, once for each sector and class."""
        self._reach = reach
        self._known: dict[tuple[int, int], tuple[bool, str]] = {}

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float,
        balls: Mapping[int, np.ndarray],
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """See :class:`Reach`."""
        width = 2 * math.pi / SECTORS
        key = round(azimuth / width) % SECTORS, round(speed / SPEED_CLASS)
        if key not in self._known:
            middle = max(key[1] * SPEED_CLASS, 0.5 * SPEED_CLASS)
            self._known[key] = self._reach.reachable(cue_ball, key[0] * width, middle, balls, elevation)
        return self._known[key]

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Shot:
        """See :class:`Reach`; asks the arm itself."""
        return self._reach.raised(shot, cue_ball, balls)


def playable(scene: Scene, azimuth: float, speed: float, reach: Reach, elevation: float = 0.0) -> tuple[bool, str]:
    """Say whether a stroke can be played from this scene, and is free of touching balls; why not."""
    ball = scene.cue_ball
    if ball is None:
        return False, "no cue ball"
    touching = touched_ahead(scene, azimuth)
    if touching is not None:
        return False, f"ball {touching} touches the cue ball"
    balls = {b.ball_id: b.position for b in scene.object_balls}
    return reach.reachable(ball.position, azimuth, speed, balls, elevation)


def touched_ahead(scene: Scene, azimuth: float) -> int | None:
    """Return the id of a ball that touches the cue ball and lies ahead of a stroke along ``azimuth`` [rad]."""
    ball = scene.cue_ball
    if ball is None:
        return None
    for other in scene.object_balls:
        offset = other.position - ball.position
        touching = np.linalg.norm(offset) < 2 * scene.table.ball_radius + FROZEN_GAP
        if touching and float(offset @ unit(azimuth)) > 0:
            return other.ball_id
    return None


def remains_playable(scene: Scene, reach: Reach, share: float, directions: int = 8) -> bool:
    """Tell whether the cue ball can be struck in at least ``share`` of evenly spread directions."""
    wanted = max(math.ceil(share * directions), 1)
    found = 0
    for i in range(directions):
        # In an order that strides over the circle, so that an open side is met early.
        azimuth = (3 * i % directions) * (2 * math.pi / directions)
        found += playable(scene, azimuth, TYPICAL_SPEED, reach)[0]
        if found == wanted:
            return True
        if found + directions - 1 - i < wanted:
            return False
    return False
