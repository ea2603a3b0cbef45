"""The event-driven simulation: follow every ball in closed form to the next event, settle it, and go on.

>>> path = simulate(table, start, laws)
>>> path.events, path.positions(0.5), path.rest_positions
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cue_core.errors import FileFormatError
from cue_core.table import TableModel
from cue_sim.laws import Laws
from cue_sim.reference.loop import Run
from cue_sim.reference.motion import State
from cue_sim.reference.path import Path

HORIZON = 60.0
"""Longest simulated shot [s]."""


class StartLike(Protocol):
    """Balls at time zero, as in ``cue_sim.twin.Start``."""

    @property
    def positions(self) -> np.ndarray:
        """(n, 2) centres [m], table frame."""

    @property
    def velocities(self) -> np.ndarray:
        """(n, 2) [m/s]."""

    @property
    def spins(self) -> np.ndarray:
        """(n, 3) angular velocities about the table's axes [rad/s]."""

    @property
    def in_play(self) -> np.ndarray:
        """(n,) bool; other balls do not take part."""


def simulate(
    table: TableModel,
    start: StartLike,
    laws: Laws,
    radii: Mapping[int, float] | None = None,
    masses: Mapping[int, float] | None = None,
    horizon: float = HORIZON,
    ball_ids: Sequence[int] | None = None,
) -> Path:
    """Play one shot until all balls rest.

    Args:
        table: geometry.
        start: n balls at time zero.
        laws: coefficients.
        radii: of single balls by id [m]; others have the table's.
        masses: of single balls by id [kg]; others have the table's.
        horizon: longest simulated time [s].
        ball_ids: of the n balls; None = 0..n-1.

    Raises:
        FileFormatError: a shape does not fit, a number is not finite, a ball lies behind the cushions, or balls
            overlap each other or a nose.
        SteepBedError: a bed on which no ball rests.
        SimulationError: events follow each other without end.
    """
    n = len(start.positions)
    ids = tuple(range(n)) if ball_ids is None else tuple(ball_ids)
    shapes = [np.shape(a) for a in (start.positions, start.velocities, start.spins, start.in_play)]
    if shapes != [(n, 2), (n, 2), (n, 3), (n,)] or len(ids) != n:
        raise FileFormatError("start", f"of {n} balls has shapes {shapes} and {len(ids)} ids")
    playing = np.asarray(start.in_play, bool)
    numbers = (*(a[playing] for a in (start.positions, start.velocities, start.spins)), laws.array())
    if not all(np.isfinite(a).all() for a in numbers):
        raise FileFormatError("start or laws", "hold a number that is not finite")
    run = Run(table, laws, ids, radii or {}, masses or {})
    for i in np.flatnonzero(playing).tolist():
        place, velocity = complex(*start.positions[i]), complex(*start.velocities[i])
        w = [float(x) for x in start.spins[i]]
        behind = abs(place.real) > table.length / 2 or abs(place.imag) > table.width / 2
        if behind and not any(abs(place - complex(*p.position)) < p.radius + table.ball_radius for p in table.pockets):
            raise FileFormatError("start", f"has ball {ids[i]} behind the cushions, at {np.round(place, 3)}")
        run.place(i, State(place, velocity, complex(w[0], w[1]), w[2]))
    run.check_overlaps()
    rest_time = run.play(horizon)
    at_end = min(horizon, run.now) if math.isnan(rest_time) else rest_time
    rest = np.array(start.positions, float)
    for i, ball in enumerate(run.balls):
        if ball.pocket is not None:
            rest[i] = table.pockets[ball.pocket].position
        elif ball.playing:
            place = ball.piece.at(max(at_end, ball.piece.start)).place
            rest[i] = place.real, place.imag
    gone = np.array([not ball.playing for ball in run.balls])
    return Path(ids, tuple(tuple(b.pieces) for b in run.balls), tuple(run.events), rest, gone, rest_time)
