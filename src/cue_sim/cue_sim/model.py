"""From a table's geometry to a MuJoCo model: noses and balls for the physics, cloth, rails and pockets for the eye.

The world frame of the model is the table frame. Names: body and geom ``ball_<id>``, joints ``ball_<id>_x``, ``_y``
(slides) and ``_turn`` (ball joint); geoms ``nose_<cushion>``, ``jaw_<cushion>_start`` and ``_end``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import ball_colour
from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_core.table import TableModel
from cue_sim.geometry import NOSE_RADIUS, contact_tilt, nose_segments
from cue_sim.scenery import add_scenery, dress_ball

CONTACT_MARGIN = 1e-6
"""Gap at which a contact enters the solver [m]: above the kernel's own notion of touching, below anything visible."""


def ball_dimensions(
    table: TableModel,
    ball_ids: Sequence[int],
    radii: Mapping[int, float] | None = None,
    masses: Mapping[int, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n,) radii [m] and (n,) masses [kg] of the balls; those of the table unless given per id.

    Raises:
        FileFormatError: no ball, a ball twice, or a radius that the cushion nose cannot meet.
        OutOfRangeError: a radius or mass out of range.
        UnknownNameError: an id outside 0..15.
    """
    if not ball_ids or len(set(ball_ids)) != len(ball_ids):
        raise FileFormatError("balls", f"needs at least one ball, each once, got {list(ball_ids)}")
    for ball in ball_ids:
        ball_colour(ball)
    radius = np.array([(radii or {}).get(b, table.ball_radius) for b in ball_ids], float)
    mass = np.array([(masses or {}).get(b, table.ball_mass) for b in ball_ids], float)
    for ball, r, m in zip(ball_ids, radius, mass, strict=True):
        finite_in(f"radius of ball {ball}", r, table.nose_height / 1.8, table.nose_height, "m")
        finite_in(f"mass of ball {ball}", m, 0.01, 0.5, "kg")
    return radius, mass


def build_spec(
    table: TableModel,
    ball_ids: Sequence[int],
    *,
    radii: Mapping[int, float] | None = None,
    masses: Mapping[int, float] | None = None,
    visual: bool = True,
    numbered: bool = False,
) -> mujoco.MjSpec:
    """Return the editable model of a table with balls; other bodies may be attached before it is compiled.

    Ball-ball and ball-nose contacts are explicit pairs whose outcome the kernel sets; the balls meet nothing else
    unless further pairs are added (name the geoms ``ball_<id>``).

    Args:
        table: geometry; the world frame of the model is the table frame.
        ball_ids: 0..15, each once.
        radii: of single balls [m]; others have the table's.
        masses: of single balls [kg]; others have the table's.
        visual: add what a table looks like: cloth, spots, cushions, rails, sights, pockets, balls' marks, floor, lamps.
        numbered: with ``visual``, print stripes and numbers on the balls; such a model cannot be written as XML.

    Raises:
        CueError: as :func:`ball_dimensions`.
    """
    radius, mass = ball_dimensions(table, ball_ids, radii, masses)
    spec = mujoco.MjSpec()
    spec.modelname = f"cue {table.name}"
    option = spec.option
    option.timestep = 1e-3
    option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.impratio = 10
    option.iterations = 20
    option.tolerance = 1e-10
    # a reset in the middle of a shot would hide divergence; the kernel looks for it itself
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.memory = 1 << 22
    spec.nuserdata = len(ball_ids)  # the kernel's: how long each ball has been over a drop

    names = add_noses(spec, table)
    balls = []
    for ball, r, m in zip(ball_ids, radius, mass, strict=True):
        balls.append(_add_ball(spec, ball, float(r), float(m)))
    for i, geom in enumerate(balls):
        for other in [*balls[:i], *names]:
            _add_pair(spec, geom, other)
    if visual:
        add_scenery(spec, table)
        for ball, r in zip(ball_ids, radius, strict=True):
            dress_ball(spec, spec.body(f"ball_{ball}"), ball, float(r), numbered)
    return spec


def add_noses(spec: mujoco.MjSpec, table: TableModel, inwards: Sequence[float] = (0.0,) * 6, **look: Any) -> list[str]:
    """Add the capsules of noses and jaws to the world and return their names; contacts are off.

    They are hidden by default (group 3): the scenery shows the rubber. Each cushion stands ``inwards`` [m] of its line;
    ``look`` are further fields of the geoms.
    """
    shift = {c.name: offset * c.normal for c, offset in zip(table.cushions, inwards, strict=False)}
    radius = NOSE_RADIUS * table.ball_radius
    height = table.nose_height + radius * math.sin(contact_tilt(table))
    segments = nose_segments(table)
    for name, (cushion, start, end) in segments.items():
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            size=[radius, 0, 0],
            fromto=[*(start + shift[cushion]), height, *(end + shift[cushion]), height],
            contype=0,
            conaffinity=0,
            group=3,
            **look,
        )
    return list(segments)


def _add_ball(spec: mujoco.MjSpec, ball: int, radius: float, mass: float) -> str:
    name = f"ball_{ball}"
    body = spec.worldbody.add_body(name=name, pos=[0, 0, radius])
    slide, turn = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_BALL
    body.add_joint(name=f"{name}_x", type=slide, axis=[1, 0, 0])
    body.add_joint(name=f"{name}_y", type=slide, axis=[0, 1, 0])
    body.add_joint(name=f"{name}_turn", type=turn)
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[radius, 0, 0],
        mass=mass,
        contype=0,
        conaffinity=0,
        rgba=[*ball_colour(ball)[1], 1],
    )
    return name


def _add_pair(spec: mujoco.MjSpec, first: str, second: str) -> None:
    # The friction only shapes the solver's cone: wide enough that every impulse of the laws lies inside.
    spec.add_pair(
        name=f"{first}-{second}",
        geomname1=first,
        geomname2=second,
        condim=3,
        friction=[1, 1, 0, 0, 0],
        solref=[0.02, 1],
        solimp=[0.9999, 0.9999, 0.001, 0.5, 2],
        margin=CONTACT_MARGIN,
    )
