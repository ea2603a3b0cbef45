"""MoveIt's view of a robot file: semantic description, joint limits, and the pipelines of ``config/moveit``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Xml

from cue_arm.clearance import Clearance
from cue_arm.settings import StrokeSettings
from cue_core.checks import load_yaml
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.robot import RobotConfig
from cue_sim.urdf import robot_urdf

GROUP = "arm"
"""Planning group: the chain from the base to the tip."""
BASE_LINK, TIP_LINK = "base_link", "cue_tip"


def robot_srdf(robot: RobotConfig, table: TableModel) -> str:
    """Return the SRDF: the group, home, and the pairs of links whose shapes overlap by their making."""
    root = Xml.Element("robot", name=robot.name)
    group = Xml.SubElement(root, "group", name=GROUP)
    Xml.SubElement(group, "chain", base_link=BASE_LINK, tip_link=TIP_LINK)
    home = Xml.SubElement(root, "group_state", name="home", group=GROUP)
    for name, value in zip(robot.joint_names, robot.home, strict=True):
        Xml.SubElement(home, "joint", name=name, value=f"{value:.9g}")
    links = [BASE_LINK, *(link.joint.replace("_joint", "_link") for link in robot.links), "cue", "tool0", TIP_LINK]
    adjacent = set(pairwise(links)) | {("cue", TIP_LINK)}
    for one, other in sorted(adjacent, key=lambda pair: (links.index(pair[0]), links.index(pair[1]))):
        Xml.SubElement(root, "disable_collisions", link1=one, link2=other, reason="Adjacent")
    clearance = Clearance(robot, table, 0.0)
    always = {tuple(sorted(pair, key=links.index)) for pair in clearance.always_touching()}
    for one, other in sorted(always - adjacent, key=lambda pair: (links.index(pair[0]), links.index(pair[1]))):
        Xml.SubElement(root, "disable_collisions", link1=one, link2=other, reason="Default")
    Xml.indent(root)
    return str(Xml.tostring(root, encoding="unicode")) + "\n"


def joint_limits(robot: RobotConfig) -> dict[str, Any]:
    """Return MoveIt's joint limits of a robot file."""
    return {
        link.joint: {
            "has_position_limits": True,
            "min_position": link.lower,
            "max_position": link.upper,
            "has_velocity_limits": True,
            "max_velocity": link.velocity,
            "has_acceleration_limits": True,
            "max_acceleration": link.acceleration,
        }
        for link in robot.links
    }


def moveit_parameters(robot: RobotConfig, table: TableModel, settings: StrokeSettings) -> dict[str, Any]:
    """Return the parameters of the MoveItPy node.

    Raises:
        FileFormatError: a file of ``config/moveit`` is missing or malformed.
    """
    files = {name: dict(load_yaml(config_file("moveit", name))) for name in ("moveit", "kinematics", "pilz_limits")}
    parameters = files["moveit"]
    parameters["robot_description"] = robot_urdf(robot)
    parameters["robot_description_semantic"] = robot_srdf(robot, table)
    parameters["robot_description_kinematics"] = {GROUP: files["kinematics"]}
    parameters["robot_description_planning"] = {"joint_limits": joint_limits(robot), **files["pilz_limits"]}
    free = parameters["free"]["plan_request_params"]
    free["max_velocity_scaling_factor"] = settings.free_velocity
    free["max_acceleration_scaling_factor"] = settings.free_acceleration
    return parameters
