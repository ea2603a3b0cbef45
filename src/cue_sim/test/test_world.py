"""The world: the servo tracks, the tip moves the ball as a strike should, one seed is one history, states survive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from cue_core.errors import FileFormatError
from cue_core.parameters import PARAMETERS
from cue_sim.kernel import EventKind
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model
from cue_sim.trajectory import JointTrajectory, Tolerances, TrajectoryCode, check_motion
from cue_sim.twin import Start, Twin
from cue_sim.world import SECOND, World
from cue_sim.world_config import Steps, WorldConfig

RESTITUTION = list(PARAMETERS).index("tip_restitution")
READY = np.array([0.2, -1.6, 2.2, -2.17, -np.pi / 2, 0.0])


@pytest.fixture(scope="module")
def nominal() -> WorldConfig:
    return WorldConfig.load("nominal", 1)


class _Arm:
    """Inverse kinematics by Newton steps: enough for straight strokes in the middle of the table."""

    def __init__(self, world: WorldConfig) -> None:
        self.model = robot_model(world.robot, world.table)
        self.data = mujoco.MjData(self.model)
        self.site = self.model.site(TIP_SITE).id

    def jacobian(self) -> np.ndarray:
        jacobian = np.zeros((6, 6))
        mujoco.mj_jacSite(self.model, self.data, jacobian[:3], jacobian[3:], self.site)
        return jacobian

    def solve(self, guess: np.ndarray, place: np.ndarray, azimuth: float) -> np.ndarray:
        forward = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        down = np.array([0.0, 0.0, -1.0])
        wanted = np.stack([forward, np.cross(down, forward), down], 1)
        joints = guess.copy()
        for _ in range(100):
            self.data.qpos[:] = joints
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_comPos(self.model, self.data)
            axes = self.data.site_xmat[self.site].reshape(3, 3)
            turn = 0.5 * sum(np.cross(axes[:, k], wanted[:, k]) for k in range(3))
            error = np.concatenate([place - self.data.site_xpos[self.site], turn])
            if np.linalg.norm(error) < 1e-9:
                return joints
            joints += np.linalg.solve(self.jacobian(), error)
        raise AssertionError(f"no inverse kinematics at {place}")

    def stroke(self, ball: np.ndarray, radius: float, azimuth: float, speed: float) -> JointTrajectory:
        """Accelerate over 48 mm, meet the ball at constant speed, brake; one second before it from home."""
        forward = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        start = np.array([*ball, radius]) - forward * (radius + 0.06)
        ramp, flat = 0.048, 0.017
        time_ramp, time_flat = 2 * ramp / speed, flat / speed
        times = np.arange(0.0, 2 * time_ramp + time_flat, 0.008)
        rows, speeds = [], []
        joints = self.solve(READY, start, azimuth)
        for t in times:
            up = min(t, time_ramp)
            level = min(max(t - time_ramp, 0.0), time_flat)
            brake = max(t - time_ramp - time_flat, 0.0)
            way = speed * (up**2 / (2 * time_ramp) + level + brake - brake**2 / (2 * time_ramp))
            pace = speed * (up / time_ramp - brake / time_ramp)
            joints = self.solve(joints, start + way * forward, azimuth)
            rows.append(joints)
            speeds.append(np.linalg.solve(self.jacobian(), np.concatenate([pace * forward, np.zeros(3)])))
        times = np.concatenate([[1.2, 1.4], 1.4 + times[1:]])
        return JointTrajectory(times, np.array(rows[:1] + rows), np.array([np.zeros(6), *speeds]))


def _strike(world: WorldConfig, speed: float, azimuth: float = 0.3) -> tuple[World, np.ndarray, float]:
    """Play a stroke; return the world, the ball's velocity just after it and the largest tracking error [rad]."""
    table = World(world)
    trajectory = _Arm(world).stroke(world.positions[0], world.table.ball_radius, azimuth, speed)
    joints = table.joints()
    whole = check_motion(world.robot, trajectory, joints.positions, joints.velocities)
    table.follower.start(whole, Tolerances.default(), 0.0)
    after, worst = np.zeros(2), 0.0
    struck = None
    while table.follower.active:
        table.run_to(table.time + 2_000_000)
        now = table.time / SECOND
        if now > 0.1:
            worst = max(worst, np.abs(table.joints().positions - table.follower.set_point(now)[0]).max())
        if struck is None and any(e.kind == "strike" for e in table.events):
            struck = table.time
        if struck is not None and not after.any() and table.time >= struck + 4_000_000:
            after = table.balls().velocities[0, :2].copy()
    assert table.follower.outcome == (TrajectoryCode.SUCCESSFUL, "")
    return table, after, worst


def test_the_arm_holds_its_home_position(nominal: WorldConfig) -> None:
    world = World(nominal)
    world.run_to(SECOND // 2)
    assert np.abs(world.joints().positions - nominal.robot.home).max() < 1e-3
    assert not world.moving
    assert not world.events


@pytest.mark.parametrize("speed", [0.3, 1.0])
def test_the_servo_tracks_and_the_tip_gives_the_ball_its_speed_and_direction(
    nominal: WorldConfig, speed: float
) -> None:
    world, velocity, worst = _strike(nominal, speed)
    assert 1e-6 < worst < 2e-3  # small but real
    expected = (1 + nominal.parameters[RESTITUTION]) * speed / (1 + nominal.table.ball_mass / 2.0)  # about 2 kg of arm
    assert np.linalg.norm(velocity) == pytest.approx(expected, rel=0.04)
    assert abs(np.degrees(np.arctan2(velocity[1], velocity[0]) - 0.3)) < 0.3
    assert [e.kind for e in world.events if e.kind != "pocketed"] == ["strike"]


def test_halving_the_contact_step_hardly_changes_the_strike(nominal: WorldConfig) -> None:
    speeds = []
    for step in (1e-4, 5e-5):
        _, velocity, _ = _strike(replace(nominal, steps=Steps(contact=step)), 0.6)
        speeds.append(np.linalg.norm(velocity))
    assert speeds[1] == pytest.approx(speeds[0], rel=0.01)


def test_the_same_seed_gives_the_same_history_to_the_last_bit(nominal: WorldConfig) -> None:
    first, second = (_strike(nominal, 0.8)[0] for _ in range(2))
    np.testing.assert_array_equal(first.balls().positions, second.balls().positions)
    np.testing.assert_array_equal(first.joints().positions, second.joints().positions)


def test_a_restored_world_goes_on_as_the_killed_one_would_have(nominal: WorldConfig, tmp_path: Path) -> None:
    world, _, _ = _strike(nominal, 0.8)
    world.save(tmp_path / "world_state.npz")
    again = World(nominal)
    assert again.restore(tmp_path / "world_state.npz")
    assert again.time == world.time
    for table in (world, again):
        table.run_to(world.config.camera.fps and again.time + 2 * SECOND)
    np.testing.assert_allclose(again.balls().positions, world.balls().positions, atol=1e-9)
    np.testing.assert_allclose(again.joints().positions, world.joints().positions, atol=1e-3)
    assert list(tmp_path.iterdir()) == [tmp_path / "world_state.npz"]  # no leftovers


def test_a_state_of_another_world_is_refused(nominal: WorldConfig, tmp_path: Path) -> None:
    path = tmp_path / "world_state.npz"
    World(nominal).save(path)
    with pytest.raises(FileFormatError, match="another world"):
        World(WorldConfig.load("hidden", 3)).restore(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileFormatError, match="not a world's state"):
        World(nominal).restore(path)
    assert not World(nominal).restore(tmp_path / "none.npz")


def test_pocketed_balls_are_gone_and_stay_gone(nominal: WorldConfig, tmp_path: Path) -> None:
    world = World(nominal)
    pocket = nominal.table.pockets[0]
    i = nominal.ball_ids.index(3)
    at, dof = world._layout.qpos[i], world._layout.dof[i]
    world._data.qpos[at : at + 2] = pocket.position - [0.12, 0.12]
    world._data.qvel[dof : dof + 2] = (0.6, 0.6)
    world.run_to(SECOND)
    truth = world.balls()
    assert truth.pocketed.tolist() == [False, False, True, False, False, False]
    np.testing.assert_allclose(truth.positions[i, :2], pocket.position)
    assert [e.kind for e in world.events] == ["pocketed"]
    world.save(tmp_path / "state.npz")
    again = World(nominal)
    again.restore(tmp_path / "state.npz")
    assert again.balls().pocketed[i]


def test_what_the_arm_touches_besides_the_cue_ball_is_noted(nominal: WorldConfig) -> None:
    world = World(nominal)
    joints = _Arm(nominal).solve(READY, np.array([0.0, 0.1, 0.004]), 0.3)  # the tip's sphere reaches into the bed
    move = JointTrajectory(np.array([1.5]), joints[None], np.zeros((1, 6)))
    home = world.joints()
    world.follower.start(
        check_motion(nominal.robot, move, home.positions, home.velocities), Tolerances(*np.ones((2, 6)), 1.0), 0.0
    )
    world.run_to(2 * SECOND)
    assert any(e.kind == "collision" and "table/bed" in e.text for e in world.events)


def test_frames_and_joint_samples_keep_their_times(nominal: WorldConfig) -> None:
    world = World(nominal)
    for frame in (1, 2, 3):
        samples = world.next_frame()
        assert world.frame == frame
        assert world.time == round(frame * SECOND / 30) == samples[-1].time
        assert all(s.time % 8_000_000 == 0 for s in samples[:-1])


def test_the_robot_stands_beside_the_table_and_keeps_out_of_it_at_home(nominal: WorldConfig) -> None:
    robot: RobotConfig = nominal.robot
    model = robot_model(robot, nominal.table)
    data = mujoco.MjData(model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(model, data)
    assert data.geom_xpos[:, 1].max() < -nominal.table.width / 2 - 0.5 * nominal.table.rail_width


def test_a_world_plays_by_the_terms_of_its_file(nominal: WorldConfig) -> None:
    """A light ball, a large one, moved noses, nap and uneven cloth: as the twin with these parameters plays them."""
    values = nominal.parameters.copy()
    changes = {"mass_ratio_1": 0.85, "diameter_ratio_0": 1.03, "nap_y2": 0.15, "cloth_field_2_1": 0.4}
    for name, value in (changes | {f"nose_offset_{i}": 0.003 for i in range(6)}).items():
        values[list(PARAMETERS).index(name)] = value
    config = replace(nominal, parameters=values)
    world, twin = World(config), Twin(config.table, config.ball_ids)
    start = Start.at_rest(config.positions)
    way = config.positions[1] - config.positions[0]
    start.velocities[0] = 0.7 * way / np.linalg.norm(way)
    world._data.qvel[world._layout.dof[0] : world._layout.dof[0] + 2] = start.velocities[0]
    world.run_to(2 * SECOND)
    path = twin.simulate(start, values, [2.0])
    kinds = {event.kind for event in path.events if event.time < 2.0}
    assert kinds >= {EventKind.BALL_BALL, EventKind.CUSHION}
    np.testing.assert_allclose(world.balls().positions[:, :2], path.positions[0], atol=1e-4)
    plain = twin.simulate(start, nominal.parameters, [2.0])
    assert np.abs(plain.positions - path.positions).max() > 0.01
