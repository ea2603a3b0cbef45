"""Random shots, seeded, the same for every engine that is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.harness import BenchmarkError
from cue_core.table import TableModel
from cue_sim.kernel import EventKind
from cue_sim.twin import Start, Trajectory, Twin

ROOT = Path(__file__).resolve().parents[2]
CLASSES = ("1", "2", "3-4", "5+")
"""Of shots, by how many ball-ball and cushion contacts they have."""
SPEEDS = (0.5, 2.5)
"""Of the cue ball at the start [m/s]."""
SPIN = 20.0
"""Standard deviation of each component of the cue ball's spin at the start [rad/s]."""
_MOST_DRAWS = 20_000


def load_table(name: str) -> TableModel:
    """Return a preset of ``config/tables``."""
    return TableModel.load(ROOT / "config" / "tables" / f"{name}.yaml")


def ball_ids(count: int) -> tuple[int, ...]:
    """Return ids 0 (cue ball) to count - 1."""
    return tuple(range(count))


def random_start(
    rng: np.random.Generator, table: TableModel, balls: int, speeds: tuple[float, float] = SPEEDS
) -> Start:
    """Return balls anywhere on the table, none touching, and a cue ball with any direction, speed and spin."""
    half = np.array([table.length, table.width]) / 2 - 1.5 * table.ball_radius
    positions: list[np.ndarray] = []
    while len(positions) < balls:
        place = rng.uniform(-half, half)
        if all(math.dist(place, other) > 2.2 * table.ball_radius for other in positions):
            positions.append(place)
    start = Start.at_rest(np.array(positions))
    angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(*speeds)
    start.velocities[0] = speed * np.array([math.cos(angle), math.sin(angle)])
    start.spins[0] = rng.normal(0, SPIN, 3)
    return start


def random_starts(seed: Sequence[int], table: TableModel, balls: int, count: int) -> list[Start]:
    """Return ``count`` shots of :func:`random_start`."""
    rng = np.random.default_rng(list(seed))
    return [random_start(rng, table, balls) for _ in range(count)]


def contacts(path: Trajectory) -> int:
    """Return how many ball-ball and cushion contacts a shot had."""
    return path.contacts(EventKind.BALL_BALL) + path.contacts(EventKind.CUSHION)


def contact_class(count: int) -> str | None:
    """Return the class of a number of contacts; None for no contact at all."""
    return None if count < 1 else "1" if count == 1 else "2" if count == 2 else "3-4" if count <= 4 else "5+"


def starts_of_class(seed: Sequence[int], twin: Twin, label: str, count: int) -> list[Start]:
    """Draw random shots and keep those whose number of contacts, as the twin plays them, is in a class.

    Some begin slowly, or few would have one contact; and some ball that moved must rest on the table, because two
    simulations that pocket it agree without having shown anything.

    Raises:
        BenchmarkError: there are hardly any.
    """
    rng = np.random.default_rng([*seed, CLASSES.index(label)])
    kept: list[Start] = []
    for _ in range(_MOST_DRAWS):
        start = random_start(rng, twin.table, len(twin.ball_ids), (0.2, SPEEDS[1]))
        path = twin.simulate(start, None)
        moved = np.linalg.norm(path.rest_positions - start.positions, axis=1) > 1e-3
        if contact_class(contacts(path)) == label and np.any(moved & ~path.rest_pocketed):
            kept.append(start)
            if len(kept) == count:
                return kept
    raise BenchmarkError(
        f"only {len(kept)} of {_MOST_DRAWS} random shots on table {twin.table.name} have {label} contacts"
    )


def rack(table: TableModel, rng: np.random.Generator, speed: float, gap: float) -> Start:
    """Return a cue ball at ``speed`` [m/s] and fifteen racked balls with gaps up to ``gap`` [m] between them."""
    radius = table.ball_radius
    spacing = 2 * radius + 2e-9
    apex = table.length / 4
    places = [
        [apex + row * spacing * math.sqrt(3) / 2, (k - row / 2) * spacing] for row in range(5) for k in range(row + 1)
    ]
    racked = np.array(places)
    if gap > 0:  # blown up a little, so that shaking the balls cannot make them overlap
        racked = apex + (racked - [apex, 0]) * (1 + gap / spacing) - [0, apex]
        racked += rng.uniform(-gap / 4, gap / 4, racked.shape)
    cue_ball = np.array([-table.length / 4, rng.uniform(-0.25, 0.25) * table.width])
    start = Start.at_rest(np.vstack([cue_ball, racked]))
    aim = racked[0] + [0, rng.uniform(-0.5, 0.5) * radius] - cue_ball
    start.velocities[0] = speed * aim / np.linalg.norm(aim)
    start.spins[0] = rng.normal(0, SPIN, 3)
    return start


class AtRest(Protocol):
    """How a simulation of any kind ended."""

    @property
    def rest_positions(self) -> np.ndarray:
        """(n, 2) [m], table frame; of a pocketed ball its pocket's."""


def rest_differences(one: AtRest, other: AtRest) -> np.ndarray:
    """Return the (n,) distances between rest positions [m]."""
    return np.asarray(np.linalg.norm(one.rest_positions - other.rest_positions, axis=1))
