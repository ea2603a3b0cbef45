"""Random tables, lamps, cameras and shots for the tracker to look at: all drawn from a seed, truth known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim.kernel import Event, EventKind
from cue_sim.lens import CameraConfig
from cue_sim.robot import RobotConfig
from cue_sim.twin import Start, Twin
from cue_sim.world_config import WorldConfig

ROOT = Path(__file__).resolve().parents[2]
FPS = 60.0
STILL, REST = 45, 24
"""Images of balls at rest before the first shot, and after it."""
_SLOW, _FAST = 195, 150
"""Images of the first, gentle shot at most, and of the second, which the end of the sequence cuts."""
_TABLES = ("small", "7ft", "8ft")
# sRGB of cloths as sold: tournament blue, electric blue, two greens, burgundy, red, camel, purple, grey, olive.
_CLOTHS = (
    (0.10, 0.35, 0.62),
    (0.05, 0.45, 0.75),
    (0.05, 0.38, 0.22),
    (0.12, 0.48, 0.20),
    (0.45, 0.08, 0.14),
    (0.62, 0.12, 0.12),
    (0.60, 0.46, 0.28),
    (0.34, 0.16, 0.48),
    (0.42, 0.43, 0.45),
    (0.40, 0.42, 0.16),
)
_DELTA = 2e-4  # s: velocities of the truth are differences over so long
_MARGIN = 14.0  # px between the frame of the table and the edge of the picture
_DRAWS = 60  # shots tried for one that ends in time


@dataclass(frozen=True)
class Lamps:
    """How a scene is lit, relative to the scene's own two lamps.

    Attributes:
        shift: (2, 3) of their places [m].
        diffuse: (2, 3) factors.
        ambient: factor.
    """

    shift: np.ndarray
    diffuse: np.ndarray
    ambient: float

    def light(self, model: Any) -> None:
        """Light a scene (``mujoco.MjModel``) so, take the arm away, and make balls rounder than the viewer needs."""
        count = min(model.nlight, 2)
        model.light_pos[:count] += self.shift[:count]
        model.light_diffuse[:count] *= self.diffuse[:count]
        model.light_ambient[:count] *= self.ambient
        for i in range(model.ngeom):
            if model.geom(i).name.startswith("robot/"):
                model.geom_group[i] = 5  # not drawn
        model.vis.quality.numslices, model.vis.quality.numstacks = 48, 32


@dataclass(frozen=True)
class Truth:
    """What really happened, image by image; n balls in the order of ``ids``.

    Attributes:
        ids: (n,).
        time: (f,) of the images [s].
        position: (f, n, 2) [m].
        velocity: (f, n, 2) [m/s].
        in_play: (f, n).
        strikes: (s,) times [s] ...
        struck: (s,) ... and ids of the balls struck.
        contacts: (c, 4) time [s], kind (1 = two balls, 2 = cushion, 3 = pocket), id, id of the other ball or -1.
        change: (c,) change of velocity at a contact, the largest of both balls [m/s].
    """

    ids: np.ndarray
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    in_play: np.ndarray
    strikes: np.ndarray
    struck: np.ndarray
    contacts: np.ndarray
    change: np.ndarray


@dataclass(frozen=True)
class Scene:
    """A world to render and the balls' way through it.

    Attributes:
        world: table, camera, balls; its camera has no noise.
        lamps: of the scene.
        noise: of the sensor, one sigma [8-bit levels].
        truth: of the balls.
    """

    world: WorldConfig
    lamps: Lamps
    noise: float
    truth: Truth


def draw_scene(seed: int, index: int, width: int = 1280, height: int = 720, frames: int = 0) -> Scene:
    """Return world ``index`` of a seed.

    Args:
        seed: of everything.
        index: of the world; the number of balls grows from 6 to 16 over ten of them, every other holds a cluster.
        width: of the pictures [px].
        height: of the pictures [px].
        frames: cut the sequence after so many images; 0 = not.
    """
    rng = np.random.default_rng([seed, 0x747261636B, index])
    table = TableModel.load(ROOT / "config" / "tables" / f"{_TABLES[index % len(_TABLES)]}.yaml")
    colour = np.clip(np.array(_CLOTHS[index % len(_CLOTHS)]) * rng.uniform(0.8, 1.2) + rng.normal(0, 0.02, 3), 0.02, 1)
    table = replace(table, cloth_colour=(float(colour[0]), float(colour[1]), float(colour[2])))
    count = 6 + round((index % 10) * 10 / 9)
    ids = (0, *sorted(int(i) for i in rng.choice(np.arange(1, 16), count - 1, replace=False)))
    positions = _lay(rng, table, count, cluster=index % 2 == 1)
    parameters = nominal_values()
    parameters[list(PARAMETERS).index("rolling_friction")] = rng.uniform(0.009, 0.016)
    tint = rng.uniform(0.88, 1.08, 3)
    lamps = Lamps(
        rng.uniform([-0.3, -0.3, -0.2], [0.3, 0.3, 0.5], (2, 3)),
        rng.uniform(0.75, 1.35, (2, 1)) * tint,
        float(rng.uniform(0.8, 1.3)),
    )
    camera = _camera(rng, table, width, height)
    world = WorldConfig(
        name=f"track-{index}",
        seed=seed,
        table=table,
        robot=RobotConfig.load(ROOT / "config" / "robots" / "ur5e.yaml"),
        ball_ids=ids,
        positions=positions,
        parameters=parameters,
        cushion_offsets=np.zeros(6),
        camera=camera,
    )
    noise = float(rng.uniform(1.0, 4.0))
    truth = _play(rng, world)
    if frames:
        truth = replace(
            truth,
            time=truth.time[:frames],
            position=truth.position[:frames],
            velocity=truth.velocity[:frames],
            in_play=truth.in_play[:frames],
        )
    return Scene(world, lamps, noise, truth)


def _lay(rng: np.random.Generator, table: TableModel, count: int, *, cluster: bool) -> np.ndarray:
    """Return (count, 2) places [m], the cue ball first; with ``cluster`` three to six balls nearly touch."""
    radius = table.ball_radius
    half = np.array([table.length, table.width]) / 2 - table.ball_stop - 0.002
    places: list[np.ndarray] = []
    if cluster:
        middle = rng.uniform(-0.5, 0.5, 2) * half
        turn = rng.uniform(0, np.pi)
        size = int(rng.integers(3, 7))
        pitch = 2 * radius + rng.uniform(1.2e-4, 6e-4)
        for row in range(3):
            for k in range(row + 1):
                x, y = row * pitch * math.sqrt(3) / 2, (k - row / 2) * pitch
                c, s = math.cos(turn), math.sin(turn)
                if len(places) < min(size, count - 1):
                    places.append(middle + np.array([c * x - s * y, s * x + c * y]))
        if any(np.any(np.abs(p) > half) for p in places):
            places = []
    free: list[np.ndarray] = []
    mouths = np.array([p.position for p in table.pockets])
    while len(places) + len(free) < count:
        place = rng.uniform(-half, half)
        apart = all(math.dist(place, other) > 2.3 * radius for other in [*places, *free])
        if apart and np.linalg.norm(mouths - place, axis=1).min() > 1.4 * table.drop_radius:
            free.append(place)
    return np.array([*free[:1], *places, *free[1:]])


def _camera(rng: np.random.Generator, table: TableModel, width: int, height: int) -> CameraConfig:
    """Return a camera that has the whole frame in view, as near as that allows."""
    focal = width * rng.uniform(0.72, 1.0)
    centre = np.array([(width - 1) / 2, (height - 1) / 2]) + rng.uniform(-12, 12, 2)
    away = np.array([rng.uniform(-0.12, 0.12), -rng.uniform(0.0, 0.45), 1.0])
    target = np.array([*rng.uniform(-0.02, 0.02, 2) * table.length, 0.0])
    values: dict[str, Any] = {
        "target": target,
        "roll": float(rng.uniform(-0.05, 0.05)),
        "width": width,
        "height": height,
        "fps": FPS,
        "focal": np.array([focal, focal * rng.uniform(0.995, 1.005)]),
        "centre": centre,
        "distortion": np.array([rng.uniform(-0.12, 0.02), rng.uniform(0, 0.02), *rng.uniform(-5e-4, 5e-4, 2)]),
        "exposure": float(rng.uniform(0.0005, 0.004)),
        "blur": float(rng.uniform(0.4, 1.0)) * width / 1280,
        "noise": 0.0,
        "gain": float(rng.uniform(0.85, 1.2)),
        "latency": 0.0,
    }
    x, y = table.length / 2 + table.rail_width, table.width / 2 + table.rail_width
    corners = np.array([[i, j, z] for i in (-x, x) for j in (-y, y) for z in (0.0, table.nose_height)])
    distance = 0.8
    while True:
        camera = CameraConfig(position=target + distance * away / np.linalg.norm(away), **values)
        pixels = camera.project(corners)
        inside = np.all(pixels > _MARGIN) and np.all(pixels < [width - _MARGIN, height - _MARGIN])
        if inside:
            return camera
        distance *= 1.01


def _play(rng: np.random.Generator, world: WorldConfig) -> Truth:
    """Return two shots: a gentle one to its end, then a hard one that the end of the sequence cuts."""
    twin = Twin(world.table, world.ball_ids)
    gentle = min(
        (_shot(rng, world, world.positions, np.ones(len(world.ball_ids), bool), (0.5, 1.4)) for _ in range(_DRAWS)),
        key=lambda start: _too_long(twin, world, start),
    )
    first = (STILL - rng.uniform(0, 1)) / FPS
    path = twin.simulate(gentle, world.parameters)
    rest = path.rest_time if np.isfinite(path.rest_time) else path.stop_time
    seen = min(math.ceil(rest * FPS) + 1, _SLOW)
    second = (STILL + seen + REST - rng.uniform(0, 1)) / FPS
    hard = _shot(rng, world, path.rest_positions, ~path.rest_pocketed, (1.6, 3.0))
    stamps = np.arange(STILL + seen + REST + _FAST) / FPS
    parts = [(first, gentle, stamps[: STILL + seen + REST - 1]), (second, hard, stamps[STILL + seen + REST - 1 :])]
    position, velocity, in_play = [], [], []
    contacts: list[tuple[float, int, int, int]] = []
    change: list[float] = []
    struck = []
    for begin, start, when in parts:
        times = np.sort(np.concatenate([when - begin, when - begin + _DELTA]))
        path = twin.simulate(start, world.parameters, np.maximum(times, 0.0))
        now, soon = path.positions[::2], path.positions[1::2]
        before = when < begin
        now[before] = soon[before] = start.positions
        position.append(now)
        out = path.pocketed[::2] & (when >= begin)[:, None]
        velocity.append(np.where((out | path.pocketed[1::2])[..., None], 0.0, (soon - now) / _DELTA))
        in_play.append(~out & start.in_play)
        last = when[-1]
        struck.append(world.ball_ids[int(np.argmax(np.linalg.norm(start.velocities, axis=1)))])
        for event in _distinct(path.events):
            if begin + event.time < last:
                other = event.other if event.kind == EventKind.BALL_BALL else -1
                contacts.append((begin + event.time, int(event.kind), event.ball, other))
                change.append(_change(twin, world, start, event))
    return Truth(
        np.array(world.ball_ids),
        stamps,
        np.concatenate(position),
        np.concatenate(velocity),
        np.concatenate(in_play),
        np.array([first, second]),
        np.array(struck),
        np.array(contacts).reshape(-1, 4),
        np.array(change),
    )


def _shot(
    rng: np.random.Generator, world: WorldConfig, places: np.ndarray, in_play: np.ndarray, speeds: tuple[float, float]
) -> Start:
    """Return a stroke of the cue ball (another one if it is gone) towards another ball, more or less."""
    start = Start.at_rest(places, in_play)
    playing = np.flatnonzero(in_play)
    striker = int(playing[0])
    others = playing[1:]
    if len(others):
        way = places[int(rng.choice(others))] - places[striker]
        angle = math.atan2(way[1], way[0]) + rng.normal(0, 0.04)
    else:
        angle = rng.uniform(0, 2 * math.pi)
    start.velocities[striker] = rng.uniform(*speeds) * np.array([math.cos(angle), math.sin(angle)])
    start.spins[striker] = rng.normal(0, 10.0, 3)
    return start


def _too_long(twin: Twin, world: WorldConfig, start: Start) -> float:
    """Return 0 for a shot that ends in time, else by how much it does not [s]."""
    path = twin.simulate(start, world.parameters)
    rest = path.rest_time if np.isfinite(path.rest_time) else 60.0
    return max(rest - (_SLOW - 2) / FPS, 0.0)


def _distinct(events: tuple[Event, ...]) -> list[Event]:
    """Return contacts, those of one pair within 4 ms once: balls that lie together chatter."""
    kept: list[Event] = []
    for event in events:
        if event.kind == EventKind.AIRBORNE:
            continue
        same = [e for e in kept if (e.kind, e.ball, e.other) == (event.kind, event.ball, event.other)]
        if not same or event.time - same[-1].time > 4e-3:
            kept.append(event)
    return kept


def _change(twin: Twin, world: WorldConfig, start: Start, event: Event) -> float:
    """Return by how much a contact changed a ball's velocity, of both balls the most [m/s]."""
    if event.kind == EventKind.POCKET:
        return math.inf
    step = 1e-3
    times = np.maximum(event.time + step * np.array([-1.5, -0.5, 0.5, 1.5]), 0.0)
    p = twin.simulate(start, world.parameters, times).positions
    balls = [twin.index(event.ball)] + ([twin.index(event.other)] if event.kind == EventKind.BALL_BALL else [])
    turn = ((p[3] - p[2]) - (p[1] - p[0]))[balls] / step
    return float(np.linalg.norm(turn, axis=1).max())
