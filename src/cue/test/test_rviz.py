"""The RViz configuration: stock displays, and topics that CUE publishes with the type and a quality that match.

``system/test_graphs.py`` holds the same topics against a running graph.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cue.topics import TOPICS

RVIZ = Path(__file__).resolve().parents[3] / "config" / "rviz" / "cue.rviz"
STOCK = {
    "rviz_default_plugins/Grid": "",
    "rviz_default_plugins/TF": "",
    "rviz_default_plugins/RobotModel": "std_msgs/msg/String",
    "rviz_default_plugins/MarkerArray": "visualization_msgs/msg/MarkerArray",
    "rviz_default_plugins/Image": "sensor_msgs/msg/Image",
    "rviz_default_plugins/Camera": "sensor_msgs/msg/Image",
}
"""Class of display: type of its topic."""


def displays():
    """Return the displays of the file."""
    return yaml.safe_load(RVIZ.read_text())["Visualization Manager"]["Displays"]


def subscriptions():
    """Return (topic, type, reliable, latched) of every display that has a topic."""
    found = []
    for display in displays():
        topic = display.get("Topic") or display.get("Description Topic")
        if topic:
            reliable = topic["Reliability Policy"] == "Reliable"
            latched = topic["Durability Policy"] == "Transient Local"
            found.append((topic["Value"], STOCK[display["Class"]], reliable, latched))
    return found


def test_every_display_is_stock_and_named():
    classes = [display["Class"] for display in displays()]
    assert set(classes) <= set(STOCK)
    names = [display["Name"] for display in displays()]
    assert len(set(names)) == len(names)
    assert {"Image", "MarkerArray", "RobotModel", "TF"} <= {name.split("/")[1] for name in classes}
    tools = yaml.safe_load(RVIZ.read_text())["Visualization Manager"]["Tools"]
    assert all(tool["Class"].startswith("rviz_default_plugins/") for tool in tools)


@pytest.mark.parametrize(("topic", "kind", "reliable", "latched"), subscriptions())
def test_every_topic_is_one_of_cues_and_matches(topic, kind, reliable, latched):
    from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

    from cue.ros_topics_node import published

    (known,) = [item for item in TOPICS if item.name == topic]
    assert known.kind == kind
    wanted = QoSProfile(depth=1, reliability=1 if reliable else 2, durability=1 if latched else 2)
    verdict, reason = qos_check_compatible(published(known), wanted)
    assert verdict != QoSCompatibility.ERROR, reason
    assert latched or known.image or not known.latched, "a late RViz would miss it"


def test_everything_that_is_drawn_is_shown():
    shown = {topic for topic, *_ in subscriptions()}
    drawn = {item.name for item in TOPICS if item.kind == "visualization_msgs/msg/MarkerArray"}
    assert drawn | {"robot_description", "debug_image", "camera/image_raw"} == shown
