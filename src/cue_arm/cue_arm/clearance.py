"""Does the arm or its cue touch anything? MuJoCo's collision detection over sampled joint motion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mujoco
import numpy as np

from cue_arm.errors import CollisionError
from cue_core.table import TableModel
from cue_sim.robot import TIP_GEOM, RobotConfig, add_robot

_ROBOT_BIT, _SCENE_BIT = 1, 2
_BED_THICKNESS = 0.05  # m
_LARGEST_BALLS = 16
_AWAY = 5.0  # m: where unused balls wait
_RAIL_ABOVE_NOSE = 1.35  # a K-66 cushion's top lies about a third of the nose height above the nose


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
        self.tip_on_cue_ball = frozenset({(self._model.geom(TIP_GEOM).id, self._model.geom("ball 0").id)})
        # Neighbouring links overlap by their shape; whatever touches at home is no collision.
        self._always = frozenset(self._pairs(robot.home))

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

    def arm_touches(self, q: np.ndarray) -> bool:
        """Tell whether anything but the cue touches in a configuration (n,) [rad]."""
        return any(pair not in self._always and pair[0] not in self._cue for pair in self._pairs(q))

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


def _add_table(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add cloth and rails. The rails run on over the pockets: nothing of the arm has business there."""
    x, y, rail = table.length / 2, table.width / 2, table.rail_width
    top = _RAIL_ABOVE_NOSE * table.nose_height
    boxes = {
        "cloth": ((0, 0, -_BED_THICKNESS / 2), (x + rail, y + rail, _BED_THICKNESS / 2)),
        "north rail": ((0, y + rail / 2, top / 2), (x + rail, rail / 2, top / 2)),
        "south rail": ((0, -y - rail / 2, top / 2), (x + rail, rail / 2, top / 2)),
        "east rail": ((x + rail / 2, 0, top / 2), (rail / 2, y, top / 2)),
        "west rail": ((-x - rail / 2, 0, top / 2), (rail / 2, y, top / 2)),
    }
    for name, (centre, half) in boxes.items():
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=list(centre),
            size=list(half),
            contype=_SCENE_BIT,
            conaffinity=0,
        )
