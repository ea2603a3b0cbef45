"""Where every part of arm and cue is, from the robot file alone: spheres along its capsules (numpy)."""

from __future__ import annotations

import math

import numpy as np

from cue_core.table import TableModel
from cue_sim.robot import RobotConfig

_SPACING = 0.5  # of the capsule's radius between spheres


class RobotBody:
    """The moving parts of a robot beside a table, in the table frame.

    Attributes:
        names: (k,) of the part that each sphere belongs to.
        radii: (k,) of the spheres, which together hold the capsules [m].
    """

    def __init__(self, robot: RobotConfig, table: TableModel) -> None:
        """Lay the spheres."""
        self._base = robot.table_from_base(table)
        self._after = [(np.array([link.a, 0.0, link.d]), _about_x(link.alpha)) for link in robot.links]
        cue = robot.cue
        self._tip = np.array([cue.forward, 0.0, cue.below])
        back, centre = cue.forward - cue.shaft, cue.forward - cue.tip_radius
        tool = np.array(
            [
                [0.0, 0.0, 0.0, back, 0.0, cue.below, cue.stem_radius],
                [back, 0.0, cue.below, centre, 0.0, cue.below, max(cue.shaft_radius, cue.tip_radius)],
            ]
        )
        parts = [(link.joint.removesuffix("_joint"), link.capsules) for link in robot.links] + [("cue", tool)]
        self._centres: list[np.ndarray] = []
        names: list[str] = []
        radii: list[float] = []
        for name, capsules in parts:
            rows = [_spheres(row) for row in capsules]
            self._centres.append(np.concatenate([r[0] for r in rows]) if rows else np.empty((0, 3)))
            for centres, radius in rows:
                names += [name] * len(centres)
                radii += [radius] * len(centres)
        self.names, self.radii = tuple(names), np.array(radii)

    def spheres(self, q: np.ndarray) -> np.ndarray:
        """Return the centres (m, k, 3) [m] of all spheres in configurations (m, n) [rad]."""
        rows = []
        for index, (rotation, origin) in enumerate(self._frames(q)):
            rows.append(self._centres[index] @ rotation.transpose(0, 2, 1) + origin[:, None])
        return np.concatenate(rows, axis=1)

    def tip_speed(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Return the speed of the cue's tip (m,) [m/s] at configurations (m, n) [rad] and rates (m, n) [rad/s]."""
        frames = self._frames(q)
        rotation, origin = frames[-1]
        tip = origin + rotation @ self._tip
        velocity = np.zeros_like(tip)
        for index in range(q.shape[1]):
            turn, place = frames[index]
            velocity += qd[:, index, None] * np.cross(turn[:, :, 2], tip - place)
        return np.linalg.norm(velocity, axis=1)

    def tip(self, q: np.ndarray) -> np.ndarray:
        """Return the tip's foremost point (m, 3) [m] in configurations (m, n) [rad]."""
        rotation, origin = self._frames(q)[-1]
        return origin + rotation @ self._tip

    def _frames(self, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return rotations (m, 3, 3) and origins (m, 3) [m] of the frames of every joint, and of the tool."""
        count = len(q)
        rotation = np.broadcast_to(self._base[:3, :3], (count, 3, 3))
        origin = np.broadcast_to(self._base[:3, 3], (count, 3))
        frames = []
        for index, (place, turn) in enumerate(self._after):
            cosine, sine = np.cos(q[:, index])[:, None], np.sin(q[:, index])[:, None]
            x, y, z = rotation[:, :, 0], rotation[:, :, 1], rotation[:, :, 2]
            rotation = np.stack([cosine * x + sine * y, cosine * y - sine * x, z], axis=2)
            frames.append((rotation, origin))
            origin = origin + rotation @ place
            rotation = rotation @ turn
        frames.append((rotation, origin))
        return frames


def _about_x(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _spheres(capsule: np.ndarray) -> tuple[np.ndarray, float]:
    """Return centres (k, 3) [m] along a capsule (7,) and the radius [m] at which they leave no part of it out."""
    first, last, radius = capsule[:3], capsule[3:6], float(capsule[6])
    length = float(np.linalg.norm(last - first))
    count = max(math.ceil(length / (_SPACING * radius)), 1)
    spacing = length / count
    shares = np.linspace(0.0, 1.0, count + 1)[:, None]
    return first + shares * (last - first), math.hypot(radius, spacing / 2)
