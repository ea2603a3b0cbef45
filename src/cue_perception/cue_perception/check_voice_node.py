"""The self-check's findings on ``/diagnostics`` and, once, in the log."""

from __future__ import annotations

from collections import deque

from rclpy.node import Node

from cue_core.ros.diagnostics import Health
from cue_perception.health import CAMERA_MOVED, SelfCheck
from cue_perception.pipeline import Outcome

_PERIOD = 10  # images between two looks at what the self-check says
_SLOW = "slow"


class CheckVoice:
    """Speaks for the self-check of one tracker."""

    def __init__(self, node: Node, health: Health, check: SelfCheck, lockstep: bool) -> None:
        """Speak in the name of ``node``; ``lockstep``: the world waits, so that no image is too slow or old."""
        self._node, self._health, self._check, self._lockstep = node, health, check, lockstep
        self._flags: frozenset[str] = frozenset()
        self._took: deque[float] = deque(maxlen=64)

    def tell(self, outcome: Outcome, seconds: float, arm_known: bool) -> None:
        """Take note of an image that took ``seconds``, and say what is new."""
        self._took.append(seconds)
        if outcome.frame % _PERIOD and outcome.calibrated == (CAMERA_MOVED not in self._flags):
            return
        for key, value in self._check.values().items():
            self._health.set(key, value)
        self._health.set("arm masked", arm_known)
        if not self._lockstep:
            age = 1e-9 * (self._node.get_clock().now().nanoseconds - outcome.stamp)
            self._health.set("from an image's stamp to its ball states [ms]", f"{1e3 * age:.0f}")
        issues = self._check.issues
        texts = {issue.flag: issue.text for issue in issues}
        slow = self._too_slow()
        if slow:
            texts[_SLOW] = slow
        if texts:
            grave = any(issue.grave for issue in issues)
            (self._health.error if grave else self._health.warn)("; ".join(texts.values()))
        elif self._flags:
            self._health.ok()
        for flag, text in texts.items():
            if flag not in self._flags and flag != CAMERA_MOVED:  # that one the tracker says as its problem
                self._node.get_logger().warning(text)
        for flag in sorted(self._flags - set(texts)):
            self._node.get_logger().info(f"no longer {flag}")
        self._flags = frozenset(texts)

    def _too_slow(self) -> str:
        """Return a complaint if images come faster than they are processed."""
        period = self._check.frames.period
        if self._lockstep or not period or len(self._took) < 32:
            return ""
        slowest = sorted(self._took)[int(0.95 * len(self._took))]
        if slowest < period:
            return ""
        return f"too slow: 95 % of the images take up to {1e3 * slowest:.0f} ms, they come every {1e3 * period:.0f} ms"
