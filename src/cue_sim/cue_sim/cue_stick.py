"""A cue, for pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from cue_sim.ball_marks import IVORY
from cue_sim.shapes import add_mesh


def add_cue(spec: Any, tip: np.ndarray, azimuth: float, elevation: float = 0.0, length: float = 1.47) -> None:
    """Add a cue to a ``mujoco.MjSpec``, for pictures: it touches nothing.

    Args:
        spec: whose world frame is the table frame.
        tip: (3,) where the tip's end is [m].
        azimuth: of the stroke, from the butt to the tip [rad].
        elevation: of the butt above the tip [rad].
        length: [m]; 58 inches are usual.
    """
    back = np.array([-np.cos(azimuth) * np.cos(elevation), -np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
    side = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)[:, None]
    around = np.cos(angles) * side + np.sin(angles) * np.cross(back, side)
    # from the tip backwards: leather, ferrule, maple, wrap, butt; share of the length and radius [m] where each ends
    parts = (
        ("cue_tip", (0.10, 0.22, 0.42), 0.005, 0.0062),
        ("cue_ferrule", IVORY, 0.017, 0.0064),
        ("cue_shaft", (0.78, 0.62, 0.40), 0.55, 0.0105),
        ("cue_wrap", (0.06, 0.06, 0.07), 0.80, 0.0130),
        ("cue_butt", (0.30, 0.09, 0.05), 1.0, 0.0148),
    )
    start, slim = 0.0, 0.0055
    for name, colour, end, thick in parts:
        middles = [tip + share * length * back for share in (start, end)]
        vertices = np.concatenate([middles[0] + slim * around, middles[1] + thick * around, middles])
        count, faces = len(angles), []
        for k in range(count):
            after = (k + 1) % count
            faces += [(k, after, k + count), (after, after + count, k + count)]
            faces += [(after, k, 2 * count), (k + count, after + count, 2 * count + 1)]
        spec.add_material(name=name, rgba=[*colour, 1.0], specular=0.3, shininess=0.5)
        add_mesh(spec, name, vertices, np.array(faces), name)
        start, slim = end, thick
