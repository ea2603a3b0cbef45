"""Checks of plain data read from files and messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cue_core.errors import FileFormatError, OutOfRangeError


def finite_in(name: str, value: Any, low: float, high: float, unit: str = "") -> float:
    """Return ``value`` as a float within [low, high].

    Raises:
        OutOfRangeError: it is not a number, not finite, or outside.
    """
    if isinstance(value, bool):
        raise OutOfRangeError(name, value, low, high, unit)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise OutOfRangeError(name, value, low, high, unit) from None
    if not math.isfinite(number) or not low <= number <= high:
        raise OutOfRangeError(name, value, low, high, unit)
    return number


def only_keys(where: object, given: Any, allowed: Iterable[str], needed: Iterable[str] = ()) -> None:
    """Refuse a mapping that has keys beyond ``allowed``, so that a misspelt one is never ignored, or lacks one.

    Raises:
        FileFormatError: it is no mapping, or naming the unknown keys and the allowed ones, or the missing ones.
    """
    if not isinstance(given, Mapping):
        raise FileFormatError(where, f"is a {type(given).__name__}, needs a mapping")
    allowed = sorted(allowed)
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise FileFormatError(where, f"unknown key {', '.join(unknown)}; allowed are {', '.join(allowed)}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise FileFormatError(where, f"lacks {', '.join(missing)}")


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        FileFormatError: it is missing, unreadable, not YAML, or not a mapping.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileFormatError(path, "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(path, f"cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise FileFormatError(path, f"not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise FileFormatError(path, f"holds a {type(data).__name__}, needs a mapping")
    return data
