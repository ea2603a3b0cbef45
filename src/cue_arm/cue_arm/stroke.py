"""The stroke in space: where the tip goes, when, and what the struck ball does to it. Table frame, SI units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_arm.errors import CollisionError, UnreachableError
from cue_arm.settings import StrokeSettings
from cue_core.shots import Shot
from cue_core.table import TableModel

_JERK_SHARE = 0.2
"""Share of a speed ramp in which the acceleration rises, and again in which it falls."""
_THROUGH, _TOUCHING = 0.001, 0.002
"""The tip keeps its speed past the contact for what a ball's place may be off [m], and while tip and ball touch [s]."""
_FREE_AFTER = 0.016
"""When the tip must be free of the ball [s after the contact]: the end of a shaft that was pushed aside swings back."""
_SLIDING = 2.5
"""Largest deceleration of a ball that slides [m/s^2]: cloths have coefficients up to about 0.25."""
PEAK = 1 / (1 - _JERK_SHARE)
"""Largest acceleration of a ramp, in units of its mean."""


def stroke_axes(azimuth: float, elevation: float) -> np.ndarray:
    """Return the (3, 3) matrix whose columns are the stroke's direction, its left and its upper side."""
    ca, sa, ce, se = math.cos(azimuth), math.sin(azimuth), math.cos(elevation), math.sin(elevation)
    forward = np.array([ce * ca, ce * sa, -se])
    left = np.array([-sa, ca, 0.0])
    return np.stack([forward, left, np.cross(forward, left)], axis=1)


def tip_rotation(azimuth: float, elevation: float, roll: float = 0.0) -> np.ndarray:
    """Return (3, 3) table_from_tip: x along the stroke, z down where the cue is level; ``roll`` [rad] turns about x."""
    forward, left, up = stroke_axes(azimuth, elevation).T
    cosine, sine = math.cos(roll), math.sin(roll)
    return np.stack([forward, -cosine * left - sine * up, sine * left - cosine * up], axis=1)


def tip_at_contact(ball: np.ndarray, ball_radius: float, tip_radius: float, shot: Shot) -> np.ndarray:
    """Return (3,) the tip's foremost point when its sphere meets the ball (2,) at the shot's offsets.

    The offsets say where on the ball the contact lies, so the sphere's centre is off by offset times R + r.
    """
    forward, left, up = stroke_axes(shot.azimuth, shot.elevation).T
    side, vertical = shot.side_offset, shot.vertical_offset
    behind = math.sqrt(max(0.0, 1.0 - side**2 - vertical**2))
    centre = np.array([ball[0], ball[1], ball_radius])
    to_sphere = (ball_radius + tip_radius) * (side * left + vertical * up - behind * forward)
    return centre + to_sphere + tip_radius * forward


@dataclass(frozen=True)
class SpeedProfile:
    """Travel of the tip along the stroke: up to speed, constant speed through the contact, down to rest.

    Acceleration rises, stays and falls linearly on each ramp, so it is continuous and jerk is finite.

    Attributes:
        speed: at contact [m/s].
        ramp_up: time from rest to ``speed`` [s]; ``ramp_down`` from ``speed`` to rest.
        lead: distance of constant speed before the contact [m]; ``through`` past it.
    """

    speed: float
    ramp_up: float
    lead: float
    through: float
    ramp_down: float

    @classmethod
    def of(cls, speed: float, settings: StrokeSettings, share: float = 1.0) -> SpeedProfile:
        """Return the profile with a ``share`` of the settings' largest accelerations."""
        steepest = PEAK * speed / share
        return cls(
            speed=speed,
            ramp_up=max(steepest / settings.tip_acceleration, settings.shortest_ramp),
            lead=settings.lead,
            through=min(settings.through, _THROUGH + _TOUCHING * speed),
            ramp_down=max(steepest / settings.tip_braking, settings.shortest_brake / share),
        )

    @property
    def run_up(self) -> float:
        """Return the distance from rest to the contact [m]."""
        return 0.5 * self.speed * self.ramp_up + self.lead

    @property
    def run_out(self) -> float:
        """Return the distance from the contact to rest [m]."""
        return self.through + 0.5 * self.speed * self.ramp_down

    @property
    def peak_acceleration(self) -> float:
        """Return the largest acceleration of the tip [m/s^2]."""
        return PEAK * self.speed / min(self.ramp_up, self.ramp_down)

    @property
    def contact_time(self) -> float:
        """Return the time from the start to the contact [s]."""
        return self.ramp_up + self.lead / self.speed

    @property
    def duration(self) -> float:
        """Return the time from rest to rest [s]."""
        return self.contact_time + self.through / self.speed + self.ramp_down

    def at(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return travel past the contact point [m], speed [m/s] and acceleration [m/s^2] at times (n,) [s]."""
        up = np.clip(time / self.ramp_up, 0.0, 1.0)
        brake = self.contact_time + self.through / self.speed
        down = np.clip((time - brake) / self.ramp_down, 0.0, 1.0)
        cruise = np.clip(time, self.ramp_up, brake) - self.ramp_up
        travel = self.speed * (self.ramp_up * ramp_area(up) + cruise + self.ramp_down * (down - ramp_area(down)))
        speed = self.speed * (ramp(up) - ramp(down))
        acceleration = self.speed * (ramp_slope(up) / self.ramp_up - ramp_slope(down) / self.ramp_down)
        return travel - self.run_up, speed, acceleration


def ramp(x: np.ndarray) -> np.ndarray:
    """Return the share of the speed reached after a share ``x`` of the ramp."""
    early, late = PEAK * x**2 / (2 * _JERK_SHARE), 1 - PEAK * (1 - x) ** 2 / (2 * _JERK_SHARE)
    return np.where(x < _JERK_SHARE, early, np.where(x > 1 - _JERK_SHARE, late, PEAK * (x - _JERK_SHARE / 2)))


def ramp_area(x: np.ndarray) -> np.ndarray:
    """Return the integral of :func:`ramp` from 0."""
    early, late = PEAK * x**3 / (6 * _JERK_SHARE), x - 0.5 + PEAK * (1 - x) ** 3 / (6 * _JERK_SHARE)
    middle = PEAK * (_JERK_SHARE**2 / 24 + (x - _JERK_SHARE / 2) ** 2 / 2)
    return np.where(x < _JERK_SHARE, early, np.where(x > 1 - _JERK_SHARE, late, middle))


def ramp_slope(x: np.ndarray) -> np.ndarray:
    """Return the derivative of :func:`ramp`."""
    return PEAK * np.clip(np.minimum(x, 1 - x) / _JERK_SHARE, 0.0, 1.0)


def rest_to_rest(time: np.ndarray, duration: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return share of the way, its rate [1/s] and that's rate [1/s^2]: minimum jerk (Flash and Hogan 1985)."""
    x = np.clip(time / duration, 0.0, 1.0)
    share = x**3 * (10 - 15 * x + 6 * x * x)
    rate = 30 * x**2 * (1 - x) ** 2 / duration
    return share, rate, 60 * x * (1 - x) * (1 - 2 * x) / duration**2


@dataclass(frozen=True)
class TipPath:
    """The tip's motion over the table: lowered behind the ball, through it, raised. The cue never turns.

    Attributes:
        contact: (3,) the tip's foremost point at contact [m].
        rotation: (3, 3) table_from_tip all along.
        profile: of the stroke.
        hover: height above the stroke at both ends [m].
        lower_time, settle_time, rise_time: [s].
        share: of the settings' tip acceleration that the profile uses.
        tip_radius: of the tip's sphere [m].
    """

    contact: np.ndarray
    rotation: np.ndarray
    profile: SpeedProfile
    hover: float
    lower_time: float
    settle_time: float
    rise_time: float
    share: float = 1.0
    tip_radius: float = 0.0

    @classmethod
    def of(
        cls,
        shot: Shot,
        ball: np.ndarray,
        table: TableModel,
        tip_radius: float,
        settings: StrokeSettings,
        share: float = 1.0,
        roll: float = 0.0,
    ) -> TipPath:
        """Lay out the stroke of a shot at the cue ball (2,) [m], with a ``share`` of the usual tip acceleration.

        The tip is round, so the cue may be rolled about its own axis by any angle [rad].

        Raises:
            UnreachableError: the elevation is more than the settings allow.
        """
        if shot.elevation > settings.largest_elevation:
            raise UnreachableError(
                f"elevation is {shot.elevation:.3f} rad, the arm plays 0 to {settings.largest_elevation:.3f} rad"
            )
        return cls(
            contact=tip_at_contact(ball, table.ball_radius, tip_radius, shot),
            rotation=tip_rotation(shot.azimuth, shot.elevation, roll),
            profile=SpeedProfile.of(shot.speed, settings, share),
            hover=settings.hover,
            lower_time=settings.lower_time,
            settle_time=settings.settle_time,
            rise_time=settings.rise_time,
            share=share,
            tip_radius=tip_radius,
        )

    @property
    def forward(self) -> np.ndarray:
        """Return (3,) the stroke's direction."""
        return self.rotation[:, 0]

    @property
    def back(self) -> np.ndarray:
        """Return (3,) where the stroke begins [m]."""
        return self.contact - self.profile.run_up * self.forward

    @property
    def front(self) -> np.ndarray:
        """Return (3,) where it ends [m]."""
        return self.contact + self.profile.run_out * self.forward

    @property
    def stroke_start(self) -> float:
        """Return when the tip begins to move at the ball [s]; the path starts hovering at 0."""
        return self.lower_time + self.settle_time

    @property
    def contact_time(self) -> float:
        """Return when the tip meets the ball [s]."""
        return self.stroke_start + self.profile.contact_time

    @property
    def rise_start(self) -> float:
        """Return when the tip stands still past the ball [s]."""
        return self.stroke_start + self.profile.duration

    @property
    def duration(self) -> float:
        """Return when it hovers again [s]."""
        return self.rise_start + self.rise_time

    def key_positions(self) -> np.ndarray:
        """Return (5, 3) hovering behind, back, contact, front, hovering in front [m]."""
        up = np.array([0.0, 0.0, self.hover])
        return np.stack([self.back + up, self.back, self.contact, self.front, self.front + up])

    def at(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return tip positions [m], velocities [m/s] and accelerations [m/s^2], each (n, 3), at times (n,) [s]."""
        travel, speed, acceleration = self.profile.at(time - self.stroke_start)
        lower = rest_to_rest(time, self.lower_time)
        rise = rest_to_rest(time - self.rise_start, self.rise_time)
        up = np.array([0.0, 0.0, self.hover])
        position = self.contact + travel[:, None] * self.forward + (1 - lower[0] + rise[0])[:, None] * up
        velocity = speed[:, None] * self.forward + (rise[1] - lower[1])[:, None] * up
        return position, velocity, acceleration[:, None] * self.forward + (rise[2] - lower[2])[:, None] * up


def check_aftermath(
    shot: Shot,
    ball: np.ndarray,
    others: Sequence[tuple[str, np.ndarray]],
    table: TableModel,
    path: TipPath,
    settings: StrokeSettings,
) -> None:
    """Refuse a stroke whose tip the struck cue ball would meet again.

    The cue ball leaves faster than the tip. What can bring it back in time is a near ball that stops it in the tip's
    way, or a near cushion that returns it before the tip is up.

    Args:
        shot: asked for.
        ball: (2,) cue ball [m].
        others: names and (2,) positions [m] of the other balls.
        table: its cushions return the ball.
        path: of the tip.
        settings: clearances.

    Raises:
        CollisionError: naming the tip and what would meet it.
    """
    _check_parting(shot, table, path, settings)
    diameter = 2 * table.ball_radius
    along = np.array([math.cos(shot.azimuth), math.sin(shot.azimuth)])
    run_out = path.profile.run_out + settings.ball_clearance
    for name, position in others:
        offset = position - ball
        ahead = float(offset @ along)
        aside = abs(float(offset[0] * along[1] - offset[1] * along[0]))
        if ahead > 0 and aside < diameter:
            free = ahead - math.sqrt(diameter**2 - aside**2)
            if free < run_out:
                raise CollisionError("cue tip", "cue ball", f"again: {name} stops it after {1e3 * max(free, 0):.0f} mm")
    for axis, half in enumerate((table.length / 2, table.width / 2)):
        rate = abs(float(along[axis]))
        if rate < 1e-6:
            continue
        free = max(0.0, (half - table.ball_stop - math.copysign(1.0, along[axis]) * float(ball[axis])) / rate)
        # Mirrored at the nose, the way back passes the tip's line at this distance when it is level with its end.
        aside = 2 * (free - path.profile.run_out) * rate * math.sqrt(max(0.0, 1 - rate**2))
        if free >= run_out and aside > table.ball_radius + 2 * settings.ball_clearance:
            continue
        ball_time = (2 * free - path.profile.run_out) / (settings.ball_gain * shot.speed)
        height = diameter - float(path.contact[2]) + 0.010  # the tip's lower side is then above the ball
        times = np.linspace(0.0, path.rise_time, 32)
        raised = float(np.interp(min(height / path.hover, 1.0), rest_to_rest(times, path.rise_time)[0], times))
        tip_time = path.rise_start - path.contact_time + raised
        if free < run_out or ball_time < tip_time:
            raise CollisionError(
                "cue tip", "cue ball", f"again: it comes back from a cushion {1e3 * free:.0f} mm ahead"
            )


def _check_parting(shot: Shot, table: TableModel, path: TipPath, settings: StrokeSettings) -> None:
    """Refuse a stroke whose tip stays beside the ball: struck off its centre a ball leaves hardly faster than the tip.

    A ball struck at b radii from its centre by a heavy cue gets 1 / (1 + 2.5 b^2) of the speed of a central blow.

    Raises:
        CollisionError: naming tip and ball.
    """
    offset = math.hypot(shot.side_offset, shot.vertical_offset)
    speed = settings.least_gain * shot.speed / (1.0 + 2.5 * offset**2)
    need = (table.ball_radius + path.tip_radius) * (1.0 - math.sqrt(1.0 - offset**2))
    rest = path.profile.duration - path.profile.contact_time
    times = np.linspace(_FREE_AFTER, max(rest, _FREE_AFTER + 0.02), 16)
    lost = max(2 / 7 - 5 / 7 * shot.vertical_offset, 0.0) * speed  # until it rolls
    slows = np.minimum(times, lost / _SLIDING)
    ball = speed * times - 0.5 * _SLIDING * slows**2 - _SLIDING * slows * (times - slows)
    tip = path.profile.at(path.profile.contact_time + times)[0]
    gap = float((ball - tip).min())
    if gap < need:
        raise CollisionError(
            "cue tip",
            "cue ball",
            f"again: struck {offset:.2f} radii off its centre at {shot.speed:.2f} m/s it leaves too slowly",
        )
