"""``cue predict``: recorded shots through the run's own twin."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cue.cli import main
from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shot_log import ShotLog, append_line
from cue_core.shots import ShotRecord, Stroke
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.export import save_twin
from cue_sim.predict import start_from
from cue_sim.twin import Twin

BEFORE = (BallState(0, np.array([-0.3, 0.0])), BallState(1, np.array([0.1, 0.01])))


@pytest.fixture
def run(tmp_path):
    """A run of one shot on a table whose object ball is light and whose cloth slows fast balls more."""
    table = TableModel.load(config_file("tables", "small"))
    twin = Twin(table, (0, 1, 2), masses={1: 0.040}, extras={"rolling_slope": 0.5})
    estimate = ParameterEstimate.nominal()
    save_twin(tmp_path / "twin.json", twin, estimate)
    stroke = Stroke(0.8, 0.0)
    pair = Twin(table, (0, 1), masses={1: 0.040}, extras={"rolling_slope": 0.5})
    rest = pair.simulate(start_from(BEFORE, stroke, estimate.values, table), estimate.values).rest_positions
    after = tuple(BallState(k, place) for k, place in enumerate(rest))
    unstruck = ShotRecord("b", 1, None, None, 9.0, BEFORE, BEFORE, ())
    for record in (ShotRecord("a", 0, None, stroke, 0.0, BEFORE, after, ()), unstruck):
        ShotLog(tmp_path / "shots.jsonl").append(record)
    return tmp_path, twin, estimate


def test_the_runs_own_balls_and_laws_predict(run, capsys):
    assert main(["predict", str(run[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "twin.json, revision 0" in lines[0]
    assert [line.split()[:2] for line in lines[2:4]] == [["0", "0"], ["0", "1"]]
    assert [float(line.split()[-1]) for line in lines[2:4]] == [0.0, 0.0]  # mm
    assert "not predicted: no stroke was measured or commanded" in lines[4]


def test_a_shot_that_cannot_be_simulated_is_named(run, capsys, monkeypatch):
    monkeypatch.setattr("cue.predict_command.rest_fault", lambda path: "not finite")
    assert main(["predict", str(run[0]), "0"]) == 0
    assert "not predicted: the simulation of shot a failed: not finite" in capsys.readouterr().out


def test_a_twin_with_a_value_that_none_may_have_is_refused(run, capsys):
    folder, twin, estimate = run
    values = estimate.values.copy()
    values[list(PARAMETERS).index("cushion_friction")] = np.nan
    save_twin(folder / "twin.json", twin, replace(estimate, values=values))
    assert main(["predict", str(folder), "0"]) == 2
    assert "twin.json: malformed twin: cushion_friction is nan, allowed is 0 to 0.5" in capsys.readouterr().err


def test_an_unknown_shot_is_refused(run, capsys):
    assert main(["predict", str(run[0]), "7"]) == 2
    assert "has no shot 7; it has 0 (a), 1 (b)" in capsys.readouterr().err


def test_shots_are_named_by_id_too_and_a_log_needs_no_run(run, tmp_path, capsys):
    folder, _, estimate = run
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    log = alone / "shots.jsonl"
    log.write_bytes((folder / "shots.jsonl").read_bytes())
    assert main(["predict", str(log), "a"]) == 2
    assert "Give --estimate FILE" in capsys.readouterr().err
    append_line(alone / "fit.jsonl", {**estimate.to_dict(), "promoted": True})
    words = ["predict", str(log), "a", "--estimate", str(alone / "fit.jsonl"), "--table", "small"]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["shot"] for row in said["balls"]} == {0} and not said["not_predicted"]
    assert said["balls"][0]["error_m"] > 0.01  # that table has neither the light ball nor the slow cloth


def test_error_bars_of_the_estimate_spread_the_prediction(run, capsys):
    folder, twin, estimate = run
    covariance = estimate.covariance.copy()
    place = list(PARAMETERS).index("rolling_friction")
    covariance[place, place] = 0.002**2
    save_twin(folder / "twin.json", twin, replace(estimate, revision=2, covariance=covariance))
    words = ["predict", str(folder), "0", "--json", "--ensemble", "32"]
    assert main([*words, "--only-parameters"]) == 0
    rows = json.loads(capsys.readouterr().out)["balls"]
    assert all(np.trace(row["covariance_m2"]) > 0.005**2 for row in rows)
    assert main(words) == 0
    both = json.loads(capsys.readouterr().out)["balls"]
    assert all(np.trace(b["covariance_m2"]) > np.trace(r["covariance_m2"]) for b, r in zip(both, rows, strict=True))
