"""The report of a run: everything in one page, and a clear line where a run is not whole."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from cue.report import write_overview, write_report
from cue.report_data import read_run
from cue.report_learning import learnt
from cue_agent.journal import EXPLORE, HELD_OUT, Action, Journal, Judgement
from cue_agent.surprise import Expectation, residual
from cue_core import BallState, BallTrack, ParameterEstimate, Shot, ShotLog, ShotRecord, Stroke, TableModel, Visibility
from cue_core.errors import FileFormatError
from cue_core.parameters import PARAMETERS
from cue_core.shot_log import append_line, read_lines
from cue_sim.export import load_twin, save_twin
from cue_sim.portable import PortableParameters, save_portable
from cue_sim.portable_fit import PortableFit
from cue_sim.portable_measure import Difference
from cue_sim.predict import start_from
from cue_sim.twin import Twin

TABLES = Path(__file__).resolve().parents[3] / "config" / "tables"
BALLS = (0, 1, 3)
LAYOUT = np.array([[-0.3, -0.05], [0.1, 0.02], [0.25, -0.12]])


def played(table: TableModel, index: int, azimuth: float, truth: np.ndarray) -> ShotRecord:
    """Return the record of a shot on a table whose parameters are ``truth``, seen without noise."""
    stroke = Stroke(0.8, azimuth, 0.005, 0.001)
    before = tuple(BallState(b, p) for b, p in zip(BALLS, LAYOUT, strict=True))
    twin = Twin(table, BALLS)
    times = np.arange(0, 8, 1 / 30)
    path = twin.simulate(start_from(before, stroke, truth, table, BALLS), truth, times)
    tracks, after = [], []
    for k, ball in enumerate(BALLS):
        gone = bool(path.rest_pocketed[k])
        end = BallState(ball, path.rest_positions[k], visibility=Visibility.POCKETED if gone else Visibility.VISIBLE)
        after.append(end)
        if np.linalg.norm(path.rest_positions[k] - LAYOUT[k]) > 0.003:
            covariance = np.broadcast_to(np.eye(2) * 1e-6, (len(times), 2, 2))
            tracks.append(BallTrack(ball, times, path.positions[:, k], covariance, gone))
    shot = Shot(f"s{index}", 0.8, azimuth)
    return ShotRecord(shot.shot_id, index, shot, stroke, 10.0 * index, before, tuple(after), tuple(tracks))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a folder as a finished run leaves it, whose estimate is the truth."""
    table = TableModel.load(TABLES / "small.yaml")
    truth = np.array([p.nominal for p in PARAMETERS.values()])
    truth[list(PARAMETERS).index("rolling_friction")] = 0.016
    records = [played(table, i, azimuth, truth) for i, azimuth in enumerate((0.1, 0.6, -0.5, 0.9))]
    for record in records:
        ShotLog(tmp_path / "shots.jsonl").append(record)
    frozen = ParameterEstimate.nominal().frozen.copy()
    frozen[list(PARAMETERS).index("rolling_friction")] = False
    estimate = replace(
        ParameterEstimate.nominal(),
        revision=1,
        values=truth,
        frozen=frozen,
        identifiable=~frozen,
        shot_ids=("s0", "s1"),
    )
    append_line(tmp_path / "estimates.jsonl", {**ParameterEstimate.nominal().to_dict(), "promoted": True})
    append_line(tmp_path / "estimates.jsonl", {**replace(estimate, revision=2).to_dict(), "promoted": False})
    append_line(tmp_path / "estimates.jsonl", {**estimate.to_dict(), "promoted": True})
    append_line(tmp_path / "agent.jsonl", {"event": "decision", "reason": "a <generic> probe", "shot_id": "s0"})
    truths = [{"id": b.ball_id, "position": [b.position[0] + 0.0004, b.position[1]]} for b in records[0].after]
    append_line(tmp_path / "score.jsonl", {"shot_id": "s0", "after": [{**t, "pocketed": False} for t in truths]})
    save_twin(tmp_path / "twin.json", Twin(table, BALLS), estimate)
    errors = {"rest_error_m": 0.1, "along_track_error_m": 0.05}
    summary = {
        "instruction": "Calibrate & report.",
        "shots_used": 4,
        "wall_s": 12.5,
        "seed": 3,
        "stopped_because": "budget",
        "held_out": {
            "shots": 2,
            "unfitted": errors,
            "calibrated": {"rest_error_m": 0.02, "along_track_error_m": None},
            "per_shot": [{"shot_id": "s2"}, {"shot_id": "s3"}],
        },
    }
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def test_the_true_estimate_explains_the_held_out_shots(run: Path) -> None:
    data = read_run(run)
    assert [s.record.shot_id for s in data.held_out] == ["s2", "s3"]
    assert [point.revision for point in data.curve] == [0, 1]
    assert data.curve[0].rest_error > 0.01
    assert data.curve[1].rest_error < 1e-4
    assert data.curve[1].shots == 2


def test_the_page_is_whole_and_stands_alone(run: Path) -> None:
    page = write_report(run).read_text()
    assert "−80 %" in page or "-80 %" in page  # 0.1 m -> 0.02 m
    assert page.count("<svg") == 3
    assert "Calibrate &amp; report." in page and "a &lt;generic&gt; probe" in page
    assert "0.40 mm" in page  # the tracker's error against the truth
    assert not re.search(r'(?:src|href)="(?!data:)[^"#]', page), "loads something from elsewhere"
    assert "url(http" not in page


@pytest.mark.parametrize("missing", ["summary.json", "twin.json"])
def test_an_unfinished_run_is_named(run: Path, missing: str) -> None:
    (run / missing).unlink()
    with pytest.raises(FileFormatError, match=f"{missing}: no such file"):
        write_report(run)


def test_a_run_without_held_out_shots_still_has_a_report(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary["held_out"]["per_shot"] = []
    (run / "summary.json").write_text(json.dumps(summary))
    assert "Parameter table" in write_report(run).read_text()


def test_the_report_says_how_far_the_portable_copy_is_from_the_twin(run: Path) -> None:
    words = "fitted to the exact twin"
    page = write_report(run).read_text()
    assert "how far it is off is not known" in page and words not in page
    (run / "twin.xml").write_text("<mujoco/>")  # of an earlier version, which says nothing
    assert "how far it is off is not known" in write_report(run).read_text()
    twin, estimate = load_twin(run / "twin.json")
    parameters = PortableParameters.unfitted(estimate)
    difference = {"1": Difference(0.0123, 0.045, 12), "3-4": Difference(0.0678, 0.2, 11)}
    fit = PortableFit(parameters, difference, seed=0, evaluations=200, revision=1)
    statement = fit.to_dict()
    save_portable(run / "twin.xml", twin.table, BALLS, estimate, parameters=parameters, statement=statement)
    page = write_report(run).read_text()
    assert words in page
    rows = re.findall(r'<tr><td class="number">(.*?)</td>.*?>(\S+ cm)<.*?>(\S+ cm)<.*?>(\d+)<', page)
    assert rows == [("1", "1.23 cm", "4.50 cm", "12"), ("3–4", "6.78 cm", "20.00 cm", "11")]


def test_the_overview_needs_the_camera_picture(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "overview.png"
    with pytest.raises(FileFormatError, match=r"no table\.png"):
        write_overview(run, target)
    (run / "table.png").write_bytes(cv2.imencode(".png", np.zeros((36, 64, 3), np.uint8))[1].tobytes())
    write_overview(run, target)
    picture = cv2.imread(str(target))
    assert picture is not None and picture.shape[1] > 2 * picture.shape[0]


def test_the_report_says_what_was_learnt_where_and_what_was_decided(run: Path) -> None:
    (run / "agent.jsonl").unlink()
    journal = Journal(run)
    journal.begin(instruction="", shots=4, held_out_shots=2, seed=0, planner="offline")
    for record in ShotLog(run / "shots.jsonl").read():
        role = HELD_OUT if record.shot_id in ("s2", "s3") else EXPLORE
        after = {b.ball_id: b.position for b in record.after}
        gone = np.array([not b.in_play for b in record.after], float)
        rest, covariance = np.array([after[b] + 0.01 for b in BALLS]), np.tile(np.eye(2) * 1e-4, (3, 1, 1))
        expected = Expectation(BALLS, rest, covariance, gone, {"roll": 1.0, "west south": 0.5})
        stated = residual(record, expected, 0.0)
        journal.write(
            "decision",
            what="shot",
            shot=asdict(record.commanded),
            role=role,
            revision=0,
            reason="teaches most",
            expected=expected.to_dict(),
            gain_nat=0.7,
        )
        journal.write(
            "outcome",
            what="shot",
            status="observed",
            message="",
            struck=True,
            usable=True,
            rest_error_m=0.01,
            residual=stated.to_dict(),
            unfitted={"rest_error_m": 0.2},
        )
    drop = Judgement(Action.DROP, "s1 is far off", {"error_m": 0.3, "plan": {"explore_left": 0}}, "s1")
    journal.write("decision", what="judgement", **drop.to_dict())
    found = learnt(read_lines(run / "agent.jsonl"), ShotLog(run / "shots.jsonl").read())
    assert found is not None
    roll = next(lesson for lesson in found.lessons if lesson.trait == "roll")
    # 1 cm off along both axes with 1 cm stated for each: one squared deviation per degree of freedom.
    assert (roll.shots, roll.gain) == (2, pytest.approx(1.4))
    assert (roll.level, roll.level_after) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.0, abs=0.01))
    assert (roll.error, roll.error_after) == (pytest.approx(0.2), pytest.approx(0.01))
    page = write_report(run).read_text()
    assert page.count("<svg") == 5 and "What was learnt where" in page
    assert "100% of" in page and "within the stated 95 % region" in page
    assert "drop a shot" in page and "s1 is far off" in page and ">dropped<" in page
