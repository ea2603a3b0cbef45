"""Errors of CUE. Each message says what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable


class CueError(Exception):
    """Base of every error that CUE raises on purpose."""


class OutOfRangeError(CueError):
    """A number lies outside its allowed range or is not finite."""

    def __init__(self, name: str, value: object, low: float, high: float, unit: str = "") -> None:
        """Name the quantity, what was given, and the closed range allowed."""
        suffix = f" {unit}" if unit not in ("", "1") else ""
        # a NumPy number is told as a number
        shown = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
        super().__init__(f"{name} is {shown!r}, allowed is {low:g} to {high:g}{suffix}")


class UnknownNameError(CueError):
    """A name is not among the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        """Name the kind of thing, what was given, and list the valid names."""
        super().__init__(f"unknown {kind} {name!r}; known are {', '.join(sorted(known)) or 'none'}")


class FileFormatError(CueError):
    """A file cannot be read as what it should be."""

    def __init__(self, path: object, problem: str) -> None:
        """Name the file and what is wrong in it."""
        super().__init__(f"{path}: {problem}")
