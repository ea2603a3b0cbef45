"""Pictures of a table: a rack, and a shot with the way of every ball. ``python -m cue_sim.pictures FOLDER``.

For people, unlike :mod:`cue_sim.camera`, which is to see what a camera would: more lamps, shadows, no lens.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import mujoco
import numpy as np

from cue_core.balls import ball_colour
from cue_core.errors import CueError
from cue_core.parameters import nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.cue_stick import add_cue
from cue_sim.graphics import make_context
from cue_sim.model import build_spec
from cue_sim.shapes import add_box
from cue_sim.strike import strike
from cue_sim.twin import Start, Trajectory, Twin

WIDTH, HEIGHT = 1280, 720


@dataclass(frozen=True)
class View:
    """Where a picture is taken from.

    Attributes:
        target: (3,) in the middle of the picture [m].
        distance: of the camera from it [m].
        azimuth: direction of view, from x towards y [deg].
        elevation: negative = looking down [deg].
    """

    target: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float

    @classmethod
    def of_table(cls, table: TableModel) -> View:
        """Return a view of the whole table from beside its head end."""
        return cls((0.0, 0.0, -0.03 * table.length), 1.26 * table.length, 62.0, -38.0)


@dataclass(frozen=True)
class Trail:
    """The way of one ball: (n, 2) places [m], sRGB, and the places (m, 2) [m] at which it is shown as a ghost."""

    places: np.ndarray
    colour: tuple[float, float, float]
    ghosts: np.ndarray


def rack(table: TableModel, gap: float = 2e-4) -> np.ndarray:
    """Return the (15, 2) places [m] of balls 1..15 racked on the foot (pink) spot, 8 in the middle, a corner each kind.

    Args:
        table: whose spots and balls count.
        gap: between the balls [m].
    """
    order = (1, 9, 2, 10, 8, 3, 11, 7, 14, 4, 5, 13, 15, 6, 12)
    pitch = 2 * table.ball_radius + gap
    foot = table.spots["pink" if table.markings == "snooker" else "foot"]
    places = np.empty((15, 2))
    for k, ball in enumerate(order):
        row = int((math.sqrt(8 * k + 1) - 1) / 2)
        column = k - row * (row + 1) // 2
        places[ball - 1] = foot + pitch * np.array([row * math.sqrt(3) / 2, column - row / 2])
    return places


def photograph(
    table: TableModel,
    balls: dict[int, np.ndarray],
    view: View,
    *,
    cue: Shot | None = None,
    trails: Iterable[Trail] = (),
    size: tuple[int, int] = (WIDTH, HEIGHT),
    seed: int = 3,
) -> np.ndarray:
    """Return a picture (height, width, 3) RGB of balls at rest on a table.

    Args:
        table: with everything on it.
        balls: id -> (2,) place [m]; how a ball is turned is drawn from ``seed``.
        view: of the camera.
        cue: show a cue that has just addressed ball 0 for this shot.
        trails: drawn just above the cloth.
        size: width and height [px].
        seed: of the balls' orientations.

    Raises:
        NoGraphicsError: there is no OpenGL.
    """
    spec = build_spec(table, tuple(balls), numbered=True)
    _light(spec, table, size)
    if cue is not None:
        add_cue(spec, _tip(table, balls[0], cue), cue.azimuth, max(cue.elevation, math.radians(5)))
    model = spec.compile()
    data = mujoco.MjData(model)
    generator = np.random.default_rng(seed)
    for ball, place in balls.items():
        at = model.joint(f"ball_{ball}_x").qposadr[0]
        turn = generator.standard_normal(4)
        data.qpos[at : at + 2], data.qpos[at + 2 : at + 6] = place, turn / np.linalg.norm(turn)
    mujoco.mj_forward(model, data)
    return _draw(model, data, view, size, lambda scene: _add_trails(scene, table, trails))


def shot_picture(twin: Twin, places: np.ndarray, shot: Shot, view: View, ghosts_every: float = 0.15) -> np.ndarray:
    """Return a picture of a shot: the balls before it, the cue, the predicted ways, and ghosts at equal times.

    Args:
        twin: predicts with its nominal parameters; ball 0 is struck.
        places: (n, 2) before the shot [m], in the twin's ball order.
        shot: to play.
        view: of the camera.
        ghosts_every: [s].

    Raises:
        NoGraphicsError: there is no OpenGL.
    """
    path = predict(twin, places, shot)
    every = max(1, round(ghosts_every / (path.times[1] - path.times[0])))
    trails = []
    for i, ball in enumerate(twin.ball_ids):
        way = path.positions[:, i]
        live = ~path.pocketed[:, i]
        if np.ptp(way[live], axis=0).max() < 0.2 * twin.table.ball_radius:
            continue
        ghosts = way[every::every][live[every::every]]
        ghosts = _thinned(np.concatenate([way[:1], ghosts]), 1.3 * twin.table.ball_radius)[1:]
        trails.append(Trail(way[live], ball_colour(ball)[1], np.concatenate([ghosts, way[live][-1:]])))
    return photograph(twin.table, dict(zip(twin.ball_ids, places, strict=True)), view, cue=shot, trails=trails)


def predict(twin: Twin, places: np.ndarray, shot: Shot, step: float = 0.01) -> Trajectory:
    """Return the way of the balls from (n, 2) places [m] with nominal parameters, sampled every ``step`` [s]."""
    start = Start.at_rest(places)
    i = twin.index(0)
    start.velocities[i], start.spins[i] = strike(nominal_values(), twin.table, shot)
    return twin.simulate(start, None, np.arange(0.0, 8.0, step))


def _tip(table: TableModel, ball: np.ndarray, shot: Shot) -> np.ndarray:
    """Return where (3,) [m] a cue's tip is that is about to hit the ball."""
    forward = np.array([math.cos(shot.azimuth), math.sin(shot.azimuth), 0.0])
    left = np.array([-forward[1], forward[0], 0.0])
    a, b = shot.side_offset, shot.vertical_offset
    reach = math.sqrt(max(1 - a * a - b * b, 0.0)) + 0.25
    centre = np.array([*ball, table.ball_radius])
    return centre + table.ball_radius * (a * left + np.array([0, 0, b]) - reach * forward)


def _light(spec: Any, table: TableModel, size: tuple[int, int]) -> None:
    """Light the room for a photograph and give it a floor and walls."""
    spec.visual.global_.offwidth, spec.visual.global_.offheight = size
    spec.visual.quality.offsamples = 8
    spec.visual.quality.shadowsize = 8192 if size[0] >= 1000 else 1024
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 64, 32
    spec.visual.map.shadowclip, spec.visual.map.shadowscale = 1.0, 0.9
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 30.0
    spec.stat.extent = 1.0
    scale = table.length / 2.0
    for light in spec.lights:
        x = 0.27 * table.length * (1 if light.pos[0] > 0 else -1)
        light.pos, light.castshadow = [x, 0.02, 1.15 * scale], True
        light.ambient, light.diffuse, light.specular = [0.12] * 3, [0.50, 0.49, 0.46], [0.45, 0.45, 0.42]
        light.cutoff, light.exponent = 75, 1.0
    spec.worldbody.add_light(
        name="room",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0, -2, 3],
        dir=[0.25, 0.75, -0.6],
        ambient=[0.16, 0.16, 0.17],
        diffuse=[0.32, 0.32, 0.34],
        specular=[0.1, 0.1, 0.1],
        castshadow=False,
    )
    floor = spec.geom("floor")
    floor.size = [0, 0, 0.1]
    for name, x, y in (("ne", 1, 1), ("nw", -1, 1), ("sw", -1, -1), ("se", 1, -1)):
        out = np.array([x, y]) * (np.array([table.length, table.width]) / 2 + 0.5 * table.rail_width)
        low, high = [*(out - 0.06 * scale), float(floor.pos[2])], [*(out + 0.06 * scale), -0.2]
        add_box(spec, low, high, name=f"leg_{name}", material="apron")
    spec.material("floor").rgba = [0.36, 0.34, 0.33, 1]
    spec.add_texture(
        name="walls",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.30, 0.31, 0.34],
        rgb2=[0.10, 0.10, 0.11],
        width=256,
        height=256,
    )


def _add_trails(scene: Any, table: TableModel, trails: Iterable[Trail]) -> None:
    radius = table.ball_radius
    upright = np.eye(3).ravel()
    for trail in trails:
        colour = np.array([*trail.colour, 1.0], np.float32)
        marks = _thinned(trail.places, 0.3 * radius)
        for start, end in itertools.pairwise(marks):
            if scene.ngeom >= scene.maxgeom:
                return
            geom = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_CAPSULE, np.zeros(3), np.zeros(3), upright, colour)
            low = 0.08 * radius
            mujoco.mjv_connector(
                geom, mujoco.mjtGeom.mjGEOM_CAPSULE, low, np.array([*start, low]), np.array([*end, low])
            )
            geom.emission = 0.25
            scene.ngeom += 1
    for trail in trails:
        ghost = np.array([*trail.colour, 0.28], np.float32)
        for place in trail.ghosts:
            if scene.ngeom >= scene.maxgeom:
                return
            mujoco.mjv_initGeom(
                scene.geoms[scene.ngeom],
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, radius),
                np.array([*place, radius]),
                upright,
                ghost,
            )
            scene.ngeom += 1


def _thinned(places: np.ndarray, apart: float) -> np.ndarray:
    """Return the points (m, 2) of a line (n, 2) that are at least ``apart`` [m] from the last kept one, and its end."""
    kept = [places[0]]
    for place in places[1:]:
        if np.linalg.norm(place - kept[-1]) >= apart:
            kept.append(place)
    return np.array([*kept, places[-1]])


def _draw(model: Any, data: Any, view: View, size: tuple[int, int], decorate: Any) -> np.ndarray:
    width, height = size
    gl = make_context(width, height)
    context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    try:
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
        scene = mujoco.MjvScene(model, maxgeom=6000)
        camera = mujoco.MjvCamera()
        camera.lookat, camera.distance = np.array(view.target), view.distance
        camera.azimuth, camera.elevation = view.azimuth, view.elevation
        option = mujoco.MjvOption()
        mujoco.mjv_updateScene(model, data, option, None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
        decorate(scene)
        area = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(area, scene, context)
        mujoco.mjr_readPixels(picture, None, area, context)
    finally:
        context.free()
        gl.free()
    return picture[::-1]


def save(picture: np.ndarray, path: Path, limit: int = 150_000) -> None:
    """Write an RGB picture (h, w, 3) as JPEG of at most ``limit`` bytes.

    Raises:
        OSError: the folder is not there or not writable.
    """
    for quality in (92, 88, 84, 78, 70, 60, 50):
        code = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
        if len(code) <= limit:
            break
    path.write_bytes(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the pictures of the README and the documentation."""
    parser = argparse.ArgumentParser(prog="python -m cue_sim.pictures", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where to put table.jpg and shot.jpg")
    parser.add_argument("--table", type=Path, default=Path("config/tables/7ft.yaml"), help="preset")
    options = parser.parse_args(arguments)
    try:
        table = TableModel.load(options.table)
        options.folder.mkdir(parents=True, exist_ok=True)
        racked = rack(table)
        cue_ball = np.array([-table.length / 4, 0.08])
        balls = {0: cue_ball, **dict(enumerate(racked, start=1))}
        shot = Shot("break", 6.0, azimuth=math.atan2(*(racked[0] - cue_ball)[::-1]))
        save(photograph(table, balls, View.of_table(table), cue=shot), options.folder / "table.jpg")
        twin = Twin(table, (0, 1, 2, 3, 9, 8))
        places = np.array([[-0.30, -0.12], [0.05, 0.03], [0.30, 0.17], [-0.05, -0.16], [0.33, -0.10], [0.41, 0.02]])
        picture = shot_picture(
            twin, places * table.length, Shot("shot", 2.6, azimuth=-0.392, side_offset=0.3), View.of_table(table)
        )
        save(picture, options.folder / "shot.jpg")
    except CueError as problem:
        sys.stderr.write(f"pictures: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
