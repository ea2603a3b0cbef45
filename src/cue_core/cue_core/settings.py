"""Settings of a node from one source: fields of a frozen dataclass with description, unit and bounds."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from cue_core.checks import finite_in


def setting(
    default: Any, description: str, unit: str = "1", low: float | None = None, high: float | None = None
) -> Any:
    """Return a dataclass field that is also a ROS parameter: default, description, unit and bounds in one place."""
    metadata = {"description": description, "unit": unit, "low": low, "high": high}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_settings(config: Any) -> None:
    """Check every bounded field of a dataclass; meant for ``__post_init__``.

    Raises:
        OutOfRangeError: naming the field and its range.
    """
    for item in fields(config):
        low, high = item.metadata.get("low"), item.metadata.get("high")
        if low is not None and high is not None:
            finite_in(item.name, getattr(config, item.name), low, high, item.metadata.get("unit", ""))
