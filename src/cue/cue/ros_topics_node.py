"""Topics as ROS knows them: message classes, definitions, quality of service. For nodes that record, replay or show."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from cue.resources import ResourceError, prefixes
from cue.topics import Topic
from cue_core.ros import qos

_FOREVER = {"sec": 9223372036, "nsec": 854775807}
_WAITING = 512
"""Messages that can wait until they are looked for."""
_WAITING_IMAGES = 16


def message_class(kind: str) -> Any:
    """Return the class of package/msg/Type.

    Raises:
        ResourceError: it is not installed.
    """
    package, _, name = kind.split("/")
    try:
        return getattr(import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError):
        raise ResourceError(f"message type {kind} is not installed") from None


@cache
def definition(package: str, name: str) -> Path:
    """Return the path of an installed message definition.

    Raises:
        ResourceError: it is not installed.
    """
    for prefix in prefixes():
        path = prefix / "share" / package / "msg" / f"{name}.msg"
        if path.is_file():
            return path
    raise ResourceError(f"definition of {package}/msg/{name} is not installed")


def published(topic: Topic) -> QoSProfile:
    """Return the quality of service that CUE publishes a topic with."""
    profile: QoSProfile = getattr(qos, topic.profile)
    return profile


def wanted(topic: Topic, live: bool) -> QoSProfile:
    """Return the quality of service to listen with; it matches CUE's nodes, and other people's cameras and drivers.

    Args:
        topic: to listen to.
        live: cameras and drivers are real: they may be best-effort, and latch nothing.
    """
    foreign = live and (topic.name.startswith("camera/") or topic.name == "joint_states")
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=_WAITING_IMAGES if topic.image else _WAITING,
        reliability=ReliabilityPolicy.BEST_EFFORT if foreign else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if topic.latched and not foreign else DurabilityPolicy.VOLATILE,
    )


def qos_text(profile: QoSProfile) -> str:
    """Return a profile as rosbag2 keeps it with a recorded topic."""
    data = {
        "history": "keep_last",
        "depth": profile.depth,
        "reliability": profile.reliability.name.lower(),
        "durability": profile.durability.name.lower(),
        "deadline": _FOREVER,
        "lifespan": _FOREVER,
        "liveliness": "automatic",
        "liveliness_lease_duration": _FOREVER,
        "avoid_ros_namespace_conventions": False,
    }
    return str(yaml.safe_dump([data], sort_keys=False))


def qos_from_text(text: str) -> QoSProfile:
    """Return the profile to publish a recorded topic with; reliable and not latched where the recording tells none."""
    try:
        offered = yaml.safe_load(text) if text else None
        first = offered[0] if offered else {}
        latched = str(first.get("durability", "volatile")) in ("transient_local", "1")
        best_effort = str(first.get("reliability", "reliable")) in ("best_effort", "2")
        depth = int(first.get("depth") or 0)
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError):
        latched, best_effort, depth = False, False, 0
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth or _WAITING,
        reliability=ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )
