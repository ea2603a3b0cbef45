"""Where balls start, and what they did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cue_sim.kernel import Event, EventKind


@dataclass(frozen=True)
class Start:
    """Balls at time zero, in the twin's ball order and the table frame.

    Attributes:
        positions: (n, 2) centres [m].
        velocities: (n, 2) [m/s].
        spins: (n, 3) angular velocities about the table's axes [rad/s].
        in_play: (n,) bool; other balls do not take part.
        lifts: (n,) upward speeds with which balls would leave the cloth, after an elevated stroke
            (:func:`cue_sim.strike.lift`) [m/s]. The model keeps them down; above the limit an ``AIRBORNE`` event says
            so. None = none.
    """

    positions: np.ndarray
    velocities: np.ndarray
    spins: np.ndarray
    in_play: np.ndarray
    lifts: np.ndarray | None = None

    @classmethod
    def at_rest(cls, positions: np.ndarray, in_play: np.ndarray | None = None) -> Start:
        """Return resting balls at (n, 2) positions [m]."""
        n = len(positions)
        playing = np.ones(n, bool) if in_play is None else np.array(in_play, bool)
        return cls(np.array(positions, float), np.zeros((n, 2)), np.zeros((n, 3)), playing)


@dataclass(frozen=True)
class Trajectory:
    """What the balls did, in the twin's ball order and the table frame.

    Attributes:
        times: (T,) after the start [s].
        positions: (T, n, 2) [m]; a pocketed ball stays at its pocket's centre, one not in play at its start; NaN after
            the contact at which the simulation was told to stop, and after a fault.
        pocketed: (T, n) bool; true too for balls that were not in play.
        rest_positions: (n, 2) at the end [m]; at the stop for a simulation that was told to.
        rest_pocketed: (n,) bool at the end.
        rest_time: when the last ball stopped travelling [s]; NaN = not within the horizon, or stopped before.
        events: in order of time.
        fault: None, or why the simulation cannot be trusted: one of :data:`cue_sim.kernel.FAULTS`, "MuJoCo: ..." with
            the warning it gave, or "bad parameters: ..." with the one that has no meaning.
        stop_time: when the simulation ended [s].
        steps: MuJoCo steps made.
        energy_gain: largest rise of the balls' energy above its least value so far, relative to that at stake: of their
            motion at the start and of the slope.
    """

    times: np.ndarray
    positions: np.ndarray
    pocketed: np.ndarray
    rest_positions: np.ndarray
    rest_pocketed: np.ndarray
    rest_time: float
    events: tuple[Event, ...]
    fault: str | None
    stop_time: float
    steps: int
    energy_gain: float = 0.0

    @property
    def airborne(self) -> tuple[int, ...]:
        """Return the ids of balls that would have left the cloth, each once: their paths are an approximation."""
        return tuple(dict.fromkeys(event.ball for event in self.events if event.kind == EventKind.AIRBORNE))

    def contacts(self, kind: EventKind) -> int:
        """Return how many events of a kind there were."""
        return sum(event.kind == kind for event in self.events)
