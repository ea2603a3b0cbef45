"""Mode B: tracks watched a little longer, until the first rebound shows what the hit left open.

What stays unknown of a struck ball at its start, above all its spin, shows where it rebounds. So its place, velocity
and spin are found that explain what was seen until 0.4 s after the first rebound, each as far as it was believed
before (a maximum a posteriori estimate); the terms of the table stay as they were fitted on other shots. Samples later
than that are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.tracks import Track

WATCHED = 0.4
"""How long after the first rebound a ball is watched [s]."""

_LEAST_SCORED = 3  # samples
_PLACE = 1e-3  # [m] standard deviation of the start's place, along and across
_SPEED, _LEAST_SPEED = 0.006, 0.004  # relative, and [m/s]: of its speed, which is told with a usual friction
_HEADING, _LEAST_ASIDE = 0.004, 0.003  # [rad], and [m/s]: of its direction
_SPREAD = 2.0  # of the spin, in what the hit leaves open: so that a striker with unusual spin is not ruled out
_NOISE = 1e-3, 2e-3  # [m] of samples before and after the rebound, where the cushion's law errs too
_OUTLIERS = 2.0  # in variances: a sample further off counts less and less
_STARTS = ((0.0, 0.0), (0.0, 1.3), (0.0, -1.3), (1.3, 0.0), (-1.3, 0.0))
"""Where the search for the spin begins: a cushion's friction has several ways to explain one rebound."""
_ITERATIONS = 15
_TOLERANCE, _PATIENCE = 1e-3, 2  # relative gain of no track, so many times in a row, ends it
_STEP = 1e-2
_LOST = 5.0  # [m] error where the twin fails


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
    early = [_part(track, track.times <= until) for track, until in chosen]
    late = [_part(track, track.times > until) for track, until in chosen]
    spins, moved = _Inference(model, early, values).best()
    return Watched(late, model.predict(late, values, spins, moved))


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


class _Inference:
    """Damped Gauss-Newton for all tracks at once: six numbers each, in standard deviations of what is believed.

    Place and velocity along and across the way, backspin, side spin.
    """

    def __init__(self, model: MatchModel, tracks: Sequence[Track], values: np.ndarray) -> None:
        self.model, self.tracks, self.values = model, tuple(tracks), values
        velocity = np.array([track.start_velocity for track in tracks])
        speed = np.hypot(*velocity.T)
        ahead = np.array([[np.cos(track.direction), np.sin(track.direction)] for track in tracks])
        left = np.column_stack([-ahead[:, 1], ahead[:, 0]])
        # (n, 4, 4): what each number does to place and velocity
        self.reach = np.zeros((len(tracks), 4, 4))
        self.reach[:, :2, 0], self.reach[:, :2, 1] = _PLACE * ahead, _PLACE * left
        self.reach[:, 2:, 2] = np.maximum(_SPEED * speed, _LEAST_SPEED)[:, None] * ahead
        self.reach[:, 2:, 3] = np.maximum(_HEADING * speed, _LEAST_ASIDE)[:, None] * left
        lengths = [len(track.times) for track in tracks]
        self.track = np.repeat(np.arange(len(tracks)), lengths)
        self.observed = np.concatenate([track.positions for track in tracks])
        after = np.concatenate([track.rebounds_before for track in tracks]) > 0
        self.noise = np.where(after, _NOISE[1], _NOISE[0])[:, None]

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return spins (n, 2) and moves (n, 4) as :meth:`MatchModel.predict` takes them."""
        best, cost = self._descend(_STARTS[0])
        for start in _STARTS[1:]:
            found, found_cost = self._descend(start)
            better = found_cost < cost
            best[better], cost[better] = found[better], found_cost[better]
        return self._given(best)

    def _given(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _SPREAD * x[:, 4:], np.einsum("nij,nj->ni", self.reach, x[:, :4])

    def _errors(self, x: np.ndarray) -> np.ndarray:
        predicted = np.concatenate(self.model.predict(self.tracks, self.values, *self._given(x)))
        return np.nan_to_num(predicted - self.observed, nan=_LOST) / self.noise

    def _cost(self, errors: np.ndarray, x: np.ndarray) -> np.ndarray:
        lost = _OUTLIERS * np.log1p(np.sum(errors**2, axis=1) / _OUTLIERS)
        return np.bincount(self.track, lost, minlength=len(x)) + np.sum(x**2, axis=1)

    def _descend(self, start: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        count = len(self.tracks)
        x = np.zeros((count, 6))
        x[:, 4:] = start
        errors = self._errors(x)
        cost, damping = self._cost(errors, x), np.full(count, 1e-2)
        idle = 0
        for _ in range(_ITERATIONS):
            slope = np.empty((*errors.shape, 6))
            for k in range(6):
                moved = x.copy()
                moved[:, k] += _STEP
                slope[..., k] = (self._errors(moved) - errors) / _STEP
            weight = 1 / (1 + np.sum(errors**2, axis=1) / _OUTLIERS)
            normal = np.zeros((count, 6, 6))
            gradient = x.copy()
            np.add.at(normal, self.track, np.einsum("t,tak,tal->tkl", weight, slope, slope))
            np.add.at(gradient, self.track, np.einsum("t,tak,ta->tk", weight, slope, errors))
            normal += np.eye(6)
            damped = normal + damping[:, None, None] * normal * np.eye(6)
            trial = x - np.linalg.solve(damped, gradient[..., None])[..., 0]
            trial_errors = self._errors(trial)
            trial_cost = self._cost(trial_errors, trial)
            good = trial_cost < cost
            done = np.all(cost - trial_cost < _TOLERANCE * cost)
            x[good], cost[good] = trial[good], trial_cost[good]
            errors = np.where(good[self.track, None], trial_errors, errors)
            damping = np.where(good, damping / 4, damping * 5)
            idle = idle + 1 if done else 0
            if idle == _PATIENCE:
                break
        return x, cost
