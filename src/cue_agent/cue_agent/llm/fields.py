"""Types of tool arguments: each says its JSON Schema and checks a value strictly, by the same bounds.

Nothing is converted: "0.5" is no number, true is no number, 1.0 is no whole number, and an unknown field is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cue_core.errors import CueError

_SHOWN = 80


class ArgumentError(CueError):
    """An argument of a tool is not what it should be; says which, what was given and what is allowed."""

    def __init__(self, where: str, given: Any, allowed: str) -> None:
        """Name the argument."""
        shown = repr(given)
        super().__init__(
            f"{where} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, allowed is {allowed}"
        )
        self.where = where


class Field(Protocol):
    """One type of argument."""

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""

    def check(self, where: str, value: Any) -> Any:
        """Return the value if it is allowed.

        Raises:
            ArgumentError: it is not.
        """


@dataclass(frozen=True)
class Number:
    """A finite number from ``low`` to ``high`` in ``unit``."""

    description: str
    low: float
    high: float
    unit: str = ""

    @property
    def allowed(self) -> str:
        """Return what is allowed, for people."""
        return f"a number from {self.low:g} to {self.high:g}{' ' + self.unit if self.unit else ''}"

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        unit = f" [{self.unit}]" if self.unit else ""
        return {"type": "number", "description": self.description + unit, "minimum": self.low, "maximum": self.high}

    def check(self, where: str, value: Any) -> float:
        """See :class:`Field`."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ArgumentError(where, value, self.allowed)
        try:
            number = float(value)
        except OverflowError:
            raise ArgumentError(where, value, self.allowed) from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise ArgumentError(where, value, self.allowed)
        return number


@dataclass(frozen=True)
class Whole:
    """A whole number from ``low`` to ``high``."""

    description: str
    low: int
    high: int

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        return {"type": "integer", "description": self.description, "minimum": self.low, "maximum": self.high}

    def check(self, where: str, value: Any) -> int:
        """See :class:`Field`."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise ArgumentError(where, value, f"a whole number from {self.low} to {self.high}")
        return value


@dataclass(frozen=True)
class Text:
    """A text of ``least`` to ``most`` characters, of ``pattern`` as a whole where one is given."""

    description: str
    most: int = 2000
    least: int = 0
    pattern: str = ""

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        found: dict[str, Any] = {"type": "string", "description": self.description, "maxLength": self.most}
        if self.least:
            found["minLength"] = self.least
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        return found

    def check(self, where: str, value: Any) -> str:
        """See :class:`Field`."""
        allowed = f"a text of {self.least} to {self.most} characters"
        if not isinstance(value, str) or not self.least <= len(value) <= self.most or "\0" in value:
            raise ArgumentError(where, value, allowed)
        if any(0xD800 <= ord(c) <= 0xDFFF for c in value):  # half a character cannot be written down
            raise ArgumentError(where, value, allowed)
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ArgumentError(where, value, f"{allowed} like {self.pattern}")
        return value


@dataclass(frozen=True)
class OneOf:
    """One of some words."""

    description: str
    words: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        return {"type": "string", "description": self.description, "enum": list(self.words)}

    def check(self, where: str, value: Any) -> str:
        """See :class:`Field`."""
        if not isinstance(value, str) or value not in self.words:
            raise ArgumentError(where, value, f"one of {', '.join(self.words)}")
        return value


@dataclass(frozen=True)
class Flag:
    """True or false."""

    description: str

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        return {"type": "boolean", "description": self.description}

    def check(self, where: str, value: Any) -> bool:
        """See :class:`Field`."""
        if not isinstance(value, bool):
            raise ArgumentError(where, value, "true or false")
        return value


@dataclass(frozen=True)
class Many:
    """A list of ``least`` to ``most`` items of one type."""

    description: str
    item: Field
    most: int
    least: int = 0

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        found = {"type": "array", "description": self.description, "items": self.item.schema(), "maxItems": self.most}
        return {**found, "minItems": self.least} if self.least else found

    def check(self, where: str, value: Any) -> list[Any]:
        """See :class:`Field`."""
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            raise ArgumentError(where, value, f"a list of {self.least} to {self.most}")
        return [self.item.check(f"{where}[{n}]", item) for n, item in enumerate(value)]


@dataclass(frozen=True)
class Record:
    """Named values; those not in ``optional`` must be there, and no others."""

    fields: Mapping[str, Field]
    optional: Sequence[str] = ()
    description: str = ""

    def schema(self) -> dict[str, Any]:
        """See :class:`Field`."""
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: field.schema() for name, field in self.fields.items()},
            "required": [name for name in self.fields if name not in self.optional],
            "additionalProperties": False,
        }
        return {**found, "description": self.description} if self.description else found

    def check(self, where: str, value: Any) -> dict[str, Any]:
        """See :class:`Field`."""
        prefix = f"{where}." if where else ""
        names = ", ".join(self.fields) or "nothing"
        if not isinstance(value, Mapping):
            raise ArgumentError(where or "the arguments", value, f"an object with {names}")
        for name in value:
            if name not in self.fields:
                raise ArgumentError(f"{prefix}{name}", value[name], f"none: there is no such field; known are {names}")
        for name in self.fields:
            if name not in value and name not in self.optional:
                raise ArgumentError(f"{prefix}{name}", None, "to be given: it is missing")
        return {name: self.fields[name].check(f"{prefix}{name}", item) for name, item in value.items()}
