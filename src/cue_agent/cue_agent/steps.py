"""The session as a pure state machine: from what happened so far to what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from cue_agent.config import AgentConfig
from cue_agent.journal import ESCAPE, EXPLORE, HELD_OUT, Action, Attempt, FitRound, Judgement, SessionState
from cue_agent.peers import NOMINAL, Code, StrikeStatus

AUTO = "auto"
"""Of ``IdentifyParameters``: let held-out evidence choose the terms."""


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
class Judge:
    """Pass judgement on what happened last."""


@dataclass(frozen=True)
class Fit:
    """Fit these shots. ``resumed``: it was decided on before a restart.

    Attributes:
        shot_ids: to fit.
        final: no exploration comes after it.
        why: it is done.
        terms: empty, or "auto".
        parameters: to fit, empty = the usual ones.
        resumed: see above.
    """

    shot_ids: tuple[str, ...]
    final: bool
    why: str = ""
    terms: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    resumed: FitRound | None = None


@dataclass(frozen=True)
class RollBack:
    """Return to an earlier estimate."""

    revision: int


@dataclass(frozen=True)
class RefinePerception:
    """Have the tracker look anew."""


@dataclass(frozen=True)
class Stop:
    """End the session."""

    code: Code
    reason: str


Step = Choose | Strike | Judge | Fit | RollBack | RefinePerception | Stop


def next_step(state: SessionState, config: AgentConfig) -> Step:
    """Return what comes next. Nothing but the state decides, so a restarted session goes on as it would have."""
    if state.stopped is not None:
        return Stop(*state.stopped)
    if state.attempts and state.attempts[-1].status is None:
        return Strike(state.attempts[-1])
    if state.fits and not state.fits[-1].done:
        fit = state.fits[-1]
        return Fit(fit.shot_ids, fit.final, terms=fit.terms, parameters=fit.parameters, resumed=fit)
    trouble = _trouble(state, config)
    if trouble is not None:
        return trouble
    order = state.order
    if order is not None and order.action is Action.ROLL_BACK:
        return RollBack(order.revision)
    if order is not None and order.action is Action.PERCEIVE:
        return RefinePerception()
    if not state.explored_enough and not state.unplayable:
        return _explore(state)
    return _validate(state, config)


def _explore(state: SessionState) -> Step:
    if state.due:
        return Judge()
    order = state.order
    if order is not None and order.action.fits:
        return _fit(state, order, False)
    return Choose(EXPLORE, len(state.used(EXPLORE)), state.tried_in_slot)


def _validate(state: SessionState, config: AgentConfig) -> Step:
    order = state.order
    if state.unfitted:  # nothing is kept from the twin that it may learn from
        return _fit(state, order, True)
    held_out, judged = state.used(HELD_OUT), len(state.usable_ids(HELD_OUT))
    if state.unplayable and judged < min(config.min_held_out, state.held_out_shots):
        return Stop(Code.UNPLAYABLE, f"{state.unplayable}; {len(held_out)} held-out shots were played")
    if state.revision == NOMINAL:
        why = state.fits[-1].message if state.fits else "no shot could be fitted"
        return Stop(Code.FIT_FAILED, f"no estimate was promoted: {why}")
    if state.due:
        return Judge()
    if state.unplayable or (order is not None and order.action is Action.STOP):
        return Stop(Code.NONE, state.unplayable or (order.reason if order is not None else ""))
    return Choose(HELD_OUT, len(held_out) + len(state.used(ESCAPE)), state.tried_in_slot)


def _fit(state: SessionState, order: Judgement | None, final: bool) -> Fit:
    """Return the fit of all that may be fitted: of the parameters in use, unless terms are to be added or removed."""
    action = order.action if order is not None else Action.FIT
    if action is Action.ENLARGE:
        return Fit(state.to_fit, final, "enlarge", (AUTO,))
    why = "last fit before the held-out shots" if final else order.reason if order is not None else ""
    return Fit(state.to_fit, final, why, parameters=() if action is Action.SHRINK else state.parameters)


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
