"""``cue fit``, ``cue residuals``, ``cue export``: what they print and write; bad input is one line and exit code 2."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import cue.fit_command as fit_command
from cue.cli import main
from cue.offline_inputs import Model
from cue.residual_data import BALL, CUSHION, MISSED, groups, replay
from cue.residual_local import contact_rows
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shot_log import ShotLog, append_line
from cue_core.table import TableModel
from cue_identify.fit import FitOutcome
from cue_identify.replay import Progress, TwinSimulator
from cue_identify.store import EstimateStore
from cue_identify.synthetic import Noise, record_session
from cue_sim.config_files import config_file
from cue_sim.export import load_balls, load_twin, save_twin
from cue_sim.portable import read_statement
from cue_sim.twin import Twin

TABLE = TableModel.load(config_file("tables", "small"))
BALLS = (0, 1, 2)
ROLLING = list(PARAMETERS).index("rolling_friction")


@pytest.fixture(scope="module")
def records():
    """Shots of a table with the nominal parameters, seen almost without noise."""
    noise = Noise(frame_rate=60.0, track=1e-6, rest=1e-7, azimuth=0.0, speed=0.0, strike_time=0.0)
    simulator = TwinSimulator(TABLE, BALLS)
    return record_session(simulator, TABLE, nominal_values(), 6, np.random.default_rng(5), noise)


@pytest.fixture
def run(tmp_path, records):
    """A folder as a run leaves it: shots, estimates, twin."""
    for record in records:
        ShotLog(tmp_path / "shots.jsonl").append(record)
    estimate = replace(ParameterEstimate.nominal(), revision=1)
    append_line(tmp_path / "estimates.jsonl", {**estimate.to_dict(), "promoted": True})
    later = replace(estimate, revision=2, values=nominal_values() * 1.01)
    append_line(tmp_path / "estimates.jsonl", {**later.to_dict(), "promoted": False})
    save_twin(tmp_path / "twin.json", Twin(TABLE, BALLS), estimate)
    return tmp_path


def fitted(promoted: bool = True) -> FitOutcome:
    frozen = np.ones(len(PARAMETERS), bool)
    frozen[ROLLING] = False
    covariance = np.zeros((len(PARAMETERS), len(PARAMETERS)))
    covariance[ROLLING, ROLLING] = 3e-4**2
    estimate = replace(
        ParameterEstimate.nominal(), frozen=frozen, identifiable=~frozen, covariance=covariance, train_error=0.004
    )
    excluded = {"s7": "no measured stroke", "s8": "no measured stroke"}
    return FitOutcome(estimate, promoted, "because", 1.0, 1.0, 2.0, 100, 0, 1.5, excluded)


@pytest.fixture
def fake_fit(monkeypatch):
    """Replace the fit: it tells its progress, then returns or raises what it is told to."""
    seen: dict[str, object] = {"end": fitted()}

    def fit(records, table, report, **more):
        seen.update(more, records=records, table=table)
        for count, stage in ((10, "first contact"), (20, "polish")):
            report(Progress(count, 0.5, 9.0, stage))
        end = seen["end"]
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(fit_command, "fit", fit)
    return seen


def test_a_fit_shows_values_error_bars_verdicts_and_what_took_no_part(run, fake_fit, capsys):
    assert main(["fit", str(run), "--hold-out", "newest:2", "--seed", "3", "--terms", "cloth", "--learn"]) == 0
    told, progress = capsys.readouterr()
    assert re.search(r"rolling_friction +0\.01000 +0\.0003 +0\.01 +identified", told)
    assert "2 of 2 shots took no part" in told and "no measured stroke: s7, s8" in told
    assert "because" in told and f"revision 1 in {run / 'fit.jsonl'}" in told
    assert "first contact" in progress and "20 simulated shots" in progress
    assert len(fake_fit["held_out"]) == 2 and fake_fit["seed"] == 3 and fake_fit["terms"] == ["cloth"]
    assert fake_fit["learn"] is True
    line = json.loads((run / "fit.jsonl").read_text())
    assert line["revision"] == 1 and line["code_version"]
    assert not json.loads((run / "estimates.jsonl").read_text().splitlines()[-1])[
        "promoted"
    ]  # the run's own is untouched


def test_a_fit_of_one_table_is_not_taken_for_another(run, fake_fit, capsys):
    mine = run / "apart" / "mine.jsonl"
    mine.parent.mkdir()
    assert main(["fit", str(run), "--out", str(mine)]) == 0
    assert json.loads(mine.read_text())["table"]["name"] == "small"
    capsys.readouterr()
    assert main(["export", str(mine), "--table", "9ft", "--out", str(run / "other")]) == 2
    told = capsys.readouterr().err
    assert "mine.jsonl line 1: is an estimate of table 'small' of 1.06 x 0.53 m, not of '9ft'" in told


def test_a_fit_says_when_it_was_cut_off_or_explains_the_shots_badly(run, fake_fit, capsys):
    bad = fitted()
    fake_fit["end"] = replace(bad, evaluations=500, estimate=replace(bad.estimate, train_error=0.2))
    assert main(["fit", str(run), "--evaluations", "500"]) == 0
    told = capsys.readouterr().out
    assert "the budget of 500 simulated shots was spent" in told
    assert "200 mm from where they should, 38 % of the table's width: is 'small' the right table" in told
    fake_fit["end"] = fitted()
    assert main(["fit", str(run)]) == 0
    told = capsys.readouterr().out
    assert "budget" not in told and "warning" not in told


def test_shots_whose_stroke_nobody_measured_are_fitted_when_none_was(run, records, fake_fit, capsys):
    for record in records:
        ShotLog(run / "unstruck.jsonl").append(replace(record, achieved=None))
    assert main(["fit", str(run / "unstruck.jsonl"), "--hold-out", "newest:2"]) == 0
    assert len(fake_fit["records"]) == 6 and len(fake_fit["held_out"]) == 2


def test_predict_finds_what_a_fit_wrote_beside_the_log(run, records, fake_fit, capsys):
    (run / "beside").mkdir()
    log = run / "beside" / "shots.jsonl"
    log.write_text((run / "shots.jsonl").read_text())
    assert main(["fit", str(log), "--table", "small"]) == 0
    assert main(["predict", str(log), "0", "--table", "small"]) == 0
    assert "beside/fit.jsonl, revision 1" in capsys.readouterr().out


def test_a_fit_as_json_is_strict_json_alone_on_standard_output(run, fake_fit, capsys):
    assert main(["fit", str(run), "--json", "--out", str(run / "mine.jsonl")]) == 0
    data = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert data["promoted"] and data["held_out_error_m"] is None and data["kept_in"].endswith("mine.jsonl")


def test_an_interrupted_fit_says_what_is_kept(run, fake_fit, capsys):
    fake_fit["end"] = KeyboardInterrupt()
    assert main(["fit", str(run)]) == 130
    told = capsys.readouterr().err
    assert "stopped after 20 simulated shots, at stage 'polish'" in told and "Traceback" not in told


def test_a_fit_that_was_stopped_is_resumed_from_its_last_interim_estimate(run, fake_fit, capsys):
    assert main(["fit", str(run), "--resume"]) == 2
    assert "holds no interim estimate to resume from" in capsys.readouterr().err
    values = nominal_values() * 1.02
    EstimateStore(run, "fit.jsonl").keep_interim(Progress(10, 0.5, 9.0, "first contact"), values)
    assert main(["fit", str(run), "--resume"]) == 0
    assert np.array_equal(fake_fit["start"], values)
    capsys.readouterr()
    assert main(["fit", str(run), "--resume"]) == 2  # that one came to its end


@pytest.mark.parametrize(
    "words, says",
    [
        (["fit", "{run}/none.jsonl"], "no such file"),
        (["fit", "{run}/bad.jsonl"], "line 2: lacks shot_id"),
        (["fit", "{run}", "--table", "moon"], "known are"),
        (["fit", "{run}", "--terms", "slime"], "unknown term 'slime'; known are auto"),
        (["fit", "{run}", "--hold-out", "nobody"], "unknown shot 'nobody'"),
        (["fit", "{run}", "--evaluations", "3"], "evaluations is 3, allowed is 100"),
        (["fit", "{run}", "--out", "{run}/none/x.jsonl"], "cannot be written"),
        (["fit", "{run}/alone/shots.jsonl"], "Give --table"),
        (["fit", "{run}/still.jsonl"], "none of 6 shots can be fitted (nothing moved"),
        (
            ["fit", "{run}/far.jsonl"],
            "ball 0 of shot shot-0 lies at (3.00, 0.00) m, beyond table 'small' of 1.06 x 0.53 m",
        ),
        (["residuals", "{run}/far.jsonl"], "is it another table?"),
        (["predict", "{run}", "--revision", "9"], "unknown revision 9; known are 1, 2"),
        (["residuals", "{run}", "99"], "has no shot 99"),
        (["residuals", "{run}/unstruck.jsonl"], "none of 6 shots can be replayed (no measured stroke"),
        (["residuals", "{run}", "--out", "{run}/shots.jsonl"], "cannot be"),
        (["export", "{run}", "--balls", "x"], "ids like 0-5,8"),
        (["export", "{run}", "--shots", "{run}/far.jsonl"], "is it another table?"),
        (["export", "{run}", "--table", "9ft"], "is an estimate of table 'small' of 1.06 x 0.53 m, not of '9ft'"),
        (["predict", "{run}/alone/shots.jsonl", "--table", "8ft", "--estimate", "{run}/twin.json"], "not of '8ft'"),
        (["predict", "{run}", "--estimate", "{run}/wild.jsonl"], "rolling_friction is 5.0, allowed is 0.002 to 0.03"),
        (["fit", "{run}", "--revision", "1"], "give both"),
        (["export", "{run}/shots.jsonl"], "is no estimate"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, records, words, says, capsys):
    (run / "alone").mkdir()
    whole = (run / "shots.jsonl").read_text()
    (run / "alone" / "shots.jsonl").write_text(whole)
    first = whole.splitlines(keepends=True)[0]
    (run / "bad.jsonl").write_text(first + '{"format":"cue-shot-log","version":1}\n' + first)
    for record in records:
        ShotLog(run / "unstruck.jsonl").append(replace(record, achieved=None))
        ShotLog(run / "still.jsonl").append(replace(record, tracks=()))
    wild = {**replace(ParameterEstimate.nominal(), revision=1).to_dict(), "promoted": True}
    wild["parameters"]["rolling_friction"]["value"] = 5.0
    append_line(run / "wild.jsonl", wild)
    moved = [replace(ball, position=np.array([3.0, 0.0])) for ball in records[0].before if ball.ball_id == 0]
    ShotLog(run / "far.jsonl").append(replace(records[0], before=tuple(moved)))
    assert main([word.format(run=run) for word in words]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1


def test_the_true_twin_leaves_nothing_over_and_a_slow_cloth_shows_along_the_way(records):
    twin = Twin(TABLE, BALLS)
    right = replay(Model(twin, ParameterEstimate.nominal(), ""), records)
    assert not right.excluded and len(right.shots) == len(records)
    early = right.samples.only(right.samples.contacts <= 1)
    assert np.median(early.size) < 1e-4
    assert {CUSHION, BALL} <= set(right.samples.kind)
    values = nominal_values()
    values[ROLLING] *= 0.7  # rolls too far
    wrong = replay(Model(twin, replace(ParameterEstimate.nominal(), values=values), ""), records)
    rolling = wrong.samples.only((wrong.samples.contacts == 1) & np.isfinite(wrong.samples.along))
    assert np.median(rolling.along) > 2e-3 > 10 * abs(np.median(rolling.across))
    whole = groups(wrong.samples, (TABLE.length, TABLE.width))[0]
    assert whole.samples == len(wrong.samples.time) and whole.median > 10 * np.median(early.size)


def errs(**truth: float):
    """Return what a nominal twin leaves over on a table that differs in these parameters."""
    values = nominal_values()
    for name, value in truth.items():
        values[list(PARAMETERS).index(name)] = value
    noise = Noise(frame_rate=60.0, track=3e-4, rest=1e-4, azimuth=0.0, speed=0.0, strike_time=0.0)
    shots = record_session(TwinSimulator(TABLE, BALLS), TABLE, values, 30, np.random.default_rng(1), noise)
    return replay(Model(Twin(TABLE, BALLS), ParameterEstimate.nominal(), ""), shots)


def test_a_dead_cushion_shows_where_it_is_and_nowhere_else():
    dead = TABLE.cushions[1].name
    rows = {row.name: row for row in contact_rows(errs(cushion_offset_1=-0.12).kinks)}
    assert rows[dead].outward == pytest.approx(-0.1, abs=0.04)
    assert all(abs(row.outward) < 0.02 for name, row in rows.items() if name not in (dead, "all cushions"))


def test_a_sloping_bed_shows_in_the_way_between_contacts():
    missing = np.median([bend.missing for bend in errs(tilt_x=0.002).bends], axis=0)
    assert missing == pytest.approx([5 / 7 * 9.81 * 0.002, 0.0], abs=3e-3)


def test_a_ball_that_the_replay_misses_is_told_apart(records):
    struck = next(r for r in records if len(r.tracks) > 1)
    ball = next(t.ball_id for t in struck.tracks if t.ball_id != 0)
    aside = [replace(b, position=b.position * 0.0 + [0.5, 0.24]) if b.ball_id == ball else b for b in struck.before]
    found = replay(Model(Twin(TABLE, BALLS), ParameterEstimate.nominal(), ""), [replace(struck, before=tuple(aside))])
    assert (found.samples.kind[found.samples.ball == ball] == MISSED).all()


def test_residuals_write_pictures_numbers_and_a_page_that_stands_alone(run, tmp_path, capsys):
    out = tmp_path / "res"
    assert main(["residuals", str(run), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "replayed 6 of 6 shots" in told and "0 contacts" in told
    page = (out / "residuals.html").read_text()
    assert page.count("data:image/png;base64,") == 6
    assert not re.search(r'(?:src|href)="(?!data:)[^"#]', page), "loads something from elsewhere"
    assert sorted(p.stem for p in out.glob("*.png")) == [
        *("at_contacts", "by_contact", "by_place", "by_shot", "by_speed", "by_time"),
    ]
    header, *lines = (out / "residuals.csv").read_text().splitlines()
    assert header.startswith("by,group,samples") and {line.split(",")[0] for line in lines} >= {
        "all",
        "contact",
        "time",
    }


def test_export_writes_both_files_of_the_newest_promoted_estimate(run, tmp_path, records, capsys):
    out = tmp_path / "twin"
    assert main(["export", str(run), "--out", str(out), "--no-fit", "--shots", str(run / "shots.jsonl")]) == 0
    assert "how far it is off is not known" in capsys.readouterr().out
    twin, estimate = load_twin(out / "twin.json")
    assert estimate.revision == 1 and twin.ball_ids == BALLS
    at_rest = {b.ball_id: b.position for b in records[-1].after if b.in_play}
    assert {b.ball_id for b in load_balls(out / "twin.json")} == set(at_rest)
    assert read_statement(out / "twin.xml")["fitted"] is False
    assert main(["export", str(run / "estimates.jsonl"), "--revision", "2", "--out", str(out), "--no-fit"]) == 0
    assert load_twin(out / "twin.json")[1].values[ROLLING] == pytest.approx(1.01 * nominal_values()[ROLLING])
