"""What to do next, decided anew after each shot and each fit: one action, its reason, and the numbers behind it.

The rules in order; the first that applies decides.

1. *Refine perception* when the tracker could not use most of the newest shots, or says that it sees balls badly.
2. *Drop* a shot that the fit which took it explains far worse than all others: it would bend the parameters. At most
   one shot in five, so that agreement cannot be made by leaving out what disagrees.
3. *Roll back* when an estimate predicts the shots played since, which it never saw, clearly worse than the one before
   it. The logarithm of the ratio of two errors scatters by :data:`CHANCE` from shot to shot, as the fitter's gate has
   it; two standard errors decide.
4. *Shrink* the set of terms when terms beyond the usual ones do not pay on such shots.
5. *Enlarge* it when enough shots are there for held-out evidence to choose, when half as many more are, and when shots
   keep landing outside what a fitted twin states: parameters cannot mend what a term lacks.
6. *Hold out* a shot that teaches hardly anything, to judge fits with.
7. *Validate* when shots, wall time or compute for exploration are used up.
8. *Fit* when a shot was a surprise, when the shots not fitted yet should have taught enough together, or when there are
   ``fit_every`` of them. Until then it is put off: a fit costs as much as several decisions.
9. *Shoot*.

Exploration also ends, :func:`enough`, when the newest predictions agree with what was seen, within their own stated
uncertainty, and the best next shot is not expected to save ``worth`` of rest error.

Expected gains are believed as far as those of earlier shots came true (:attr:`SessionState.trust`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cue_agent.budgets import Plan
from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, HELD_OUT, Action, Attempt, Judgement, SessionState
from cue_agent.peers import NOMINAL, StrikeStatus
from cue_agent.surprise import coverage95, likely

AGREEMENT = "agreement"
VERDICT = "verdict"
"""How reasons begin for which exploration ends before its budget does: found by rule, or given by a model."""
CHANCE = 0.4
"""Standard deviation of the logarithm of one shot's ratio of errors, of two equally good estimates."""
GRAIN = 1e-3
"""Errors below do not differ [m]."""
DROPPED_SHARE = 0.2
ROLL_BACKS = 2
FLAGGED_OF = 3
"""Newest shots among which unusable ones speak against the tracker."""
_SURE = 2.0
_SCATTERED = 3.0  # standard deviations of what the stroke scatters, beyond which a fitted shot counts as unexplained


@dataclass(frozen=True)
class Facts:
    """What a judgement rests on beside the journal.

    Attributes:
        plan: of the budgets.
        fitted: rest error [m] of the estimate in use on each shot that it was fitted to.
        rivals: for shots that neither was fitted to, rest errors [m] of the estimate in use and of the one before it.
        place_stddev: of the newest resting balls as the tracker states it [m], NaN = not known.
    """

    plan: Plan
    fitted: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    place_stddev: float = math.nan


def judge(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement:
    """Return what to do next; see the module."""
    if state.explored_enough or state.unplayable:
        return _validating(state, facts, config)
    for rule in (_perceive, _drop, _roll_back, _shrink, _enlarge, _hold_out, _validate, _fit):
        found = rule(state, facts, config)
        if found is not None:
            return found
    waiting = len(state.unfitted)
    later = f"; the fit of {_shots(waiting)} is put off" if waiting and state.fits else ""
    why = f"{_shots(facts.plan.explore_left)} left to explore{later}"
    return Judgement(Action.SHOOT, why, _outlook(state, facts))


def enough(state: SessionState, numbers: Mapping[str, Any], config: AgentConfig) -> Judgement | None:
    """Return the judgement that ends exploration because all is explained and no shot would pay, None = it goes on.

    Args:
        state: of the session.
        numbers: of the planner's choice: ``gain`` of the best shot [nat] and ``goal_error`` [m].
        config: limits.
    """
    newest = [a for a in state.used(EXPLORE) if a.usable][-config.agreement_shots :]
    stated = [a.residual for a in newest if a.residual is not None and a.revision != NOMINAL]
    if len(stated) < config.agreement_shots or not likely(stated):
        return None
    gain, error = numbers.get("gain"), numbers.get("goal_error")
    if gain is None or error is None:
        return None
    saved = float(error) * (1 - math.exp(-state.trust * float(gain)))
    if not saved < config.worth:
        return None
    told = {
        "levels": [_round(r.level) for r in stated],
        "gain_nat": _round(float(gain)),
        "trust": _round(state.trust),
        "rest_error_from_ignorance_m": _round(float(error)),
        "saved_m": _round(saved),
        "worth_m": config.worth,
    }
    return Judgement(Action.VALIDATE, AGREEMENT, told)


def _outlook(state: SessionState, facts: Facts) -> dict[str, Any]:
    last = state.attempts[-1] if state.attempts else None
    told: dict[str, Any] = {"plan": facts.plan.to_dict()}
    if last is not None and last.residual is not None:
        told["level"] = _round(last.residual.level)
    if state.residuals:
        told["coverage95"] = _round(coverage95(state.residuals))
    return told


def _validating(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement:
    judged = len(state.usable_ids(HELD_OUT))
    agreed = state.explored_enough.startswith((AGREEMENT, VERDICT))
    # What was kept back and not needed is played too: one more shot that judges.
    wanted = state.held_out_shots if agreed else state.shots
    shot_s = facts.plan.shot_s
    held_out = [a.residual for a in state.used(HELD_OUT) if a.residual is not None]
    told = {
        "judged": judged,
        "shots_left": state.shots - len(state.used()),
        "coverage95": _round(coverage95(held_out)),
        "plan": facts.plan.to_dict(),
    }
    why = state.unplayable or state.explored_enough
    if state.unplayable or judged >= wanted or len(state.used()) >= state.shots:
        return Judgement(Action.STOP, why, told)
    if judged >= config.min_held_out and facts.plan.wall_left < (0.0 if math.isnan(shot_s) else shot_s):
        return Judgement(Action.STOP, "wall time", told)
    return Judgement(Action.SHOOT, f"{_shots(judged)} of those held out can be judged so far", told)


def _perceive(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    since = state.perceived[-1] if state.perceived else 0
    struck = [a for a in state.attempts[since:] if a.spent]
    newest = struck[-FLAGGED_OF:]
    bad = [a for a in newest if a.status is StrikeStatus.OBSERVED and not a.usable]
    told = {
        "unusable": [a.shot.shot_id for a in bad],
        "flags": sorted({f for a in bad for f in a.flags}),
        "place_stddev_m": _round(facts.place_stddev),
    }
    if len(state.perceived) >= config.max_refinements or not struck:
        return None
    if 2 * len(bad) > FLAGGED_OF:
        return Judgement(Action.PERCEIVE, f"{len(bad)} of the last {len(newest)} shots could not be used", told)
    if facts.place_stddev > config.max_place_stddev:
        seen = f"balls at rest are seen to within {1e3 * facts.place_stddev:.1f} mm only"
        return Judgement(Action.PERCEIVE, seen, told)
    return None


def _last_fit_is_news(state: SessionState) -> bool:
    """Tell whether nothing was played since the last fit, which was promoted."""
    return bool(state.fits) and state.fits[-1].promoted and state.fits[-1].after == len(state.attempts)


def _drop(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    errors = {i: e for i, e in facts.fitted.items() if i not in state.dropped and math.isfinite(e)}
    total = len(errors) + len(state.dropped)
    if not _last_fit_is_news(state) or len(errors) < 4 or len(state.dropped) + 1 > DROPPED_SHARE * total:
        return None
    # What errors of the stroke scatter anyway is nothing that a fit could explain.
    scatter = {a.shot.shot_id: a.scatter for a in state.attempts}
    worst = max(errors, key=lambda i: errors[i] - _SCATTERED * scatter.get(i, 0.0))
    others = sorted(e for i, e in errors.items() if i != worst)
    usual = others[len(others) // 2]
    limit = max(config.drop_factor * usual, config.drop_error) + _SCATTERED * scatter.get(worst, 0.0)
    if errors[worst] <= limit:
        return None
    why = f"{worst} is {100 * errors[worst]:.1f} cm off after its own fit, the others {100 * usual:.1f} cm"
    told = {"error_m": _round(errors[worst]), "usual_m": _round(usual), "limit_m": _round(limit)}
    return Judgement(Action.DROP, why, told, shot_id=worst)


def log_ratios(rivals: Mapping[str, tuple[float, float]]) -> list[float]:
    """Return the logarithm of each shot's ratio of errors, positive = the first of the pair is worse."""
    pairs = [p for p in rivals.values() if all(map(math.isfinite, p))]
    return [math.log((a + GRAIN) / (b + GRAIN)) for a, b in pairs]


def _rivalry(facts: Facts) -> tuple[int, float, dict[str, Any]]:
    ratios = log_ratios(facts.rivals)
    mean = sum(ratios) / len(ratios) if ratios else 0.0
    told = {i: [_round(a), _round(b)] for i, (a, b) in facts.rivals.items()}
    return len(ratios), mean, {"now_and_before_m": told, "mean_log_ratio": _round(mean)}


def _roll_back(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    count, mean, told = _rivalry(facts)
    before = state.in_use[-2] if len(state.in_use) > 1 else NOMINAL
    if before == NOMINAL or count < 2 or len(state.rolled_back) >= ROLL_BACKS or before in state.rolled_back:
        return None
    if mean <= _SURE * CHANCE / math.sqrt(count):
        return None
    why = f"revision {state.revision} predicts {_shots(count)} {math.exp(mean):.1f} times worse than revision {before}"
    return Judgement(Action.ROLL_BACK, why, told, revision=before)


def _shrink(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    chosen = next((f for f in reversed(state.fits) if f.promoted), None)
    if chosen is None or not chosen.chosen or chosen.revision != state.revision:
        return None
    count, mean, told = _rivalry(facts)
    if count < 2 or mean <= 0:
        return None
    return Judgement(Action.SHRINK, f"more terms do not predict {count} new shots better", told)


def _enlarge(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    seen, tried = len(state.to_fit), [len(f.shot_ids) for f in state.fits if f.terms]
    if seen < config.terms_from or not state.unfitted:
        return None
    levels, traits = _stated(state, config)
    told = {"levels": levels, "traits": traits, "shots_then": tried}
    if not tried:
        # What is missing widens the statements, too, before it shows in them: held-out evidence sees it earlier.
        return Judgement(Action.ENLARGE, f"{_shots(seen)} can tell whether more terms pay", told)
    if seen >= config.terms_growth * tried[-1]:
        return Judgement(Action.ENLARGE, f"{_shots(seen)} may tell more of further terms than {tried[-1]} did", told)
    if not levels or sorted(levels)[len(levels) // 2] <= config.terms_level or seen < tried[-1] + config.terms_shots:
        return None
    off = math.sqrt(sorted(levels)[len(levels) // 2])
    why = f"half of the last {len(levels)} shots lay {off:.1f} stated deviations off or more"
    return Judgement(Action.ENLARGE, f"{why}: something is missing in the twin", told)


def _stated(state: SessionState, config: AgentConfig) -> tuple[list[float], dict[str, float]]:
    """Return the levels of the newest shots stated by a fitted twin, none where too few were, and surprising traits."""
    newest = [a for a in state.used(EXPLORE) if a.usable and a.residual is not None and a.revision != NOMINAL]
    stated = [a.residual for a in newest[-config.terms_shots :] if a.residual is not None and a.residual.z2]
    levels = [round(r.level, 4) for r in stated] if len(stated) == config.terms_shots else []
    told = {t: row["level"] for t, row in state.surprise.to_dict().items() if row["level"] > config.terms_level}
    return levels, told


def _newest(state: SessionState) -> Attempt | None:
    """Return the exploration shot that this judgement is about, None after a fit."""
    last = state.attempts[-1] if state.attempts else None
    judged_since = bool(state.fits) and state.fits[-1].after == len(state.attempts)
    return last if last is not None and last.spent and last.role == EXPLORE and not judged_since else None


def _hold_out(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    last = _newest(state)
    if last is None or not last.usable or last.shot.shot_id not in state.to_fit:
        return None
    if len(state.held_back) >= config.max_held_back or len(state.to_fit) <= config.terms_from:
        return None
    gain = state.trust * last.gain
    if not gain < config.hold_gain:  # NaN = not known
        return None
    why = f"{last.shot.shot_id} should have taught {gain:.3f} nat: it judges fits better than it feeds them"
    told = {"gain_nat": _round(last.gain), "trust": _round(state.trust)}
    return Judgement(Action.HOLD_OUT, why, told, shot_id=last.shot.shot_id)


def _validate(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    if facts.plan.explore_left > 0:
        return None
    limit = facts.plan.limited_by
    return Judgement(Action.VALIDATE, "budget" if limit == "shots" else limit, _outlook(state, facts))


def _fit(state: SessionState, facts: Facts, config: AgentConfig) -> Judgement | None:
    waiting, ids = state.unfitted, state.to_fit
    if not waiting or len(ids) < config.first_fit:
        return None
    by_id = {a.shot.shot_id: a for a in state.used(EXPLORE)}
    gains = [by_id[i].gain for i in waiting]
    gain = state.trust * sum(g for g in gains if math.isfinite(g))
    last = _newest(state)
    level = last.residual.level if last is not None and last.residual is not None and last.residual.z2 else math.nan
    told = {**_outlook(state, facts), "waiting": list(waiting), "gain_nat": _round(gain), "trust": _round(state.trust)}
    if not state.fits:
        return Judgement(Action.FIT, f"first fit, of {_shots(len(ids))}", told)
    if set(state.fits[-1].shot_ids) - set(ids):
        return Judgement(Action.FIT, "without the shot that was dropped", told)
    if last is not None and last.revision != NOMINAL and level > config.refit_level and last.shot.shot_id in waiting:
        return Judgement(Action.FIT, f"{last.shot.shot_id} lay {math.sqrt(level):.1f} stated deviations off", told)
    if gain >= config.refit_gain:
        return Judgement(Action.FIT, f"{_shots(len(waiting))} not fitted yet should have taught {gain:.2f} nat", told)
    if len(waiting) >= config.fit_every:
        return Judgement(Action.FIT, f"{_shots(len(waiting))} since the last fit", told)
    return None


def _shots(count: int) -> str:
    return f"{count} shot{'' if count == 1 else 's'}"


def _round(value: float, digits: int = 5) -> float | None:
    return round(value, digits) if math.isfinite(value) else None
