"""Taking what has come on many topics at set times, instead of waking up for each message.

An executor rebuilds its wait set at every message, which for a node that only keeps or shows messages costs far more
than the messages. Here nobody waits for them: the middleware queues them, and :meth:`Ears.take` empties the queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible


class _NeverWaitedFor(CallbackGroup):
    """Entities of this group exist, but no executor looks at them."""

    def can_execute(self, entity: Any) -> bool:
        """Return False."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Return False."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Heard:
    """One message that was taken.

    Attributes:
        topic: as it was given to :meth:`Ears.listen`.
        message: decoded, or its CDR bytes where raw was asked for.
        received: when it arrived here [ns of wall time].
        sent: when it was published [ns of wall time].
        sequence: number that its publisher gave it; 0 where the middleware tells none.
    """

    topic: str
    message: Any
    received: int
    sent: int
    sequence: int


class Ears:
    """Subscriptions whose messages are fetched by :meth:`take`, with a count of those that never came."""

    def __init__(self, node: Node) -> None:
        """Listen as ``node``."""
        self._node = node
        self._group = _NeverWaitedFor()
        self._subscriptions: dict[str, tuple[Any, bool]] = {}
        self._numbers: dict[tuple[str, Hashable], tuple[int, int, int]] = {}  # first, last, how many came
        self.received: dict[str, int] = defaultdict(int)
        """Messages taken so far, by topic."""

    def listen(self, kind: type, topic: str, profile: QoSProfile, *, raw: bool = False) -> None:
        """Subscribe; ``profile.depth`` bounds what can wait between two calls of :meth:`take`."""
        subscription = self._node.create_subscription(
            kind, topic, lambda _message: None, profile, callback_group=self._group, raw=raw
        )
        self._subscriptions[topic] = subscription, raw

    def dropped(self) -> dict[str, int]:
        """Return by topic how many messages were published since the first that came, and have not arrived.

        What was lost on the way and is sent again counts until it arrives.
        """
        found: dict[str, int] = defaultdict(int)
        for (topic, _), (first, last, count) in self._numbers.items():
            if last - first + 1 > count:
                found[topic] += last - first + 1 - count
        return dict(found)

    def mismatches(self) -> list[str]:
        """Return the publishers that cannot be heard, since they offer less than is asked for: topic, node, reason.

        An executor would warn of them; nobody waits for the events of these subscriptions.
        """
        found = []
        for topic, (subscription, _) in self._subscriptions.items():
            for info in self._node.get_publishers_info_by_topic(topic):
                verdict, reason = qos_check_compatible(info.qos_profile, subscription.qos_profile)
                if verdict == QoSCompatibility.ERROR:
                    found.append(f"{topic} of {info.node_name}: {reason.strip()}")
        return found

    def take(self) -> list[Heard]:
        """Return what has come since the last call, in the order of arrival."""
        found: list[Heard] = []
        for topic, (subscription, raw) in self._subscriptions.items():
            with subscription.handle:
                for _ in range(subscription.qos_profile.depth):  # a flood on one topic must not shut out the others
                    taken = subscription.handle.take_message(subscription.msg_type, raw)
                    if taken is None:
                        break
                    found.append(self._heard(topic, *taken))
        found.sort(key=lambda heard: heard.received)
        return found

    def _heard(self, topic: str, message: Any, info: dict[str, Any]) -> Heard:
        number = int(info.get("publication_sequence_number") or 0)
        self.received[topic] += 1
        if number:
            gid = info.get("publisher_gid")
            publisher = topic, str(gid)
            first, last, count = self._numbers.get(publisher, (number, number, 0))
            self._numbers[publisher] = min(first, number), max(last, number), count + 1
        return Heard(topic, message, int(info["received_timestamp"]), int(info["source_timestamp"]), number)
