"""The table and its balls as RViz markers: cloth, noses, pockets, balls as seen, and ghosts where they should stop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from cue_core.balls import BallState, ball_colour
from cue_core.ros.conversions import table_header
from cue_core.table import TableModel
from cue_sim.predict import Prediction


def _marker(stamp: Time, namespace: str, number: int, kind: int, rgba: Sequence[float]) -> Marker:
    marker = Marker(header=table_header(stamp), ns=namespace, id=number, type=kind, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=float(rgba[0]), g=float(rgba[1]), b=float(rgba[2]), a=float(rgba[3]))
    return marker


def _place(marker: Marker, centre: Sequence[float] | np.ndarray, z: float, size: Sequence[float]) -> Marker:
    marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = (
        float(centre[0]),
        float(centre[1]),
        float(z),
    )
    marker.scale.x, marker.scale.y, marker.scale.z = (float(s) for s in size)
    return marker


def table_markers(table: TableModel, stamp: Time) -> MarkerArray:
    """Return cloth, nose lines and pockets."""
    cloth = _marker(stamp, "cloth", 0, Marker.CUBE, (*table.cloth_colour, 1.0))
    noses = _marker(stamp, "noses", 0, Marker.LINE_LIST, (*(0.6 * c for c in table.cloth_colour), 1.0))
    noses.scale.x = 0.006
    for cushion in table.cushions:
        for end in (cushion.start, cushion.end):
            noses.points.append(Point(x=float(end[0]), y=float(end[1]), z=float(table.nose_height)))
    markers = [_place(cloth, (0, 0), -0.005, (table.length, table.width, 0.01)), noses]
    for number, pocket in enumerate(table.pockets):
        hole = _marker(stamp, "pockets", number, Marker.CYLINDER, (0.02, 0.02, 0.02, 1.0))
        markers.append(_place(hole, pocket.position, 0.0, (2 * pocket.radius, 2 * pocket.radius, 0.002)))
    return MarkerArray(markers=markers)


def ball_markers(balls: Sequence[BallState], radius: float, stamp: Time) -> MarkerArray:
    """Return the balls in play as the tracker sees them; others are deleted."""
    markers = []
    for ball in balls:
        marker = _marker(stamp, "balls", ball.ball_id, Marker.SPHERE, (*ball_colour(ball.ball_id)[1], 1.0))
        if ball.in_play:
            _place(marker, ball.position, radius, (2 * radius,) * 3)
        else:
            marker.action = Marker.DELETE
        markers.append(marker)
    return MarkerArray(markers=markers)


def prediction_markers(prediction: Prediction, ball_ids: Sequence[int], radius: float, stamp: Time) -> MarkerArray:
    """Return ghosts at the predicted rest positions, their two-sigma ellipses, and the mean paths of moving balls."""
    markers = []
    for k, ball in enumerate(ball_ids):
        rgb = ball_colour(ball)[1]
        ghost = _marker(stamp, "ghosts", ball, Marker.SPHERE, (*rgb, 0.35))
        ellipse = _marker(stamp, "uncertainty", ball, Marker.CYLINDER, (*rgb, 0.25))
        path = _marker(stamp, "paths", ball, Marker.LINE_STRIP, (*rgb, 0.8))
        points = prediction.mean.positions[:, k]
        moved = len(points) > 1 and float(np.ptp(points, axis=0).max()) > 1e-3
        if moved and np.isfinite(prediction.rest_mean[k]).all():
            _place(ghost, prediction.rest_mean[k], radius, (2 * radius,) * 3)
            variance, axes = np.linalg.eigh(prediction.rest_covariance[k])
            wide, narrow = 4 * np.sqrt(np.maximum(variance[::-1], 1e-8))
            angle = float(np.arctan2(axes[1, 1], axes[0, 1]))
            _place(ellipse, prediction.rest_mean[k], 0.001, (wide, narrow, 0.001))
            ellipse.pose.orientation.z, ellipse.pose.orientation.w = float(np.sin(angle / 2)), float(np.cos(angle / 2))
            path.scale.x = 0.004
            path.points = [Point(x=float(x), y=float(y), z=radius) for x, y in points]
        else:
            ghost.action = ellipse.action = path.action = Marker.DELETE
        markers += [ghost, ellipse, path]
    return MarkerArray(markers=markers)
