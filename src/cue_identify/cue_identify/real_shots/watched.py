"""Mode B: tracks watched a little longer, until the first rebound shows what the hit left open.

What stays unknown of a struck ball at its start, above all its spin, shows where it rebounds. So two states are found,
each by what was seen and as far as it was believed before (maxima a posteriori): first the one at the start, whose
place, velocity and spin explain the samples until 0.4 s after the first rebound. Played to just after the rebound it
says what to believe of the second state there, which explains the samples since. The second one is what goes on: the
cushion's law errs by some degrees, and the ball need not pay for that twice. The terms of the table stay as they were
fitted on other shots. Samples later than 0.4 s after the rebound are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_identify.real_shots.descent import descend_each
from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.recording import MATCH_TABLE
from cue_identify.real_shots.tracks import Track
from cue_sim.twin import Start

WATCHED = 0.4
"""How long after the first rebound a ball is watched [s]."""

_LEAST_SCORED = 3  # samples
_LOST = 5.0  # [m] error where the twin fails
# The start: standard deviations of place, velocity and spin
_PLACE = 1e-3  # [m] along and across
_SPEED, _LEAST_SPEED = 0.006, 0.004  # relative, and [m/s]: of its speed, which is told with a usual friction
_HEADING, _LEAST_ASIDE = 0.004, 0.003  # [rad], and [m/s]: of its direction
_SPREAD = 2.0  # of the spin, in what the hit leaves open: so that a striker with unusual spin is not ruled out
_NOISE = 1e-3, 2e-3  # [m] of samples before and after the rebound, where the cushion's law errs too
_STARTS = ((0.0, 0.0), (0.0, 1.3), (0.0, -1.3), (1.3, 0.0), (-1.3, 0.0))
"""Where the search for the spin begins: a cushion's friction has several ways to explain one rebound."""
# Just after the rebound: by how much the cushion's law may be off
_AFTER = 0.03  # [s] after the rebound's sample: a frame and a half, so that it is over
_PLACE_AFTER = 3e-3  # [m]
_SPEED_AFTER, _HEADING_AFTER = 0.05, 0.02  # relative, [rad]
_SPIN_AFTER = 0.1  # about each axis, in speed/R
_CLEAN = 1e-3  # [m] noise of samples


@dataclass(frozen=True)
class Watched:
    """What was inferred of tracks.

    Attributes:
        tracks: those with enough samples left to score, holding only these.
        predicted: (T, 2) for each [m].
    """

    tracks: list[Track]
    predicted: list[np.ndarray]


def watch(model: MatchModel, tracks: Sequence[Track], values: np.ndarray) -> Watched:
    """Return predictions of what tracks did later than 0.4 s after their first rebound.

    Args:
        model: with the terms' values (K,).
        tracks: any; those without a rebound, or with less than three later samples, are left out.
        values: of the model's terms.
    """
    chosen = [(track, until) for track in tracks if (until := _until(track)) is not None]
    if not chosen:
        return Watched([], [])
    early = tuple(_part(track, track.times <= until) for track, until in chosen)
    late = [_part(track, track.times > until) for track, until in chosen]
    spins, moved = _at_start(model, early, values)
    predicted = model.predict(late, values, spins, moved)
    for i, path in _renewed(model, early, late, values, spins, moved).items():
        predicted[i] = path
    return Watched(late, predicted)


def _until(track: Track) -> float | None:
    """Return when watching ends [s] after the start; None where nothing is left to score."""
    if not track.rebounds:
        return None
    until = track.rebounds[0][0] - track.start_time + WATCHED
    return until if np.sum(track.times > until) >= _LEAST_SCORED else None


def _part(track: Track, rows: np.ndarray) -> Track:
    return replace(
        track,
        times=track.times[rows],
        positions=track.positions[rows],
        rebounds_before=track.rebounds_before[rows],
    )


def _along(velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return speed (n,), and directions along and to the left of velocities (n, 2)."""
    speed = np.hypot(*velocity.T)
    ahead = velocity / np.maximum(speed, 1e-9)[:, None]
    return speed, ahead, np.column_stack([-ahead[:, 1], ahead[:, 0]])


def _at_start(model: MatchModel, tracks: tuple[Track, ...], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return spins (n, 2) and moves (n, 4), as :meth:`MatchModel.predict` takes them, that explain tracks."""
    speed, ahead, left = _along(np.array([track.start_velocity for track in tracks]))
    # (n, 4, 4): what each of four numbers does to place and velocity
    reach = np.zeros((len(tracks), 4, 4))
    reach[:, :2, 0], reach[:, :2, 1] = _PLACE * ahead, _PLACE * left
    reach[:, 2:, 2] = np.maximum(_SPEED * speed, _LEAST_SPEED)[:, None] * ahead
    reach[:, 2:, 3] = np.maximum(_HEADING * speed, _LEAST_ASIDE)[:, None] * left
    owner = np.repeat(np.arange(len(tracks)), [len(track.times) for track in tracks])
    observed = np.concatenate([track.positions for track in tracks])
    after = np.concatenate([track.rebounds_before for track in tracks]) > 0
    noise = np.where(after, _NOISE[1], _NOISE[0])[:, None]

    def given(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _SPREAD * x[:, 4:], np.einsum("nij,nj->ni", reach, x[:, :4])

    def errors(x: np.ndarray) -> np.ndarray:
        predicted = np.concatenate(model.predict(tracks, values, *given(x)))
        return np.nan_to_num(predicted - observed, nan=_LOST) / noise

    best, cost = np.zeros((len(tracks), 6)), np.full(len(tracks), np.inf)
    for start in _STARTS:
        first = np.zeros((len(tracks), 6))
        first[:, 4:] = start
        found, found_cost = descend_each(errors, owner, first)
        better = found_cost < cost
        best[better], cost[better] = found[better], found_cost[better]
    return given(best)


def _renewed(
    model: MatchModel,
    early: Sequence[Track],
    late: Sequence[Track],
    values: np.ndarray,
    spins: np.ndarray,
    moved: np.ndarray,
) -> dict[int, np.ndarray]:
    """Return predictions (T, 2) of late samples from a state just after the rebound, by place among the tracks.

    A ball that the twin has not seen rebound just once by then is left out.
    """
    begins = np.array([track.rebounds[0][0] - track.start_time + _AFTER for track in early])
    states = model.states(early, values, spins, moved, begins)
    usable = [
        i
        for i, (state, track) in enumerate(zip(states, early, strict=True))
        if state is not None and state.contacts == 1 and np.sum(track.times > begins[i]) >= _LEAST_SCORED
    ]
    if not usable:
        return {}
    place, velocity, spin = (
        np.array([getattr(states[i], name) for i in usable]) for name in ("position", "velocity", "spin")
    )
    speed, ahead, left = _along(velocity)
    since = [early[i].times[early[i].times > begins[i]] - begins[i] for i in usable]
    observed = np.concatenate([early[i].positions[early[i].times > begins[i]] for i in usable])
    owner = np.repeat(np.arange(len(usable)), [len(times) for times in since])
    radius = MATCH_TABLE.ball_radius

    def starts(x: np.ndarray) -> list[Start]:
        change = speed[:, None] * (_SPEED_AFTER * x[:, 2:3] * ahead + _HEADING_AFTER * x[:, 3:4] * left)
        turning = spin + _SPIN_AFTER * (speed / radius)[:, None] * x[:, 4:]
        turning[:, :2] += np.column_stack([-change[:, 1], change[:, 0]]) / radius  # a ball that rolls still does
        where = place + _PLACE_AFTER * (x[:, :1] * ahead + x[:, 1:2] * left)
        return [
            Start(where[i, None], (velocity + change)[i, None], turning[i, None], np.ones(1, bool))
            for i in range(len(x))
        ]

    def errors(x: np.ndarray) -> np.ndarray:
        predicted = np.concatenate(model.play(starts(x), since, values))
        return np.nan_to_num(predicted - observed, nan=_LOST) / _CLEAN

    best, _ = descend_each(errors, owner, np.zeros((len(usable), 7)))
    paths = model.play(starts(best), [late[i].times - begins[i] for i in usable], values)
    return {i: path for i, path in zip(usable, paths, strict=True) if np.isfinite(path).all()}
