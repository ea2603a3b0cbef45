"""Where a recorded ball met the cushions, read off its samples alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cue_core.table import TableModel

_SLACK = 0.006  # [m]: a centre this close to the contact line may be touching, whatever its speed
_FRAMES_DEEP = 0.75  # and so may one that would be there within this share of the time between samples
_RISE = 0.004  # [m]: on both sides of a rebound, a few samples on, the ball is that much further from the cushion
_REACH = 4  # those few samples
_AGAIN = 0.1  # [s] within which a second rebound off the same cushion is the first one, seen twice


class Rebound(NamedTuple):
    """A cushion met: the sample nearest to it, and the cushion's place in ``table.cushions``."""

    sample: int
    cushion: int


def find_rebounds(table: TableModel, times: np.ndarray, positions: np.ndarray) -> list[Rebound]:
    """Return the rebounds of one ball in order of time.

    A rebound is a local minimum of the distance to a cushion's contact line, as deep as the frame rate lets one see.
    The contact line is taken a ball's radius from the nose line, as the recording does.

    Args:
        table: whose cushions.
        times: (n,) of the samples [s].
        positions: (n, 2) [m], table frame.
    """
    found: list[Rebound] = []
    for index, cushion in enumerate(table.cushions):
        gap = (positions - cushion.start) @ cushion.normal - table.ball_radius
        i = 1
        while i < len(gap) - 1:
            if _turns(gap, i) and _deep(gap, times, i):
                found.append(Rebound(i, index))
                i += 2
            i += 1
    found.sort()
    kept: list[Rebound] = []
    for rebound in found:
        if not any(
            rebound.cushion == other.cushion and times[rebound.sample] - times[other.sample] < _AGAIN for other in kept
        ):
            kept.append(rebound)
    return kept


def _turns(gap: np.ndarray, i: int) -> bool:
    before, here, after = gap[i - 1 : i + 2]
    return bool((here <= before and here < after) or (here < before and here <= after))


def _deep(gap: np.ndarray, times: np.ndarray, i: int) -> bool:
    before, after = times[i] - times[i - 1], times[i + 1] - times[i]
    fastest = max((gap[i - 1] - gap[i]) / before, (gap[i + 1] - gap[i]) / after)
    left, right = gap[max(0, i - _REACH)], gap[min(len(gap) - 1, i + _REACH)]
    return bool(gap[i] < _SLACK + _FRAMES_DEEP * fastest * max(before, after) and min(left, right) - gap[i] > _RISE)
