"""Order of the images: what to do with stamps that repeat, go back, or jump away and return."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

_JUMP = 1.0  # s forward: more than a few lost frames
_STREAK = 5  # images in a row that make a jump real
_REMEMBERED = 8  # a world or camera sends the newest images again, never old ones


class Verdict(Enum):
    """What an image's stamp says."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out_of_order"
    JUMP = "jump"
    RESET = "reset"


class StampGuard:
    """Judges stamps [ns] one by one, so that time only ever runs forward behind it.

    A jump, forward by more than a second or back, is believed after five images that continue it; until then they are
    dropped.
    """

    def __init__(self) -> None:
        """Start without a past."""
        self.last: int | None = None
        self.counts = {verdict: 0 for verdict in Verdict}
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._elsewhere: list[int] = []

    def judge(self, stamp: int, waits: bool = False) -> Verdict:
        """Judge the next stamp; ``waits``: the clock may stand still and step, so that a jump forward is usual."""
        verdict = self._verdict(stamp, waits)
        self.counts[verdict] += 1
        if verdict in (Verdict.NEW, Verdict.RESET):
            self.last = stamp
            self._elsewhere = []
            if verdict == Verdict.RESET:
                self._recent.clear()
            self._recent[stamp] = None
            while len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
        return verdict

    def _verdict(self, stamp: int, waits: bool) -> Verdict:
        if self.last is None:
            return Verdict.NEW
        if stamp in self._recent:
            return Verdict.DUPLICATE
        forward = stamp > self.last
        if forward and (waits or stamp - self.last <= _JUMP * 1e9):
            return Verdict.NEW
        previous = self._elsewhere[-1] if self._elsewhere else None
        if previous is not None and 0 < stamp - previous <= _JUMP * 1e9:
            self._elsewhere.append(stamp)
        else:
            self._elsewhere = [stamp]
        if len(self._elsewhere) >= _STREAK:
            return Verdict.NEW if forward else Verdict.RESET
        return Verdict.JUMP if forward else Verdict.OUT_OF_ORDER
