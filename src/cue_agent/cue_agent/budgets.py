"""What a session may still spend, shared out over the fits, decisions and held-out shots that are to come.

Shots are always limited; wall time and simulated shots where the settings say so. What the rest of the session needs is
taken from what it needed so far: held-out shots and the last fit come first, exploration gets what remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, HELD_OUT, SessionState

LEAST_EVALUATIONS = 2000
"""Simulated shots without which a fit is not worth its while."""
DEFAULT_EVALUATIONS = 60_000
"""What a fit is taken to cost where its budget is left to the fitter."""
LAST_FIT = 2
"""The last fit gets as much as so many others: nothing mends it."""
CHOOSING = 3
"""Fits that choose their terms cost as much as so many others."""


@dataclass(frozen=True)
class Plan:
    """How what is left is shared out.

    Attributes:
        explore_left: exploration shots.
        held_out_left: shots that only judge, at least.
        fits_left: the last one included.
        evaluations: simulated shots of the next fit; 0 = as many as the fitter thinks fit.
        last_evaluations: the same of the last fit.
        wall_left: [s], infinite without a limit.
        compute_left: simulated shots, infinite without a limit.
        shot_s: wall time of a shot, its choice included [s], NaN = not known yet.
        fit_s: wall time of a fit [s], NaN = not known yet.
        seconds_left: wall time that all of this will take [s], NaN = not known yet.
        limited_by: "shots", "wall time" or "compute": what ends exploration first.
    """

    explore_left: int
    held_out_left: int
    fits_left: int
    evaluations: int
    last_evaluations: int
    wall_left: float
    compute_left: float
    shot_s: float
    fit_s: float
    seconds_left: float
    limited_by: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal; what is not known or not limited is left out."""
        told = {k: round(v, 1) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {k: v for k, v in told.items() if not isinstance(v, float) or math.isfinite(v)}


def exploration_budget(state: SessionState, config: AgentConfig) -> int:
    """Return how many shots may explore.

    ``reserve_shots`` are kept back for what befalls the held-out shots. Where exploration shots turned out unusable,
    so may held-out ones: as many more, up to ``spare_shots`` together, while enough remain for a first fit.
    """
    unusable = sum(not a.usable for a in state.used(EXPLORE))
    most = state.shots - state.held_out_shots
    kept = min(config.reserve_shots + unusable, max(config.spare_shots, config.reserve_shots))
    return max(most - kept, min(config.first_fit, most))


def _middle(values: Iterable[float]) -> float:
    """Return the median, NaN without any."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _affordable(left: float, kept: float, each: float) -> int:
    """Return how many things that cost ``each`` what is left pays for when ``kept`` is kept back."""
    if math.isinf(left) or each <= 0:
        return 10**9
    return max(int((left - kept) / each), 0)


def spent_compute(state: SessionState, config: AgentConfig) -> int:
    """Return the simulated shots that fits and decisions were granted so far."""
    usual = config.fit_evaluations or DEFAULT_EVALUATIONS
    fits = sum(f.evaluations or usual * (CHOOSING if f.terms else 1) for f in state.fits)
    return fits + sum(a.simulated for a in state.attempts)


def plan(state: SessionState, config: AgentConfig) -> Plan:
    """Share out what is left. The journal's own times count, so that a restarted session plans the same."""
    explored = len(state.used(EXPLORE))
    held_out = max(state.held_out_shots - len(state.usable_ids(HELD_OUT)), 0)
    by_shots = max(min(exploration_budget(state, config), state.shots - held_out) - explored, 0)
    shot_s = _middle(a.seconds for a in state.attempts if a.spent)
    fit_s = _middle(f.seconds for f in state.fits if f.done and f.code == 0)
    decision = _known(_middle(float(a.simulated) for a in state.attempts if a.simulated))
    wall_left = config.wall_budget - (state.last_wall - state.started) if config.wall_budget else math.inf
    compute_left = config.compute_budget - spent_compute(state, config) if config.compute_budget else math.inf

    wall_each = _known(shot_s) + _known(fit_s) / config.fit_every
    by_wall = _affordable(wall_left, held_out * _known(shot_s) + _known(fit_s), wall_each)
    if wall_left <= 0:
        by_wall = 0
    compute_each = decision + LEAST_EVALUATIONS / config.fit_every
    by_compute = _affordable(compute_left, held_out * decision + LAST_FIT * LEAST_EVALUATIONS, compute_each)
    explore = min(by_shots, by_wall, by_compute)
    limited = "shots" if explore == by_shots else "wall time" if explore == by_wall else "compute"

    fits = math.ceil(explore / config.fit_every)
    evaluations = last = config.fit_evaluations
    if config.compute_budget:
        free = max(compute_left - (explore + held_out) * decision, 0.0)
        share = max(int(free / (fits + LAST_FIT)), LEAST_EVALUATIONS // 2)
        most = config.fit_evaluations or DEFAULT_EVALUATIONS
        evaluations, last = min(share, most), min(LAST_FIT * share, most)
    return Plan(
        explore_left=explore,
        held_out_left=held_out,
        fits_left=fits + 1,
        evaluations=evaluations,
        last_evaluations=last,
        wall_left=wall_left,
        compute_left=compute_left,
        shot_s=shot_s,
        fit_s=fit_s,
        seconds_left=(explore + held_out) * shot_s + (fits + 1) * _known(fit_s),
        limited_by=limited,
    )
