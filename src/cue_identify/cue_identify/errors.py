"""What can go wrong in a fit; each has the code of ``cue_msgs/action/IdentifyParameters``."""

from __future__ import annotations

from enum import IntEnum

from cue_core.errors import CueError


class FitCode(IntEnum):
    """Error codes; values equal the constants of ``cue_msgs/action/IdentifyParameters``."""

    NONE = 0
    NO_SHOTS = 1
    UNKNOWN_SHOT = 2
    UNKNOWN_PARAMETER = 3
    NO_INFORMATION = 4
    CANCELED = 5
    TWIN_FAULT = 6
    INVALID_GOAL = 7
    TIME_RESET = 8
    PREEMPTED = 9


class FitError(CueError):
    """A fit that ended without an estimate."""

    def __init__(self, code: FitCode, message: str) -> None:
        """Keep the code beside the message."""
        super().__init__(message)
        self.code = code
