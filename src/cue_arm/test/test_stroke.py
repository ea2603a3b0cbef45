"""The stroke in space: geometry, speed, and what must not happen after the contact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cue_arm.errors import CollisionError, UnreachableError
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import (
    SpeedProfile,
    TipPath,
    check_aftermath,
    rest_to_rest,
    stroke_axes,
    tip_at_contact,
    tip_rotation,
)
from cue_core import Shot, TableModel
from cue_core.errors import OutOfRangeError

SETTINGS = StrokeSettings()
TIP_RADIUS = 0.006


@pytest.mark.parametrize("speed", [0.05, 0.3, 0.8, 1.5, 2.0])
def test_the_tip_has_the_asked_speed_at_contact_and_rests_at_both_ends(speed: float) -> None:
    profile = SpeedProfile.of(speed, SETTINGS)
    at, rate, change = profile.at(np.array([0.0, profile.contact_time, profile.duration]))
    np.testing.assert_allclose(at, [-profile.run_up, 0.0, profile.run_out], atol=1e-12)
    np.testing.assert_allclose(rate, [0.0, speed, 0.0], atol=1e-12)
    np.testing.assert_allclose(change, 0.0, atol=1e-12)
    assert profile.peak_acceleration <= max(SETTINGS.tip_acceleration, SETTINGS.tip_braking) + 1e-9


def test_speed_and_acceleration_are_the_derivatives_of_the_travel() -> None:
    profile = SpeedProfile.of(0.9, SETTINGS)
    times, h = np.linspace(1e-3, profile.duration - 1e-3, 400), 1e-5
    before, after, middle = profile.at(times - h), profile.at(times + h), profile.at(times)
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), middle[1], atol=1e-6)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), middle[2], atol=0.02)


def test_minimum_jerk_derivatives() -> None:
    times, h = np.linspace(0.01, 0.29, 50), 1e-6
    before, after, middle = (rest_to_rest(times + d, 0.3) for d in (-h, h, 0.0))
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), middle[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), middle[2], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("side, vertical", [(0.0, 0.0), (0.4, 0.0), (-0.4, 0.0), (0.2, 0.3), (0.0, -0.4)])
@pytest.mark.parametrize("elevation", [0.0, 0.2])
def test_the_tip_touches_the_ball_where_the_offsets_say(side: float, vertical: float, elevation: float) -> None:
    radius, ball, azimuth = 0.019, np.array([0.1, -0.05]), 2.2
    shot = Shot("s", 1.0, azimuth, elevation, side, vertical)
    tip = tip_at_contact(ball, radius, TIP_RADIUS, shot)
    forward, left, up = stroke_axes(azimuth, elevation).T
    centre = np.array([*ball, radius])
    sphere = tip - TIP_RADIUS * forward
    assert np.linalg.norm(sphere - centre) == pytest.approx(radius + TIP_RADIUS)
    contact = centre + (sphere - centre) * radius / (radius + TIP_RADIUS)
    assert (contact - centre) @ left / radius == pytest.approx(side)
    assert (contact - centre) @ up / radius == pytest.approx(vertical)
    assert (contact - centre) @ forward < 0


def test_the_cue_is_level_and_its_axes_are_right_handed() -> None:
    rotation = tip_rotation(0.7, 0.0)
    np.testing.assert_allclose(rotation[:, 0], [math.cos(0.7), math.sin(0.7), 0.0])
    np.testing.assert_allclose(rotation[:, 2], [0.0, 0.0, -1.0], atol=1e-15)
    assert np.linalg.det(tip_rotation(0.7, 0.3)) == pytest.approx(1.0)


def path_of(shot: Shot, ball: np.ndarray, table: TableModel) -> TipPath:
    return TipPath.of(shot, ball, table, TIP_RADIUS, SETTINGS)


def test_path_keeps_to_its_line_and_its_times(table: TableModel) -> None:
    path = path_of(Shot("s", 0.8, 0.3), np.array([-0.2, 0.1]), table)
    times = np.linspace(0, path.duration, 500)
    position, velocity, _ = path.at(times)
    stroke = (times >= path.stroke_start) & (times <= path.rise_start)
    np.testing.assert_allclose((position[stroke] - path.contact) @ path.rotation[:, 1:], 0.0, atol=1e-12)
    at_contact = path.at(np.array([path.contact_time]))
    np.testing.assert_allclose(at_contact[0][0], path.contact, atol=1e-12)
    np.testing.assert_allclose(at_contact[1][0], 0.8 * path.forward, atol=1e-12)
    np.testing.assert_allclose(position[[0, -1], 2], path.contact[2] + SETTINGS.hover, atol=1e-12)
    np.testing.assert_allclose(velocity[[0, -1]], 0.0, atol=1e-12)


def aftermath(shot: Shot, ball: np.ndarray, table: TableModel, others: list[tuple[str, np.ndarray]]) -> None:
    check_aftermath(shot, ball, others, table, path_of(shot, ball, table), SETTINGS)


def test_a_near_ball_that_stops_the_cue_ball_in_the_tips_way_is_refused(table: TableModel) -> None:
    ball, shot = np.array([-0.2, 0.0]), Shot("s", 0.8, 0.0)
    near, far = (ball + np.array([x, 0.0]) for x in (2 * table.ball_radius + 0.01, 0.3))
    with pytest.raises(CollisionError, match="cue tip would touch cue ball again: ball 3 stops it after 10 mm"):
        aftermath(shot, ball, table, [("ball 3", near)])
    aftermath(shot, ball, table, [("ball 3", far), ("ball 4", ball - [0.1, 0.0])])


def test_a_near_cushion_that_returns_the_cue_ball_is_refused(table: TableModel) -> None:
    close = np.array([0.1, table.width / 2 - table.ball_stop - 0.02])
    with pytest.raises(CollisionError, match="comes back from a cushion 20 mm ahead"):
        aftermath(Shot("s", 0.5, math.pi / 2), close, table, [])
    aftermath(Shot("s", 0.5, 0.0), np.array([-0.2, close[1]]), table, [])  # along it
    aftermath(Shot("s", 0.5, math.pi / 2), np.array([0.1, -0.1]), table, [])  # the tip is up in time


def test_a_stroke_whose_ball_stays_beside_the_tip_is_refused(table: TableModel) -> None:
    ball = np.array([-0.2, 0.0])
    with pytest.raises(
        CollisionError, match=r"again: struck 0.41 radii off its centre at 0.19 m/s it leaves too slowly"
    ):
        aftermath(Shot("s", 0.19, 0.0, side_offset=0.28, vertical_offset=0.3), ball, table, [])
    aftermath(Shot("s", 0.8, 0.0, side_offset=0.28), ball, table, [])
    for speed in (0.05, 0.2, 1.0):
        aftermath(Shot("s", speed, 0.0), ball, table, [])


def test_more_elevation_than_the_arm_plays_is_refused(table: TableModel) -> None:
    with pytest.raises(UnreachableError, match=r"elevation is 0.900 rad, the arm plays 0 to 0.750"):
        path_of(Shot("s", 0.5, 0.0, elevation=0.9), np.zeros(2), table)


def test_settings_are_checked() -> None:
    with pytest.raises(OutOfRangeError, match=r"hover is 2.0, allowed is 0.04 to 0.3 m"):
        StrokeSettings(hover=2.0)
