"""One line of the shot log: a shot record as plain data and back, every field checked.

``docs/shot-log.md`` documents the fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from cue_core.balls import BallState, Motion, Visibility
from cue_core.errors import CueError, FileFormatError
from cue_core.shots import BallTrack, Contact, ContactKind, Shot, ShotRecord, Stroke

FORMAT = "cue-shot-log"
VERSION = 1

_HIGHEST_ID = 15
_STROKE = {
    "tip_speed": (0.0, 15.0),
    "azimuth": (-4 * math.pi, 4 * math.pi),
    "tip_speed_stddev": (0.0, math.inf),
    "azimuth_stddev": (0.0, math.inf),
    "elevation_stddev": (0.0, math.inf),
    "offset_stddev": (0.0, math.inf),
}
"""What joint states may say of a stroke; the rest is checked by who uses it."""
_ROUNDING = 1e-6
_HUGE = 10**300  # whole numbers beyond have no float
_COLUMNS = ("t", "x", "y", "xx", "xy", "yy")
_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


def _triangle(matrix: np.ndarray) -> list[float]:
    return [float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])]


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


def _contact_to_dict(contact: Contact) -> dict[str, Any]:
    return {
        "t": contact.time,
        "t_stddev": contact.time_stddev,
        "kind": contact.kind.name,
        "id": contact.ball_id,
        "other": contact.other_id,
        "position": contact.position.tolist(),
    }


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


class _ProblemError(Exception):
    """What is wrong with one field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)


class _Row:
    """A JSON object that is read field by field; whatever is wrong is told with the field's full name."""

    def __init__(self, data: Any, name: str, needed: Iterable[str], optional: Iterable[str] = ()) -> None:
        needed = tuple(needed)
        known = {*needed, *optional}
        if not isinstance(data, Mapping):
            raise _ProblemError(name, f"needs an object with {', '.join(sorted(known))}, got {_told(data)}")
        if missing := [key for key in needed if key not in data]:
            raise _ProblemError(name, f"lacks {', '.join(missing)}")
        if unknown := sorted(set(data) - known):
            raise _ProblemError(name, f"has unknown key {', '.join(unknown)}; allowed are {', '.join(sorted(known))}")
        self._data, self._name = data, name

    def field(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def number(self, key: str, low: float = -math.inf, high: float = math.inf) -> float:
        value = self._data[key]
        if not _is_number(value):
            raise _ProblemError(self.field(key), f"needs a number, got {_told(value)}")
        if not low <= value <= high and not (math.isnan(value) and low == -high == -math.inf):
            raise _ProblemError(self.field(key), f"is {value!r}, allowed is {_range(low, high)}")
        return float(value)

    def whole(self, key: str, low: int, high: int | None = None) -> int:
        value = self._data[key]
        if isinstance(value, bool) or not isinstance(value, int):
            raise _ProblemError(self.field(key), f"needs a whole number, got {_told(value)}")
        if value < low or (high is not None and value > high):
            raise _ProblemError(
                self.field(key), f"is {value}, allowed is {_range(low, math.inf if high is None else high)}"
            )
        return value

    def text(self, key: str) -> str:
        value = self._data[key]
        if not isinstance(value, str):
            raise _ProblemError(self.field(key), f"needs a text, got {_told(value)}")
        return value

    def truth(self, key: str) -> bool:
        value = self._data[key]
        if not isinstance(value, bool):
            raise _ProblemError(self.field(key), f"needs true or false, got {_told(value)}")
        return value

    def name_of(self, key: str, kind: type[_E]) -> _E:
        value = self._data[key]
        if not isinstance(value, str) or value not in kind.__members__:
            raise _ProblemError(self.field(key), f"is {_told(value)}, allowed are {', '.join(kind.__members__)}")
        return kind[value]

    def numbers(self, key: str, count: int | None = None) -> np.ndarray:
        """Return (n,) numbers; ``count`` of them where it is given."""
        value = self._data[key]
        if not isinstance(value, list):
            raise _ProblemError(self.field(key), f"needs a list of numbers, got {_told(value)}")
        for place, number in enumerate(value):
            if not _is_number(number):
                raise _ProblemError(f"{self.field(key)}[{place}]", f"needs a number, got {_told(number)}")
        if count is not None and len(value) != count:
            raise _ProblemError(self.field(key), f"has {len(value)} numbers, needs {count}")
        return np.array(value, float)

    def covariance(self, key: str) -> np.ndarray:
        xx, xy, yy = self.numbers(key, 3)
        if xx < 0 or yy < 0 or xy * xy > xx * yy * (1 + _ROUNDING):
            problem = "needs variances xx and yy of 0 or more, and xy^2 of at most xx times yy"
            raise _ProblemError(self.field(key), f"is [{xx:g}, {xy:g}, {yy:g}], {problem}")
        return np.array([[xx, xy], [xy, yy]])

    def rows(self, key: str, read: Callable[[Any, str], _T]) -> tuple[_T, ...]:
        value = self._data[key]
        if not isinstance(value, list):
            raise _ProblemError(self.field(key), f"needs a list, got {_told(value)}")
        return tuple(read(entry, f"{self.field(key)}[{place}]") for place, entry in enumerate(value))

    def texts(self, key: str) -> tuple[str, ...]:
        def text(value: Any, name: str) -> str:
            if not isinstance(value, str):
                raise _ProblemError(name, f"needs a text, got {_told(value)}")
            return value

        return self.rows(key, text)

    def get(self, key: str) -> Any:
        return self._data.get(key)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, float) or (isinstance(value, int) and abs(value) < _HUGE))


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _range(low: float, high: float) -> str:
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"


_BALL = (
    *("id", "position", "covariance", "velocity", "velocity_covariance"),
    *("motion", "visibility", "colour", "identity_confidence"),
)


def _ball(data: Any, name: str) -> BallState:
    row = _Row(data, name, _BALL)
    return BallState(
        ball_id=row.whole("id", 0, _HIGHEST_ID),
        position=row.numbers("position", 2),
        covariance=row.covariance("covariance"),
        velocity=row.numbers("velocity", 2),
        velocity_covariance=row.covariance("velocity_covariance"),
        motion=row.name_of("motion", Motion),
        visibility=row.name_of("visibility", Visibility),
        colour=row.text("colour"),
        identity_confidence=row.number("identity_confidence", 0.0, 1.0),
    )


def _track(data: Any, name: str) -> BallTrack:
    row = _Row(data, name, ("id", *_COLUMNS, "pocketed"))
    columns = {key: row.numbers(key) for key in _COLUMNS}
    for key, column in columns.items():
        if len(column) != len(columns["t"]):
            raise _ProblemError(
                row.field(key), f"has {len(column)} numbers, t has {len(columns['t'])}: columns need one length"
            )
    time, x, y, xx, xy, yy = columns.values()
    if len(back := np.flatnonzero(np.diff(time) <= 0)):
        place = int(back[0])
        raise _ProblemError(
            f"{row.field('t')}[{place + 1}]", f"is {time[place + 1]:g} after {time[place]:g}: times must increase"
        )
    covariance = np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2)
    return BallTrack(row.whole("id", 0, _HIGHEST_ID), time, np.stack([x, y], -1), covariance, row.truth("pocketed"))


def _contact(data: Any, name: str) -> Contact:
    row = _Row(data, name, ("t", "t_stddev", "kind", "id", "other", "position"))
    return Contact(
        row.number("t"),
        row.number("t_stddev", 0.0),
        row.name_of("kind", ContactKind),
        row.whole("id", 0, _HIGHEST_ID),
        row.whole("other", -1, _HIGHEST_ID),
        row.numbers("position", 2),
    )


def _flat_from(kind: type[Shot] | type[Stroke], data: Any, name: str) -> Any:
    """Return a shot or stroke; what it may leave out keeps its default."""
    needed = [f.name for f in fields(kind) if f.default is MISSING]
    row = _Row(data, name, needed, [f.name for f in fields(kind)])
    ranges = _STROKE if kind is Stroke else {}
    values: dict[str, Any] = {
        key: row.text(key) if key == "shot_id" else row.number(key, *ranges.get(key, ())) for key in data
    }
    try:
        return kind(**values)
    except CueError as error:  # of the value's own checks
        raise _ProblemError(name, str(error)) from None


def _once(balls: Iterable[int], name: str) -> None:
    seen: set[int] = set()
    for place, ball in enumerate(balls):
        if ball in seen:
            raise _ProblemError(f"{name}[{place}].id", f"is {ball} once more; each ball may be there once")
        seen.add(ball)


_RECORD = (
    *("format", "version", "shot_id", "index", "commanded", "achieved", "strike_time", "strike_time_stddev"),
    *("before", "after", "tracks", "flags"),
)


def _record(data: Mapping[str, Any]) -> ShotRecord:
    row = _Row(data, "", _RECORD, ("contacts",))
    commanded, achieved = data["commanded"], data["achieved"]
    record = ShotRecord(
        shot_id=row.text("shot_id"),
        index=row.whole("index", 0),
        commanded=None if commanded is None else _flat_from(Shot, commanded, "commanded"),
        achieved=None if achieved is None else _flat_from(Stroke, achieved, "achieved"),
        strike_time=row.number("strike_time"),
        before=row.rows("before", _ball),
        after=row.rows("after", _ball),
        tracks=row.rows("tracks", _track),
        strike_time_stddev=row.number("strike_time_stddev", 0.0),
        flags=row.texts("flags"),
        contacts=row.rows("contacts", _contact) if "contacts" in data else (),
    )
    for name, balls in (("before", record.before), ("after", record.after), ("tracks", record.tracks)):
        _once([ball.ball_id for ball in balls], name)
    return record


def record_from_dict(data: Mapping[str, Any], where: object = "shot record") -> ShotRecord:
    """Read back what :func:`record_to_dict` wrote.

    Raises:
        FileFormatError: another format or version, a missing, unknown or malformed field; says which field and what
            is allowed.
    """
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        given = f"format {data.get('format')!r} version {data.get('version')!r}"
        hint = "; 'cue import' makes a shot log of such a recording" if "shotID" in data else ""
        raise FileFormatError(where, f"is no shot: has {given}, needs {FORMAT!r} version {VERSION}{hint}")
    try:
        return _record(data)
    except _ProblemError as problem:
        raise FileFormatError(where, str(problem)) from None
