"""The shot log survives crashes and refuses what it cannot read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_core import ShotLog, ShotRecord
from cue_core.errors import FileFormatError
from cue_core.shot_log import append_line, data_hash, read_lines, record_from_dict, record_to_dict


def assert_same(a: object, b: object) -> None:
    assert json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def test_records_round_trip(tmp_path: Path, record: ShotRecord) -> None:
    log = ShotLog(tmp_path / "shots.jsonl")
    log.append(record)
    log.append(replace(record, index=4, commanded=None, achieved=None))
    first, second = log.read()
    assert_same(record_to_dict(first), record_to_dict(record))
    assert second.index == 4 and second.commanded is None and second.achieved is None
    assert np.array_equal(first.tracks[0].covariance, record.tracks[0].covariance)


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_torn_line_loses_nothing_else(tmp_path: Path, record: ShotRecord, cut: int) -> None:
    log = ShotLog(tmp_path / "shots.jsonl")
    log.append(record)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole[:cut])
    assert [r.index for r in log.read()] == [3]
    log.append(replace(record, index=9))
    assert [r.index for r in log.read()] == [3, 9]


def test_a_spoilt_line_is_named_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\nrubbish\n{"a": 2}\n')
    with pytest.raises(FileFormatError, match="line 2 is not JSON"):
        read_lines(path)


def test_missing_file_is_empty_and_unwritable_one_is_named(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none.jsonl") == []
    with pytest.raises(FileFormatError, match="cannot be written"):
        append_line(tmp_path / "no" / "folder.jsonl", {})


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"version": 99}, "version 99"),
        ({"tracks": [{"id": 1}]}, "malformed"),
        ({"before": None}, "malformed"),
    ],
)
def test_malformed_records_are_refused(record: ShotRecord, change: dict[str, object], problem: str) -> None:
    with pytest.raises(FileFormatError, match=problem):
        record_from_dict({**record_to_dict(record), **change})


def test_hash_follows_the_data_not_its_order(record: ShotRecord) -> None:
    other = replace(record, index=5)
    assert data_hash([record, other]) == data_hash([other, record])
    assert data_hash([record]) != data_hash([other])


def test_usable_needs_a_clean_measured_shot_that_moved(record: ShotRecord) -> None:
    clean = replace(record, flags=())
    assert clean.usable
    assert not record.usable
    assert not replace(clean, achieved=None).usable
    assert not replace(clean, tracks=()).usable
