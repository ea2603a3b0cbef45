"""What the display node draws, as markers: pocket risk, residuals, reach and the agent's status."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from cue_core.ros.conversions import table_header
from cue_core.table import TableModel
from cue_msgs.msg import AgentStatus

_LEAST_RISK = 0.005
_TEXT = 0.03  # m: height of capital letters
_WIDTH = 0.006  # m: of arrows' shafts
_FAN = (0.05, 0.12)  # m from the cue ball: where the fan of directions begins and ends
_BALLS = range(16)
_RED, _GREEN, _WHITE = (0.9, 0.15, 0.1), (0.2, 0.8, 0.3), (1.0, 1.0, 1.0)


def _marker(stamp: Time, group: str, number: int, kind: int, rgb: Sequence[float], opacity: float = 1.0) -> Marker:
    marker = Marker(header=table_header(stamp), ns=group, id=number, type=kind, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=float(rgb[0]), g=float(rgb[1]), b=float(rgb[2]), a=opacity)
    return marker


def _whole(stamp: Time, drawn: list[Marker], groups: Sequence[str]) -> MarkerArray:
    """Return an array that leaves nothing of an earlier one of the same groups, also for who missed messages."""
    known = {(marker.ns, marker.id) for marker in drawn}
    old = [
        Marker(header=table_header(stamp), ns=group, id=number, action=Marker.DELETE)
        for group in groups
        for number in _BALLS
        if (group, number) not in known
    ]
    return MarkerArray(markers=[*drawn, *old])


def pocket_risk(
    stamp: Time, balls: Mapping[int, np.ndarray], probability: Mapping[int, float], radius: float
) -> MarkerArray:
    """Return a ring and a percentage at each ball that the next shot may pocket.

    Args:
        stamp: of the prediction.
        balls: (2,) positions before the shot by id [m].
        probability: by id.
        radius: of the balls [m].
    """
    drawn = []
    for ball, share in probability.items():
        if share < _LEAST_RISK or ball not in balls:
            continue
        rgb = [share * r + (1 - share) * g for r, g in zip(_RED, (0.95, 0.8, 0.2), strict=True)]
        ring = _marker(stamp, "pocket_risk", ball, Marker.CYLINDER, rgb, 0.5)
        ring.pose.position = Point(x=float(balls[ball][0]), y=float(balls[ball][1]), z=0.001)
        ring.scale.x = ring.scale.y = 3.2 * radius
        ring.scale.z = 0.002
        text = _marker(stamp, "pocket_risk_text", ball, Marker.TEXT_VIEW_FACING, rgb)
        text.pose.position = Point(x=float(balls[ball][0]), y=float(balls[ball][1]), z=3.5 * radius)
        text.scale.z = _TEXT
        text.text = f"{100 * share:.0f} %" if share >= 0.01 else "< 1 %"
        drawn += [ring, text]
    return _whole(stamp, drawn, ("pocket_risk", "pocket_risk_text"))


def residuals(
    stamp: Time, predicted: Mapping[int, np.ndarray], seen: Mapping[int, np.ndarray], radius: float
) -> MarkerArray:
    """Return arrows from where balls were predicted to rest to where they rest.

    Args:
        stamp: of the shot's end.
        predicted: (2,) by ball id [m]; balls that did not move are left out.
        seen: (2,) by ball id [m].
        radius: of the balls [m].
    """
    drawn = []
    for ball in sorted(predicted.keys() & seen.keys()):
        one, other = np.asarray(predicted[ball], float), np.asarray(seen[ball], float)
        length = float(np.linalg.norm(other - one))
        if not math.isfinite(length):
            continue
        if length > 1e-4:  # RViz warns of arrows without a length
            arrow = _marker(stamp, "residuals", ball, Marker.ARROW, _RED, 0.9)
            arrow.points = [Point(x=float(x), y=float(y), z=2 * radius) for x, y in (one, other)]
            arrow.scale.x, arrow.scale.y, arrow.scale.z = _WIDTH, 2.5 * _WIDTH, min(0.03, 0.4 * length)
            drawn.append(arrow)
        text = _marker(stamp, "residuals_text", ball, Marker.TEXT_VIEW_FACING, _RED)
        text.pose.position = Point(x=float(other[0]), y=float(other[1]), z=4.5 * radius)
        text.scale.z = _TEXT
        text.text = f"{1e3 * length:.0f} mm"
        drawn.append(text)
    return _whole(stamp, drawn, ("residuals", "residuals_text"))


def reach_fan(stamp: Time, cue_ball: np.ndarray | None, azimuths: np.ndarray, playable: np.ndarray) -> MarkerArray:
    """Return a fan round the cue ball (2,) [m]: green where the arm can strike, red where it cannot.

    Args:
        stamp: of the balls.
        cue_ball: (2,) [m]; None = it is not on the table, and there is no fan.
        azimuths: (n,) of strokes [rad].
        playable: (n,) whether the arm can play them.
    """
    if cue_ball is None:
        return MarkerArray(markers=[Marker(header=table_header(stamp), ns="reach", id=0, action=Marker.DELETE)])
    fan = _marker(stamp, "reach", 0, Marker.LINE_LIST, _WHITE)
    fan.scale.x = 0.003
    for azimuth, can in zip(azimuths, playable, strict=True):
        r, g, b = _GREEN if can else _RED
        for distance in _FAN:
            x, y = cue_ball + distance * np.array([math.cos(azimuth), math.sin(azimuth)])
            fan.points.append(Point(x=float(x), y=float(y), z=0.003))
            fan.colors.append(ColorRGBA(r=r, g=g, b=b, a=0.9 if can else 0.35))
    return MarkerArray(markers=[fan])


def reach_heat(stamp: Time, x: np.ndarray, y: np.ndarray, share: np.ndarray) -> Marker:
    """Return a heat map on the cloth: green where a cue ball can be struck in all directions, red where in none.

    Args:
        stamp: of the balls.
        x: (n,) of the cells' centres, evenly spaced [m].
        y: (m,) likewise [m].
        share: (n, m) of strokes that the arm can play at a cue ball there, 0..1.
    """
    heat = _marker(stamp, "reach_map", 0, Marker.CUBE_LIST, _WHITE)
    heat.scale.x, heat.scale.y = float(np.ptp(x)) / (len(x) - 1), float(np.ptp(y)) / (len(y) - 1)
    heat.scale.z = 0.0005
    for i, j in np.ndindex(share.shape):
        r, g, b = (float(share[i, j] * good + (1 - share[i, j]) * bad) for good, bad in zip(_GREEN, _RED, strict=True))
        heat.points.append(Point(x=float(x[i]), y=float(y[j]), z=0.001))
        heat.colors.append(ColorRGBA(r=r, g=g, b=b, a=0.35))
    return heat


def status_text(status: AgentStatus, table: TableModel) -> MarkerArray:
    """Return what the agent does, written beside the table."""
    text = _marker(status.header.stamp, "status", 0, Marker.TEXT_VIEW_FACING, _WHITE)
    text.pose.position = Point(x=0.0, y=table.width / 2 + 0.25, z=0.2)
    text.scale.z = 1.3 * _TEXT
    text.text = f"{status.phase}: {status.text}\nshot {status.shots_used} of {status.shots_budget}"
    text.text += f", estimate {status.revision}" if status.revision else ", nothing fitted yet"
    if math.isfinite(status.held_out_error):
        text.text += f", {100 * status.held_out_error:.1f} cm off on held-out shots"
    return MarkerArray(markers=[text])
