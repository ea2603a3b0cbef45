"""What the reference returns: every piece of every ball's motion, and the events between them."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cue_core.errors import FileFormatError
from cue_sim.reference.motion import Phase, Piece, State


class EventKind(IntEnum):
    """What happened; the values are those of the twin's events."""

    BALL_BALL = 1
    CUSHION = 2
    POCKET = 3


class Event(NamedTuple):
    """One event: time [s], kind, ball id, and the other ball's id, the cushion's index or the pocket's index."""

    time: float
    kind: EventKind
    ball: int
    other: int


@dataclass(frozen=True)
class Path:
    """The motion of all balls, in the order of ``ball_ids`` (n of them), table frame.

    Attributes:
        ball_ids: order of every ball axis.
        pieces: of each ball, in order of time; none for a ball that was not in play.
        events: in order of time.
        rest_positions: (n, 2) at the end [m]; a pocketed ball is at its pocket's centre.
        rest_pocketed: (n,) bool at the end; true too for balls that were not in play.
        rest_time: when the last ball stopped travelling [s]; NaN = not within the horizon.
    """

    ball_ids: tuple[int, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    events: tuple[Event, ...]
    rest_positions: np.ndarray
    rest_pocketed: np.ndarray
    rest_time: float

    def positions(self, times: float | np.ndarray) -> np.ndarray:
        """Return the (n, 2) positions [m] at one time [s], or (T, n, 2) at (T,) times; pocketed: in the pocket."""
        return self._sampled(times, lambda s: (s.place.real, s.place.imag), self.rest_positions)

    def velocities(self, times: float | np.ndarray) -> np.ndarray:
        """Return the (n, 2) velocities [m/s] at one time [s], or (T, n, 2) at (T,) times; zero out of play."""
        nothing = np.zeros((len(self.ball_ids), 2))
        return self._sampled(times, lambda s: (s.velocity.real, s.velocity.imag), nothing)

    def spins(self, times: float | np.ndarray) -> np.ndarray:
        """Return the (n, 3) spins [rad/s] at one time [s], or (T, n, 3) at (T,) times, table axes; zero out of play."""
        nothing = np.zeros((len(self.ball_ids), 3))
        return self._sampled(times, lambda s: (s.lean.real, s.lean.imag, s.upright), nothing)

    def phases(self, ball: int) -> list[tuple[float, Phase]]:
        """Return when [s] a ball, by its id, began each phase of its motion."""
        found: list[tuple[float, Phase]] = []
        for piece in self.pieces[self.ball_ids.index(ball)]:
            if not found or found[-1][1] != piece.phase:
                found.append((piece.start, piece.phase))
        return found

    def _sampled(
        self, times: float | np.ndarray, columns: Callable[[State], tuple[float, ...]], gone: np.ndarray
    ) -> np.ndarray:
        wanted = np.atleast_1d(np.asarray(times, float))
        if not np.all(wanted >= 0):
            raise FileFormatError("times", "must be seconds from 0 on")
        out = np.tile(np.asarray(gone, float), (len(wanted), 1, 1))
        for i, pieces in enumerate(self.pieces):
            starts = [piece.start for piece in pieces]
            for k, time in enumerate(wanted):
                piece = pieces[max(bisect.bisect_right(starts, time) - 1, 0)] if pieces else None
                if piece is not None and time < piece.start + piece.duration:
                    out[k, i] = columns(piece.at(time))
        return out if np.ndim(times) else out[0]


def kinetic_energy(state: State, radius: float, mass: float) -> float:
    """Return a ball's energy of travel and spin [J]."""
    spin = abs(state.lean) ** 2 + state.upright**2
    return 0.5 * mass * (abs(state.velocity) ** 2 + 0.4 * radius**2 * spin)
