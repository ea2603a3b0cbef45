"""Which terms of the registry a table needs: forward and backward, by held-out evidence.

Each round asks three questions, each dearer than the one before and of fewer terms:

1. Score test (Rao 1948). The normal equations at the present optimum, with the columns of every other term added at its
   neutral value, say to first order how much log-likelihood each would gain, the prior included; no fit is needed. One
   is taken off for each parameter that the shots decide (Akaike 1974; with a prior: Spiegelhalter et al. 2002), so that
   a term of many parameters does not win by their number.
2. Fit. The best few are fitted, from the present optimum up to the second contact, then further: a term that was
   missing has led the other parameters astray, and on whole shots no gradient leads back.
3. Gate. How likely is each shot, given the others? With l_i the loss of shot i at the optimum, s_i its gradient, H_i
   its information and A the information of all and of the prior, all but the prior over the dispersion f,

       log p(y_i | others) = - l_i - s_i' (A - H_i)^-1 s_i / 2 + log det(A - H_i) / 2 - log det(A) / 2,

   Laplace's approximation of both integrals (Gelfand and Dey 1994; the sum over shots is the pseudo-likelihood of
   Geisser and Eddy 1979). What the others do not tell of the parameters counts as uncertainty, not as error: a patch
   that one shot alone has crossed is no mistake on that shot. With g_i the gain of the larger model, a term is added
   when

       sum_i g_i > sqrt(n) s(g) + log C,

   more than one standard error (Breiman et al. 1984; Hastie, Tibshirani and Friedman 2009, section 7.10: of two models
   that differ by less, the smaller), and more than the C terms on offer may show by chance: with even odds of a plain
   table, each of C terms has 1/C of the other half (Scott and Berger 2010).

When no term is added any more, each of those added must pass the gate once more against the table without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.parameters import PARAMETERS
from cue_core.terms import TERMS, find
from cue_identify.observations import ShotData
from cue_identify.polish import Linearised, Point, Polish
from cue_identify.posterior import dispersion
from cue_identify.replay import Replayer
from cue_identify.space import Space

BASE = ("cloth", "balls", "cushions", "cushion_slope", "cushion_friction", "strike")
"""Terms that every table has; the others must show that they are needed."""

AUTO = "auto"
"""In place of terms' names: choose them."""

_FINALISTS = 3  # terms that are fitted in a round
_HOPEFUL = 0.5  # [-] of what the gate asks for at least, to be expected to first order before a term is fitted
_CLOSE = 0.2  # [-] of the leader's expected gain, for a rival to be fitted once the leader has passed the gate
_MOST_TERMS = 4  # added in all
_STAGES = ((2, 0.02, 6), (3, 0.01, 6), (4, 0.01, 6))  # contacts, robust scale [m], iterations
_SETTLED = 4  # iterations of each shot's nuisances, contact by contact
_ITERATIONS, _GAIN = 8, 0.2  # of a fit on whole shots; log-likelihood that is worth another
_FELT = 0.1  # [-] of a parameter's prior variance that the shots must take away for it to be fitted


@dataclass(frozen=True)
class Step:
    """One decision.

    Attributes:
        term: its name.
        action: "added", "refused", "outdone" (by the one added), "kept" or "removed".
        gain: in held-out log-likelihood [nat].
        margin: that it had to exceed.
        words: for people.
    """

    term: str
    action: str
    gain: float
    margin: float
    words: str

    @classmethod
    def of(cls, term: str, action: str, gain: float, margin: float) -> Step:
        """Return the step with its words."""
        words = f"{term} {action}: {gain:+.1f} nat on shots left out, asked for more than {margin:.1f}"
        return cls(term, action, gain, margin, words)


@dataclass(frozen=True)
class Selection:
    """What a selection found.

    Attributes:
        space: of the base and the terms chosen.
        point: the optimum there.
        terms: chosen, in the order in which they came.
        steps: how it came to that.
    """

    space: Space
    point: Point
    terms: tuple[str, ...]
    steps: tuple[Step, ...]


def base_parameters() -> tuple[str, ...]:
    """Return the names that are fitted before any term is chosen."""
    return tuple(name for term in BASE for name in find(term).names if PARAMETERS[name].fitted)


def optional_terms(ball_ids: Iterable[int], cushions: int) -> dict[str, tuple[str, ...]]:
    """Return the terms that may be added, with the names of their parameters that act on such a table.

    Args:
        ball_ids: of the balls there.
        cushions: how many the table has.
    """
    ids = tuple(ball_ids)
    return {term.name: term.acting(ids, cushions) for term in TERMS if term.name not in BASE}


@dataclass(frozen=True)
class Model:
    """A fitted set of parameters, and what it does on shots left out.

    Attributes:
        space: of its parameters.
        point: its optimum.
        objective: there.
        lines: normal equations there.
        dispersion: of the shots.
        losses: (shots,) of each, there.
    """

    space: Space
    point: Point
    objective: float
    lines: Linearised
    dispersion: float
    losses: np.ndarray


class Selector:
    """Chooses terms for one set of shots, all with the same residuals: models are compared, not ways to weigh."""

    def __init__(self, replayer: Replayer, shots: Sequence[ShotData], scale: float) -> None:
        """Set up.

        Args:
            replayer: runs the simulations.
            shots: that the base model explains.
            scale: robust scale [m].
        """
        self._replayer, self._shots, self._scale = replayer, list(shots), scale

    def select(self, point: Point, space: Space, offered: Mapping[str, Sequence[str]]) -> Selection:
        """Choose.

        Args:
            point: optimum of the base model.
            space: of the base model.
            offered: names of the parameters of each term on offer, none in the base.
        """
        chosen: dict[str, tuple[str, ...]] = {}
        steps: list[Step] = []
        model = self.fit(space, point, anew=False)
        while len(chosen) < _MOST_TERMS:
            left = {term: tuple(names) for term, names in offered.items() if term not in chosen}
            model, added = self._forward(model, left, len(offered), steps)
            if not added:
                break
            chosen.update(added)
        if len(chosen) > 1:
            model = self._backward(model, space, chosen, len(offered), steps)
        return Selection(model.space, model.point, tuple(chosen), tuple(steps))

    def _forward(
        self, model: Model, left: Mapping[str, tuple[str, ...]], offered: int, steps: list[Step]
    ) -> tuple[Model, dict[str, tuple[str, ...]]]:
        """Return the model with the best term that passes the gate, and that term's parameters; none = as it was."""
        self._replayer.budget.stage = "terms: score test"
        ranked = self.rank(model, left)
        best: tuple[float, str, tuple[str, ...], Model] | None = None
        for term, names, expected in ranked[:_FINALISTS]:
            if expected <= (_HOPEFUL * math.log(offered) if best is None else _CLOSE * ranked[0][2]):
                break
            self._replayer.budget.stage = f"terms: {term}"
            larger = self.fit(*_moved(model.space, model.point, (*model.space.names, *names)))
            gain, margin = self.compare(larger, model, offered)
            if gain > margin:  # the smaller model may have stopped in a worse place: it gets the larger one's
                back = self.fit(*_moved(larger.space, larger.point, model.space.names, neutral=names))
                model = back if back.objective < model.objective else model
                gain, margin = self.compare(larger, model, offered)
            added = gain > margin
            steps.append(Step.of(term, "outdone" if added else "refused", gain, margin))
            if added and (best is None or gain - margin > best[0]):
                best = (gain - margin, term, names, larger)
        if best is None:
            return model, {}
        _, term, names, found = best
        k = max(i for i, step in enumerate(steps) if step.term == term)
        steps[k] = Step.of(term, "added", steps[k].gain, steps[k].margin)
        return found, {term: names}

    def _backward(
        self, model: Model, space: Space, chosen: dict[str, tuple[str, ...]], offered: int, steps: list[Step]
    ) -> Model:
        """Return the model without the terms that the others have made superfluous; ``chosen`` loses them."""
        for term in list(chosen)[:-1]:  # the last one has just been asked
            rest = [name for other, names in chosen.items() if other != term for name in names]
            self._replayer.budget.stage = f"terms: without {term}"
            without = self.fit(*_moved(model.space, model.point, (*space.names, *rest), neutral=chosen[term]))
            gain, margin = self.compare(model, without, offered)
            kept = gain > margin
            steps.append(Step.of(term, "kept" if kept else "removed", gain, margin))
            if not kept:
                model = without
                del chosen[term]
        return model

    def rank(self, model: Model, left: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...], float]]:
        """Return term, parameters that the shots feel, and expected gain of each term, best first.

        Args:
            model: present one.
            left: terms on offer with their parameters.
        """
        names = [name for of_term in left.values() for name in of_term]
        space, point = _moved(model.space, model.point, (*model.space.names, *names))
        lines = self._linearise(space, point)
        total = np.diag(lines.informations.sum(axis=0)) / model.dispersion
        felt = total * space.prior_stddev**2 > _FELT
        places = {name: k for k, name in enumerate(space.names)}
        base = [places[name] for name in model.space.names]
        plain = self._expected(lines, space, point, base, model.dispersion)
        found = []
        for term, of_term in left.items():
            used = tuple(name for name in of_term if felt[places[name]])
            if used:
                more = self._expected(lines, space, point, [*base, *(places[n] for n in used)], model.dispersion)
                found.append((term, used, more - plain))
        return sorted(found, key=lambda entry: -entry[2])

    def _expected(self, lines: Linearised, space: Space, point: Point, at: Sequence[int], f: float) -> float:
        """Return the gain to first order of fitting the parameters ``at``, less one for each that the shots decide."""
        precision = 1.0 / space.prior_stddev[at] ** 2
        gradient = precision * (point.unit - space.nominal)[at] + lines.scores[:, at].sum(axis=0) / f
        information = lines.informations.sum(axis=0)[np.ix_(at, at)] / f
        covariance = np.linalg.inv(np.diag(precision) + information)
        return float(0.5 * gradient @ covariance @ gradient - np.trace(covariance @ information))

    def fit(self, space: Space, start: Point, anew: bool = True) -> Model:
        """Return the optimum near a point; ``anew``: from the first contacts on, too."""
        every = np.ones(len(space.names), bool)
        polish = Polish(self._replayer, self._shots, space, self._scale, space.nominal, places=True)
        starts = [start, self._anew(space, start.unit)] if anew else [start]
        heights = [polish.objective(p, self._replayer.run(p.trials(space, self._shots))) for p in starts]
        best = int(np.argmin(heights))
        point, objective, replayed = polish.run(starts[best], every, _ITERATIONS, _GAIN)
        lines = self._linearise(space, point)
        f = dispersion(lines, np.diag(1.0 / space.prior_stddev**2))
        return Model(space, point, objective, lines, f, polish.losses(point, replayed))

    def _anew(self, space: Space, unit: np.ndarray) -> Point:
        """Return where parameters go from (d,) ``unit`` contact by contact, with nuisances as observed.

        Those of the base had to bend for what no parameter explained.
        """
        every, point = np.ones(len(space.names), bool), Point.at(unit, self._shots)
        for contacts, scale, iterations in _STAGES:
            shots = [shot.until(contacts) for shot in self._shots]
            polish = Polish(self._replayer, shots, space, scale, space.nominal)
            point, _, _ = polish.run(point, every, iterations, _GAIN)
        scale = _STAGES[-1][1]
        most = max(len(shot.contacts) for shot in self._shots)
        for contacts in [*range(1, most + 1), None]:
            shots = [shot.until(contacts) for shot in self._shots]
            point, _, _ = Polish(self._replayer, shots, space, scale, point.unit, places=True).settle(point, _SETTLED)
        whole = Polish(self._replayer, self._shots, space, scale, space.nominal, places=True)
        return whole.run(point, every, _STAGES[-1][2], _GAIN)[0]

    def _linearise(self, space: Space, point: Point) -> Linearised:
        polish = Polish(self._replayer, self._shots, space, self._scale, space.nominal, places=True)
        base = self._replayer.run(point.trials(space, self._shots))
        return polish.linearise(point, base, np.ones(len(space.names), bool), cautious=True)

    def compare(self, larger: Model, smaller: Model, offered: int) -> tuple[float, float]:
        """Return the larger model's gain on shots left out, and the margin it must exceed; see the module."""
        # What one model fails to explain makes shots disagree: the better one knows more of the noise.
        f = min(larger.dispersion, smaller.dispersion)
        gains = _predictive(larger, f) - _predictive(smaller, f)
        spread = float(np.std(gains, ddof=1)) * math.sqrt(len(gains)) if len(gains) > 1 else math.inf
        return float(gains.sum()), spread + math.log(offered)


def _predictive(model: Model, f: float) -> np.ndarray:
    """Return the (shots,) log-likelihood of each shot with what the others tell of the parameters; see the module."""
    information, scores = model.lines.informations / f, model.lines.scores / f
    whole = np.diag(1.0 / model.space.prior_stddev**2) + information.sum(axis=0)
    _, volume = np.linalg.slogdet(whole)
    found = []
    for loss, own, pull in zip(model.losses / f, information, scores, strict=True):
        others = whole - own
        _, wider = np.linalg.slogdet(others)
        found.append(-loss - 0.5 * float(pull @ np.linalg.solve(others, pull)) + 0.5 * float(wider - volume))
    return np.array(found)


def _moved(space: Space, point: Point, names: Sequence[str], neutral: Iterable[str] = ()) -> tuple[Space, Point]:
    """Return the space of other parameters, and the same point in it; those of ``neutral`` go back to nominal."""
    values = space.values(point.unit)
    order = list(PARAMETERS)
    for name in neutral:
        values[order.index(name)] = PARAMETERS[name].nominal
    other = Space.of(names, values)
    return other, Point(other.unit(values), point.nuisance)
