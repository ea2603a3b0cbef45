"""Shots in pieces, and strokes that nobody measured."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.shots import BallTrack, Shot, ShotRecord
from cue_core.table import TableModel
from cue_identify.errors import FitError
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.replay import TwinSimulator
from cue_identify.segments import infer_stroke, segments, with_strokes
from cue_identify.synthetic import Noise, record_shot

TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
FILM = Noise(frame_rate=60.0, track=5e-4)
ORDER = list(PARAMETERS)


@pytest.fixture(scope="module")
def record():
    """The cue ball rolls 0.3 m, meets ball 1 nearly head-on, which meets the far cushion."""
    twin = TwinSimulator(TABLE, (0, 1))
    balls = {0: np.array([-0.3, 0.0]), 1: np.array([0.1, 0.004])}
    return record_shot(twin, nominal_values(), balls, Shot("s", 0.8, 0.0), 0, np.random.default_rng(1), FILM)[0]


def rolled(positions, rate=60.0, colour="red", other=None):
    """Make a record of ball 0, and if given ball 2, by (n, 2) positions."""
    paths = {0: positions} | ({} if other is None else {2: other})
    time = np.arange(1, len(positions) + 1) / rate
    covariance = np.tile(np.eye(2) * 1e-8, (len(positions), 1, 1))
    before = tuple(BallState(i, path[0], np.eye(2) * 1e-8, colour=colour) for i, path in paths.items())
    tracks = tuple(BallTrack(i, time, path, covariance) for i, path in paths.items())
    return ShotRecord("r", 0, None, None, 0.0, before, before, tracks)


def straight(count=30, speed=0.6, deceleration=0.1):
    t = np.arange(1, count + 1) / 60.0
    return np.column_stack([speed * t - 0.5 * deceleration * t**2, np.zeros(count)])


def test_a_piece_begins_with_the_state_seen(record):
    pieces = segments(record)
    cue = [piece for piece in pieces if piece.ball_id == 0]
    assert len(cue) >= 2 and not cue[0].excluded
    sigma = np.sqrt(np.diag(cue[0].covariance))
    assert np.all(np.abs(cue[0].velocity - [0.8 * 1.73, 0.0]) < 5 * sigma[2:] + 0.02 * 1.73)  # friction until then
    assert cue[0].acceleration[0] < -0.5  # it slides at first
    for before, after in itertools.pairwise(cue):
        assert before.end < after.begin


def test_friction_alone_is_one_piece_and_its_covariance_is_right():
    (piece,) = segments(rolled(straight()))
    np.testing.assert_allclose(piece.velocity, [0.6 - 0.1 / 60, 0.0], atol=1e-6)
    np.testing.assert_allclose(piece.acceleration, [-0.1, 0.0], atol=1e-5)
    rng = np.random.default_rng(0)
    noisy = [segments(rolled(straight() + 3e-4 * rng.standard_normal((30, 2))))[0].velocity for _ in range(200)]
    assert np.std(noisy, axis=0) == pytest.approx(np.sqrt(np.diag(piece.covariance)[2:]), rel=0.2)


def test_what_is_left_out_has_a_reason():
    path = straight()
    assert "samples" in segments(rolled(path[:4]))[0].excluded
    gap = rolled(path)
    track = gap.tracks[0]
    kept = np.r_[0:8, 20:30]
    hidden = BallTrack(0, track.time[kept], track.position[kept], track.covariance[kept])
    assert "unseen for 0.22 s" in segments(replace(gap, tracks=(hidden,)))[0].excluded
    beside = np.tile([0.2, 0.03], (30, 1))
    assert "same colour" in segments(rolled(path, other=beside), ball_radius=0.019)[0].excluded
    assert not segments(rolled(path, colour="", other=beside), ball_radius=0.019)[0].excluded


def test_a_stroke_is_told_by_the_first_piece(record):
    found = infer_stroke(replace(record, achieved=None))
    assert found.tip_speed == pytest.approx(0.8, rel=3 * found.tip_speed_stddev / 0.8)
    assert abs(found.azimuth) < 3 * found.azimuth_stddev
    assert infer_stroke(replace(record, tracks=record.tracks[1:])) is None


def test_measured_strokes_are_left_alone(record):
    bare = replace(record, achieved=None)
    assert with_strokes([record, bare]) == ([record, bare], ())
    (found,), untold = with_strokes([bare])
    assert found.achieved == infer_stroke(bare) and "tip_restitution" in untold


def test_shots_without_strokes_tell_of_the_cloth_but_not_of_the_tip(fake_simulator, make_straight_records):
    hidden = nominal_values()
    for name, value in (("sliding_friction", 0.29), ("rolling_friction", 0.0065), ("tip_restitution", 0.55)):
        hidden[ORDER.index(name)] = value
    records = [replace(r, achieved=None) for r in make_straight_records(fake_simulator(), hidden, 6)]
    estimate = Fitter(fake_simulator(), FitConfig(threads=1)).fit(records, FitRequest()).estimate
    for name in ("sliding_friction", "rolling_friction"):
        i = ORDER.index(name)
        assert estimate.identifiable[i]
        assert estimate.values[i] == pytest.approx(hidden[i], rel=0.05)
    assert estimate.frozen[ORDER.index("tip_restitution")]
    with pytest.raises(FitError, match="tip_restitution"):
        Fitter(fake_simulator()).fit(records, FitRequest(parameters=("tip_restitution",)))
