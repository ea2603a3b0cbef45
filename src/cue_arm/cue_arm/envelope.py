"""The safety envelope: what no trajectory may leave, whoever made it. Knows no planner and trusts nobody.

Between two points a driver goes along the quintic that meets position, velocity and acceleration at both. Here its
Bernstein coefficients bound it, so that nothing hides between the points; the tip and every part of the arm are
followed through the arm's own Denavit-Hartenberg chain at short steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cue_arm.body import RobotBody
from cue_arm.errors import ArmError
from cue_arm.keep_out import KeepOut
from cue_core.arm_codes import ArmCode
from cue_core.settings import check_settings, setting
from cue_core.table import TableModel
from cue_sim.robot import RobotConfig

LIMITS = (
    "shape",
    "finite numbers",
    "length",
    "times",
    "joint position",
    "joint velocity",
    "joint acceleration",
    "rest at both ends",
    "start",
    "tip speed",
    "box",
    "table keep-out",
)
"""What a refusal may name, in the order in which they are looked at."""

_FINE, _COARSE = 0.002, 0.008  # s: no piece of the motion is longer, for its joints and for its place in the room
_SHORTEST = 1e-4  # s between points: less is no motion but an error
_ROUNDING = 1e-6  # share of a limit by which rounding may exceed it
_CHUNK = 512  # configurations followed at once
_AHEAD = 8  # how many times more densely a part close to the keep-out is followed


class EnvelopeError(ArmError):
    """A trajectory would leave the envelope; ``limit`` is one of :data:`LIMITS`."""

    def __init__(self, limit: str, text: str) -> None:
        """Name the limit, then what was given and what is allowed."""
        self.limit = limit
        super().__init__(ArmCode.ENVELOPE, f"{limit}: {text}")


@dataclass(frozen=True)
class EnvelopeSettings:
    """What the envelope allows beyond the robot's own joint limits."""

    tip_speed: float = setting(3.5, "largest speed of the cue's tip, on the way to the ball too", "m/s", 0.05, 10.0)
    joint_speed: float = setting(1.0, "share of the robot's joint speed limits", "1", 0.01, 1.0)
    joint_acceleration: float = setting(1.0, "share of the robot's joint acceleration limits", "1", 0.01, 1.0)
    keep_out: float = setting(0.0015, "between any part of arm or cue and cloth or rails", "m", 0.0005, 0.05)
    beyond: float = setting(1.0, "how far any part may reach beyond the cushion noses", "m", 0.05, 5.0)
    above: float = setting(1.8, "highest place of any part over the cloth", "m", 0.1, 5.0)
    below: float = setting(0.4, "deepest place of any part under the cloth's plane, beside the table", "m", 0.0, 2.0)
    longest: float = setting(60.0, "duration of a trajectory at most", "s", 1.0, 600.0)
    most_points: int = setting(20000, "points of a trajectory at most", "1", 2, 1000000)
    start: float = setting(0.02, "largest distance of a joint from where the trajectory starts", "rad", 1e-4, 0.2)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the setting.
        """
        check_settings(self)


class Envelope:
    """Judges trajectories of one robot beside one table; keeps nothing between calls, so threads may share it."""

    def __init__(self, robot: RobotConfig, table: TableModel, settings: EnvelopeSettings | None = None) -> None:
        """Read the limits."""
        self.robot, self.table = robot, table
        self.settings = settings or EnvelopeSettings()
        s = self.settings
        self._names = robot.joint_names
        self._lower, self._upper = robot.limits("lower"), robot.limits("upper")
        self._velocity = s.joint_speed * robot.limits("velocity")
        self._acceleration = s.joint_acceleration * robot.limits("acceleration")
        self._body = RobotBody(robot, table)
        self._keep_out = KeepOut(table)
        half = np.array([table.length, table.width]) / 2 + s.beyond
        self._box = np.array([*-half, -s.below]), np.array([*half, s.above])

    def check(self, trajectory: Any, start: Any = None) -> None:
        """Refuse a trajectory that would leave the envelope anywhere between its first and last point.

        Args:
            trajectory: like :class:`cue_arm.trajectory.JointTrajectory`; anything else is refused too.
            start: (n,) where the joints are now [rad]; None = not compared.

        Raises:
            EnvelopeError: naming the limit.
        """
        with np.errstate(all="ignore"):
            times, points = self._read(trajectory)
            self._check_points(points)
            self._check_ends(points, start)
            self._check_joints(*_split(times, points, _FINE))
            self._check_space(*_split(times, points, _COARSE))

    def touches(self, configuration: np.ndarray) -> bool:
        """Tell whether any part is nearer to cloth or rails than allowed in a configuration (n,) [rad]."""
        gaps = self._keep_out.gap(self._body.spheres(np.asarray(configuration, float)[None])) - self._body.radii
        return bool(np.any(~(gaps >= self.settings.keep_out)))

    def _read(self, trajectory: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return times (n,) [s] and positions, velocities, accelerations (3, n, joints) of whatever was given."""
        joints = len(self._names)
        times = _numbers("times", getattr(trajectory, "times", None), 1)
        count = len(times)
        if not 2 <= count <= self.settings.most_points:
            raise EnvelopeError("length", f"{count} points, allowed are 2 to {self.settings.most_points}")
        columns = []
        for name in ("positions", "velocities", "accelerations"):
            rows = _numbers(name, getattr(trajectory, name, None), 2)
            if rows.shape != (count, joints):
                raise EnvelopeError("shape", f"{name} are {rows.shape}, needs ({count}, {joints})")
            columns.append(rows)
        if not all(np.isfinite(values).all() for values in (times, *columns)):
            raise EnvelopeError("finite numbers", "a time, position, velocity or acceleration is not finite")
        if times[0] != 0.0 or not np.all(np.diff(times) >= _SHORTEST):
            raise EnvelopeError("times", f"must begin at 0 and grow by at least {_SHORTEST} s from point to point")
        if not times[-1] <= self.settings.longest:
            raise EnvelopeError("length", f"takes {times[-1]:.4g} s, allowed is {self.settings.longest:g} s")
        return times, np.stack(columns)

    def _check_points(self, points: np.ndarray) -> None:
        self._inside("joint position", points[0], self._lower, self._upper, "rad")
        self._inside("joint velocity", points[1], -self._velocity, self._velocity, "rad/s")
        self._inside("joint acceleration", points[2], -self._acceleration, self._acceleration, "rad/s^2")

    def _check_ends(self, points: np.ndarray, start: Any) -> None:
        moving = np.abs(points[1, [0, -1]]).max()
        if not moving <= 1e-6:
            raise EnvelopeError("rest at both ends", f"a joint moves at {moving:.3g} rad/s at an end")
        if start is None:
            return
        now = _numbers("start", start, 1)
        if now.shape != (len(self._names),) or not np.isfinite(now).all():
            raise EnvelopeError("start", f"the joint states are not {len(self._names)} finite numbers")
        off = np.abs(points[0, 0] - now)
        if not np.all(off <= self.settings.start):
            joint = int(np.argmax(off))
            raise EnvelopeError(
                "start",
                f"begins {off[joint]:.3f} rad away from where {self._names[joint]} is, "
                f"allowed is {self.settings.start:g} rad",
            )

    def _check_joints(self, step: np.ndarray, states: np.ndarray) -> None:
        """Bound every piece by its Bernstein coefficients: the curve lies within their hull."""
        h = step[:, None]
        (p0, v0, a0), (p1, v1, a1) = states[:, :-1], states[:, 1:]
        curve = np.stack(
            [
                p0,
                p0 + h * v0 / 5,
                p0 + 2 * h * v0 / 5 + h**2 * a0 / 20,
                p1 - 2 * h * v1 / 5 + h**2 * a1 / 20,
                p1 - h * v1 / 5,
                p1,
            ]
        )
        rate = 5 * np.diff(curve, axis=0) / h
        change = 4 * np.diff(rate, axis=0) / h
        for limit, bounds, low, high, unit in (
            ("joint position", curve, self._lower, self._upper, "rad"),
            ("joint velocity", rate, -self._velocity, self._velocity, "rad/s"),
            ("joint acceleration", change, -self._acceleration, self._acceleration, "rad/s^2"),
        ):
            self._inside(limit, bounds.reshape(-1, len(self._names)), low, high, unit)

    def _inside(self, limit: str, rows: np.ndarray, low: np.ndarray, high: np.ndarray, unit: str) -> None:
        slack = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
        bad = ~((rows >= low - slack) & (rows <= high + slack))
        if bad.any():
            row, joint = np.unravel_index(int(np.argmax(bad)), bad.shape)
            raise EnvelopeError(
                limit,
                f"{self._names[joint]} would come to {rows[row, joint]:.4g} {unit}, "
                f"allowed is {low[joint]:.4g} to {high[joint]:.4g} {unit}",
            )

    def _check_space(self, step: np.ndarray, states: np.ndarray) -> None:
        for begin in range(0, len(step), _CHUNK):
            part = slice(begin, min(begin + _CHUNK, len(step)) + 1)
            steps, ends = step[begin : begin + _CHUNK], states[:, part]
            centres = self._body.spheres(ends[0])
            self._check_tip(steps, ends)
            self._check_box(centres)
            self._check_keep_out(steps, ends, centres)

    def _check_tip(self, step: np.ndarray, states: np.ndarray) -> None:
        """Look at the tip's speed at the samples, and more densely wherever it is not slow."""
        limit = self.settings.tip_speed
        speed = self._body.tip_speed(states[0], states[1])
        near = np.flatnonzero(np.maximum(speed[:-1], speed[1:]) > 0.5 * limit)
        if len(near) and speed.max() <= limit:
            inner = _within(states, step, near)
            speed = self._body.tip_speed(inner[0], inner[1])
        if not speed.max() <= limit:
            raise EnvelopeError("tip speed", f"would come to {speed.max():.3g} m/s, allowed is {limit:g} m/s")

    def _check_box(self, centres: np.ndarray) -> None:
        radii = self._body.radii[:, None]
        low, high = self._box
        most = self._body.radii.max()
        if np.all(centres.min(axis=(0, 1)) - most >= low) and np.all(centres.max(axis=(0, 1)) + most <= high):
            return
        outside = ~((centres - radii >= low) & (centres + radii <= high))
        if outside.any():
            _, sphere, axis = np.unravel_index(int(np.argmax(outside)), outside.shape)
            raise EnvelopeError(
                "box",
                f"{self._body.names[sphere]} would leave the box {np.round(low, 2)} to {np.round(high, 2)} m "
                f"along {'xyz'[axis]}",
            )

    def _check_keep_out(self, step: np.ndarray, states: np.ndarray, centres: np.ndarray) -> None:
        """Follow the parts from sample to sample; those that come near the table more densely."""
        room = self.settings.keep_out
        gaps = self._keep_out.gap(centres) - self._body.radii
        self._refuse_near(gaps, room)
        way = np.linalg.norm(np.diff(centres, axis=0), axis=2)
        close = np.minimum(gaps[:-1], gaps[1:]) < room + way
        near = np.flatnonzero(close.any(axis=1))
        if len(near):
            at = self._body.spheres(_within(states, step, near)[0])
            self._refuse_near(self._keep_out.gap(at) - self._body.radii, room)

    def _refuse_near(self, gaps: np.ndarray, room: float) -> None:
        bad = ~(gaps >= room)
        if bad.any():
            sphere = int(np.argmax(bad.any(axis=0)))
            raise EnvelopeError(
                "table keep-out",
                f"{self._body.names[sphere]} would come to {1e3 * float(np.min(gaps[:, sphere])):.1f} mm from cloth "
                f"or rails, allowed is {1e3 * room:.1f} mm",
            )


def _numbers(name: str, values: Any, dimensions: int) -> np.ndarray:
    """Return an array of floats, or refuse what cannot be one."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.ndim != dimensions:
            raise ValueError
        return array.astype(float)
    except (TypeError, ValueError, OverflowError, AttributeError, MemoryError):
        raise EnvelopeError("shape", f"{name} are no array of numbers with {dimensions} dimension(s)") from None


def _quintic(first: np.ndarray, last: np.ndarray, span: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return positions, velocities, accelerations (3, s, k, joints) at times (s, k) [s] of s pieces.

    Args:
        first: (3, s, joints) position, velocity and acceleration where each piece begins.
        last: (3, s, joints) where it ends.
        span: (s,) how long it takes [s].
        times: (s, k) since its begin [s].
    """
    h = span[:, None]
    p0, v0, a0 = first
    # In units of the piece's length, so that a very short or long one loses no digits.
    move, v0h, v1h = last[0] - p0, v0 * h, last[1] * h
    a0h, a1h = a0 * h**2, last[2] * h**2
    c3 = 10 * move - 6 * v0h - 4 * v1h - 1.5 * a0h + 0.5 * a1h
    c4 = -15 * move + 8 * v0h + 7 * v1h + 1.5 * a0h - a1h
    c5 = 6 * move - 3 * (v0h + v1h) + 0.5 * (a1h - a0h)
    x = (times / h)[..., None]
    p0, v0h, a0h, c3, c4, c5 = (rows[:, None] for rows in (p0, v0h, a0h, c3, c4, c5))
    position = p0 + x * (v0h + x * (a0h / 2 + x * (c3 + x * (c4 + x * c5))))
    velocity = v0h + x * (a0h + x * (3 * c3 + x * (4 * c4 + x * 5 * c5)))
    acceleration = a0h + x * (6 * c3 + x * (12 * c4 + x * 20 * c5))
    scale = h[..., None]
    return np.stack([position, velocity / scale, acceleration / scale**2])


def _within(states: np.ndarray, step: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Return states (3, k, joints) inside some pieces (s,) of those that begin and end at (3, m + 1, joints)."""
    times = step[pieces, None] * np.arange(1, _AHEAD) / _AHEAD
    inner = _quintic(states[:, pieces], states[:, pieces + 1], step[pieces], times)
    return inner.reshape(3, -1, inner.shape[-1])


def _split(times: np.ndarray, points: np.ndarray, longest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return pieces of at most ``longest`` [s]: how long each is (m,) [s], and states (3, m + 1, joints) at their ends.

    A part of a quintic is the quintic between its own ends, so nothing is lost.
    """
    span = np.diff(times)
    counts = np.ceil(span / longest - 1e-9).astype(int).clip(1)
    steps = np.repeat(span / counts, counts)
    whole = np.repeat(np.arange(len(span)), counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    inside = (np.arange(len(whole)) - first[whole]) * steps
    states = _quintic(points[:, whole], points[:, whole + 1], span[whole], inside[:, None])[:, :, 0]
    return steps, np.concatenate([states, points[:, -1:]], axis=1)
