"""Errors of the environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cue_core.errors import CueError


class ActionError(CueError):
    """An action that is not in the action space."""

    def __init__(self, given: object, names: Sequence[str], low: np.ndarray, high: np.ndarray) -> None:
        """Say what was given, and what each component may be."""
        allowed = ", ".join(f"{name} {a:g} to {b:g}" for name, a, b in zip(names, low, high, strict=True))
        super().__init__(f"action is {given!r}; allowed are ({len(names)},) finite numbers: {allowed}")


class EpisodeError(CueError):
    """A step outside an episode."""
