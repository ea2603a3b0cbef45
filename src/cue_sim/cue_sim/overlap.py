"""Balls that overlap, or stand inside a cushion, at the start: set apart by the smallest moves."""

from __future__ import annotations

import logging

import numpy as np

from cue_sim.kernel import Layout, library

_log = logging.getLogger(__name__)


def separate(layout: Layout, positions: np.ndarray, in_play: np.ndarray) -> np.ndarray:
    """Return (n, 2) positions [m] without overlap; a pair shares its move equally, a cushion does not give way.

    Measured positions overlap by their noise; MuJoCo's own contacts would throw such balls apart. Moves are logged.

    Args:
        layout: of the model.
        positions: (n, 2) ball centres [m], table frame.
        in_play: (n,) bool; others are left alone.
    """
    out = np.array(positions, float, order="C")
    playing = np.ascontiguousarray(in_play, np.int32)
    if library().cue_separate(layout.address, out.ctypes.data, playing.ctypes.data):
        log_moves(layout, np.asarray(positions), out)
    return out


def log_moves(layout: Layout, before: np.ndarray, after: np.ndarray) -> None:
    """Log which balls were set apart, and how far: (n, 2) positions [m] before and after."""
    shift = np.hypot(*(after - before).T)
    for i in np.flatnonzero(shift > 0):
        _log.info("ball %d moved by %.3f mm out of an overlap", layout.ball_ids[i], 1e3 * shift[i])
