"""Node ``recorder``: everything that the nodes say to each other, into the run folder's ``session.mcap``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from cue.recording import RecordingError, RecordingWriter, is_finished, next_recording, recordings, repair, schema_text
from cue.ros_topics_node import definition, message_class, published, qos_text, wanted
from cue.topics import TOPICS, Topic
from cue_core.errors import CueError
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.polling import Ears
from cue_core.settings import check_settings, setting
from cue_core.version import code_version

_FLUSH_S = 1.0
_CHECK_S = 10.0
RECORDS = ("topics", "images")


@dataclass(frozen=True)
class RecorderConfig:
    """Settings of the node."""

    run_dir: str = setting("", "run folder that session.mcap is written to")
    record: str = setting("topics", f"what is recorded: {' or '.join(RECORDS)} (these, too)")
    period: float = setting(0.1, "between two looks at what has come", "s", 0.005, 1.0)

    def __post_init__(self) -> None:
        """Check bounds.

        Raises:
            CueError: naming the field.
        """
        check_settings(self)
        if self.record not in RECORDS:
            raise CueError(f"record is {self.record!r}; allowed is one of {', '.join(RECORDS)}")
        if not self.run_dir:
            raise CueError("run_dir is empty; a recording needs a folder")


class RecorderNode(Node):
    """Listens to :data:`cue.topics.TOPICS` and writes what comes, undecoded."""

    def __init__(self) -> None:
        """Finish what an earlier life left unfinished, begin a file, listen."""
        super().__init__("recorder")
        config = declare(self, RecorderConfig)
        folder = Path(config.run_dir)
        for earlier in recordings(folder):
            self._finish(earlier)
        live = not self.get_parameter("use_sim_time").value
        about = {"cue_version": code_version(), "record": config.record, "live": str(live).lower()}
        self._writer = RecordingWriter(next_recording(folder), about)
        self._health = Health(self)
        self._ears = Ears(self)
        self._topics: dict[str, Topic] = {}
        for item in TOPICS:
            if item.drawn or (item.image and config.record != "images"):
                continue
            full = self.resolve_topic_name(item.name)
            self._topics[full] = item
            self._ears.listen(message_class(item.kind), full, wanted(item, live), raw=True)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._take_timer = self.create_timer(config.period, self._take, clock=steady)
        self._flush_timer = self.create_timer(_FLUSH_S, self._tell, clock=steady)
        self._check_timer = self.create_timer(_CHECK_S, self._check, clock=steady)
        self._mismatches: list[str] = []
        self._began = time.monotonic(), time.process_time()

    def _finish(self, path: Path) -> None:
        try:
            if not is_finished(path):
                self.get_logger().info(f"{path.name} was not finished; it holds {repair(path)} messages")
        except RecordingError as error:
            self.get_logger().warning(str(error))

    def _take(self) -> None:
        ends_shot = False
        for heard in self._ears.take():
            item = self._topics[heard.topic]
            if heard.topic not in self._writer:
                schema = schema_text(item.kind, definition)
                self._writer.add_topic(heard.topic, item.kind, schema, qos_text(published(item)))
            self._writer.add(heard.topic, heard.message, heard.received, heard.sent, heard.sequence)
            ends_shot |= item.name == "shot_records"
        if ends_shot:
            self._writer.flush(sync=True)  # a finished shot survives a power cut

    def _check(self) -> None:
        """Say once whom this node cannot hear."""
        found = self._ears.mismatches()
        for text in found:
            if text not in self._mismatches:
                self.get_logger().warning(f"not recorded: {text}")
        self._mismatches = found

    def _tell(self) -> None:
        self._writer.flush()
        dropped = self._ears.dropped()
        for key, value in (
            ("file", self._writer.path.name),
            ("messages", self._writer.written),
            ("size [MB]", f"{self._writer.size() / 1e6:.2f}"),
            ("dropped", sum(dropped.values())),
            ("not written", self._writer.lost),
            ("cpu so far [%]", f"{100 * self._cpu():.1f}"),
            *((f"dropped {topic}", count) for topic, count in dropped.items()),
        ):
            self._health.set(key, value)
        if self._writer.problem:
            self._health.error(f"recording stopped: {self._writer.problem}")
            self.get_logger().error(f"recording stopped: {self._writer.problem}", once=True)
        elif self._mismatches:
            self._health.warn(f"not recorded: {'; '.join(self._mismatches)}")
        elif dropped:
            self._health.warn(f"{sum(dropped.values())} messages were published and did not arrive")
        else:
            self._health.ok()

    def _cpu(self) -> float:
        """Return the share of a core that this process has used since it began to listen."""
        return (time.process_time() - self._began[1]) / max(time.monotonic() - self._began[0], 1e-3)

    def destroy_node(self) -> None:
        """Take what has still come and finish the file."""
        self._take()
        dropped = self._ears.dropped()
        if dropped:
            told = ", ".join(f"{count} on {topic}" for topic, count in dropped.items())
            self.get_logger().info(f"messages that were published and did not arrive: {told}")
        self._writer.close(
            received=sum(self._ears.received.values()),
            dropped=sum(dropped.values()),
            not_written=self._writer.lost,
            cpu=f"{self._cpu():.4f}",
            **{f"dropped {topic}": count for topic, count in dropped.items()},
        )
        super().destroy_node()


def main() -> int:
    """Run the node and return its exit code."""
    return run_node(RecorderNode, threads=1)
