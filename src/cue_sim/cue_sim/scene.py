"""What the simulated camera looks at: a pool table, balls, the robot and lamps; nothing here has dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import ball_colour
from cue_core.table import Cushion, TableModel
from cue_sim.lens import CameraConfig, Pinhole
from cue_sim.robot import RobotConfig, add_robot

CAMERA = "lens"
"""Name of the camera in the model."""
MOVING = 1
"""Geom group of everything that moves."""

_FLOOR = -0.85  # m: the bed of a pool table is about that high
_BLACK, _IVORY = (0.02, 0.02, 0.02, 1), (0.93, 0.92, 0.88, 1)


def ball_body(ball_id: int) -> str:
    """Return the name of a ball's body, which is also that of its free joint."""
    return f"ball_{ball_id}"


def shadow_body(ball_id: int) -> str:
    """Return the name of the mocap body that carries a ball's shadow."""
    return f"shadow_{ball_id}"


def build_scene(
    table: TableModel, ball_ids: Sequence[int], robot: RobotConfig, camera: CameraConfig, ideal: Pinhole
) -> Any:
    """Return the compiled ``mujoco.MjModel`` of everything the camera sees, in the table frame.

    Balls hang on free joints named :func:`ball_body`, the camera is called :data:`CAMERA`.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "scene"
    spec.compiler.degree = False
    _quality(spec, ideal)
    _materials(spec, table)
    _lamps(spec, table)
    _table(spec, table)
    for ball_id in ball_ids:
        _ball(spec, table, ball_id)
    add_robot(spec, robot, table)
    for body in spec.bodies:
        for geom in body.geoms:
            if body.name != "world":
                geom.group = MOVING
    pose = camera.table_from_camera
    quaternion = np.zeros(4)
    # MuJoCo's cameras look along -z with y up; optical frames along z with y down.
    mujoco.mju_mat2Quat(quaternion, (pose[:3, :3] * np.array([1.0, -1.0, -1.0])).ravel())
    spec.worldbody.add_camera(
        name=CAMERA, pos=pose[:3, 3], quat=quaternion, fovy=float(np.degrees(ideal.vertical_view))
    )
    return spec.compile()


def _quality(spec: Any, ideal: Pinhole) -> None:
    spec.visual.quality.offsamples = 4
    spec.visual.quality.shadowsize = 1024
    spec.visual.global_.offwidth = ideal.width
    spec.visual.global_.offheight = ideal.height
    spec.visual.map.znear = 0.05
    spec.visual.map.zfar = 20.0
    spec.visual.map.shadowclip = 1.2
    spec.stat.extent = 1.0
    spec.stat.center = [0.0, 0.0, 0.0]
    for name in ("ambient", "diffuse", "specular"):
        setattr(spec.visual.headlight, name, [0.0, 0.0, 0.0])
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 20, 12


def _materials(spec: Any, table: TableModel) -> None:
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
        ("hole", _BLACK[:3], 0.0, 0.0),
        ("sight", _IVORY[:3], 0.2, 0.3),
        ("floor", (0.16, 0.15, 0.15), 0.0, 0.0),
    ):
        spec.add_material(name=name, rgba=[*colour, 1.0], specular=specular, shininess=shininess)


def _lamps(spec: Any, table: TableModel) -> None:
    """Two lamps in a row above the table, as over a real one, and the room's light."""
    for x, shadow in ((-0.28 * table.length, True), (0.28 * table.length, False)):
        spec.worldbody.add_light(
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


def _slab(spec: Any, material: str, low: Sequence[float], high: Sequence[float]) -> None:
    low_, high_ = np.array(low), np.array(high)
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=(low_ + high_) / 2,
        size=(high_ - low_) / 2,
        material=material,
        contype=0,
        conaffinity=0,
    )


def _table(spec: Any, table: TableModel) -> None:
    x, y = table.length / 2, table.width / 2
    depth = cushion_depth(table)
    out_x, out_y = x + table.rail_width, y + table.rail_width
    rail_top = table.nose_height + 0.15 * table.ball_radius
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[0, 0, _FLOOR],
        size=[4, 4, 0.1],
        material="floor",
        contype=0,
        conaffinity=0,
    )
    _slab(spec, "cloth", [-x - depth, -y - depth, -0.03], [x + depth, y + depth, 0.0])
    _slab(spec, "apron", [-out_x, -out_y, -0.20], [out_x, out_y, -0.004])
    for cushion in table.cushions:
        _cushion(spec, table, cushion, depth, rail_top)
    # Rails of wood between the pockets.
    corner, side = table.corner_mouth / np.sqrt(2), table.drop_radius
    for s in (-1.0, 1.0):
        for a, b in ((-x + corner, -side), (side, x - corner)):
            ends = sorted((s * (y + depth), s * out_y))
            _slab(spec, "wood", [a, ends[0], -0.1], [b, ends[1], rail_top])
        ends = sorted((s * (x + depth), s * out_x))
        _slab(spec, "wood", [ends[0], -y + corner, -0.1], [ends[1], y - corner, rail_top])
    for pocket in table.pockets:
        _pocket(spec, table, pocket.position, pocket.radius, rail_top)
    _sights(spec, table, depth, rail_top)


def cushion_depth(table: TableModel) -> float:
    """Return the width [m] of a cushion's cloth-covered top, from the nose to the wood."""
    return 0.45 * table.rail_width


def _cushion(spec: Any, table: TableModel, cushion: Cushion, depth: float, rail_top: float) -> None:
    """One cushion: a bar whose nose overhangs, its ends cut obliquely towards the pockets."""
    along = (cushion.end - cushion.start) / np.linalg.norm(cushion.end - cushion.start)
    outwards = -cushion.normal
    corners = []
    for point, sign in ((cushion.start, -1.0), (cushion.end, 1.0)):
        at_side = abs(point[0]) < table.side_mouth
        back = point + depth * outwards + sign * (0.15 if at_side else 0.6) * depth * along
        corners.append((point, back))
    vertices = []
    for nose, back in corners:
        vertices += [
            (*nose, table.nose_height),
            (*back, rail_top),
            (*back, 0.0),
            (*(nose + 0.35 * depth * outwards), 0.0),
        ]
    mesh = spec.add_mesh(name=f"cushion_{cushion.name}", uservert=np.array(vertices, float).ravel())
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name, material="cushion", contype=0, conaffinity=0
    )
    # The dark line under the nose, which the overhang shades whatever the lamps do.
    bottom = table.nose_height - 0.006
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CAPSULE,
        fromto=[*(cushion.start + 0.003 * outwards), bottom, *(cushion.end + 0.003 * outwards), bottom],
        size=[0.003, 0, 0],
        material="nose",
        contype=0,
        conaffinity=0,
    )


def _pocket(spec: Any, table: TableModel, position: np.ndarray, radius: float, rail_top: float) -> None:
    place = [float(position[0]), float(position[1])]
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        pos=[*place, -0.0195],
        size=[radius, 0.02, 0],
        material="hole",
        contype=0,
        conaffinity=0,
    )
    # Leather behind the drop, up to the rail's height: a ring of short posts on the side away from the table.
    middle = np.array(place)
    outwards = np.arctan2(middle[1], 0.0 if abs(middle[0]) < 1e-6 else middle[0] * (table.width / table.length))
    span = np.pi / 2 if abs(place[0]) < 1e-6 else 0.62 * np.pi
    outwards = outwards if abs(place[0]) < 1e-6 else np.arctan2(np.sign(place[1]), np.sign(place[0]))
    for angle in np.linspace(outwards - span / 1.3, outwards + span / 1.3, 15):
        post = middle + 1.12 * radius * np.array([np.cos(angle), np.sin(angle)])
        inside = (
            abs(post[0]) < table.length / 2 + 0.2 * table.rail_width
            and abs(post[1]) < table.width / 2 + 0.2 * table.rail_width
        )
        if inside:
            continue
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=[float(post[0]), float(post[1]), rail_top / 2],
            size=[0.17 * radius, rail_top / 2, 0],
            material="hole",
            contype=0,
            conaffinity=0,
        )


def _sights(spec: Any, table: TableModel, depth: float, rail_top: float) -> None:
    x, y = table.length / 2, table.width / 2
    middle = depth + 0.5 * (table.rail_width - depth)
    places = [(sx * x * k / 4, sy * (y + middle)) for sx in (-1, 1) for sy in (-1, 1) for k in (1, 2, 3)]
    places += [(sx * (x + middle), y * k / 2) for sx in (-1, 1) for k in (-1, 0, 1)]
    for place in places:
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=[*place, rail_top],
            size=[0.004, 0.0004, 0],
            material="sight",
            contype=0,
            conaffinity=0,
        )


def _ball(spec: Any, table: TableModel, ball_id: int) -> None:
    radius = table.ball_radius
    _, colour = ball_colour(ball_id)
    body = spec.worldbody.add_body(name=ball_body(ball_id), pos=[0, 0, radius])
    body.add_freejoint(name=ball_body(ball_id))
    material = f"ball_{ball_id}"
    spec.add_material(name=material, rgba=[*colour, 1.0], specular=0.5, shininess=0.85)
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], material=material, contype=0, conaffinity=0)
    _shadow(spec, radius, ball_id)
    if ball_id == 0:
        return
    for sign in (-1.0, 1.0):
        if ball_id > 8:  # a stripe: white caps on both sides of the colour
            place, size, name = 0.13 * radius, [0.89 * radius, 0, 0], "caps"
        else:  # the white spot that carries the number
            place, size, name = 0.70 * radius, [0.32 * radius, 0, 0], "spot"
        if spec.material(name) is None:
            spec.add_material(name=name, rgba=list(_IVORY), specular=0.5, shininess=0.85)
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            pos=[0, 0, sign * place],
            size=size,
            material=name,
            contype=0,
            conaffinity=0,
        )


def _shadow(spec: Any, radius: float, ball_id: int) -> None:
    """The soft shadow under a ball, as two wide lamps cast it."""
    body = spec.worldbody.add_body(name=shadow_body(ball_id), mocap=True)
    for k, size in enumerate((1.35, 1.15, 0.95, 0.75)):
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            pos=[0, 0, 0.0002 * (k + 1)],
            size=[size * radius, 0.0001, 0],
            rgba=[0.0, 0.0, 0.0, 0.12],
            contype=0,
            conaffinity=0,
        )
