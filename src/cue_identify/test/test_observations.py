import numpy as np
import pytest

from cue_core.shots import BallTrack, ShotRecord, Stroke
from cue_identify.events import contact_times
from cue_identify.observations import observe, why_unusable
from cue_identify.replay import Replayed
from cue_identify.residuals import differences, robust_cost, time_profile, whitened

SIGMA = 1e-3
STROKE = Stroke(1.0, 0.0, azimuth_stddev=0.02)


def track(ball_id, time, points, noise=0.0, rng=None, pocketed=False):
    points = np.array(points, float)
    if rng is not None:
        points = points + noise * rng.standard_normal(points.shape)
    return BallTrack(ball_id, time, points, np.tile(np.eye(2) * SIGMA**2, (len(time), 1, 1)), pocketed)


def exchange(before, tracks, flags=(), achieved=STROKE):
    return ShotRecord("a", 0, None, achieved, 0.0, tuple(before), tuple(before), tuple(tracks), 0.003, flags)


@pytest.fixture
def head_on(resting_ball):
    """The cue ball rolls at 1.5 m/s into ball 3 at 0.30 s; they exchange velocities (V01); 60 fps."""
    time = np.arange(1, 40) / 60
    rng = np.random.default_rng(0)
    cue = [(1.5 * min(t, 0.3), 0.0) for t in time]
    other = [(0.45 + 0.04 + 1.5 * max(t - 0.3, 0), 0.0) for t in time]
    before = (resting_ball(0, 0, 0, colour="red"), resting_ball(3, 0.49, 0, colour="red"))
    return exchange(before, (track(0, time, cue, 5e-4, rng), track(3, time, other, 5e-4, rng)))


def test_contacts_are_found_where_balls_meet(head_on):
    np.testing.assert_allclose(contact_times(head_on), [0.3], atol=2 / 60)


def test_smooth_motion_has_no_contact(resting_ball):
    time = np.arange(60) / 30
    points = [(0.8 * t - 0.2 * t**2, 0) for t in time]
    record = exchange((resting_ball(0, 0, 0),), (track(0, time, points, SIGMA, np.random.default_rng(1)),))
    assert len(contact_times(record)) == 0


def test_a_cushion_is_a_contact(resting_ball):
    time = np.arange(60) / 30
    points = [(0.5 - abs(0.5 - 0.7 * t), 0.1 * t) for t in time]
    record = exchange((resting_ball(0, 0, 0),), (track(0, time, points, SIGMA, np.random.default_rng(1)),))
    np.testing.assert_allclose(contact_times(record), [0.5 / 0.7], atol=2 / 30)


def test_the_observed_direction_is_found_within_its_prior(resting_ball):
    time = np.arange(30) / 30
    true = 0.013
    points = [(0.5 * t * np.cos(true), 0.5 * t * np.sin(true)) for t in time]
    shot = observe(
        exchange((resting_ball(0, 0, 0),), (track(0, time, points, SIGMA, np.random.default_rng(2)),)), direction=0.0
    )
    assert shot.turn == pytest.approx(true, abs=1.5e-3)


@pytest.mark.parametrize("late", [-0.6, 0.8])
def test_a_strike_time_that_the_track_contradicts_is_corrected(resting_ball, late):
    time = np.arange(90) / 30 + late  # by the record
    since = np.maximum(time - late - 0.01, 0.0)
    points = [(0.6 * t - 0.5 * t**2, 0.0) if t < 0.6 else (0.18, 0.0) for t in since]
    record = exchange((resting_ball(0, 0, 0),), (track(0, time, points, 5e-4, np.random.default_rng(3)),))
    shot = observe(record, 0.0)
    first_moving = shot.times[shot.time_index[np.flatnonzero(shot.observed[:, 0] > 0.01)[0]]]
    assert 0 < first_moving < 0.1
    assert shot.strike_stddev < 0.08


def test_a_strike_time_within_reason_is_believed(resting_ball):
    time = np.arange(1, 30) / 30
    points = [(0.6 * (t + 0.004) - 0.5 * (t + 0.004) ** 2, 0.0) for t in time]
    shot = observe(exchange((resting_ball(0, 0, 0),), (track(0, time, points),)), 0.0)
    np.testing.assert_allclose(shot.times, time)
    assert shot.strike_stddev == 0.003


def test_a_curriculum_stage_ends_at_the_contact(head_on):
    shot = observe(head_on, 0.0)
    early = shot.until(1)
    assert early.times[-1] <= shot.contacts[0] < shot.times[-1]
    assert shot.until(None) is shot and shot.until(2) is shot
    assert early.free[early.ball_id == 0].all() and not early.free[early.ball_id == 3].any()
    assert whitened(early, early.observed).shape == early.observed.shape


def test_v01_the_cost_does_not_change_when_balls_of_one_colour_trade_places(head_on):
    """FAULTS V01: the tracks swap ids from the contact on; nothing but the paths tells the balls apart."""
    cue, other = head_on.tracks
    late = cue.time > 0.3
    a, b = cue.position.copy(), other.position.copy()
    a[late], b[late] = other.position[late], cue.position[late]
    swapped = exchange(head_on.before, (track(0, cue.time, a), track(3, other.time, b)))
    costs = []
    for record in (head_on, swapped):
        shot = observe(record, 0.0)
        truth = np.empty_like(shot.observed)
        for ball_id, whole in ((0, cue), (3, other)):
            rows = shot.ball_id == ball_id
            truth[rows] = whole.position[np.searchsorted(whole.time, shot.times[shot.time_index[rows]])]
        replayed = Replayed(truth + 0.002, np.zeros_like(truth))
        costs.append(np.mean(np.log1p(np.sum(differences(shot, replayed) ** 2, axis=1) / 1e-6)))
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_balls_of_other_colours_do_not_trade_places(head_on, resting_ball):
    before = (resting_ball(0, 0, 0, colour="white"), resting_ball(3, 0.49, 0, colour="red"))
    assert observe(exchange(before, head_on.tracks), 0.0).alike == ()


def test_the_strike_time_is_profiled_from_the_free_part(resting_ball):
    time = np.arange(1, 30) / 30
    points = [(0.5 * t, 0.0) for t in time]
    shot = observe(exchange((resting_ball(0, 0, 0),), (track(0, time, points),)), 0.0)
    early = Replayed(shot.observed - [0.5 * 0.004, 0.0], np.tile([0.5, 0.0], (len(time), 1)))
    assert time_profile(shot, differences(shot, early), early) == pytest.approx(0.004, rel=0.05)
    assert robust_cost(shot, early, 0.002)[0] < 0.01


def test_a_failed_simulation_costs_more_than_any_other(head_on):
    shot = observe(head_on, 0.0)
    zero = np.zeros_like(shot.observed)
    failed = robust_cost(shot, Replayed(zero, zero, "not finite"), 0.01)[0]
    assert failed > robust_cost(shot, Replayed(zero, zero), 0.01)[0]


def test_unusable_records_say_why(head_on, resting_ball):
    assert why_unusable(head_on, (0, 3)) == ""
    assert "ball_lost" in why_unusable(exchange(head_on.before, head_on.tracks, ("ball_lost",)), (0, 3))
    assert "stroke" in why_unusable(exchange(head_on.before, head_on.tracks, achieved=None), (0, 3))
    assert "moved" in why_unusable(exchange(head_on.before, ()), (0, 3))
    assert "3" in why_unusable(head_on, (0,))
    assert "cue ball" in why_unusable(exchange((resting_ball(3, 0, 0),), head_on.tracks), (0, 3))
    broken = track(0, np.array([0.0, 1.0]), [(0, 0), (np.nan, 0)])
    assert "finite" in why_unusable(exchange(head_on.before, (broken,)), (0, 3))


def rolled(resting_ball, told):
    """The cue ball leaves the origin along +x at 0.5 m/s and is seen from 0.2 s on; told to have rested at ``told``."""
    time = np.arange(6, 30) / 30
    return exchange((resting_ball(0, *told),), (track(0, time, [(0.5 * t, 0.0) for t in time]),))


@pytest.mark.parametrize("told, message", [((0.15, 0.0), "behind"), ((-0.9, 0.0), "after the strike")])
def test_a_place_before_the_shot_that_the_track_denies_is_told(resting_ball, told, message):
    assert message in why_unusable(rolled(resting_ball, told), (0,))


def test_a_track_that_begins_late_is_no_reason(resting_ball):
    assert why_unusable(rolled(resting_ball, (0.0, 0.0)), (0,)) == ""
    assert (
        why_unusable(
            exchange(
                rolled(resting_ball, (0.0, 0.0)).before, rolled(resting_ball, (0.0, 0.0)).tracks, ("occluded_start",)
            ),
            (0,),
        )
        == ""
    )
