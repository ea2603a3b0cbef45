"""Predictions: starts from observed balls, ensembles, information."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_core.balls import BallState, Visibility
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import Shot, Stroke
from cue_core.table import TableModel
from cue_sim.predict import TwinFaultError, predict, sample_parameters, start_from
from cue_sim.predictor import NotReadyError, Predictor, TwinConfig
from cue_sim.twin import Twin

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "small.yaml")
BALLS = (
    BallState(0, np.array([-0.3, 0.0])),
    BallState(3, np.array([0.1, 0.006])),
    BallState(8, np.array([0.3, 0.1]), visibility=Visibility.POCKETED),
)
SHOT = Shot("s1", 0.9, 0.02)


def uncertain(share=0.03):
    estimate = ParameterEstimate.nominal()
    return replace(estimate, revision=4, covariance=np.diag((share * estimate.values) ** 2))


@pytest.fixture(scope="module")
def twin():
    return Twin(TABLE, (0, 3, 8))


def test_the_start_holds_the_observed_balls_and_the_struck_cue_ball():
    start = start_from(BALLS, Stroke(1.0, 0.0), nominal_values(), TABLE)
    assert start.in_play.tolist() == [True, True, False]
    np.testing.assert_array_equal(start.positions[1], [0.1, 0.006])
    assert start.velocities[0] == pytest.approx([1.73, 0])
    assert not start.velocities[1:].any()
    other = start_from(BALLS, Stroke(1.0, 0.0), nominal_values(), TABLE, ball_ids=(8, 3, 1, 0))
    assert other.in_play.tolist() == [False, True, False, True]
    np.testing.assert_array_equal(other.velocities[3], start.velocities[0])


def test_balls_that_do_not_fit_are_refused():
    with pytest.raises(FileFormatError, match="cue ball"):
        start_from(BALLS[1:], Stroke(1.0, 0.0), nominal_values(), TABLE)
    with pytest.raises(FileFormatError, match=r"\[3\] are not in the twin"):
        start_from(BALLS, Stroke(1.0, 0.0), nominal_values(), TABLE, ball_ids=(0, 1))
    with pytest.raises(FileFormatError, match="each may be there once"):
        start_from((*BALLS, BALLS[1]), Stroke(1.0, 0.0), nominal_values(), TABLE)


def test_draws_follow_the_covariance_and_stay_in_bounds():
    estimate = uncertain()
    correlated = estimate.covariance.copy()
    correlated[0, 1] = correlated[1, 0] = 0.8 * np.sqrt(correlated[0, 0] * correlated[1, 1])
    drawn = sample_parameters(replace(estimate, covariance=correlated), 4000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.std(axis=0)[:2], 0.03 * estimate.values[:2], rtol=0.05)
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(0.8, abs=0.03)
    assert (drawn[:, estimate.stddevs == 0] == estimate.values[estimate.stddevs == 0]).all()
    wide = sample_parameters(uncertain(3.0), 500, np.random.default_rng(0))
    assert (wide >= [p.minimum for p in PARAMETERS.values()]).all()
    assert (wide <= [p.maximum for p in PARAMETERS.values()]).all()


def test_no_draw_is_a_bed_on_which_balls_never_rest():
    prior = np.diag([p.prior_stddev**2 if p.fitted else 0.0 for p in PARAMETERS.values()])
    estimate = replace(ParameterEstimate.nominal(), covariance=prior)
    drawn = sample_parameters(estimate, 400, np.random.default_rng(0))
    tilt_x, tilt_y, rolling = (drawn[:, list(PARAMETERS).index(n)] for n in ("tilt_x", "tilt_y", "rolling_friction"))
    share = np.hypot(tilt_x, tilt_y) / rolling
    assert share.max() <= 0.9 + 1e-9 and np.median(share) < 0.5 and np.any(share > 0.89)


def test_an_ensemble_is_repeatable_and_grows_with_the_uncertainty(twin):
    def run(share, threads=1):
        return predict(twin, BALLS, SHOT, uncertain(share), (), 24, np.random.default_rng(3), threads)

    small, large = run(0.01), run(0.05)
    assert np.trace(large.rest_covariance[1]) > 4 * np.trace(small.rest_covariance[1]) > 0
    again = run(0.05, threads=3)
    assert again.rest_mean.tobytes() == large.rest_mean.tobytes()
    assert large.samples == 24
    assert not large.rest_covariance[2].any()  # not in play


def test_the_mean_alone(twin):
    prediction = predict(twin, BALLS, SHOT, uncertain(), np.arange(0, 3, 0.1))
    assert prediction.samples == 0
    np.testing.assert_array_equal(prediction.rest_mean, prediction.mean.rest_positions)
    tracks = prediction.tracks(twin.ball_ids)
    assert [t.ball_id for t in tracks] == [0, 3, 8] and len(tracks[0].time) == 30


def test_a_pocketed_ball_ends_its_track(twin):
    balls = (BallState(0, np.array([0.0, 0.05])), BallState(3, np.array([-0.4, -0.2])))
    prediction = predict(
        twin, balls, Shot("p", 0.8, np.pi / 2), uncertain(), np.arange(0, 3, 0.1), 8, np.random.default_rng(0)
    )
    track = prediction.tracks(twin.ball_ids)[0]
    assert track.pocketed and len(track.time) < 30
    assert prediction.pocket_probability.tolist() == [1.0, 0.0, 0.0]


def test_a_failing_simulation_is_an_error_not_a_prediction(twin):
    wrong = uncertain()
    values = wrong.values.copy()
    values[list(PARAMETERS).index("cushion_restitution")] = 1.6
    with pytest.raises(TwinFaultError, match="energy gain"):
        predict(twin, BALLS, Shot("hard", 2.0, 0.4), replace(wrong, values=values))


def test_the_predictor_says_what_it_lacks():
    core = Predictor(TwinConfig())
    with pytest.raises(NotReadyError, match="ball_states"):
        core.predict([SHOT])
    with pytest.raises(NotReadyError, match="table_info"):
        core.predict([SHOT], BALLS)
    with pytest.raises(UnknownNameError, match="revision"):
        core.predict([SHOT], BALLS, revision=7)


def test_the_predictor_restores_promoted_estimates(tmp_path):
    from cue_core.shot_log import append_line

    for revision, promoted in ((1, True), (2, False), (3, True)):
        estimate = replace(uncertain(), revision=revision)
        append_line(tmp_path / "estimates.jsonl", {**estimate.to_dict(), "promoted": promoted})
    core = Predictor(TwinConfig(run_dir=str(tmp_path)))
    assert core.restore() == 2
    assert sorted(core.revisions) == [0, 1, 3]
    core.set_table(TABLE)
    core.balls = BALLS
    _, used, _ = core.predict([SHOT])
    assert used.revision == 3
    exact, portable = core.export()
    assert exact.exists() and portable.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["estimates.jsonl", "twin.json", "twin.xml"]
