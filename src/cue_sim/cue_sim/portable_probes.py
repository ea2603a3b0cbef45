"""Random shots and impacts, seeded, on which the portable copy is fitted and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cue_core.table import TableModel
from cue_sim.path import Start

_SHOT_SPEEDS = 0.2, 2.5  # of the cue ball, times the root of the table's length [m^0.5/s]: longer tables want more
_IMPACT_SPEEDS = 0.05, 1.6  # likewise
_SPIN = 0.38  # standard deviation of each component of the cue ball's spin [m/s at the equator]


def random_start(table: TableModel, count: int, generator: np.random.Generator) -> Start:
    """Return ``count`` balls anywhere on the table, the first with any direction, usual speeds and spins."""
    half = np.array([table.length, table.width]) / 2 - 1.5 * table.ball_radius
    places: list[np.ndarray] = []
    while len(places) < count:
        place = generator.uniform(-half, half)
        if all(math.dist(place, other) > 2.2 * table.ball_radius for other in places):
            places.append(place)
    start = Start.at_rest(np.array(places))
    speed = generator.uniform(*_SHOT_SPEEDS) * math.sqrt(table.length)
    start.velocities[0] = speed * _turned(np.array([1.0, 0.0]), generator.uniform(0, 2 * math.pi))
    start.spins[0] = generator.normal(0, _SPIN / table.ball_radius, 3)
    return start


def rebounds(table: TableModel, generator: np.random.Generator, count: int) -> list[Start]:
    """Return single balls that are about to hit some cushion away from its ends, up to 70 degrees off the normal."""
    starts = []
    for _ in range(count):
        cushion = table.cushions[generator.integers(len(table.cushions))]
        place = cushion.start + generator.uniform(0.3, 0.7) * (cushion.end - cushion.start)
        direction = _turned(-cushion.normal, generator.uniform(-1.2, 1.2))
        starts.append(_about_to_hit(table, place + table.ball_stop * cushion.normal, direction, (), generator))
    return starts


def collisions(table: TableModel, generator: np.random.Generator, count: int) -> list[Start]:
    """Return pairs of balls, of which the first is about to hit the other at rest, up to 70 degrees off its centre."""
    starts = []
    for _ in range(count):
        direction = _turned(np.array([1.0, 0.0]), generator.uniform(-math.pi, math.pi))
        between = _turned(direction, generator.uniform(-1.2, 1.2))
        place = -2 * table.ball_radius * between
        starts.append(_about_to_hit(table, place, direction, (np.zeros(2),), generator))
    return starts


def _about_to_hit(
    table: TableModel,
    place: np.ndarray,
    direction: np.ndarray,
    others: Sequence[np.ndarray],
    generator: np.random.Generator,
) -> Start:
    """Return a ball that comes to ``place`` in 10 ms or a little more: at any phase of the copy's steps.

    Half of the balls roll; the others slide with any topspin. Most have side spin.
    """
    speed = generator.uniform(*_IMPACT_SPEEDS) * math.sqrt(table.length)
    roll = 1.0 if generator.random() < 0.5 else generator.uniform(-0.6, 1.3)
    side = 0.0 if generator.random() < 0.3 else generator.uniform(-1.2, 1.2)
    lead = 0.01 + generator.uniform(0, 0.002)
    start = Start.at_rest(np.array([place - lead * speed * direction, *others]))
    start.velocities[0] = speed * direction
    start.spins[0] = speed / table.ball_radius * np.array([-direction[1] * roll, direction[0] * roll, side])
    return start


def _turned(direction: np.ndarray, angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * direction[0] - s * direction[1], s * direction[0] + c * direction[1]])
