"""Launch arguments: declared once, given as text, checked before anything starts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cue_core.errors import CueError

Value = str | int | float | bool
_NAMESPACE = re.compile(r"/?([A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*)?")


class ArgumentError(CueError):
    """A launch argument is unknown or has a value that is not allowed."""


@dataclass(frozen=True)
class Argument:
    """A launch argument.

    Attributes:
        name: as in ``name:=value``.
        default: its text when not given.
        description: for ``--show-args``.
        kind: ``text``, ``integer``, ``number``, ``flag`` (true or false) or ``namespace``.
        choices: the only values allowed; empty = any.
        minimum: of a number.
        maximum: of a number.
    """

    name: str
    default: str
    description: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    minimum: float = float("-inf")
    maximum: float = float("inf")

    @property
    def allowed(self) -> str:
        """Return what may be given, for a person."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in ("integer", "number"):
            article = "an integer" if self.kind == "integer" else "a number"
            bounded = self.minimum > float("-inf") and self.maximum < float("inf")
            return f"{article} from {self.minimum} to {self.maximum}" if bounded else article
        return {"flag": "true or false", "namespace": "words joined by /, e.g. table_a"}.get(self.kind, "text")

    def parse(self, text: str) -> Value:
        """Return the value that a text stands for.

        Raises:
            ArgumentError: naming the argument and what is allowed.
        """
        if self.choices and text not in self.choices:
            raise self._refusal(text)
        if self.kind == "flag":
            if text.lower() not in ("true", "false"):
                raise self._refusal(text)
            return text.lower() == "true"
        if self.kind == "namespace":
            if not _NAMESPACE.fullmatch(text):
                raise self._refusal(text)
            return text.strip("/")
        if self.kind in ("integer", "number"):
            try:
                number: int | float = int(text) if self.kind == "integer" else float(text)
            except ValueError:
                raise self._refusal(text) from None
            if not self.minimum <= number <= self.maximum:
                raise self._refusal(text)
            return number
        return text

    def _refusal(self, text: str) -> ArgumentError:
        return ArgumentError(f"argument {self.name}:={text} is not allowed; allowed is {self.allowed}")


def parse_all(arguments: Iterable[Argument], given: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of every argument, given or default.

    Raises:
        ArgumentError: a given name is unknown, or a value not allowed.
    """
    known = {argument.name: argument for argument in arguments}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ArgumentError(f"unknown argument {name}{meant}; known are {', '.join(known)}")
    return {name: argument.parse(given.get(name, argument.default)) for name, argument in known.items()}


def split_assignments(words: Iterable[str]) -> dict[str, str]:
    """Read ``name:=value`` words; of two for one name the later counts, as in ``ros2 launch``.

    Raises:
        ArgumentError: a word is not of that form.
    """
    result = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name:
            raise ArgumentError(f"{word!r} is not an argument; arguments are written name:=value")
        result[name] = value
    return result


def table_of(arguments: Iterable[Argument], write: Callable[[str], object]) -> None:
    """Write one paragraph per argument, as ``--show-args`` of ``ros2 launch`` does."""
    for argument in arguments:
        write(f"    '{argument.name}':")
        write(f"        {argument.description} ({argument.allowed})")
        write(f"        (default: {argument.default!r})")
        write("")
