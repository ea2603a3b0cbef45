"""Shapes that are added to a ``mujoco.MjSpec`` by their corners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np


def add_box(spec: Any, low: Sequence[float], high: Sequence[float], *, name: str, material: str = "") -> None:
    """Add a box between two opposite corners (3,) [m] to the world of a ``mujoco.MjSpec``; contacts are off."""
    low_, high_ = np.array(low), np.array(high)
    spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=(low_ + high_) / 2,
        size=(high_ - low_) / 2,
        material=material,
        contype=0,
        conaffinity=0,
    )


def add_mesh(spec: Any, name: str, vertices: np.ndarray, faces: np.ndarray, material: str) -> None:
    """Add a surface of (n, 3) vertices [m] and (m, 3) faces, anticlockwise from outside, to the world; no contacts."""
    spec.add_mesh(
        name=name,
        uservert=np.asarray(vertices, float).ravel(),
        userface=np.asarray(faces, int).ravel(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )
    spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_MESH,
        meshname=name,
        material=material,
        contype=0,
        conaffinity=0,
        mass=0,
    )
