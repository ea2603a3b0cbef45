"""Fit of the match table's terms to tracks: robust, with weak beliefs, deterministic for a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.checks import finite_in
from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.tracks import Track

_LOST = 5.0  # [m]: error where the twin fails, longer than any table
_STEP = 1e-2  # of a difference quotient, in a term's spread
_TRIES = 6  # of a longer damping before a step counts as none


@dataclass(frozen=True)
class FitConfig:
    """How to fit.

    Attributes:
        scales: one after the other [m]: errors beyond the scale count less and less. The wide one finds the valley,
            the narrow one is about as large as the errors of good predictions.
        evidence: how many independent observations a track is worth: about one for each of its legs between cushions
            and axis, since the samples of a leg err together.
        iterations: at most, per scale.
        restarts: further starts around the best, at the last scale.
        jump: of a restart, in a term's spread.
        tolerance: relative gain below which an iteration is the last.
    """

    scales: tuple[float, ...] = (0.3, 0.15, 0.07)
    evidence: float = 6.0
    iterations: int = 15
    restarts: int = 4
    jump: float = 0.5
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            OutOfRangeError: naming the field and its range.
        """
        finite_in("number of scales", len(self.scales), 1, 100)
        for scale in self.scales:
            finite_in("scale", scale, 1e-3, 10.0, "m")
        finite_in("evidence", self.evidence, 0.01, 1e4)
        finite_in("iterations", self.iterations, 1, 1000)
        finite_in("restarts", self.restarts, 0, 1000)
        finite_in("jump", self.jump, 0.0, 10.0)
        finite_in("tolerance", self.tolerance, 0.0, 0.1)


@dataclass(frozen=True)
class Fit:
    """What a fit found.

    Attributes:
        values: (K,) in the order of the model's terms.
        cost: at the last scale.
        evaluations: predictions of all tracks.
    """

    values: np.ndarray
    cost: float
    evaluations: int


class _Problem:
    """Cost of a guess, all in standard deviations of what is believed: the terms, then two spins of each track's hit.

    Sum over tracks of the mean log(1 + (error/scale)^2), and the beliefs. The logarithm is that of a Cauchy density: a
    track that a rare event threw far off does not pull. The spins of the hits are found along with the terms, or the
    terms would bend to explain them; nobody else learns of them.
    """

    def __init__(self, model: MatchModel, tracks: Sequence[Track], evidence: float) -> None:
        self.model, self.tracks = model, tuple(tracks)
        self.start = np.array([term.start for term in model.terms])
        self.spread = np.array([term.spread for term in model.terms])
        free = np.full(2 * len(tracks), np.inf)
        self.low = np.r_[(np.array([term.low for term in model.terms]) - self.start) / self.spread, -free]
        self.high = np.r_[(np.array([term.high for term in model.terms]) - self.start) / self.spread, free]
        lengths = [len(track.times) for track in tracks]
        self.track = np.repeat(np.arange(len(tracks)), lengths)
        self.share = np.repeat([evidence / n for n in lengths], lengths)
        self.observed = np.concatenate([track.positions for track in tracks])
        self.evaluations = 0

    def values(self, guess: np.ndarray) -> np.ndarray:
        """Return the terms (K,) of a guess in their units."""
        return self.start + guess[: len(self.start)] * self.spread

    def errors(self, guess: np.ndarray) -> np.ndarray:
        """Return (N, 2) predicted less observed [m] at all samples."""
        self.evaluations += 1
        spins = guess[len(self.start) :].reshape(-1, 2)
        predicted = np.concatenate(self.model.predict(self.tracks, self.values(guess), spins))
        return np.nan_to_num(predicted - self.observed, nan=_LOST)

    def cost(self, errors: np.ndarray, guess: np.ndarray, scale: float) -> float:
        return float(self.share @ np.log1p(np.sum(errors**2, axis=1) / scale**2) + guess @ guess)

    def slope(self, guess: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Return (N, 2, K + 2 n) differences of the errors per change of the guess."""
        terms = len(self.start)
        out = np.zeros((*errors.shape, len(guess)))
        for k in range(terms):
            side = -_STEP if guess[k] + _STEP > self.high[k] else _STEP
            moved = guess.copy()
            moved[k] += side
            out[..., k] = (self.errors(moved) - errors) / side
        rows = np.arange(len(errors))
        for k in range(2):  # a hit's spin moves its own track only: all tracks at once
            moved = guess.copy()
            moved[terms + k :: 2] += _STEP
            change = (self.errors(moved) - errors) / _STEP
            for axis in range(2):
                out[rows, axis, terms + k + 2 * self.track] = change[:, axis]
        return out

    def descend(self, guess: np.ndarray, scale: float, config: FitConfig) -> tuple[np.ndarray, float]:
        """Return the end of a damped Gauss-Newton descent with the weights of the present errors."""
        errors = self.errors(guess)
        cost, damping = self.cost(errors, guess, scale), 1e-3
        for _ in range(config.iterations):
            weight = np.sqrt(self.share / (scale**2 + np.sum(errors**2, axis=1)))[:, None]
            slope = (self.slope(guess, errors) * weight[..., None]).reshape(errors.size, -1)
            normal = slope.T @ slope + np.eye(len(guess))
            gradient = slope.T @ (errors * weight).ravel() + guess
            for _ in range(_TRIES):
                step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
                trial = np.clip(guess - step, self.low, self.high)
                trial_errors = self.errors(trial)
                trial_cost = self.cost(trial_errors, trial, scale)
                if trial_cost < cost:
                    break
                damping *= 4
            else:
                return guess, cost
            gain = cost - trial_cost
            guess, errors, cost = trial, trial_errors, trial_cost
            damping = max(damping / 5, 1e-4)
            if gain < config.tolerance * cost:
                break
        return guess, cost


def fit(
    model: MatchModel,
    tracks: Sequence[Track],
    rng: np.random.Generator,
    config: FitConfig | None = None,
    progress: Callable[[float], None] | None = None,
) -> Fit:
    """Return the values of the model's terms that explain the tracks best.

    Args:
        model: what predicts.
        tracks: to explain.
        rng: where restarts jump to.
        config: None = the default.
        progress: told the share done, 0..1.
    """
    config = config or FitConfig()
    problem = _Problem(model, tracks, config.evidence)
    rounds = len(config.scales) + config.restarts
    best, cost = np.zeros(len(model.terms) + 2 * len(tracks)), math.inf
    for done in range(rounds):
        if progress is not None:
            progress(done / rounds)
        scale = config.scales[min(done, len(config.scales) - 1)]
        if done < len(config.scales):
            best, cost = problem.descend(best, scale, config)
            continue
        jump = np.clip(best + config.jump * rng.standard_normal(len(best)), problem.low, problem.high)
        found, found_cost = problem.descend(jump, scale, config)
        if found_cost < cost:
            best, cost = found, found_cost
    return Fit(problem.values(best), cost, problem.evaluations)
