"""The rails as boxes, with gaps where the pockets are."""

from __future__ import annotations

import math

import numpy as np

from cue_core.table import TableModel
from cue_sim.geometry import facing_cut

RAIL_ABOVE_NOSE = 1.35
"""A K-66 cushion's top lies about a third of the nose height above the nose."""
GAP_DEPTH = 0.3
"""How deep a pocket's gap is, in widths of the rail: leather and castings stand in the rest of it."""


def rail_boxes(table: TableModel) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return low and high corners (3,), (3,) [m] of boxes that hold all cushions and rails, by names for people.

    A cushion's box reaches from jaw to jaw, and over what its facings take of the pocket as deep as the gap is.
    """
    half = np.array([table.length, table.width]) / 2
    out, top = half + table.rail_width, RAIL_ABOVE_NOSE * table.nose_height
    back = 0.0 if table.pocketless else GAP_DEPTH * table.rail_width
    boxes = {}
    for axis, name in ((1, "north"), (1, "south"), (0, "east"), (0, "west")):
        sign = 1.0 if name in ("north", "east") else -1.0
        low, high = -out, out.copy()
        low[axis], high[axis] = sorted((sign * (half[axis] + back), sign * out[axis]))
        boxes[f"{name} rail" if table.pocketless else f"{name} outer rail"] = _box(low, high, top)
    if table.pocketless:
        return boxes
    for cushion in table.cushions:
        ends = []
        for tip, other in ((cushion.start, cushion.end), (cushion.end, cushion.start)):
            along = (tip - other) / np.linalg.norm(tip - other)
            ends.append(tip + along * back / math.tan(facing_cut(table, tip)))
        behind = [end - cushion.normal * table.rail_width for end in ends]
        corners = np.stack([*ends, *behind])
        boxes[f"{cushion.name.replace('_', ' ')} rail"] = _box(
            np.maximum(corners.min(axis=0), -out), np.minimum(corners.max(axis=0), out), top
        )
    return boxes


def _box(low: np.ndarray, high: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([*low, 0.0]), np.array([*high, top])
