"""The arm's reach, asked in a way that a cancelled session need not wait for: a choice asks it hundreds of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cue_agent.reach import Reach
from cue_core.shots import Shot


class WatchedReach:
    """A :class:`cue_agent.reach.Reach` that first asks whether the session should go on."""

    def __init__(self, reach: Reach, check: Callable[[], None]) -> None:
        """Pass questions on to ``reach`` after ``check``, which raises when the session is over."""
        self._reach, self._check = reach, check

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float,
        balls: Mapping[int, np.ndarray],
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """See :class:`cue_agent.reach.Reach`."""
        self._check()
        return self._reach.reachable(cue_ball, azimuth, speed, balls, elevation)

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Shot:
        """See :class:`cue_agent.reach.Reach`."""
        self._check()
        return self._reach.raised(shot, cue_ball, balls)

    def __getattr__(self, name: str) -> Any:
        """Pass on whatever else a reach can be asked."""
        return getattr(self._reach, name)
