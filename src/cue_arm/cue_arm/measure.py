"""What the tip really did at the ball, from recorded joint states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cue_arm.chain import SerialChain
from cue_core.shots import Stroke

_FINE_STEP = 1e-4  # s: the splines between joint states are searched this densely around the contact
_SPEED_FLOOR = 0.002  # share: what remains unknown of the speed however smooth the motion (encoders, link lengths)
_ANGLE_FLOOR = 5e-4  # rad: the same for the azimuth


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

    def at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and velocities (m, joints) at times (m,)."""
        i = np.clip(np.searchsorted(self._t, times, side="right") - 1, 0, len(self._t) - 2)
        span = (self._t[i + 1] - self._t[i])[:, None]
        x = (times - self._t[i])[:, None] / span
        a, b, da, db = self._q[i], self._q[i + 1], span * self._v[i], span * self._v[i + 1]
        square, cube = 3 * (b - a) - 2 * da - db, 2 * (a - b) + da + db
        return a + x * (da + x * (square + x * cube)), (da + x * (2 * square + 3 * x * cube)) / span


def measure_stroke(
    record: JointRecord,
    chain: SerialChain,
    ball: np.ndarray,
    ball_radius: float,
    tip_radius: float,
    after: float = -math.inf,
) -> Stroke | None:
    """Return the achieved stroke, or None when the tip never met the ball.

    Contact is when the tip's sphere first touches the resting ball while moving forward.

    Args:
        record: joint states around the stroke; those after the contact are not used beyond the sample that follows it.
        chain: the arm's kinematics.
        ball: (2,) cue ball centre [m].
        ball_radius: [m].
        tip_radius: of the tip's sphere [m].
        after: contacts before this time do not count [s].
    """
    if len(record.times) < 3:
        return None
    spline = _Spline(record)
    contact = _contact_time(
        record, spline, chain, np.array([*ball, ball_radius]), ball_radius + tip_radius, tip_radius, after
    )
    if contact is None:
        return None
    tip, velocity, rotation = _tip(spline, chain, np.array([contact]))
    speed, forward = float(np.linalg.norm(velocity[0])), velocity[0] / np.linalg.norm(velocity[0])
    azimuth = math.atan2(forward[1], forward[0])
    elevation = math.asin(float(np.clip(-forward[2], -1.0, 1.0)))
    left = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.cross(forward, left)
    centre = tip[0] - tip_radius * rotation[0, :, 0]
    offset = (centre - np.array([*ball, ball_radius])) / (ball_radius + tip_radius)
    speed_spread, azimuth_spread = _spread(record, chain, contact, speed)
    return Stroke(
        tip_speed=speed,
        azimuth=azimuth,
        tip_speed_stddev=math.hypot(_SPEED_FLOOR * speed, speed_spread),
        azimuth_stddev=math.hypot(_ANGLE_FLOOR, azimuth_spread),
        elevation=max(elevation, 0.0),
        side_offset=float(offset @ left),
        vertical_offset=float(offset @ up),
        contact_time=contact,
    )


def _tip(spline: _Spline, chain: SerialChain, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tip's position [m], velocity [m/s] (m, 3) and rotation (m, 3, 3) at times (m,)."""
    q, qd = spline.at(times)
    position, rotation = chain.forward(q)
    velocity = (chain.jacobian(q)[:, :3] @ qd[..., None])[..., 0]
    return position, velocity, rotation


def _gap(tip: np.ndarray, rotation: np.ndarray, centre: np.ndarray, reach: float, tip_radius: float) -> np.ndarray:
    """Return the distance (m,) between the tip's sphere and the ball [m]."""
    return np.linalg.norm(tip - tip_radius * rotation[:, :, 0] - centre, axis=1) - reach


def _contact_time(
    record: JointRecord,
    spline: _Spline,
    chain: SerialChain,
    centre: np.ndarray,
    reach: float,
    tip_radius: float,
    after: float,
) -> float | None:
    """Return when the gap between the tip's sphere and the resting ball first closes [s], or None."""
    usable = np.flatnonzero(record.times >= after)
    if len(usable) < 2:
        return None
    rows = record.positions[usable]
    tip, rotation = chain.forward(rows)
    gap = _gap(tip, rotation, centre, reach, tip_radius)
    if gap[0] <= 0.0:
        return None
    # Look finely wherever the tip could have come through between two samples.
    near = np.flatnonzero(np.minimum(gap[:-1], gap[1:]) < 0.5 * np.linalg.norm(np.diff(tip, axis=0), axis=1) + 1e-4)
    for i in near:
        start, end = record.times[usable[i]], record.times[usable[i] + 1]
        times = np.linspace(start, end, max(int((end - start) / _FINE_STEP), 2) + 1)
        fine_tip, _, turn = _tip(spline, chain, times)
        fine = _gap(fine_tip, turn, centre, reach, tip_radius)
        closed = np.flatnonzero(fine <= 0.0)
        if len(closed) == 0:
            continue
        j = int(closed[0])
        if j == 0:
            return float(times[0])
        return float(times[j - 1] + (times[j] - times[j - 1]) * fine[j - 1] / (fine[j - 1] - fine[j]))
    return None


def _spread(record: JointRecord, chain: SerialChain, contact: float, speed: float) -> tuple[float, float]:
    """Return how much speed [m/s] and azimuth [rad] differ between the velocities sent and those of the positions."""
    if record.velocities is None:
        return 0.01 * speed, 2 * _ANGLE_FLOOR
    i = int(np.clip(np.searchsorted(record.times, contact), 1, len(record.times) - 1))
    tip, _ = chain.forward(record.positions[[i - 1, i]])
    difference = (tip[1] - tip[0]) / (record.times[i] - record.times[i - 1])
    qd = 0.5 * (record.velocities[i - 1] + record.velocities[i])
    sent = chain.jacobian(0.5 * (record.positions[i - 1] + record.positions[i])[None])[0, :3] @ qd
    turn = math.remainder(math.atan2(difference[1], difference[0]) - math.atan2(sent[1], sent[0]), 2 * math.pi)
    return abs(float(np.linalg.norm(difference) - np.linalg.norm(sent))) / 2, abs(turn) / 2
