"""How far the portable copy is from the exact twin, on whole random shots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cue_core.parameters import ParameterEstimate
from cue_sim.kernel import EventKind
from cue_sim.path import Start
from cue_sim.portable import PortableParameters
from cue_sim.portable_play import Cancelled, PortableCancelledError, PortableTable, Rest
from cue_sim.portable_probes import random_start
from cue_sim.twin import Twin

CLASSES = ("1", "2", "3-4", "5+")
"""Of shots, by the number of their contacts, ball-ball and cushion together."""
SHOTS = 12
"""Shots of each class on which a fit is judged."""
_MOVED = 0.003  # m, as in scoring: smaller moves count as none
_MOST_DRAWS = 5_000

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Difference:
    """Rest positions of the copy against the twin's, over shots of one class.

    A shot's difference is the mean over the balls that moved.

    Attributes:
        median: [m].
        p90: 90 % of the shots are below [m].
        shots: count.
    """

    median: float
    p90: float
    shots: int

    def to_dict(self) -> dict[str, float]:
        """Return plain data in mm."""
        return {"median_mm": 1000 * self.median, "p90_mm": 1000 * self.p90, "shots": self.shots}


def measure(
    twin: Twin,
    estimate: ParameterEstimate,
    parameters: PortableParameters,
    *,
    seed: int = 0,
    shots: int = SHOTS,
    threads: int | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> dict[str, Difference]:
    """Return the difference of rest positions by class, over seeded random shots that no fit uses.

    Raises:
        PortableCancelledError: ``cancelled`` said so.
    """
    probes = probe_shots(twin, estimate, np.random.default_rng([seed, 2]), shots, cancelled)
    copy = PortableTable(twin, estimate, parameters)
    found = {}
    for k, (name, pairs) in enumerate(probes.items()):
        if progress is not None:
            progress(0.6 + 0.4 * k / len(probes), f"measuring shots of {name} contacts")
        rests = copy.play([start for start, _ in pairs], threads=threads, cancelled=cancelled)
        errors = [rest_difference(start, rest, exact) for (start, exact), rest in zip(pairs, rests, strict=True)]
        found[name] = Difference(float(np.median(errors)), float(np.quantile(errors, 0.9)), len(errors))
    return found


def rest_difference(start: Start, one: Rest, other: Rest) -> float:
    """Return the mean distance [m] between two outcomes of a shot over the balls that moved in either."""
    moved = np.zeros(len(start.positions), bool)
    for rest in (one, other):
        moved |= np.linalg.norm(rest.positions - start.positions, axis=1) > _MOVED
    distance = np.linalg.norm(one.positions - other.positions, axis=1)
    return float(distance[moved].mean()) if moved.any() else 0.0


def probe_shots(
    twin: Twin,
    estimate: ParameterEstimate,
    generator: np.random.Generator,
    count: int,
    cancelled: Cancelled | None = None,
) -> dict[str, list[tuple[Start, Rest]]]:
    """Draw random shots, ``count`` of each class, with the twin's outcome.

    Balls lie anywhere; the cue ball has any direction, up to 2.5 m/s on a table of 1 m, and any spin of the size that
    strokes give. Some ball that moved rests on the table: two models that pocket it agree without having shown much.
    """
    found: dict[str, list[tuple[Start, Rest]]] = {name: [] for name in CLASSES}
    for drawn in range(_MOST_DRAWS):
        if all(len(rows) == count for rows in found.values()):
            break
        if cancelled is not None and drawn % 20 == 0 and cancelled():
            raise PortableCancelledError()
        start = random_start(twin.table, len(twin.ball_ids), generator)
        path = twin.simulate(start, estimate.values)
        contacts = path.contacts(EventKind.BALL_BALL) + path.contacts(EventKind.CUSHION)
        moved = np.linalg.norm(path.rest_positions - start.positions, axis=1) > _MOVED
        name = _class_of(contacts)
        usable = path.fault is None and np.isfinite(path.rest_time) and np.any(moved & ~path.rest_pocketed)
        if usable and name is not None and len(found[name]) < count:
            found[name].append((start, Rest(path.rest_positions, path.rest_pocketed)))
    return {name: rows for name, rows in found.items() if rows}


def _class_of(contacts: int) -> str | None:
    return None if contacts < 1 else "1" if contacts == 1 else "2" if contacts == 2 else "3-4" if contacts < 5 else "5+"
