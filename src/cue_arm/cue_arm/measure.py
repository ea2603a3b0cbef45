"""What the tip really did at the ball, from recorded joint states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cue_arm.chain import SerialChain
from cue_core.shots import Stroke

_FINE_STEP = 1e-4  # s: the splines between joint states are searched this densely around the contact
_CONTACT_SLACK = 5e-4  # s: a state this close to the contact may be disturbed by it already
_SPEED_FLOOR = 0.002  # share: what remains unknown of the speed however smooth the motion (encoders, link lengths)
_ANGLE_FLOOR = 5e-4  # rad: the same for azimuth and elevation
_PLACE_FLOOR = 2e-4  # m: the same for where the tip is
_PACE_BAND = (0.1, 0.9)  # shares of the motion's length between which its pace is measured
_LEAST_WAY = 0.05  # rad: less motion than this has no pace


@dataclass(frozen=True)
class JointRecord:
    """Joint states as recorded.

    Attributes:
        times: (n,) increasing [s].
        positions: (n, joints) [rad].
        velocities: (n, joints) [rad/s], or None where the driver sends none.
    """

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray | None = None


class _Spline:
    """Cubic splines through positions with the given (or estimated) velocities."""

    def __init__(self, record: JointRecord) -> None:
        self._t, self._q = record.times, record.positions
        self._v = np.gradient(self._q, self._t, axis=0) if record.velocities is None else record.velocities

    def at(self, times: np.ndarray) -> np.ndarray:
        """Return positions (m, joints) at times (m,)."""
        i = np.clip(np.searchsorted(self._t, times, side="right") - 1, 0, len(self._t) - 2)
        span = (self._t[i + 1] - self._t[i])[:, None]
        x = (times - self._t[i])[:, None] / span
        a, b, da, db = self._q[i], self._q[i + 1], span * self._v[i], span * self._v[i + 1]
        return a + x * (da + x * (3 * (b - a) - 2 * da - db + x * (2 * (a - b) + da + db)))


def measure_stroke(
    record: JointRecord,
    chain: SerialChain,
    ball: np.ndarray,
    ball_radius: float,
    tip_radius: float,
    after: float = -math.inf,
    ball_stddev: float = 0.0,
) -> Stroke | None:
    """Return the achieved stroke, or None when the tip never met the ball.

    Contact is when the tip's sphere first touches the resting ball while moving forward.

    Args:
        record: joint states around the stroke; those after the contact only tell that there was one.
        chain: the arm's kinematics.
        ball: (2,) cue ball centre [m].
        ball_radius: [m].
        tip_radius: of the tip's sphere [m].
        after: contacts before this time do not count [s].
        ball_stddev: of each coordinate of the ball's centre [m].
    """
    if len(record.times) < 3:
        return None
    centre, reach = np.array([*ball, ball_radius]), ball_radius + tip_radius
    met = _contact_time(record, chain, centre, reach, tip_radius, after)
    if met is None:
        return None
    # The ball slows the arm: only what was measured before it tells the speed that it was struck with. The tip moves
    # evenly there, so the last state before the contact is carried on to it.
    last = max(int(np.searchsorted(record.times, met - _CONTACT_SLACK, side="right")) - 1, 0)
    q, qd = record.positions[last], _velocity(record, last)
    tip, rotation = (column[0] for column in chain.forward(q))
    velocity = chain.jacobian(q)[0, :3] @ qd
    speed, forward = float(np.linalg.norm(velocity)), velocity / np.linalg.norm(velocity)
    sphere = tip - tip_radius * rotation[:, 0] - centre
    along, square = float(sphere @ forward), float(sphere @ sphere)
    way = -along - math.sqrt(max(along**2 - square + reach**2, 0.0))  # until the spheres touch
    offset = (sphere + way * forward) / reach
    azimuth = math.atan2(forward[1], forward[0])
    elevation = math.asin(float(np.clip(-forward[2], -1.0, 1.0)))
    left = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.cross(forward, left)
    speed_spread, azimuth_spread = _spread(record, chain, last, velocity)
    return Stroke(
        tip_speed=speed,
        azimuth=azimuth,
        tip_speed_stddev=math.hypot(_SPEED_FLOOR * speed, speed_spread),
        azimuth_stddev=math.hypot(_ANGLE_FLOOR, azimuth_spread),
        elevation=max(elevation, 0.0),
        side_offset=float(offset @ left),
        vertical_offset=float(offset @ up),
        contact_time=float(record.times[last]) + way / speed,
        elevation_stddev=math.hypot(_ANGLE_FLOOR, azimuth_spread),
        offset_stddev=math.hypot(_PLACE_FLOOR, ball_stddev, way * azimuth_spread) / reach,
    )


def measure_pace(record: JointRecord, planned_times: np.ndarray, planned: np.ndarray) -> float | None:
    """Return the share of the planned pace at which a robot went along a path, or None where it did not go along it.

    Of path and record the lengths of way in joint space are compared: when each reached the same shares of it.

    Args:
        record: joint states from before the motion began.
        planned_times: (n,) of the trajectory [s].
        planned: (n, joints) its positions [rad].
    """
    if len(record.times) < 3:
        return None
    wanted = _way(planned)
    # What a robot trembles while it stands is no way.
    moved = np.abs(np.diff(record.positions, axis=0)).max(axis=1) > 1e-5
    steps = np.linalg.norm(np.diff(record.positions, axis=0), axis=1) * moved
    gone = np.concatenate([[0.0], np.cumsum(steps)])
    whole = min(float(wanted[-1]), float(gone[-1]))
    if whole < _LEAST_WAY:
        return None
    marks = whole * np.array(_PACE_BAND)
    asked = np.diff([_first(planned_times, wanted, mark) for mark in marks])[0]
    taken = np.diff([_first(record.times, gone, mark) for mark in marks])[0]
    return float(asked / taken) if taken > 0 else None


def _way(positions: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(positions, axis=0), axis=1))])


def _first(times: np.ndarray, way: np.ndarray, mark: float) -> float:
    """Return when the way [rad] first comes to a mark [s]."""
    i = max(int(np.searchsorted(way, mark)), 1)
    i = min(i, len(way) - 1)
    span = way[i] - way[i - 1]
    return float(times[i - 1] + (times[i] - times[i - 1]) * ((mark - way[i - 1]) / span if span > 0 else 1.0))


def _velocity(record: JointRecord, index: int) -> np.ndarray:
    """Return joint velocities (joints,) [rad/s] of a state, from it and those before where the driver sends none."""
    if record.velocities is not None:
        return np.asarray(record.velocities[index])
    first = max(index - 2, 0)
    if index - first < 2:
        return (record.positions[first + 1] - record.positions[first]) / (record.times[first + 1] - record.times[first])
    rows = np.gradient(record.positions[first : index + 1], record.times[first : index + 1], axis=0, edge_order=2)
    return np.asarray(rows[-1])


def _gap(tip: np.ndarray, rotation: np.ndarray, centre: np.ndarray, reach: float, tip_radius: float) -> np.ndarray:
    """Return the distance (m,) between the tip's sphere and the ball [m]."""
    return np.linalg.norm(tip - tip_radius * rotation[:, :, 0] - centre, axis=1) - reach


def _contact_time(
    record: JointRecord,
    chain: SerialChain,
    centre: np.ndarray,
    reach: float,
    tip_radius: float,
    after: float,
) -> float | None:
    """Return about when the gap between the tip's sphere and the resting ball first closes [s], or None."""
    usable = np.flatnonzero(record.times >= after)
    if len(usable) < 2:
        return None
    spline = _Spline(record)
    tip, rotation = chain.forward(record.positions[usable])
    gap = _gap(tip, rotation, centre, reach, tip_radius)
    if gap[0] <= 0.0:
        return None
    # Look finely wherever the tip could have come through between two samples.
    near = np.flatnonzero(np.minimum(gap[:-1], gap[1:]) < 0.5 * np.linalg.norm(np.diff(tip, axis=0), axis=1) + 1e-4)
    for i in near:
        start, end = record.times[usable[i]], record.times[usable[i] + 1]
        times = np.linspace(start, end, max(int((end - start) / _FINE_STEP), 2) + 1)
        fine_tip, turn = chain.forward(spline.at(times))
        closed = np.flatnonzero(_gap(fine_tip, turn, centre, reach, tip_radius) <= 0.0)
        if len(closed):
            return float(times[closed[0]])
    return None


def _spread(record: JointRecord, chain: SerialChain, last: int, velocity: np.ndarray) -> tuple[float, float]:
    """Return how far speed [m/s] and azimuth [rad] of (3,) [m/s] are from what the last positions say."""
    speed = float(np.linalg.norm(velocity))
    if record.velocities is None or last < 1:
        return 0.01 * speed, 2 * _ANGLE_FLOOR
    tip, _ = chain.forward(record.positions[[last - 1, last]])
    difference = (tip[1] - tip[0]) / (record.times[last] - record.times[last - 1])
    middle = 0.5 * (record.positions[last - 1] + record.positions[last])
    sent = chain.jacobian(middle)[0, :3] @ (0.5 * (record.velocities[last - 1] + record.velocities[last]))
    turn = math.remainder(math.atan2(difference[1], difference[0]) - math.atan2(sent[1], sent[0]), 2 * math.pi)
    return abs(float(np.linalg.norm(difference) - np.linalg.norm(sent))), abs(turn)
