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
        ({"version": 99}, "version 99, needs 'cue-shot-log' version 1"),
        ({"before": None}, "before: needs a list, got None"),
        ({"flag": []}, "unknown key flag; allowed are achieved, after, before, .*flags"),
        ({"index": -1}, "index: is -1, allowed is 0 or more"),
        ({"strike_time": "noon"}, "strike_time: needs a number, got 'noon'"),
        ({"strike_time": 10**400}, "strike_time: needs a number, got 1000"),
        ({"strike_time": True}, "strike_time: needs a number, got True"),
        ({"flags": [3]}, r"flags\[0\]: needs a text, got 3"),
        ({"tracks": [{"id": 1}]}, r"tracks\[0\]: lacks t, x, y, xx, xy, yy, pocketed"),
        (
            {"commanded": {"shot_id": "a", "speed": 40.0, "azimuth": 0.0}},
            "commanded: speed is 40.0, allowed is 0.01 to",
        ),
        ({"commanded": {"shot_id": "a", "azimuth": 0.0}}, "commanded: lacks speed"),
        ({"achieved": {"tip_speed": [1.0], "azimuth": 0.0}}, r"achieved.tip_speed: needs a number, got \[1.0\]"),
    ],
)
def test_malformed_records_are_refused_by_field(record: ShotRecord, change: dict[str, object], problem: str) -> None:
    with pytest.raises(FileFormatError, match=problem):
        record_from_dict({**record_to_dict(record), **change})


@pytest.mark.parametrize(
    "path, value, problem",
    [
        (("tracks", 0, "x"), [0.1], r"tracks\[0\].x: has 1 numbers, t has 5: columns need one length"),
        (("tracks", 0, "y", 2), None, r"tracks\[0\].y\[2\]: needs a number, got None"),
        (("tracks", 0, "t", 3), 0.0, r"tracks\[0\].t\[3\]: is 0 after .*: times must increase"),
        (("tracks", 0, "id"), 16, r"tracks\[0\].id: is 16, allowed is 0 to 15"),
        (("tracks", 0, "pocketed"), 1, r"tracks\[0\].pocketed: needs true or false, got 1"),
        (("before", 1, "id"), 0, r"before\[1\].id: is 0 once more"),
        (("before", 0, "motion"), "FLYING", r"before\[0\].motion: is 'FLYING', allowed are UNKNOWN, STATIONARY"),
        (("before", 0, "covariance"), [-1.0, 0.0, 1.0], r"before\[0\].covariance: is \[-1, 0, 1\]"),
        (("before", 0, "covariance"), [1.0, 2.0, 1.0], r"before\[0\].covariance: .* xy\^2 of at most xx times yy"),
        (("achieved", "azimuth"), 1e6, r"achieved.azimuth: is 1000000.0, allowed is -12.5664 to 12.5664"),
        (("achieved", "tip_speed"), 1e300, r"achieved.tip_speed: is 1e\+300, allowed is 0 to 15"),
        (("achieved", "tip_speed_stddev"), -1.0, r"achieved.tip_speed_stddev: is -1.0, allowed is 0 or more"),
        (("before", 0, "position"), [1.0], r"before\[0\].position: has 1 numbers, needs 2"),
        (("after", 0, "identity_confidence"), 1.5, r"after\[0\].identity_confidence: is 1.5, allowed is 0 to 1"),
    ],
)
def test_malformed_fields_within_a_record_are_named(
    record: ShotRecord, path: tuple[str | int, ...], value: object, problem: str
) -> None:
    data = json.loads(json.dumps(record_to_dict(record)))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(FileFormatError, match=problem):
        record_from_dict(data)


def test_a_bad_line_is_told_and_loses_no_other(tmp_path: Path, record: ShotRecord) -> None:
    log = ShotLog(tmp_path / "shots.jsonl")
    log.append(record)
    log.path.write_bytes(log.path.read_bytes() + b'{"format":"cue-shot-log","version":1}\n[1]\n\xff\n')
    log.append(replace(record, index=4))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole[:50])
    contents = log.scan()
    assert [r.index for r in contents.records] == [3, 4] and contents.torn
    assert [str(p).split(": ", 1)[0] for p in contents.problems] == [f"{log.path} line 2", str(log.path), str(log.path)]
    assert ["line 3 is a list" in str(contents.problems[1]), "line 4 is not JSON" in str(contents.problems[2])] == [
        True
    ] * 2
    with pytest.raises(FileFormatError, match="line 2: lacks shot_id, index"):
        log.read()


def test_a_recording_is_not_taken_for_a_log() -> None:
    with pytest.raises(FileFormatError, match="'cue import' makes a shot log"):
        record_from_dict({"shotID": 1, "balls": {}})


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
