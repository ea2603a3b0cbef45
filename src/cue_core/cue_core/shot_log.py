"""The shot log: JSON Lines, one shot record per line, append-only (``docs/shot-log.md`` documents the format)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from cue_core.errors import FileFormatError
from cue_core.shot_format import FORMAT, VERSION, record_from_dict, record_to_dict
from cue_core.shots import ShotRecord

__all__ = [
    "FORMAT",
    "VERSION",
    "LogContents",
    "ShotLog",
    "append_line",
    "data_hash",
    "read_lines",
    "record_from_dict",
    "record_to_dict",
]


def append_line(path: Path | str, data: Mapping[str, Any]) -> None:
    """Append one JSON line so that it survives kill -9 and power loss.

    A torn last line, left by a crash, was never a whole record: it is cut off first.

    Raises:
        FileFormatError: the file cannot be written.
    """
    text = json.dumps(data, allow_nan=True, separators=(",", ":")) + "\n"
    try:
        with open(path, "ab+") as file:
            _cut_torn_line(file)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileFormatError(path, f"cannot be written: {error.strerror}") from None


def _cut_torn_line(file: BinaryIO) -> None:
    end = file.tell()
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)


def read_lines(path: Path | str) -> list[dict[str, Any]]:
    """Return the JSON objects of a file; a torn last line is left out, a missing file is empty.

    Raises:
        FileFormatError: a line before the last newline is no JSON object, or the file cannot be read.
    """
    lines, _torn = _split(path)
    return [_parse(line, path, number) for number, line in enumerate(lines, start=1)]


def _split(path: Path | str) -> tuple[list[bytes], bytes]:
    """Return the whole lines of a file, and what a crash left of one more; a missing file is empty."""
    try:
        *lines, torn = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], b""
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    return lines, torn


def _parse(line: bytes, path: Path | str, number: int) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or brackets without end
        raise FileFormatError(path, f"line {number} is not JSON") from None
    if not isinstance(data, dict):
        raise FileFormatError(path, f"line {number} is a {type(data).__name__}, needs an object")
    return data


@dataclass(frozen=True)
class LogContents:
    """What a shot log holds.

    Attributes:
        records: of all sound lines, in the order written.
        problems: one for each line that is none, naming line, field and what is allowed.
        torn: the last line has no end: a crash cut it off.
    """

    records: tuple[ShotRecord, ...]
    problems: tuple[FileFormatError, ...]
    torn: bool


class ShotLog:
    """An append-only file of shot records."""

    def __init__(self, path: Path | str) -> None:
        """Name the file; it is made by the first append."""
        self.path = Path(path)

    def append(self, record: ShotRecord) -> None:
        """Write one record, durably.

        Raises:
            FileFormatError: the file cannot be written.
        """
        append_line(self.path, record_to_dict(record))

    def read(self) -> list[ShotRecord]:
        """Return all whole records in the order written; a torn last line is left out, a missing file is empty.

        Raises:
            FileFormatError: naming file, line, field and what is allowed, of the first line that is no record.
        """
        contents = self.scan()
        if contents.problems:
            raise contents.problems[0]
        return list(contents.records)

    def scan(self) -> LogContents:
        """Read on past lines that are no records.

        Raises:
            FileFormatError: the file cannot be read.
        """
        lines, torn = _split(self.path)
        records, problems = [], []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(record_from_dict(_parse(line, self.path, number), f"{self.path} line {number}"))
            except FileFormatError as error:
                problems.append(error)
        return LogContents(tuple(records), tuple(problems), bool(torn))


def data_hash(records: Iterable[ShotRecord]) -> str:
    """Return the first 16 hex digits of the SHA-256 over the records, in any order.

    Contacts do not count: they follow from the tracks, and messages do not carry them.
    """
    lines = sorted(json.dumps(record_to_dict(replace(r, contacts=())), sort_keys=True) for r in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
