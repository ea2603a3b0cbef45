"""The room that the table takes, as one solid: cloth and rails."""

from __future__ import annotations

import numpy as np

from cue_core.table import TableModel

RAIL_ABOVE_NOSE = 1.35
"""A K-66 cushion's top lies about a third of the nose height above the nose."""
_BED_THICKNESS = 0.05  # m
_FAR = 0.2  # m


class KeepOut:
    """Distances from the bed and the four rails; the rails run on over the pockets."""

    def __init__(self, table: TableModel) -> None:
        """Lay out the boxes."""
        x, y, rail = table.length / 2, table.width / 2, table.rail_width
        top = RAIL_ABOVE_NOSE * table.nose_height
        boxes = [
            ((-x - rail, -y - rail, -_BED_THICKNESS), (x + rail, y + rail, 0.0)),
            ((-x - rail, y, -_BED_THICKNESS), (x + rail, y + rail, top)),
            ((-x - rail, -y - rail, -_BED_THICKNESS), (x + rail, -y, top)),
            ((x, -y - rail, -_BED_THICKNESS), (x + rail, y + rail, top)),
            ((-x - rail, -y - rail, -_BED_THICKNESS), (-x, y + rail, top)),
        ]
        self._boxes = [(np.array(low), np.array(high)) for low, high in boxes]
        self._top = top

    def gap(self, points: np.ndarray) -> np.ndarray:
        """Return the distance (...,) [m] of points (..., 3) [m] from the nearest box; within one it is negative.

        Of points far above the rails it is a lower bound.
        """
        height = points[..., 2] - self._top
        gaps = height.copy()
        low = height < _FAR
        gaps[low] = self._exact(points[low])
        return gaps

    def _exact(self, points: np.ndarray) -> np.ndarray:
        """Return the distances (k,) [m] of points (k, 3) [m]."""
        least = np.full(len(points), np.inf)
        for low, high in self._boxes:
            beyond = [np.maximum(low[i] - points[:, i], points[:, i] - high[i]) for i in range(3)]
            deepest = np.maximum(np.maximum(beyond[0], beyond[1]), beyond[2])
            x, y, z = (np.maximum(part, 0.0) for part in beyond)
            least = np.minimum(least, np.where(deepest > 0.0, np.sqrt(x * x + y * y + z * z), deepest))
        return least
