"""Why a shot is not played, as numbered in ``cue_msgs/action/ExecuteShot``."""

from __future__ import annotations

from enum import IntEnum

from cue_core.errors import CueError


class ErrorCode(IntEnum):
    """Values equal the constants of the action."""

    NONE = 0
    INVALID_SHOT = 1
    NO_BALL = 2
    UNREACHABLE = 3
    COLLISION = 4
    CONTROLLER = 5
    ALREADY_STRUCK = 6
    CANCELED = 7
    STOPPED = 8
    TIME_RESET = 9
    PREEMPTED = 10
    TIMEOUT = 11


class ArmError(CueError):
    """A shot cannot be played, or was not played as asked; ``code`` says why."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        """Keep the code beside the text."""
        self.code = code
        super().__init__(text)


class UnreachableError(ArmError):
    """No joint motion plays the shot; the text names the limit."""

    def __init__(self, text: str) -> None:
        """Say what limits."""
        super().__init__(ErrorCode.UNREACHABLE, text)


class CollisionError(ArmError):
    """The motion would touch something."""

    def __init__(self, first: str, second: str, when: str = "") -> None:
        """Name the pair, and the part of the motion."""
        self.pair = (first, second)
        super().__init__(ErrorCode.COLLISION, f"{first} would touch {second}{f' {when}' if when else ''}")
