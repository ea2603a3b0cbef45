"""What a table looks like, to the simulated camera and in the models: nothing here takes part in the physics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import ball_colour
from cue_core.table import Cushion, Pocket, TableModel
from cue_sim.geometry import add_box, is_side_jaw

_FLOOR = -0.85  # m: the bed of a pool table is about that high
_BLACK, _IVORY = (0.02, 0.02, 0.02), (0.93, 0.92, 0.88)


def add_scenery(spec: Any, table: TableModel) -> None:
    """Add a table's visible parts, floor and lamps to a ``mujoco.MjSpec`` whose world frame is the table frame."""
    _add_materials(spec, table)
    _add_lamps(spec, table)
    x, y = table.length / 2, table.width / 2
    depth = _cushion_depth(table)
    out_x, out_y = x + table.rail_width, y + table.rail_width
    top = _rail_top(table)
    _add_part(spec, mujoco.mjtGeom.mjGEOM_PLANE, "floor", name="floor", pos=[0, 0, _FLOOR], size=[4, 4, 0.1])
    add_box(spec, [-x - depth, -y - depth, -0.03], [x + depth, y + depth, 0.0], name="bed", material="cloth")
    add_box(spec, [-out_x, -out_y, -0.20], [out_x, out_y, -0.004], name="apron", material="apron")
    for cushion in table.cushions:
        _add_cushion(spec, table, cushion)
    # Rails of wood between the pockets; without pockets the long ones run to the frame's corners.
    corner, side = table.corner_mouth / np.sqrt(2), table.drop_radius
    end = out_x if table.pocketless else x - corner
    for s, north, east in ((-1.0, "south", "west"), (1.0, "north", "east")):
        low, high = sorted((s * (y + depth), s * out_y))
        for a, b, half in ((-end, -side, "west"), (side, end, "east")):
            add_box(spec, [a, low, -0.1], [b, high, top], name=f"rail_{north}_{half}", material="wood")
        low, high = sorted((s * (x + depth), s * out_x))
        end_y = y + depth if table.pocketless else y - corner
        add_box(spec, [low, -end_y, -0.1], [high, end_y, top], name=f"rail_{east}", material="wood")
    for pocket in table.pockets:
        _add_pocket(spec, table, pocket)
    _add_sights(spec, table)


def dress_ball(spec: Any, body: Any, ball_id: int, radius: float) -> None:
    """Give a ball's body, whose first geom is the sphere, its colour and its marks; a cue ball has none of these."""
    material = f"ball_{ball_id}"
    _add_gloss(spec, material, ball_colour(ball_id)[1])
    body.geoms[0].material = material
    if ball_id == 0:
        return
    for sign in (-1.0, 1.0):
        if ball_id > 8:  # a stripe: white caps on both sides of the colour
            place, size, name = 0.13 * radius, [0.89 * radius, 0, 0], "caps"
        else:  # the white spot that carries the number
            place, size, name = 0.70 * radius, [0.32 * radius, 0, 0], "spot"
        if spec.material(name) is None:
            _add_gloss(spec, name, _IVORY)
        _add_part(spec, mujoco.mjtGeom.mjGEOM_SPHERE, name, body=body, pos=[0, 0, sign * place], size=size)


def _add_gloss(spec: Any, name: str, colour: Sequence[float]) -> None:
    spec.add_material(name=name, rgba=[*colour, 1.0], specular=0.5, shininess=0.85)


def _add_materials(spec: Any, table: TableModel) -> None:
    cloth = np.array(table.cloth_colour)
    spec.add_texture(
        name="weave",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        mark=mujoco.mjtMark.mjMARK_RANDOM,
        rgb1=cloth,
        markrgb=np.minimum(1.06 * cloth + 0.01, 1.0),
        random=0.3,
        width=256,
        height=256,
    )
    weave = spec.add_material(
        name="cloth", specular=0.0, shininess=0.0, reflectance=0.0, texrepeat=[6, 6], texuniform=True
    )
    weave.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "weave"
    for name, colour, specular, shininess in (
        # The sloping top of a cushion sends less of the lamp's light up than the bed does.
        ("cushion", 0.78 * cloth, 0.0, 0.0),
        ("nose", 0.45 * cloth, 0.0, 0.0),
        ("wood", (0.30, 0.16, 0.08), 0.25, 0.4),
        ("apron", (0.20, 0.10, 0.05), 0.1, 0.2),
        ("hole", _BLACK, 0.0, 0.0),
        ("sight", _IVORY, 0.2, 0.3),
        ("floor", (0.16, 0.15, 0.15), 0.0, 0.0),
    ):
        spec.add_material(name=name, rgba=[*colour, 1.0], specular=specular, shininess=shininess)


def _add_lamps(spec: Any, table: TableModel) -> None:
    """Two lamps in a row above the table, as over a real one, and the room's light; the viewer carries none."""
    for name in ("ambient", "diffuse", "specular"):
        setattr(spec.visual.headlight, name, [0.0, 0.0, 0.0])
    for name, x, shadow in (("west", -0.28 * table.length, True), ("east", 0.28 * table.length, False)):
        spec.worldbody.add_light(
            name=f"lamp_{name}",
            pos=[x, 0.05, 1.5],
            dir=[0, 0, -1],
            type=mujoco.mjtLightType.mjLIGHT_SPOT,
            cutoff=80,
            exponent=1,
            ambient=[0.21, 0.21, 0.21],
            diffuse=[0.35, 0.34, 0.33],
            specular=[0.35, 0.35, 0.34],
            castshadow=shadow,
        )


def _add_part(spec: Any, kind: mujoco.mjtGeom, material: str, body: Any = None, **shape: Any) -> None:
    """Add one geom that touches nothing and weighs nothing, to the world unless a body is given."""
    body = spec.worldbody if body is None else body
    body.add_geom(type=kind, material=material, contype=0, conaffinity=0, mass=0, **shape)


def _rail_top(table: TableModel) -> float:
    """Return the height [m] of the wood above the cloth."""
    return table.nose_height + 0.15 * table.ball_radius


def _cushion_depth(table: TableModel) -> float:
    """Return the width [m] of a cushion's cloth-covered top, from the nose to the wood."""
    return 0.45 * table.rail_width


def _add_cushion(spec: Any, table: TableModel, cushion: Cushion) -> None:
    """One cushion: a bar whose nose overhangs, its ends cut obliquely towards the pockets."""
    depth, top = _cushion_depth(table), _rail_top(table)
    along = (cushion.end - cushion.start) / np.linalg.norm(cushion.end - cushion.start)
    outwards = -cushion.normal
    vertices: list[tuple[float, ...]] = []
    for nose, sign in ((cushion.start, -1.0), (cushion.end, 1.0)):
        slant = 1.0 if table.pocketless else 0.15 if is_side_jaw(table, nose) else 0.6  # mitred, or cut for a pocket
        back = nose + depth * outwards + sign * slant * depth * along
        vertices += [
            (*nose, table.nose_height),
            (*back, top),
            (*back, 0.0),
            (*(nose + 0.35 * depth * outwards), 0.0),
        ]
    name = f"cushion_{cushion.name}"
    spec.add_mesh(name=name, uservert=np.array(vertices, float).ravel())
    _add_part(spec, mujoco.mjtGeom.mjGEOM_MESH, "cushion", name=name, meshname=name)
    # The dark line under the nose, which the overhang shades whatever the lamps do.
    bottom = table.nose_height - 0.006
    line = [*(cushion.start + 0.003 * outwards), bottom, *(cushion.end + 0.003 * outwards), bottom]
    _add_part(
        spec, mujoco.mjtGeom.mjGEOM_CAPSULE, "nose", name=f"shade_{cushion.name}", fromto=line, size=[0.003, 0, 0]
    )


def _add_pocket(spec: Any, table: TableModel, pocket: Pocket) -> None:
    x, y = (float(v) for v in pocket.position)
    cylinder, radius = mujoco.mjtGeom.mjGEOM_CYLINDER, pocket.radius
    _add_part(spec, cylinder, "hole", name=f"pocket_{pocket.name}", pos=[x, y, -0.0195], size=[radius, 0.02, 0])
    # Leather behind the drop, up to the rail's height: a ring of short posts on the side away from the table.
    at_side = abs(x) < 1e-6
    outwards = np.arctan2(np.sign(y), 0.0 if at_side else np.sign(x))
    span = (np.pi / 2 if at_side else 0.62 * np.pi) / 1.3
    height, half = _rail_top(table) / 2, np.array([table.length, table.width]) / 2 + 0.2 * table.rail_width
    for angle in np.linspace(outwards - span, outwards + span, 15):
        post = pocket.position + 1.12 * radius * np.array([np.cos(angle), np.sin(angle)])
        if np.any(np.abs(post) >= half):
            _add_part(spec, cylinder, "hole", pos=[*post, height], size=[0.17 * radius, height, 0])


def _add_sights(spec: Any, table: TableModel) -> None:
    x, y = table.length / 2, table.width / 2
    depth = _cushion_depth(table)
    middle = depth + 0.5 * (table.rail_width - depth)
    places = [(sx * x * k / 4, sy * (y + middle)) for sx in (-1, 1) for sy in (-1, 1) for k in (1, 2, 3)]
    places += [(sx * (x + middle), y * k / 2) for sx in (-1, 1) for k in (-1, 0, 1)]
    for place in places:
        _add_part(
            spec,
            mujoco.mjtGeom.mjGEOM_CYLINDER,
            "sight",
            pos=[*place, _rail_top(table)],
            size=[0.004, 0.0004, 0],
        )
