"""A node whose time is simulated and whose clock is missing says so, instead of waiting for ever without a word."""

from __future__ import annotations

import time

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

PATIENCE_S = 4.0
"""Wall time without a clock after which the node complains [s]."""
_LOOK_S = 0.5


def watch_clock(node: Node) -> None:
    """Warn once when ``use_sim_time`` is set and nobody publishes the clock; look until it is there."""
    if not node.get_parameter("use_sim_time").value:
        return
    topic = node.resolve_topic_name("/clock")
    begin = time.monotonic()
    warned = False

    def look() -> None:
        nonlocal warned
        if node.get_clock().now().nanoseconds > 0:
            timer.cancel()
        elif not warned and time.monotonic() - begin > PATIENCE_S and node.count_publishers(topic) == 0:
            warned = True
            node.get_logger().warning(
                f"no time on {topic} after {PATIENCE_S:.0f} s: this node has use_sim_time, is the world running?"
            )

    timer = node.create_timer(_LOOK_S, look, clock=Clock(clock_type=ClockType.STEADY_TIME))
