"""What a table looks like: cloth, rubber, wooden rails, dark pockets. Nothing here takes part in the physics."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from cue_core.table import TableModel
from cue_sim.geometry import CORNER_CUT, SIDE_CUT, is_side_jaw

WOOD = (0.36, 0.20, 0.10, 1.0)
DARK_WOOD = (0.24, 0.13, 0.07, 1.0)
POCKET = (0.02, 0.02, 0.02, 1.0)
FLOOR = (0.42, 0.41, 0.40, 1.0)
TABLE_HEIGHT = 0.80
"""Of the bed above the floor [m]."""


def add_scenery(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add the visible parts of a table, a floor and a lamp to a model whose world frame is the table frame."""
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.35, 0.35, 0.35]
    spec.visual.headlight.specular = [0.1, 0.1, 0.1]
    spec.visual.quality.shadowsize = 4096
    lamp = spec.worldbody.add_light(name="lamp", pos=[0, 0, 1.6], dir=[0, 0, -1])
    lamp.diffuse = [0.55, 0.55, 0.55]
    lamp.specular = [0.25, 0.25, 0.25]
    _material(spec, "cloth", (*table.cloth_colour, 1.0), specular=0.0)
    _material(spec, "rubber", (*(0.8 * c for c in table.cloth_colour), 1.0), specular=0.0)
    _material(spec, "wood", WOOD, specular=0.4)
    _material(spec, "dark_wood", DARK_WOOD, specular=0.4)
    _material(spec, "pocket", POCKET, specular=0.0)
    _material(spec, "floor", FLOOR, specular=0.0)

    half = np.array([table.length / 2, table.width / 2])
    outer = half + table.rail_width
    bed = 0.03
    _box(
        spec,
        "bed",
        [0, 0, -bed / 2],
        [half[0] + 0.3 * table.rail_width, half[1] + 0.3 * table.rail_width, bed / 2],
        "cloth",
    )
    _box(spec, "apron", [0, 0, -0.07], [outer[0] - 0.005, outer[1] - 0.005, 0.04], "dark_wood")
    _box(spec, "floor", [0, 0, -TABLE_HEIGHT - 0.01], [4, 4, 0.01], "floor")
    _cushions(spec, table)
    _frame(spec, table)
    for pocket in table.pockets:
        # a flat dark disc a hair above the cloth reads as a hole from any camera above the table
        _geom(
            spec,
            f"pocket_{pocket.name}",
            mujoco.mjtGeom.mjGEOM_CYLINDER,
            [*pocket.position, 0.0003],
            [pocket.radius, 0.0003, 0],
            "pocket",
        )
    for ball in spec.worldbody.bodies:
        for geom in ball.geoms:
            if geom.type == mujoco.mjtGeom.mjGEOM_SPHERE and geom.name.startswith("ball_"):
                name = f"{geom.name}_gloss"
                _material(spec, name, tuple(geom.rgba), specular=0.6, shininess=0.7)
                geom.material = name


def _material(spec: mujoco.MjSpec, name: str, rgba: tuple[float, ...], specular: float, shininess: float = 0.3) -> None:
    spec.add_material(name=name, rgba=list(rgba), specular=specular, shininess=shininess, reflectance=0.0)


def _geom(
    spec: mujoco.MjSpec, name: str, kind: mujoco.mjtGeom, pos: list[float], size: list[float], material: str
) -> mujoco.MjsGeom:
    return spec.worldbody.add_geom(
        name=name, type=kind, pos=pos, size=size, material=material, contype=0, conaffinity=0, mass=0
    )


def _box(spec: mujoco.MjSpec, name: str, pos: list[float], half_size: list[float], material: str) -> mujoco.MjsGeom:
    return _geom(spec, name, mujoco.mjtGeom.mjGEOM_BOX, pos, half_size, material)


def rail_top(table: TableModel) -> float:
    """Return the height of the wooden rails above the cloth [m]."""
    return table.nose_height * 1.12


def cushion_depth(table: TableModel) -> float:
    """Return how far the rubber reaches back from the nose to the wood [m]."""
    return min(0.5 * table.rail_width, 1.8 * table.ball_radius)


def _cushions(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add six rubber wedges: the nose overhangs the bed, the jaws are cut as far as the wood."""
    back, top = cushion_depth(table), rail_top(table)
    for cushion in table.cushions:
        along = (cushion.end - cushion.start) / np.linalg.norm(cushion.end - cushion.start)
        out = -cushion.normal
        rims = []
        for tip, inward in ((cushion.start, along), (cushion.end, -along)):
            cut = SIDE_CUT if is_side_jaw(table, tip) else CORNER_CUT
            rims.append((tip, tip + back * (out - inward / math.tan(cut))))
        points = []
        for tip, rear in rims:
            # the rubber undercuts from the nose towards the bed
            foot = tip + 0.45 * back * out
            points += [
                [*tip, table.nose_height],
                [*(tip + 0.0015 * out), table.nose_height + 0.001],
                [*foot, 0.0],
                [*rear, 0.0],
                [*rear, top],
            ]
        mesh = spec.add_mesh(name=f"rubber_{cushion.name}", uservert=np.array(points).ravel().tolist())
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        geom = spec.worldbody.add_geom(
            name=f"rubber_{cushion.name}", type=mujoco.mjtGeom.mjGEOM_MESH, material="rubber", contype=0, conaffinity=0
        )
        geom.meshname = mesh.name
        geom.mass = 0
        _rail(spec, table, cushion.name, along, out, rims[0][1], rims[1][1])


def _rail(
    spec: mujoco.MjSpec,
    table: TableModel,
    name: str,
    along: np.ndarray,
    out: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Add the wood behind one cushion, between its two pockets."""
    depth = table.rail_width - cushion_depth(table)
    centre = (first + second) / 2 + out * depth / 2
    length = float(np.linalg.norm(second - first)) / 2
    height = rail_top(table)
    half = [abs(along[0]) * length + abs(out[0]) * depth / 2, abs(along[1]) * length + abs(out[1]) * depth / 2]
    _box(spec, f"rail_{name}", [*centre, height / 2 - 0.02], [*half, height / 2 + 0.02], "wood")


def _frame(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add the outer frame, which closes the rail behind the pockets."""
    outer_x, outer_y = table.length / 2 + table.rail_width, table.width / 2 + table.rail_width
    thick, height = 0.16 * table.rail_width, rail_top(table)
    for name, centre, half in (
        ("east", (outer_x - thick / 2, 0), (thick / 2, outer_y)),
        ("west", (-outer_x + thick / 2, 0), (thick / 2, outer_y)),
        ("north", (0, outer_y - thick / 2), (outer_x, thick / 2)),
        ("south", (0, -outer_y + thick / 2), (outer_x, thick / 2)),
    ):
        _box(spec, f"frame_{name}", [*centre, height / 2 - 0.03], [*half, height / 2 + 0.0305], "dark_wood")
