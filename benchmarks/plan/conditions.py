"""Tables that nobody has seen, laid out five ways, and shots from other layouts that judge what was learnt of them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cue_agent.config import AgentConfig
from cue_core.balls import BallState
from cue_core.checks import load_yaml, only_keys
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import ParameterEstimate
from cue_core.shots import Shot
from cue_identify.replay import TwinSimulator
from cue_identify.scoring import MOVED
from cue_sim.path import Start, Trajectory
from cue_sim.predict import rest_fault, start_from
from cue_sim.twin import Twin
from cue_sim.world_config import WorldConfig

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "config" / "worlds" / "bench"
LAYOUTS = ("pack", "spread", "cluster", "two", "line")
PHYSICS = ("slow_napped", "fast_lively", "patched_sticky")
SEEDS = (0, 1, 2)
BALLS = (0, 1, 3, 5, 6, 8)
JUDGES = 30
"""Held-out shots of a condition."""
STEPS: Mapping[str, Any] = {"largest_step": 0.05, "impact_step": 1e-6}
"""Of the held-out shots; the world's own steps give the same rest places to 5 micrometres, in twenty times the time."""
_AIMED = 0.8
_SPEED, _TURN, _SCATTER = 0.01, 0.005, 0.05
"""Errors of a stroke (relative, [rad]), and the most that they may scatter the outcome of a shot that judges [m]."""
_DRAWS = 200
_TRIES = 1000


@dataclass(frozen=True)
class Condition:
    """One hidden table with its balls.

    Attributes:
        layout: of :data:`LAYOUTS`.
        physics: of :data:`PHYSICS`.
        seed: of its draws.
    """

    layout: str
    physics: str
    seed: int

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            UnknownNameError: lists those there are.
        """
        for what, name, known in (("layout", self.layout, LAYOUTS), ("physics", self.physics, PHYSICS)):
            if name not in known:
                raise UnknownNameError(what, name, known)

    def world(self) -> WorldConfig:
        """Return the table of this physics and seed, the same for every layout, with the balls of the layout."""
        world = WorldConfig.load(str(FOLDER / f"{self.physics}.yaml"), self.seed)
        places = lay_out(world, self.layout, self.stream("layout"))
        return replace(world, ball_ids=tuple(places), positions=np.array(list(places.values())))

    def stream(self, purpose: str) -> np.random.Generator:
        """Return a generator that no other condition and purpose shares."""
        return np.random.default_rng([self.seed, zlib.crc32(f"{self.layout}.{self.physics}.{purpose}".encode())])

    def held_out(self, count: int = JUDGES) -> HeldOut:
        """Return its held-out shots: those of the physics and seed, from other layouts than its own."""
        return HeldOut(self, count)


def layouts() -> dict[str, Mapping[str, Any]]:
    """Return what the file of layouts says.

    Raises:
        FileFormatError: it is malformed.
    """
    path = FOLDER / "layouts.yaml"
    data = load_yaml(path)
    only_keys(path, data, LAYOUTS, LAYOUTS)
    for name, layout in data.items():
        only_keys(f"{path}: {name}", layout, ("jitter", "positions"), ("jitter", "positions"))
    return data


def lay_out(world: WorldConfig, layout: str, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Return (2,) places [m] by id of the balls of a layout, the cue ball first, each a little off where it should be.

    Raises:
        FileFormatError: they overlap however they are drawn.
    """
    given = layouts()[layout]
    ids = sorted(int(i) for i in given["positions"])
    middle = np.array([given["positions"][i] for i in ids], float)
    for _ in range(_TRIES):
        off = np.clip(rng.standard_normal(middle.shape), -2.0, 2.0) * float(given["jitter"])
        places = middle + off
        if _is_free(world, places):
            return dict(zip(ids, places, strict=True))
    raise FileFormatError(FOLDER / "layouts.yaml", f"the balls of {layout} overlap or lie beyond the cushions")


def _is_free(world: WorldConfig, places: np.ndarray) -> bool:
    apart = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(len(places), np.inf))
    return bool(np.all(apart > 2 * world.table.ball_radius + 1e-3)) and all(map(world.table.inside, places))


def hidden_twin(world: WorldConfig) -> Twin:
    """Return a simulation of the hidden table with all balls, whose steps are finer than those of a fit's twin."""
    offsets = tuple(map(float, world.cushion_offsets))
    return Twin(world.table, BALLS, extras={**world.laws, "cushion_offset": offsets}, **STEPS)


class HeldOut:
    """Typical shots from other layouts, from exactly known starts, played on the hidden table.

    The cue ball lies anywhere; four shots of five go at a ball, at any speed that the agent plays. Shots that an agent
    would not play to be judged are drawn again: those that pocket a ball, with the stroke's errors or without, and
    those whose outcome these errors scatter by more than 5 cm, which would judge luck. The hidden table says so, the
    same for every planner.

    Attributes:
        table: that they lie on.
        shots: that judge, and ``balls`` before each.
        drawn: with the balls before it, each shot drawn and what it pocketed, until enough were found that judge.
    """

    def __init__(self, condition: Condition, count: int = JUDGES) -> None:
        """Draw and play them."""
        world, config = condition.world(), AgentConfig()
        self.table = world.table
        self._judge = TwinSimulator(world.table, BALLS)
        hidden = hidden_twin(world)
        rng = condition.stream("held out")
        others = [name for name in LAYOUTS if name != condition.layout]
        self.balls: list[tuple[BallState, ...]] = []
        self.shots: list[Shot] = []
        self.drawn: list[tuple[tuple[BallState, ...], Shot, np.ndarray]] = []
        self._truth: list[Trajectory] = []
        for k in range(_DRAWS * count):
            balls, shot = _draw(world, others[k % len(others)], rng, config)
            paths = _play(hidden, world, balls, shot)
            if paths is None:
                continue
            self.drawn.append((balls, shot, paths[0].rest_pocketed.copy()))
            if not any(path.rest_pocketed.any() for path in paths) and _is_fair(balls, paths):
                self.balls.append(balls)
                self.shots.append(shot)
                self._truth.append(paths[0])
            if len(self.shots) == count:
                return
        raise FileFormatError(f"physics {condition.physics}", "gives too few shots that can be judged")

    @property
    def truth(self) -> list[Trajectory]:
        """Return what the shots do on the hidden table, balls in the order of :data:`BALLS`."""
        return self._truth

    def predicted(self, estimate: ParameterEstimate) -> list[Trajectory]:
        """Return what the twin of an estimate says that they do."""
        twin = self._judge.corrected(estimate.correction).twin
        starts = [self._start(b, s, estimate.values) for b, s in zip(self.balls, self.shots, strict=True)]
        return twin.simulate_batch(starts, np.tile(estimate.values, (len(starts), 1)), threads=1)

    def _start(self, balls: tuple[BallState, ...], shot: Shot, values: np.ndarray) -> Start:
        return start_from(balls, shot, values, self.table, BALLS)

    def errors(self, estimate: ParameterEstimate) -> np.ndarray:
        """Return (shots,) mean distances [m] of rest positions over the balls that moved, truly or as predicted.

        Zero where none moved; where the estimate's twin fails, the length of the table.
        """
        found = []
        for balls, truth, path in zip(self.balls, self._truth, self.predicted(estimate), strict=True):
            if rest_fault(path):
                found.append(self.table.length)
                continue
            index = [BALLS.index(b.ball_id) for b in balls]
            start = np.array([b.position for b in balls])
            rest, predicted = truth.rest_positions[index], path.rest_positions[index]
            moved = np.linalg.norm([rest - start, predicted - start], axis=2).max(axis=0) > MOVED
            distance = np.linalg.norm(predicted - rest, axis=1)[moved]
            found.append(float(distance.mean()) if moved.any() else 0.0)
        return np.array(found)


def _draw(
    world: WorldConfig, layout: str, rng: np.random.Generator, config: AgentConfig
) -> tuple[tuple[BallState, ...], Shot]:
    table = world.table
    places = lay_out(world, layout, rng)
    half = np.array([table.length, table.width]) / 2
    while True:
        places[0] = rng.uniform(-half, half)
        if _is_free(world, np.array(list(places.values()))):
            break
    azimuth = rng.uniform(-math.pi, math.pi)
    if rng.random() < _AIMED:
        way = places[int(rng.choice([i for i in places if i != 0]))] - places[0]
        off = rng.uniform(-0.7, 0.7) * 2 * table.ball_radius / float(np.linalg.norm(way))
        azimuth = math.atan2(way[1], way[0]) + math.asin(float(np.clip(off, -1.0, 1.0)))
    speed = rng.uniform(config.speed_min, config.speed_max)
    return tuple(BallState(i, p) for i, p in places.items()), Shot("judge", float(speed), float(azimuth))


def _play(hidden: Twin, world: WorldConfig, balls: tuple[BallState, ...], shot: Shot) -> list[Trajectory] | None:
    """Return what a shot does on the hidden table, alone and with the stroke's errors; None where that fails."""
    shots = [shot, *(replace(shot, speed=shot.speed * f) for f in (1 + _SPEED, 1 - _SPEED))]
    shots += [replace(shot, azimuth=shot.azimuth + a) for a in (_TURN, -_TURN)]
    starts = [start_from(balls, s, world.parameters, world.table, BALLS) for s in shots]
    paths = hidden.simulate_batch(starts, np.tile(world.parameters, (len(starts), 1)), threads=1)
    return None if any(rest_fault(path) for path in paths) else paths


def _is_fair(balls: tuple[BallState, ...], paths: list[Trajectory]) -> bool:
    """Tell whether something moves and comes to rest within the scatter that a judge may have."""
    index = [BALLS.index(b.ball_id) for b in balls]
    start = np.array([b.position for b in balls])
    rests = np.array([path.rest_positions[index] for path in paths])
    moved = np.linalg.norm(rests[0] - start, axis=1) > MOVED
    off = (rests[1:] - rests[0])[:, moved]
    return bool(moved.any()) and 0.5 * float(np.mean(np.sum(off**2, axis=(0, 2)))) <= _SCATTER**2
