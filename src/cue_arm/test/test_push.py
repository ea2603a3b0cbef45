"""Balls are pushed to where they shall rest, in the simulated world too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cue_arm.envelope import Envelope
from cue_arm.errors import CollisionError
from cue_arm.planner import MinkBackend
from cue_arm.push import PushRequest, PushSettings, next_stop, plan_push, push_path
from cue_arm.settings import StrokeSettings
from cue_arm.simulated import SimulatedArm
from cue_arm.situation import Situation
from cue_sim.world import World
from cue_sim.world_config import WorldConfig

SETTINGS = PushSettings()


def test_a_long_way_is_cut_into_equal_parts() -> None:
    ball, goal = np.zeros(2), np.array([0.0, 0.15])
    stops = []
    while np.linalg.norm(goal - ball) > 1e-9:
        ball = next_stop(ball, goal, SETTINGS)
        stops.append(float(ball[1]))
    np.testing.assert_allclose(stops, [0.075, 0.15])


@pytest.mark.parametrize("length, elevation, height", [(0.002, 0.0, 0.0), (0.02, 0.6, 0.3), (0.06, 0.4, 0.0)])
def test_the_tip_ends_where_the_ball_shall_rest_and_brakes_gently(
    backend: MinkBackend, length: float, elevation: float, height: float
) -> None:
    ball, table = np.array([0.1, 0.02]), backend.table
    stop = ball + length * np.array([np.cos(2.0), np.sin(2.0)])
    path = push_path(ball, stop, table, 0.006, StrokeSettings(), SETTINGS, elevation, height)
    centre = path.front - 0.006 * path.rotation[:, 0]
    assert np.linalg.norm(np.array([*stop, table.ball_radius]) - centre) == pytest.approx(table.ball_radius + 0.006)
    assert centre[2] == pytest.approx(table.ball_radius + height * (table.ball_radius + 0.006))
    assert path.forward[2] == 0.0
    _, velocity, acceleration = path.at(np.linspace(path.stroke_start, path.rise_start, 500)[1:-1])
    speed = velocity @ path.forward
    assert speed.max() <= SETTINGS.speed + 1e-9
    assert (acceleration @ path.forward).min() > -1.3 * SETTINGS.braking


def test_what_lies_in_the_way_is_named(backend: MinkBackend) -> None:
    ball = np.array([0.0, 0.0])

    def push(goal: tuple[float, float], others: dict[int, np.ndarray]) -> None:
        request = PushRequest(3, ball, np.array(goal), others, backend.robot.home)
        plan_push(backend, backend.table, request, StrokeSettings(), SETTINGS, lambda _: None)

    with pytest.raises(CollisionError, match="ball 3 would touch cue ball on its way"):
        push((0.05, 0.0), {0: np.array([0.07, 0.01])})
    with pytest.raises(CollisionError, match="ball 3 would touch a cushion on its way"):
        ball = np.array([0.0, 0.22])
        push((0.0, 0.27), {})


def test_a_ball_is_pushed_to_its_goal(backend: MinkBackend) -> None:
    hidden = WorldConfig.load("hidden", 1, "small", "ur5e")
    start, goal = np.array([-0.05, 0.03]), np.array([0.05, -0.02])
    places = np.stack([np.array([0.35, 0.15]), start])
    world = World(replace(hidden, ball_ids=(0, 3), positions=places))
    situation, envelope = Situation(), Envelope(backend.robot, backend.table)
    arm = SimulatedArm(world, situation, noise=3e-4)
    for _ in range(6):
        seen = situation.balls_on_table()
        joints = situation.newest_joints()
        assert joints is not None
        if np.linalg.norm(seen[3] - goal) < SETTINGS.tolerance:
            break
        request = PushRequest(3, seen[3], goal, {0: seen[0]}, joints[1])
        plan = plan_push(backend, backend.table, request, StrokeSettings(), SETTINGS, lambda _: None)
        envelope.check(plan.trajectory, joints[1])
        assert arm.send(plan.trajectory).failure == ""
    assert np.linalg.norm(world.balls().positions[1, :2] - goal) < 0.005
    assert np.linalg.norm(world.balls().positions[0, :2] - places[0]) < 1e-6
    touched = [event.text for event in world.take_events() if event.kind in ("strike", "collision")]
    assert touched and all(text == "robot/cue_tip touches ball_3" for text in touched)
