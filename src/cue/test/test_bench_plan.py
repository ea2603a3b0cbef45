"""``cue bench plan``: its scoring, its figures on made-up sessions, and the whole of it in small."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.harness import BenchmarkError, Options, Result  # noqa: E402
from benchmarks.plan import BENCHMARK, figures, plan  # noqa: E402
from benchmarks.plan.conditions import LAYOUTS, PHYSICS, Condition, hidden_twin  # noqa: E402
from cue.cli import main  # noqa: E402
from cue_core.parameters import ParameterEstimate  # noqa: E402


def session(planner, errors, seed=0, layout="two", **more):
    shot = {
        "role": "explore",
        "revision": 1,
        "speed": 0.5,
        "pocketed": [],
        "stated": [1],
        "inside": [1],
        "radius_m": [0.02],
    }
    shots = [{**shot, "pockets": [[0.02, 0]], "error_m": 0.01} for _ in errors[1:]]
    base = {"layout": layout, "physics": PHYSICS[0], "seed": seed, "planner": planner, "budget": 14, "ended": "budget"}
    base |= {"ended_early": False, "broke": False, "explored": len(errors) - 1, "rest_m": errors, "median_m": errors}
    base |= {"refused": 0, "unusable": 0, "session_s": 60.0, "decision_s": [1.0], "fit_s": [2.0], "shots": shots}
    return {**base, "typical_pockets": [[0.5, 1], [0.0, 0]], **more}


def assembled(sessions):
    results = {f"shots_ratio/{s['planner']}.{s['layout']}.{s['physics']}.{s['seed']}": Result(s) for s in sessions}
    results["decision_s/offline.spread.slow_napped.0"] = Result({"wall_s": [5.0, 6.0], "processor_s": [9.0, 10.0]})
    return BENCHMARK.assemble(Options(), results)


def test_the_truth_scores_nothing_and_what_is_not_known_does():
    condition = Condition("pack", "slow_napped", 3)
    held_out, world = condition.held_out(8), condition.world()
    nominal = ParameterEstimate.nominal()
    truth = replace(nominal, values=world.parameters)
    assert held_out.errors(truth).mean() < 0.01 < 0.05 < held_out.errors(nominal).mean()  # the cushions' offsets remain
    assert not any(path.rest_pocketed.any() for path in held_out.truth)
    again = Condition("pack", "slow_napped", 3).held_out(8)
    assert [s.azimuth for s in held_out.shots] == [s.azimuth for s in again.shots]
    assert Condition("line", "slow_napped", 3).held_out(2).shots[0].azimuth != held_out.shots[0].azimuth


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_condition_can_be_laid_out_and_tables_do_not_depend_on_it(layout):
    worlds = [Condition(layout, physics, seed).world() for physics in PHYSICS for seed in (0, 1, 2)]
    assert len({w.positions.tobytes() for w in worlds}) == 9
    np.testing.assert_array_equal(worlds[0].parameters, Condition("two", PHYSICS[0], 0).world().parameters)
    twin = hidden_twin(worlds[-1])
    assert twin.extras["cloth_law"] == "patched"


def test_figures_against_their_targets(tmp_path):
    slow, quick = [0.1, 0.1, 0.1, 0.05, 0.05, 0.01, 0.02], [0.1, 0.1, 0.012, 0.01]
    both = [session("offline", quick, s) for s in range(3)] + [session("random", slow, s) for s in range(3)]
    found = assembled(both)
    data, rows = found.data, {row.key: row for row in found.rows}
    assert data["shots_ratio"] == pytest.approx(2 / 5) and rows["shots_ratio"].verdict == "met"
    assert "3 of 45 sessions: a part of the benchmark each; fewer shots in 3" in rows["shots_ratio"].note
    assert data["decision_s"] == 5.5 and data["ended_early"] == 0 and data["cue_pocketed"] == 0.0
    assert data["coverage95"].startswith("not measured: no session is that long")
    assert data["brier"]["typical"] == pytest.approx(0.125)
    BENCHMARK.plot(data, tmp_path / "some.png")
    assert len(BENCHMARK.sheets(data)["curves"]) == 3 * (len(slow) + len(quick))

    never = session("offline", [0.1] * 15, ended_early=True)
    never["shots"][3]["pocketed"], never["shots"][12]["stated"] = [0, 5], [0, 0, 1]
    worse = assembled([never, session("random", slow)])
    rows = {row.key: row for row in worse.rows}
    assert worse.data["shots_ratio"] == 3.0 and "1 never get there and count as 15" in rows["shots.offline"].note
    assert worse.data["cue_pocketed"] == pytest.approx(1 / 14) and worse.data["coverage95"] == pytest.approx(4 / 6)
    assert {rows[k].verdict for k in ("shots_ratio", "cue_pocketed")} == {"missed"}
    assert rows["ended_early"].value == 1 and "two.slow_napped.0 after 14" in rows["ended_early"].note
    nothing = BENCHMARK.assemble(Options(), {"shots_ratio/x": Result(problem="it broke")})
    assert {row.verdict for row in nothing.rows} == {"not measured"} and nothing.data["shots_ratio"].endswith(
        "it broke"
    )
    BENCHMARK.plot(nothing.data, tmp_path / "none.png")


def test_an_error_that_comes_back_counts_until_it_stays():
    back = session("offline", [0.1, 0.01, 0.02, 0.01])
    assert (figures.shots_until(back), figures.shots_to_stay(back)) == (1, 3)
    assert figures.shots_to_stay(session("offline", [0.1, 0.01, 0.02])) == 15


def test_parts_that_are_asked_for():
    options = Options(extra={"layouts": "two,line", "seeds": "1", "planners": "random"})
    wanted = [p.name for p in plan.make_parts(options) if plan.chosen(options, p)]
    assert len(wanted) == 2 * 3 + 3 and wanted[0] == "shots_ratio/random.two.slow_napped.1"
    everything = plan.make_parts(Options())
    assert sum(plan.chosen(Options(), p) for p in everything) == 90 + 3
    assert [p.fingerprint("x") for p in plan.make_parts(options)] == [p.fingerprint("x") for p in everything]
    with pytest.raises(BenchmarkError, match="--layouts knows no 'moon', only pack, spread"):
        plan.make_parts(Options(extra={"layouts": "moon"}))


def test_the_whole_in_small(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.run.hash_files", lambda paths: "the code stands still")
    target = tmp_path / "plan.json"
    words = ["bench", "plan", "--quick", "--planners", "offline", "--only", "shots_ratio", "--json", str(target)]
    assert main(words) == 0
    data = json.loads(target.read_text())
    (played,) = data["detail"]["sessions"]
    assert played["explored"] == len(played["rest_m"]) - 1 > 0 and played["rest_m"][0] > 0.03
    assert data["shots_ratio"].startswith("not measured") and 0 <= data["any_pocketed"] <= 1
    assert "1 of 45 sessions: a part of the benchmark" in target.with_suffix(".csv").read_text()
    assert target.with_suffix(".curves.csv").exists() and target.with_suffix(".html").exists()
    (line,) = target.with_suffix(".parts.jsonl").read_text().splitlines()
    assert main(words) == 0 and target.with_suffix(".parts.jsonl").read_text().splitlines() == [line]
