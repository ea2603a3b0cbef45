"""The latch holds, and silence is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cue_arm.errors import ArmError
from cue_arm.guard import STOP_FILE, Guard, Watchdog
from cue_arm.ledger import PushLedger
from cue_core.arm_codes import ArmCode


def test_a_stop_holds_until_somebody_enables(tmp_path: Path) -> None:
    guard = Guard(str(tmp_path))
    guard.check()
    guard.stop("arm/stop was called")
    guard.stop("something later")
    with pytest.raises(ArmError, match="arm/stop was called; call arm/enable") as refused:
        guard.check()
    assert refused.value.code == ArmCode.STOPPED
    assert Guard(str(tmp_path)).reason == "arm/stop was called"  # a new process
    guard.enable()
    assert Guard(str(tmp_path)).reason == ""
    assert Guard(str(tmp_path), enabled=False).reason == "the arm is disabled"


def test_a_latch_that_cannot_be_read_or_written_is_a_stop(tmp_path: Path) -> None:
    (tmp_path / STOP_FILE).write_text("{")
    assert "cannot be read" in Guard(str(tmp_path)).reason
    (tmp_path / STOP_FILE).unlink()
    guard = Guard(str(tmp_path))
    (tmp_path / STOP_FILE).mkdir()
    guard.enable()
    assert "cannot be written" in guard.reason


def test_whoever_falls_silent_is_named() -> None:
    watchdog = Watchdog(joints=0.5, camera=1.0)
    assert watchdog.stale(100.0) is None  # what never came is awaited elsewhere
    watchdog.heard("joint_states", 10.0)
    watchdog.heard("ball_states", 10.0)
    assert watchdog.stale(10.5) is None
    silent = watchdog.stale(10.6)
    assert silent is not None and silent.code == ArmCode.CONTROLLER and "joint_states are 0.60 s old" in str(silent)
    watchdog.heard("joint_states", 11.1)
    silent = watchdog.stale(11.2)
    assert silent is not None and silent.code == ArmCode.NO_BALL and "the camera or the tracker" in str(silent)
    assert watchdog.stale(5.0) is None  # a clock set back


def test_a_push_is_begun_once_over_restarts(tmp_path: Path) -> None:
    ledger = PushLedger(str(tmp_path))
    assert not ledger.known("a")
    ledger.start("a")
    ledger.start("a")
    assert PushLedger(str(tmp_path)).known("a") and not PushLedger(str(tmp_path)).known("b")
