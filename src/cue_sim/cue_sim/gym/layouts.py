"""Where balls lie at the start of an episode: random and legal, or as given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from cue_core.errors import FileFormatError
from cue_core.table import TableModel
from cue_sim.gym.reward import Situation
from cue_sim.overlap import separate
from cue_sim.predict import CUE_BALL
from cue_sim.twin import Twin

GAP = 0.001
"""Smallest distance between random balls, and from balls to cushions [m]."""
SHIFT = 0.005
"""A given ball that overlaps, as measured ones do, may move so far to be legal [m]."""
_TRIES = 10_000


Disc = tuple[float, float, float]
"""Centre x, y and radius [m] of what is taken."""


@lru_cache(maxsize=8)
def _holes(table: TableModel) -> tuple[Disc, ...]:
    """Return the pockets; for a table that is asked about again and again."""
    return tuple((float(p.position[0]), float(p.position[1]), float(p.radius)) for p in table.pockets)


def random_spot(twin: Twin, generator: np.random.Generator, radius: float, taken: Sequence[Disc] = ()) -> np.ndarray:
    """Return a uniform (2,) position [m] of a ball that touches no cushion, no ball, and hangs over no pocket.

    Args:
        twin: of the table.
        generator: of the positions.
        radius: of the ball [m].
        taken: the balls that are there.

    Raises:
        FileFormatError: there is no room.
    """
    table = twin.table
    # a ball beyond the table's radius meets the nose further out; its own radius is always enough
    margin = max(radius, table.ball_stop) + GAP
    half_x, half_y = table.length / 2 - margin, table.width / 2 - margin
    occupied = [*_holes(table), *taken]
    for _ in range(_TRIES):  # plain numbers: for a dozen discs they are faster than arrays
        u, v = generator.random(2).tolist()
        x, y = (2 * u - 1) * half_x, (2 * v - 1) * half_y
        if all(math.hypot(x - a, y - b) > r + radius + GAP for a, b, r in occupied):
            return np.array([x, y])
    raise FileFormatError("layout", f"no room for another ball beside {len(taken)} on table {table.name!r}")


def random_layout(twin: Twin, generator: np.random.Generator) -> Situation:
    """Return all balls in play at random, legal places.

    Raises:
        FileFormatError: they find no room.
    """
    taken: list[Disc] = []
    for radius in twin.layout.radius.tolist():
        x, y = random_spot(twin, generator, radius, taken).tolist()
        taken.append((x, y, radius))
    return Situation(np.array([[x, y] for x, y, _ in taken]), np.ones(len(taken), bool))


def given_layout(twin: Twin, places: Mapping[int, Sequence[float] | np.ndarray]) -> Situation:
    """Return the balls at given places; balls without one are not in play.

    Raises:
        FileFormatError: no cue ball, a ball that the twin lacks, a place off the table or within another ball.
    """
    positions = np.zeros((len(twin.ball_ids), 2))
    in_play = np.zeros(len(twin.ball_ids), bool)
    for ball, place in places.items():
        spot = np.asarray(place, float)
        if spot.shape != (2,) or not np.isfinite(spot).all():
            raise FileFormatError("layout", f"ball {ball} needs two finite coordinates [m], got {place!r}")
        k = twin.index(int(ball))
        positions[k], in_play[k] = spot, True
    if CUE_BALL not in {int(b) for b in places}:
        raise FileFormatError("layout", f"needs the cue ball (id 0), got {sorted(places)}")
    legal = separate(twin.layout, positions, in_play)
    shift = np.hypot(*(legal - positions).T)
    reach = np.array([twin.table.length, twin.table.width]) / 2
    for k, ball in enumerate(twin.ball_ids):
        if in_play[k] and (shift[k] > SHIFT or np.any(np.abs(positions[k]) > reach)):
            raise FileFormatError(
                "layout",
                f"ball {ball} at {positions[k].tolist()} is not on the table or within another ball; the table is "
                f"{twin.table.length:g} x {twin.table.width:g} m, its centre the origin",
            )
    return Situation(legal, in_play)
