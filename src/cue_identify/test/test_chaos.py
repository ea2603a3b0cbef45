"""What a shot says must count for less where small errors have grown."""

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_identify.chaos import soften
from cue_identify.observations import observe
from cue_identify.replay import Budget, Replayed, Replayer, Trial, TwinSimulator
from cue_identify.residuals import leniency, outlier_scale, robust_cost, whitened
from cue_identify.synthetic import Noise, record_shot

TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)


@pytest.fixture(scope="module")
def twin():
    return TwinSimulator(TABLE, (0, 1, 3))


@pytest.fixture(scope="module")
def shot(twin):
    """The cue ball cuts ball 1 into ball 3, over cushions."""
    balls = {0: np.array([-0.3, 0.0]), 1: np.array([0.0, 0.01]), 3: np.array([0.25, 0.0])}
    record, _ = record_shot(
        twin, nominal_values(), balls, Shot("s", 0.9, 0.0), 0, np.random.default_rng(0), Noise(azimuth=0.0)
    )
    return observe(record, 0.0)


def softened(twin, shot, threads=1):
    return soften(Replayer(twin, Budget(1000), threads), [shot], [Trial(shot, nominal_values(), 0.0)])[0]


def test_samples_count_fully_before_the_first_contact_and_ever_less_after_more(twin, shot):
    soft = softened(twin, shot)
    time = shot.times[shot.time_index]
    np.testing.assert_array_equal(soft.spread[time <= shot.contacts[0]], 0.0)
    after = [soft.spread[(shot.ball_id == 0) & (time > c)].max() for c in (shot.contacts[0], shot.contacts[-1])]
    soon = soft.spread[(shot.ball_id == 0) & (time > shot.contacts[0] + 0.05)][0]
    assert 2e-4 < soon < 0.2 * max(after)
    far = np.full_like(shot.observed, 0.01)
    sizes = np.linalg.norm(whitened(soft, far), axis=1)
    assert (sizes <= np.linalg.norm(whitened(shot, far), axis=1) + 1e-9).all()
    assert sizes[np.argmax(soft.spread)] < 1.0 < sizes[np.argmin(soft.spread)]


def test_any_number_of_workers_and_each_call_give_the_same_bits(twin, shot):
    first, again = softened(twin, shot), softened(twin, softened(twin, shot), threads=4)
    np.testing.assert_array_equal(first.whitener, again.whitener)


def test_the_spread_is_cut_with_the_samples(twin, shot):
    soft = softened(twin, shot)
    early = soft.until(1)
    assert early.spread.shape == early.ball_id.shape and not early.spread.any()


def test_a_cost_forgives_spread_and_tells_how_much(twin, shot):
    soft = softened(twin, shot)
    off = Replayed(shot.observed + np.array([0.02, 0.0]), np.zeros_like(shot.observed))
    assert robust_cost(soft, off, 0.002)[0] < robust_cost(shot, off, 0.002)[0]
    assert leniency(shot, 0.002) == 0.0 < leniency(soft, 0.002)
    assert (outlier_scale(soft, 0.01) >= 2.0).all() and outlier_scale(shot, 0.01).max() > 10.0
