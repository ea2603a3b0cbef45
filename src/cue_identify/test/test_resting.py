"""Balls are seen to rest: no fit may leave a slope down which they would roll for ever."""

import numpy as np
import pytest

from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.resting import restlessness, restlessness_slope
from cue_identify.space import Space

SPACE = Space.of(("rolling_friction", "tilt_x", "tilt_y", "ball_restitution"), nominal_values())


def bed(friction, tilt_x, tilt_y):
    values = nominal_values()
    for name, value in (("rolling_friction", friction), ("tilt_x", tilt_x), ("tilt_y", tilt_y)):
        values[list(PARAMETERS).index(name)] = value
    return values


@pytest.mark.parametrize(("tilt_x", "tilt_y"), [(0.0, 0.0), (0.006, 0.0), (-0.004, 0.005)])
def test_a_slope_that_the_cloth_resists_costs_nothing(tilt_x, tilt_y):
    assert restlessness(bed(0.01, tilt_x, tilt_y)) == 0.0
    assert not restlessness_slope(SPACE, SPACE.unit(bed(0.01, tilt_x, tilt_y))).any()


def test_a_slope_down_which_balls_roll_for_ever_is_four_standard_deviations_off():
    assert restlessness(bed(0.005, 0.003, -0.0041)) > 4.0


def test_the_slope_is_the_derivative():
    unit = SPACE.unit(bed(0.005, 0.003, -0.0045))
    slope = restlessness_slope(SPACE, unit)
    assert slope[SPACE.names.index("ball_restitution")] == 0.0
    for i in range(len(unit)):
        step = np.zeros(len(unit))
        step[i] = 1e-5
        ahead, behind = (restlessness(SPACE.values(unit + sign * step)) for sign in (1, -1))
        assert slope[i] == pytest.approx((ahead - behind) / 2e-5, rel=1e-3, abs=1e-6)
