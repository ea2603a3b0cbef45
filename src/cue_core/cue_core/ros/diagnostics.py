"""Health of a node on /diagnostics: rates, latency, counters, last error."""

from __future__ import annotations

import time
from collections import deque

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

PERIOD_S = 1.0
WINDOW = 128


class Health:
    """Collects what a node did and tells it once a second of wall time, also while simulated time stands still."""

    def __init__(self, node: Node) -> None:
        """Publish for ``node``."""
        self._node = node
        self._ticks: dict[str, deque[float]] = {}
        self._durations: dict[str, deque[float]] = {}
        self._values: dict[str, str] = {}
        self._level, self._message = DiagnosticStatus.OK, "ok"
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._timer = node.create_timer(PERIOD_S, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def tick(self, what: str, seconds: float | None = None) -> None:
        """Count one event, e.g. an image, and how long its handling took [s]."""
        self._ticks.setdefault(what, deque(maxlen=WINDOW)).append(time.monotonic())
        if seconds is not None:
            self._durations.setdefault(what, deque(maxlen=WINDOW)).append(seconds)

    def set(self, key: str, value: object) -> None:
        """Show a value."""
        self._values[key] = str(value)

    def ok(self) -> None:
        """Say that all is well again."""
        self._level, self._message = DiagnosticStatus.OK, "ok"

    def warn(self, message: str) -> None:
        """Say that something needs a look."""
        self._level, self._message = DiagnosticStatus.WARN, message

    def error(self, message: str) -> None:
        """Say that the node cannot do its work."""
        self._level, self._message = DiagnosticStatus.ERROR, message

    def status(self) -> DiagnosticStatus:
        """Return the present status."""
        now = time.monotonic()
        values = dict(self._values)
        for what, times in list(self._ticks.items()):
            recent = sum(now - t <= 5.0 for t in times)
            values[f"{what} rate [1/s]"] = f"{recent / 5.0:.1f}"
        for what, durations in list(self._durations.items()):
            ordered = sorted(durations)
            values[f"{what} time median [ms]"] = f"{1e3 * ordered[len(ordered) // 2]:.1f}"
            values[f"{what} time 95 % [ms]"] = f"{1e3 * ordered[int(0.95 * (len(ordered) - 1))]:.1f}"
        return DiagnosticStatus(
            level=self._level,
            name=self._node.get_fully_qualified_name(),
            message=self._message,
            hardware_id="cue",
            values=[KeyValue(key=k, value=v) for k, v in values.items()],
        )

    def _publish(self) -> None:
        array = DiagnosticArray(status=[self.status()])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)
