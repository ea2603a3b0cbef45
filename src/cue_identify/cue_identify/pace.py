"""How fast a fit goes."""

from __future__ import annotations

from collections import deque

_WINDOW = 3.0  # [s]


class Pace:
    """Simulated shots per second over the last seconds, since stages differ in what a shot costs."""

    def __init__(self) -> None:
        """Begin without a measurement."""
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, evaluations: int) -> float:
        """Take the count of simulated shots at the time ``now`` [s]; return the rate [1/s], 0 when not known yet."""
        if self._seen and evaluations < self._seen[-1][1]:  # another fit
            self._seen.clear()
        self._seen.append((now, evaluations))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW:
            self._seen.popleft()
        first, last = self._seen[0], self._seen[-1]
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else 0.0
