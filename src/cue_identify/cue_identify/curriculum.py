"""The curriculum: from the first contact to whole shots, each stage by CMA-ES, then a polish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cue_identify.chaos import likely_levels, scatter, soften
from cue_identify.errors import FitCode, FitError
from cue_identify.observations import ShotData
from cue_identify.polish import Point, Polish
from cue_identify.replay import Replayed, Replayer, Trial
from cue_identify.residuals import differences, leniency, outlier_distance, robust_cost
from cue_identify.search import cma_search
from cue_identify.space import Space

_NUDGE = 0.05  # [-] of a parameter's range
_MATTERS = 2e-3  # [m] a nudge must move some sample by this much for the parameter to be searched at a stage
_FEELS = 1e-6  # [m] less than this and the twin does not use the parameter at all
_TRACE_STEPS, _SETTLE_STEPS = 4, 6  # iterations of each shot's nuisances
_SHARPEN, _SHARP = 30.0, 1e-4  # the level of softening falls by this much a round; below, to nothing at once
_SPREAD = 1e-3  # [m]
_SECOND_LOOKS = 1  # at shots that stay unexplained, for each stage
_LAST_DRAWS, _LAST_STEPS = 48, 4  # [-] before a shot is left out for good
_HOP, _LONGEST_HOP = 5.0, 0.06  # [standard deviations], [-] of a parameter's range
_HOP_STEPS, _HOP_GAIN = 6, 0.3  # iterations; log-likelihood that is worth a move
_FEWEST_LEADERS = 3  # [-] shots without the unexplained ones
_STAGE_COSTS = 16  # [-] simulations of each shot before a stage descends at all
_FEWEST_LEFT = 500  # [-] simulations that a second look may need
_UNEXPLAINED = 0.5  # [-] mean log(1 + (r / 2 mm)^2): typical residuals of 1.6 mm, more than a tracker's noise
_CONVINCING = 0.05  # [-] level of softening
_HAND = 0.05  # [m]
_FAR = 3.0  # [-] robust scales: a sample this far off tells of something that is no noise
_MOSTLY_FAR = 0.3  # [-] share of such samples from which a shot is left out


@dataclass(frozen=True)
class Stage:
    """One step of the curriculum.

    Attributes:
        name: for people.
        contacts: replay up to this contact; None = the whole shot.
        scale: robust scale [m].
        generations: of CMA-ES; 0 = none.
        step: initial standard deviation of CMA-ES, in unit coordinates.
        polish: Gauss-Newton iterations.
        places: rest positions before the shot are nuisances of the polish.
        draws: of nuisances for each badly explained shot, before the polish.
        traced: nuisances are first found contact by contact, each shot for itself: the same narrow funnel.
        rounds: at most, each with samples that count for as much as the residuals allow by then; 0 = one round in
            which they count for as little as at first.
    """

    name: str
    contacts: int | None
    scale: float
    generations: int
    step: float
    polish: int
    places: bool = False
    draws: int = 0
    traced: bool = False
    rounds: int = 0


_END = (
    Stage("contact by contact", None, 0.01, 0, 0.0, 6, places=True, traced=True),
    Stage("whole shots, fine", None, 0.004, 0, 0.0, 6, places=True, traced=True, rounds=1),
    Stage("polish", None, 0.002, 0, 0.0, 12, places=True, draws=48, rounds=6),
)

LOCAL = (
    Stage("first contact", 1, 0.02, 0, 0.0, 5),
    Stage("second contact", 2, 0.02, 0, 0.0, 5),
    Stage("third contact", 3, 0.01, 0, 0.0, 5),
    Stage("whole shots", None, 0.01, 0, 0.0, 5),
    *_END,
)
"""Early and local first: the funnel of whole shots is narrow, since every contact multiplies what came before."""

CURRICULUM = (
    Stage("first contact, searched", 1, 0.02, 8, 0.25, 6),
    Stage("second contact, searched", 2, 0.02, 10, 0.2, 6),
    Stage("third contact, searched", 3, 0.01, 6, 0.1, 6),
    Stage("whole shots, searched", None, 0.01, 6, 0.05, 6),
    *_END,
)
"""The same with CMA-ES before every descent, three times as long: where slopes alone did not lead there."""

REFIT = _END
"""From near the optimum: the funnel has been found."""

AGAIN = (
    Stage("contact by contact", None, 0.01, 0, 0.0, 2, places=True, traced=True),
    Stage("polish", None, 0.002, 0, 0.0, 6, places=True, draws=48, rounds=2),
)
"""From the optimum of nearly the same shots: a quarter of the way of :data:`REFIT`, which follows where this fails."""


@dataclass(frozen=True)
class Found:
    """Where a curriculum ended.

    Attributes:
        point: parameters, and nuisances of the shots kept.
        shots: kept.
        dropped: why a shot was left out, by shot id.
        cost: of the shots kept and, as high as a shot gets that is a hand off, of those left out.
        unexplained: part of the cost that neither noise nor the growth of small errors accounts for.
        level: of the softening that the residuals asked for.
    """

    point: Point
    shots: tuple[ShotData, ...]
    dropped: dict[str, str]
    cost: float
    unexplained: float
    level: float = 0.0

    @property
    def convincing(self) -> bool:
        """No shot was left out, and what is left looks like noise and single contacts that err a little."""
        return self.unexplained <= _UNEXPLAINED and self.level <= _CONVINCING and not self.dropped


@dataclass
class _State:
    """Where a curriculum stands: all its shots, one set of nuisances for each, and which are kept."""

    shots: list[ShotData]
    unit: np.ndarray
    nuisance: list[np.ndarray]
    kept: list[int]
    dropped: dict[str, str] = field(default_factory=dict)
    level: float = 1.0

    def kept_shots(self) -> tuple[ShotData, ...]:
        return tuple(self.shots[i] for i in self.kept)

    def point(self) -> Point:
        return Point(self.unit, tuple(self.nuisance[i] for i in self.kept))

    def take(self, point: Point) -> None:
        """Move to a point of the shots kept."""
        self.unit = point.unit
        for i, found in zip(self.kept, point.nuisance, strict=True):
            self.nuisance[i] = found


class Curriculum:
    """Runs stages.

    Attributes:
        history: per stage its name, the simulations spent so far, and its cost.
        sampled: the lowest cost met by the last search of CMA-ES, over the shots it was sampled on; where slopes
            alone led there, that of the last stage.
    """

    def __init__(self, replayer: Replayer, space: Space, rng: np.random.Generator, population: int) -> None:
        """Keep what every stage needs."""
        self._replayer, self._space, self._rng, self._population = replayer, space, rng, population
        self._budget = replayer.budget
        self.history: list[dict[str, object]] = []
        self.sampled = math.inf
        self._stopped = ""

    def run(self, shots: Sequence[ShotData], start: np.ndarray, stages: Sequence[Stage]) -> Found:
        """Run the stages from ``start`` (d,).

        A shot that stays far off once the others are explained has seen something that no parameter does: a ball the
        camera missed, exchanged identities, a wrong strike time. It is left out, and looked at again before the last
        stage.
        """
        state = _State(list(shots), start, list(Point.at(start, shots).nuisance), list(range(len(shots))))
        for number, stage in enumerate(stages):
            if number and self._budget.left() < (_STAGE_COSTS + len(start)) * len(shots):
                break
            self._budget.stage = stage.name
            self._run_stage(state, stage, last=number == len(stages) - 1)
        if not any(stage.generations for stage in stages):
            self.sampled = self._budget.best_cost
        return self._found(state.kept_shots(), state.point(), state.dropped, stages[-1].scale, state.level)

    def _run_stage(self, state: _State, stage: Stage, last: bool) -> None:
        self._soften(state, anew=not stage.rounds)
        if last:
            self._look_again(state, stage)
        parts = [shot.until(stage.contacts) for shot in state.kept_shots()]
        self._budget.best_cost = self.cost(parts, [state.unit], stage.scale)[0]
        active = self.effects(parts, state.unit) > _MATTERS
        if not active.any():
            return
        self._stopped = ""
        if stage.generations:
            state.unit = self._explore(parts, state.unit, active, stage)
            state.nuisance = list(Point.at(state.unit, state.shots).nuisance)
        if stage.traced:
            state.take(self._traced(parts, state.point(), stage))
        for number in range(max(stage.rounds, 1)):
            if number and (self._budget.left() < _STAGE_COSTS * len(state.shots) or not self._soften(state)):
                break
            parts = [shot.until(stage.contacts) for shot in state.kept_shots()]
            state.take(self._descend(parts, state.point(), active, stage))
            self._budget.best_values = self._space.values(state.unit)
        results = self._replayer.run(state.point().trials(self._space, parts))
        costs = [robust_cost(s, r, stage.scale)[0] for s, r in zip(parts, results, strict=True)]
        self._budget.best_cost = float(np.mean(costs))
        self.history.append(
            {
                "stage": stage.name,
                "evaluations": self._budget.spent,
                "cost": self._budget.best_cost,
                "softening": state.level,
                **({"search_stopped": self._stopped} if self._stopped else {}),
            }
        )
        if not last:
            state.kept = self._drop(parts, results, state.kept, stage, state.dropped)

    def _soften(self, state: _State, anew: bool = False) -> bool:
        """Let samples count for as much as the residuals allow, or anew as little as at first; tell if that changed."""
        everywhere = Point(state.unit, tuple(state.nuisance)).trials(self._space, state.shots)
        scattered = scatter(self._replayer, state.shots, everywhere)
        before, levels = state.level, np.ones(len(scattered))
        if anew:
            state.level = 1.0
        else:
            chosen = [scattered[i] for i in state.kept]
            floor = before / _SHARPEN if before > _SHARP else 0.0
            state.level, levels[state.kept] = likely_levels(chosen, floor)
        state.shots = [one.softened(level) for one, level in zip(scattered, levels, strict=True)]
        return state.level != before

    def _look_again(self, state: _State, stage: Stage) -> None:
        """Take shots back that were left out, where the parameters found without them explain them after all."""
        others = sorted(set(range(len(state.shots))) - set(state.kept))
        for i in self._explained(state.shots, state.unit, state.nuisance, others, stage.scale):
            state.kept = sorted([*state.kept, i])
            del state.dropped[state.shots[i].record.shot_id]

    def _traced(self, parts: Sequence[ShotData], point: Point, stage: Stage) -> Point:
        """Return the point with nuisances found up to the first contact, then the second, and so on."""
        most = max(len(shot.contacts) for shot in parts)
        for contacts in [*range(1, most + 1), None]:
            some = [shot.until(contacts) for shot in parts]
            polish = Polish(self._replayer, some, self._space, stage.scale, point.unit, stage.places)
            point, _, _ = polish.settle(point, _TRACE_STEPS)
        return point

    def _found(
        self, left: tuple[ShotData, ...], point: Point, dropped: dict[str, str], fine: float, level: float
    ) -> Found:
        # Fully softened, whatever the fit made of it: costs of two fits must not differ by how much they forgive.
        forgiven = soften(self._replayer, left, point.trials(self._space, left))
        unexplained = self.cost_at(forgiven, point, fine) * len(left)
        spared = sum(leniency(shot, fine) for shot in forgiven)
        lost = math.log1p((_HAND / fine) ** 2) * len(dropped)
        count = len(left) + len(dropped)
        return Found(point, left, dropped, (unexplained + spared + lost) / count, (unexplained + lost) / count, level)

    def hop(self, found: Found, hops: int) -> Found:
        """Polish again from places some error bars away, and keep what is lower.

        Contacts give the objective several minima, some error bars apart; straight rolls have one, and so have shots
        whose samples all count fully: the error bars are shorter than the way to another.
        """
        shots, point, stage = found.shots, found.point, CURRICULUM[-1]
        if not any(len(shot.contacts) for shot in shots) or all(shot.spread.max() < _SPREAD for shot in shots):
            return found
        self._budget.stage = "other minima"
        active = self.effects(shots, point.unit) > _MATTERS
        polish = Polish(self._replayer, shots, self._space, stage.scale, self._space.nominal, stage.places)
        base = self._replayer.run(point.trials(self._space, shots))
        best = polish.objective(point, base)
        lines = polish.linearise(point, base, active)
        sigma = np.sqrt(np.diag(np.linalg.inv(lines.hessian))[: len(point.unit)])
        reach = np.where(active, np.minimum(_HOP * sigma, _LONGEST_HOP), 0.0)
        for _ in range(hops):
            if self._budget.left() < _FEWEST_LEFT:
                break
            away = np.clip(point.unit + reach * self._rng.standard_normal(len(reach)), 0.0, 1.0)
            rival, cost, _ = polish.run(Point(away, point.nuisance), active, _HOP_STEPS, _HOP_GAIN)
            if cost < best - _HOP_GAIN:
                point, best = rival, cost
        after = self._found(shots, point, found.dropped, stage.scale, found.level)
        self.history.append({"stage": self._budget.stage, "evaluations": self._budget.spent, "cost": after.unexplained})
        return after

    def best(self, shots: Sequence[ShotData], start: np.ndarray, plans: Sequence[Sequence[Stage]]) -> Found:
        """Try one plan after the other until one explains the shots; return the best."""
        found: Found | None = None
        for plan in plans:
            if found is not None and found.convincing:
                break
            if found is not None and self._budget.left() < self._budget.limit // 2:
                break
            rival = self.run(shots, start, plan)
            if found is None or rival.cost < found.cost:
                found = rival
        if found is None:
            raise ValueError("needs a plan")
        return found

    def _drop(
        self,
        parts: Sequence[ShotData],
        results: Sequence[Replayed],
        kept: list[int],
        stage: Stage,
        dropped: dict[str, str],
    ) -> list[int]:
        """Return the shots that stay; none goes when most would, since then the parameters are to blame."""
        distances = [np.linalg.norm(differences(s, r), axis=1) for s, r in zip(parts, results, strict=True)]
        limits = [_FAR * outlier_distance(shot, stage.scale) for shot in parts]
        bad = [bool(np.mean(d > limit) > _MOSTLY_FAR) for d, limit in zip(distances, limits, strict=True)]
        if 2 * sum(bad) > len(kept) or len(kept) - sum(bad) < _FEWEST_LEADERS:
            return kept
        for shot, d, is_bad in zip(parts, distances, bad, strict=True):
            if is_bad:
                typical = 1e3 * float(np.median(d))
                dropped[shot.record.shot_id] = f"unexplained at stage {stage.name}: {typical:.0f} mm off in the median"
        return [i for i, is_bad in zip(kept, bad, strict=True) if not is_bad]

    def _explained(
        self, shots: Sequence[ShotData], unit: np.ndarray, nuisance: list[np.ndarray], places: list[int], scale: float
    ) -> list[int]:
        """Return which of the shots at ``places`` these parameters explain after all; updates their nuisances."""
        if not places or self._budget.left() < _FEWEST_LEFT:
            return []
        parts = [shots[i] for i in places]
        polish = Polish(self._replayer, parts, self._space, scale, unit, places=True)
        point = polish.scatter(Point(unit, Point.at(unit, parts).nuisance), self._rng, _LAST_DRAWS)
        point, _, results = polish.run(point, np.zeros(len(unit), bool), _LAST_STEPS)
        for i, found in zip(places, point.nuisance, strict=True):
            nuisance[i] = found
        return [i for i, bad in zip(places, polish.unexplained(results), strict=True) if not bad]

    def _descend(self, parts: Sequence[ShotData], point: Point, active: np.ndarray, stage: Stage) -> Point:
        """Polish; where some shots stay unexplained, let the others lead, then look at those again."""
        prior = self._space.nominal
        polish = Polish(self._replayer, parts, self._space, stage.scale, prior, stage.places)
        if stage.draws:
            point = polish.scatter(point, self._rng, stage.draws)
        if stage.places:
            point, _, _ = polish.settle(point, _SETTLE_STEPS)
        point, _, replayed = polish.run(point, active, stage.polish)
        for _ in range(_SECOND_LOOKS if stage.draws else 0):
            kept = np.flatnonzero(~polish.unexplained(replayed)).tolist()
            if len(kept) == len(parts) or len(kept) < _FEWEST_LEADERS or self._budget.left() < _FEWEST_LEFT:
                break
            leaders = [parts[i] for i in kept]
            some = Polish(self._replayer, leaders, self._space, stage.scale, prior, stage.places)
            led, _, _ = some.run(Point(point.unit, tuple(point.nuisance[i] for i in kept)), active, stage.polish)
            nuisance = list(point.nuisance)
            for i, found in zip(kept, led.nuisance, strict=True):
                nuisance[i] = found
            point = polish.scatter(Point(led.unit, tuple(nuisance)), self._rng, stage.draws)
            replayed = self._replayer.run(point.trials(self._space, parts))
        return point

    def _explore(self, parts: Sequence[ShotData], unit: np.ndarray, active: np.ndarray, stage: Stage) -> np.ndarray:
        def full(reduced: np.ndarray) -> np.ndarray:
            moved = unit.copy()
            moved[active] = reduced
            return moved

        population = min(self._population, 4 + 2 * int(active.sum()))
        generations = min(stage.generations, self._budget.left() // (2 * population * len(parts)))
        if generations < 1:
            return unit
        found = cma_search(
            lambda points: self.cost(parts, [full(p) for p in points], stage.scale),
            unit[active],
            np.minimum(stage.step, self._space.prior_stddev[active]),
            generations,
            population,
            self._rng,
            self._budget,
        )
        # Best of many samples is partly luck: the leader meets the start and the centre again, on equal terms.
        rivals = [unit, full(found.unit), full(found.mean)]
        costs = self.cost(parts, rivals, stage.scale)
        self.sampled = found.cost
        self._stopped = f"{found.reason} after {found.generations} generations"
        return rivals[int(np.argmin(costs))]

    def effects(self, shots: Sequence[ShotData], unit: np.ndarray) -> np.ndarray:
        """Return (d,) how far a nudge of each parameter moves any sample [m].

        Raises:
            FitError: TWIN_FAULT, no shot can be replayed.
        """
        space = self._space
        sets = [unit]
        for j in range(len(unit)):
            moved = unit.copy()
            moved[j] += _NUDGE if moved[j] < 0.5 else -_NUDGE
            sets.append(moved)
        trials = [Trial(shot, space.values(u), shot.turn) for u in sets for shot in shots]
        results = self._replayer.run(trials)
        base = results[: len(shots)]
        if all(r.fault for r in base):
            raise FitError(FitCode.TWIN_FAULT, f"the twin fails on every shot: {base[0].fault}")
        effects = np.zeros(len(unit))
        for j in range(len(unit)):
            for before, after in zip(base, results[(j + 1) * len(shots) :][: len(shots)], strict=True):
                if not before.fault and not after.fault:
                    effects[j] = max(effects[j], float(np.abs(after.position - before.position).max()))
        return effects

    def probe(self, shots: Sequence[ShotData], start: np.ndarray) -> None:
        """Refuse shots that no fitted parameter has an effect on: any answer would be made up.

        Raises:
            FitError: NO_INFORMATION or TWIN_FAULT.
        """
        self._budget.stage = "probe"
        if self.effects(shots, start).max(initial=0.0) < _FEELS:
            names = ", ".join(self._space.names)
            raise FitError(FitCode.NO_INFORMATION, f"none of {names} changes the prediction of these shots")

    def cost(self, shots: Sequence[ShotData], units: Sequence[np.ndarray], scale: float) -> list[float]:
        """Return the mean cost over shots of each set of parameters (d,), with the nuisances observed."""
        trials = [Trial(shot, self._space.values(u), shot.turn) for u in units for shot in shots]
        results = self._replayer.run(trials)
        costs = [robust_cost(t.shot, r, scale)[0] for t, r in zip(trials, results, strict=True)]
        return [float(np.mean(costs[i * len(shots) : (i + 1) * len(shots)])) for i in range(len(units))]

    def cost_at(self, shots: Sequence[ShotData], point: Point, scale: float) -> float:
        """Return the cost of parameters with the nuisances found beside them."""
        results = self._replayer.run(point.trials(self._space, shots))
        return float(np.mean([robust_cost(s, r, scale)[0] for s, r in zip(shots, results, strict=True)]))
