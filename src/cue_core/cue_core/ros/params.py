"""Node parameters from one source: a frozen dataclass."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

from cue_core.errors import CueError
from cue_core.settings import setting

__all__ = ["declare", "setting"]

Config = TypeVar("Config")


def _descriptor(item: Field[Any], default: Any, full_name: str) -> ParameterDescriptor:
    unit = item.metadata.get("unit", "1")
    text = item.metadata.get("description", "") + ("" if unit == "1" else f" [{unit}]")
    descriptor = ParameterDescriptor(name=full_name, description=text, read_only=True)
    low, high = item.metadata.get("low"), item.metadata.get("high")
    if low is None or high is None or isinstance(default, bool):
        return descriptor
    if isinstance(default, int):
        descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=0)]
    elif isinstance(default, float):
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high), step=0.0)]
    return descriptor


def declare(node: Node, config: type[Config], prefix: str = "") -> Config:
    """Declare every field of a dataclass as a read-only parameter of the node and build the dataclass.

    With a prefix the parameters are called ``prefix.field``.

    A whole number given for a float is taken as that float, as a command line writes it.

    Raises:
        CueError: a parameter has the wrong type or is out of range; names node, parameter and what is allowed.
    """
    values: dict[str, Any] = {}
    for item in fields(config):  # type: ignore[arg-type]
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        name = f"{prefix}.{item.name}" if prefix else item.name
        descriptor = _descriptor(item, default, name)
        given = node._parameter_overrides.get(name)
        if isinstance(default, float) and given is not None and isinstance(given.value, int):
            node._parameter_overrides[name] = type(given)(name, value=float(given.value))
        try:
            values[item.name] = node.declare_parameter(name, default, descriptor).value
        except (InvalidParameterTypeException, InvalidParameterValueException):
            low, high = item.metadata.get("low"), item.metadata.get("high")
            bounds = "" if low is None or high is None else f" from {low} to {high}"
            raise CueError(
                f"{node.get_name()}: parameter {name} is {given.value if given else None!r}, "
                f"needs a {type(default).__name__}{bounds}"
            ) from None
    return config(**values)
