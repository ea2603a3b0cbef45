"""Nothing leaves the envelope, whoever made it, and every refusal names its limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cue_arm.envelope import LIMITS, Envelope, EnvelopeError, EnvelopeSettings
from cue_arm.hostile import Hostile, Monitor
from cue_arm.planner import MinkBackend, StrokeRequest
from cue_arm.trajectory import JointTrajectory
from cue_core import Shot
from cue_core.arm_codes import ArmCode


@pytest.fixture(scope="module")
def envelope(backend: MinkBackend) -> Envelope:
    return Envelope(backend.robot, backend.table)


@pytest.fixture(scope="module")
def honest(backend: MinkBackend) -> list[JointTrajectory]:
    shots = (Shot("a", 0.5, 0.4), Shot("b", 1.0, 0.9), Shot("c", 0.25, -2.0, side_offset=0.2))
    return [
        backend.plan(StrokeRequest(shot, np.array([-0.1, 0.05]), {}, backend.robot.home)).trajectory for shot in shots
    ]


def refused(envelope: Envelope, trajectory: object, start: object = None) -> str:
    with pytest.raises(EnvelopeError) as caught:
        envelope.check(trajectory, start)
    assert caught.value.code == ArmCode.ENVELOPE and str(caught.value).startswith(caught.value.limit)
    return caught.value.limit


def lifted(robot_home: np.ndarray, joint: int, move: float, duration: float) -> JointTrajectory:
    """Return a smooth motion of one joint from home."""
    x = np.linspace(0.0, 1.0, 41)[:, None]
    way = np.zeros((1, len(robot_home)))
    way[0, joint] = move
    return JointTrajectory(
        duration * x[:, 0],
        robot_home + way * (10 * x**3 - 15 * x**4 + 6 * x**5),
        way * (30 * x**2 - 60 * x**3 + 30 * x**4) / duration,
        way * (60 * x - 180 * x**2 + 120 * x**3) / duration**2,
    )


def test_planned_strokes_pass(envelope: Envelope, honest: list[JointTrajectory]) -> None:
    for trajectory in honest:
        envelope.check(trajectory, envelope.robot.home)


def test_every_limit_can_be_met(envelope: Envelope, honest: list[JointTrajectory]) -> None:
    good, home = honest[0], envelope.robot.home
    rows = good.positions.copy()
    rows[3, 2] = np.nan
    slow = Envelope(envelope.robot, envelope.table, EnvelopeSettings(tip_speed=0.3))
    small = Envelope(envelope.robot, envelope.table, EnvelopeSettings(beyond=0.3))
    low = lifted(home, 1, 2.6, 4.0)  # folds the arm out and down into the table
    met = [
        refused(envelope, "a stroke"),
        refused(envelope, replace(good, positions=good.positions[:, :5])),
        refused(envelope, replace(good, positions=rows)),
        refused(envelope, JointTrajectory(good.times[:1], *(r[:1] for r in (good.positions,) * 3))),
        refused(envelope, replace(good, times=good.times + 1.0)),
        refused(envelope, lifted(home, 2, 1.0, 4.0)),
        refused(envelope, lifted(home, 0, 2.5, 1.2)),
        refused(envelope, lifted(home, 0, 0.1, 0.1)),
        refused(envelope, replace(good, velocities=good.velocities + 0.01)),
        refused(envelope, good, home + 0.1),
        refused(slow, good),
        refused(small, good),
        refused(envelope, low),
    ]
    assert tuple(dict.fromkeys(met)) == LIMITS


def test_what_hides_between_two_points_is_found(envelope: Envelope) -> None:
    home = envelope.robot.home
    still = np.zeros((3, 6))
    swing = still.copy()
    swing[1, 0] = 2.0  # half a radian past its ends, at points that do not show it
    times, rows = np.array([0.0, 1.0, 2.0]), np.tile(home, (3, 1))
    envelope.check(JointTrajectory(times, rows, still, still))
    near_end = rows.copy()
    near_end[:, 2] = envelope.robot.limits("upper")[2] - 0.05
    swing = np.roll(swing, 2, axis=1)
    assert refused(envelope, JointTrajectory(times, near_end, swing, still)) == "joint position"


def test_hostile_trajectories_neither_escape_nor_crash(envelope: Envelope, honest: list[JointTrajectory]) -> None:
    rng = np.random.default_rng(11)
    hostile = Hostile(envelope.robot, honest, rng)
    monitor = Monitor(envelope.robot, envelope.table, envelope.settings)
    passed, limits = 0, set()
    for _ in range(300):
        trajectory = hostile()
        try:
            envelope.check(trajectory, envelope.robot.home)
        except EnvelopeError as error:
            limits.add(error.limit)
            continue
        passed += 1
        assert monitor.escapes(trajectory, rng, 40) == []
    assert 10 < passed < 120
    assert limits >= set(LIMITS) - {"box", "tip speed"}


def test_the_monitor_sees_what_the_envelope_refuses(envelope: Envelope, honest: list[JointTrajectory]) -> None:
    monitor, rng = Monitor(envelope.robot, envelope.table, envelope.settings), np.random.default_rng(2)
    assert any("touches" in text for text in monitor.escapes(lifted(envelope.robot.home, 1, 2.6, 4.0), rng))
    fast = honest[1]
    fast = JointTrajectory(fast.times / 4, fast.positions, 4 * fast.velocities, 16 * fast.accelerations)
    assert {"joint velocity", "joint acceleration", "tip speed"} <= set(monitor.escapes(fast, rng))
    assert monitor.escapes(honest[0], rng) == []
