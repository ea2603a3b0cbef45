"""Health of a node on /diagnostics: rates, latency, counters, last error, processor and memory."""

from __future__ import annotations

import resource
import time
from collections import deque
from pathlib import Path

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
        self._problems, self._last_problem = 0, ""
        self._cpu = time.monotonic(), time.process_time()
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
        self._trouble(DiagnosticStatus.WARN, message)

    def error(self, message: str) -> None:
        """Say that the node cannot do its work."""
        self._trouble(DiagnosticStatus.ERROR, message)

    def _trouble(self, level: bytes, message: str) -> None:
        """Keep a problem; it stays told as the last one after all is well again."""
        if (level, message) != (self._level, self._message):
            self._problems += 1
            self._last_problem = message
        self._level, self._message = level, message

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
        if self._problems:
            values["problems"] = str(self._problems)
            values["last problem"] = self._last_problem
        values.update(self._resources())
        return DiagnosticStatus(
            level=self._level,
            name=self._node.get_fully_qualified_name(),
            message=self._message,
            hardware_id="cue",
            values=[KeyValue(key=k, value=v) for k, v in values.items()],
        )

    def _resources(self) -> dict[str, str]:
        """Return what the process uses: share of a core since the last call, and memory."""
        began, spent = self._cpu
        self._cpu = now = time.monotonic(), time.process_time()
        share = (now[1] - spent) / max(now[0] - began, 1e-3)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {"cpu [%]": f"{100 * share:.0f}", "memory [MB]": f"{pages * resource.getpagesize() / 1e6:.0f}"}

    def _publish(self) -> None:
        array = DiagnosticArray(status=[self.status()])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)
