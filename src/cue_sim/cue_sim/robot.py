"""The robot as data (``config/robots/*.yaml``) and its MuJoCo model: revolute joints and a short cue at the flange.

Names in the model: the motors are called like the joints, the bodies ``base_link``, ``<joint>_link`` and ``cue``, the
sites ``tool0`` (flange; z out of it, the cue points along its x) and ``cue_tip`` (the tip's foremost point, axes as
``tool0``), the geoms ``robot/...``; the tip that touches the ball is ``robot/cue_tip``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from cue_core.checks import finite_in, load_yaml, only_keys
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.table import TableModel

TIP_GEOM = "robot/cue_tip"
"""Geom of the cue's tip, the only part that may touch a ball."""
TIP_SITE = "cue_tip"
"""Site at the tip's foremost point."""

_METAL, _DARK, _WOOD, _LEATHER = (
    (0.72, 0.74, 0.77, 1),
    (0.25, 0.27, 0.30, 1),
    (0.76, 0.60, 0.38, 1),
    (0.2, 0.35, 0.6, 1),
)
_BASE = ("side", "gap", "along", "height")
_MOST_LINKS = 8
_SIDES = {"south": -1.0, "north": 1.0}
_FLOOR_BELOW_BASE = 0.85  # m: the pedestal's height, about that of a pool table


@dataclass(frozen=True)
class Link:
    """One joint and the link that turns with it.

    Attributes:
        joint: name of the joint.
        d, a, alpha: Denavit-Hartenberg parameters after the joint's rotation [m, m, rad].
        lower, upper: joint limits [rad].
        velocity: largest speed [rad/s].
        acceleration: largest acceleration [rad/s^2].
        effort: largest torque [N m].
        mass: [kg].
        centre_of_mass: (3,) in the DH frame of the link [m].
        inertia: (3,) about the centre of mass along the link frame's axes [kg m^2].
        capsules: (k, 7) ends and radius in the link frame [m].
    """

    joint: str
    d: float
    a: float
    alpha: float
    lower: float
    upper: float
    velocity: float
    acceleration: float
    effort: float
    mass: float
    centre_of_mass: np.ndarray
    inertia: np.ndarray
    capsules: np.ndarray


@dataclass(frozen=True)
class Cue:
    """The short cue in the tool frame; lengths in m, mass in kg.

    Attributes:
        forward: tip's foremost point along the tool's x.
        below: of the tip's axis along the tool's z (out of the flange).
        shaft: length of the straight part that ends in the tip.
        shaft_radius: of the straight part.
        stem_radius: of the part that slants from the flange to the shaft.
        tip_radius: of the tip's sphere.
        mass: of the whole cue with its holder.
    """

    forward: float
    below: float
    shaft: float
    shaft_radius: float
    stem_radius: float
    tip_radius: float
    mass: float

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
        """
        finite_in("cue forward", self.forward, 0.0, 0.5, "m")
        finite_in("cue below", self.below, 0.02, 0.6, "m")
        finite_in("cue shaft", self.shaft, 0.01, 0.5, "m")
        finite_in("cue mass", self.mass, 0.01, 2.0, "kg")
        for name in ("shaft_radius", "stem_radius", "tip_radius"):
            finite_in(f"cue {name}", getattr(self, name), 0.002, 0.03, "m")


@dataclass(frozen=True)
class RobotConfig:
    """An arm of revolute joints beside the table.

    Attributes:
        name: of the robot.
        side: of the table it stands at, ``"south"`` or ``"north"``.
        gap: from the cushion nose outwards to the base axis [m].
        along: of the base along the table's x [m].
        height: of the base plane above the cloth [m].
        turn: of the base about its axis, from where its -x points at the table [rad].
        links: from base to flange, at least six.
        armature: reflected rotor inertia of every joint [kg m^2].
        friction: Coulomb friction of the first three joints, a fifth of it in the wrists [N m].
        damping: viscous friction of the first three joints, a fifth of it in the wrists [N m s].
        cue: at the flange.
        home: (n,) joint positions out of the camera's view [rad].
        driver: names of the real robot's interfaces: ``follow_joint_trajectory`` (action), ``speed_scaling`` (topic).
    """

    name: str
    side: str
    gap: float
    along: float
    height: float
    links: tuple[Link, ...]
    armature: float
    friction: float
    damping: float
    cue: Cue
    home: np.ndarray
    turn: float = 0.0
    driver: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the base, and home against the joint limits.

        Raises:
            OutOfRangeError, UnknownNameError: naming the field.
        """
        if self.side not in _SIDES:
            raise UnknownNameError("robot side", self.side, _SIDES)
        finite_in("base gap", self.gap, 0.05, 2.0, "m")
        finite_in("base along", self.along, -3.0, 3.0, "m")
        finite_in("base height", self.height, -1.0, 1.5, "m")
        finite_in("base turn", self.turn, -math.pi, math.pi, "rad")
        for link, angle in zip(self.links, self.home, strict=True):
            finite_in(f"home of {link.joint}", angle, link.lower, link.upper, "rad")

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Return the joint names from base to flange."""
        return tuple(link.joint for link in self.links)

    def limits(self, name: str) -> np.ndarray:
        """Return the (n,) ``lower``, ``upper``, ``velocity``, ``acceleration`` or ``effort`` of the joints."""
        return np.array([getattr(link, name) for link in self.links])

    def table_from_base(self, table: TableModel) -> np.ndarray:
        """Return the (4, 4) pose of the base frame in the table frame; unturned, its -x points at the table."""
        sign = _SIDES[self.side]
        pose = np.eye(4)
        c, s = sign * math.cos(self.turn), sign * math.sin(self.turn)
        pose[:2, 0] = (-s, c)
        pose[:2, 1] = (-c, -s)
        pose[:3, 3] = (self.along, sign * (table.width / 2 + self.gap), self.height)
        return pose

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: object = "robot") -> RobotConfig:
        """Build from the data of a robot file.

        Raises:
            FileFormatError: a key is missing or unknown, or a list has the wrong length.
            OutOfRangeError: a value is out of range.
        """
        needed = ("name", "base", "links", "armature", "friction", "damping", "cue", "home")
        only_keys(where, data, (*needed, "driver"), needed=needed)
        driver = data.get("driver", {})
        only_keys(f"{where}: driver", driver, ("follow_joint_trajectory", "speed_scaling"))
        only_keys(f"{where}: base", data["base"], (*_BASE, "turn"), needed=_BASE)
        base = dict(data["base"])
        cue = _keys(f"{where}: cue", data["cue"], *Cue.__dataclass_fields__)
        links = tuple(_link(f"{where}: link {i}", item) for i, item in enumerate(data["links"], start=1))
        if not 6 <= len(links) <= _MOST_LINKS:
            raise FileFormatError(where, f"has {len(links)} links, needs 6 to {_MOST_LINKS}")
        return cls(
            name=str(data["name"]),
            side=str(base["side"]),
            gap=base["gap"],
            along=base["along"],
            height=base["height"],
            links=links,
            armature=finite_in("armature", data["armature"], 0.0, 5.0),
            friction=finite_in("friction", data["friction"], 0.0, 50.0),
            damping=finite_in("damping", data["damping"], 0.0, 50.0),
            cue=Cue(**cue),
            home=_vector(f"{where}: home", data["home"], len(links), 7.0),
            turn=base.get("turn", 0.0),
            driver={str(key): str(value) for key, value in driver.items()},
        )

    @classmethod
    def load(cls, path: Path | str) -> RobotConfig:
        """Read a robot file (``config/robots/*.yaml``).

        Raises:
            FileFormatError: the file is missing or malformed.
            OutOfRangeError: a value is out of range.
        """
        return cls.from_dict(load_yaml(path), path)


def _keys(where: object, data: Any, *names: str) -> Mapping[str, Any]:
    only_keys(where, data, names, needed=names)
    return dict(data)


def _vector(where: object, values: Any, count: int, bound: float) -> np.ndarray:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        raise FileFormatError(where, f"needs {count} numbers, got {values!r}")
    return np.array([finite_in(str(where), value, -bound, bound) for value in values])


def _link(where: str, data: Any) -> Link:
    _keys(where, data, "joint", "dh", "limits", "mass", "centre_of_mass", "inertia", "capsules")
    dh = _keys(f"{where}: dh", data["dh"], "d", "a", "alpha")
    limits = _keys(f"{where}: limits", data["limits"], "lower", "upper", "velocity", "acceleration", "effort")
    return Link(
        joint=str(data["joint"]),
        **{name: finite_in(f"{where}: {name}", value, -math.pi, math.pi) for name, value in dh.items()},
        **{name: finite_in(f"{where}: {name}", value, -1e3, 1e3) for name, value in limits.items()},
        mass=finite_in(f"{where}: mass", data["mass"], 1e-3, 100.0, "kg"),
        centre_of_mass=_vector(f"{where}: centre_of_mass", data["centre_of_mass"], 3, 2.0),
        inertia=_vector(f"{where}: inertia", data["inertia"], 3, 10.0),
        capsules=np.array([_vector(f"{where}: capsule", row, 7, 2.0) for row in data["capsules"]]).reshape(-1, 7),
    )


def _about_x(angle: float) -> list[float]:
    return [math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0]


def _capsule(body: Any, name: str, ends: Sequence[float], radius: float, colour: Sequence[float]) -> Any:
    return body.add_geom(
        name=f"robot/{name}",
        type=mujoco.mjtGeom.mjGEOM_CAPSULE,
        fromto=[float(v) for v in ends],
        size=[float(radius), 0.0, 0.0],
        mass=0.0,
        rgba=list(colour),
        contype=0,
        conaffinity=0,
    )


@dataclass(frozen=True)
class ElasticTip:
    """The front end of a cue's shaft, which yields sideways: why a ball struck off centre squirts so little.

    Attributes:
        mass: that the ball feels across the stroke [kg].
        frequency: of the shaft's sideways swing [Hz].
        damping: of it, relative to critical.
    """

    mass: float
    frequency: float
    damping: float


def add_robot(spec: Any, robot: RobotConfig, table: TableModel, tip: ElasticTip | None = None) -> None:
    """Add the arm to an ``mujoco.MjSpec`` whose world frame is the table frame.

    No geom collides: whoever needs contacts sets ``contype`` and ``conaffinity`` or adds pairs. Motors take joint
    torques [N m] within the effort limits. With an elastic tip the model has two slide joints more, ``cue_tip_y`` and
    ``cue_tip_z``; without one the tip is rigid, which is what planning needs.
    """
    pose = robot.table_from_base(table)
    turn_unit = math.degrees(1.0) if spec.compiler.degree else 1.0  # the compiler's unit of joint ranges
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, pose[:3, :3].ravel())
    base = spec.worldbody.add_body(name="base_link", pos=pose[:3, 3], quat=quaternion)
    _capsule(base, "base", [0, 0, -0.02, 0, 0, 0.03], 0.072, _DARK)
    base.add_geom(
        name="robot/pedestal",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        fromto=[0, 0, -_FLOOR_BELOW_BASE, 0, 0, 0],
        size=[0.08, 0, 0],
        rgba=list(_DARK),
        contype=0,
        conaffinity=0,
    )
    parent, place, turn = base, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
    for index, link in enumerate(robot.links):
        weight = 1.0 if index < 3 else 0.2
        body = parent.add_body(name=link.joint.replace("_joint", "_link"), pos=place, quat=turn)
        place, turn = [link.a, 0.0, link.d], _about_x(link.alpha)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, np.array(turn))
        body.explicitinertial = True
        body.mass = link.mass
        body.ipos = np.array(place) + rotation.reshape(3, 3) @ link.centre_of_mass
        body.inertia = link.inertia
        body.add_joint(
            name=link.joint,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[0, 0, 1],
            range=[turn_unit * link.lower, turn_unit * link.upper],
            limited=True,
            armature=robot.armature,
            frictionloss=weight * robot.friction,
            damping=weight * robot.damping,
        )
        for number, row in enumerate(link.capsules):
            colour = _METAL if number == len(link.capsules) - 1 else _DARK
            _capsule(body, f"{body.name}_{number}", row[:6], row[6], colour)
        motor = spec.add_actuator(name=link.joint, target=link.joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_motor()
        motor.ctrlrange = [-link.effort, link.effort]
        motor.ctrllimited = True
        parent = body
    _add_cue(parent.add_body(name="cue", pos=place, quat=turn), robot.cue, tip)


def _add_cue(body: Any, cue: Cue, tip: ElasticTip | None) -> None:
    back, centre = cue.forward - cue.shaft, cue.forward - cue.tip_radius
    body.explicitinertial = True
    body.mass = cue.mass
    body.ipos = [0.4 * cue.forward, 0.0, 0.5 * cue.below]
    size = cue.mass * (cue.forward**2 + cue.below**2) / 12  # a rod from flange to tip, about any cross axis
    body.inertia = [size, size, size]
    _capsule(body, "cue_stem", [0, 0, 0, back, 0, cue.below], cue.stem_radius, _DARK)
    _capsule(body, "cue_shaft", [back, 0, cue.below, centre - cue.tip_radius, 0, cue.below], cue.shaft_radius, _WOOD)
    body.add_site(name="tool0", pos=[0, 0, 0], group=4)
    body.add_site(name=TIP_SITE, pos=[cue.forward, 0, cue.below], group=4)
    place = [centre, 0.0, cue.below]
    if tip:
        body, place = _elastic_body(body, place, tip), [0.0, 0.0, 0.0]
    body.add_geom(
        name=TIP_GEOM,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        pos=place,
        size=[cue.tip_radius, 0, 0],
        mass=0.0,
        rgba=list(_LEATHER),
        contype=0,
        conaffinity=0,
    )


def _elastic_body(cue: Any, place: Sequence[float], tip: ElasticTip) -> Any:
    body = cue.add_body(name="cue_end", pos=list(place))
    body.explicitinertial = True
    body.mass = tip.mass
    body.inertia = [1e-6, 1e-6, 1e-6]  # it cannot turn: any positive value will do
    body.gravcomp = 1.0  # the shaft carries it
    swing = 2 * math.pi * tip.frequency
    for name, axis in (("cue_tip_y", [0, 1, 0]), ("cue_tip_z", [0, 0, 1])):
        body.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=axis,
            stiffness=tip.mass * swing**2,
            damping=2 * tip.damping * tip.mass * swing,
        )
    return body


def robot_model(robot: RobotConfig, table: TableModel) -> Any:
    """Return the compiled ``mujoco.MjModel`` of the arm alone, in the table frame."""
    spec = mujoco.MjSpec()
    spec.modelname = robot.name
    spec.compiler.degree = False
    add_robot(spec, robot, table)
    return spec.compile()
