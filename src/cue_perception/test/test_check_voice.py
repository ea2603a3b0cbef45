"""What the self-check says of its own pace: images that come faster than they are processed, and how old they get."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cue_perception.health import SelfCheck
from cue_perception.stamps import Verdict
from cue_perception.testing import SMALL

pytest.importorskip("rclpy")
PERIOD = 16_666_667  # ns


class _Health:
    """What a node would tell on /diagnostics."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.said = ""

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value

    def warn(self, text: str) -> None:
        self.said = text

    error = warn

    def ok(self) -> None:
        self.said = ""


def _session(seconds: float, lockstep: bool, images: int = 80) -> tuple[_Health, list[str]]:
    """Return what was said to images that each took so long [s]; their states are told 42 ms after the stamps."""
    from cue_perception.check_voice_node import CheckVoice

    logged: list[str] = []
    now = SimpleNamespace(nanoseconds=0)
    node: Any = SimpleNamespace(
        get_clock=lambda: SimpleNamespace(now=lambda: now),
        get_logger=lambda: SimpleNamespace(warning=logged.append, info=logged.append),
    )
    health: Any = _Health()
    check = SelfCheck(SMALL)
    voice = CheckVoice(node, health, check, lockstep)
    for k in range(images):
        stamp = k * PERIOD
        check.note(stamp, Verdict.NEW)
        now.nanoseconds = stamp + 42_000_000
        outcome: Any = SimpleNamespace(frame=k, calibrated=True, stamp=stamp)
        voice.tell(outcome, seconds, arm_known=False)
    return health, logged


def test_a_tracker_that_cannot_keep_pace_says_so_once():
    health, logged = _session(0.021, lockstep=False)
    assert health.said == "too slow: 95 % of the images take up to 21 ms, they come every 17 ms"
    assert logged == [health.said]
    assert health.values["from an image's stamp to its ball states [ms]"] == "42"


def test_one_that_keeps_pace_or_that_the_world_waits_for_says_nothing():
    assert _session(0.009, lockstep=False)[0].said == ""
    waited_for, _ = _session(0.2, lockstep=True)
    assert waited_for.said == ""
    assert "from an image's stamp to its ball states [ms]" not in waited_for.values
