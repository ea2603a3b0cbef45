"""``cue bench real``: its words, its figures and what it says where no recording is."""

import sys
from pathlib import Path

import pytest

from cue.cli import main

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.harness import BenchmarkError, Options, Result  # noqa: E402
from benchmarks.real import BENCHMARK  # noqa: E402
from benchmarks.real.plan import score  # noqa: E402


def summary(median, mean=70.0):
    counts = {"0": {"tracks": 20, "median_mm": 4.0}, "1": {"tracks": 20, "median_mm": 20.0}}
    return {"tracks": 20, "median_mm": median, "mean_mm": mean, "last_median_mm": 150.0, "by_rebounds": counts}


def result(first, second):
    track = {"shot": 1, "ball": "red", "travel_m": 2.0, "rebounds": 1, "mean_mm": first, "last_mm": 9.0}
    track |= {"mode_b_mm": 30.0, "seen": [[0.0, 0.0], [0.5, 0.2]], "predicted": [[0.0, 0.0], [0.5, 0.3]]}
    halves = [
        {"scored": summary(m), "mode_b": summary(m / 2), "known": summary(40.0)}
        | {"unfitted": summary(150.0), "mirror": summary(600.0), "tracks": [track]}
        for m in (first, second)
    ]
    median = (first + second) / 2
    keys = {"median_mm": median, "mode_b_mm": median / 2, "median_95_mm": [50, 90], "mode_b_95_mm": [30, 60]}
    return Result(
        keys | {"medians_mm": [first, second], "mode_b_medians_mm": [first / 2, second / 2], "halves": halves}
    )


def test_figures_are_means_of_both_halves_against_the_targets(tmp_path):
    results = {"median_mm/coulomb": result(60.0, 80.0), "median_mm/stronge": result(100.0, 110.0)}
    assembled = BENCHMARK.assemble(Options(), results)
    data, rows = assembled.data, {row.key: row for row in assembled.rows}
    assert (data["median_mm"], data["mode_b_mm"]) == (70.0, 35.0)
    assert data["baselines"] == {"unfitted": 150.0, "mirror": 600.0}
    assert data["by_rebounds"]["1"] == {"tracks": 40, "median_mm": 20.0, "mode_b_mm": 20.0}
    assert data["laws"]["stronge"]["median_mm"] == 105.0
    assert rows["median_mm"].verdict == rows["mode_b_mm"].verdict == "met"
    assert "halves 60 and 80 mm, 20 and 20 tracks, 95 % within 50 and 90 mm" in rows["median_mm"].note
    BENCHMARK.plot(data, tmp_path / "full.png")
    missed = BENCHMARK.assemble(Options(), {"median_mm/coulomb": result(80.0, 72.0)})
    assert {row.key: row.verdict for row in missed.rows}["median_mm"] == "missed"


def test_where_no_recording_is_it_says_so(tmp_path):
    parts = BENCHMARK.parts(Options(root=tmp_path / "checkout"))
    assert [part.name for part in parts][-1] == "median_mm/coulomb"
    with pytest.raises(Exception, match="no recorded shots are here; cue bench real FILE names them"):
        score(**parts[-1].arguments)
    assembled = BENCHMARK.assemble(Options(), {"median_mm/coulomb": Result(problem="no recorded shots are here")})
    assert assembled.data["median_mm"] == "not measured: no recorded shots are here"
    assert {row.verdict for row in assembled.rows} == {"not measured"}
    BENCHMARK.plot(assembled.data, tmp_path / "empty.png")


def test_the_file_is_an_argument_of_its_own(tmp_path, capsys):
    file = tmp_path / "shots.jsonl"
    file.write_text("{}\n")
    assert BENCHMARK.parts(Options(extra={"real_shots": str(file)}))[0].arguments["content"]
    with pytest.raises(BenchmarkError, match="does not exist"):
        BENCHMARK.parts(Options(extra={"real_shots": str(tmp_path / "none.jsonl")}))
    for words, problem in (
        (["real", str(tmp_path / "none.jsonl")], "none.jsonl does not exist"),
        (["real", str(file), "--real-shots", str(file)], "both name recorded shots"),
        (["track", str(file)], "benchmark track reads no file"),
    ):
        assert main(["bench", *words, "--json", str(tmp_path / "out.json")]) == 2
        assert problem in capsys.readouterr().err
