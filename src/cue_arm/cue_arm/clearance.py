"""Does the arm or its cue touch anything? MuJoCo's collision detection over sampled joint motion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mujoco
import numpy as np

from cue_arm.errors import CollisionError
from cue_arm.rails import rail_boxes
from cue_core.table import TableModel
from cue_sim.robot import TIP_GEOM, RobotConfig, add_robot

_ROBOT_BIT, _SCENE_BIT = 1, 2
_BED_THICKNESS = 0.05  # m
_LARGEST_BALLS = 16
_AWAY = 5.0  # m: where unused balls wait
_STEP = 0.015  # rad: largest change of a joint between configurations that are checked


class Clearance:
    """The arm beside the table, with the balls where they lie."""

    def __init__(self, robot: RobotConfig, table: TableModel, clearance: float) -> None:
        """Build the scene; anything nearer than ``clearance`` [m] counts as touching."""
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        add_robot(spec, robot, table)
        for geom in spec.geoms:
            geom.contype, geom.conaffinity, geom.margin = _ROBOT_BIT, _ROBOT_BIT | _SCENE_BIT, clearance
        _add_table(spec, table)
        for index in range(_LARGEST_BALLS):
            body = spec.worldbody.add_body(name=f"ball_{index}", mocap=True, pos=[0, 0, _AWAY + index])
            body.add_geom(
                name=f"ball {index}",
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[table.ball_radius, 0, 0],
                contype=_SCENE_BIT,
                conaffinity=0,
            )
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        self._radius = table.ball_radius
        self._clearance = clearance
        self._joints = np.array([self._model.joint(name).qposadr[0] for name in robot.joint_names])
        self._mocap = [self._model.body(f"ball_{i}").mocapid[0] for i in range(_LARGEST_BALLS)]
        self._cue = frozenset(g for g in range(self._model.ngeom) if self._model.geom(g).name.startswith("robot/cue"))
        # Neighbouring links overlap by their shape; whatever touches at home is no collision.
        self._always = frozenset(self._pairs(robot.home))

    def always_touching(self) -> set[tuple[str, str]]:
        """Return the pairs of links, by name, whose shapes overlap by their making."""
        bodies = self._model.geom_bodyid
        return {tuple(self._model.body(bodies[g]).name for g in pair) for pair in self._always}

    def tip_on(self, ball_id: int) -> frozenset[tuple[int, int]]:
        """Return the pair of the cue's tip and a ball, for ``allowed``."""
        return frozenset({(self._model.geom(TIP_GEOM).id, self._model.geom(f"ball {ball_id}").id)})

    def place_balls(self, balls: Mapping[int, np.ndarray]) -> None:
        """Put balls by id at (2,) [m]; all others are taken off the table."""
        for index, mocap in enumerate(self._mocap):
            x, y = balls.get(index, (0.0, 0.0))
            self._data.mocap_pos[mocap] = (x, y, self._radius if index in balls else _AWAY + index)

    def touching(self, q: np.ndarray, allowed: frozenset[tuple[int, int]] = frozenset()) -> tuple[str, str] | None:
        """Return the first pair that touches in a configuration (n,) [rad], by names for people, or None."""
        for pair in self._pairs(q):
            if pair not in self._always and pair not in allowed:
                return self._name(pair[0]), self._name(pair[1])
        return None

    def all_touching(self, q: np.ndarray) -> list[tuple[str, str]]:
        """Return every pair that touches in a configuration (n,) [rad], by names for people."""
        return [(self._name(a), self._name(b)) for a, b in self._pairs(q) if (a, b) not in self._always]

    def arm_touches(self, q: np.ndarray) -> bool:
        """Tell whether anything but the cue touches in a configuration (n,) [rad]."""
        return any(pair not in self._always and pair[0] not in self._cue for pair in self._pairs(q))

    def check_motion(
        self, positions: np.ndarray, when: str = "", allowed: frozenset[tuple[int, int]] = frozenset()
    ) -> None:
        """Check a sampled motion (m, n) [rad] as densely as it needs, wherever the samples lie.

        Raises:
            CollisionError: naming the pair and ``when``, the part of the motion.
        """
        self.check(_evenly(positions), when, allowed)

    def check(
        self, path: Iterable[np.ndarray], when: str = "", allowed: frozenset[tuple[int, int]] = frozenset()
    ) -> None:
        """Check every configuration (n,) [rad] of a motion.

        Raises:
            CollisionError: naming the pair and ``when``, the part of the motion.
        """
        for q in path:
            pair = self.touching(q, allowed)
            if pair is not None:
                raise CollisionError(*pair, when)

    def near(self, q: np.ndarray) -> frozenset[tuple[int, int]]:
        """Return the pairs that are within the clearance but do not overlap: where the arm may have come to rest."""
        self._pairs(q)
        contacts = self._data.contact
        return frozenset(self._ordered(contacts.geom[i]) for i in range(self._data.ncon) if contacts.dist[i] > 0.0)

    def _ordered(self, geoms: np.ndarray) -> tuple[int, int]:
        """Return a pair with the robot's cue first, then its links, then the scene."""
        a, b = int(geoms[0]), int(geoms[1])
        rank = [self._model.geom_contype[g] == _SCENE_BIT for g in (a, b)]
        return (b, a) if rank[0] and not rank[1] else (a, b)

    def _pairs(self, q: np.ndarray) -> list[tuple[int, int]]:
        model, data = self._model, self._data
        data.qpos[self._joints] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)  # broad phase works on the bodies' trees of boxes
        mujoco.mj_collision(model, data)
        # A contact is listed up to the sum of both margins.
        return [self._ordered(data.contact.geom[i]) for i in range(data.ncon) if data.contact.dist[i] < self._clearance]

    def _name(self, geom: int) -> str:
        name = self._model.geom(geom).name
        if name == TIP_GEOM:
            return "cue tip"
        if not name.startswith("robot/"):
            return "cue ball" if name == "ball 0" else name
        return name.removeprefix("robot/").rstrip("0123456789").rstrip("_").replace("_", " ")


def _evenly(positions: np.ndarray) -> np.ndarray:
    """Return configurations along a motion (m, n) [rad] about ``_STEP`` apart, both ends among them."""
    travel = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(positions, axis=0)).max(axis=1))])
    wanted = np.linspace(0.0, travel[-1], max(int(np.ceil(travel[-1] / _STEP)), 1) + 1)
    return np.stack([np.interp(wanted, travel, column) for column in positions.T], axis=1)


def _add_table(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add cloth and rails, with gaps at the pockets."""
    out = np.array([table.length, table.width]) / 2 + table.rail_width
    boxes = {"cloth": (np.array([*-out, -_BED_THICKNESS]), np.array([*out, 0.0])), **rail_boxes(table)}
    for name, (low, high) in boxes.items():
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=list((low + high) / 2),
            size=list((high - low) / 2),
            contype=_SCENE_BIT,
            conaffinity=0,
        )
