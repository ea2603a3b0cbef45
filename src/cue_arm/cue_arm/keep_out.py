"""The room that the table takes, as one solid: cloth and rails."""

from __future__ import annotations

import numpy as np

from cue_arm.rails import RAIL_ABOVE_NOSE, rail_boxes
from cue_core.table import TableModel

_BED_THICKNESS = 0.05  # m
_FAR = 0.2  # m


class KeepOut:
    """Distances from the bed and the rails, which leave gaps at the pockets."""

    def __init__(self, table: TableModel) -> None:
        """Lay out the boxes."""
        out = np.array([table.length, table.width]) / 2 + table.rail_width
        bed = np.array([*-out, -_BED_THICKNESS]), np.array([*out, 0.0])
        self._boxes = [bed, *rail_boxes(table).values()]
        self._top = RAIL_ABOVE_NOSE * table.nose_height

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
