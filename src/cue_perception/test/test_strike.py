"""The strike time, from images alone and beside the arm's clock."""

from __future__ import annotations

import numpy as np
import pytest

from cue_perception.strike import seen_strike_time, strike_time
from cue_perception.track import Sample, plausible

REST = np.zeros(2)
SPREAD = np.eye(2) * (1e-4) ** 2


def _samples(
    speed: float, struck: float, rng: np.random.Generator, hidden: tuple[float, float] = (9, 9)
) -> list[Sample]:
    made = []
    for k in range(40):
        t = k / 30
        tau = max(t - struck, 0.0)
        place = np.array([speed * tau - 0.5 * 1.5 * tau**2, 0.0]) + rng.normal(0, 2e-4, 2)
        if not hidden[0] <= t <= hidden[1]:
            made.append(Sample(t, place, np.eye(2) * (2e-4) ** 2, 1.0))
    return made


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.5])
def test_images_tell_the_strike_between_two_frames(speed):
    rng = np.random.default_rng(1)
    errors = []
    for struck in np.linspace(0.5, 0.53, 9):
        time, spread, clear = seen_strike_time(REST, SPREAD, _samples(speed, struck, rng), 1 / 30)
        assert clear
        assert abs(time - struck) < 5 * spread
        errors.append(abs(time - struck))
    assert np.median(errors) < 4e-3


def test_arm_time_is_taken_where_it_can_be_right():
    rng = np.random.default_rng(2)
    samples = _samples(1.0, 0.51, rng)
    assert strike_time(REST, SPREAD, samples, 1 / 30, 0.5095)[0] == 0.5095
    # the ball was hidden while it began to move
    assert strike_time(REST, SPREAD, _samples(1.0, 0.51, rng, (0.45, 0.7)), 1 / 30, 0.51)[0] == 0.51
    # something looked like motion long before the contact
    early = [s if s.time > 0.2 or s.time < 0.1 else s._replace(position=np.array([0.02, 0])) for s in samples]
    assert strike_time(REST, SPREAD, early, 1 / 30, 0.51)[0] == 0.51
    # images that come 150 ms late: their own clock counts for their tracks
    assert strike_time(REST, SPREAD, samples, 1 / 30, 0.36)[0] == pytest.approx(0.51, abs=4e-3)


def test_ball_that_never_moved_gives_no_precise_time():
    rng = np.random.default_rng(3)
    _, spread, clear = seen_strike_time(REST, SPREAD, _samples(1.0, 99.0, rng), 1 / 30)
    assert not clear
    assert spread >= 1 / 30


def test_what_no_path_explains_is_left_out_of_a_track():
    rng = np.random.default_rng(4)
    samples = _samples(1.5, 0.1, rng)
    wall = 20  # it turns back here
    turned = [
        s if k <= wall else s._replace(position=2 * samples[wall].position - s.position) for k, s in enumerate(samples)
    ]
    assert len(plausible(turned)) == len(turned)
    turned[8] = turned[8]._replace(position=turned[8].position + np.array([0.0, 0.155]))
    turned[30] = turned[30]._replace(position=turned[30].position + np.array([0.03, 0.02]))
    kept = plausible(turned)
    assert {round(30 * s.time) for s in turned} - {round(30 * s.time) for s in kept} == {8, 30}
