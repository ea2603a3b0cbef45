"""How a stroke ended: the numbers that the arm answers with and the agent reads."""

from __future__ import annotations

from enum import IntEnum


class ArmCode(IntEnum):
    """Values equal the constants of ``cue_msgs/action/ExecuteShot``."""

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
    ENVELOPE = 12
    PROTECTIVE_STOP = 13
    TOLERANCE = 14

    @classmethod
    def _missing_(cls, value: object) -> ArmCode:
        """Take a code of a newer arm for a failure without contact."""
        return cls.CONTROLLER
