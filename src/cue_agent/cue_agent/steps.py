"""The session as a pure state machine: from what happened so far to what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from cue_agent.config import AgentConfig
from cue_agent.journal import ESCAPE, EXPLORE, HELD_OUT, Attempt, FitRound, SessionState
from cue_agent.peers import NOMINAL, Code, StrikeStatus


@dataclass(frozen=True)
class Choose:
    """Decide on the next shot of a role and have it struck; ``rank`` options of this choice did not work.

    ``slot`` counts the shots of this part of the session, escapes among the held-out ones included.
    """

    role: str
    slot: int
    rank: int


@dataclass(frozen=True)
class Strike:
    """Find out what became of a shot that was decided on before a restart, or have it struck now."""

    attempt: Attempt


@dataclass(frozen=True)
class Fit:
    """Fit these shots. ``resumed``: it was decided on before a restart."""

    shot_ids: tuple[str, ...]
    final: bool
    resumed: FitRound | None = None


@dataclass(frozen=True)
class Stop:
    """End the session."""

    code: Code
    reason: str


Step = Choose | Strike | Fit | Stop


def next_step(state: SessionState, config: AgentConfig) -> Step:
    """Return what comes next. Nothing but the state decides, so a restarted session goes on as it would have."""
    if state.stopped is not None:
        return Stop(*state.stopped)
    if state.attempts and state.attempts[-1].status is None:
        return Strike(state.attempts[-1])
    if state.fits and not state.fits[-1].done:
        return Fit(state.fits[-1].shot_ids, state.fits[-1].final, state.fits[-1])
    trouble = _trouble(state, config)
    if trouble is not None:
        return trouble

    explored, held_out, escaped = state.used(EXPLORE), state.used(HELD_OUT), state.used(ESCAPE)
    budget = exploration_budget(state, config)
    agreed = len(explored) < budget and agreement(state, config)
    exploring = len(explored) < budget and not agreed and not state.unplayable and not held_out and not escaped
    fit = _due_fit(state, config, exploring, len(explored))
    if fit is not None:
        return fit
    if exploring:
        return Choose(EXPLORE, len(explored), state.tried_in_slot)
    judged = len(state.usable_ids(HELD_OUT))
    # What was kept back and not needed is played too: one more shot that judges.
    wanted = state.held_out_shots if agreed else state.shots
    enough = judged >= wanted or len(state.used()) >= state.shots
    if state.unplayable and judged < min(config.min_held_out, state.held_out_shots):
        return Stop(Code.UNPLAYABLE, f"{state.unplayable}; {len(held_out)} held-out shots were played")
    if state.revision == NOMINAL:
        why = state.fits[-1].message if state.fits else "no shot could be fitted"
        return Stop(Code.FIT_FAILED, f"no estimate was promoted: {why}")
    if not enough and not state.unplayable:
        return Choose(HELD_OUT, len(held_out) + len(escaped), state.tried_in_slot)
    return Stop(Code.NONE, state.unplayable or ("agreement" if agreed else "budget"))


def exploration_budget(state: SessionState, config: AgentConfig) -> int:
    """Return how many shots may explore.

    ``reserve_shots`` are kept back for what befalls the held-out shots. Where exploration shots turned out unusable,
    so may held-out ones: as many more, up to ``spare_shots`` together, while enough remain for a first fit.
    """
    unusable = sum(not a.usable for a in state.used(EXPLORE))
    most = state.shots - state.held_out_shots
    kept = min(config.reserve_shots + unusable, max(config.spare_shots, config.reserve_shots))
    return max(most - kept, min(config.first_fit, most))


def agreement(state: SessionState, config: AgentConfig) -> bool:
    """Tell whether the newest exploration shots were all predicted well by a fit that had not seen them."""
    newest = state.used(EXPLORE)[-config.agreement_shots :]
    return len(newest) == config.agreement_shots and all(
        a.revision != NOMINAL and a.rest_error < config.agreement_error for a in newest
    )


def _trouble(state: SessionState, config: AgentConfig) -> Stop | None:
    last = state.attempts[-1] if state.attempts else None
    if last is None:
        return None
    if last.status is StrikeStatus.HALTED:
        return Stop(Code.ARM_FAILED, f"shot {last.shot.shot_id}: {last.message or 'the arm stopped'}")
    aborted = sum(a.status is StrikeStatus.ABORTED for a in state.attempts)
    if last.status is StrikeStatus.ABORTED and aborted > config.max_aborted:
        why = last.message or "the arm broke off"
        return Stop(Code.ARM_FAILED, f"shot {last.shot.shot_id} was struck, then aborted: {why}; look at the arm")
    failures = state.trailing(lambda a: a.status is StrikeStatus.FAILED)
    if failures >= config.max_failures:
        return Stop(Code.ARM_FAILED, f"{failures} strokes in a row failed, the last with: {last.message}")
    used = state.used()
    unseen = 0
    while unseen < len(used) and used[-1 - unseen].status is StrikeStatus.NOT_OBSERVED:
        unseen += 1
    if unseen >= config.max_not_observed:
        ids = ", ".join(a.shot.shot_id for a in used[-unseen:])
        return Stop(Code.NOT_OBSERVED, f"the arm reports strokes but the camera saw nothing move: shots {ids}")
    return None


def _due_fit(state: SessionState, config: AgentConfig, exploring: bool, explored: int) -> Fit | None:
    ids = state.usable_ids(EXPLORE)
    fitted = state.fits[-1].shot_ids if state.fits else ()
    if not ids or ids == fitted:  # nothing new to learn from
        return None
    if not exploring:
        return Fit(ids, final=True)
    due = explored >= config.first_fit and (explored - config.first_fit) % config.fit_every == 0
    return Fit(ids, final=False) if due else None
