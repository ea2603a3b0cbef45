"""Achieved strokes from joint states."""

from __future__ import annotations

import numpy as np
import pytest

from cue_arm.errors import ArmError
from cue_arm.measure import JointRecord, measure_stroke
from cue_arm.planner import MinkBackend, StrokePlan, StrokeRequest
from cue_arm.testing import JOINT_STATE_PERIOD, sample
from cue_core import Shot, Stroke


def record(made: StrokePlan, phase: float = 0.0, pace: float = 1.0, velocities: bool = True) -> JointRecord:
    times = np.arange(phase, made.trajectory.duration / pace, JOINT_STATE_PERIOD)
    q, v = sample(made.trajectory, times, pace)
    return JointRecord(times, q, v if velocities else None)


def measure(backend: MinkBackend, ball: np.ndarray, states: JointRecord) -> Stroke | None:
    radius, tip = backend.table.ball_radius, backend.robot.cue.tip_radius
    return measure_stroke(states, backend.reach.chain, ball, radius, tip)


def test_speed_azimuth_offsets_and_time_come_back(backend: MinkBackend) -> None:
    rng = np.random.default_rng(2)
    measured = 0
    for index in range(12):
        ball = rng.uniform(-1, 1, 2) * [0.4, 0.18]
        shot = Shot(f"s{index}", rng.uniform(0.2, 0.9), rng.uniform(-3, 3), 0.0, *rng.uniform(-0.3, 0.3, 2))
        try:
            made = backend.plan(StrokeRequest(shot, ball, {}, backend.robot.home))
        except ArmError:
            continue
        for velocities in (True, False):
            stroke = measure(backend, ball, record(made, rng.uniform(0, JOINT_STATE_PERIOD), 1.0, velocities))
            assert stroke is not None
            assert stroke.tip_speed == pytest.approx(shot.speed, rel=0.01)
            assert np.remainder(stroke.azimuth - shot.azimuth + 1, 2 * np.pi) - 1 == pytest.approx(
                0, abs=np.radians(0.1)
            )
            assert stroke.side_offset == pytest.approx(shot.side_offset, abs=0.005)
            assert stroke.vertical_offset == pytest.approx(shot.vertical_offset, abs=0.005)
            assert stroke.contact_time == pytest.approx(made.contact_time, abs=2e-4)
            assert 0 < stroke.tip_speed_stddev < 0.03 * shot.speed
            assert 0 < stroke.azimuth_stddev < 0.01
        measured += 1
    assert measured >= 5


def test_a_slowed_arm_is_measured_as_slow(backend: MinkBackend) -> None:
    """A driver at 45 % speed: the achieved speed is what counts."""
    ball = np.array([-0.1, 0.05])
    made = backend.plan(StrokeRequest(Shot("s", 0.6, 0.4), ball, {}, backend.robot.home))
    stroke = measure(backend, ball, record(made, pace=0.45))
    assert stroke is not None
    assert stroke.tip_speed == pytest.approx(0.27, rel=0.01)


def test_a_stroke_beside_the_ball_is_none(backend: MinkBackend) -> None:
    ball = np.array([-0.1, 0.05])
    made = backend.plan(StrokeRequest(Shot("s", 0.6, 0.0), ball, {}, backend.robot.home))
    assert measure(backend, ball + np.array([0.0, 0.1]), record(made)) is None
    assert measure(backend, ball, JointRecord(np.array([0.0]), made.trajectory.positions[:1])) is None


def test_offset_is_against_the_ball_that_was_there(backend: MinkBackend) -> None:
    ball = np.array([-0.1, 0.05])
    made = backend.plan(StrokeRequest(Shot("s", 0.6, 0.0), ball, {}, backend.robot.home))
    stroke = measure(
        backend, ball + np.array([0.0, 0.002]), record(made)
    )  # it lay 2 mm to the left: the tip came in to the right
    assert stroke is not None
    reach = backend.table.ball_radius + backend.robot.cue.tip_radius
    assert stroke.side_offset == pytest.approx(-0.002 / reach, abs=0.002)


def test_noise_shows_in_the_spread(backend: MinkBackend) -> None:
    ball = np.array([-0.1, 0.05])
    made = backend.plan(StrokeRequest(Shot("s", 0.6, 0.4), ball, {}, backend.robot.home))
    clean = record(made)
    assert clean.velocities is not None
    noise = np.random.default_rng(3).normal(0, 0.02, clean.velocities.shape)
    quiet, loud = (
        measure(backend, ball, r) for r in (clean, JointRecord(clean.times, clean.positions, clean.velocities + noise))
    )
    assert quiet is not None and loud is not None
    assert loud.tip_speed_stddev > quiet.tip_speed_stddev
