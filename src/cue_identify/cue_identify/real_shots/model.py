"""The twin of the match table: from terms and initial states to where the struck balls are seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.real_shots.recording import MATCH_TABLE
from cue_identify.real_shots.terms import TERMS, Term, terms_of
from cue_identify.real_shots.tracks import Track
from cue_sim.twin import Start, Twin

BALL = 1
"""Id of the one ball that each simulation holds: nothing else is on the table until a track ends."""

THROW_SPREAD = 0.03
"""How much either share of the friction differs from what friction and cut angle say: the striker's spin, unknown,
changes it by about half of the friction between balls."""

_MEAN_COS = math.pi / 4  # of cut angles, where all offsets between the centres' paths are as likely
_GRAVITY = 9.81


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

    def named(self, values: np.ndarray) -> dict[str, float]:
        """Return a vector of values (K,) by the terms' names."""
        return dict(zip((term.name for term in self.terms), map(float, values), strict=True))

    def predict(self, tracks: Sequence[Track], values: np.ndarray, spins: np.ndarray | None = None) -> list[np.ndarray]:
        """Return where each track's ball is at its scored times, (T, 2) [m], table frame; NaN where the twin fails.

        Args:
            tracks: whose initial states are played.
            values: (K,) in the order of :attr:`terms`, within their limits.
            spins: (n, 2) by how many standard deviations the hit's backspin and side spin differ from what is
                expected; None = not at all.
        """
        if not tracks:
            return []
        value = self.named(values)
        twin, centre = self.twin(values)
        times = [track.times for track in tracks]
        offsets = np.zeros((len(tracks), 2)) if spins is None else spins
        paths = twin.simulate_batch(
            [start_state(track, value, centre, offset) for track, offset in zip(tracks, offsets, strict=True)],
            self.parameters(values),
            times,
            horizon=max(float(t[-1]) for t in times) + 1e-6,
            threads=self._threads,
        )
        return [
            path.positions[:, 0] + centre if path.fault is None else np.full((len(path.times), 2), np.nan)
            for path in paths
        ]

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


class HitSpin(NamedTuple):
    """The spin that a hit gives to a ball [rad/s]: backspin, side spin about the vertical, and how well each is known.

    The last two are standard deviations.
    """

    back: float
    side: float
    back_stddev: float
    side_stddev: float


def hit_spin(track: Track, friction: float) -> HitSpin:
    """Return the spin that the hit gives to a ball.

    Friction acts at the contact against the slip: sideways v sin(cut), and downwards at the striker's front v cos(cut)
    if it rolls. It throws the ball off the line of centres by the angle whose tangent is its sideways share, and it
    leaves spins of 5/2 times its shares, in v/R (Alciatore TP A-14). A striker with side spin slips otherwise; so the
    throw is taken as measured, as far as the measurement is better than what friction and cut angle say.

    Args:
        track: whose hit.
        friction: between the balls.
    """
    size = 2.5 * track.hit_speed / MATCH_TABLE.ball_radius
    unsure = size * THROW_SPREAD
    striker = track.striker
    if striker is None:
        return HitSpin(size * friction * _MEAN_COS, 0.0, unsure, size * math.hypot(friction * _MEAN_COS, THROW_SPREAD))
    usual = friction * math.sin(striker.cut)
    trust = THROW_SPREAD**2 / (THROW_SPREAD**2 + striker.throw_stddev**2)
    sideways = usual + trust * (math.tan(striker.throw) - usual)
    return HitSpin(size * friction * math.cos(striker.cut), -size * sideways, unsure, unsure * math.sqrt(1 - trust))


def start_state(
    track: Track, value: Mapping[str, float], centre: np.ndarray, offset: np.ndarray | None = None
) -> Start:
    """Return the state that a simulation of a track starts from.

    Args:
        track: its place, velocity and hit.
        value: of the terms, by name.
        centre: (2,) of the simulated table in the recording's table frame [m].
        offset: (2,) of backspin and side spin from what is expected, in standard deviations; None = none.
    """
    hit = hit_spin(track, value["ball_friction"])
    back, side = hit.back, hit.side
    if offset is not None:
        back += float(offset[0]) * hit.back_stddev
        side += float(offset[1]) * hit.side_stddev
    # Since the hit the cloth has turned the ball forwards, at most until it rolls.
    radius, moved = MATCH_TABLE.ball_radius, track.sliding_time
    gained = 2.5 * value["sliding_friction"] * _GRAVITY * moved / radius
    top = min(gained - back, float(np.hypot(*track.start_velocity)) / radius)
    side -= math.copysign(min(value["spinning_deceleration"] * moved, abs(side)), side)
    spin = [-top * math.sin(track.direction), top * math.cos(track.direction), side]
    return Start((track.start_position - centre)[None], track.start_velocity[None], np.array([spin]), np.ones(1, bool))
