"""Markers of a shot that is about to be played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from cue_core.balls import ball_colour
from cue_core.shots import BallTrack

_LINE_WIDTH = 0.004  # [m]
_NAMESPACES = ("next_shot_path", "next_shot_rest")


def predicted_shot_markers(
    header: Header, tracks: Iterable[BallTrack], rest: Mapping[int, np.ndarray], ball_radius: float
) -> MarkerArray:
    """Return the predicted path of each ball that moves, and a ghost of it where it should come to rest.

    Args:
        header: in the table frame.
        tracks: predicted paths.
        rest: (2,) rest position by ball id [m].
        ball_radius: [m].
    """
    markers = []
    drawn: set[tuple[str, int]] = set()
    for track in tracks:
        if not len(track.time) or np.ptp(track.position, axis=0).max() < ball_radius / 10:
            continue
        r, g, b = ball_colour(track.ball_id)[1]
        path = Marker(header=header, ns=_NAMESPACES[0], id=track.ball_id, type=Marker.LINE_STRIP, action=Marker.ADD)
        path.pose.orientation.w = 1.0
        path.scale.x = _LINE_WIDTH
        path.color = ColorRGBA(r=r, g=g, b=b, a=0.8)
        path.points = [Point(x=float(x), y=float(y), z=ball_radius) for x, y in track.position]
        markers.append(path)
        drawn.add((_NAMESPACES[0], track.ball_id))
        if track.ball_id not in rest:
            continue
        ghost = Marker(header=header, ns=_NAMESPACES[1], id=track.ball_id, type=Marker.SPHERE, action=Marker.ADD)
        ghost.pose.position.x, ghost.pose.position.y = (float(v) for v in rest[track.ball_id])
        ghost.pose.position.z = ball_radius
        ghost.pose.orientation.w = 1.0
        ghost.scale.x = ghost.scale.y = ghost.scale.z = 2 * ball_radius
        ghost.color = ColorRGBA(r=r, g=g, b=b, a=0.3)
        markers.append(ghost)
        drawn.add((_NAMESPACES[1], track.ball_id))
    # DELETEALL would take everybody's markers away.
    old = [(ns, i) for ns in _NAMESPACES for i in range(16) if (ns, i) not in drawn]
    markers += [Marker(header=header, ns=ns, id=i, action=Marker.DELETE) for ns, i in old]
    return MarkerArray(markers=markers)
