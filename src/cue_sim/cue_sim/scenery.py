"""What a table looks like, to the simulated camera and in the models: nothing here takes part in the physics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import ball_colour
from cue_core.table import Cushion, Pocket, TableModel
from cue_sim.ball_marks import DISC, IVORY, STRIPE, add_ball_texture
from cue_sim.geometry import facing_cut
from cue_sim.shapes import add_box, add_mesh

_FLOOR = -0.85  # m: the bed of a pool table is about that high
_BLACK = (0.02, 0.02, 0.02)
_LINER = 1.12  # radius of a pocket's liner above the cloth, in drop radii


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
    skirt = 0.006  # set back, so that no face of it lies in one of the rails'
    add_box(
        spec,
        [skirt - out_x, skirt - out_y, -0.20],
        [out_x - skirt, out_y - skirt, -0.004],
        name="apron",
        material="apron",
    )
    for cushion in table.cushions:
        _add_cushion(spec, table, cushion)
    # Rails of wood between the pockets; without pockets the long ones run to the frame's corners.
    corner, side = _rail_gap(table)
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
    for name, (spot_x, spot_y) in table.spots.items():
        place = [spot_x, spot_y, 0.0001]
        _add_part(
            spec,
            mujoco.mjtGeom.mjGEOM_CYLINDER,
            "nose",
            name=f"spot_{name}",
            pos=place,
            size=[0.12 * table.ball_radius, 0.0001, 0],
        )


def dress_ball(spec: Any, body: Any, ball_id: int, radius: float, numbered: bool = False) -> None:
    """Give a ball's body, whose first geom is the sphere, its colour and its marks; a cue ball has none of these.

    Args:
        spec: ``mujoco.MjSpec`` that holds the body.
        body: of the ball.
        ball_id: 0..15.
        radius: [m].
        numbered: print stripe and number on the ball as a texture. A model with such balls cannot be written as XML;
            without, white caps or discs tell a striped ball from a solid one.
    """
    material = f"ball_{ball_id}"
    body.geoms[0].material = material
    if numbered and ball_id:
        body.geoms[0].rgba = [0.5, 0.5, 0.5, 1.0]  # MuJoCo's default, which leaves the colour to the material
        _add_gloss(spec, material, (1.0, 1.0, 1.0))
        add_ball_texture(spec, material, ball_id)
        spec.material(material).textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = material
        return
    _add_gloss(spec, material, ball_colour(ball_id)[1])
    if ball_id == 0:
        return
    # A white sphere that stands out of the ball by a hair beyond this height, in radii.
    name, height, shift = ("caps", STRIPE, 0.03) if ball_id > 8 else ("spot", float(np.cos(DISC)), 0.3)
    size = np.sqrt(1 + shift**2 - 2 * shift * height)
    if spec.material(name) is None:
        _add_gloss(spec, name, IVORY)
    for sign in (-1.0, 1.0):
        place = [0, 0, sign * shift * radius]
        _add_part(spec, mujoco.mjtGeom.mjGEOM_SPHERE, name, body=body, pos=place, size=[size * radius, 0, 0])


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
        ("casting", (0.06, 0.045, 0.04), 0.3, 0.4),
        ("sight", IVORY, 0.2, 0.3),
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
    return min(0.45 * table.rail_width, 1.72 * table.ball_radius)  # WPA: 1 7/8 to 2 inch on pool tables


def _add_cushion(spec: Any, table: TableModel, cushion: Cushion) -> None:
    """One cushion: a bar whose nose overhangs, its ends cut obliquely towards the pockets."""
    depth, top = _cushion_depth(table), _rail_top(table)
    along = (cushion.end - cushion.start) / np.linalg.norm(cushion.end - cushion.start)
    outwards = -cushion.normal
    vertices: list[tuple[float, ...]] = []
    for nose, sign in ((cushion.start, -1.0), (cushion.end, 1.0)):
        # cut like the facing that a ball meets
        back = nose + depth * (outwards + sign * along / math.tan(facing_cut(table, nose)))
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
    """The drop, a dark disc on the cloth that ends with the frame, and the casting around it."""
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    rim = pocket.position + pocket.radius * np.column_stack([np.cos(angles), np.sin(angles)])
    frame = np.array([table.length, table.width]) / 2 + table.rail_width - 0.002
    rim = np.clip(rim, -frame, frame)
    vertices = np.column_stack([np.vstack([rim, pocket.position, pocket.position]), np.full(len(rim) + 2, 0.0005)])
    vertices[-1, 2] = -0.03
    hub, bottom = len(rim), len(rim) + 1
    faces = []
    for k in range(len(rim)):
        after = (k + 1) % len(rim)
        faces += [(k, after, hub), (after, k, bottom)]
    add_mesh(spec, f"pocket_{pocket.name}", vertices, np.array(faces), "hole")
    _add_casting(spec, table, pocket)


def _add_casting(spec: Any, table: TableModel, pocket: Pocket) -> None:
    """The piece between two rails that holds a pocket: flat on top, round and dark inside down to the drop."""
    sign = np.sign(pocket.position)
    half = np.array([table.length, table.width]) / 2
    depth, out = _cushion_depth(table), half + table.rail_width
    if sign[0] == 0:
        gap = _rail_gap(table)[1]
        inner = sign[1] * (half[1] + depth)
        outline = np.array([[-gap, inner], [-gap, sign[1] * out[1]], [gap, sign[1] * out[1]], [gap, inner]])
    else:
        end, behind = half - _rail_gap(table)[0], half + depth
        corners = [(end[0], behind[1]), (end[0], out[1]), tuple(out), (out[0], end[1]), (behind[0], end[1])]
        outline = sign * np.array(corners)
    hub = pocket.position
    rays, edge = _fan(hub, outline)
    room = 0.95 * np.linalg.norm(edge - hub, axis=1).min()
    rim = hub + min(_LINER * pocket.radius, room) * rays
    top, skirt = _rail_top(table), -0.1
    drop = hub + min(pocket.radius, room) * rays
    rings = [(drop, 0.0), (rim, 0.0), (rim, top), (edge, top), (edge, skirt)]
    vertices = np.concatenate([np.column_stack([ring, np.full(len(ring), z)]) for ring, z in rings])
    count = len(rays)
    faces = []
    for low in range(len(rings) - 1):
        for k in range(count - 1):
            a, b = low * count + k, low * count + k + 1
            c, d = a + count, b + count
            faces += [(a, b, c), (b, d, c), (a, c, b), (b, c, d)]  # both sides: none is ever seen through
    add_mesh(spec, f"casting_{pocket.name}", vertices, np.array(faces), "casting")


def _fan(hub: np.ndarray, outline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return unit rays (n, 2) from the hub (2,) and where they meet an open line (m, 2) that runs around it."""
    rays, edge = [], []
    for start, end in itertools.pairwise(outline):
        for share in np.linspace(0.0, 1.0, 9):
            point = start + share * (end - start)
            edge.append(point)
            rays.append((point - hub) / np.linalg.norm(point - hub))
    return np.array(rays), np.array(edge)


def _rail_gap(table: TableModel) -> tuple[float, float]:
    """Return how far [m] rails end from a corner, and from the middle of a side pocket."""
    return table.corner_mouth / np.sqrt(2), max(table.drop_radius, 0.5 * table.side_mouth)


def _add_sights(spec: Any, table: TableModel) -> None:
    x, y = table.length / 2, table.width / 2
    depth = _cushion_depth(table)
    middle = min(depth + 0.5 * (table.rail_width - depth), 3.28 * table.ball_radius)  # WPA: 3 11/16 inch from the nose
    places = [(x * k / 4, sy * (y + middle)) for sy in (-1, 1) for k in range(-3, 4) if k or table.pocketless]
    places += [(sx * (x + middle), y * k / 2) for sx in (-1, 1) for k in (-1, 0, 1)]
    for place in places:
        _add_part(
            spec,
            mujoco.mjtGeom.mjGEOM_CYLINDER,
            "sight",
            pos=[*place, _rail_top(table)],
            size=[0.21 * table.ball_radius, 0.0004, 0],
        )
