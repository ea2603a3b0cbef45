"""Places where a cue ball at rest ends a session, or makes the next stroke a poor one.

A ball between the jaws of a pocket cannot be struck at all: behind it is the rail, before it the drop. A ball near a
cushion can, but away from the cushion only with a raised cue, and strokes with a raised cue teach little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cue_agent.peers import CUE_BALL, Prediction
from cue_core.table import TableModel

RAIL_MARGIN = 0.03
"""Gap between ball and nose below which a level cue finds hardly any room behind the ball [m]."""
_POINTS = np.random.default_rng(5).standard_normal((128, 2))  # the same for every shot, so that differences are real


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


def rest_hazards(table: TableModel, outcomes: Sequence[Prediction], stddev: float) -> tuple[float, float]:
    """Return the probabilities that the cue ball comes to rest in a pocket's mouth, and near a cushion.

    Each outcome in which the cue ball stays on the table is spread out by its ensemble's covariance and ``stddev`` [m].
    A part of the spread beyond the noses counts as at the cushion.
    """
    mouth = rail = 0.0
    for outcome in outcomes:
        if CUE_BALL not in outcome.ball_ids:
            continue
        n = outcome.ball_ids.index(CUE_BALL)
        stays = 1.0 - float(np.clip(outcome.pocket_probability[n], 0.0, 1.0))
        spread = outcome.rest_covariance[n] + stddev**2 * np.eye(2)
        half = np.array([table.length, table.width]) / 2 - table.ball_stop
        # A ball that is about to be pocketed in half of the ensemble spreads from the table into the pocket: the part
        # in the pocket is in ``pocket_probability`` already.
        points = outcome.rest[n] + _POINTS @ np.linalg.cholesky(spread).T
        lost = in_mouth(table, points)
        mouth += stays * float(np.mean(lost))
        rail += stays * float(np.mean(near_rail(table, np.clip(points, -half, half)) & ~lost))
    count = max(len(outcomes), 1)
    return mouth / count, rail / count
