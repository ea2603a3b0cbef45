"""Balls that overlap, or stand inside a cushion, at the start: set apart by the smallest moves."""

from __future__ import annotations

import logging

import numpy as np

from cue_sim.kernel import Layout

_log = logging.getLogger(__name__)
_GAP = 1e-9
_SWEEPS = 200


def separate(layout: Layout, positions: np.ndarray, in_play: np.ndarray) -> np.ndarray:
    """Return (n, 2) positions [m] without overlap; a pair shares its move equally, a cushion does not give way.

    Measured positions overlap by their noise; MuJoCo's own contacts would throw such balls apart.

    Args:
        layout: of the model.
        positions: (n, 2) ball centres [m], table frame.
        in_play: (n,) bool; others are left alone.
    """
    out = np.array(positions, float)
    live = np.flatnonzero(in_play)
    first, second = (live[k] for k in np.triu_indices(len(live), 1))
    reach = layout.radius[first] + layout.radius[second]
    for _ in range(_SWEEPS):
        moved = False
        delta = out[second] - out[first]
        gap = np.hypot(delta[:, 0], delta[:, 1]) - reach
        for k in np.flatnonzero(gap < -_GAP):
            i, j = first[k], second[k]
            apart = out[j] - out[i]
            distance = float(np.hypot(*apart))
            if distance >= reach[k]:
                continue
            direction = apart / distance if distance > 1e-12 else np.array([1.0, 0.0])
            push = 0.5 * (reach[k] + 0.1 * _GAP - distance) * direction
            out[i] -= push
            out[j] += push
            moved = True
        if _out_of_cushions(layout, out, live):
            moved = True
        if not moved:
            break
    shift = np.hypot(*(out - positions).T)
    for i in np.flatnonzero(shift > 0):
        _log.info("ball %d moved by %.3f mm out of an overlap", layout.ball_ids[i], 1e3 * shift[i])
    return out


def _out_of_cushions(layout: Layout, out: np.ndarray, live: np.ndarray) -> bool:
    moved = False
    start, end = layout.segments[:, :2], layout.segments[:, 2:]
    line = end - start
    length2 = np.sum(line**2, axis=1)
    for i in live:
        # behind a nose line and not in a mouth: the way back is across the line, not along the capsule's own side
        for cushion in layout.table.cushions:
            along = cushion.end - cushion.start
            where = float((out[i] - cushion.start) @ along) / float(along @ along)
            depth = layout.stop(i) - float((out[i] - cushion.start) @ cushion.normal)
            if 0 <= where <= 1 and depth > _GAP:
                out[i] += depth * cushion.normal
                moved = True
        t = np.clip(np.sum((out[i] - start) * line, axis=1) / length2, 0, 1)
        away = out[i] - (start + t[:, None] * line)
        distance = np.hypot(away[:, 0], away[:, 1])
        depth = layout.reach[:, i] - distance
        k = int(np.argmax(depth))
        if depth[k] > _GAP and distance[k] > 1e-12:
            out[i] += away[k] / distance[k] * (depth[k] + 0.1 * _GAP)
            moved = True
    return moved
