"""How late the camera's stamps are against the arm's clock, from the strikes that both have seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_KEPT = 40
_LEAST = 0.010  # s: below, the arm's own contact time is as good as the camera's
_TRUST = 4.0  # standard errors
_TELL = 0.02  # s: worth a word


class ClockOffset:
    """A constant offset of one session: time in the camera's stamps minus time in the arm's.

    Each strike that was seen in full view and felt by the arm gives one difference. Their median stands for the
    session: a single strike that was seen badly does not move it.
    """

    def __init__(self, strikes: Sequence[tuple[float, float]] = ()) -> None:
        """Go on from earlier strikes (difference, standard deviation) [s]."""
        self.strikes: list[tuple[float, float]] = [(float(d), float(s)) for d, s in strikes][-_KEPT:]

    def add(self, seen: float, spread: float, contact: float) -> None:
        """Take a strike: when the camera saw it, how well, and the arm's contact time [s]."""
        self.strikes.append((seen - contact, max(spread, 1e-3)))
        del self.strikes[:-_KEPT]

    @property
    def estimate(self) -> tuple[float, float] | None:
        """Return the offset and its standard error [s]; None = fewer than two strikes."""
        if len(self.strikes) < 2:
            return None
        difference = np.array([d for d, _ in self.strikes])
        spread = np.array([s for _, s in self.strikes])
        middle = float(np.median(difference))
        scatter = 1.4826 * float(np.median(np.abs(difference - middle)))
        error = 1.25 * max(scatter, float(np.median(spread))) / np.sqrt(len(difference))
        return middle, float(error)

    @property
    def applied(self) -> float:
        """Return what is added to the arm's times to have them in the camera's [s]; 0 = no offset is sure."""
        found = self.estimate
        if found is None or abs(found[0]) < max(_TRUST * found[1], _LEAST):
            return 0.0
        return found[0]

    @property
    def notable(self) -> float | None:
        """Return the offset if a person should know of it [s]."""
        return self.applied if abs(self.applied) > _TELL else None
