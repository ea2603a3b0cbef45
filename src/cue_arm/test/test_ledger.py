"""No shot is struck twice, whoever dies when."""

from __future__ import annotations

from pathlib import Path

import pytest

from cue_arm.ledger import LEDGER_FILE, Ledger
from cue_core import Shot, Stroke
from cue_core.arm_codes import ArmCode
from cue_core.errors import FileFormatError

SHOT = Shot("shot-1", 0.8, 0.3)


def test_a_started_shot_blocks_its_id_also_in_the_next_process(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).start(SHOT)
    again = Ledger(str(tmp_path))
    entry = again.find("shot-1")
    assert entry is not None and not entry.finished and entry.struck is None and entry.shot == SHOT
    assert again.find("shot-2") is None


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    ledger, stroke = Ledger(str(tmp_path)), Stroke(0.79, 0.31, contact_time=12.5)
    ledger.start(SHOT)
    ledger.finish("shot-1", True, stroke, ArmCode.CONTROLLER, "stopped")
    entry = Ledger(str(tmp_path)).find("shot-1")
    assert entry is not None and entry.finished
    assert (entry.stroke, entry.code, entry.text) == (stroke, ArmCode.CONTROLLER, "stopped")


def test_a_shot_that_surely_did_not_strike_may_be_played_again(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.start(SHOT)
    ledger.finish("shot-1", False, None, ArmCode.CANCELED, "canceled")
    assert ledger.find("shot-1") is None
    assert Ledger(str(tmp_path)).find("shot-1") is None
    ledger.start(SHOT)
    assert ledger.find("shot-1") is not None


def test_the_newest_entry_is_the_last_one(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    assert ledger.last is None
    for name in ("a", "b", "a"):
        ledger.start(Shot(name, 0.5, 0.0))
    assert ledger.last is not None and ledger.last.shot.shot_id == "a"


def test_a_torn_last_line_is_no_entry_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.start(SHOT)
    file = tmp_path / LEDGER_FILE
    file.write_bytes(file.read_bytes() + b'{"event": "fini')
    assert Ledger(str(tmp_path)).find("shot-1") is not None
    file.write_text('{"event": "finished", "shot_id": "unknown"}\n')
    with pytest.raises(FileFormatError, match=r"arm_ledger\.jsonl line 1: malformed"):
        Ledger(str(tmp_path))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="file/run: cannot be made"):
        Ledger(str(tmp_path / "file" / "run"))


def test_without_a_folder_it_lasts_as_long_as_the_process() -> None:
    ledger = Ledger()
    ledger.start(SHOT)
    assert ledger.find("shot-1") is not None
    assert Ledger().find("shot-1") is None
