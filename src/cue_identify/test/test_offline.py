"""Fits without ROS: which shots, which terms, what is kept; bad input is one clear line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cue_core.errors import CueError, FileFormatError, UnknownNameError
from cue_core.parameters import ParameterEstimate, default_fitted, nominal_values
from cue_core.shot_log import ShotLog, append_line
from cue_core.table import TableModel
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitOutcome, FitRequest
from cue_identify.offline import (
    check_evaluations,
    choose_held_out,
    fit_request,
    read_shots,
    refuse_unusable,
    told_exclusions,
)
from cue_identify.pace import Pace
from cue_identify.replay import Progress
from cue_identify.store import EstimateStore
from cue_sim.config_files import config_file

TABLE = TableModel.load(config_file("tables", "small"))


@pytest.fixture
def records(fake_simulator, make_straight_records):
    return make_straight_records(fake_simulator(), nominal_values(), 6)


def outcome(values: np.ndarray | None = None, promoted: bool = True) -> FitOutcome:
    """Return the outcome of a fit that found ``values``."""
    estimate = ParameterEstimate.nominal()
    estimate = replace(estimate, values=estimate.values if values is None else values)
    return FitOutcome(estimate, promoted, "because", 1.0, 1.0, 2.0, 100, 0, 1.5)


def test_a_log_must_be_there_and_hold_shots(tmp_path, records):
    with pytest.raises(FileFormatError, match="no such file"):
        read_shots(tmp_path / "none.jsonl")
    with pytest.raises(FileFormatError, match="is a folder, needs a shot log"):
        read_shots(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(FileFormatError, match="holds no shot"):
        read_shots(tmp_path / "empty.jsonl")
    (tmp_path / "picture").write_bytes(b"\x89PNG\n\x1a\n")
    with pytest.raises(FileFormatError, match="is no shot log: line 1 is not JSON"):
        read_shots(tmp_path / "picture")
    log = ShotLog(tmp_path / "shots.jsonl")
    log.append(records[0])
    append_line(log.path, {"shot": 1})
    with pytest.raises(FileFormatError, match="line 2: is no shot"):
        read_shots(log.path)
    contents = read_shots(log.path, skip_bad=True)
    assert len(contents.records) == 1 and "line 2" in str(contents.problems[0])


def test_shots_are_held_out_by_name_by_age_or_by_chance(records):
    ids = [record.shot_id for record in records]
    assert choose_held_out(records, "") == ()
    assert choose_held_out(records, f"{ids[3]}, {ids[1]}") == (ids[3], ids[1])
    assert choose_held_out(records, "newest:2") == tuple(ids[-2:])
    chosen = choose_held_out(records, "random:3", seed=1)
    assert len(set(chosen)) == 3 and chosen == choose_held_out(records, "random:3", seed=1)
    with pytest.raises(UnknownNameError, match=f"unknown shot 'x'; known are {ids[0]}"):
        choose_held_out(records, "x")
    with pytest.raises(CueError, match="6 shots cannot be held out of 6 usable ones"):
        choose_held_out(records, "newest:6")


def test_terms_become_the_parameters_that_act_on_the_table(records):
    def asked(*terms: str, **more) -> tuple[str, ...]:
        return fit_request(FitRequest(**more), terms, records, TABLE).parameters

    assert asked() == () and asked("usual") == default_fitted()
    assert asked("tilt", "cloth")[-2:] == ("tilt_x", "tilt_y") and asked("tilt", parameters=("nap_x2",))[0] == "nap_x2"
    balls = {ball.ball_id for record in records for ball in record.before}
    assert len(asked("ball_mass")) <= len(balls)
    with pytest.raises(UnknownNameError, match=r"unknown term 'slime'; known are auto, .*cloth.*usual"):
        asked("slime")
    with pytest.raises(CueError, match="'auto' chooses by itself"):
        asked("auto", "tilt")


def test_a_log_without_strokes_is_fitted_unless_nothing_tells_of_them(records):
    bare = [replace(record, achieved=None) for record in records]
    refuse_unusable(bare, "log")
    mixed = [replace(records[0], flags=("camera_moved",)), *bare[1:]]  # beside a measured stroke none is inferred
    with pytest.raises(FitError, match=r"none of 6 shots can be fitted .no measured stroke: .*'achieved' in the log"):
        refuse_unusable(mixed, "log")
    still = [replace(record, tracks=()) for record in records]
    with pytest.raises(FitError) as caught:
        refuse_unusable(still, "log")
    assert caught.value.code == FitCode.NO_INFORMATION
    refuse_unusable([*bare, records[0]], "log")


def test_reasons_are_told_once_with_their_shots():
    told = told_exclusions({**{f"s{i}": "nothing moved" for i in range(9)}, "t": "flagged ball_lost"})
    assert told == ["nothing moved: s0, s1, s2, s3, s4, s5 and 3 more", "flagged ball_lost: t"]


def test_a_hopeless_budget_is_refused():
    check_evaluations(0)
    with pytest.raises(CueError, match="evaluations is 3, allowed is 100"):
        check_evaluations(3)


def test_estimates_are_kept_as_they_come_and_lines_say_what_made_them(tmp_path):
    store = EstimateStore(tmp_path)
    store.check_writable()
    values = nominal_values() * 1.01
    store.keep_interim(Progress(50, 0.3, 9.0, "first contact"), values)
    again = EstimateStore(tmp_path)  # as after kill -9
    assert again.interim is not None and np.array_equal(again.interim.values, values)
    assert again.present.revision == 0
    assert again.add(outcome(values)).revision == 1 and again.interim is None
    lines = [json.loads(line) for line in (tmp_path / "estimates.jsonl").read_text().splitlines()]
    assert [line.get("interim", False) for line in lines] == [True, False]
    assert lines[0]["stage"] == "first contact" and not lines[0]["promoted"]
    assert all(line["code_version"] and line["written"].endswith("+00:00") for line in lines)
    assert {"data_hash", "largest_step_s", "seed", "reason"} <= set(lines[1])
    assert EstimateStore(tmp_path).interim is None


def test_s03_a_roll_back_is_a_new_revision_equal_to_the_old_one(tmp_path):
    store = EstimateStore(tmp_path)
    good, bad = nominal_values() * 1.01, nominal_values() * 0.99
    for values, promoted in ((good, True), (bad, True), (bad, False)):
        store.add(outcome(values, promoted))
    back = store.roll_back(1)
    assert back.revision == 4 and np.array_equal(store.present.values, good)
    assert np.array_equal(EstimateStore(tmp_path).present.values, good)
    assert np.array_equal(store.roll_back(0).values, nominal_values())
    with pytest.raises(UnknownNameError, match="unknown promoted revision 3; known are 0, 1, 2, 4, 5"):
        store.roll_back(3)


@pytest.mark.parametrize(
    "line, problem",
    [
        ({"revision": 1}, "line 1: is no estimate: lacks 'parameters'"),
        ({"parameters": {"slime": {}}}, "line 1: is no estimate of this version: unknown parameter 'slime'"),
    ],
)
def test_a_damaged_file_of_estimates_is_named(tmp_path, line, problem):
    append_line(tmp_path / "estimates.jsonl", line)
    with pytest.raises(FileFormatError, match=problem):
        EstimateStore(tmp_path)


def test_a_file_that_cannot_be_written_is_found_out_before_the_fit(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be written"):
        EstimateStore(tmp_path / "none").check_writable()


def test_the_pace_is_that_of_the_last_seconds():
    pace = Pace()
    assert pace.add(0.0, 0) == 0.0
    assert pace.add(1.0, 100) == 100.0
    for second in range(2, 8):
        rate = pace.add(float(second), 100 + 500 * (second - 1))
    assert rate == pytest.approx(500.0)
    assert pace.add(9.0, 10) == 0.0  # another fit
