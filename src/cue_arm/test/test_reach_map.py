"""The map of what the arm can reach, against the arm's own test; and the ways round what is in the way."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cue_arm.errors import CollisionError
from cue_arm.planner import MinkBackend
from cue_arm.rails import rail_boxes
from cue_arm.reach import Reach
from cue_arm.reach_map import MAP_FILE, Grid, ReachMap, map_key
from cue_arm.way_round import way_round
from cue_core import TableModel
from cue_core.errors import FileFormatError
from cue_sim.robot import RobotConfig

START = [-2.877, -1.828, -2.337, -0.547, 1.571, 2.185]
GOAL = [-0.868, -1.246, 2.231, 0.586, -4.712, 1.628]
"""Over the table, with the elbow on one side and on the other."""
GRID = Grid(spacing=0.25, azimuths=12, speeds=(0.1, 0.4, 0.8, 1.4))


@pytest.fixture(scope="module")
def known(backend: MinkBackend) -> ReachMap:
    return ReachMap.build(backend.reach, GRID)


def test_the_map_says_what_the_arm_says(known: ReachMap) -> None:
    rng = np.random.default_rng(2)
    table = known.reach.table
    half = np.array([table.length, table.width]) / 2 - table.ball_stop
    agreed, playable, count = 0, 0, 150
    for _ in range(count):
        ball, azimuth, speed = rng.uniform(-half, half), rng.uniform(-np.pi, np.pi), rng.uniform(0.1, 1.2)
        said, why = known.reachable(ball, azimuth, speed)
        assert said != bool(why)
        wanted, _ = known.reach.reachable(ball, azimuth, speed)
        agreed, playable = agreed + (said == wanted), playable + wanted
    assert agreed / count >= 0.93 and 0.3 < playable / count < 0.9  # on a third of the usual grid


def test_many_questions_at_once_and_balls_in_the_way(known: ReachMap) -> None:
    ball, behind = np.array([0.1, 0.05]), np.array([0.05, 0.05])
    azimuths, speeds = np.linspace(-3, 3, 9), np.full(9, 0.4)
    free = known.playable(ball, azimuths, speeds)
    np.testing.assert_array_equal(free, [known.reachable(ball, a, v)[0] for a, v in zip(azimuths, speeds, strict=True)])
    assert known.reachable(ball, 0.0, 0.4) == (True, "")
    assert known.reachable(ball, 0.0, 0.4, {5: behind}) == (False, "cue would touch ball 5")
    assert "comes back from a cushion" in known.reachable(np.array([0.1, 0.22]), np.pi / 2, 0.4)[1]
    assert "rail" in known.reachable(np.array([0.1, 0.24]), -np.pi / 2, 0.4)[1]
    assert "m/s here" in known.reachable(ball, 0.3, 4.0)[1]
    assert known.share_playable((0.4,)).shape == (len(known.x), len(known.y))


def test_a_map_is_kept_and_only_taken_for_what_it_is(known: ReachMap, table: TableModel, tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    known.save(path)
    again = ReachMap.load(path, known.reach)
    np.testing.assert_array_equal(again.fastest, known.fastest)
    settings = known.reach.settings
    near, far = replace(table, length=table.length + 0.002, corner_mouth=0.08), replace(table, length=1.2)
    keys = [map_key(known.reach.robot, t, settings) for t in (table, near, far)]
    assert keys[0] == keys[1] != keys[2]
    other = Reach.__new__(Reach)  # only what the map compares
    other.__dict__ = {**known.reach.__dict__, "table": far}
    with pytest.raises(FileFormatError, match="of another robot, table or settings"):
        ReachMap.load(path, other)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(FileFormatError, match="is no map of what an arm can reach"):
        ReachMap.load(path, known.reach)
    with pytest.raises(FileFormatError, match="is not there"):
        ReachMap.load(tmp_path / "none.npz", known.reach)


def test_rails_leave_the_pockets_open(table: TableModel) -> None:
    boxes = rail_boxes(table)

    def inside(x: float, y: float) -> bool:
        return any(np.all([x, y] >= low[:2]) and np.all([x, y] <= high[:2]) for low, high in boxes.values())

    edge = table.width / 2
    assert inside(0.2, edge + 0.005) and not inside(0.0, edge + 0.005)
    assert inside(0.0, edge + 0.5 * table.rail_width)
    assert inside(0.04, edge + 0.005)  # the jaw
    end = table.length / 2
    assert inside(end + 0.005, 0.0) and not inside(end + 0.005, edge - 0.005)
    assert inside(end + 0.5 * table.rail_width, edge - 0.005) and len(boxes) == 10
    closed = rail_boxes(replace(table, corner_mouth=0.0, side_mouth=0.0))
    assert sorted(closed) == ["east rail", "north rail", "south rail", "west rail"]


def test_a_way_round_is_found_drawn_tight_and_the_same_each_time() -> None:
    def free(q: np.ndarray) -> bool:
        return abs(q[0]) > 0.3 or q[1] > 0.5  # a wall with a way over it

    start, goal, lower, upper = np.array([-1.0, 0.0]), np.array([1.0, 0.0]), np.full(2, -3.0), np.full(2, 3.0)
    way = way_round(start, goal, lower, upper, free, 4000)
    assert way is not None and len(way) <= 6
    for a, b in pairwise(way):
        assert all(free(a + s * (b - a)) for s in np.linspace(0, 1, 60))
    np.testing.assert_array_equal(way, way_round(start, goal, lower, upper, free, 4000))
    assert way_round(start, goal, lower, upper, lambda q: abs(q[0]) > 0.3, 4000) is None


def test_the_backend_goes_round_where_neither_the_straight_way_nor_a_lifted_one_is_clear(backend: MinkBackend) -> None:
    start, goal = np.array(START), np.array(GOAL)
    clearance = backend.reach.clearance
    clearance.place_balls({})
    with pytest.raises(CollisionError):
        clearance.check_motion(np.stack([start, goal]))
    motion = backend._free(start, goal, "on the way")
    np.testing.assert_allclose(motion.positions[[0, -1]], [start, goal], atol=1e-9)
    assert np.abs(motion.velocities[[0, -1]]).max() < 1e-9 and np.all(np.diff(motion.times) > 0)
    clearance.check_motion(motion.positions)
    np.testing.assert_array_equal(motion.positions, backend._free(start, goal, "again").positions)


def test_a_run_gets_a_copy_of_the_kept_map(
    known: ReachMap, robot: RobotConfig, table: TableModel, tmp_path: Path
) -> None:
    path = tmp_path / "cache" / f"{map_key(robot, table, known.reach.settings)}.npz"
    path.parent.mkdir()
    known.save(path)
    made = ReachMap.cached(robot, table, folder=path.parent, beside=tmp_path / "run")
    np.testing.assert_array_equal(made.fastest, known.fastest)
    with np.load(tmp_path / "run" / MAP_FILE) as kept:
        assert kept["playable"].shape == (len(kept["x"]), len(kept["y"])) and kept["playable"].max() > 0.5
