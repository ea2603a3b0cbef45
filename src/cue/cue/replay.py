"""Playing recordings back: which messages, in which order, and when. Without ROS."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cue.recording import Recorded, RecordingError, need_recordings, read
from cue_core.checks import finite_in
from cue_core.errors import UnknownNameError

INPUTS = {
    "tracker": ("camera/image_raw", "camera/camera_info", "joint_states", "shot_execution", "clock"),
    "fitter": ("table_info", "shot_records", "clock"),
    "twin": ("table_info", "ball_states", "parameter_estimate", "shot_execution", "clock"),
}
"""What a node is told by others: a recording without what the node itself says."""
_WINDOW_S = 5.0


@dataclass(frozen=True)
class ReplayPlan:
    """What is played, and how.

    Attributes:
        run: run folder, or one recording.
        rate: of time; 2 = twice as fast.
        start: into the recording [s]. Of latched topics the newest messages before it are told, too.
        longest_pause: pauses between two messages are cut to it [s of the recording]; infinite = as they were.
        only: topics as they are called below the namespace; empty = all.
    """

    run: Path
    rate: float = 1.0
    start: float = 0.0
    longest_pause: float = float("inf")
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            OutOfRangeError: naming the one that is wrong.
        """
        finite_in("rate", self.rate, 0.01, 1000.0)
        finite_in("start", self.start, 0.0, 1e7, "s")
        if not self.longest_pause > 0:
            finite_in("longest pause", self.longest_pause, 1e-6, 1e7, "s")


@dataclass(frozen=True)
class Due:
    """One message and when it is due.

    Attributes:
        after: since the beginning of the replay [s of wall time].
        message: recorded.
    """

    after: float
    message: Recorded


def inputs_of(node: str) -> tuple[str, ...]:
    """Return the topics that one node listens to.

    Raises:
        UnknownNameError: lists the nodes that are known.
    """
    if node not in INPUTS:
        raise UnknownNameError("node", node, sorted(INPUTS))
    return INPUTS[node]


def chosen(topic: str, only: Sequence[str]) -> bool:
    """Return whether a recorded topic, with whatever namespace, is among the chosen ones."""
    return not only or any(topic == f"/{name}" or topic.endswith(f"/{name}") for name in (n.strip("/") for n in only))


def in_order(messages: Iterable[Recorded], window: float = _WINDOW_S) -> Iterator[Recorded]:
    """Yield messages in the order in which they were published; in a recording they stand as they arrived.

    Args:
        messages: as recorded.
        window: by how much a message may have arrived late [s].
    """
    waiting: list[tuple[int, int, Recorded]] = []
    for number, message in enumerate(messages):
        heapq.heappush(waiting, (message.sent, number, message))
        while waiting and waiting[0][0] <= message.received - window * 1e9:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def schedule(plan: ReplayPlan) -> Iterator[Due]:
    """Yield the messages of one pass through all recordings of a run, when each is due.

    Raises:
        FileFormatError: the run holds no recording.
        RecordingError: a file is none, or there is nothing to play.
    """
    first: int | None = None
    last = 0
    after = 0.0
    started = False
    held: dict[str, list[Recorded]] = {}
    for path in need_recordings(plan.run):
        begin: int | None = None
        for message in in_order(item for item in read(path) if chosen(item.topic, plan.only)):
            begin = message.received if begin is None else begin
            at = max(message.sent, begin)  # what was latched before the recording began is due at its beginning
            if first is None:
                first = last = at
            if (at - first) / 1e9 < plan.start:
                last = at
                _hold(held, message)
                continue
            for kept in sorted((m for topic in held.values() for m in topic), key=lambda m: m.sent):
                yield Due(0.0, kept)
            held, started = {}, True
            after += min(max(at - last, 0) / 1e9, plan.longest_pause) / plan.rate
            last = at
            yield Due(after, message)
    if first is None:
        what = f" on {', '.join(plan.only)}" if plan.only else ""
        raise RecordingError(f"{plan.run}: the recording holds no message{what}")
    if not started:
        raise RecordingError(f"{plan.run}: the recording ends before {plan.start:g} s")


def _hold(held: dict[str, list[Recorded]], message: Recorded) -> None:
    """Keep what a late subscriber would be given: of latched topics, as many messages as their depth."""
    if "transient_local" not in message.qos:
        return
    depth = next((int(line.split(":")[1]) for line in message.qos.splitlines() if line.strip().startswith("depth:")), 1)
    kept = held.setdefault(message.topic, [])
    kept.append(message)
    del kept[: -max(depth, 1)]
