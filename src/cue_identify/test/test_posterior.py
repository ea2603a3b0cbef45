"""Error bars: as wide as the shots disagree, honest about what they leave open, and checked without a formula."""

from dataclasses import replace

import numpy as np
import pytest

from cue_core.parameters import ParameterEstimate, nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_identify.advice import advise, verdicts
from cue_identify.curriculum import CURRICULUM
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.observations import observe
from cue_identify.polish import Linearised, Point, Polish
from cue_identify.posterior import laplace
from cue_identify.replay import Budget, Replayer, TwinSimulator, cue_direction
from cue_identify.space import Space
from cue_identify.synthetic import Noise, record_shot
from cue_identify.uncertainty import bootstrap, profile
from cue_sim.twin import Twin

SMALL = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
STRAIGHT = ("sliding_friction", "rolling_friction", "tip_restitution")
SPACE = Space.of(("sliding_friction", "rolling_friction", "ball_restitution", "cushion_restitution"), nominal_values())
SCALE = CURRICULUM[-1].scale


def random_shots(rng, dispersion, shots=20):
    """Return the optimum, the truth, and the equations of shots whose gradients scatter more than they say."""
    d = len(SPACE.names)
    roots = rng.standard_normal((shots, 3, d)) * 30.0 * rng.uniform(0.3, 3.0, (shots, 1, 1))
    information = np.einsum("nki,nkj->nij", roots, roots)
    truth = np.clip(SPACE.nominal + 0.05 * rng.standard_normal(d), 0.1, 0.9)
    pulls = np.sqrt(dispersion) * np.einsum("nki,nk->ni", roots, rng.standard_normal((shots, 3)))
    precision = np.diag(1.0 / SPACE.prior_stddev**2)
    total = information.sum(axis=0)
    start = SPACE.nominal
    unit = start - np.linalg.solve(precision + total, pulls.sum(axis=0) + total @ (start - truth))
    scores = pulls + information @ (unit - truth)
    lines = Linearised(precision + total, np.zeros(d), np.ones(d, bool), [], [], scores, information)
    return unit, truth, lines


@pytest.mark.parametrize("dispersion", [0.1, 1.0, 5.0])
def test_error_bars_are_as_wide_as_the_errors_whatever_the_samples_claim(dispersion):
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(60):
        unit, truth, lines = random_shots(rng, dispersion)
        posterior = laplace(lines, SPACE, unit)
        errors.append((unit - truth) * SPACE.span / np.sqrt(np.diag(posterior.covariance)))
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) < 1.2
    assert np.mean(np.abs(errors) < 3) > 0.98


def test_a_search_that_was_cut_off_is_as_far_off_as_it_says():
    unit, _, lines = random_shots(np.random.default_rng(2), 1.0)
    away = unit + 0.1
    moved = lines.scores + lines.informations @ (away - unit)
    cut = laplace(replace(lines, scores=moved), SPACE, away)
    assert (np.sqrt(np.diag(cut.covariance)) > 0.09 * SPACE.span).all()
    assert (np.diag(cut.covariance) > 4 * np.diag(laplace(lines, SPACE, unit).covariance)).all()


def test_without_information_the_prior_is_left():
    d = len(SPACE.names)
    nothing = np.zeros((4, d, d))
    lines = Linearised(np.eye(d), np.zeros(d), np.ones(d, bool), [], [], np.zeros((4, d)), nothing)
    posterior = laplace(lines, SPACE, SPACE.nominal)
    np.testing.assert_allclose(
        np.sqrt(np.diag(posterior.covariance)), np.minimum(SPACE.prior_stddev, 12**-0.5) * SPACE.span, rtol=1e-6
    )
    assert not posterior.identifiable.any() and posterior.pairs == ()


@pytest.fixture(scope="module")
def straight():
    """Slow rolls on the small table that meet nothing: replayer, space, shots, optimum and its posterior."""
    simulator = TwinSimulator(SMALL, (0, 1))
    rng = np.random.default_rng(3)
    values = nominal_values()
    records = []
    for i in range(6):
        shot = Shot(f"shot-{i}", float(rng.uniform(0.08, 0.14)), float(rng.uniform(-3, 3)))
        places = {0: rng.uniform(-0.05, 0.05, 2)}
        records.append(record_shot(simulator, values, places, shot, i, rng, Noise(frame_rate=60.0, track=1e-3))[0])
    return (simulator, records)


def optimum(simulator, records, names):
    replayer = Replayer(simulator, Budget(10**6), threads=1)
    space = Space.of(names, nominal_values())
    shots = [observe(record, cue_direction(simulator, record, nominal_values())) for record in records]
    polish = Polish(replayer, shots, space, SCALE, space.nominal, places=True)
    every = np.ones(len(names), bool)
    point, _, base = polish.run(Point.at(space.nominal, shots), every, 12, tolerance=1e-4)
    return replayer, space, shots, point, laplace(polish.linearise(point, base, every), space, point.unit)


def test_s01_straight_rolls_tell_nothing_of_cushions_but_which_shot_would(straight, resting_ball):
    names = (*STRAIGHT, "cushion_restitution", "ball_restitution")
    _, space, _, point, posterior = optimum(*straight, names)
    lying = (resting_ball(0, -0.3, 0.05), resting_ball(1, 0.1, 0.0))
    advice = advise(Twin(SMALL, (0, 1)), lying, estimate_of(space, point.unit, posterior))
    told = dict(zip(space.names, verdicts(space, point.unit, posterior, advice), strict=True))
    for name, shot in (("cushion_restitution", "cushion"), ("ball_restitution", "hit on ball 1")):
        assert not posterior.identifiable[space.names.index(name)]
        assert "not identifiable from these shots" in told[name] and shot in told[name]
        assert advice[name].left < 0.5
    assert "identified" in told["rolling_friction"] and "rolling_friction" not in advice


def estimate_of(space, unit, posterior):
    start, index = ParameterEstimate.nominal(), space.index
    covariance, frozen, identifiable = start.covariance.copy(), start.frozen.copy(), start.identifiable.copy()
    covariance[np.ix_(index, index)] = posterior.covariance
    frozen[index], identifiable[index] = False, posterior.identifiable
    return replace(start, values=space.values(unit), covariance=covariance, frozen=frozen, identifiable=identifiable)


def test_the_bars_agree_with_resampled_shots_and_with_the_profile(straight):
    replayer, space, shots, point, posterior = optimum(*straight, ("sliding_friction", "rolling_friction"))
    sigma = np.sqrt(np.diag(posterior.covariance)) / space.span
    drawn = bootstrap(replayer, shots, point, space, SCALE, 12, np.random.default_rng(0))
    ratio = drawn.std(axis=0) / sigma
    assert (ratio > 0.25).all() and (ratio < 2.5).all(), ratio
    j = space.names.index("rolling_friction")
    sides = [point.unit[j] - 2 * sigma[j], point.unit[j] + 2 * sigma[j]]
    rises = profile(replayer, shots, point, space, SCALE, "rolling_friction", sides) / posterior.dispersion
    np.testing.assert_allclose(rises, 2.0, rtol=0.5)


def test_s01_parameters_that_enter_as_a_product_are_named_as_a_pair(fake_simulator, make_straight_records):
    class Product(fake_simulator):
        """Only the product of two parameters slows the ball."""

        def of(self, values, name):
            if name != "rolling_friction":
                return super().of(values, name)
            other = super().of(values, "ball_friction") / 0.06
            return super().of(values, name) * other

    simulator = Product()
    records = make_straight_records(simulator, nominal_values(), 5)
    names = (*STRAIGHT, "ball_friction")
    _, space, _, point, posterior = optimum(simulator, records, names)
    assert [pair[:2] for pair in posterior.pairs] == [("rolling_friction", "ball_friction")]
    assert posterior.pairs[0][2] < -0.9
    told = dict(zip(space.names, verdicts(space, point.unit, posterior), strict=True))
    assert "hardly told apart from ball_friction" in told["rolling_friction"]


def test_s01_a_true_value_beyond_the_bounds_is_at_its_bound(fake_simulator, make_straight_records):
    values = nominal_values()
    values[1] = 0.05
    records = make_straight_records(fake_simulator(), values, 4)
    _, space, _, point, posterior = optimum(fake_simulator(), records, STRAIGHT)
    told = verdicts(space, point.unit, posterior)[space.names.index("rolling_friction")]
    assert "at its upper bound 0.03" in told and posterior.at_bound[space.names.index("rolling_friction")]


def test_s03_a_log_without_motion_is_no_information(fake_simulator, make_straight_records):
    still = [
        replace(record, tracks=(), flags=("no_motion",))
        for record in make_straight_records(fake_simulator(), nominal_values(), 4)
    ]
    with pytest.raises(FitError) as caught:
        Fitter(fake_simulator(), FitConfig(threads=1)).fit(still, FitRequest())
    assert caught.value.code is FitCode.NO_INFORMATION


def test_s03_a_log_copied_into_both_halves_is_a_leak(fake_simulator, make_straight_records):
    records = make_straight_records(fake_simulator(), nominal_values(), 4)
    copies = [replace(record, shot_id=f"copy-{i}", index=40 + i, strike_time=1e4) for i, record in enumerate(records)]
    request = FitRequest(held_out_shot_ids=tuple(record.shot_id for record in copies))
    with pytest.raises(FitError, match="same data") as caught:
        Fitter(fake_simulator(), FitConfig(threads=1)).fit([*records, *copies], request)
    assert caught.value.code is FitCode.INVALID_GOAL
