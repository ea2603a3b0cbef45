"""Places where a cue ball at rest ends a session, or makes the next stroke a poor one.

A ball between the jaws of a pocket cannot be struck at all: behind it is the rail, before it the drop. A ball near a
cushion can, but away from the cushion only with a raised cue, and strokes with a raised cue teach little.
"""

from __future__ import annotations

import numpy as np

from cue_core.table import TableModel

RAIL_MARGIN = 0.03
"""Gap between ball and nose below which a level cue finds hardly any room behind the ball [m]."""
_POINTS = np.random.default_rng(5).standard_normal((8, 2))  # the same for every shot, so that differences are real


def in_mouth(table: TableModel, positions: np.ndarray) -> np.ndarray:
    """Tell which of the (n, 2) ball centres [m] lie in a pocket or its mouth: within one ball radius of the drop."""
    centres = np.array([p.position for p in table.pockets]).reshape(-1, 2)
    radii = np.array([p.radius for p in table.pockets]) + table.ball_radius
    away = np.linalg.norm(positions[:, None] - centres, axis=2)
    return np.any(away < radii, axis=1)


def near_rail(table: TableModel, positions: np.ndarray) -> np.ndarray:
    """Tell which of the (n, 2) ball centres [m] lie nearer than :data:`RAIL_MARGIN` to a cushion."""
    half = np.array([table.length, table.width]) / 2 - table.ball_stop - RAIL_MARGIN
    return np.any(np.abs(positions) > half, axis=1)


def rest_hazards(table: TableModel, rests: np.ndarray, pocketed: np.ndarray, stddev: float) -> tuple[float, float]:
    """Return the probabilities that a ball comes to rest in a pocket's mouth, and near a cushion.

    Args:
        table: that it lies on.
        rests: (m, 2) where it rests in each member of the ensemble [m].
        pocketed: (m,) bool, in which it is gone instead: this is counted elsewhere.
        stddev: of a place at rest beyond the ensemble [m]; what lies beyond the noses then counts as at the cushion.
    """
    if not len(rests):
        return 0.0, 0.0
    half = np.array([table.length, table.width]) / 2 - table.ball_stop
    points = (rests[~pocketed, None] + stddev * _POINTS).reshape(-1, 2)
    lost = in_mouth(table, points)
    railed = near_rail(table, np.clip(points, -half, half)) & ~lost
    count = len(rests) * len(_POINTS)
    return float(np.sum(lost)) / count, float(np.sum(railed)) / count
