"""Recordings: ``session.mcap`` of a run folder, written so that a killed recorder loses a second at most.

The files are MCAP with ROS 2 schemas and CDR messages, as rosbag2 writes them: Foxglove, PlotJuggler and ``ros2 bag``
open them. Each life of the recorder writes a file of its own, ``session.mcap``, ``session_2.mcap``, ...; what was
recorded before a crash stays as it is. Times are those of arrival, in nanoseconds of wall time; simulated time is in
the recorded clock and in the messages' headers.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import CompressionType, Writer

from cue_core.errors import CueError, FileFormatError

ENCODING, SCHEMA_ENCODING, PROFILE = "cdr", "ros2msg", "ros2"
QOS_KEY = "offered_qos_profiles"
"""Of a channel's metadata: what its publisher offered, as rosbag2 writes it."""
_CHUNK = 1 << 20  # bytes
_NAME = re.compile(r"session(?:_(\d+))?\.mcap")
_SEPARATOR = "=" * 80
_FIELD = re.compile(r"^\s*(?P<kind>[A-Za-z][\w/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+\w+")
_CONSTANT = re.compile(r"^\s*\S+\s+\w+\s*=")
_BASIC = re.compile(r"^(bool|byte|char|w?string|u?int(8|16|32|64)|float(32|64))$")
_FULL = 28  # errno ENOSPC


class RecordingError(CueError):
    """A recording cannot be read or written."""


@dataclass(frozen=True)
class Recorded:
    """One message of a recording.

    Attributes:
        topic: full name.
        kind: package/msg/Type.
        data: CDR bytes.
        received: [ns of wall time].
        sent: [ns of wall time].
        qos: of its publisher, as in :data:`QOS_KEY`; empty = not told.
    """

    topic: str
    kind: str
    data: bytes
    received: int
    sent: int
    qos: str = ""


def recordings(run: Path | str) -> list[Path]:
    """Return the recordings of a run folder in the order in which they were made, or the one file that is named."""
    path = Path(run)
    if path.is_file():
        return [path]
    found = [(int(match[1] or 1), file) for file in path.glob("*.mcap") if (match := _NAME.fullmatch(file.name))]
    return [file for _, file in sorted(found)]


def next_recording(run: Path | str) -> Path:
    """Return the path of a run folder's next recording."""
    known = recordings(run)
    count = max((int(_NAME.fullmatch(file.name)[1] or 1) for file in known), default=0) + 1  # type: ignore[index]
    return Path(run) / ("session.mcap" if count == 1 else f"session_{count}.mcap")


def schema_text(kind: str, find: Callable[[str, str], Path]) -> str:
    """Return the definition of a message type with those of all types in it, as MCAP's ``ros2msg`` wants it.

    Args:
        kind: package/msg/Type.
        find: path of a package's .msg file by (package, type name).
    """
    package, _, name = kind.split("/")
    parts = [find(package, name).read_text(encoding="utf-8")]
    todo, known = _types_in(parts[0], package), {f"{package}/{name}"}
    while todo:
        wanted = todo.pop(0)
        if wanted in known:
            continue
        known.add(wanted)
        inner_package, inner_name = wanted.split("/")
        text = find(inner_package, inner_name).read_text(encoding="utf-8")
        parts.append(f"{_SEPARATOR}\nMSG: {wanted}\n{text}")
        todo += _types_in(text, inner_package)
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _types_in(text: str, package: str) -> list[str]:
    found = []
    for line in text.splitlines():
        line = line.partition("#")[0]
        match = _FIELD.match(line)
        if match and not _CONSTANT.match(line) and not _BASIC.match(match["kind"]):
            kind = match["kind"].replace("/msg/", "/")
            found.append(kind if "/" in kind else f"{package}/{kind}")
    return found


class RecordingWriter:
    """Writes one recording. A full disk stops the writing, not the process: ``lost`` counts what was not written."""

    def __init__(self, path: Path, about: dict[str, str] | None = None) -> None:
        """Begin a file.

        Args:
            path: must not exist.
            about: of the session, kept in the file.

        Raises:
            RecordingError: it exists or cannot be written.
        """
        self.path = path
        try:
            self._file: IO[bytes] = path.open("xb")
        except OSError as error:
            raise RecordingError(f"recording {path} cannot be written: {error.strerror}") from None
        self._writer = Writer(self._file, chunk_size=_CHUNK, compression=CompressionType.ZSTD)
        self._channels: dict[str, int] = {}
        self._dirty = False
        self.written = 0
        """Messages written."""
        self.lost = 0
        """Messages that could not be written."""
        self.problem = ""
        """Why nothing is written any more; empty = all is well."""
        self._writer.start(profile=PROFILE, library="cue")
        if about:
            self._writer.add_metadata("session", about)
        self._file.flush()

    def add_topic(self, topic: str, kind: str, schema: str, qos: str) -> None:
        """Register a topic before its first message."""
        schema_id = self._writer.register_schema(kind, SCHEMA_ENCODING, schema.encode())
        self._channels[topic] = self._writer.register_channel(topic, ENCODING, schema_id, {QOS_KEY: qos})

    def __contains__(self, topic: str) -> bool:
        """Return whether a topic is registered."""
        return topic in self._channels

    def add(self, topic: str, data: bytes, received: int, sent: int, sequence: int = 0) -> None:
        """Add a message; it is safe in the file after the next :meth:`flush`."""
        if self.problem:
            self.lost += 1
            return
        try:
            self._writer.add_message(self._channels[topic], received, data, sent, sequence & 0xFFFFFFFF)
        except OSError as error:
            self._fail(error)
            return
        self.written += 1
        self._dirty = True

    def flush(self, *, sync: bool = False) -> None:
        """Give the file all that was added; with ``sync`` the disk, too, so that a power cut leaves it."""
        if not self._dirty or self.problem:
            return
        self._dirty = False
        try:
            self._writer.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._fail(error)

    def close(self, **tally: object) -> None:
        """Finish the file: index, statistics, and ``tally`` as metadata, e.g. what was dropped."""
        if not self.problem:
            try:
                self._writer.flush()
                self._writer.add_metadata("tally", {name: str(value) for name, value in tally.items()})
                self._writer.finish()
            except OSError as error:
                self._fail(error)
        self._file.close()

    def size(self) -> int:
        """Return the file's size so far [bytes]."""
        return self._file.tell() if not self._file.closed else self.path.stat().st_size

    def _fail(self, error: OSError) -> None:
        self.problem = "the disk is full" if error.errno == _FULL else str(error.strerror or error)
        self.lost += 1


def _records(path: Path) -> Iterator[Any]:
    """Yield the records of a file up to where it breaks off; chunks one by one, as a whole.

    Raises:
        RecordingError: it is no MCAP file.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            reader = StreamReader(file, emit_chunks=True, record_size_limit=max(size, 1))
            yield from reader.records
    except (McapError, ValueError, EOFError, struct.error) as error:
        if path.stat().st_size < 8 or not _is_mcap(path):
            raise RecordingError(f"{path} is no recording: {error}") from None
    except OSError as error:
        raise RecordingError(f"recording {path} cannot be read: {error.strerror}") from None


def _is_mcap(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"\x89MCAP0\r\n"


def _parts(path: Path) -> Iterator[Any]:
    """Yield schemas, channels, messages and metadata up to where a file breaks off or is damaged."""
    for record in _records(path):
        if not isinstance(record, Chunk):
            yield record
            continue
        try:
            inner = breakup_chunk(record, validate_crc=True)
        except Exception:  # whatever the decompressor of a damaged chunk raises: the chunks after it are good
            continue
        yield from inner


def read(path: Path | str, topics: Sequence[str] = ()) -> Iterator[Recorded]:
    """Yield the messages of a recording in the order in which they were written, also of an unfinished one.

    Args:
        path: of the file.
        topics: only these, by full name; none = all.

    Raises:
        RecordingError: it is no recording.
    """
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    for record in _parts(Path(path)):
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, Channel):
            channels[record.id] = record
        elif isinstance(record, Message):
            channel = channels.get(record.channel_id)
            if channel is None:  # it stood in a damaged chunk
                continue
            if topics and channel.topic not in topics:
                continue
            yield Recorded(
                channel.topic,
                schemas[channel.schema_id].name,
                record.data,
                record.log_time,
                record.publish_time,
                channel.metadata.get(QOS_KEY, ""),
            )


def is_finished(path: Path | str) -> bool:
    """Return whether a recording was closed, so that it has its index."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        head = file.read(8)
        file.seek(max(0, size - 37))
        tail = file.read()
    # The footer is a record of 1 + 8 + 20 bytes before the closing magic.
    return head == tail[-8:] == b"\x89MCAP0\r\n" and len(tail) == 37 and tail[0] == Opcode.FOOTER


def repair(path: Path | str) -> int:
    """Finish an unfinished recording with all that can be read of it; return how many messages it holds.

    A finished one is left alone.

    Raises:
        RecordingError: it is no recording, or its folder cannot be written.
    """
    path = Path(path)
    if is_finished(path):
        return sum(1 for _ in read(path))
    draft = path.with_suffix(".repaired")
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    ids: dict[int, int] = {}
    count = 0
    try:
        with draft.open("wb") as file:
            writer = Writer(file, chunk_size=_CHUNK, compression=CompressionType.ZSTD)
            writer.start(profile=PROFILE, library="cue")
            for record in _parts(path):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and record.id not in ids:
                    channels[record.id] = record
                    schema = schemas[record.schema_id]
                    schema_id = writer.register_schema(schema.name, schema.encoding, schema.data)
                    ids[record.id] = writer.register_channel(
                        record.topic, record.message_encoding, schema_id, record.metadata
                    )
                elif isinstance(record, Metadata):
                    writer.add_metadata(record.name, record.metadata)
                elif isinstance(record, Message) and record.channel_id in ids:
                    writer.add_message(
                        ids[record.channel_id], record.log_time, record.data, record.publish_time, record.sequence
                    )
                    count += 1
            writer.add_metadata("tally", {"repaired": "true"})
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise RecordingError(f"recording {path} cannot be repaired: {error.strerror}") from None
    return count


def about(path: Path | str) -> dict[str, str]:
    """Return what the recorder said of the session at the beginning of a recording."""
    for record in _records(Path(path)):
        if isinstance(record, Metadata) and record.name == "session":
            return dict(record.metadata)
        if isinstance(record, Chunk):
            break
    return {}


def tally(path: Path | str) -> dict[str, str]:
    """Return what the recorder said at the end of a recording, e.g. what was dropped; empty = it was killed."""
    found: dict[str, str] = {}
    for record in _records(Path(path)):
        if isinstance(record, Metadata) and record.name == "tally":
            found = dict(record.metadata)
    return found


def need_recordings(run: Path | str) -> list[Path]:
    """Return the recordings of a run folder.

    Raises:
        FileFormatError: there are none.
    """
    found = recordings(run)
    if not found:
        raise FileFormatError(run, "holds no recording; a launch with record:=topics makes one")
    return found
