"""``cue bench fit``: its scoring, the methods it compares with on a toy, and that each figure can be missed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.fit import figures, plan, recover, rivals, structure, whole, worlds  # noqa: E402
from benchmarks.fit.plot import plot  # noqa: E402
from benchmarks.harness import Options, Result  # noqa: E402
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values  # noqa: E402
from cue_identify.replay import TwinSimulator  # noqa: E402
from cue_identify.selection import base_parameters  # noqa: E402

KEYS = {
    "recovery": {"rest_mean_m", "reduction", "coverage", "wall_s"},
    "noisy": {"rest_mean_m"},
    "terms": {"hit_rate", "false_rate"},
    "residual": {"gain", "harm"},
}
PLAIN_KEYS = {"speedup_vs_cma", "speedup_vs_sysid", "refit_s", "cancel_s"}


@pytest.fixture(scope="module")
def world():
    return worlds.draw_world(3, 0)


def test_the_truth_scores_zero_and_the_textbook_does_not(world):
    held_out = worlds.HeldOut(world, worlds.stream(3, 0, "test"), 12)
    errors = held_out.errors(world.values)
    assert errors.shape == (12,)
    assert held_out.error(world.values) < 1e-4  # finer steps are all that differs, pocketed balls included
    assert held_out.error(nominal_values()) > 0.05


def test_worlds_differ_by_index_and_shots_by_purpose():
    one, other = worlds.draw_world(3, 0), worlds.draw_world(3, 1)
    assert not np.array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.values, worlds.draw_world(3, 0).values)
    assert worlds.stream(3, 0, "a").random() != worlds.stream(3, 0, "b").random()


def test_lost_samples_are_missing_in_the_tracks(world):
    noise = replace(worlds.NOISES["noisy"], lost=0.3)
    every, some = (
        sum(len(t.time) for r in world.shots(worlds.stream(3, 0, "t"), 1, n) for t in r.tracks)
        for n in (replace(noise, lost=0.0), noise)
    )
    assert 0.5 * every < some < 0.9 * every


@pytest.mark.parametrize("effect", [*structure.EFFECTS, structure.PLAIN])
def test_each_effect_is_one_that_the_usual_parameters_lack(effect):
    world = structure.draw(3, effect, 0)
    bare = worlds.draw_world(3, structure.place(effect, 0), base_parameters())
    held_out = worlds.HeldOut(world, worlds.stream(3, 0, effect), 8)
    without = held_out.error(bare.values, TwinSimulator(worlds.table(), worlds.BALLS))
    assert (without > 1e-3) == (effect != structure.PLAIN)


def test_a_hit_is_the_right_term_and_on_a_plain_table_none():
    assert structure.is_hit({"right": "tilt", "chosen": ["tilt", "nap"]})
    assert not structure.is_hit({"right": "nap", "chosen": ["tilt"]})
    assert structure.is_hit({"right": "", "chosen": []}) and not structure.is_hit({"right": "", "chosen": ["nap"]})


class Toy:
    """Residuals of an exponential decay at 30 times, two parameters; as :class:`whole.WholeShots` gives them."""

    names = ("height", "rate")
    low, high = np.zeros(2), np.array([3.0, 5.0])
    nominal, scale = np.array([1.0, 1.0]), np.array([0.75, 1.25])
    truth = np.array([2.0, 3.1])

    def __init__(self, limit):
        self.curve = whole.Curve(lambda x: float(np.abs(x - self.truth).max()), 1e-3, limit)
        self.best = np.inf

    def residuals(self, points):
        self.curve.check()
        t = np.linspace(0, 1, 30)
        wave = points[:, :1] * np.exp(-points[:, 1:] * t) - self.truth[0] * np.exp(-self.truth[1] * t)
        return 0.01 * np.stack([wave, 0 * wave], axis=2)

    def costs(self, residuals, clip):
        return np.minimum(np.linalg.norm(residuals, axis=2), clip).mean(axis=1)

    def tell(self, x, cost):
        if cost < self.best:
            self.best = cost
            self.curve.note(x, 0)


@pytest.mark.parametrize("race", [rivals.race_cma, rivals.race_sysid])
def test_the_other_methods_find_the_parameters_of_a_toy(race):
    toy = Toy(limit=20.0)
    state = np.random.get_state()[1].copy()
    race(toy, np.random.default_rng(0))
    assert toy.curve.reached(1e-3) is not None
    np.testing.assert_array_equal(state, np.random.get_state()[1])


def test_the_other_methods_start_again_until_their_time_is_up():
    toy = Toy(limit=0.3)
    toy.curve.target = -1.0
    assert rivals.race_sysid(toy, np.random.default_rng(0))["runs"] > 1


def test_the_clock_stands_still_while_a_method_is_scored(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(whole.time, "perf_counter", lambda: now[0])

    def score(values):
        now[0] += 100.0
        return float(values)

    curve = whole.Curve(score, 0.1, 10.0)
    now[0] = 2.0
    curve.note(np.array(0.5), 7)
    now[0] += 1.0
    assert curve.seconds == 3.0
    curve.check()
    with pytest.raises(whole.TimeIsUpError):
        curve.note(np.array(0.05), 9)
    assert curve.points == [[2.0, 7.0, 0.5], [3.0, 9.0, 0.05]]
    assert curve.reached(0.1) == 3.0 and curve.reached(0.01) is None
    assert curve.stays(0.1) == 3.0 and curve.stays(0.01) is None
    curve.points += [[4.0, 10.0, 0.2], [5.0, 11.0, 0.1], [6.0, 12.0, 0.09]]
    assert curve.stays(0.1) == 5.0 and curve.stays(0.15) == 5.0 and curve.stays(1.0) == 2.0
    now[0] += 20.0
    with pytest.raises(whole.TimeIsUpError):
        curve.check()


def test_whole_shots_cost_least_at_the_truth(world):
    exact = replace(worlds.NOISES["recovery"], rest=1e-6, azimuth=1e-6, speed=1e-6, strike_time=1e-6)
    records = world.shots(worlds.stream(3, 0, "whole"), 3, exact)
    curve = whole.Curve(lambda values: 1.0, 0.0, 60.0)
    shots = whole.WholeShots(TwinSimulator(worlds.table(), worlds.BALLS), records, curve, 1)
    index = [list(PARAMETERS).index(name) for name in shots.names]
    residuals = shots.residuals(np.stack([world.values[index], shots.nominal]))
    truth, textbook = shots.costs(residuals, rivals.CLIP)
    assert truth < 0.2 * textbook
    np.testing.assert_array_equal(shots.full(shots.nominal), nominal_values())


def test_deviations_are_those_of_fitted_parameters():
    start = ParameterEstimate.nominal()
    frozen, covariance = np.ones(len(PARAMETERS), bool), start.covariance.copy()
    frozen[0], covariance[0, 0] = False, 0.01**2
    truth = nominal_values()
    truth[0] += 0.02
    found = recover.parameters(replace(start, frozen=frozen, covariance=covariance), truth)
    assert list(found) == [next(iter(PARAMETERS))]
    assert next(iter(found.values()))["z"] == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("races", "ratios", "never", "value"),
    [
        ([(2.0, 30.0, 40.0), (1.0, None, 12.0)], [15.0, 12.0], [False, True], 13.5),
        ([(2.0, None, 8.0)], [4.0], [True], None),  # it had too little time
        ([(2.0, 8.0, 40.0)], [4.0], [False], 4.0),
        ([(None, 8.0, 40.0)], [0.0], [False], 0.0),
        ([(None, None, 40.0)], [None], [False], None),
    ],
)
def test_a_race_not_ended_gives_a_lower_bound_or_nothing(races, ratios, never, value):
    assert figures.speedups(races) == (ratios, never)
    assert figures.decided(ratios, never) == value


def made_up(good):
    """Return results of every part; all targets are met, or all are missed."""
    fit = {
        "shots": 20, "rest_m": 0.003 if good else 0.04, "rest_median_m": 0.002, "rest_worst_m": 0.1, "unfitted_m": 0.2,
        "wall_s": 9.0 if good else 99.0, "cpu_s": 17.0, "simulations": 20000, "promoted": True, "excluded": {},
        "parameters": {
            "ball_friction": {"true": 0.1, "value": 0.1, "stddev": 0.1, "z": 1.0 if good else 4.0, "identifiable": good}
        },
    }  # fmt: skip
    won = [[1.0, 100.0, 0.02], [2.0, 900.0, 0.008]]
    race = {
        "target_m": 0.01, "limit_s": 24.0, "unfitted_m": 0.2, "cue": {"reached_s": 2.0, "first_s": 2.0, "points": won},
        "cma": {"reached_s": None if good else 3.0, "points": won},
        "sysid": {"reached_s": None, "points": won} if good else {"problem": "not there"},
    }  # fmt: skip
    values = {
        "recovery/world0": fit,
        "noisy/world0": fit,
        "refit_s/world0": {"wall_s": 3.0 if good else 30.0, "before_m": 0.01, "after_m": 0.01},
        "cancel_s/world0": {"seconds": [0.1 if good else 1.0], "moments_s": [1.0]},
        "speedup_vs_cma/world0": race,
        "residual/uneven0": {"without_m": 0.02, "with_m": 0.01 if good else 0.02},
        "residual/plain0": {"without_m": 0.02, "with_m": 0.02 if good else 0.03},
    }
    for effect, right in (*structure.EFFECTS.items(), (structure.PLAIN, "")):
        chosen = ([right] if right else []) if good else ["rolling_slope"]
        values[f"terms/{effect}0"] = {"effect": effect, "right": right, "chosen": chosen}
    return {name: Result(value, seconds=1.0) for name, value in values.items()}


@pytest.mark.parametrize("good", [True, False])
def test_each_figure_can_be_met_and_missed(good, tmp_path):
    assembled = figures.assemble(Options(), made_up(good))
    for group, names in KEYS.items():
        assert names <= set(assembled.data[group])
    assert set(assembled.data) >= PLAIN_KEYS
    judged = {row.key: row.verdict for row in assembled.rows if row.target is not None}
    wanted = "met" if good else "missed"
    assert {key: v for key, v in judged.items() if v != wanted} == {}
    assert len(judged) >= (12 if good else 11)
    if good:
        plot(assembled.data, tmp_path / "fit.png")
        assert (tmp_path / "fit.png").stat().st_size > 10_000
    curves = figures.sheet_of_curves(assembled.data)
    assert {row["method"] for row in curves} == {"cue", "cma", "sysid"} - (set() if good else {"sysid"})


def test_what_was_not_measured_says_why(tmp_path):
    broken = {"terms/tilt0": Result(None, "no term selection")}
    assembled = figures.assemble(Options(quick=True), broken)
    assert assembled.data["terms"]["hit_rate"] == "not measured: no term selection"
    assert assembled.data["refit_s"] == "not measured: left out of this quick run"
    assert {row.verdict for row in assembled.rows if row.target is not None} <= {"not measured"}
    plot(assembled.data, tmp_path / "fit.png")


def test_parts_of_a_whole_run_take_their_times_alone():
    parts = plan.make_parts(Options())
    assert len({part.name for part in parts}) == len(parts)
    assert {key for part in parts for key in part.keys} == {*KEYS, *PLAIN_KEYS}
    for part in parts:
        assert callable(part.resolve())
        assert part.alone == (part.keys.isdisjoint({"terms", "residual"}))
    assert len(plan.make_parts(Options(quick=True))) < 6
