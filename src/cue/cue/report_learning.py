"""What a session learnt where, and what it decided, gathered from its journal: nothing here draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cue_agent.journal import EXPLORE, HELD_OUT, Attempt, SessionState
from cue_agent.surprise import EVENTS, REGIONS, SPEEDS, Residual, brier, coverage95
from cue_core.shots import ShotRecord

_SHOWN_NUMBERS = 240  # characters
_WORDS = {
    "shoot": "play on",
    "fit": "fit now",
    "enlarge": "fit with more terms",
    "shrink": "fit with fewer terms",
    "refine_perception": "look anew",
    "hold_out": "hold this shot out",
    "drop": "drop a shot",
    "roll_back": "roll back",
    "validate": "explore no more",
    "stop": "stop",
}


@dataclass(frozen=True)
class Lesson:
    """What shots with one trait showed; numbers are means over shots, weighted by how much of the trait each holds.

    Attributes:
        trait: see :mod:`cue_agent.surprise`.
        shots: explored with it, in whole shares.
        gain: expected of them together [nat], NaN = not known.
        level: mean squared stated deviations of exploration shots, NaN = none; 1 = as stated.
        level_after: the same of the held-out shots, which the last estimate predicted.
        error: rest error of the unfitted twin over all of these shots [m].
        error_after: of the last estimate on the held-out shots [m].
    """

    trait: str
    shots: float
    gain: float
    level: float
    level_after: float
    error: float
    error_after: float


@dataclass(frozen=True)
class Played:
    """One shot that was struck: as decided, as recorded, and how far off the unfitted twin was [m]."""

    attempt: Attempt
    record: ShotRecord | None
    unfitted_error: float

    @property
    def shares(self) -> Mapping[str, float]:
        """Return how much of each trait it holds."""
        return self.attempt.expected.shares if self.attempt.expected is not None else {}


@dataclass(frozen=True)
class Learnt:
    """A session as it shows in its journal; ``uses`` says what became of exploration shots that were not fitted."""

    played: tuple[Played, ...]
    lessons: tuple[Lesson, ...]
    uses: Mapping[str, str]

    def residuals(self, role: str) -> list[Residual]:
        """Return those of one role, in order."""
        return [p.attempt.residual for p in self.played if p.attempt.role == role and p.attempt.residual is not None]

    def told_coverage(self) -> list[str]:
        """Return a line for each role: how many balls came to rest where they were stated to."""
        lines = []
        for role, name in ((EXPLORE, "explored, each before it was fitted"), (HELD_OUT, "held out")):
            found = self.residuals(role)
            balls, share = sum(len(r.z2) for r in found), coverage95(found)
            if balls:
                lines.append(f"{name}: {share:.0%} of {balls} balls within the stated 95 % region")
        everything = [*self.residuals(EXPLORE), *self.residuals(HELD_OUT)]
        score, gone = brier(everything), sum(g for r in everything for _, g in r.pocket.values())
        if not math.isnan(score):
            lines.append(f"pocketed: {gone}, Brier score of the stated probabilities {score:.3f}")
        return lines


def _mean(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the mean of (value, weight) pairs, NaN where nothing has weight."""
    known = [(v, w) for v, w in pairs if math.isfinite(v) and w > 0]
    total = sum(w for _, w in known)
    return sum(v * w for v, w in known) / total if total else math.nan


def _level(played: Played) -> float:
    return played.attempt.residual.level if played.attempt.residual is not None else math.nan


def _lesson(trait: str, explored: Sequence[Played], held_out: Sequence[Played]) -> Lesson:
    def share(shot: Played) -> float:
        return shot.shares.get(trait, 0.0)

    gains = [share(p) * p.attempt.gain for p in explored if math.isfinite(p.attempt.gain)]
    return Lesson(
        trait,
        sum(map(share, explored)),
        sum(gains) if gains else math.nan,
        _mean((_level(p), share(p)) for p in explored),
        _mean((_level(p), share(p)) for p in held_out),
        _mean((p.unfitted_error, share(p)) for p in (*explored, *held_out)),
        _mean((p.attempt.rest_error, share(p)) for p in held_out),
    )


def learnt(lines: Sequence[Mapping[str, Any]], records: Sequence[ShotRecord]) -> Learnt | None:
    """Read the last session of a journal; None where it tells of none, or is of an earlier version."""
    state: SessionState | None = None
    errors: dict[str, float] = {}
    try:
        for line in lines:
            if line["event"] == "session":
                state, errors = SessionState(), {}
            if state is not None:
                state.apply(line)
                if line["event"] == "outcome" and line.get("what") == "shot":
                    errors[state.attempts[-1].shot.shot_id] = float(line["unfitted"]["rest_error_m"])
    except (KeyError, ValueError, TypeError, IndexError):
        return None
    if state is None:
        return None
    by_id = {r.shot_id: r for r in records}
    played = tuple(
        Played(a, by_id.get(a.shot.shot_id), errors.get(a.shot.shot_id, math.nan)) for a in state.attempts if a.spent
    )
    explored = [p for p in played if p.attempt.role == EXPLORE]
    held_out = [p for p in played if p.attempt.role == HELD_OUT]
    lessons = tuple(_lesson(t, explored, held_out) for t in (*EVENTS, *SPEEDS, *REGIONS))
    uses = {**dict.fromkeys(state.dropped, "dropped"), **dict.fromkeys(state.held_back, "judged fits")}
    return Learnt(played, lessons, uses)


def decision_rows(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return each decision as what it is, why, and its numbers, and what came of fits; the rest is left out."""
    return [_row(line) for line in lines if _is_told(line)]


def _is_told(line: Mapping[str, Any]) -> bool:
    event, what = line.get("event"), line.get("what")
    if event == "decision":  # what is fitted before the last fit, and why, the judgement before it says
        return what != "fit" or bool(line.get("final"))
    return event == "outcome" and what in ("fit", "roll_back", "refine_perception")


def _row(line: Mapping[str, Any]) -> dict[str, str]:
    what, after = str(line.get("what", "")), str(line.get("shot_id", ""))
    why = str(line.get("reason") or line.get("message") or "")
    numbers = line.get("numbers", {})
    if line.get("event") == "outcome":
        return {"what": _outcome(what, line), "why": why, "numbers": ""}
    if what == "judgement":
        action = str(line.get("action"))
        return {"what": _WORDS.get(action, action), "why": why, "numbers": _told(numbers)}
    if what == "shot":
        shot = line.get("shot", {})
        role = str(line.get("role", "")).replace("_", " ")
        told = {"speed": shot.get("speed"), "azimuth": shot.get("azimuth"), **numbers}
        return {"what": f"shot {shot.get('shot_id', after)}, {role}", "why": why, "numbers": _told(told)}
    rest = {k: v for k, v in line.items() if k not in ("event", "what", "reason", "message", "wall")}
    return {"what": f"decision {what}".strip(), "why": why, "numbers": _told(rest)}


def _outcome(what: str, line: Mapping[str, Any]) -> str:
    if what == "refine_perception":
        return "did not look anew" if line.get("message") else "looked anew"
    if line.get("code") != 0:
        return "fit failed" if what == "fit" else "not rolled back"
    kept = "" if line.get("promoted", True) else ", not used"
    return f"{'fitted' if what == 'fit' else 'rolled back'}: revision {line.get('revision')}{kept}"


def _told(numbers: Mapping[str, Any]) -> str:
    """Return numbers as ``name value`` pairs, a plan in words."""
    parts = []
    for key, value in numbers.items():
        if key == "plan" and isinstance(value, Mapping):
            parts.append(_plan(value))
        elif value not in (None, "", [], {}):
            parts.append(f"{key.replace('_', ' ')} {_number(value)}")
    text = " · ".join(parts)
    return text if len(text) <= _SHOWN_NUMBERS else text[: _SHOWN_NUMBERS - 1] + "…"


def _plan(plan: Mapping[str, Any]) -> str:
    words = f"plan: {plan.get('explore_left')} to explore, {plan.get('held_out_left')} to hold out, "
    words += f"{plan.get('fits_left')} fits"
    if plan.get("evaluations"):
        words += f" of {plan['evaluations']} simulated shots"
    seconds = plan.get("seconds_left")
    return words + (f", about {seconds:.0f} s" if isinstance(seconds, int | float) else "")


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_number(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_number(v) for v in value)
    return str(value)
