"""The twin of the match table: from terms and initial states to where the struck balls are seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np

from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.real_shots.hits import Hits
from cue_identify.real_shots.recording import MATCH_TABLE
from cue_identify.real_shots.terms import TERMS, Term, terms_of
from cue_identify.real_shots.tracks import GRAVITY, Track
from cue_sim import kernel
from cue_sim.kernel import EventKind
from cue_sim.laws import Laws
from cue_sim.twin import Start, Twin

BALL = 1
"""Id of the one ball that each simulation holds: nothing else is on the table until a track ends."""


class State(NamedTuple):
    """A ball at one instant: (2,) m in the recording's table frame, (2,) m/s, (3,) rad/s, and cushions met so far."""

    position: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray
    contacts: int


class MatchModel:
    """Predicts tracks with one cushion law.

    Attributes:
        cushion_law: its name.
        terms: what a vector of values holds, in order.
    """

    def __init__(self, cushion_law: str = "coulomb", threads: int | None = None) -> None:
        """Look the law up.

        Args:
            cushion_law: a name of ``cue_sim.laws.available("cushion")``.
            threads: None = one per CPU core; the result is the same.

        Raises:
            UnknownNameError: no such law.
        """
        self.cushion_law = cushion_law
        self.terms: tuple[Term, ...] = terms_of(cushion_law)
        self._threads = threads
        self._last: tuple[tuple[Track, ...], Hits] | None = None

    def named(self, values: np.ndarray) -> dict[str, float]:
        """Return a vector of values (K,) by the terms' names."""
        return dict(zip((term.name for term in self.terms), map(float, values), strict=True))

    def predict(
        self,
        tracks: Sequence[Track],
        values: np.ndarray,
        spins: np.ndarray | None = None,
        moved: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Return where each track's ball is at its scored times, (T, 2) [m], table frame; NaN where the twin fails.

        Args:
            tracks: whose initial states are played.
            values: (K,) in the order of :attr:`terms`, within their limits.
            spins: (n, 2) by how many standard deviations the hit's backspin and side spin differ from what is
                expected; None = not at all.
            moved: (n, 4) what place [m] and velocity [m/s] at the start differ by from those measured.
        """
        if not tracks:
            return []
        starts = start_states(tracks, self.named(values), np.zeros(2), spins, moved, self._hits_of(tracks))
        return self.play(starts, [track.times for track in tracks], values)

    def play(self, starts: Sequence[Start], times: Sequence[np.ndarray], values: np.ndarray) -> list[np.ndarray]:
        """Return where balls are, each alone on the table, (T, 2) [m], table frame; NaN where the twin fails.

        Args:
            starts: of one ball each, in the recording's table frame.
            times: (T,) for each [s], increasing.
            values: (K,) in the order of :attr:`terms`, within their limits.
        """
        twin, centre = self.twin(values)
        paths = twin.simulate_batch(
            [replace(start, positions=start.positions - centre) for start in starts],
            self.parameters(values),
            times,
            horizon=max(float(t[-1]) if len(t) else 0.0 for t in times) + 1e-6,
            threads=self._threads,
        )
        return [
            path.positions[:, 0] + centre if path.fault is None else np.full((len(path.times), 2), np.nan)
            for path in paths
        ]

    def states(
        self,
        tracks: Sequence[Track],
        values: np.ndarray,
        spins: np.ndarray,
        moved: np.ndarray,
        times: np.ndarray,
    ) -> list[State | None]:
        """Return the balls' states so long after their starts, None where the twin fails.

        Args:
            tracks: as for :meth:`predict`.
            values: the same.
            spins: the same.
            moved: the same.
            times: (n,) [s].
        """
        twin, centre = self.twin(values)
        laws = Laws.from_parameters(self.parameters(values), **twin.extras)
        data, in_play = mujoco.MjData(twin.model), np.ones(1, np.int32)
        states: list[State | None] = []
        starts = start_states(tracks, self.named(values), centre, spins, moved)
        for start, until in zip(starts, times, strict=True):
            kernel.start(twin.model, data, twin.layout, start.positions, start.velocities, start.spins, in_play)
            outcome = kernel.advance(twin.model, data, twin.layout, laws, in_play, float(until))
            states.append(
                None
                if outcome.fault is not None
                else State(
                    twin.layout.positions(data)[0] + centre,
                    twin.layout.velocities(data)[0].copy(),
                    twin.layout.spins(data)[0].copy(),
                    sum(event.kind == EventKind.CUSHION for event in outcome.events),
                )
            )
        return states

    def _hits_of(self, tracks: Sequence[Track]) -> Hits:
        """Return the hits of tracks, those of the last tuple from memory: a fit asks for the same ones each time."""
        if not isinstance(tracks, tuple):
            return Hits(tracks)
        if self._last is None or self._last[0] is not tracks:
            self._last = (tracks, Hits(tracks))
        return self._last[1]

    def parameters(self, values: np.ndarray) -> np.ndarray:
        """Return the twin's (P,) parameters: nominal where no term says otherwise.

        Args:
            values: (K,) in the order of :attr:`terms`.
        """
        value, out = self.named(values), nominal_values()
        for i, name in enumerate(PARAMETERS):
            out[i] = value.get(name, out[i])
        return out

    def twin(self, values: np.ndarray, ball_ids: Sequence[int] = (BALL,)) -> tuple[Twin, np.ndarray]:
        """Return the twin whose contact lines are where the terms put them, and its centre (2,) [m], table frame.

        Args:
            values: (K,) in the order of :attr:`terms`.
            ball_ids: what is on the table.
        """
        value = self.named(values)
        west, east, south, north = (value[f"line_{side}"] for side in ("west", "east", "south", "north"))
        # The terms move contact lines, not noses: so they do not depend on the nose's height.
        shape = replace(MATCH_TABLE, nose_height=value["nose_height"])
        inwards = 2 * (shape.ball_stop - shape.ball_radius)
        table = replace(
            shape,
            length=MATCH_TABLE.length - west - east + inwards,
            width=MATCH_TABLE.width - south - north + inwards,
        )
        extras = {
            "cushion_law": self.cushion_law,
            "cushion_parameters": {term.name: value[term.name] for term in self.terms[len(TERMS) :]},
        }
        return Twin(table, ball_ids, extras=extras), np.array([west - east, south - north]) / 2


def start_states(
    tracks: Sequence[Track],
    value: Mapping[str, float],
    centre: np.ndarray,
    spins: np.ndarray | None = None,
    moved: np.ndarray | None = None,
    hits: Hits | None = None,
) -> list[Start]:
    """Return the states that simulations of tracks start from.

    Args:
        tracks: their places, velocities and hits.
        value: of the terms, by name.
        centre: (2,) of the simulated table in the recording's table frame [m].
        spins: (n, 2) of backspin and side spin from what is expected, in standard deviations; None = none.
        moved: (n, 4) what place [m] and velocity [m/s] differ by from those measured; None = nothing.
        hits: of the tracks, where they are at hand.
    """
    known = hits or Hits(tracks)
    expected, factor = known.spins(value["ball_friction"], value["ball_restitution"], value["sliding_friction"])
    if spins is not None:
        expected = expected + np.einsum("nij,nj->ni", factor, spins)
    radius = MATCH_TABLE.ball_radius
    starts = []
    for i, track in enumerate(tracks):
        place, velocity = track.start_position - centre, track.start_velocity
        if moved is not None:
            place, velocity = place + moved[i, :2], velocity + moved[i, 2:]
        # Since the hit the cloth has turned the ball forwards, at most until it rolls.
        back, side = map(float, expected[i])
        gained = 2.5 * value["sliding_friction"] * GRAVITY * track.sliding_time / radius
        top = min(gained - back, float(np.hypot(*velocity)) / radius)
        side -= math.copysign(min(value["spinning_deceleration"] * track.sliding_time, abs(side)), side)
        spin = [-top * math.sin(track.direction), top * math.cos(track.direction), side]
        starts.append(Start(place[None], velocity[None], np.array([spin]), np.ones(1, bool)))
    return starts
