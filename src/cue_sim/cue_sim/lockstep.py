"""When the simulated world may run on to its next camera frame.

One seed must give one session whatever the machine's load, so a decision at frame k rests on the truth at frame k and
on the acknowledgement of frame k-1 alone, never on "the newest". The clock stands still while nothing is wanted:
someone may then think for minutes, and a goal that comes meanwhile begins at that very frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cue_core.checks import finite_in


class Decision(Enum):
    """What the world does at a frame boundary."""

    ADVANCE = "advance"
    WAIT_FOR_ACKNOWLEDGEMENT = "wait for the tracker"
    WAIT_FOR_ARM = "wait for the arm to report its stroke"
    WAIT_IDLE = "wait until something is wanted"


@dataclass(frozen=True)
class LockstepConfig:
    """Rules of the lockstep.

    Attributes:
        idle_frames: run on this many frames after the last that was wanted [frames].
        goal_patience: a trajectory goal that comes while the world runs begins after at most this many frames [frames].
        repeat_after: re-publish a frame that is not acknowledged after this long [s, wall clock].
        arm_patience: wait at most this long for the arm's report after a trajectory [s, wall clock].
    """

    idle_frames: int = 3
    goal_patience: int = 15
    repeat_after: float = 2.0
    arm_patience: float = 10.0

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the field.
        """
        finite_in("idle_frames", self.idle_frames, 1, 1000, "frames")
        finite_in("goal_patience", self.goal_patience, 0, 1000, "frames")
        finite_in("repeat_after", self.repeat_after, 0.05, 60.0, "s")
        finite_in("arm_patience", self.arm_patience, 0.0, 600.0, "s")


class Lockstep:
    """The rule of one world; ``frame`` is the newest published one."""

    def __init__(self, config: LockstepConfig, frame: int = 0) -> None:
        """Begin at a frame, which must itself be acknowledged before the first advance."""
        self._config = config
        self._first = frame
        self.frame = frame
        self._last_wanted = frame
        self._settled: dict[int, bool] = {}

    def acknowledge(self, frame: int, settled: bool) -> None:
        """Take the tracker's word on a frame; the first word counts, repeats and unknown frames change nothing."""
        if self.frame - 2 <= frame <= self.frame:
            self._settled.setdefault(frame, settled)

    def calibration_lost(self, frame: int) -> None:
        """Take it that the tracker, for which ``frame`` had been enough, has to look for the table anew.

        A word on a frame that the clock has left behind, or that was no promise to want no more, changes nothing.
        """
        if frame == self.frame and self._settled.get(frame, False):
            self._last_wanted = self.frame

    @property
    def decisive_frame(self) -> int:
        """Return the frame whose acknowledgement decides: the one before the newest (pipeline depth 2)."""
        return max(self.frame - 1, self._first)

    @property
    def unacknowledged(self) -> tuple[int, ...]:
        """Return the published frames that may have to be sent again, oldest first."""
        return tuple(f for f in range(self.decisive_frame, self.frame + 1) if f not in self._settled)

    def decide(self, active: bool, moving: bool, reporting: bool = False) -> Decision:
        """Tell what to do at the newest frame.

        Args:
            active: a trajectory is being followed.
            moving: a ball moves at the newest frame.
            reporting: a trajectory has ended and the arm has yet to say how the stroke went.
        """
        if self.decisive_frame not in self._settled:
            return Decision.WAIT_FOR_ACKNOWLEDGEMENT
        if reporting:
            return Decision.WAIT_FOR_ARM
        if active or moving or not self._settled[self.decisive_frame]:
            self._last_wanted = self.frame
        if self.frame - self._last_wanted >= self._config.idle_frames:
            return Decision.WAIT_IDLE
        return Decision.ADVANCE

    def begin_goal(self, waited_frames: int, active: bool, moving: bool) -> bool:
        """Tell whether a trajectory goal that has waited for some frames begins at this one.

        It begins when the clock stands (so that the frame does not depend on how fast its sender was), at once when it
        replaces a trajectory in progress, and after ``goal_patience`` frames in any case.
        """
        if active or waited_frames >= self._config.goal_patience:
            return True
        return self.decide(active, moving) is Decision.WAIT_IDLE

    def advanced(self) -> None:
        """Note that the world has run to the next frame."""
        self.frame += 1
        for old in [f for f in self._settled if f < self.frame - 1]:
            del self._settled[old]
