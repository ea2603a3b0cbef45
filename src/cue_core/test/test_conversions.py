"""Every conversion between data and messages, both ways."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from builtin_interfaces.msg import Time

from cue_core import (
    PARAMETERS,
    BallState,
    CueError,
    Motion,
    ParameterEstimate,
    ShotRecord,
    TableModel,
    Visibility,
)
from cue_core.ros import conversions as c
from cue_core.shot_log import record_to_dict
from cue_msgs.msg import BallState as BallMsg


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@pytest.mark.parametrize("nanoseconds", [0, 1, 999_999_999, 1_000_000_000, 1_234_567_890_123_456_789])
def test_stamps_are_exact_in_nanoseconds(nanoseconds: int) -> None:
    stamp = Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
    assert c.stamp_to_nanoseconds(stamp) == nanoseconds


def test_seconds_round_to_the_nearest_nanosecond() -> None:
    assert c.seconds_to_stamp(0.1 + 0.2) == Time(sec=0, nanosec=300_000_000)
    assert c.seconds_to_stamp(2.9999999999) == Time(sec=3, nanosec=0)
    assert c.stamp_to_seconds(c.seconds_to_stamp(12.345678901)) == pytest.approx(12.345678901, abs=1e-9)


def test_quaternion_orders() -> None:
    assert c.xyzw_from_wxyz([1, 2, 3, 4]).tolist() == [2, 3, 4, 1]
    assert c.wxyz_from_xyzw(c.xyzw_from_wxyz([1, 2, 3, 4])).tolist() == [1, 2, 3, 4]


def test_quarter_turn_about_z_has_the_known_quaternion() -> None:
    transform = np.eye(4)
    transform[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    q = c.pose_to_msg(transform).orientation
    assert np.allclose([q.x, q.y, q.z, q.w], [0, 0, np.sqrt(0.5), np.sqrt(0.5)])


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.3, 2.0, np.pi - 1e-9, np.pi])
def test_poses_round_trip_for_any_rotation(angle: float) -> None:
    rng = np.random.default_rng(1)
    for axis in [*np.eye(3), *rng.normal(size=(20, 3))]:
        transform = np.eye(4)
        transform[:3, :3] = rotation(axis, angle)
        transform[:3, 3] = rng.normal(size=3)
        assert np.allclose(c.pose_from_msg(c.pose_to_msg(transform)), transform, atol=1e-7)


def test_mirrors_and_bad_quaternions_are_refused() -> None:
    with pytest.raises(CueError, match="rotation matrix"):
        c.pose_to_msg(np.diag([1.0, 1.0, -1.0, 1.0]))
    pose = c.pose_to_msg(np.eye(4))
    pose.orientation.w = 0.0
    with pytest.raises(CueError, match="unit quaternion"):
        c.pose_from_msg(pose)


def test_covariance_triangle_round_trip() -> None:
    matrix = np.array([[2.0, -0.5], [-0.5, 1.0]])
    assert c.triangle(matrix) == [2.0, -0.5, 1.0]
    assert np.array_equal(c.matrix_from_triangle(c.triangle(matrix)), matrix)


def test_enumerations_equal_the_message_constants() -> None:
    for motion in Motion:
        assert getattr(BallMsg, f"MOTION_{motion.name}") == motion
    for visibility in Visibility:
        assert getattr(BallMsg, visibility.name) == visibility


def test_records_round_trip(record: ShotRecord) -> None:
    back = c.record_from_msg(c.record_to_msg(record, Time(sec=20)))
    assert json.dumps(record_to_dict(back)) == json.dumps(record_to_dict(record))
    empty = replace(record, commanded=None, achieved=None)
    back = c.record_from_msg(c.record_to_msg(empty, Time()))
    assert back.commanded is None and back.achieved is None


def test_tables_round_trip(table: TableModel) -> None:
    camera = np.eye(4)
    camera[:3, 3] = 0.1, 0.2, 1.5
    msg = c.table_to_msg(table, Time(), camera, np.diag(np.arange(6.0)), 0.3)
    assert c.table_from_msg(msg) == table
    snooker = replace(table, markings="snooker")
    assert c.table_from_msg(c.table_to_msg(snooker, Time())) == snooker
    assert np.array_equal(c.pose_from_msg(msg.camera_pose), camera)
    assert msg.camera_pose_covariance[7] == 1.0
    assert [p.name for p in msg.pockets] == [p.name for p in table.pockets]
    assert msg.cushions[2].start.tolist() == table.cushions[2].start.tolist()


def test_estimates_round_trip_in_any_order() -> None:
    whole = len(PARAMETERS)
    fitted = np.arange(whole) % 3 > 0
    root = np.random.default_rng(2).normal(size=(whole, whole))
    covariance = root @ root.T * np.outer(fitted, fitted)
    estimate = replace(ParameterEstimate.nominal(), revision=7, covariance=covariance, frozen=~fitted, shot_ids=("x",))
    msg = c.estimate_to_msg(estimate, Time())
    count = len(msg.parameters)
    assert [p.name for p in msg.parameters] == list(estimate.listed) and count < whole
    order = list(reversed(range(count)))
    msg.parameters = [msg.parameters[i] for i in order]
    msg.covariance = np.array(msg.covariance).reshape(count, count)[np.ix_(order, order)].ravel().tolist()
    back = c.estimate_from_msg(msg)
    assert np.array_equal(back.values, estimate.values)
    assert np.array_equal(back.covariance, estimate.covariance)
    assert np.array_equal(back.frozen, estimate.frozen)
    assert back.revision == 7 and back.shot_ids == ("x",)


def test_estimates_that_do_not_fit_are_refused() -> None:
    msg = c.estimate_to_msg(ParameterEstimate.nominal(), Time())
    msg.covariance = [0.0]
    with pytest.raises(CueError, match="covariance has 1 numbers"):
        c.estimate_from_msg(msg)
    msg.parameters = [*msg.parameters, msg.parameters[0]]
    with pytest.raises(CueError, match="at most once"):
        c.estimate_from_msg(msg)


def test_ragged_tracks_are_refused(record: ShotRecord) -> None:
    msg = c.track_to_msg(record.tracks[0])
    msg.x = [0.0]
    with pytest.raises(CueError, match="must be equal"):
        c.track_from_msg(msg)


def test_ball_round_trip_keeps_confidence() -> None:
    ball = BallState(5, np.array([0.1, 0.2]), identity_confidence=0.5, motion=Motion.ROLLING)
    back = c.ball_from_msg(c.ball_to_msg(ball))
    assert (back.ball_id, back.identity_confidence, back.motion) == (5, 0.5, Motion.ROLLING)


def test_what_was_learned_beside_the_parameters_travels_with_the_estimate():
    told = {"rolling": {"centres": [[0.1]], "widths": [1.0]}, "weights": [0.25]}
    estimate = replace(ParameterEstimate.nominal(), correction=told)
    assert c.estimate_from_msg(c.estimate_to_msg(estimate, Time())).correction == told
    assert ParameterEstimate.from_dict(estimate.to_dict()).correction == told
    assert "correction" not in ParameterEstimate.nominal().to_dict()
    message = c.estimate_to_msg(ParameterEstimate.nominal(), Time())
    assert message.correction == "" and c.estimate_from_msg(message).correction is None
    message.correction = "{"
    with pytest.raises(CueError, match="no JSON"):
        c.estimate_from_msg(message)
