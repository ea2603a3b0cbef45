import numpy as np
import pytest

from cue_core.balls import Motion, Visibility
from cue_core.shots import BallTrack, ShotRecord, Stroke
from cue_identify.scoring import along_track_error, mean_score, rest_error, sample_times, score_shot, travel_direction


class Path:
    def __init__(self, positions, rest):
        self.positions, self.rest_positions = np.array(positions, float), np.array(rest, float)


def track(ball_id, time, points, pocketed=False):
    points = np.array(points, float)
    return BallTrack(ball_id, np.array(time, float), points, np.tile(np.eye(2) * 1e-6, (len(points), 1, 1)), pocketed)


@pytest.fixture
def record(resting_ball):
    """Ball 0 goes 1 m along x in 1 s; ball 1 stays."""
    time = np.arange(11) / 10
    path = track(0, time, [(t, 0) for t in time])
    before = (resting_ball(0, 0, 0), resting_ball(1, 2, 0))
    after = (resting_ball(0, 1, 0), resting_ball(1, 2, 0))
    return ShotRecord("a", 0, None, Stroke(1.0, 0.0), 0.0, before, after, (path,))


def shifted(record, dx, dy, rest1=(2, 0)):
    times = sample_times(record)
    cue = record.tracks[0].position + np.array([dx, dy])
    positions = np.stack([cue, np.tile([2.0, 0.0], (len(times), 1))], axis=1)
    return times, Path(positions, [np.array([1.0 + dx, dy]), rest1])


def test_the_rest_error_is_the_mean_distance_over_moved_balls(record):
    _, path = shifted(record, 0.03, 0.04)
    assert rest_error(record, path, (0, 1)) == pytest.approx(0.05)


def test_a_ball_moved_in_the_prediction_alone_counts_too(record):
    _, path = shifted(record, 0.03, 0.04, rest1=(2.1, 0))
    assert rest_error(record, path, (0, 1)) == pytest.approx((0.05 + 0.1) / 2)


def test_the_order_of_ball_ids_decides_the_columns(record):
    _, path = shifted(record, 0.03, 0.04)
    swapped = Path(path.positions[:, ::-1], path.rest_positions[::-1])
    assert rest_error(record, swapped, (1, 0)) == pytest.approx(0.05)


def test_a_pocketed_ball_rests_where_its_track_ends(record, resting_ball):
    gone = resting_ball(0, 9, 9, motion=Motion.POCKETED, visibility=Visibility.POCKETED)
    pocketed = ShotRecord("a", 0, None, record.achieved, 0.0, record.before, (gone,), record.tracks)
    _, path = shifted(record, 0.0, 0.2)
    assert rest_error(pocketed, path, (0, 1)) == pytest.approx(0.2)


def test_a_lost_ball_is_left_out(record, resting_ball):
    lost = resting_ball(0, 1, 0, visibility=Visibility.LOST)
    after = (lost, record.after[1])
    _, path = shifted(record, 0.5, 0)
    assert np.isnan(rest_error(ShotRecord("a", 0, None, None, 0.0, record.before, after, record.tracks), path, (0, 1)))


def test_the_along_track_error_ignores_what_is_across(record):
    times, path = shifted(record, 0.03, 0.04)
    assert along_track_error(record, times, path, (0, 1)) == pytest.approx(0.03)


def test_a_resting_ball_keeps_its_last_direction():
    path = track(0, [0, 0.1, 0.2, 0.3, 0.4], [(0, 0), (0, 0.1), (0, 0.2), (0, 0.2), (0, 0.2)])
    np.testing.assert_allclose(travel_direction(path), [[0, 1]] * 5)


def test_a_still_ball_has_no_direction_and_a_still_shot_no_error(record):
    assert travel_direction(track(0, [0, 0.1, 0.2], [(0, 0)] * 3)) is None
    still = ShotRecord("a", 0, None, record.achieved, 0.0, record.before, record.before, ())
    score = score_shot(still, np.zeros(1), Path(np.array([[(0, 0), (2, 0)]]), [(0, 0), (2, 0)]), (0, 1))
    assert np.isnan(score.rest_error) and np.isnan(score.along_track_error)
    assert np.isnan(mean_score([score])[0])
