"""Goals of the simulated robot: begin, end, replace, cancel; each ends exactly once."""

from __future__ import annotations

import numpy as np
import pytest

from cue_sim.goals import Ending, Goal, GoalKeeper
from cue_sim.trajectory import JointTrajectory, Tolerances, TrajectoryCode
from cue_sim.world import World
from cue_sim.world_config import WorldConfig


@pytest.fixture(scope="module")
def config() -> WorldConfig:
    return WorldConfig.load("nominal", 1)


def _goal(config: WorldConfig, move: float = 0.3, duration: float = 0.6) -> Goal:
    home = config.robot.home
    points = np.stack([home, home + move * np.array([1, 0, 0, 0, 0, 0])])
    return Goal(JointTrajectory(np.array([0.0, duration]), points, np.zeros((2, 6))), Tolerances.default())


def _frames(world: World, keeper: GoalKeeper, count: int) -> bool:
    ended = False
    for _ in range(count):
        world.next_frame()
        keeper.count_frame()
        ended |= keeper.settle()
    return ended


def test_a_goal_succeeds_at_a_frame_boundary(config: WorldConfig) -> None:
    world = World(config)
    keeper, goal = GoalKeeper(world), _goal(config)
    keeper.submit(goal)
    keeper.begin(lambda waited, active: True)
    assert keeper.busy
    assert _frames(world, keeper, 25)
    assert (goal.ending, goal.code) == (Ending.SUCCEEDED, TrajectoryCode.SUCCESSFUL)
    assert not keeper.busy
    assert abs(world.joints().positions[0] - config.robot.home[0] - 0.3) < 0.01


def test_a_goal_waits_until_it_may_begin(config: WorldConfig) -> None:
    world = World(config)
    keeper, goal = GoalKeeper(world), _goal(config)
    keeper.submit(goal)
    keeper.begin(lambda waited, active: False)
    _frames(world, keeper, 3)
    assert goal.waited == 3
    assert not keeper.busy


def test_a_cancelled_goal_brakes_holds_and_says_how_far_it_got(config: WorldConfig) -> None:
    world = World(config)
    keeper, goal = GoalKeeper(world), _goal(config, move=1.0, duration=1.0)
    keeper.submit(goal)
    keeper.begin(lambda waited, active: True)
    _frames(world, keeper, 12)
    goal.cancel = True
    assert not keeper.settle()  # it brakes first
    assert keeper.busy
    assert _frames(world, keeper, 10)
    assert goal.ending is Ending.CANCELED
    assert goal.text == "canceled after 0.400 of 1.000 s"
    assert np.abs(world.joints().velocities).max() < 1e-2
    held = world.joints().positions
    _frames(world, keeper, 5)
    assert np.abs(world.joints().positions - held).max() < 1e-3


def test_a_newer_goal_replaces_the_older_which_ends_aborted(config: WorldConfig) -> None:
    world = World(config)
    keeper, first = GoalKeeper(world), _goal(config)
    keeper.submit(first)
    keeper.begin(lambda waited, active: True)
    _frames(world, keeper, 5)
    far = config.robot.home - np.array([0.4, 0, 0, 0, 0, 0])
    second = Goal(JointTrajectory(np.array([1.0]), far[None], np.zeros((1, 6))), Tolerances.default())
    keeper.submit(second)
    keeper.begin(lambda waited, active: True)
    assert first.ending is Ending.ABORTED and "newer goal" in first.text
    _frames(world, keeper, 40)
    assert second.ending is Ending.SUCCEEDED
    assert abs(world.joints().positions[0] - far[0]) < 0.01


def test_a_goal_that_begins_elsewhere_is_aborted_with_its_code(config: WorldConfig) -> None:
    world = World(config)
    keeper, goal = GoalKeeper(world), _goal(config)
    goal.trajectory.positions[0] += 0.2
    keeper.submit(goal)
    keeper.begin(lambda waited, active: True)
    assert (goal.ending, goal.code) == (Ending.ABORTED, TrajectoryCode.INVALID_GOAL)
    assert not keeper.busy


def test_a_cancelled_goal_that_has_not_begun_just_ends(config: WorldConfig) -> None:
    keeper, goal = GoalKeeper(World(config)), _goal(config)
    keeper.submit(goal)
    goal.cancel = True
    assert not keeper.settle()
    assert goal.ending is Ending.CANCELED


def test_everything_ends_with_the_world(config: WorldConfig) -> None:
    keeper, goal = GoalKeeper(World(config)), _goal(config)
    keeper.submit(goal)
    keeper.end_all("the world ends")
    assert (goal.ending, goal.text) == (Ending.ABORTED, "the world ends")
    goal.end(Ending.SUCCEEDED, TrajectoryCode.SUCCESSFUL, "too late")
    assert goal.ending is Ending.ABORTED
