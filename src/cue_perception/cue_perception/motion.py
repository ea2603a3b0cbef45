"""Where balls will be a frame later: straight lines, contacts between balls, cushions and pockets. Rough on purpose.

This only tells the filter what to expect, so that a rebound is no surprise and equal balls that meet keep their names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cue_core.table import TableModel

_BALL_RESTITUTION = 0.94  # between ball and ball; the twin identifies the real one
_CUSHION_RESTITUTION = 0.80
_DECELERATION = 0.25  # m/s^2, between rolling (0.1) and sliding (2)
_MOST_EVENTS = 8


@dataclass
class Prediction:
    """Balls a moment later; arrays have one entry per ball.

    Attributes:
        position: (n, 2) [m].
        velocity: (n, 2) [m/s].
        hit: (n,) true where a contact is expected on the way, so the prediction is uncertain.
        pocket: (n,) true where the path leads into a pocket.
    """

    position: np.ndarray
    velocity: np.ndarray
    hit: np.ndarray
    pocket: np.ndarray


def advance(position: np.ndarray, velocity: np.ndarray, dt: float, table: TableModel) -> Prediction:
    """Return where balls at (n, 2) [m] with velocities (n, 2) [m/s] will be after ``dt`` [s]."""
    p, v = position.copy(), velocity.copy()
    hit, pocket = np.zeros(len(p), bool), np.zeros(len(p), bool)
    reach = np.array([table.length / 2, table.width / 2]) - table.ball_stop
    left = dt
    for _ in range(_MOST_EVENTS):
        moving = np.flatnonzero(np.any(v != 0, axis=1) & ~pocket)
        if not len(moving) or left <= 0:
            break
        time, kind, a, b = left, "", -1, -1
        for i in moving:
            others = np.flatnonzero(~pocket)
            others = others[others != i]
            if len(others):
                gap, relative = p[others] - p[i], v[i] - v[others]
                closing = np.sum(gap * relative, axis=1)
                square = np.maximum(np.sum(relative**2, axis=1), 1e-12)
                disc = closing**2 - square * (np.sum(gap**2, axis=1) - (2 * table.ball_radius) ** 2)
                with np.errstate(invalid="ignore"):
                    when = np.where((closing > 0) & (disc > 0), (closing - np.sqrt(np.abs(disc))) / square, np.inf)
                k = int(np.argmin(when))
                if max(when[k], 0.0) < time:
                    time, kind, a, b = max(float(when[k]), 0.0), "ball", int(i), int(others[k])
            for axis in (0, 1):
                if v[i, axis] == 0:
                    continue
                when_wall = (np.sign(v[i, axis]) * reach[axis] - p[i, axis]) / v[i, axis]
                if 0 <= when_wall < time and not _in_mouth(p[i] + v[i] * when_wall, table):
                    time, kind, a, b = float(when_wall), "wall", int(i), axis
        p += v * time
        left -= time
        if kind == "ball":
            normal = (p[b] - p[a]) / max(float(np.linalg.norm(p[b] - p[a])), 1e-9)
            impulse = 0.5 * (1 + _BALL_RESTITUTION) * float((v[a] - v[b]) @ normal) * normal
            v[a], v[b] = v[a] - impulse, v[b] + impulse
            hit[[a, b]] = True
        elif kind == "wall":
            v[a, b] *= -_CUSHION_RESTITUTION
            hit[a] = True
        for place in table.pockets:
            pocket |= np.linalg.norm(p - place.position, axis=1) < place.radius
        if not kind:
            break
    speed = np.linalg.norm(v, axis=1, keepdims=True)
    v = v * np.maximum(1 - _DECELERATION * dt / np.maximum(speed, 1e-9), 0)
    return Prediction(p, v, hit, pocket)


def _in_mouth(point: np.ndarray, table: TableModel) -> bool:
    """Tell whether a point on the line of the noses lies between two jaws."""
    x, y = abs(float(point[0])), abs(float(point[1]))
    corner = table.length / 2 - x + table.width / 2 - y < table.corner_mouth / np.sqrt(2)
    return corner or (x < table.side_mouth / 2 and y > 0.25 * table.width)
