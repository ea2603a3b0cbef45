"""Shots worth a thought: cheap proposals from the balls at rest, all of them legal and within reach."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_agent.peers import Scene
from cue_agent.reach import Reach, distance_to_nose, playable, touched_ahead, unit
from cue_core.errors import CueError
from cue_core.shots import Shot

PROBES = ("one_cushion", "half_ball", "roll", "head_on", "two_cushion")
"""Generic shots in the order in which they teach: cloth and cushion, balls, cloth and slope alone, impact, angles.

The last goes so far that the unfitted twin does not know in which corner it ends: it is for a twin that was fitted.
"""
_MAX_CUT = 0.9
_ESCAPE_SPEEDS = (0.35, 0.2, 0.6, 0.12)
"""Of the tip, the most useful first [m/s]."""
_ESCAPE_STEP = math.radians(5.0)
_HIGH_CUE = (0.7, 0.2)
"""Elevation [rad] and height of the contact [ball radii] that pass over most of what lies behind the cue ball."""
_ANY_NUMBER = re.compile(r"\d+(\.\d+)?")
_AIMED = ("aimed", "cushion", "roll")
_AIMED_SHARES = (0.55, 0.30, 0.15)
_MIXED = {"aimed": 0.34, "combination": 0.08, "cushion": 0.22, "roll": 0.08, "slow": 0.08, "spin": 0.10, "random": 0.10}
"""Kinds that :func:`mixed` draws, and their shares."""
_WITHOUT_BALLS = ("cushion", "roll", "slow", "spin", "random")
_MOST_SPIN = 0.35
"""Offset of the tip from the centre [ball radii]: further out a small error of the tip is a large one of the spin."""


@dataclass(frozen=True)
class Candidate:
    """A shot that could be played.

    Attributes:
        kind: what it was meant as: one of :data:`PROBES`, ``"aimed"``, ``"combination"``, ``"cushion"``, ``"slow"``,
            ``"spin"``, ``"random"`` or ``"escape"``.
        speed: of the tip [m/s].
        azimuth: [rad], -pi..pi.
        target: id of the ball that is aimed at, -1 = none.
        elevation: of the cue [rad].
        vertical_offset: of the contact above the centre [ball radii].
        side_offset: of the contact to the left of it [ball radii].
    """

    kind: str
    speed: float
    azimuth: float
    target: int = -1
    elevation: float = 0.0
    vertical_offset: float = 0.0
    side_offset: float = 0.0

    def shot(self, shot_id: str) -> Shot:
        """Return it as a shot."""
        return Shot(shot_id, self.speed, self.azimuth, self.elevation, self.side_offset, self.vertical_offset)


def free_path(scene: Scene, azimuth: float, length: float) -> bool:
    """Tell whether no object ball lies within two radii of the cue ball's way of ``length`` [m] along ``azimuth``."""
    ball = scene.cue_ball
    if ball is None:
        return False
    direction = unit(azimuth)
    across = np.array([-direction[1], direction[0]])
    for other in scene.object_balls:
        offset = other.position - ball.position
        if 0 < float(offset @ direction) < length and abs(float(offset @ across)) < 2 * scene.table.ball_radius:
            return False
    return True


def contact_azimuth(scene: Scene, target: int, offset: float) -> float | None:
    """Return the azimuth that meets ball ``target`` with the cue ball ``offset`` ball diameters beside its centre.

    0 is head-on, 0.5 a half-ball hit, + leaves the target to the right. None when another ball is in the way.
    """
    ball = scene.cue_ball
    other = next((b for b in scene.object_balls if b.ball_id == target), None)
    if ball is None or other is None:
        return None
    way = other.position - ball.position
    distance = float(np.linalg.norm(way))
    diameter = 2 * scene.table.ball_radius
    if distance <= diameter or abs(offset) * diameter >= distance:
        return None
    azimuth = math.atan2(way[1], way[0]) + math.asin(offset * diameter / distance)
    to_contact = math.sqrt(distance**2 - (offset * diameter) ** 2) - diameter * math.sqrt(max(1 - offset**2, 0.0))
    # Just short of the contact, so that the target itself does not count as an obstacle.
    others = tuple(b for b in scene.balls if b.ball_id != target)
    if not free_path(Scene(scene.table, others), azimuth, to_contact + diameter):
        return None
    return math.remainder(azimuth, 2 * math.pi)


def _speed(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _to_ball(scene: Scene, offset: float, rng: np.random.Generator) -> tuple[float, int] | None:
    if not scene.object_balls:
        return None
    target = int(rng.choice([b.ball_id for b in scene.object_balls]))
    azimuth = contact_azimuth(scene, target, offset)
    return None if azimuth is None else (azimuth, target)


def _combination(scene: Scene, rng: np.random.Generator) -> tuple[float, int] | None:
    """Return azimuth and target of a shot that sends one object ball towards another; None where the draw has none."""
    ball, balls = scene.cue_ball, scene.object_balls
    if ball is None or len(balls) < 2:
        return None
    first, second = (balls[int(i)] for i in rng.choice(len(balls), 2, replace=False))
    way = second.position - first.position
    ghost = first.position - 2 * scene.table.ball_radius * way / max(float(np.linalg.norm(way)), 1e-9)
    to_ghost, to_first = ghost - ball.position, first.position - ball.position
    distance = float(np.linalg.norm(to_first))
    turn = math.atan2(to_ghost[1], to_ghost[0]) - math.atan2(to_first[1], to_first[0])
    offset = distance * math.sin(turn) / (2 * scene.table.ball_radius)
    if math.cos(turn) <= 0 or abs(offset) > _MAX_CUT:
        return None
    azimuth = contact_azimuth(scene, first.ball_id, offset)
    return None if azimuth is None else (azimuth, first.ball_id)


def propose(scene: Scene, kind: str, rng: np.random.Generator, speeds: tuple[float, float]) -> Candidate | None:
    """Return one proposal of a kind, or None when this draw makes no such shot; legality is not looked at.

    Args:
        scene: balls at rest.
        kind: as in :class:`Candidate`.
        rng: of the draw.
        speeds: slowest and fastest tip [m/s].
    """
    low, high = speeds
    middle = math.sqrt(low * high)
    if scene.cue_ball is None:
        return None
    if kind in ("aimed", "half_ball", "head_on"):
        offsets = {
            "aimed": rng.uniform(-_MAX_CUT, _MAX_CUT),
            "half_ball": 0.5 * rng.choice([-1.0, 1.0]),
            "head_on": 0.0,
        }
        found = _to_ball(scene, float(offsets[kind]), rng)
        span = (low, high) if kind == "aimed" else (max(low, 0.7 * middle), middle)
        return None if found is None else Candidate(kind, _speed(rng, *span), *found)
    if kind == "combination":
        found = _combination(scene, rng)
        return None if found is None else Candidate(kind, _speed(rng, middle, high), *found)
    if kind == "spin":
        base = propose(scene, "aimed" if scene.object_balls and rng.random() < 0.5 else "cushion", rng, speeds)
        radius, angle = _MOST_SPIN * math.sqrt(rng.random()), rng.uniform(-math.pi, math.pi)
        side, above = radius * math.cos(angle), radius * math.sin(angle)
        return None if base is None else replace(base, kind=kind, side_offset=side, vertical_offset=above)
    azimuth = float(rng.uniform(-math.pi, math.pi))
    if kind == "random":
        return Candidate(kind, _speed(rng, low, high), azimuth)
    if kind == "slow":
        return Candidate(kind, _speed(rng, 0.6 * low, 1.2 * low), azimuth)
    way = distance_to_nose(scene.table, scene.cue_ball.position, unit(azimuth))
    if not free_path(scene, azimuth, way):
        return None
    if kind == "roll":
        # Long and slow: only directions that leave a third of the table's length to roll. The slower, the longer the
        # slope of the bed acts on the ball.
        slow = (0.6 * low, min(high, 1.2 * low))
        return Candidate(kind, _speed(rng, *slow), azimuth) if way > scene.table.length / 3 else None
    span = {"one_cushion": (low, middle), "two_cushion": (middle, 0.5 * (middle + high))}.get(kind, (low, high))
    return Candidate(kind, _speed(rng, *span), azimuth)


def generate(
    scene: Scene,
    kinds: Sequence[str],
    count: int,
    rng: np.random.Generator,
    speeds: tuple[float, float],
    reach: Reach,
    shares: Sequence[float] | None = None,
) -> list[Candidate]:
    """Return up to ``count`` playable shots of the kinds, drawn with the given shares (even ones by default).

    Fewer are returned when ten draws for each wanted shot do not give enough.
    """
    found: list[Candidate] = []
    for _ in range(10 * count):
        kind = str(rng.choice(list(kinds), p=None if shares is None else list(shares)))
        candidate = propose(scene, kind, rng, speeds)
        if candidate is not None and playable(scene, candidate.azimuth, candidate.speed, reach)[0]:
            found.append(candidate)
            if len(found) == count:
                break
    return found


def aimed(
    scene: Scene, count: int, rng: np.random.Generator, speeds: tuple[float, float], reach: Reach
) -> list[Candidate]:
    """Return up to ``count`` playable shots at balls, at cushions, and long rolls."""
    if not scene.object_balls:
        return generate(scene, _AIMED[1:], count, rng, speeds, reach)
    return generate(scene, _AIMED, count, rng, speeds, reach, _AIMED_SHARES)


def mixed(
    scene: Scene, count: int, rng: np.random.Generator, speeds: tuple[float, float], reach: Reach
) -> list[Candidate]:
    """Return up to ``count`` playable shots of every kind: at balls, in combination, at cushions, slow, with spin."""
    kinds = tuple(_MIXED) if scene.object_balls else _WITHOUT_BALLS
    shares = np.array([_MIXED[kind] for kind in kinds])
    return generate(scene, kinds, count, rng, speeds, reach, list(shares / shares.sum()))


def escapes(scene: Scene, reach: Reach, count: int) -> tuple[list[Candidate], dict[str, int]]:
    """Return gentle strokes in all directions, with a raised cue where needed, and why others were refused.

    They serve a cue ball that lies where hardly any shot works: at a cushion, mostly. Every :data:`_ESCAPE_STEP` is
    tried, with the next speed only while fewer than ``count`` were found. All are the arm's own answers.

    Returns:
        Candidates, level ones first, and how often each reason was given.
    """
    ball = scene.cue_ball
    if ball is None:
        return [], {"no cue ball": 1}
    balls = {b.ball_id: b.position for b in scene.object_balls}
    found: list[Candidate] = []
    refused: dict[str, int] = {}
    for speed in _ESCAPE_SPEEDS:
        for i in range(round(2 * math.pi / _ESCAPE_STEP)):
            azimuth = math.remainder(i * _ESCAPE_STEP, 2 * math.pi)
            why = ""
            touching = touched_ahead(scene, azimuth)
            # A ball right behind bars a level cue and is no reason for the arm to raise it: ask for a high one too.
            for elevation, vertical in ((0.0, 0.0), _HIGH_CUE) if touching is None else ():
                try:
                    shot = reach.raised(
                        Shot("escape", speed, azimuth, elevation, vertical_offset=vertical), ball.position, balls
                    )
                except CueError as error:
                    why = str(error)
                    continue
                why = ""
                found.append(
                    Candidate("escape", speed, azimuth, elevation=shot.elevation, vertical_offset=shot.vertical_offset)
                )
                break
            if touching is not None:
                why = "a ball touches the cue ball"
            if why:
                reason = f"{speed:g} m/s: {_ANY_NUMBER.sub('#', why)}"
                refused[reason] = refused.get(reason, 0) + 1
        if len(found) >= count:
            break
    return sorted(found, key=lambda c: c.elevation), refused
