"""The shot log: JSON Lines, one shot record per line, append-only (``docs/shot-log.md`` documents the format)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cue_core.balls import BallState, Motion, Visibility
from cue_core.errors import FileFormatError
from cue_core.shots import BallTrack, Contact, ContactKind, Shot, ShotRecord, Stroke

FORMAT = "cue-shot-log"
VERSION = 1


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
    try:
        *lines, _torn = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            data = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise FileFormatError(path, f"line {number} is not JSON") from None
        if not isinstance(data, dict):
            raise FileFormatError(path, f"line {number} is a {type(data).__name__}, needs an object")
        found.append(data)
    return found


def _triangle(matrix: np.ndarray) -> list[float]:
    return [float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])]


def _matrix(triangle: Iterable[float]) -> np.ndarray:
    xx, xy, yy = triangle
    return np.array([[xx, xy], [xy, yy]])


def _ball_to_dict(ball: BallState) -> dict[str, Any]:
    return {
        "id": ball.ball_id,
        "position": ball.position.tolist(),
        "covariance": _triangle(ball.covariance),
        "velocity": ball.velocity.tolist(),
        "velocity_covariance": _triangle(ball.velocity_covariance),
        "motion": ball.motion.name,
        "visibility": ball.visibility.name,
        "colour": ball.colour,
        "identity_confidence": ball.identity_confidence,
    }


def _ball_from_dict(data: Mapping[str, Any]) -> BallState:
    return BallState(
        ball_id=int(data["id"]),
        position=np.array(data["position"], float),
        covariance=_matrix(data["covariance"]),
        velocity=np.array(data["velocity"], float),
        velocity_covariance=_matrix(data["velocity_covariance"]),
        motion=Motion[data["motion"]],
        visibility=Visibility[data["visibility"]],
        colour=data["colour"],
        identity_confidence=float(data["identity_confidence"]),
    )


def _track_to_dict(track: BallTrack) -> dict[str, Any]:
    return {
        "id": track.ball_id,
        "t": track.time.tolist(),
        "x": track.position[:, 0].tolist(),
        "y": track.position[:, 1].tolist(),
        "xx": track.covariance[:, 0, 0].tolist(),
        "xy": track.covariance[:, 0, 1].tolist(),
        "yy": track.covariance[:, 1, 1].tolist(),
        "pocketed": track.pocketed,
    }


def _track_from_dict(data: Mapping[str, Any]) -> BallTrack:
    columns = [np.array(data[key], float) for key in ("t", "x", "y", "xx", "xy", "yy")]
    if len({len(c) for c in columns}) != 1:
        raise ValueError(f"ball {data['id']}: columns of unequal length")
    time, x, y, xx, xy, yy = columns
    covariance = np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2)
    return BallTrack(int(data["id"]), time, np.stack([x, y], -1), covariance, bool(data["pocketed"]))


def _contact_to_dict(contact: Contact) -> dict[str, Any]:
    return {
        "t": contact.time,
        "t_stddev": contact.time_stddev,
        "kind": contact.kind.name,
        "id": contact.ball_id,
        "other": contact.other_id,
        "position": contact.position.tolist(),
    }


def _contact_from_dict(data: Mapping[str, Any]) -> Contact:
    return Contact(
        float(data["t"]),
        float(data["t_stddev"]),
        ContactKind[data["kind"]],
        int(data["id"]),
        int(data["other"]),
        np.array(data["position"], float),
    )


def _flat(value: Shot | Stroke | None) -> dict[str, Any] | None:
    return None if value is None else {f.name: getattr(value, f.name) for f in fields(value)}


def record_to_dict(record: ShotRecord) -> dict[str, Any]:
    """Return a record as plain data, one line of the log."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "shot_id": record.shot_id,
        "index": record.index,
        "commanded": _flat(record.commanded),
        "achieved": _flat(record.achieved),
        "strike_time": record.strike_time,
        "strike_time_stddev": record.strike_time_stddev,
        "before": [_ball_to_dict(b) for b in record.before],
        "after": [_ball_to_dict(b) for b in record.after],
        "tracks": [_track_to_dict(t) for t in record.tracks],
        "flags": list(record.flags),
    }
    if record.contacts:
        data["contacts"] = [_contact_to_dict(c) for c in record.contacts]
    return data


def record_from_dict(data: Mapping[str, Any], where: object = "shot record") -> ShotRecord:
    """Read back what :func:`record_to_dict` wrote.

    Raises:
        FileFormatError: another format or version, a missing or malformed field.
    """
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FileFormatError(
            where,
            f"is format {data.get('format')!r} version {data.get('version')!r}, needs {FORMAT!r} version {VERSION}",
        )
    try:
        return ShotRecord(
            shot_id=str(data["shot_id"]),
            index=int(data["index"]),
            commanded=None if data["commanded"] is None else Shot(**data["commanded"]),
            achieved=None if data["achieved"] is None else Stroke(**data["achieved"]),
            strike_time=float(data["strike_time"]),
            before=tuple(_ball_from_dict(b) for b in data["before"]),
            after=tuple(_ball_from_dict(b) for b in data["after"]),
            tracks=tuple(_track_from_dict(t) for t in data["tracks"]),
            strike_time_stddev=float(data["strike_time_stddev"]),
            flags=tuple(data["flags"]),
            contacts=tuple(_contact_from_dict(c) for c in data.get("contacts", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(where, f"malformed record: {type(error).__name__} {error}") from None


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
        """Return all whole records in the order written.

        Raises:
            FileFormatError: naming file, record and problem.
        """
        return [record_from_dict(d, f"{self.path} record {i}") for i, d in enumerate(read_lines(self.path))]


def data_hash(records: Iterable[ShotRecord]) -> str:
    """Return the first 16 hex digits of the SHA-256 over the records, in any order.

    Contacts do not count: they follow from the tracks, and messages do not carry them.
    """
    lines = sorted(json.dumps(record_to_dict(replace(r, contacts=())), sort_keys=True) for r in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
