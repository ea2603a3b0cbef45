"""One half of the doctor's discovery check: ``python -m cue.discovery_node talk|listen TOPIC SECONDS``."""

from __future__ import annotations

import sys
import time

import rclpy
from std_msgs.msg import String

from cue_core.ros.node import exit_with_parent
from cue_core.ros.qos import LATCHED


def main(arguments: list[str]) -> int:
    """Talk or listen; return 0 once the message has passed, 1 when the time is up."""
    exit_with_parent()
    role, topic, seconds = arguments[0], arguments[1], float(arguments[2])
    heard: list[String] = []
    end = time.monotonic() + seconds
    with rclpy.init(args=[]):
        node = rclpy.create_node(f"cue_doctor_{role}")
        if role == "talk":
            publisher = node.create_publisher(String, topic, LATCHED)
            publisher.publish(String(data="hello"))

            def done() -> bool:
                return False  # until the doctor ends it: the listener may take long to match
        else:
            node.create_subscription(String, topic, heard.append, LATCHED)

            def done() -> bool:
                return bool(heard)

        while not done() and time.monotonic() < end:
            rclpy.spin_once(node, timeout_sec=0.1)
        node.destroy_node()
    return 0 if done() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
