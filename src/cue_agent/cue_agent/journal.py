"""The journal ``agent.jsonl``: every decision, written before it is acted on, and what came of it.

The state of a session is nothing but its journal read from the start: so it goes on where a killed agent left it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cue_agent.entries import ESCAPE, EXPLORE, HELD_OUT, Action, Attempt, FitRound, Judgement
from cue_agent.peers import NOMINAL, Code, StrikeStatus
from cue_agent.surprise import Expectation, Residual, Surprise, dispersion
from cue_core.errors import FileFormatError
from cue_core.shot_log import append_line, read_lines
from cue_core.shots import Shot

__all__ = [
    "ESCAPE",
    "EXPLORE",
    "HELD_OUT",
    "Action",
    "Attempt",
    "FitRound",
    "Journal",
    "Judgement",
    "SessionState",
]

LEAST_TRUST = 0.05
_SHOT_ID = re.compile(r"s(\d+)")


@dataclass
class SessionState:
    """A session as its journal tells it.

    Attributes:
        due: something happened that no judgement was passed on.
        order: the judgement that is still to be carried out.
        in_use: revisions of the twin's estimates, one after the other.
        dropped: ids of shots that are not fitted any more.
        held_back: ids of exploration shots that judge fits rather than being fitted.
        perceived: for each refinement of perception, the count of attempts before it.
        rolled_back: revisions that were given up.
        explored_enough: why exploration ended; empty = it did not.
        taken_over: why the offline planner goes on in place of the model; empty = it does not.
    """

    instruction: str = ""
    shots: int = 0
    held_out_shots: int = 0
    seed: int = 0
    planner: str = ""
    number: int = 0
    next_shot: int = 1
    started: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)
    fits: list[FitRound] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    due: bool = False
    order: Judgement | None = None
    in_use: list[int] = field(default_factory=lambda: [NOMINAL])
    dropped: list[str] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    perceived: list[int] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    explored_enough: str = ""
    unplayable: str = ""
    taken_over: str = ""
    stopped: tuple[Code, str] | None = None
    result: dict[str, Any] | None = None
    delivered: bool = False
    phases: list[tuple[str, float]] = field(default_factory=list)
    last_wall: float = 0.0

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take in one line of the journal.

        Raises:
            KeyError, ValueError: the line is malformed.
        """
        event, what = line["event"], line.get("what", "")
        before, self.last_wall = self.last_wall, float(line.get("wall", self.last_wall))
        if event == "session":
            for name in ("instruction", "shots", "held_out_shots", "seed", "planner", "number", "next_shot"):
                setattr(self, name, line[name])
            self.started = self.last_wall
        elif event == "phase":
            self.phases.append((line["phase"], self.last_wall))
        elif event == "decision" and what == "shot":
            self.attempts.append(self._attempt(line, before))
            self.next_shot += 1
        elif event == "outcome" and what == "shot":
            self._shot_ended(line)
        elif event == "decision" and what == "judgement":
            self._judged(line)
        elif event == "decision" and what == "fit":
            fit = FitRound(tuple(line["shot_ids"]), line["seed"], line["final"], began=before, after=len(self.attempts))
            fit.terms, fit.held_out_ids = tuple(line.get("terms", ())), tuple(line.get("held_out_shot_ids", ()))
            fit.parameters, fit.evaluations = tuple(line.get("parameters", ())), int(line.get("evaluations", 0))
            fit.chosen = bool(fit.terms or fit.parameters)
            self.fits.append(fit)
            self.order = None
        elif event == "outcome" and what == "fit":
            fit = self.fits[-1]
            fit.done, fit.code, fit.promoted = True, line["code"], line["promoted"]
            fit.revision, fit.message = line["revision"], line["message"]
            fit.parameters = tuple(line.get("parameters", ()))
            fit.seconds, self.due = self.last_wall - fit.began, True
            if fit.promoted:
                self.in_use.append(fit.revision)
        elif event == "outcome" and what == "roll_back":
            self.rolled_back.append(self.revision)
            if line["revision"] != self.revision:
                self.in_use.append(line["revision"])
            self.order, self.due = None, True
        elif event == "outcome" and what == "refine_perception":
            self.perceived.append(len(self.attempts))
            self.order, self.due = None, True
        elif event == "note" and what == "taken_over":
            self.taken_over = line["reason"]
        elif event == "decision" and what == "unplayable":
            self.unplayable = line["reason"]
        elif event == "decision" and what == "stop":
            self.stopped = Code(line["code"]), line["reason"]
        elif event == "result":
            self.result = dict(line["result"])
        elif event == "delivered":
            self.delivered = True
        else:
            raise ValueError(f"unknown event {event!r} {what!r}")

    def _attempt(self, line: Mapping[str, Any], began: float) -> Attempt:
        attempt = Attempt(Shot(**line["shot"]), line["role"], line["revision"], began=began)
        if line.get("expected"):
            attempt.expected = Expectation.from_dict(line["expected"])
        attempt.gain = float(line.get("gain_nat", float("nan")))
        attempt.goal_error = float(line.get("numbers", {}).get("goal_error", float("nan")))
        attempt.scatter = float(line.get("scatter_m", 0.0))
        attempt.simulated = int(line.get("numbers", {}).get("simulated", 0)) if line.get("rank", 0) == 0 else 0
        return attempt

    def _shot_ended(self, line: Mapping[str, Any]) -> None:
        attempt = self.attempts[-1]
        attempt.status = StrikeStatus(line["status"])
        attempt.message, attempt.struck, attempt.usable = line["message"], line["struck"], line["usable"]
        attempt.rest_error = float(line["rest_error_m"])
        attempt.flags = tuple(line.get("flags", ()))
        attempt.seconds = self.last_wall - attempt.began
        if line.get("residual") and attempt.expected is not None:
            attempt.residual = Residual.from_dict(line["residual"], attempt.shot.shot_id, attempt.expected)
        if attempt.spent:
            self.due, self.order = True, None

    def _judged(self, line: Mapping[str, Any]) -> None:
        judgement = Judgement(
            Action(line["action"]),
            line["reason"],
            line["numbers"],
            line.get("shot_id", ""),
            line.get("revision", NOMINAL),
        )
        self.judgements.append(judgement)
        self.due, self.order = judgement.action.settled_at_once, judgement
        if judgement.action is Action.DROP:
            self.dropped.append(judgement.shot_id)
        elif judgement.action is Action.HOLD_OUT:
            self.held_back.append(judgement.shot_id)
        elif judgement.action is Action.VALIDATE:
            self.explored_enough = judgement.reason

    def used(self, role: str | None = None) -> list[Attempt]:
        """Return the attempts that used up a shot of the budget, of one role or of all."""
        return [a for a in self.attempts if a.spent and role in (None, a.role)]

    def usable_ids(self, role: str) -> tuple[str, ...]:
        """Return the ids of the shots of a role whose records can be fitted or judged.

        Shots with a raised cue are left out: how the tip and the slate share such a blow no parameter of the twin says.
        """
        return tuple(a.shot.shot_id for a in self.attempts if a.usable and a.role == role and a.shot.elevation == 0.0)

    @property
    def revision(self) -> int:
        """Return the revision in use: of the last promoted fit or roll back, else the nominal one."""
        return self.in_use[-1]

    @property
    def to_fit(self) -> tuple[str, ...]:
        """Return the ids of the exploration shots that a fit would take now."""
        left_out = {*self.dropped, *self.held_back}
        return tuple(i for i in self.usable_ids(EXPLORE) if i not in left_out)

    @property
    def unfitted(self) -> tuple[str, ...]:
        """Return those of them that the last fit did not take; all where it took others besides."""
        fitted = self.fits[-1].shot_ids if self.fits else ()
        ids = self.to_fit
        return ids if set(fitted) - set(ids) else tuple(i for i in ids if i not in fitted)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters that fits take: chosen with the terms in use, else the usual ones ()."""
        fit = next((f for f in reversed(self.fits) if f.promoted and f.revision not in self.rolled_back), None)
        return fit.parameters if fit is not None and fit.chosen else ()

    @property
    def residuals(self) -> list[Residual]:
        """Return how far each shot's outcome lay outside what was stated, in order."""
        return [a.residual for a in self.attempts if a.residual is not None]

    @property
    def trust(self) -> float:
        """Return which share of the expected gains came true, :data:`LEAST_TRUST` to 1.

        What was expected of the shots fitted since the first choice with a fitted twin is held against how far the
        error that ignorance causes fell since then; a prior belief worth 1 nat says that gains are as expected.
        """
        found = [a for a in self.used(EXPLORE) if a.revision != NOMINAL and math.isfinite(a.goal_error)]
        if not found or not min(a.goal_error for a in found) > 0:
            return 1.0
        fitted = {i for f in self.fits if f.promoted and f.revision <= found[-1].revision for i in f.shot_ids}
        expected = sum(a.gain for a in found if a.shot.shot_id in fitted and math.isfinite(a.gain))
        realised = math.log(found[0].goal_error / found[-1].goal_error)
        return min(max((1 + realised) / (1 + expected), LEAST_TRUST), 1.0)

    @property
    def widening(self) -> float:
        """Return the factor by which the fitted twin's statements are widened, from how its newest ones did."""
        stated = [a.residual for a in self.attempts if a.residual is not None and a.revision != NOMINAL]
        return dispersion(stated) if self.revision != NOMINAL else 1.0

    @property
    def surprise(self) -> Surprise:
        """Return what the exploration shots say of the twin's statements."""
        return Surprise([a.residual for a in self.used(EXPLORE) if a.residual is not None])

    @property
    def tried_in_slot(self) -> int:
        """Return how many options of the present choice were tried without using up a shot."""
        return self.trailing(lambda a: not a.spent)

    def trailing(self, matches: Callable[[Attempt], bool]) -> int:
        """Return how many of the newest attempts match, without a gap."""
        count = 0
        for attempt in reversed(self.attempts):
            if not matches(attempt):
                break
            count += 1
        return count

    def phase_seconds(self) -> dict[str, float]:
        """Return the wall time spent in each phase so far [s]."""
        total: dict[str, float] = {}
        ends = [wall for _, wall in self.phases[1:]] + [self.last_wall]
        for (phase, begin), end in zip(self.phases, ends, strict=True):
            total[phase] = total.get(phase, 0.0) + end - begin
        return {phase: round(seconds, 3) for phase, seconds in total.items()}


class Journal:
    """The journal of a run folder; without a folder it lives in memory."""

    def __init__(self, run_dir: Path | str = "", wall: Callable[[], float] = time.time) -> None:
        """Read what is there.

        Raises:
            FileFormatError: it is no journal.
        """
        self.run_dir = str(run_dir)
        self.path = Path(run_dir, "agent.jsonl") if self.run_dir else None
        self._wall = wall
        self._sessions = 0
        self._next_shot = 1
        self.state: SessionState | None = None
        for number, line in enumerate(read_lines(self.path) if self.path else [], start=1):
            try:
                self._apply(line)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                raise FileFormatError(
                    self.path, f"line {number} is malformed: {type(error).__name__} {error}"
                ) from None

    def _apply(self, line: Mapping[str, Any]) -> None:
        if line["event"] == "session":
            self.state = SessionState()
            self._sessions += 1
        if self.state is None:
            raise ValueError("no session was begun")
        self.state.apply(line)
        self._next_shot = self.state.next_shot

    @property
    def unfinished(self) -> bool:
        """True when the last session goes on, or its result was never handed over."""
        return self.state is not None and not self.state.delivered

    def begin(self, taken_ids: Iterable[str] = (), **session: Any) -> SessionState:
        """Begin a session; its shots are numbered after all earlier ones and after ``taken_ids``."""
        numbers = [int(m.group(1)) for m in map(_SHOT_ID.fullmatch, taken_ids) if m]
        next_shot = max([self._next_shot, *(n + 1 for n in numbers)])
        self.write("session", number=self._sessions + 1, next_shot=next_shot, **session)
        assert self.state is not None
        return self.state

    def write(self, event: str, **values: Any) -> None:
        """Write one line, durably, then take it in.

        Raises:
            FileFormatError: the file cannot be written.
        """
        line = {"event": event, **values, "wall": round(self._wall(), 3)}
        if self.path is not None:
            append_line(self.path, line)
        self._apply(line)

    def next_shot_id(self) -> str:
        """Return the id that the next shot will have."""
        return f"s{self._next_shot:03d}"
