"""Shots that no cue can play are refused before anything moves."""

from __future__ import annotations

import math

import pytest

from cue_core import Shot
from cue_core.errors import OutOfRangeError


@pytest.mark.parametrize(
    "values, field",
    [
        ({"speed": -3.0}, "speed"),
        ({"speed": 40.0}, "speed"),
        ({"speed": math.nan}, "speed"),
        ({"speed": "fast"}, "speed"),
        ({"speed": True}, "speed"),
        ({"azimuth": math.inf}, "azimuth"),
        ({"elevation": -0.1}, "elevation"),
        ({"side_offset": 0.6}, "side_offset"),
        ({"vertical_offset": -0.6}, "vertical_offset"),
    ],
)
def test_out_of_range_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(OutOfRangeError, match=f"^{field} is .*allowed is"):
        Shot(**{"shot_id": "s", "speed": 1.0, "azimuth": 0.0, **values})  # type: ignore[arg-type]
