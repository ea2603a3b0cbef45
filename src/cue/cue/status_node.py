"""``cue status``: listens to a running graph for a moment and shows its health."""

from __future__ import annotations

import argparse
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rich.console import Console
from rich.live import Live

from cue.status import GraphHealth, graph_health, rendered
from cue_core.ros.polling import Ears
from cue_core.ros.qos import LATCHED
from cue_msgs.msg import AgentStatus

_DISCOVER_S = 1.5  # in which the nodes of a graph are found
_LISTEN_S = 8.0  # nodes tell of themselves once a second; those that do not in this time are silent
_LOOK_S = 0.1
_WIDE = 160
_REDRAW_S = 1.0


class Listener:
    """Keeps the newest that every node told."""

    def __init__(self, node: Node, namespace: str) -> None:
        """Listen as ``node`` to the graph in a namespace; empty = to all nodes, and the agent of none."""
        self._node, self._prefix = node, f"/{namespace.strip('/')}/".replace("//", "/")
        self._ears = Ears(node)
        self._ears.listen(DiagnosticArray, "/diagnostics", QoSProfile(depth=100))
        self._ears.listen(AgentStatus, f"{self._prefix}agent_status", LATCHED)
        self._told: dict[str, tuple[int, str, Mapping[str, str], float]] = {}
        self._doing = ""

    def look(self) -> None:
        """Take what has come."""
        for heard in self._ears.take():
            if isinstance(heard.message, AgentStatus):
                status = heard.message
                self._doing = f"{status.phase}: {status.text} (shot {status.shots_used} of {status.shots_budget})"
                continue
            for status in heard.message.status:
                if status.hardware_id == "cue" and status.name.startswith(self._prefix):
                    values = {pair.key: pair.value for pair in status.values}
                    self._told[status.name] = (
                        int.from_bytes(status.level, "little"),
                        status.message,
                        values,
                        time.monotonic(),
                    )

    def awaited(self) -> set[str]:
        """Return the nodes that publish their health and were not heard yet."""
        found = self._node.get_publishers_info_by_topic("/diagnostics")
        names = {f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in found}
        return {name for name in names if name.startswith(self._prefix)} - self._told.keys()

    def graph(self) -> GraphHealth:
        """Return how the graph stands."""
        now = time.monotonic()
        told = {name: (level, text, values, now - at) for name, (level, text, values, at) in self._told.items()}
        told |= {name: (2, "not heard", {}, math.inf) for name in self.awaited()}
        running = {f"{space.rstrip('/')}/{name}" for name, space in self._node.get_node_names_and_namespaces()}
        return graph_health(told, running, self._doing)


def status(options: argparse.Namespace, write: Callable[[str], object]) -> int:
    """Show the graph's health; return 0 if every node can do its work, else 1."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
        node = Node("cue_status")
        listener = Listener(node, options.namespace)
        _listen(listener, stop, _DISCOVER_S)
        _listen(listener, stop, _LISTEN_S, until_all=True)
        if options.watch and not options.json:
            with Live(rendered(listener.graph(), options.details), auto_refresh=False) as live:
                while not stop.is_set():
                    _listen(listener, stop, _REDRAW_S)
                    live.update(rendered(listener.graph(), options.details), refresh=True)
        graph = listener.graph()
        node.destroy_node()
    if options.json:
        write(json.dumps(graph.to_dict(), indent=2))
    elif not options.watch:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = _WIDE
        console.print(rendered(graph, options.details))
    return 0 if graph.well else 1


def _listen(listener: Listener, stop: threading.Event, seconds: float, until_all: bool = False) -> None:
    end = time.monotonic() + seconds
    while not stop.wait(_LOOK_S) and time.monotonic() < end:
        listener.look()
        if until_all and not listener.awaited():
            return
