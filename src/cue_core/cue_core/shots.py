"""Shots: what is asked for, what the arm did, what the camera saw."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from cue_core.balls import BallState
from cue_core.checks import finite_in

MISCUE_OFFSET = 0.5
"""Largest tip offset [ball radii] that a chalked tip holds (Alciatore, billiards.colostate.edu)."""

ADVISORY_FLAGS = frozenset(
    {
        "occluded_start",  # the arm hides a ball that rests where it was seen
        "blurred",
        "camera_drift",
        "clock_offset",
        "frames_lost",
        "lens_dirty",
        "light_changed",
        "slowed",  # the robot went slower than asked; the achieved speed is what was measured
    }
)
"""Quality flags that tell something without spoiling the record; docs/perception.md explains them."""


@dataclass(frozen=True)
class Shot:
    """A shot as asked for.

    Attributes:
        shot_id: unique per session; one id is never struck twice.
        speed: of the cue tip at contact [m/s].
        azimuth: direction of the stroke in the table frame, from +x towards +y [rad].
        elevation: of the cue above the cloth plane [rad].
        side_offset: tip contact left (+) or right (-) of the centre along the stroke [ball radii].
        vertical_offset: above (+, follow) or below (-, draw) the centre [ball radii].
    """

    shot_id: str
    speed: float
    azimuth: float
    elevation: float = 0.0
    side_offset: float = 0.0
    vertical_offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that no cue can play.

        Raises:
            OutOfRangeError: naming the field and its range.
        """
        finite_in("speed", self.speed, 0.01, 15.0, "m/s")
        finite_in("azimuth", self.azimuth, -4 * math.pi, 4 * math.pi, "rad")
        finite_in("elevation", self.elevation, 0.0, math.pi / 2, "rad")
        finite_in("side_offset", self.side_offset, -MISCUE_OFFSET, MISCUE_OFFSET, "ball radii")
        finite_in("vertical_offset", self.vertical_offset, -MISCUE_OFFSET, MISCUE_OFFSET, "ball radii")


@dataclass(frozen=True)
class Stroke:
    """A stroke as measured by the robot's joint states, in the table frame.

    Attributes:
        tip_speed: along the azimuth at contact [m/s].
        azimuth: of the tip's motion at contact [rad].
        elevation: [rad].
        side_offset: + left, against the tracked ball centre [ball radii].
        vertical_offset: + above [ball radii].
        contact_time: when the tip met the ball [s], robot clock.
        elevation_stddev: [rad].
        offset_stddev: of either offset [ball radii].
    """

    tip_speed: float
    azimuth: float
    tip_speed_stddev: float = 0.0
    azimuth_stddev: float = 0.0
    elevation: float = 0.0
    side_offset: float = 0.0
    vertical_offset: float = 0.0
    contact_time: float = 0.0
    elevation_stddev: float = 0.0
    offset_stddev: float = 0.0


@dataclass(frozen=True)
class BallTrack:
    """Path of one ball during one shot, in the table frame.

    Attributes:
        ball_id: 0..15.
        time: (n,) after the record's strike time, increasing [s].
        position: (n, 2) [m].
        covariance: (n, 2, 2) [m^2].
        pocketed: the track ends in a pocket.
    """

    ball_id: int
    time: np.ndarray
    position: np.ndarray
    covariance: np.ndarray
    pocketed: bool = False


class ContactKind(IntEnum):
    """What a ball met."""

    BALL = 1
    CUSHION = 2


@dataclass(frozen=True)
class Contact:
    """A contact as the balls' paths tell it.

    Attributes:
        time: after the record's strike time [s].
        time_stddev: [s].
        kind: what was met.
        ball_id: of the ball, the faster one where two met.
        other_id: of the other ball; -1 at a cushion.
        position: (2,) of the ball's centre, in the table frame [m].
    """

    time: float
    time_stddev: float
    kind: ContactKind
    ball_id: int
    other_id: int
    position: np.ndarray


@dataclass(frozen=True)
class ShotRecord:
    """Everything observed of one shot.

    Attributes:
        shot_id: id of the executed command; empty = motion without a command.
        index: count of records in the session, from 0.
        commanded: what was asked for, None where unknown.
        achieved: what the arm measured, None where nothing was.
        strike_time: camera clock [s]; ``strike_time_stddev`` [s].
        before: balls at rest before the strike.
        after: balls at rest after it (pocketed ones with that visibility).
        tracks: the balls that moved.
        flags: quality flags; empty = clean.
        contacts: between balls and with cushions, in order of time, as far as the paths show them; only in the log,
            messages do not carry them.
    """

    shot_id: str
    index: int
    commanded: Shot | None
    achieved: Stroke | None
    strike_time: float
    before: tuple[BallState, ...]
    after: tuple[BallState, ...]
    tracks: tuple[BallTrack, ...]
    strike_time_stddev: float = 0.0
    flags: tuple[str, ...] = field(default=())
    contacts: tuple[Contact, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the flags that spoil the record."""
        return tuple(flag for flag in self.flags if flag not in ADVISORY_FLAGS)

    @property
    def usable(self) -> bool:
        """True when the record can be fitted: a measured stroke, motion, and no flag that spoils it."""
        return self.achieved is not None and bool(self.tracks) and not self.faults

    def moved_ball_ids(self) -> tuple[int, ...]:
        """Return the ids of the balls that moved, in the order of the tracks."""
        return tuple(track.ball_id for track in self.tracks)
