"""What the display node draws: nothing stale, nothing that is not there; and the robot where the model has it."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Time
from visualization_msgs.msg import Marker

from cue import display_marks_node as draw
from cue.display_node import RobotPose
from cue_core.errors import CueError
from cue_core.table import TableModel
from cue_msgs.msg import AgentStatus
from cue_sim.robot import RobotConfig, robot_model

CONFIG = Path(__file__).resolve().parents[3] / "config"
NOW = Time(sec=3)
RADIUS = 0.0286


def by_name(array):
    """Return the markers that are added, by namespace and id; each name must occur once."""
    names = [(marker.ns, marker.id) for marker in array.markers]
    assert len(set(names)) == len(names)
    assert all(marker.header.frame_id == "table" for marker in array.markers)
    return {(m.ns, m.id): m for m in array.markers if m.action == Marker.ADD}


def test_r13_what_is_not_drawn_any_more_is_deleted_by_name():
    array = draw.residuals(NOW, {0: np.array([0.1, 0.0])}, {0: np.array([0.1, 0.03])}, RADIUS)
    assert set(by_name(array)) == {("residuals", 0), ("residuals_text", 0)}
    deleted = {(m.ns, m.id) for m in array.markers if m.action == Marker.DELETE}
    assert deleted == {(ns, i) for ns in ("residuals", "residuals_text") for i in range(1, 16)}


@pytest.mark.parametrize("make", [draw.residuals, draw.pocket_risk])
def test_r13_nothing_is_left_of_a_shot_that_is_over(make):
    assert not by_name(make(NOW, {}, {}, RADIUS))
    assert len(make(NOW, {}, {}, RADIUS).markers) == 32


def test_r13_without_a_cue_ball_there_is_no_fan():
    (gone,) = draw.reach_fan(NOW, None, np.empty(0), np.empty(0)).markers
    assert (gone.ns, gone.id, gone.action) == ("reach", 0, Marker.DELETE)


def test_residuals_point_from_predicted_to_seen():
    predicted = {0: np.array([0.1, 0.0]), 3: np.array([0.2, 0.2]), 5: np.array([np.nan, 0.0])}
    seen = {0: np.array([0.1, 0.03]), 3: np.array([0.2, 0.2]), 5: np.array([0.0, 0.0]), 7: np.array([0.0, 0.1])}
    drawn = by_name(draw.residuals(NOW, predicted, seen, RADIUS))
    arrow = drawn["residuals", 0]
    assert [(p.x, p.y) for p in arrow.points] == [(0.1, 0.0), (0.1, 0.03)]
    assert drawn["residuals_text", 0].text == "30 mm"
    assert ("residuals", 3) not in drawn, "RViz warns of an arrow without a length"
    assert drawn["residuals_text", 3].text == "0 mm"
    assert {number for _, number in drawn} == {0, 3}


def test_pocket_risk_tells_of_balls_that_may_go():
    balls = {0: np.zeros(2), 1: np.array([0.3, 0.1]), 2: np.array([0.1, 0.1])}
    drawn = by_name(draw.pocket_risk(NOW, balls, {0: 0.001, 1: 0.4, 2: 0.008, 9: 1.0}, RADIUS))
    assert {number for _, number in drawn} == {1, 2}
    assert drawn["pocket_risk_text", 1].text == "40 %"
    assert drawn["pocket_risk_text", 2].text == "< 1 %"


def test_the_fan_has_a_ray_for_each_direction():
    azimuths = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    (fan,) = by_name(draw.reach_fan(NOW, np.array([0.1, 0.2]), azimuths, azimuths < 3)).values()
    assert len(fan.points) == len(fan.colors) == 16
    assert fan.points[1].x > fan.points[0].x > 0.1
    assert fan.colors[0].g > fan.colors[0].r
    assert fan.colors[15].r > fan.colors[15].g


def test_the_heat_map_is_green_where_all_can_be_played():
    heat = draw.reach_heat(NOW, np.array([-0.4, 0.0, 0.4]), np.array([-0.2, 0.2]), np.eye(3)[:, :2])
    assert (heat.scale.x, heat.scale.y) == pytest.approx((0.4, 0.4))
    assert len(heat.points) == len(heat.colors) == 6
    green = {(p.x, p.y) for p, c in zip(heat.points, heat.colors, strict=True) if c.g > c.r}
    assert green == {(-0.4, -0.2), (0.0, 0.2)}


def test_the_status_tells_an_error_only_when_there_is_one():
    table = TableModel.load(CONFIG / "tables" / "small.yaml")
    status = AgentStatus(
        phase="fit", text="300 evaluations", shots_used=3, shots_budget=12, held_out_error=float("nan")
    )
    (text,) = by_name(draw.status_text(status, table)).values()
    assert text.text == "fit: 300 evaluations\nshot 3 of 12, nothing fitted yet"
    status.revision, status.held_out_error = 2, 0.0123
    (text,) = by_name(draw.status_text(status, table)).values()
    assert text.text.endswith("estimate 2, 1.2 cm off on held-out shots")


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIG / "robots").glob("*.yaml")))
def test_the_transforms_lead_to_the_cues_tip(name):
    robot = RobotConfig.load(CONFIG / "robots" / f"{name}.yaml")
    table = TableModel.load(CONFIG / "tables" / "small.yaml")
    pose = RobotPose(robot, table)
    angles = robot.home + 0.1
    names = list(robot.joint_names)[::-1]  # drivers name them in an order of their own
    found = {child: (parent, matrix) for parent, child, matrix in pose.transforms(names, angles[::-1])}
    table_from_tip, frame = np.eye(4), "cue_tip"
    while frame != "table":
        frame, matrix = found[frame][0], found[frame][1]
        table_from_tip = matrix @ table_from_tip
    model = robot_model(robot, table)
    data = mujoco.MjData(model)
    data.qpos[:] = angles
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(table_from_tip[:3, 3], data.site("cue_tip").xpos, atol=1e-9)
    assert {"base_link", "tool0", "cue"} <= set(found)
    with pytest.raises(CueError, match="joint_states name"):
        pose.transforms(["elbow"], np.zeros(1))
