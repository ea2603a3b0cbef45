"""The MoveIt backend against a fake of the MoveItPy calls that it makes; no real MoveIt has seen it."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from cue_arm.backends import make_backend
from cue_arm.backends.moveit import MoveItBackend, MoveItError
from cue_arm.backends.moveit_config import joint_limits, moveit_parameters, robot_srdf
from cue_arm.backends.moveit_fake import FakeMoveIt
from cue_arm.envelope import Envelope
from cue_arm.errors import ArmError, CollisionError, UnreachableError
from cue_arm.measure import JointRecord, measure_stroke
from cue_arm.planner import StrokeRequest
from cue_arm.push import PushRequest, PushSettings, plan_push
from cue_arm.rails import rail_boxes
from cue_arm.scene_check import check_scene
from cue_arm.search import Search
from cue_arm.settings import StrokeSettings
from cue_core import Shot, TableModel
from cue_core.errors import UnknownNameError
from cue_sim.robot import RobotConfig

CONFIG = Path(__file__).resolve().parents[3] / "config"
BALL = np.array([-0.1, 0.05])


@pytest.fixture(scope="module")
def fake(robot: RobotConfig, table: TableModel) -> FakeMoveIt:
    return FakeMoveIt(robot, table)


@pytest.fixture(scope="module")
def moveit(robot: RobotConfig, table: TableModel, fake: FakeMoveIt) -> MoveItBackend:
    return MoveItBackend(robot, table, search=Search(rolls=(0.0,), ways=2), api=fake)


def test_a_stroke_passes_the_envelope_and_meets_the_ball_as_asked(moveit: MoveItBackend) -> None:
    shot = Shot("a", 0.6, 0.4, side_offset=0.2)
    others = {3: np.array([0.3, 0.1])}
    plan = moveit.plan(StrokeRequest(shot, BALL, others, moveit.robot.home))
    Envelope(moveit.robot, moveit.table).check(plan.trajectory, moveit.robot.home)
    np.testing.assert_allclose(plan.trajectory.positions[-1], moveit.robot.home, atol=1e-6)
    trajectory = plan.trajectory
    record = JointRecord(trajectory.times, trajectory.positions, trajectory.velocities)
    radius, tip = moveit.table.ball_radius, moveit.robot.cue.tip_radius
    stroke = measure_stroke(record, moveit.reach.chain, BALL, radius, tip)
    assert stroke is not None
    assert stroke.tip_speed == pytest.approx(0.6, rel=0.01)
    assert stroke.azimuth == pytest.approx(0.4, abs=0.003)
    assert stroke.side_offset == pytest.approx(0.2, abs=0.03)
    assert stroke.contact_time == pytest.approx(plan.contact_time, abs=0.01)


def test_the_scene_holds_table_rails_and_balls(moveit: MoveItBackend, fake: FakeMoveIt) -> None:
    others = {3: np.array([0.3, 0.1]), 5: np.array([0.2, -0.1])}
    moveit.plan(StrokeRequest(Shot("a", 0.4, 0.4), BALL, others, moveit.robot.home))
    objects = fake.started[-1].scene.objects
    assert {"cloth", "ball 3", "ball 5", *rail_boxes(moveit.table)} <= objects.keys()
    assert "cue ball" not in objects  # it is on its way when the arm goes home
    moveit.plan(StrokeRequest(Shot("b", 0.4, 0.4), BALL, {}, moveit.robot.home))
    assert not {"ball 3", "ball 5"} & objects.keys()
    place = objects["cloth"].primitive_poses[0].position
    assert place.z == pytest.approx(-0.025 - moveit.robot.height)


def test_what_moveit_finds_in_the_way_is_refused(moveit: MoveItBackend) -> None:
    behind = {4: BALL - 0.06 * np.array([math.cos(0.4), math.sin(0.4)])}
    with pytest.raises(CollisionError):
        moveit.plan(StrokeRequest(Shot("a", 0.4, 0.4), BALL, behind, moveit.robot.home))
    with pytest.raises(ArmError):
        moveit.plan(StrokeRequest(Shot("a", 8.0, 0.4), BALL, {}, moveit.robot.home))


def test_a02_table_and_cue_are_in_moveits_scene(moveit: MoveItBackend) -> None:
    check_scene(moveit, Envelope(moveit.robot, moveit.table))
    assert not moveit.touches(moveit.robot.home)


def test_a_line_that_ends_elsewhere_is_not_the_planned_stroke(
    moveit: MoveItBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = moveit._moveit.line

    def other_branch(start: np.ndarray, *rest: object) -> object:
        found = line(start, *rest)  # type: ignore[arg-type]
        found.positions[-1] += 0.3
        return found

    monkeypatch.setattr(moveit._moveit, "line", other_branch)
    with pytest.raises(UnreachableError, match=r"ends 0\.30 rad away"):
        moveit.plan(StrokeRequest(Shot("a", 0.4, 0.4), BALL, {}, moveit.robot.home))


def test_an_arm_that_was_stopped_goes_home_and_pushes_are_planned(moveit: MoveItBackend) -> None:
    plan = moveit.plan(StrokeRequest(Shot("a", 0.4, 0.4), BALL, {}, moveit.robot.home))
    hover = plan.trajectory.positions[int(np.searchsorted(plan.trajectory.times, plan.stroke_start) // 2)]
    way = moveit.plan_home(hover, {0: BALL})
    assert way is not None
    np.testing.assert_allclose(way.positions[[0, -1]], [hover, moveit.robot.home], atol=1e-6)
    assert moveit.plan_home(moveit.robot.home, {0: BALL}) is None
    request = PushRequest(0, BALL, BALL + np.array([0.04, 0.0]), {}, moveit.robot.home)
    push = plan_push(moveit, moveit.table, request, StrokeSettings(), PushSettings(), lambda _: None)
    Envelope(moveit.robot, moveit.table).check(push.trajectory, moveit.robot.home)


@pytest.mark.parametrize("name", ["ur5e", "fr3"])
def test_what_moveit_is_told_of_a_robot_fits_the_robot(table: TableModel, name: str) -> None:
    robot = RobotConfig.load(CONFIG / "robots" / f"{name}.yaml")
    told = moveit_parameters(robot, table, StrokeSettings())
    links = {link.get("name") for link in Xml.fromstring(told["robot_description"]).iter("link")}
    srdf = Xml.fromstring(robot_srdf(robot, table))
    for pair in srdf.iter("disable_collisions"):
        assert {pair.get("link1"), pair.get("link2")} <= links
    chain = srdf.find("group/chain")
    assert chain is not None and {chain.get("base_link"), chain.get("tip_link")} <= links
    assert tuple(joint_limits(robot)) == robot.joint_names
    home = [float(joint.get("value", "nan")) for joint in srdf.iterfind("group_state/joint")]
    np.testing.assert_allclose(home, robot.home, atol=1e-8)


def test_backends_have_names_and_a_missing_moveit_is_one_line(robot: RobotConfig, table: TableModel) -> None:
    with pytest.raises(UnknownNameError, match="mink"):
        make_backend("rrt", robot, table, StrokeSettings())
    try:
        import moveit  # noqa: F401
    except ImportError:
        with pytest.raises(MoveItError, match="needs MoveIt 2 with moveit_py"):
            make_backend("moveit", robot, table, StrokeSettings())
