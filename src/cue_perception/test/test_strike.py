"""The strike time, from images alone and beside the arm's clock."""

from __future__ import annotations

import numpy as np
import pytest

from cue_core.shots import ContactKind
from cue_perception.contacts import find_contacts
from cue_perception.strike import seen_strike_time, strike_time
from cue_perception.testing import SMALL
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


def _measured(path, times: np.ndarray, rng: np.random.Generator) -> list[Sample]:
    return [Sample(t, path(t) + rng.normal(0, 2e-4, 2), np.eye(2) * (2e-4) ** 2, 1.0) for t in times]


def test_contacts_are_timed_between_two_frames():
    # Ball 0 meets ball 3, which lies still, at 0.2137 s; ball 3 then meets the cushion at 0.5512 s.
    rng = np.random.default_rng(5)
    reach = SMALL.length / 2 - SMALL.ball_stop
    meet, wall = 0.2137, 0.5512
    lies = np.array([0.05, 0.02])
    speed = (reach - lies[0]) / (wall - meet)

    def hits(t: float) -> np.ndarray:
        before, after = np.array([speed + 0.03, 0.0]), np.array([0.03, 0.0])
        return lies - [2 * SMALL.ball_radius, 0] + (before * (t - meet) if t < meet else after * (t - meet))

    def is_hit(t: float) -> np.ndarray:
        if t < meet:
            return lies
        x = speed * (min(t, wall) - meet) - 0.8 * speed * max(t - wall, 0.0)
        return np.array([lies[0] + x, lies[1]])

    times = np.arange(1, 50) / 60
    samples = {0: _measured(hits, times, rng), 3: _measured(is_hit, times[times > meet], rng)}
    rest = {0: (hits(0.0), SPREAD), 3: (lies, SPREAD), 8: (np.array([-0.4, -0.2]), SPREAD)}
    first, second = find_contacts(samples, rest, 0.0, 0, SMALL)
    assert (first.kind, first.ball_id, first.other_id) == (ContactKind.BALL, 0, 3)
    assert (second.kind, second.ball_id, second.other_id) == (ContactKind.CUSHION, 3, -1)
    for contact, truth in ((first, meet), (second, wall)):
        assert contact.time == pytest.approx(truth, abs=2e-3)
        assert abs(contact.time - truth) < 4 * contact.time_stddev
    assert second.position[0] == pytest.approx(reach, abs=2e-3)


def test_a_ball_that_only_rolls_meets_nothing():
    rng = np.random.default_rng(6)
    times = np.arange(1, 120) / 60

    def path(t: float) -> np.ndarray:
        slides = min(t, 0.3)  # 2 m/s^2 at first, then 0.1
        x = 1.2 * slides - slides**2 + max(t - 0.3, 0) * 0.6 - 0.05 * max(t - 0.3, 0) ** 2
        return np.array([-0.45 + 0.6 * x, -0.1 + 0.1 * x])

    assert find_contacts({0: _measured(path, times, rng)}, {0: (path(0.0), SPREAD)}, 0.0, 0, SMALL) == ()
