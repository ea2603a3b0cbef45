"""Conversions between CUE's data types and messages, both ways. Frames and units are those of the data types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose
from std_msgs.msg import Header

import cue_msgs.msg as msgs
from cue_core.balls import BallState, Motion, Visibility
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, ParameterEstimate, check_names
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_core.table import TableModel

TABLE_FRAME = "table"


def seconds_to_stamp(seconds: float) -> Time:
    """Return the stamp nearest to ``seconds`` [s]."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def stamp_to_nanoseconds(stamp: Time) -> int:
    """Return a stamp as whole nanoseconds; exact, fit for comparing stamps."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def stamp_to_seconds(stamp: Time) -> float:
    """Return a stamp in seconds (to 2e-7 s for wall-clock stamps, far better for simulated ones)."""
    return stamp_to_nanoseconds(stamp) / 1e9


def table_header(stamp: Time) -> Header:
    """Return a header in the table frame."""
    return Header(stamp=stamp, frame_id=TABLE_FRAME)


def xyzw_from_wxyz(wxyz: Sequence[float]) -> np.ndarray:
    """Reorder a MuJoCo quaternion (4,) to the order of messages (4,)."""
    w, x, y, z = wxyz
    return np.array([x, y, z, w])


def wxyz_from_xyzw(xyzw: Sequence[float]) -> np.ndarray:
    """Reorder a message quaternion (4,) to MuJoCo's order (4,)."""
    x, y, z, w = xyzw
    return np.array([w, x, y, z])


def pose_to_msg(target_from_source: np.ndarray) -> Pose:
    """Convert a (4, 4) rigid transform, translation in m.

    Raises:
        CueError: the rotation part is not a rotation.
    """
    rotation = target_from_source[:3, :3]
    if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-6) or np.linalg.det(rotation) < 0:
        raise CueError(f"a pose needs a rotation matrix, got {rotation.tolist()}")
    # The largest of the four candidate components keeps the division well conditioned (Shepperd 1978).
    xx, yy, zz = np.diag(rotation)
    squares = np.array([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz])
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    symmetric = rotation + rotation.T
    products = np.zeros((4, 4))  # 4 q_i q_j in wxyz order
    products[np.diag_indices(4)] = squares
    products[0, 1:] = products[1:, 0] = skew
    for i, j in ((0, 1), (0, 2), (1, 2)):
        products[i + 1, j + 1] = products[j + 1, i + 1] = symmetric[i, j]
    wxyz = products[np.argmax(squares)]
    x, y, z, w = xyzw_from_wxyz(wxyz / np.linalg.norm(wxyz))
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = (float(v) for v in target_from_source[:3, 3])
    pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = (
        float(x),
        float(y),
        float(z),
        float(w),
    )
    return pose


def pose_from_msg(pose: Pose) -> np.ndarray:
    """Return the (4, 4) rigid transform of a pose, translation in m.

    Raises:
        CueError: the quaternion is not of unit length.
    """
    x, y, z, w = pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w
    if abs(x * x + y * y + z * z + w * w - 1) > 1e-3:
        raise CueError(f"a pose needs a unit quaternion, got x {x}, y {y}, z {z}, w {w}")
    transform = np.eye(4)
    transform[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    transform[:3, 3] = pose.position.x, pose.position.y, pose.position.z
    return transform


def triangle(matrix: np.ndarray) -> list[float]:
    """Return the upper triangle xx, xy, yy of a (2, 2) covariance."""
    return [float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])]


def matrix_from_triangle(xx_xy_yy: Iterable[float]) -> np.ndarray:
    """Return the (2, 2) covariance of an upper triangle xx, xy, yy."""
    xx, xy, yy = (float(v) for v in xx_xy_yy)
    return np.array([[xx, xy], [xy, yy]])


def shot_to_msg(shot: Shot) -> msgs.Shot:
    """Convert a shot."""
    return msgs.Shot(
        id=shot.shot_id,
        speed=float(shot.speed),
        azimuth=float(shot.azimuth),
        elevation=float(shot.elevation),
        side_offset=float(shot.side_offset),
        vertical_offset=float(shot.vertical_offset),
    )


def shot_from_msg(msg: msgs.Shot) -> Shot:
    """Convert a shot.

    Raises:
        OutOfRangeError: a field is out of range or not finite.
    """
    return Shot(msg.id, msg.speed, msg.azimuth, msg.elevation, msg.side_offset, msg.vertical_offset)


def stroke_to_msg(stroke: Stroke | None) -> msgs.Stroke:
    """Convert a stroke; None becomes an invalid one."""
    if stroke is None:
        return msgs.Stroke(valid=False)
    return msgs.Stroke(
        valid=True,
        tip_speed=float(stroke.tip_speed),
        tip_speed_stddev=float(stroke.tip_speed_stddev),
        azimuth=float(stroke.azimuth),
        azimuth_stddev=float(stroke.azimuth_stddev),
        elevation=float(stroke.elevation),
        side_offset=float(stroke.side_offset),
        vertical_offset=float(stroke.vertical_offset),
        contact_time=seconds_to_stamp(stroke.contact_time),
        elevation_stddev=float(stroke.elevation_stddev),
        offset_stddev=float(stroke.offset_stddev),
    )


def stroke_from_msg(msg: msgs.Stroke) -> Stroke | None:
    """Convert a stroke; an invalid one becomes None."""
    if not msg.valid:
        return None
    return Stroke(
        tip_speed=msg.tip_speed,
        azimuth=msg.azimuth,
        tip_speed_stddev=msg.tip_speed_stddev,
        azimuth_stddev=msg.azimuth_stddev,
        elevation=msg.elevation,
        side_offset=msg.side_offset,
        vertical_offset=msg.vertical_offset,
        contact_time=stamp_to_seconds(msg.contact_time),
        elevation_stddev=msg.elevation_stddev,
        offset_stddev=msg.offset_stddev,
    )


def ball_to_msg(ball: BallState) -> msgs.BallState:
    """Convert a ball state."""
    return msgs.BallState(
        id=ball.ball_id,
        colour=ball.colour,
        motion=int(ball.motion),
        visibility=int(ball.visibility),
        position=[float(v) for v in ball.position],
        position_covariance=triangle(ball.covariance),
        velocity=[float(v) for v in ball.velocity],
        velocity_covariance=triangle(ball.velocity_covariance),
        identity_confidence=float(ball.identity_confidence),
    )


def ball_from_msg(msg: msgs.BallState) -> BallState:
    """Convert a ball state."""
    return BallState(
        ball_id=msg.id,
        position=np.array(msg.position, float),
        covariance=matrix_from_triangle(msg.position_covariance),
        velocity=np.array(msg.velocity, float),
        velocity_covariance=matrix_from_triangle(msg.velocity_covariance),
        motion=Motion(msg.motion),
        visibility=Visibility(msg.visibility),
        colour=msg.colour,
        identity_confidence=msg.identity_confidence,
    )


def track_to_msg(track: BallTrack) -> msgs.BallTrack:
    """Convert a track."""
    return msgs.BallTrack(
        ball_id=track.ball_id,
        time=track.time.tolist(),
        x=track.position[:, 0].tolist(),
        y=track.position[:, 1].tolist(),
        xx=track.covariance[:, 0, 0].tolist(),
        xy=track.covariance[:, 0, 1].tolist(),
        yy=track.covariance[:, 1, 1].tolist(),
        pocketed=track.pocketed,
    )


def track_from_msg(msg: msgs.BallTrack) -> BallTrack:
    """Convert a track.

    Raises:
        CueError: its arrays differ in length.
    """
    columns = [np.array(c, float) for c in (msg.time, msg.x, msg.y, msg.xx, msg.xy, msg.yy)]
    lengths = [len(c) for c in columns]
    if len(set(lengths)) != 1:
        raise CueError(f"track of ball {msg.ball_id} has arrays of {lengths} samples, they must be equal")
    time, x, y, xx, xy, yy = columns
    covariance = np.stack([np.stack([xx, xy], -1), np.stack([xy, yy], -1)], -2)
    return BallTrack(msg.ball_id, time, np.stack([x, y], -1), covariance, msg.pocketed)


def record_to_msg(record: ShotRecord, stamp: Time) -> msgs.ShotRecord:
    """Convert a shot record; ``stamp`` is the end of the shot."""
    return msgs.ShotRecord(
        header=table_header(stamp),
        shot_id=record.shot_id,
        index=record.index,
        commanded=msgs.Shot() if record.commanded is None else shot_to_msg(record.commanded),
        achieved=stroke_to_msg(record.achieved),
        strike_time=seconds_to_stamp(record.strike_time),
        strike_time_stddev=float(record.strike_time_stddev),
        before=[ball_to_msg(b) for b in record.before],
        after=[ball_to_msg(b) for b in record.after],
        tracks=[track_to_msg(t) for t in record.tracks],
        flags=list(record.flags),
    )


def record_from_msg(msg: msgs.ShotRecord) -> ShotRecord:
    """Convert a shot record; a command without an id becomes None.

    Raises:
        CueError: a field is out of range, or arrays differ in length.
    """
    return ShotRecord(
        shot_id=msg.shot_id,
        index=msg.index,
        commanded=shot_from_msg(msg.commanded) if msg.commanded.id else None,
        achieved=stroke_from_msg(msg.achieved),
        strike_time=stamp_to_seconds(msg.strike_time),
        before=tuple(ball_from_msg(b) for b in msg.before),
        after=tuple(ball_from_msg(b) for b in msg.after),
        tracks=tuple(track_from_msg(t) for t in msg.tracks),
        strike_time_stddev=msg.strike_time_stddev,
        flags=tuple(msg.flags),
    )


def table_to_msg(
    table: TableModel,
    stamp: Time,
    table_from_camera: np.ndarray | None = None,
    camera_covariance: np.ndarray | None = None,
    reprojection_rms: float = float("nan"),
) -> msgs.TableInfo:
    """Convert a table and the camera's pose.

    Args:
        table: the table.
        stamp: of the image that it was reconstructed from.
        table_from_camera: (4, 4) pose of the optical frame, m.
        camera_covariance: (6, 6) over x, y, z [m], rotation about x, y, z [rad].
        reprojection_rms: of the nose lines [px].
    """
    return msgs.TableInfo(
        header=table_header(stamp),
        name=table.name,
        length=float(table.length),
        width=float(table.width),
        nose_height=float(table.nose_height),
        ball_radius=float(table.ball_radius),
        ball_mass=float(table.ball_mass),
        corner_mouth=float(table.corner_mouth),
        side_mouth=float(table.side_mouth),
        corner_shelf=float(table.corner_shelf),
        side_shelf=float(table.side_shelf),
        rail_width=float(table.rail_width),
        cloth_colour=[float(c) for c in table.cloth_colour],
        markings=table.markings,
        pockets=[msgs.Pocket(name=p.name, position=p.position.tolist(), radius=p.radius) for p in table.pockets],
        cushions=[msgs.Cushion(name=c.name, start=c.start.tolist(), end=c.end.tolist()) for c in table.cushions],
        camera_pose=pose_to_msg(np.eye(4) if table_from_camera is None else table_from_camera),
        camera_pose_covariance=(np.zeros((6, 6)) if camera_covariance is None else camera_covariance).ravel().tolist(),
        reprojection_rms=float(reprojection_rms),
    )


def table_from_msg(msg: msgs.TableInfo) -> TableModel:
    """Convert a table; pockets and cushions follow from its measures.

    Raises:
        OutOfRangeError: a measure is out of range.
    """
    return TableModel(
        name=msg.name,
        length=msg.length,
        width=msg.width,
        ball_radius=msg.ball_radius,
        ball_mass=msg.ball_mass,
        nose_height=msg.nose_height,
        corner_mouth=msg.corner_mouth,
        side_mouth=msg.side_mouth,
        corner_shelf=msg.corner_shelf,
        side_shelf=msg.side_shelf,
        rail_width=msg.rail_width,
        cloth_colour=(float(msg.cloth_colour[0]), float(msg.cloth_colour[1]), float(msg.cloth_colour[2])),
        markings=msg.markings or "pool",
    )


def estimate_to_msg(estimate: ParameterEstimate, stamp: Time) -> msgs.ParameterEstimate:
    """Convert an estimate; the message carries the parameters that it lists."""
    place = {name: i for i, name in enumerate(PARAMETERS)}
    shown = [place[name] for name in estimate.listed]
    return msgs.ParameterEstimate(
        header=Header(stamp=stamp),
        revision=estimate.revision,
        parameters=[
            msgs.Parameter(
                name=name,
                unit=PARAMETERS[name].unit,
                value=float(estimate.values[place[name]]),
                stddev=float(estimate.stddevs[place[name]]),
                minimum=float(PARAMETERS[name].minimum),
                maximum=float(PARAMETERS[name].maximum),
                frozen=bool(estimate.frozen[place[name]]),
                at_bound=bool(estimate.at_bound[place[name]]),
                identifiable=bool(estimate.identifiable[place[name]]),
            )
            for name in estimate.listed
        ],
        covariance=estimate.covariance[np.ix_(shown, shown)].ravel().tolist(),
        train_error=float(estimate.train_error),
        held_out_error=float(estimate.held_out_error),
        largest_step=float(estimate.largest_step),
        data_hash=estimate.data_hash,
        shot_ids=list(estimate.shot_ids),
        correction="" if estimate.correction is None else json.dumps(estimate.correction),
    )


def _correction_from(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text) if text else None
    except json.JSONDecodeError as error:
        raise CueError(f"the correction is no JSON: {error}") from None


def estimate_from_msg(msg: msgs.ParameterEstimate) -> ParameterEstimate:
    """Convert an estimate; its parameters may come in any order, and those that do not come are nominal and frozen.

    Raises:
        UnknownNameError: a parameter is unknown.
        CueError: one comes twice, or the covariance has another size.
    """
    names = check_names(p.name for p in msg.parameters)
    if len(set(names)) < len(names):
        raise CueError(f"estimate has parameters {sorted(names)}, needs each at most once")
    count = len(names)
    if len(msg.covariance) != count * count:
        raise CueError(f"covariance has {len(msg.covariance)} numbers, {count} parameters need {count * count}")
    return ParameterEstimate.of_rows(
        {
            p.name: {"value": p.value, "frozen": p.frozen, "at_bound": p.at_bound, "identifiable": p.identifiable}
            for p in msg.parameters
        },
        names,
        np.array(msg.covariance).reshape(count, count),
        revision=msg.revision,
        train_error=msg.train_error,
        held_out_error=msg.held_out_error,
        largest_step=msg.largest_step,
        data_hash=msg.data_hash,
        shot_ids=tuple(msg.shot_ids),
        correction=_correction_from(msg.correction),
    )
