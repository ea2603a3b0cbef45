"""A whole fit: choose the shots, search by curriculum, polish, judge."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cue_core.errors import UnknownNameError
from cue_core.parameters import PARAMETERS, ParameterEstimate, default_fitted
from cue_core.settings import check_settings, setting
from cue_core.shot_log import data_hash
from cue_core.shots import ShotRecord
from cue_identify.errors import FitCode, FitError
from cue_identify.gate import Split, Verdict, judge, split
from cue_identify.observations import ShotData, observe
from cue_identify.polish import Point, Polish
from cue_identify.posterior import Posterior, laplace
from cue_identify.replay import Budget, Progress, Replayer, Simulator, Trial, cue_direction
from cue_identify.residuals import robust_cost, typical_sigma
from cue_identify.scoring import mean_score
from cue_identify.search import cma_search
from cue_identify.space import Space

_NUDGE = 0.05  # [-] of a parameter's range
_MATTERS = 2e-3  # [m] a nudge must move some sample by this much for the parameter to be searched at a stage
_UNEXPLAINED = 1.0  # [-] mean log(1 + (r / 2 mm)^2): typical residuals of 2.6 mm, several times a tracker's noise
_SECOND_LOOKS = 1  # at shots that stay unexplained, for each stage
_FEWEST_LEADERS = 3  # [-] shots without the unexplained ones
_FEWEST_LEFT = 500  # [-] simulations that a second look may need
_FEELS = 1e-6  # [m] less than this and the twin does not use the parameter at all


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
    """

    name: str
    contacts: int | None
    scale: float
    generations: int
    step: float
    polish: int
    places: bool = False
    draws: int = 0


CURRICULUM = (
    Stage("first contact", 1, 0.02, 8, 0.25, 6),
    Stage("second contact", 2, 0.02, 10, 0.2, 6),
    Stage("third contact", 3, 0.01, 6, 0.1, 6),
    Stage("whole shots", None, 0.01, 6, 0.05, 6),
    Stage("whole shots, fine", None, 0.004, 0, 0.0, 8, places=True, draws=48),
    Stage("polish", None, 0.002, 0, 0.0, 12, places=True, draws=48),
)
"""Early and local first: the funnel of whole shots is narrow, since every contact multiplies what came before."""

REFIT = (
    Stage("whole shots", None, 0.01, 0, 0.0, 6, draws=48),
    Stage("polish", None, 0.002, 0, 0.0, 12, places=True, draws=48),
)
"""From a promoted estimate: the funnel has been found."""


@dataclass(frozen=True)
class FitConfig:
    """Settings of the fitter; each field describes itself."""

    evaluations: int = setting(12000, "budget of simulated shots of one fit", low=100, high=10_000_000)
    population: int = setting(12, "points of one generation of CMA-ES", low=4, high=1000)
    threads: int = setting(0, "of the simulations, 0 = one per core; no influence on the result", low=0, high=1024)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OutOfRangeError: naming the field.
        """
        check_settings(self)


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted.

    Attributes:
        shot_ids: to fit; empty = all usable ones.
        held_out_shot_ids: that only judge.
        parameters: names; empty = the default set.
        evaluations: budget of simulated shots; 0 = that of the configuration.
        seed: of the search.
    """

    shot_ids: tuple[str, ...] = ()
    held_out_shot_ids: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    evaluations: int = 0
    seed: int = 0


@dataclass(frozen=True)
class FitOutcome:
    """What a fit found.

    Attributes:
        estimate: with revision 0; who keeps the estimates numbers them.
        promoted: by the gate.
        reason: for people.
        sampled_cost: the lowest cost met by the search, over the shots it was sampled on.
        rescored_cost: of the final parameters, over all shots, same scale.
        start_cost: the same of the parameters started from.
        evaluations: simulated shots.
        faults: simulations that failed.
        seconds: wall clock.
        excluded: why a shot took no part, by shot id.
        history: per stage its name, evaluations, cost.
        pairs: parameters that the shots hardly tell apart.
        seed: of the search.
    """

    estimate: ParameterEstimate
    promoted: bool
    reason: str
    sampled_cost: float
    rescored_cost: float
    start_cost: float
    evaluations: int
    faults: int
    seconds: float
    excluded: dict[str, str] = field(default_factory=dict)
    history: tuple[dict[str, object], ...] = ()
    pairs: tuple[tuple[str, str, float], ...] = ()
    seed: int = 0

    def details(self) -> dict[str, object]:
        """Return all but the estimate as plain data, for ``estimates.jsonl``."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "estimate"}
        return {**data, "history": list(self.history), "pairs": [list(pair) for pair in self.pairs]}


class Fitter:
    """Fits parameters to shot records with a simulator."""

    def __init__(self, simulator: Simulator, config: FitConfig | None = None) -> None:
        """Keep the simulator; a fit does not change it."""
        self._simulator, self._config = simulator, config or FitConfig()

    def fit(
        self,
        records: Sequence[ShotRecord],
        request: FitRequest,
        present: ParameterEstimate | None = None,
        stop: Callable[[], FitError | None] = lambda: None,
        report: Callable[[Progress], None] = lambda progress: None,
    ) -> FitOutcome:
        """Fit.

        Args:
            records: all shots, oldest first.
            request: what is wanted.
            present: the promoted estimate, from which the search starts; None = nominal.
            stop: why the fit must end now, or None; asked several times a second.
            report: takes the progress, as often.

        Raises:
            FitError: with its code.
        """
        begin = time.monotonic()
        present = present or ParameterEstimate.nominal()
        try:
            space = Space.of(request.parameters or default_fitted(), present.values)
        except UnknownNameError as error:
            raise FitError(FitCode.UNKNOWN_PARAMETER, str(error)) from None
        used = present.shot_ids if present.revision > 0 else ()
        chosen = split(records, request.shot_ids, request.held_out_shot_ids, self._simulator.ball_ids, used)
        budget = Budget(request.evaluations or self._config.evaluations, stop, report)
        run = _Run(self._simulator, self._config, budget, space, np.random.default_rng([request.seed, 0xC0E]))
        return dataclasses.replace(run.whole(chosen, present, begin), seed=request.seed)


class _Run:
    """The state of one fit."""

    def __init__(
        self, simulator: Simulator, config: FitConfig, budget: Budget, space: Space, rng: np.random.Generator
    ) -> None:
        self._simulator, self._config, self._budget, self._space, self._rng = simulator, config, budget, space, rng
        self._replayer = Replayer(simulator, budget, config.threads)
        self._history: list[dict[str, object]] = []
        self._sampled = float("inf")

    def whole(self, chosen: Split, present: ParameterEstimate, begin: float) -> FitOutcome:
        space, budget = self._space, self._budget
        shots = self._observe(chosen.train, present.values)
        start = space.unit(present.values)
        self._probe(shots, start)
        warm = present.revision > 0
        point = self._search(shots, start, REFIT if warm else CURRICULUM)
        if warm and self._cost_at(shots, point, CURRICULUM[-1].scale) > _UNEXPLAINED:
            rival = self._search(shots, start, CURRICULUM)  # the estimate started from was in the wrong funnel
            costs = [self._cost_at(shots, p, CURRICULUM[-1].scale) for p in (point, rival)]
            point = (point, rival)[int(np.argmin(costs))]
        name = f"revision {present.revision}" if warm else "the nominal parameters"
        verdict, held_out_error = self._judge(chosen, point, present, name)
        if chosen.borrowed and verdict.promoted:  # the judges have spoken: now they may teach
            shots = [*shots, *self._observe(chosen.held_out, present.values)]
            point = self._search(shots, point.unit, REFIT)
        values = space.values(point.unit)
        posterior = self._posterior(shots, point)
        fitted = [shot.record for shot in shots]
        budget.stage = "scores"
        train_error, _ = mean_score(self._replayer.score(fitted, values))
        scale = CURRICULUM[-1].scale
        return FitOutcome(
            estimate=self._estimate(present, values, posterior, fitted, train_error, held_out_error),
            promoted=verdict.promoted,
            reason=verdict.reason,
            sampled_cost=self._sampled,
            rescored_cost=self._cost_at(shots, point, scale),
            start_cost=self._cost(shots, [start], scale)[0],
            evaluations=budget.spent,
            faults=budget.faults,
            seconds=time.monotonic() - begin,
            excluded=chosen.excluded,
            history=tuple(self._history),
            pairs=posterior.pairs,
        )

    def _observe(self, records: Sequence[ShotRecord], values: np.ndarray) -> list[ShotData]:
        return [observe(record, cue_direction(self._simulator, record, values)) for record in records]

    def _effects(self, shots: Sequence[ShotData], unit: np.ndarray) -> np.ndarray:
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

    def _probe(self, shots: Sequence[ShotData], start: np.ndarray) -> None:
        """Refuse shots that no fitted parameter has an effect on: any answer would be made up.

        Raises:
            FitError: NO_INFORMATION or TWIN_FAULT.
        """
        self._budget.stage = "probe"
        if self._effects(shots, start).max(initial=0.0) < _FEELS:
            names = ", ".join(self._space.names)
            raise FitError(FitCode.NO_INFORMATION, f"none of {names} changes the prediction of these shots")

    def _cost(self, shots: Sequence[ShotData], units: Sequence[np.ndarray], scale: float) -> list[float]:
        trials = [Trial(shot, self._space.values(u), shot.turn) for u in units for shot in shots]
        results = self._replayer.run(trials)
        costs = [robust_cost(t.shot, r, scale)[0] for t, r in zip(trials, results, strict=True)]
        return [float(np.mean(costs[i * len(shots) : (i + 1) * len(shots)])) for i in range(len(units))]

    def _cost_at(self, shots: Sequence[ShotData], point: Point, scale: float) -> float:
        """Return the cost of parameters with the nuisances found beside them."""
        results = self._replayer.run(point.trials(self._space, shots))
        return float(np.mean([robust_cost(s, r, scale)[0] for s, r in zip(shots, results, strict=True)]))

    def _search(self, shots: Sequence[ShotData], start: np.ndarray, stages: Sequence[Stage]) -> Point:
        """Run the stages from ``start``; return where the last one ended."""
        point, prior = Point.at(start, shots), start
        sigma = typical_sigma(shots)
        for stage in stages:
            budget = self._budget
            budget.stage, budget.best_cost = stage.name, float("inf")
            parts = [shot.until(stage.contacts) for shot in shots]
            active = self._effects(parts, point.unit) > _MATTERS
            if not active.any():
                continue
            if stage.generations:
                point = Point.at(self._explore(parts, point.unit, active, stage), shots)
            scale = max(stage.scale / sigma, 2.0)
            point = self._descend(parts, point, active, stage, scale, prior)
            cost = self._cost_at(parts, point, stage.scale)
            self._history.append({"stage": stage.name, "evaluations": budget.spent, "cost": cost})
        return point

    def _descend(
        self, parts: Sequence[ShotData], point: Point, active: np.ndarray, stage: Stage, scale: float, prior: np.ndarray
    ) -> Point:
        """Polish; where some shots stay unexplained, let the others lead, then look at those again."""
        polish = Polish(self._replayer, parts, self._space, scale, prior, stage.places)
        if stage.draws:
            point = polish.scatter(point, self._rng, stage.draws)
        point, _, replayed = polish.run(point, active, stage.polish)
        for _ in range(_SECOND_LOOKS if stage.draws else 0):
            kept = np.flatnonzero(~polish.unexplained(replayed)).tolist()
            if len(kept) == len(parts) or len(kept) < _FEWEST_LEADERS or self._budget.left() < _FEWEST_LEFT:
                break
            leaders = [parts[i] for i in kept]
            some = Polish(self._replayer, leaders, self._space, scale, prior, stage.places)
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

        population = min(self._config.population, 4 + 2 * int(active.sum()))
        generations = min(stage.generations, self._budget.left() // (2 * population * len(parts)))
        if generations < 1:
            return unit
        found = cma_search(
            lambda points: self._cost(parts, [full(p) for p in points], stage.scale),
            unit[active],
            stage.step,
            generations,
            population,
            self._rng,
            self._budget,
        )
        # Best of many samples is partly luck: the leader meets the start and the centre again, on equal terms.
        rivals = [unit, full(found.unit), full(found.mean)]
        costs = self._cost(parts, rivals, stage.scale)
        self._sampled = found.cost
        return rivals[int(np.argmin(costs))]

    def _judge(self, chosen: Split, point: Point, present: ParameterEstimate, name: str) -> tuple[Verdict, float]:
        self._budget.stage = "judging"
        values = self._space.values(point.unit)
        judges, kind = (chosen.held_out, "held-out") if chosen.held_out else (chosen.train, "fitted (none held out)")
        ours, theirs = self._replayer.score(judges, values), self._replayer.score(judges, present.values)
        error = mean_score(ours)[0] if chosen.held_out else float("nan")
        return judge(ours, theirs, name, kind), error

    def _posterior(self, shots: Sequence[ShotData], point: Point) -> Posterior:
        self._budget.stage = "error bars"
        scale = max(CURRICULUM[-1].scale / typical_sigma(shots), 2.0)
        polish = Polish(self._replayer, shots, self._space, scale, point.unit, places=True)
        base = self._replayer.run(point.trials(self._space, shots))
        lines = polish.linearise(point, base, np.ones(len(point.unit), bool), cautious=True)
        return laplace(lines, shots, self._space, point.unit)

    def _estimate(
        self,
        present: ParameterEstimate,
        values: np.ndarray,
        posterior: Posterior,
        fitted: Sequence[ShotRecord],
        train_error: float,
        held_out_error: float,
    ) -> ParameterEstimate:
        index, count = self._space.index, len(PARAMETERS)
        covariance = np.zeros((count, count))
        covariance[np.ix_(index, index)] = posterior.covariance
        frozen, at_bound, identifiable = np.ones(count, bool), np.zeros(count, bool), np.zeros(count, bool)
        frozen[index], at_bound[index], identifiable[index] = False, posterior.at_bound, posterior.identifiable
        return dataclasses.replace(
            present,
            revision=0,
            values=values,
            covariance=covariance,
            frozen=frozen,
            at_bound=at_bound,
            identifiable=identifiable,
            train_error=train_error,
            held_out_error=held_out_error,
            largest_step=self._simulator.largest_step,
            data_hash=data_hash(fitted),
            shot_ids=tuple(record.shot_id for record in fitted),
        )
