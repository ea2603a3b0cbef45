"""Outlooks: a designed ensemble tells what a shot may do and what it teaches."""

from dataclasses import replace

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.information import after, expected_gain
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.outlook import Unknowns, _design, outlook, outlooks, spread_of
from cue_sim.twin import Twin

TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
NAMES = list(PARAMETERS)
QUIET = Unknowns(azimuth=1e-4, speed=1e-4, played_azimuth=0.0, played_speed=0.0, place=1e-6, strange=0.0)


def estimate_with(share: float = 0.02, names: tuple[str, ...] = ("rolling_friction", "cushion_restitution")):
    nominal = ParameterEstimate.nominal()
    chosen = np.array([name in names for name in NAMES])
    stddev = np.array([share * (p.maximum - p.minimum) for p in PARAMETERS.values()]) * chosen
    return replace(nominal, revision=1, covariance=np.diag(stddev**2), frozen=~chosen)


def balls_at(*places: tuple[int, float, float]) -> list[BallState]:
    return [BallState(i, np.array([x, y]), np.eye(2) * 1e-8) for i, x, y in places]


@pytest.fixture(scope="module")
def twin():
    return Twin(TABLE, (0, 1))


def test_the_design_is_orthogonal_and_repeats():
    z = _design(7)
    np.testing.assert_allclose(z.T @ z, len(z) * np.eye(7), atol=1e-9)
    np.testing.assert_array_equal(z, _design(7))


def test_a_long_roll_teaches_rolling_and_nothing_of_cushions_it_does_not_meet(twin):
    estimate = estimate_with()
    seen = outlook(twin, balls_at((0, -0.4, 0.1), (1, 0.4, -0.2)), Shot("roll", 0.22, 0.0), estimate, QUIET)
    assert seen.contacts == (0, 0)
    assert seen.names == ("rolling_friction", "cushion_restitution")
    _, covariance = spread_of(estimate)
    before, behind = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(after(seen.information, covariance)))
    assert behind[0] < 0.2 * before[0]
    assert behind[1] > 0.95 * before[1]


def test_information_is_that_of_the_closed_form_of_a_roll(twin):
    """A ball that rolls from known speed v to rest goes x = 7 v^2 / (10 mu g): dx/dmu = -x/mu, seen with sigma."""
    estimate = estimate_with(0.003, ("rolling_friction",))
    balls = balls_at((0, -0.4, 0.1), (1, 0.4, -0.2))
    eyes = replace(QUIET, azimuth=0.0, speed=0.0, place=0.0, track=1e-5, bias=1e-3)
    seen = outlook(twin, balls, Shot("roll", 0.22, 0.0), estimate, eyes)
    reach = float(seen.mean.rest_positions[0, 0] + 0.4)
    friction = PARAMETERS["rolling_friction"].nominal
    # sliding at first takes a few per cent of the way, whatever the rolling friction
    assert seen.sensitivity[0, 0] == pytest.approx((reach / friction) ** 2, rel=0.15)
    assert seen.information[0, 0] > seen.sensitivity[0, 0] / 1e-6  # samples on the way add to the rest position


def test_errors_of_the_stroke_and_chaos_take_information_away(twin):
    estimate = estimate_with()
    _, covariance = spread_of(estimate)
    balls = balls_at((0, -0.3, 0.0), (1, 0.1, 0.0))
    shot = Shot("through a ball", 0.8, 0.02)
    clear = outlook(twin, balls, shot, estimate, QUIET)
    rough = outlook(twin, balls, shot, estimate, replace(QUIET, azimuth=0.01, speed=0.05, place=1e-3))
    assert clear.contacts[0] >= 1
    assert expected_gain(rough.information, covariance) < 0.6 * expected_gain(clear.information, covariance)
    assert rough.scatter > 5 * clear.scatter
    assert np.all(np.linalg.eigvalsh(rough.information) > -1e-6 * np.abs(rough.information).max())


def test_what_the_arm_measures_of_a_stroke_moves_the_balls_but_takes_no_information_away(twin):
    estimate = estimate_with()
    _, covariance = spread_of(estimate)
    balls = balls_at((0, -0.4, 0.1), (1, 0.4, -0.2))
    shot = Shot("roll", 0.25, 0.0)
    sure = outlook(twin, balls, shot, estimate, QUIET)
    seen = outlook(twin, balls, shot, estimate, replace(QUIET, played_azimuth=0.005, played_speed=0.02))
    unseen = outlook(twin, balls, shot, estimate, replace(QUIET, azimuth=0.005, speed=0.02))
    spread = [float(np.trace(o.rest_covariance[0])) for o in (sure, seen, unseen)]
    assert spread[1] > 1.05 * spread[0] and spread[1] == pytest.approx(spread[2], rel=0.01)
    gains = [expected_gain(o.information, covariance) for o in (sure, seen, unseen)]
    assert gains[1] > 0.9 * gains[0] and gains[2] < 0.8 * gains[0], gains


def test_terms_that_were_not_fitted_widen_what_is_expected_and_take_information_away(twin):
    estimate = estimate_with()
    _, covariance = spread_of(estimate)
    balls = balls_at((0, -0.3, 0.0), (1, 0.1, 0.15))
    shot = Shot("cushions", 0.7, -0.9)
    plain = outlook(twin, balls, shot, estimate, QUIET)
    strange = outlook(twin, balls, shot, estimate, replace(QUIET, strange=0.25))
    assert plain.contacts[1] >= 1
    assert np.trace(strange.rest_covariance[0]) > 1.02 * np.trace(plain.rest_covariance[0])
    assert strange.scatter > 2 * plain.scatter
    assert expected_gain(strange.information, covariance) < 0.9 * expected_gain(plain.information, covariance)


def test_the_ensemble_tells_the_risk_of_a_pocket(twin):
    pocket = max(TABLE.pockets, key=lambda p: p.position[0] + p.position[1])
    start = np.array([0.1, 0.0])
    azimuth = float(np.arctan2(*(np.array(pocket.position) - start)[::-1]))
    at_it = outlook(twin, balls_at((0, *start), (1, -0.4, -0.2)), Shot("in", 1.0, azimuth), estimate_with())
    beside = outlook(twin, balls_at((0, *start), (1, -0.4, -0.2)), Shot("out", 0.3, 1.2), estimate_with())
    assert at_it.pocket_probability[0] > 0.5
    assert beside.pocket_probability[0] < 0.1


def test_many_shots_are_the_same_as_each_alone_for_any_number_of_threads(twin):
    estimate, balls = estimate_with(), balls_at((0, -0.3, 0.0), (1, 0.1, 0.02))
    shots = [Shot(f"s{i}", 0.4 + 0.1 * i, 0.3 * i) for i in range(4)]
    together = outlooks(twin, balls, shots, estimate, threads=2)
    for shot, one in zip(shots, together, strict=True):
        alone = outlook(twin, balls, shot, estimate)
        np.testing.assert_array_equal(one.information, alone.information)
        np.testing.assert_array_equal(one.rests, alone.rests)


def test_before_any_fit_the_priors_are_what_is_unknown():
    chosen, covariance = spread_of(ParameterEstimate.nominal())
    assert [NAMES[i] for i in chosen] == [p.name for p in PARAMETERS.values() if p.fitted]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), [p.prior_stddev for p in PARAMETERS.values() if p.fitted])


def test_before_any_fit_no_member_rolls_for_ever(twin):
    balls = balls_at((0, -0.3, 0.0), (1, 0.1, 0.02))
    seen = outlook(twin, balls, Shot("s", 0.5, 0.3), ParameterEstimate.nominal())
    assert seen.faults == 0
