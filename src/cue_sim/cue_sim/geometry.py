"""Geometry shared by the models, the reference and the scenery: noses, jaws and drops in the plane."""

from __future__ import annotations

import math

import numpy as np

from cue_core.table import TableModel

NOSE_RADIUS = 0.3
"""Of the rubber's edge, in ball radii; it also rounds the jaws."""
# Turn of a jaw's facing away from the nose line (WPA equipment specifications: 142 and 104 degree cut angles).
_CORNER_CUT = math.radians(180 - 142)
_SIDE_CUT = math.radians(180 - 104)


def contact_tilt(table: TableModel) -> float:
    """Return the angle [rad] above the horizontal at which the nose meets the ball: sin = (h - R) / R."""
    return math.asin((table.nose_height - table.ball_radius) / table.ball_radius)


def nose_segments(table: TableModel) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
    """Return the axes of the nose capsules: geom name -> (cushion name, (2,) start, (2,) end) [m].

    The axis runs behind the nose line by the capsule's radius, so that a ball of the table's radius meets it just at
    ``table.ball_stop`` from the line. Jaws are rounded: the capsules of nose and facing share their end. Without
    pockets there are noses alone, which meet in the corners.
    """
    behind = NOSE_RADIUS * table.ball_radius * math.cos(contact_tilt(table))
    segments: dict[str, tuple[str, np.ndarray, np.ndarray]] = {}
    for cushion in table.cushions:
        along = (cushion.end - cushion.start) / np.linalg.norm(cushion.end - cushion.start)
        out = -cushion.normal
        if table.pocketless:
            first, last = cushion.start + behind * (out - along), cushion.end + behind * (out + along)
            segments[f"nose_{cushion.name}"] = (cushion.name, first, last)
            continue
        ends, tails = [], []
        for tip, inward in ((cushion.start, along), (cushion.end, -along)):
            side, cut = is_side_jaw(table, tip), facing_cut(table, tip)
            shelf, depth = (table.side_shelf, table.side_mouth) if side else (table.corner_shelf, table.corner_mouth)
            end = tip + behind * (out + math.tan(cut / 2) * inward)
            facing = -math.cos(cut) * inward + math.sin(cut) * out
            ends.append(end)
            tails.append(end + facing * (max(shelf, 0.0) + depth))
        segments[f"nose_{cushion.name}"] = (cushion.name, ends[0], ends[1])
        segments[f"jaw_{cushion.name}_start"] = (cushion.name, ends[0], tails[0])
        segments[f"jaw_{cushion.name}_end"] = (cushion.name, ends[1], tails[1])
    return segments


def is_side_jaw(table: TableModel, tip: np.ndarray) -> bool:
    """Tell whether the end (2,) [m] of a nose line lies at a side pocket."""
    return abs(tip[0]) < table.length / 4 and abs(abs(tip[1]) - table.width / 2) < 1e-9


def facing_cut(table: TableModel, tip: np.ndarray) -> float:
    """Return the angle [rad] by which the facing at the end (2,) [m] of a nose line turns away from the line.

    Without pockets the cushions are mitred.
    """
    if table.pocketless:
        return math.pi / 4
    return _SIDE_CUT if is_side_jaw(table, tip) else _CORNER_CUT


def longest_visit(speed: float, radius: float, gravity: float = 9.81) -> float:
    """Return how long [s] a ball may be over a drop and still get out at this speed [m/s] (``native/pocket.c``).

    After t it lies g t^2 / 2 deep and leans against the edge by beta, cos(beta) = 1 - depth / radius. The blow on the
    edge leaves it ``speed`` cos(beta) - g t sin(beta), and it needs g t to climb out.
    """
    fast = speed / math.sqrt(2 * gravity * radius)
    low, high = 0.0, 1.0  # in units of a fall by one radius
    for _ in range(40):
        t = 0.5 * (low + high)
        low, high = (t, high) if fast * (1 - t * t) >= t * (1 + t * math.sqrt(2 - t * t)) else (low, t)
    return low * math.sqrt(2 * radius / gravity)


def climb_out(speed: float, time: float, radius: float, gravity: float = 9.81) -> tuple[float, float] | None:
    """Return speed [m/s] and height of the hop [m] of a ball that gets out of a drop; None = it falls back.

    Args:
        speed: straight at the drop's edge [m/s].
        time: for which it has been over the drop [s].
        radius: [m].
        gravity: [m/s^2].
    """
    depth = gravity * time**2 / 2
    cosine = 1 - depth / radius
    sine = math.sqrt(max(0.0, 1 - cosine**2))
    left = speed * cosine - gravity * time * sine
    if cosine <= 0 or left < gravity * time:
        return None
    hop = max(0.0, (left * sine) ** 2 / (2 * gravity) - depth)
    return math.sqrt(max(0.0, left**2 - 2 * gravity * (depth + hop))), hop


def cushion_index(table: TableModel) -> dict[str, int]:
    """Return the index of each cushion by name, in the order of ``table.cushions``."""
    return {cushion.name: i for i, cushion in enumerate(table.cushions)}
