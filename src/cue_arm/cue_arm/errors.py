"""Why a shot is not played."""

from __future__ import annotations

from cue_core.arm_codes import ArmCode
from cue_core.errors import CueError


class ArmError(CueError):
    """A shot cannot be played, or was not played as asked; ``code`` says why."""

    def __init__(self, code: ArmCode, text: str) -> None:
        """Keep the code beside the text."""
        self.code = code
        super().__init__(text)


class UnreachableError(ArmError):
    """No joint motion plays the shot; the text names the limit."""

    def __init__(self, text: str) -> None:
        """Say what limits."""
        super().__init__(ArmCode.UNREACHABLE, text)


class CollisionError(ArmError):
    """The motion would touch something."""

    def __init__(self, first: str, second: str, when: str = "") -> None:
        """Name the pair, and the part of the motion."""
        self.pair, self.when = (first, second), when
        super().__init__(ArmCode.COLLISION, f"{first} would touch {second}{f' {when}' if when else ''}")
