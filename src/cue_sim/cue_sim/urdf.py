"""The robot of a robot file as URDF with plain shapes, for RViz and MoveIt. A test keeps it equal to the MJCF."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

import numpy as np

from cue_sim.robot import RobotConfig

Numbers = Sequence[float] | np.ndarray

_COLOURS = {
    "metal": "0.72 0.74 0.77 1",
    "dark": "0.25 0.27 0.30 1",
    "wood": "0.76 0.60 0.38 1",
    "tip": "0.2 0.35 0.6 1",
}
_BASE_ENDS, _BASE_RADIUS = (0, 0, -0.02, 0, 0, 0.03), 0.072


def robot_urdf(robot: RobotConfig) -> str:
    """Return the URDF of the arm with its cue; the root is ``base_link``, names and frames are those of the MJCF.

    A capsule is a cylinder with a sphere at either end, since URDF has no capsules. ``tool0`` (flange) and ``cue_tip``
    (the tip's foremost point) are links without a shape.
    """
    root = Xml.Element("robot", name=robot.name)
    for name, rgba in _COLOURS.items():
        Xml.SubElement(Xml.SubElement(root, "material", name=name), "color", rgba=rgba)
    base = Xml.SubElement(root, "link", name="base_link")
    _capsule(base, _BASE_ENDS, _BASE_RADIUS, "dark")
    parent, place, alpha = "base_link", (0.0, 0.0, 0.0), 0.0
    for link in robot.links:
        name = link.joint.replace("_joint", "_link")
        element = Xml.SubElement(root, "link", name=name)
        c, s = math.cos(link.alpha), math.sin(link.alpha)
        frame = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
        centre = np.array([link.a, 0.0, link.d]) + frame @ link.centre_of_mass
        _inertial(element, link.mass, centre, link.inertia)
        for number, row in enumerate(link.capsules):
            _capsule(element, row[:6], row[6], "metal" if number == len(link.capsules) - 1 else "dark")
        joint = _joint(root, link.joint, "revolute", parent, name, place, alpha)
        Xml.SubElement(joint, "axis", xyz="0 0 1")
        Xml.SubElement(
            joint,
            "limit",
            lower=_text(link.lower),
            upper=_text(link.upper),
            effort=_text(link.effort),
            velocity=_text(link.velocity),
        )
        parent, place, alpha = name, (link.a, 0.0, link.d), link.alpha
    _cue(root, robot, parent, place, alpha)
    Xml.indent(root)
    return str(Xml.tostring(root, encoding="unicode"))


def _cue(root: Xml.Element, robot: RobotConfig, parent: str, place: Numbers, alpha: float) -> None:
    cue = robot.cue
    back, centre = cue.forward - cue.shaft, cue.forward - cue.tip_radius
    element = Xml.SubElement(root, "link", name="cue")
    size = cue.mass * (cue.forward**2 + cue.below**2) / 12  # a rod from flange to tip, about any cross axis
    _inertial(element, cue.mass, (0.4 * cue.forward, 0.0, 0.5 * cue.below), (size, size, size))
    _capsule(element, (0, 0, 0, back, 0, cue.below), cue.stem_radius, "dark")
    _capsule(element, (back, 0, cue.below, centre - cue.tip_radius, 0, cue.below), cue.shaft_radius, "wood")
    _shape(element, "sphere", {"radius": _text(cue.tip_radius)}, (centre, 0, cue.below), (0, 0, 0), "tip")
    _joint(root, "flange_to_cue", "fixed", parent, "cue", place, alpha)
    for name, where in (("tool0", (0.0, 0.0, 0.0)), ("cue_tip", (cue.forward, 0.0, cue.below))):
        Xml.SubElement(root, "link", name=name)
        _joint(root, f"cue_to_{name}", "fixed", "cue", name, where, 0.0)


def _joint(
    root: Xml.Element, name: str, kind: str, parent: str, child: str, place: Numbers, alpha: float
) -> Xml.Element:
    joint = Xml.SubElement(root, "joint", name=name, type=kind)
    Xml.SubElement(joint, "parent", link=parent)
    Xml.SubElement(joint, "child", link=child)
    Xml.SubElement(joint, "origin", xyz=_text(*place), rpy=_text(alpha, 0.0, 0.0))
    return joint


def _inertial(link: Xml.Element, mass: float, centre: Numbers, inertia: Numbers) -> None:
    element = Xml.SubElement(link, "inertial")
    Xml.SubElement(element, "origin", xyz=_text(*centre))
    Xml.SubElement(element, "mass", value=_text(mass))
    xx, yy, zz = (_text(float(value)) for value in inertia)
    Xml.SubElement(element, "inertia", ixx=xx, iyy=yy, izz=zz, ixy="0", ixz="0", iyz="0")


def _capsule(link: Xml.Element, ends: Numbers, radius: float, material: str) -> None:
    one, other = np.array(ends[:3], float), np.array(ends[3:], float)
    along = other - one
    length = float(np.linalg.norm(along))
    x, y, z = along / length
    rpy = (0.0, math.atan2(math.hypot(x, y), z), math.atan2(y, x))  # turns z to the axis
    size = {"radius": _text(float(radius)), "length": _text(length)}
    _shape(link, "cylinder", size, (one + other) / 2, rpy, material)
    for end in (one, other):
        _shape(link, "sphere", {"radius": _text(float(radius))}, end, (0, 0, 0), material)


def _shape(link: Xml.Element, kind: str, size: dict[str, str], place: Numbers, rpy: Numbers, material: str) -> None:
    for role in ("visual", "collision"):
        element = Xml.SubElement(link, role)
        Xml.SubElement(element, "origin", xyz=_text(*place), rpy=_text(*rpy))
        Xml.SubElement(Xml.SubElement(element, "geometry"), kind, size)
        if role == "visual":
            Xml.SubElement(element, "material", name=material)


def _text(*values: float) -> str:
    return " ".join(f"{float(value):.9g}" for value in values)
