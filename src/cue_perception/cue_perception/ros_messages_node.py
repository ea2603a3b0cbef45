"""Messages that only the tracker makes: camera_info in, transforms and markers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, TransformStamped
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import ColorRGBA
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from cue_core.balls import BallState, ball_colour
from cue_core.errors import CueError
from cue_core.ros import conversions as convert
from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics

_MODELS = ("", "plumb_bob", "rational_polynomial")


def lens_from_msg(msg: CameraInfo) -> Intrinsics | None:
    """Return the lens; None where it is not known, which ROS says by a K of zeros.

    Raises:
        CueError: the distortion model is not supported.
    """
    if not msg.k[0]:
        return None
    if msg.distortion_model not in _MODELS:
        raise CueError(f"camera_info has distortion model {msg.distortion_model!r}, known are {', '.join(_MODELS[1:])}")
    distortion = np.array(msg.d, float) if len(msg.d) else np.zeros(5)
    return Intrinsics(msg.width, msg.height, np.array(msg.k, float).reshape(3, 3), distortion)


def lens_to_msg(lens: Intrinsics | None, width: int, height: int) -> CameraInfo:
    """Return the camera_info of a lens, or that of an unknown one."""
    msg = CameraInfo(width=width, height=height)
    if lens is None:
        return msg
    msg.distortion_model = "plumb_bob" if len(lens.distortion) <= 5 else "rational_polynomial"
    msg.d = [float(v) for v in lens.distortion]
    msg.k = [float(v) for v in lens.matrix.ravel()]
    msg.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    msg.p = [float(v) for v in np.column_stack([lens.matrix, np.zeros(3)]).ravel()]
    return msg


def table_from_camera(camera: Camera) -> np.ndarray:
    """Return the (4, 4) pose of the optical frame in the table frame [m]."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = camera.rotation.T, camera.position
    return pose


def static_transforms(camera: Camera, camera_frame: str, stamp: Time) -> TFMessage:
    """Return world -> table (the same) and table -> camera optical frame."""
    transforms = []
    for parent, child, pose in (
        ("world", "table", np.eye(4)),
        ("table", camera_frame, table_from_camera(camera)),
    ):
        message = convert.pose_to_msg(pose)
        transform = TransformStamped(child_frame_id=child)
        transform.header.frame_id = parent
        transform.header.stamp = stamp
        transform.transform.translation.x = message.position.x
        transform.transform.translation.y = message.position.y
        transform.transform.translation.z = message.position.z
        transform.transform.rotation = message.orientation
        transforms.append(transform)
    return TFMessage(transforms=transforms)


def trail_markers(
    balls: Sequence[BallState], trails: Mapping[int, np.ndarray], table: TableModel, stamp: Time
) -> MarkerArray:
    """Return the paths (n, 2) [m] of the last seconds and the uncertainty of each ball, 2 sigma, enlarged tenfold."""
    markers = []
    for ball in balls:
        red, green, blue = ball_colour(ball.ball_id)[1]
        trail = Marker(header=convert.table_header(stamp), ns="trails", id=ball.ball_id, type=Marker.LINE_STRIP)
        trail.pose.orientation.w = 1.0
        trail.scale.x = 0.004
        trail.color = ColorRGBA(r=float(red), g=float(green), b=float(blue), a=0.9)
        path = trails.get(ball.ball_id, np.zeros((0, 2)))
        trail.points = [Point(x=float(x), y=float(y), z=float(table.ball_radius)) for x, y in path]
        trail.action = Marker.ADD if len(path) > 1 else Marker.DELETE
        spread = Marker(header=convert.table_header(stamp), ns="uncertainty", id=ball.ball_id, type=Marker.CYLINDER)
        spread.action = Marker.ADD if ball.in_play else Marker.DELETE
        values, vectors = np.linalg.eigh(ball.covariance)
        angle = float(np.arctan2(vectors[1, 1], vectors[0, 1]))
        spread.pose.position.x, spread.pose.position.y = (float(v) for v in ball.position)
        spread.pose.position.z = 0.002
        spread.pose.orientation.z, spread.pose.orientation.w = float(np.sin(angle / 2)), float(np.cos(angle / 2))
        minor, major = (40 * float(np.sqrt(max(v, 0.0))) for v in values)
        spread.scale.x, spread.scale.y, spread.scale.z = max(major, 1e-3), max(minor, 1e-3), 0.001
        spread.color = ColorRGBA(r=1.0, g=1.0, b=1.0, a=0.35)
        markers += [trail, spread]
    return MarkerArray(markers=markers)
