"""The strike: momentum, spin, squirt, mirror images."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import OutOfRangeError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.shots import Shot, Stroke
from cue_core.table import TableModel
from cue_sim.strike import LARGEST_ELEVATION, strike
from cue_sim.twin import Start, Twin

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "9ft.yaml")
R = TABLE.ball_radius
E = PARAMETERS["tip_restitution"].nominal


def test_a_centre_hit_drives_straight_without_spin():
    velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.2, math.radians(30)))
    assert velocity == pytest.approx((1 + E) * 1.2 * np.array([math.cos(math.pi / 6), 0.5]))
    assert spin == pytest.approx([0, 0, 0])


def test_a_measured_stroke_and_a_shot_agree():
    shot = Shot("s", 0.9, 1.0, side_offset=0.2, vertical_offset=-0.1)
    stroke = Stroke(0.9, 1.0, side_offset=0.2, vertical_offset=-0.1)
    for a, b in zip(strike(nominal_values(), TABLE, shot), strike(nominal_values(), TABLE, stroke), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("offsets", [(0.0, 0.4), (0.3, 0.0), (-0.2, 0.3), (0.1, -0.4)])
def test_the_contact_point_leaves_with_the_tip_restitution(offsets):
    a, b = offsets
    velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, side_offset=a, vertical_offset=b))
    arm = R * np.array([-math.sqrt(1 - a * a - b * b), a, b])
    # squirt only turns the velocity: its size is the speed along the stroke
    along = np.linalg.norm(velocity) + np.cross(spin, arm)[0]
    assert along == pytest.approx((1 + E) * 1.0)


def test_four_tenths_above_the_centre_rolls_at_once():
    velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, vertical_offset=0.4))
    assert spin[1] == pytest.approx(velocity[0] / R)


def test_a_raised_cue_squeezes_the_ball_out_and_is_refused_beyond_the_limit():
    for elevation in (0.0, 0.3, LARGEST_ELEVATION):
        velocity, _ = strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, elevation))
        assert velocity[0] == pytest.approx((1 + E) / math.cos(elevation))
    with pytest.raises(OutOfRangeError, match="elevation"):
        strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, 1.3))


def test_signs():
    """Left offset: clockwise seen from above, and the ball squirts to the right; above the centre: topspin."""
    velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, side_offset=0.3))
    assert spin[2] < 0 and velocity[1] < 0
    assert 0 < math.degrees(-math.atan2(velocity[1], velocity[0])) < 2.5
    _, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, math.pi / 2, vertical_offset=0.3))
    assert spin[0] < 0  # rolling to the north turns about -x


@pytest.mark.parametrize("elevation", [0.0, math.radians(10)])
def test_left_and_right_are_mirror_images_through_a_cushion(elevation):
    """FAULTS B05: same offset left and right, into a cushion; side opens the rebound to its own side."""
    twin = Twin(TABLE, (0,))

    def end(x: float, side: float) -> np.ndarray:
        velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, math.pi / 2, elevation, side, 0.1))
        start = Start(np.array([[x, 0.0]]), velocity[None], spin[None], np.array([True]))
        return twin.simulate(start, None, until_contact=2).rest_positions[0]

    assert end(0.4, 0.4) == pytest.approx(end(-0.4, -0.4) * [-1, 1], abs=1e-9)
    # stroke to the north: left (west) side leaves the cushion to the west
    assert end(0.4, 0.4)[0] < end(0.4, 0.0)[0] - 0.02
    assert end(0.4, -0.4)[0] > end(0.4, 0.0)[0] + 0.02


def test_an_elevated_cue_curves_the_ball():
    velocity, spin = strike(nominal_values(), TABLE, Shot("s", 1.0, 0.0, math.radians(20), side_offset=0.4))
    assert spin[0] < 0  # the spin axis leans into the direction of travel: the ball curls to the left
    path = Twin(TABLE, (0,)).simulate(
        Start(np.array([[-1.0, 0]]), velocity[None], spin[None], np.array([True])), None, [0.3]
    )
    assert path.positions[0, 0, 1] > 0.3 * velocity[1] + 0.005


def test_impossible_strokes_are_refused():
    for wrong in (
        Stroke(float("nan"), 0.0),
        Stroke(40.0, 0.0),
        Stroke(1.0, 0.0, side_offset=0.9),
        Stroke(1.0, float("inf")),
    ):
        with pytest.raises(OutOfRangeError):
            strike(nominal_values(), TABLE, wrong)
