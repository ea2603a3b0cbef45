"""Whole strokes: limits, straightness, speed, clearance, and the same verdict from the fast test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cue_arm.errors import ArmError, CollisionError, UnreachableError
from cue_arm.planner import MinkBackend, StrokePlan, StrokeRequest
from cue_arm.settings import StrokeSettings
from cue_core import Shot, TableModel
from cue_core.arm_codes import ArmCode
from cue_sim.robot import RobotConfig, add_robot

CONFIG = Path(__file__).resolve().parents[3] / "config"


def plan(
    backend: MinkBackend,
    shot: Shot,
    ball: tuple[float, float],
    balls: dict[int, np.ndarray] | None = None,
    start: np.ndarray | None = None,
) -> StrokePlan:
    start = backend.robot.home if start is None else start
    return backend.plan(StrokeRequest(shot, np.array(ball), balls or {}, start))


def check(backend: MinkBackend, shot: Shot, made: StrokePlan) -> None:
    """Assert everything that holds for every plan."""
    motion, robot, chain = made.trajectory, backend.robot, backend.reach.chain
    assert motion.times[0] == 0.0 and np.all(np.diff(motion.times) > 1e-4)
    assert np.all(motion.velocities[[0, -1]] == 0.0) or np.abs(motion.velocities[[0, -1]]).max() < 1e-9
    np.testing.assert_allclose(motion.positions[-1], robot.home, atol=1e-9)
    assert np.all(motion.positions >= robot.limits("lower")) and np.all(motion.positions <= robot.limits("upper"))
    fastest, steepest = motion.bounds()  # between the points, too
    assert np.all(fastest.max(axis=0) <= robot.limits("velocity"))
    assert np.all(steepest.max(axis=0) <= robot.limits("acceleration"))
    assert np.all(fastest >= np.abs(motion.velocities) - 1e-12)
    # Positions, velocities and accelerations belong together: a quintic through neighbours agrees with the differences.
    step = np.diff(motion.times)[:, None]
    mean = 0.5 * (motion.velocities[1:] + motion.velocities[:-1])
    np.testing.assert_allclose(np.diff(motion.positions, axis=0) / step, mean, atol=0.05)
    tip, rotation = chain.forward(motion.positions)
    stroke = (motion.times >= made.stroke_start) & (motion.times <= made.rise_start)
    across = (tip[stroke] - made.path.contact) @ made.path.rotation[:, 1:]
    assert np.abs(across).max() < 0.3e-3
    assert np.abs(rotation[stroke] - made.path.rotation).max() < 1e-5
    velocity = (chain.jacobian(motion.positions)[:, :3] @ motion.velocities[..., None])[..., 0]
    past = (tip - made.path.contact) @ made.path.forward
    cruise = (past > -made.path.profile.lead + 1e-4) & (past < made.path.profile.through - 1e-4)
    speed = velocity[cruise & stroke] @ made.path.forward
    np.testing.assert_allclose(speed, shot.speed, rtol=0.01)
    np.testing.assert_allclose(
        chain.forward(motion.positions[np.argmin(np.abs(motion.times - made.contact_time))])[0][0],
        made.path.contact,
        atol=0.6 * shot.speed * backend.settings.period + 1e-6,
    )


@pytest.mark.parametrize("speed, least", [(0.3, 0.70), (0.8, 0.50)])
def test_most_random_shots_are_planned_and_the_fast_test_agrees(
    backend: MinkBackend, speed: float, least: float
) -> None:
    rng = np.random.default_rng(4)
    half = np.array([backend.table.length, backend.table.width]) / 2 - backend.table.ball_stop
    planned, agreed, count = 0, 0, 40
    for index in range(count):
        ball, azimuth = rng.uniform(-half, half), rng.uniform(-np.pi, np.pi)
        shot = Shot(f"s{index}", speed, azimuth)
        reachable, _reason = backend.reach.reachable(ball, azimuth, speed)
        try:
            check(backend, shot, plan(backend, shot, tuple(ball)))
            played = True
        except ArmError as error:
            assert error.code in (ArmCode.UNREACHABLE, ArmCode.COLLISION)
            played = False
        planned += played
        agreed += played == reachable
    assert planned / count >= least
    assert agreed / count >= 0.95


def test_side_and_height_of_the_tip_are_played(backend: MinkBackend) -> None:
    shot = Shot("s", 0.6, 0.4, side_offset=0.25, vertical_offset=-0.1)
    check(backend, shot, plan(backend, shot, (-0.1, 0.05)))


def test_a_little_elevation_is_played(backend: MinkBackend) -> None:
    shot = Shot("s", 0.5, 0.4, elevation=0.1)
    check(backend, shot, plan(backend, shot, (-0.1, 0.05)))


def test_plans_are_the_same_each_time(backend: MinkBackend) -> None:
    shot = Shot("s", 0.6, -2.0)
    first, second = (plan(backend, shot, (0.2, 0.0)) for _ in range(2))
    np.testing.assert_array_equal(first.trajectory.positions, second.trajectory.positions)


def test_a_ball_behind_the_cue_ball_is_named(backend: MinkBackend) -> None:
    with pytest.raises(CollisionError, match=r"(cue \w+|wrist \d link) would touch ball 5 in the stroke"):
        plan(backend, Shot("s", 0.5, 0.0), (0.0, 0.0), {5: np.array([-0.055, 0.0])})


def test_a_ball_just_ahead_is_named(backend: MinkBackend) -> None:
    with pytest.raises(CollisionError, match="cue tip would touch cue ball again: ball 8 stops it"):
        plan(backend, Shot("s", 0.8, 0.0), (0.0, 0.0), {8: np.array([0.05, 0.0])})


def test_the_rail_behind_a_ball_at_the_cushion_is_named(backend: MinkBackend) -> None:
    edge = backend.table.width / 2 - backend.table.ball_stop - 0.002
    with pytest.raises(CollisionError, match=r"cue \w+ would touch north( \w+)? rail in the stroke"):
        plan(backend, Shot("s", 0.5, -np.pi / 2), (0.1, edge))
    reachable, reason = backend.reach.reachable(np.array([0.1, edge]), -np.pi / 2, 0.5)
    assert not reachable and "north" in reason and "rail" in reason


def test_the_cue_is_raised_over_the_rail_where_a_level_one_does_not_fit(backend: MinkBackend) -> None:
    edge = backend.table.width / 2 - backend.table.ball_stop - 0.002
    for ball, azimuth in (((0.1, edge), -np.pi / 2), ((-0.2, -edge), 1.2), ((0.1, 0.05), -np.pi / 2)):
        wanted = Shot("s", 0.35, azimuth)
        shot = backend.reach.raised(wanted, np.array(ball))
        assert (shot.elevation > 0) == (abs(ball[1]) == edge)
        check(backend, shot, plan(backend, shot, ball))
    with pytest.raises(CollisionError, match="cue tip would touch cue ball again"):
        backend.reach.raised(Shot("s", 0.35, np.pi / 2), np.array([0.1, edge]))


def test_a_low_tip_over_the_cloth_is_named(backend: MinkBackend) -> None:
    with pytest.raises(CollisionError, match=r"cue \w+ would touch cloth in the stroke"):
        plan(backend, Shot("s", 0.5, 0.0, vertical_offset=-0.3), (0.0, 0.0))


def test_too_much_speed_names_the_joint(backend: MinkBackend) -> None:
    with pytest.raises(UnreachableError, match=r"\w+_joint would need [\d.]+ rad/s at 1.80 m/s, has 3.05"):
        plan(backend, Shot("s", 1.8, 0.0), (-0.4, 0.0))


def test_a02_a_scene_without_the_cue_or_a_table_is_found_out_before_the_first_shot(
    robot: RobotConfig, table: TableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = replace(robot, gap=1.9)
    with pytest.raises(UnreachableError, match="ur5e reaches no ball on the table from where its file puts it"):
        MinkBackend(far, table)
    monkeypatch.setattr("cue_arm.clearance.add_robot", _without_cue)
    with pytest.raises(ArmError, match="the scene is wrong: a cue led into the cloth touches nothing there"):
        MinkBackend(robot, table)


def _without_cue(spec: Any, robot: RobotConfig, table: TableModel) -> None:
    add_robot(spec, robot, table)
    for geom in spec.geoms:
        if geom.name.startswith("robot/cue"):
            if np.isnan(geom.fromto[0]):
                geom.pos = [0.0, 0.0, 9.0]
            else:
                geom.fromto = [0.0, 0.0, 9.0, 0.0, 0.0, 9.1]


def test_a_ball_out_of_reach_is_refused(backend: MinkBackend) -> None:
    with pytest.raises(UnreachableError, match="out of reach or singular"):
        plan(backend, Shot("s", 0.3, np.pi / 2), (2.0, 0.0))


def test_an_arm_that_is_elsewhere_goes_home_first(backend: MinkBackend) -> None:
    shot = Shot("s", 0.5, 0.4)
    usual = plan(backend, shot, (-0.1, 0.05))
    middle = usual.trajectory.positions[np.argmin(np.abs(usual.trajectory.times - usual.stroke_start))]
    again = plan(backend, shot, (-0.1, 0.05), start=middle)
    np.testing.assert_allclose(again.trajectory.positions[0], middle, atol=1e-9)
    assert again.contact_time > usual.contact_time
    check(backend, shot, again)
    # The tip leaves the table upwards: it never comes lower than where it was.
    leaving = again.trajectory.times < again.contact_time - usual.contact_time
    heights = backend.reach.chain.forward(again.trajectory.positions[leaving])[0][:, 2]
    assert heights.min() > heights[0] - 1e-4


def test_an_arm_that_touches_something_already_does_not_move(backend: MinkBackend) -> None:
    usual = plan(backend, Shot("s", 0.5, 0.4), (-0.1, 0.05))
    low = usual.trajectory.positions[np.argmin(np.abs(usual.trajectory.times - usual.stroke_start))]
    tip = backend.reach.chain.forward(low)[0][0]
    with pytest.raises(CollisionError, match="would touch ball 7 where it rests now"):
        plan(backend, Shot("s", 0.5, 0.4), (-0.1, 0.05), {7: tip[:2]}, start=low)


def test_what_progress_raises_ends_the_planning(backend: MinkBackend) -> None:
    def stop(_share: float) -> None:
        raise ArmError(ArmCode.CANCELED, "enough")

    with pytest.raises(ArmError, match="enough"):
        backend.plan(StrokeRequest(Shot("s", 0.5, 0.4), np.array([-0.1, 0.05]), {}, backend.robot.home), stop)


def test_an_arm_with_seven_joints_plays(table: TableModel) -> None:
    backend = MinkBackend(RobotConfig.load(CONFIG / "robots" / "fr3.yaml"), table)
    planned = 0
    for index, (ball, azimuth) in enumerate((((-0.1, 0.05), 0.4), ((0.2, 0.0), -2.0), ((0.0, -0.1), 1.0))):
        shot = Shot(f"s{index}", 0.3, azimuth)
        try:
            made = plan(backend, shot, ball)
        except ArmError:
            assert not backend.reach.reachable(np.array(ball), azimuth, 0.3)[0]
            continue
        check(backend, shot, made)
        assert made.trajectory.positions.shape[1] == 7
        planned += 1
    assert planned >= 2


def test_jerk_is_limited(robot: RobotConfig, table: TableModel) -> None:
    gentle = MinkBackend(robot, table, StrokeSettings(stroke_jerk=1500.0))
    motion = plan(gentle, Shot("s", 0.8, 0.4), (-0.1, 0.05)).trajectory
    jerk = np.diff(motion.accelerations, axis=0) / np.diff(motion.times)[:, None]
    assert np.abs(jerk).max() <= 1500.0 + 1e-6
