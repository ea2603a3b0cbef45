"""What tells a table from another rectangle of one colour: cushions along its sides, and holes in the long ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cue_perception.free_lens import View
from cue_perception.noses import sample

_BEYOND = (0.008, 0.013, 0.018)  # of the table's width, outside the noses: on top of even the narrowest cushion
_CUSHION = 0.6  # share of a side's length that must show cloth there
_HOLE = 0.5  # share of a side pocket that must show something else
_ALONG = np.concatenate([np.linspace(-0.8, -0.2, 30), np.linspace(0.2, 0.8, 30)])
_REACH, _DEEP = 0.025, 0.03  # of the table's width: radius of a side pocket, how far its middle lies outside the noses


@dataclass(frozen=True)
class TableSigns:
    """What was seen of a table.

    Attributes:
        cushions: sides, of four, along which cloth goes on beyond the nose.
        pockets: side pockets, of two, that interrupt it.
    """

    cushions: int
    pockets: int

    @property
    def enough(self) -> bool:
        """Whether it is a table: carom tables have no pockets, and people hide a cushion or two."""
        return self.cushions >= 3 or (self.cushions == 2 and self.pockets > 0)

    @property
    def doubt(self) -> str:
        """Return what a person should look at; empty where all is plain."""
        if self.cushions < 3:
            return f"only {self.cushions} cushions show the cloth's colour: the table may be another rectangle"
        if not self.pockets:
            return "no side pocket is seen: a carom table, or no table"
        return ""


def table_signs(lab: np.ndarray, view: View, colour: np.ndarray) -> TableSigns:
    """Look beyond the noses.

    Args:
        lab: (h, w, 3) CIE Lab float32.
        view: of the table in it.
        colour: (3,) of the cloth, CIE Lab.
    """
    table, camera = view.table, view.camera
    half = np.array([table.length / 2, table.width / 2])
    spread = 8.0 + 0.35 * float(np.hypot(colour[1], colour[2]))

    def cloth(points: np.ndarray) -> float:
        seen = sample(lab, camera.project(points))
        near = np.hypot(seen[..., 1] - colour[1], seen[..., 2] - colour[2]) < spread
        return float((near & (seen[..., 0] > 0.3 * colour[0]) & (seen[..., 0] < 1.7 * colour[0] + 15)).mean())

    cushions = 0
    for axis, sign in ((1, 1), (0, 1), (1, -1), (0, -1)):
        shares = []
        for beyond in _BEYOND:
            points = np.full((len(_ALONG), 3), table.nose_height)
            points[:, 1 - axis] = _ALONG * half[1 - axis]
            points[:, axis] = sign * (half[axis] + beyond * table.width)
            shares.append(cloth(points))
        cushions += min(shares) > _CUSHION
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    disc = np.concatenate([np.column_stack([np.cos(angle), np.sin(angle)]) * r for r in (0.25, 0.6, 0.95)])
    pockets = 0
    for sign in (1, -1):
        middle = np.array([0.0, sign * (half[1] + _DEEP * table.width)])
        places = middle + _REACH * table.width * disc
        pockets += 1 - cloth(np.column_stack([places, np.zeros(len(places))])) > _HOLE
    return TableSigns(int(cushions), int(pockets))
