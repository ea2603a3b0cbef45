"""The stream of images: its rate, and images that were lost, came late or out of order."""

from __future__ import annotations

from collections import deque

import numpy as np

from cue_perception.stamps import Verdict

_WINDOW = 64
_PAUSE = 1.0  # s: a longer gap is a pause
_LATEST = 30  # gaps
_NOTABLE = 0.05  # share of images lost


class FrameWatch:
    """Counts by stamps alone, so that one recording gives one answer on any machine."""

    def __init__(self) -> None:
        """Start without images."""
        self.lost = 0
        self.disordered = 0
        self.jumps = 0
        self._last: int | None = None
        self._gaps: deque[float] = deque(maxlen=_WINDOW)
        self._newest: deque[int] = deque(maxlen=_LATEST)  # lost before each of the newest images

    def note(self, stamp: int, verdict: Verdict) -> None:
        """Take note of an image's stamp [ns] and what became of it."""
        if verdict == Verdict.OUT_OF_ORDER:
            self.disordered += 1
            if self._newest:
                self._newest[-1] += 1
        elif verdict == Verdict.JUMP:
            self.jumps += 1
        elif verdict in (Verdict.NEW, Verdict.RESET):
            if self._last is not None and verdict == Verdict.NEW:
                gap = (stamp - self._last) * 1e-9
                if 0 < gap < _PAUSE:
                    self._count(gap)
            self._last = stamp

    def _count(self, gap: float) -> None:
        period = self.period
        missing = max(round(gap / period) - 1, 0) if period else 0
        self.lost += missing
        self._newest.append(missing)
        self._gaps.append(gap)

    @property
    def period(self) -> float:
        """Return the usual time between images [s]; 0 = not known yet."""
        return float(np.median(self._gaps)) if len(self._gaps) >= 8 else 0.0

    @property
    def rate(self) -> float:
        """Return images per second by their stamps."""
        return 1 / self.period if self.period else 0.0

    @property
    def losing(self) -> float | None:
        """Return the share of the newest images that was lost or unusable, None = hardly any."""
        if len(self._newest) < _LATEST // 2:
            return None
        lost = sum(self._newest)
        share = lost / (lost + len(self._newest))
        return share if share > _NOTABLE and lost >= 2 else None
