"""A whole fit: choose the shots, search by curriculum, polish, judge."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cue_core.errors import UnknownNameError
from cue_core.parameters import PARAMETERS, ParameterEstimate, default_fitted, nominal_values
from cue_core.settings import check_settings, setting
from cue_core.shot_log import data_hash
from cue_core.shots import ShotRecord
from cue_identify.advice import advise, verdicts
from cue_identify.curriculum import AGAIN, CURRICULUM, LOCAL, REFIT, Curriculum, Found
from cue_identify.errors import FitCode, FitError
from cue_identify.gate import Split, Verdict, judge, split
from cue_identify.observations import ShotData, observe
from cue_identify.polish import Point, Polish
from cue_identify.posterior import Posterior, laplace
from cue_identify.replay import Budget, Progress, Replayer, Simulator, TwinSimulator, cue_direction
from cue_identify.scoring import mean_score
from cue_identify.segments import with_strokes
from cue_identify.selection import AUTO, Selection, Selector, Step, base_parameters, optional_terms
from cue_identify.space import Space

if TYPE_CHECKING:
    from cue_identify.learn import Learned

_HOPS = 6  # a lower minimum is mostly found by the second
_LEARNING = 3  # times the budget of a fit


@dataclass(frozen=True)
class FitConfig:
    """Settings of the fitter; each field describes itself."""

    evaluations: int = setting(60000, "budget of simulated shots of one fit", low=100, high=10_000_000)
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
        terms: empty, or ("auto",): held-out evidence chooses which terms of the registry are fitted, for at most as
            many simulated shots again, and half as many to fit what was chosen. ``parameters`` must be empty then.
        learn: afterwards learn a correction of what the parameters leave unexplained, where shots left out confirm it,
            for at most three times as many simulated shots again. Without it an earlier one is dropped.
    """

    shot_ids: tuple[str, ...] = ()
    held_out_shot_ids: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    evaluations: int = 0
    seed: int = 0
    terms: tuple[str, ...] = ()
    learn: bool = False


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
        history: per stage its name, evaluations, cost; where CMA-ES searched, why it stopped.
        pairs: parameters that the shots hardly tell apart.
        seed: of the search.
        verdicts: one sentence for each fitted parameter: identified, at its bound, or not identifiable from these
            shots, and which further shot would tell.
        terms: that were chosen, where the fit was to choose.
        steps: how it came to them.
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
    verdicts: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()

    def details(self) -> dict[str, object]:
        """Return all but the estimate as plain data, for ``estimates.jsonl``."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "estimate"}
        lists = {"history": list(self.history), "verdicts": list(self.verdicts), "terms": list(self.terms)}
        lists["steps"] = [dataclasses.asdict(step) for step in self.steps]
        return {**data, **lists, "pairs": [list(pair) for pair in self.pairs]}


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
        start: np.ndarray | None = None,
    ) -> FitOutcome:
        """Fit.

        Args:
            records: all shots, oldest first.
            request: what is wanted.
            present: the promoted estimate, which is to be beaten, and from which the search starts; None = nominal.
            stop: why the fit must end now, or None; asked several times a second.
            report: takes the progress, as often.
            start: (P,) where the search starts instead: how far a fit had come that did not end.

        Raises:
            FitError: with its code.
        """
        begin = time.monotonic()
        records, untold = with_strokes(records)
        present = present or ParameterEstimate.nominal()
        choose = _is_to_choose(request)
        names = request.parameters or (base_parameters() if choose else default_fitted())
        names = tuple(name for name in names if name not in untold)
        if not names:
            raise FitError(FitCode.NO_INFORMATION, f"no stroke was measured: nothing tells of {', '.join(untold)}")
        try:
            space = Space.of(names, _neutral(present.values) if choose else present.values)
        except UnknownNameError as error:
            raise FitError(FitCode.UNKNOWN_PARAMETER, str(error)) from None
        if idle := self._simulator.idle(space.names):
            # a search would call them identified at whatever it drew
            raise FitError(FitCode.NO_INFORMATION, f"the twin does not use {', '.join(idle)}: leave out or mend")
        used = present.shot_ids if present.revision > 0 else ()
        simulator = self._simulator
        chosen = split(
            records, request.shot_ids, request.held_out_shot_ids, simulator.ball_ids, used, simulator.why_doubtful
        )
        budget = Budget(request.evaluations or self._config.evaluations, stop, report)
        rng = np.random.default_rng([request.seed, 0xC0E])
        run = _Run(self._simulator, self._config, budget, space, rng, choose, request.learn)
        return dataclasses.replace(run.whole(chosen, present, begin, start), seed=request.seed)


def _is_to_choose(request: FitRequest) -> bool:
    """Tell whether terms are to be chosen.

    Raises:
        FitError: INVALID_GOAL, anything but "auto" alone.
    """
    if request.terms and (request.terms != (AUTO,) or request.parameters):
        told = f"terms {request.terms} and parameters {request.parameters}"
        raise FitError(FitCode.INVALID_GOAL, f'terms are chosen by ("{AUTO}",) without parameters, got {told}')
    return bool(request.terms)


def _neutral(values: np.ndarray) -> np.ndarray:
    """Return (P,) values with every term that may be chosen at its neutral value."""
    return np.where(np.isin(list(PARAMETERS), base_parameters()), values, nominal_values())


class _Run:
    """The state of one fit."""

    def __init__(
        self,
        simulator: Simulator,
        config: FitConfig,
        budget: Budget,
        space: Space,
        rng: np.random.Generator,
        choose: bool = False,
        learning: bool = False,
    ) -> None:
        self._simulator, self._budget, self._space, self._choose = simulator, budget, space, choose
        self._learning = learning
        self._correction: dict[str, Any] | None = None
        self._replayer = Replayer(simulator, budget, config.threads)
        self._rng, self._population, self._allowance = rng, config.population, budget.limit
        self._curriculum = Curriculum(self._replayer, space, rng, config.population)

    def whole(
        self, chosen: Split, present: ParameterEstimate, begin: float, resumed: np.ndarray | None = None
    ) -> FitOutcome:
        space, budget = self._space, self._budget
        curriculum, fine = self._curriculum, CURRICULUM[-1].scale
        shots = self._observe(chosen.train, present.values)
        start = space.unit(present.values if resumed is None else resumed)
        curriculum.probe(shots, start)
        warm = present.revision > 0 or resumed is not None
        # From the wrong funnel, or by bad luck, the first plan may fail; then the whole curriculum (again).
        plans = (AGAIN, REFIT, CURRICULUM) if warm else (LOCAL, CURRICULUM)
        # What lacks a term is never explained, however long one searches: that comes when the terms are chosen.
        found = curriculum.best(shots, start, plans[:1] if self._choose else plans)
        found = self._hop(found, warm)
        name = f"revision {present.revision}" if present.revision > 0 else "the nominal parameters"
        if chosen.borrowed:
            verdict, held_out_error = self._judge(chosen, found.point, present, name)
            if verdict.promoted:  # the judges have spoken: now they may teach
                shots = [*shots, *self._observe(chosen.held_out, present.values)]
                found = self._hop(curriculum.best(shots, found.point.unit, (AGAIN, REFIT)), settled=True)
        rescored = curriculum.cost_at(found.shots, found.point, fine)
        (start_cost,) = curriculum.cost(found.shots, [start], fine)
        selection = self._select(found) if self._choose else Selection(space, found.point, (), ())
        if selection.terms:  # what the base could not explain, and where small errors grow, has changed
            space = self._space = selection.space
            larger = Curriculum(self._replayer, space, self._rng, self._population)
            budget.limit = budget.spent + self._allowance // 2
            found = larger.hop(larger.run(shots, selection.point.unit, REFIT), _HOPS)
            curriculum.history.extend(larger.history)
        elif self._choose:
            found = curriculum.hop(found, _HOPS)
        learned = self._learn(found)
        if learned is not None:
            found = dataclasses.replace(found, point=learned.point)
        if not chosen.borrowed:
            verdict, held_out_error = self._judge(chosen, found.point, present, name)
        values = space.values(found.point.unit)
        posterior = self._posterior(found.shots, found.point)
        fitted = [shot.record for shot in found.shots]
        budget.stage = "scores"
        train_error, _ = mean_score(self._replayer.score(fitted, values))
        estimate = self._estimate(present, values, posterior, fitted, train_error, held_out_error)
        told = self._verdicts(estimate, posterior, found.point, fitted)
        return FitOutcome(
            estimate=estimate,
            promoted=verdict.promoted,
            reason=verdict.reason,
            sampled_cost=curriculum.sampled,
            rescored_cost=rescored,
            start_cost=start_cost,
            evaluations=budget.spent,
            faults=budget.faults,
            seconds=time.monotonic() - begin,
            excluded={**chosen.excluded, **found.dropped},
            history=tuple(curriculum.history),
            pairs=posterior.pairs,
            verdicts=told,
            terms=selection.terms,
            steps=(*selection.steps, *(learned.steps if learned is not None else ())),
        )

    def _hop(self, found: Found, settled: bool) -> Found:
        """Look for lower minima nearby; what an earlier fit had ``settled``, and still convinces, has none."""
        if self._choose or (settled and found.convincing):
            return found
        return self._curriculum.hop(found, _HOPS)

    def _learn(self, found: Found) -> Learned | None:
        """Learn a correction where asked to; from then on the twin has it."""
        if not (self._learning and isinstance(self._simulator, TwinSimulator)):
            return None
        from cue_identify.learn import learn  # loads MuJoCo

        budget = self._budget
        budget.limit = budget.spent + _LEARNING * self._allowance
        threads = self._replayer.threads
        learned = learn(self._simulator, found.shots, found.point, self._space, CURRICULUM[-1].scale, budget, threads)
        self._correction = None if learned.correction is None else learned.correction.to_dict()
        self._replayer = self._replayer_with(self._correction)
        self._simulator = self._replayer.simulator
        return learned

    def _replayer_with(self, correction: Mapping[str, Any] | None) -> Replayer:
        """Return a replayer whose twin has this correction, and no other."""
        simulator = self._simulator
        if isinstance(simulator, TwinSimulator):
            simulator = simulator.corrected(correction)
        return Replayer(simulator, self._budget, self._replayer.threads)

    def _select(self, found: Found) -> Selection:
        """Choose terms on the shots that the base explains; each is judged by shots left out, fold by fold."""
        budget = self._budget
        budget.limit = budget.spent + self._allowance
        cushions = len(self._simulator.twin.table.cushions) if isinstance(self._simulator, TwinSimulator) else 0
        offered = optional_terms(self._simulator.ball_ids, cushions)
        offered = {term: names for term, names in offered.items() if not set(names) & set(self._space.names)}
        selector = Selector(self._replayer, found.shots, CURRICULUM[-1].scale)
        return selector.select(found.point, self._space, offered)

    def _verdicts(
        self, estimate: ParameterEstimate, posterior: Posterior, point: Point, fitted: Sequence[ShotRecord]
    ) -> tuple[str, ...]:
        self._budget.stage = "verdicts"
        simulator, advice = self._simulator, {}
        if isinstance(simulator, TwinSimulator):
            newest = max(fitted, key=lambda record: record.index)
            advice = advise(simulator.twin, newest.after, estimate, self._replayer.threads, self._budget.check)
        return verdicts(self._space, point.unit, posterior, advice)

    def _observe(self, records: Sequence[ShotRecord], values: np.ndarray) -> list[ShotData]:
        return [observe(record, cue_direction(self._simulator, record, values)) for record in records]

    def _judge(self, chosen: Split, point: Point, present: ParameterEstimate, name: str) -> tuple[Verdict, float]:
        self._budget.stage = "judging"
        values = self._space.values(point.unit)
        judges, kind = (chosen.held_out, "held-out") if chosen.held_out else (chosen.train, "fitted (none held out)")
        ours = self._replayer.score(judges, values)
        theirs = self._replayer_with(present.correction).score(judges, present.values)
        error = mean_score(ours)[0] if chosen.held_out else float("nan")
        return judge(ours, theirs, name, kind), error

    def _posterior(self, shots: Sequence[ShotData], point: Point) -> Posterior:
        self._budget.stage = "error bars"
        polish = Polish(self._replayer, shots, self._space, CURRICULUM[-1].scale, point.unit, places=True)
        base = self._replayer.run(point.trials(self._space, shots))
        every = np.ones(len(point.unit), bool)
        polish.linearise(point, base, every)  # for steps that fit the error bars
        lines = polish.linearise(point, base, every, cautious=True)
        return laplace(lines, self._space, point.unit)

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
            correction=self._correction,
        )
