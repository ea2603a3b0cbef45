"""Local polish: robust Gauss-Newton over parameters and the nuisances of each shot.

Nuisances are what no joint state shows: the direction that the tip's offset gives the ball, the error of the measured
tip speed, the time of the strike, and what the rest positions before it were off by. Each has a prior; none survives
into a prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_identify.observations import ShotData
from cue_identify.replay import Replayed, Replayer, Trial
from cue_identify.residuals import differences, outlier_scale, whitened
from cue_identify.resting import restlessness, restlessness_slope
from cue_identify.space import Space

_STEP = 2e-3  # [-] of a parameter's range, for finite differences
_TURN, _GAIN, _SHIFT, _STROKE = 0, 1, 2, 3  # nuisances of the stroke, how many; then the movers' places
_STEPS = {_TURN: 2e-4, _GAIN: 1e-3}  # [rad], [-]; the shift needs no difference
_PLACE_STEP = 5e-5  # [m]
_FINE = 0.3  # [-] of what the samples leave open of an unknown when all others are known: longer steps are not straight
_FINEST = 1e-3  # [-] of the steps above
_DAMPINGS = (0.1, 1.0, 10.0)  # tried side by side, relative to the present one
_DAMPING, _BACK_OFF, _HARDEST = 1e-2, 100.0, 1e5  # at first, where all fail, where to give up
_SETTLED = 0.02  # [-] log-likelihood that a shot's nuisances need not gain any more
_GAIN_FLOOR = 0.01  # [-] chalk, and a tip that meets the ball a millimetre off, change it by as much
_LARGEST_GAIN = 0.3  # [-]
_BADLY = 0.15  # [-] share of outlying samples from which a shot counts as badly explained


@dataclass(frozen=True)
class Point:
    """Where a polish stands.

    Attributes:
        unit: (d,) parameters in the unit box.
        nuisance: per shot its (3 + 2k,) nuisances: turn [rad], relative gain of the tip speed, shift of the strike
            time [s], then x and y of each mover's position before the shot [m].
    """

    unit: np.ndarray
    nuisance: tuple[np.ndarray, ...]

    @classmethod
    def at(cls, unit: np.ndarray, shots: Sequence[ShotData]) -> Point:
        """Return parameters (d,) with the nuisances that the observations alone suggest."""
        return cls(unit, tuple(np.r_[shot.turn, np.zeros(2 + 2 * len(shot.movers))] for shot in shots))

    def trials(self, space: Space, shots: Sequence[ShotData]) -> list[Trial]:
        """Return one trial per shot."""
        values = space.values(self.unit)
        return [_trial(shot, values, n) for shot, n in zip(shots, self.nuisance, strict=True)]


def _trial(shot: ShotData, values: np.ndarray, nuisance: np.ndarray) -> Trial:
    offsets = nuisance[_STROKE:].reshape(-1, 2)
    turn, gain, shift = map(float, nuisance[:_STROKE])
    return Trial(shot, values, turn, gain, shift, offsets if offsets.any() else None)


@dataclass(frozen=True)
class Linearised:
    """The normal equations at a point, over parameters, then the nuisances shot by shot, priors included.

    Attributes:
        hessian: (u, u) Gauss-Newton matrix.
        gradient: (u,).
        moved: (u,) bool: unknowns that were moved; the others have their prior alone.
        residuals: per shot the (m, 2) residuals in standard deviations.
        weights: per shot the (m,) robust weights, 1 = counts fully.
        scores: (shots, d) each shot's own gradient by the parameters, its nuisances at their best, without the prior.
        informations: (shots, d, d) the curvature of each shot's loss by the parameters, the same way.
    """

    hessian: np.ndarray
    gradient: np.ndarray
    moved: np.ndarray
    residuals: list[np.ndarray]
    weights: list[np.ndarray]
    scores: np.ndarray
    informations: np.ndarray


class Polish:
    """Least squares with the robust loss (s^2 / 2) log(1 + (r / s)^2), r in standard deviations of the samples."""

    def __init__(
        self,
        replayer: Replayer,
        shots: Sequence[ShotData],
        space: Space,
        scale: float,
        prior: np.ndarray,
        places: bool = False,
    ) -> None:
        """Set up.

        Args:
            replayer: runs the simulations.
            shots: to fit.
            space: of the parameters.
            scale: where a residual starts to count as an outlier [m]; s is that in standard deviations, 2 at least.
            prior: (d,) where parameters stay that the shots say nothing about, in the unit box.
            places: the movers' positions before the shot are nuisances too. A tenth of a millimetre matters after
                two contacts; without it what they cause is blamed on the parameters.
        """
        self._replayer, self._shots, self._space = replayer, list(shots), space
        self._prior, self._places = prior, places
        self._scales = [outlier_scale(shot, scale) for shot in self._shots]
        self._precision = 1.0 / space.prior_stddev**2
        self._spread = [
            np.r_[s.turn_prior, _gain_prior(s), s.strike_stddev, np.repeat(s.mover_stddev, 2)] for s in self._shots
        ]
        self._unit_steps = np.full(len(prior), _STEP)
        self._nuisance_steps = [_first_steps(spread) for spread in self._spread]

    def objective(self, point: Point, replayed: Sequence[Replayed]) -> float:
        """Return the objective of a replayed point."""
        total = 0.5 * float(np.sum(self._precision * (point.unit - self._prior) ** 2))
        total += 0.5 * restlessness(self._space.values(point.unit)) ** 2
        return total + float(np.sum(self.losses(point, replayed)))

    def losses(self, point: Point, replayed: Sequence[Replayed]) -> np.ndarray:
        """Return what each shot adds to the objective (shots,)."""
        parts = zip(range(len(self._shots)), replayed, point.nuisance, strict=True)
        return np.array([self._part(i, result, nuisance) for i, result, nuisance in parts])

    def _part(self, i: int, replayed: Replayed, nuisance: np.ndarray) -> float:
        """Return what shot ``i`` adds to the objective."""
        shot = self._shots[i]
        square = np.sum(whitened(shot, differences(shot, replayed)) ** 2, axis=1)
        limit = self._scales[i] ** 2
        loss = float(np.sum(limit * np.log1p(square / limit)))
        return 0.5 * (loss + float(np.sum((nuisance / self._spread[i]) ** 2)))

    def unexplained(self, replayed: Sequence[Replayed]) -> np.ndarray:
        """Tell (shots,) which shots have a good share of outlying samples."""
        shares = [
            1.0 if r.fault else np.mean(np.sum(whitened(s, differences(s, r)) ** 2, axis=1) > limit**2)
            for s, r, limit in zip(self._shots, replayed, self._scales, strict=True)
        ]
        return np.array(shares) > _BADLY

    def scatter(self, point: Point, rng: np.random.Generator, draws: int) -> Point:
        """Return the point with better nuisances for shots that are explained badly, where chance finds some.

        After a few contacts a tenth of a degree decides which ball is hit: no gradient leads back from there.
        """
        base = self._replayer.run(point.trials(self._space, self._shots))
        values, found = self._space.values(point.unit), list(point.nuisance)
        for i in np.flatnonzero(self.unexplained(base)).tolist():
            shot, result = self._shots[i], base[i]
            if self._replayer.budget.left() < draws:
                break
            middle = np.zeros(len(found[i]))
            middle[_TURN] = shot.turn
            half = np.where(np.arange(draws) % 2, 1.0, 0.3)[:, None]  # near ones too: most optima are narrow
            guesses = middle + half * self._spread[i] * rng.standard_normal((draws, len(middle)))
            tried = self._replayer.run([_trial(shot, values, guess) for guess in guesses])
            costs = [self._part(i, r, guess) for r, guess in zip(tried, guesses, strict=True)]
            best = int(np.argmin(costs))
            if costs[best] < self._part(i, result, found[i]):
                found[i] = guesses[best]
        return Point(point.unit, tuple(found))

    def settle(self, point: Point, iterations: int) -> tuple[Point, np.ndarray, list[Replayed]]:
        """Descend in the nuisances alone, each shot for itself; return the point, each shot's part, and its replay."""
        shots, values, count = self._shots, self._space.values(point.unit), len(self._shots)
        nuisance, base = list(point.nuisance), self._replayer.run(point.trials(self._space, self._shots))
        parts = np.array([self._part(i, base[i], nuisance[i]) for i in range(count)])
        damping = np.full(count, _DAMPING)
        left = [i for i in range(count) if not base[i].fault]
        for _ in range(iterations):
            if not left or self._replayer.budget.left() < sum(len(nuisance[i]) + len(_DAMPINGS) for i in left):
                break
            here = Point(point.unit, tuple(nuisance))
            jacobians = self._jacobians(here, base, np.zeros(len(point.unit), bool), 1.0, left)
            guesses: list[np.ndarray] = []
            for i in left:
                hessian, gradient = self._nuisance_equations(i, base[i], nuisance[i], jacobians[i])
                for factor in _DAMPINGS:
                    ridge = damping[i] * factor * np.diag(np.diag(hessian))
                    guesses.append(_possible(nuisance[i] - np.linalg.solve(hessian + ridge, gradient)))
            owners = [i for i in left for _ in _DAMPINGS]
            tried = self._replayer.run([_trial(shots[i], values, g) for i, g in zip(owners, guesses, strict=True)])
            going = []
            for place, i in enumerate(left):
                own = range(place * len(_DAMPINGS), (place + 1) * len(_DAMPINGS))
                costs = [self._part(i, tried[k], guesses[k]) for k in own]
                best = int(np.argmin(costs))
                gained = parts[i] - costs[best]
                damping[i] *= _DAMPINGS[best] if gained > 0 else _BACK_OFF
                if gained > 0:
                    parts[i], nuisance[i], base[i] = costs[best], guesses[own[best]], tried[own[best]]
                if gained > _SETTLED or (gained <= 0 and damping[i] < _HARDEST):
                    going.append(i)
            left = going
        return Point(point.unit, tuple(nuisance)), parts, base

    def _nuisance_equations(
        self, i: int, base: Replayed, nuisance: np.ndarray, jacobian: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the Gauss-Newton matrix and gradient by the nuisances of shot ``i`` alone; renews its steps."""
        r = whitened(self._shots[i], differences(self._shots[i], base))
        weights = 1.0 / (1.0 + np.sum(r**2, axis=1) / self._scales[i] ** 2)
        flat = jacobian[:, :, -len(nuisance) :].reshape(-1, len(nuisance))
        weighted = flat * np.repeat(weights, 2)[:, None]
        known = 1.0 / self._spread[i] ** 2
        hessian = weighted.T @ flat + np.diag(known)
        self._nuisance_steps[i] = _finer(_first_steps(known), np.diag(hessian))
        return hessian, weighted.T @ r.reshape(-1) + nuisance * known

    def linearise(
        self, point: Point, base: Sequence[Replayed], active: np.ndarray, cautious: bool = False
    ) -> Linearised:
        """Return the normal equations by finite differences.

        Args:
            point: where.
            base: its replayed shots.
            active: (d,) bool, the parameters to move.
            cautious: leave out samples whose differences to both sides disagree. A difference across a contact that
                just happens or not is huge and means nothing; an error bar must not rest on it.
        """
        jacobians = self._jacobians(point, base, active, 1.0)
        trusted = [np.ones(len(j), bool) for j in jacobians]
        if cautious:
            others = self._jacobians(point, base, active, -1.0)
            trusted = [_agree(a, b) for a, b in zip(jacobians, others, strict=True)]
            jacobians = [0.5 * (a + b) for a, b in zip(jacobians, others, strict=True)]
        d = len(point.unit)
        size = d + sum(len(n) for n in point.nuisance)
        hessian, gradient, moved = np.zeros((size, size)), np.zeros(size), np.zeros(size, bool)
        hessian[np.arange(d), np.arange(d)] = self._precision
        gradient[:d] = self._precision * (point.unit - self._prior)
        steep = restlessness_slope(self._space, point.unit)
        hessian[:d, :d] += np.outer(steep, steep)
        gradient[:d] += steep * restlessness(self._space.values(point.unit))
        moved[:d] = active
        residuals, weights, scores, informations, first = [], [], [], [], d
        for i, (shot, nuisance) in enumerate(zip(self._shots, point.nuisance, strict=True)):
            r = whitened(shot, differences(shot, base[i]))
            w = trusted[i] / (1.0 + np.sum(r**2, axis=1) / self._scales[i] ** 2)
            residuals.append(r)
            weights.append(w)
            own = np.arange(first, first + len(nuisance))
            first += len(nuisance)
            moved[own[: _STROKE + (len(nuisance) if self._places else 0)]] = True
            at = np.r_[np.arange(d), own]
            flat = jacobians[i].reshape(-1, len(at))
            weighted = flat * np.repeat(w, 2)[:, None]
            block = weighted.T @ flat
            hessian[np.ix_(at, at)] += block
            slope = weighted.T @ r.reshape(-1)
            gradient[at] += slope
            known = 1.0 / self._spread[i] ** 2
            self._nuisance_steps[i] = _finer(_first_steps(known), np.diag(block)[d:] + known)
            # The curvature of the robust loss, in the mean over the directions of a residual, is w^2, not w.
            curved = (flat * np.repeat(w**2, 2)[:, None]).T @ flat
            inner = curved[d:, d:] + np.diag(known)
            pull = slope[d:] + nuisance * known
            taken = np.linalg.solve(inner, np.c_[pull, curved[d:, :d]])
            scores.append(slope[:d] - curved[:d, d:] @ taken[:, 0])
            informations.append(curved[:d, :d] - curved[:d, d:] @ taken[:, 1:])
            hessian[own, own] += known
            gradient[own] += nuisance * known
        self._unit_steps = np.where(active, _finer(np.full(d, _STEP), np.diag(hessian)[:d]), self._unit_steps)
        return Linearised(hessian, gradient, moved, residuals, weights, np.array(scores), np.array(informations))

    def _jacobians(
        self,
        point: Point,
        base: Sequence[Replayed],
        active: np.ndarray,
        side: float,
        places: Sequence[int] | None = None,
    ) -> list[np.ndarray]:
        """Return per shot the (m, 2, d + nuisances) derivatives of the residuals, by steps to one ``side`` (+1, -1).

        Zero for shots that are not among ``places``; None = all.
        """
        wanted = range(len(self._shots)) if places is None else places
        d = len(point.unit)
        found = [np.zeros((len(s.observed), 2, d + len(n))) for s, n in zip(self._shots, point.nuisance, strict=True)]
        moves: list[tuple[int, int, float]] = []  # shot, column, step
        plain = self._space.values(point.unit)
        for i in wanted:
            for j in np.flatnonzero(active):
                step = side * self._unit_steps[j]
                moves.append((i, int(j), step if 0.0 <= point.unit[j] + step <= 1.0 else -step))
            nuisances = (_TURN, _GAIN, *range(_STROKE, len(point.nuisance[i]) if self._places else _STROKE))
            moves.extend((i, d + k, side * self._nuisance_steps[i][k]) for k in nuisances)
        results = self._replayer.run([self._stepped(point, plain, *move) for move in moves])
        # Where the twin fails one step on, the step to the other side may do.
        failed = [k for k, result in enumerate(results) if result.fault and not base[moves[k][0]].fault]
        for k in failed:
            i, column, step = moves[k]
            moves[k] = i, column, -step
        again = self._replayer.run([self._stepped(point, plain, *moves[k]) for k in failed])
        for k, result in zip(failed, again, strict=True):
            results[k] = result
        for (i, column, step), result in zip(moves, results, strict=True):
            if not result.fault and not base[i].fault:  # a failed sample says nothing about a derivative
                change = differences(self._shots[i], result) - differences(self._shots[i], base[i])
                found[i][:, :, column] = whitened(self._shots[i], change / step)
        for shot, result, jacobian in zip(self._shots, base, found, strict=True):
            jacobian[:, :, d + _SHIFT] = whitened(shot, result.velocity)
        return found

    def _stepped(self, point: Point, plain: np.ndarray, i: int, column: int, step: float) -> Trial:
        """Return the trial of shot ``i`` with the unknown of a column moved by ``step``."""
        unit, nuisance, d = point.unit, point.nuisance[i], len(point.unit)
        if column < d:
            unit = unit.copy()
            unit[column] += step
            return _trial(self._shots[i], self._space.values(unit), nuisance)
        nuisance = nuisance.copy()
        nuisance[column - d] += step
        return _trial(self._shots[i], plain, nuisance)

    def run(
        self, start: Point, active: np.ndarray, iterations: int, tolerance: float = 0.05
    ) -> tuple[Point, float, list[Replayed]]:
        """Descend from ``start``; return the best point, its objective, and its replayed shots.

        Stops when a step gains less than ``tolerance``: a fraction of a log-likelihood unit is below any error bar.
        """
        point, count = start, len(self._shots)
        base = self._replayer.run(point.trials(self._space, self._shots))
        cost, damping = self.objective(point, base), _DAMPING
        unknowns = int(active.sum()) + 2
        a_step = sum(unknowns + len(_DAMPINGS) + (2 * len(s.movers) if self._places else 0) for s in self._shots)
        for _ in range(iterations):
            if self._replayer.budget.left() < a_step:
                break
            lines = self.linearise(point, base, active)
            candidates = [self._moved(point, lines, damping * factor) for factor in _DAMPINGS]
            replayed = self._replayer.run([t for c in candidates for t in c.trials(self._space, self._shots)])
            groups = [replayed[i * count : (i + 1) * count] for i in range(len(candidates))]
            costs = [self.objective(c, g) for c, g in zip(candidates, groups, strict=True)]
            best = int(np.argmin(costs))
            if costs[best] >= cost:
                damping *= _BACK_OFF
                if damping > _HARDEST:
                    break
                continue
            gained = cost - costs[best]
            point, base, cost = candidates[best], groups[best], costs[best]
            damping = max(damping * _DAMPINGS[best], 1e-6)
            if gained < tolerance:
                break
        return point, cost, base

    def _moved(self, point: Point, lines: Linearised, damping: float) -> Point:
        """Return the point after one damped step; parameters pushed against a bound stay there."""
        d = len(point.unit)
        free = lines.moved.copy()
        while True:
            step = np.zeros(len(free))
            h = lines.hessian[np.ix_(free, free)]
            # Damped by what is known of each unknown when the others may follow: along a valley, where a parameter and
            # every shot's gain change together, damping by the diagonal itself would bring all to a halt.
            ridge = damping / np.maximum(np.diag(np.linalg.inv(h)), 1e-300)
            step[free] = -np.linalg.solve(h + np.diag(ridge), lines.gradient[free])
            unit = point.unit + step[:d]
            stuck = free[:d] & (((unit < 0) & (point.unit <= 0)) | ((unit > 1) & (point.unit >= 1)))
            if not stuck.any():
                break
            free[:d] &= ~stuck
        ends = np.cumsum([len(n) for n in point.nuisance])[:-1]
        moves = np.split(step[d:], ends)
        nuisance = tuple(n + m for n, m in zip(point.nuisance, moves, strict=True))
        return Point(np.clip(unit, 0.0, 1.0), tuple(map(_possible, nuisance)))


def _possible(nuisance: np.ndarray) -> np.ndarray:
    """Return nuisances (3 + 2k,) whose gain leaves a stroke forwards."""
    nuisance[_GAIN] = np.clip(nuisance[_GAIN], -_LARGEST_GAIN, _LARGEST_GAIN)
    return nuisance


def _first_steps(like: np.ndarray) -> np.ndarray:
    """Return (3 + 2k,) steps of a shot's nuisances, before anything is known of how much they matter."""
    steps = np.full(len(like), _PLACE_STEP)
    steps[[_TURN, _GAIN]] = _STEPS[_TURN], _STEPS[_GAIN]
    return steps


def _finer(steps: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return steps no longer than what ``precision``, the diagonal of a Gauss-Newton matrix, leaves straight."""
    return np.clip(_FINE / np.sqrt(np.maximum(precision, 1e-300)), _FINEST * steps, steps)


def _agree(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Tell (m,) for which samples derivatives (m, 2, u) taken to both sides agree within a factor of three."""
    change = np.linalg.norm(one - other, axis=1)
    size = np.linalg.norm(one, axis=1) + np.linalg.norm(other, axis=1)
    floor = 0.02 * size.max(axis=0, initial=0.0)  # where a column hardly matters, its rounding does not either
    return np.all(change <= 0.5 * size + floor, axis=1)


def _gain_prior(shot: ShotData) -> float:
    """Return the relative standard deviation of what a stroke of the measured tip speed gives the ball."""
    return max(shot.stroke.tip_speed_stddev / shot.stroke.tip_speed, _GAIN_FLOOR)
