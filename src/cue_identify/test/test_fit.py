"""Fits of the closed-form fake: what it says of parameters, failures, luck and budgets."""

from dataclasses import replace

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import BallTrack, ShotRecord, Stroke
from cue_core.table import TableModel
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.replay import TwinSimulator
from cue_identify.store import EstimateStore
from cue_sim.config_files import config_file
from cue_sim.twin import Twin

SMALL = TableModel.load(config_file("tables", "small"))
ORDER = list(PARAMETERS)
STRAIGHT = ("sliding_friction", "rolling_friction", "tip_restitution")


def truth(**changes):
    values = nominal_values()
    for name, value in changes.items():
        values[ORDER.index(name)] = value
    return values


HIDDEN = truth(sliding_friction=0.29, rolling_friction=0.0065, tip_restitution=0.52)


def fit(simulator, records, request=None, present=None, threads=1, **more):
    return Fitter(simulator, FitConfig(threads=threads)).fit(records, request or FitRequest(), present, **more)


@pytest.fixture
def records(fake_simulator, make_straight_records):
    return make_straight_records(fake_simulator(), HIDDEN, 6)


@pytest.fixture
def outcome(fake_simulator, records):
    return fit(fake_simulator(), records)


def test_straight_rolls_give_back_their_parameters_and_nothing_of_cushions(outcome):
    """FAULTS S01: what the shots say nothing about is told, and stays at its start."""
    estimate = outcome.estimate
    for name in STRAIGHT:
        i = ORDER.index(name)
        assert estimate.identifiable[i], name
        assert abs(estimate.values[i] - HIDDEN[i]) < max(4 * estimate.stddevs[i], 0.02 * HIDDEN[i]), name
    for name in ("cushion_restitution", "cushion_friction", "ball_restitution", "ball_friction"):
        i = ORDER.index(name)
        assert not estimate.identifiable[i] and not estimate.frozen[i], name
        assert estimate.values[i] == pytest.approx(PARAMETERS[name].nominal, abs=1e-6)
        assert estimate.stddevs[i] > 0.2 * (PARAMETERS[name].maximum - PARAMETERS[name].minimum)
    assert (
        estimate.frozen[ORDER.index("spinning_deceleration")]
        and estimate.stddevs[ORDER.index("spinning_deceleration")] == 0
    )
    assert outcome.promoted and outcome.faults == 0 and set(estimate.shot_ids) == {f"shot-{i}" for i in range(6)}


def test_c05_both_costs_of_the_winner_are_told(outcome):
    """FAULTS C05."""
    assert np.isfinite(outcome.sampled_cost)
    assert outcome.rescored_cost < 0.5 < outcome.start_cost
    assert outcome.history[0]["stage"] == "first contact"
    assert {"promoted", "reason", "sampled_cost", "rescored_cost", "history", "seed"} <= outcome.details().keys()


def test_a_true_value_beyond_the_bounds_is_flagged(fake_simulator, make_straight_records):
    records = make_straight_records(fake_simulator(), truth(rolling_friction=0.05), 4)
    estimate = fit(fake_simulator(), records, FitRequest(parameters=STRAIGHT)).estimate
    assert estimate.at_bound[ORDER.index("rolling_friction")]


def test_c02_a_twin_that_ignores_its_parameters_gives_no_information(fake_simulator, records):
    """FAULTS C02, M06: a flat objective is no answer, and costs next to nothing."""
    deaf = fake_simulator(deaf=True)
    with pytest.raises(FitError) as caught:
        fit(deaf, records)
    assert caught.value.code is FitCode.NO_INFORMATION and deaf.simulated < 100


def test_parameters_without_effect_give_no_information(fake_simulator, records):
    with pytest.raises(FitError, match="cushion_friction") as caught:
        fit(fake_simulator(), records, FitRequest(parameters=("cushion_friction",)))
    assert caught.value.code is FitCode.NO_INFORMATION


def test_m08_failed_samples_score_worst_and_are_counted(fake_simulator, records):
    """FAULTS M08: half of the range fails, from a step beyond the start; the fit finds its way and says how often."""
    broken = fake_simulator(
        faulty=lambda values: "not finite" if values[ORDER.index("tip_restitution")] > 0.7305 else None
    )
    outcome = fit(broken, records)
    assert outcome.faults > 0
    assert outcome.estimate.values[ORDER.index("tip_restitution")] == pytest.approx(0.52, abs=0.03)


def test_a_twin_that_always_fails_is_told(fake_simulator, records):
    with pytest.raises(FitError, match="not finite") as caught:
        fit(fake_simulator(faulty=lambda values: "not finite"), records)
    assert caught.value.code is FitCode.TWIN_FAULT


def test_a_shot_that_nothing_explains_is_left_out_with_the_reason(fake_simulator, make_straight_records):
    records = make_straight_records(fake_simulator(), HIDDEN, 8)
    track = records[1].tracks[0]
    kinked = track.position + np.where(track.time > 0.2, 0.15 * (track.time - 0.2), 0.0)[:, None] * [1.0, -1.0]
    records[1] = replace(records[1], tracks=(replace(track, position=kinked),))
    outcome = fit(fake_simulator(), records, FitRequest(parameters=STRAIGHT))
    assert "unexplained" in outcome.excluded["shot-1"] and len(outcome.excluded) == 1
    assert "shot-1" not in outcome.estimate.shot_ids
    np.testing.assert_allclose(outcome.estimate.values, HIDDEN, rtol=0.05)


@pytest.mark.parametrize(("gap", "told"), [(0.0, True), (0.0015, True), (0.004, False)])
def test_b04_a_blow_through_frozen_balls_is_doubtful(make_pair_record, gap, told):
    reason = TwinSimulator(SMALL, (0, 1, 3)).why_doubtful(make_pair_record(gap, moved=(0, 1, 3)))
    assert reason == ("balls 1 and 3 touched when they were struck" if told else "")
    # a pair that nobody touched is no concern
    assert TwinSimulator(SMALL, (0, 1, 3)).why_doubtful(make_pair_record(gap, moved=(0,))) == ""


def test_b04_doubtful_shots_neither_fit_nor_judge(fake_simulator, make_straight_records):
    simulator = fake_simulator()
    records = make_straight_records(simulator, HIDDEN, 6)
    simulator.doubts = {"shot-1": "balls 1 and 3 touched", "shot-5": "balls 1 and 3 touched"}
    outcome = fit(simulator, records, FitRequest(parameters=STRAIGHT))
    assert set(outcome.excluded) == {"shot-1", "shot-5"}
    assert not {"shot-1", "shot-5"} & set(outcome.estimate.shot_ids)


@pytest.fixture
def make_pair_record():
    """Return a function that makes the record of a shot at balls 1 and 3, ``gap`` [m] apart."""

    def make(gap, moved):
        places = {0: (-0.3, 0.0), 1: (0.0, 0.0), 3: (2 * SMALL.ball_radius + gap, 0.0)}
        before = tuple(BallState(ball, np.array(place)) for ball, place in places.items())
        way, spread = np.zeros((2, 2)), np.zeros((2, 2, 2))
        tracks = tuple(BallTrack(ball, np.array([0.0, 1.0]), way, spread) for ball in moved)
        return ShotRecord("pair", 0, None, Stroke(1.0, 0.0), 0.0, before, before, tracks)

    return make


def test_m06_a_parameter_that_the_twin_does_not_use_is_refused_by_name(monkeypatch, records):
    """Nudged at start-up, on the real twin: as if its model ignored one of the parameters asked for."""
    twin = TwinSimulator(SMALL, (0, 1))
    assert twin.idle(ORDER) == ()
    k = ORDER.index("ball_friction")
    simulate_batch = Twin.simulate_batch

    def ignoring(self, starts, parameters, *args, **kwargs):
        values = np.array(parameters)
        values[..., k] = nominal_values()[k]
        return simulate_batch(self, starts, values, *args, **kwargs)

    monkeypatch.setattr(Twin, "simulate_batch", ignoring)
    with pytest.raises(FitError, match="does not use ball_friction:") as caught:
        fit(twin, records, FitRequest(parameters=("sliding_friction", "ball_friction")))
    assert caught.value.code is FitCode.NO_INFORMATION


def test_m02_the_estimate_keeps_the_step_it_was_fitted_with(fake_simulator, records):
    simulator = fake_simulator()
    simulator.largest_step = 0.0123
    estimate = fit(simulator, records, FitRequest(parameters=STRAIGHT)).estimate
    assert estimate.largest_step == 0.0123
    assert ParameterEstimate.from_dict(estimate.to_dict()).largest_step == 0.0123


def test_unknown_parameters_are_refused(fake_simulator, records):
    with pytest.raises(FitError, match="rolling_friction") as caught:
        fit(fake_simulator(), records, FitRequest(parameters=("slime",)))
    assert caught.value.code is FitCode.UNKNOWN_PARAMETER


@pytest.mark.parametrize("seed", [0, 3])
def test_a_seed_gives_one_answer(fake_simulator, records, seed):
    """FAULTS C03."""
    request = FitRequest(seed=seed, parameters=STRAIGHT)
    first, second = fit(fake_simulator(), records, request), fit(fake_simulator(), records, request, threads=8)
    np.testing.assert_array_equal(first.estimate.values, second.estimate.values)
    np.testing.assert_array_equal(first.estimate.covariance, second.estimate.covariance)
    assert (first.evaluations, first.reason) == (second.evaluations, second.reason)


def test_the_budget_is_kept_and_counted(fake_simulator, records):
    simulator = fake_simulator()
    outcome = fit(simulator, records, FitRequest(evaluations=1000))
    assert outcome.evaluations == simulator.simulated < 1500


def test_a_fit_stops_when_asked_and_tells_how_far_it_got(fake_simulator, records):
    told = []

    def stop():
        return FitError(FitCode.CANCELED, "canceled") if told and told[-1].evaluations > 300 else None

    with pytest.raises(FitError) as caught:
        fit(fake_simulator(), records, stop=stop, report=told.append)
    assert caught.value.code is FitCode.CANCELED
    assert told[-1].evaluations < 400 and told[-1].stage and told[-1].seconds_left > 0


def test_a_refit_starts_from_the_promoted_estimate_and_is_cheaper(fake_simulator, make_straight_records, outcome):
    simulator = fake_simulator()
    more = make_straight_records(simulator, HIDDEN, 8)
    again = fit(simulator, more, present=replace(outcome.estimate, revision=1))
    assert again.promoted and "revision 1" in again.reason
    assert again.evaluations / 8 < outcome.evaluations / 6  # for each shot
    np.testing.assert_allclose(again.estimate.values, HIDDEN, rtol=0.05, atol=2e-3)


def test_a_worse_fit_is_not_promoted(fake_simulator, make_straight_records, records):
    """FAULTS S03: the judges come from another table than the shots that are fitted."""
    other = [
        replace(r, shot_id=f"other-{i}", index=50 + i)
        for i, r in enumerate(make_straight_records(fake_simulator(), nominal_values(), 3, seed=9))
    ]
    judges = tuple(r.shot_id for r in other)
    outcome = fit(fake_simulator(), [*records, *other], FitRequest(held_out_shot_ids=judges))
    assert not outcome.promoted and outcome.reason.startswith("not promoted")
    assert not set(judges) & set(outcome.estimate.shot_ids)
    assert outcome.estimate.held_out_error > 0.02


def test_a_store_numbers_estimates_and_remembers_the_promoted_one(tmp_path, outcome):
    store = EstimateStore(tmp_path)
    assert store.present.revision == 0 and not (tmp_path / "estimates.jsonl").exists()
    assert store.add(outcome).revision == 1
    assert store.add(replace(outcome, promoted=False)).revision == 2
    again = EstimateStore(tmp_path)
    assert again.present.revision == 1
    np.testing.assert_array_equal(again.present.values, outcome.estimate.values)
    assert again.add(outcome).revision == 3


def test_a_store_without_a_folder_keeps_the_session_in_memory(outcome):
    store = EstimateStore("")
    assert store.add(outcome).revision == store.present.revision == 1
    assert ParameterEstimate.nominal().revision == 0
