"""The journal ``agent.jsonl``: every decision, written before it is acted on, and what came of it.

The state of a session is nothing but its journal read from the start: so it goes on where a killed agent left it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cue_agent.peers import NOMINAL, Code, StrikeStatus
from cue_core.errors import FileFormatError
from cue_core.shot_log import append_line, read_lines
from cue_core.shots import Shot

EXPLORE = "explore"
HELD_OUT = "held_out"
ESCAPE = "escape"
"""Played among the held-out shots to free the cue ball; part of the budget, but neither fitted nor judged."""
_SHOT_ID = re.compile(r"s(\d+)")


@dataclass
class Attempt:
    """One shot that was decided on.

    Attributes:
        shot: as commanded.
        role: :data:`EXPLORE`, :data:`HELD_OUT` or :data:`ESCAPE`.
        revision: of the estimate when it was chosen.
        status: None = not known yet.
        message: what went wrong.
        struck: the tip passed the ball, as the arm says.
        usable: its record can be fitted.
        rest_error: of the prediction with the estimate of that time [m], NaN = not known.
    """

    shot: Shot
    role: str
    revision: int
    status: StrikeStatus | None = None
    message: str = ""
    struck: bool = False
    usable: bool = False
    rest_error: float = float("nan")

    @property
    def spent(self) -> bool:
        """True when it used up a shot of the budget."""
        return self.struck or (self.status is not None and self.status.used)


@dataclass
class FitRound:
    """One fit that was decided on.

    Attributes:
        shot_ids: fitted.
        seed: of its search.
        final: no exploration comes after it.
        done: its result is known.
        code: of ``IdentifyParameters``.
        promoted: the twin uses it.
        revision: of its estimate.
        message: why it failed, or was promoted or not.
    """

    shot_ids: tuple[str, ...]
    seed: int
    final: bool
    done: bool = False
    code: int = 0
    promoted: bool = False
    revision: int = NOMINAL
    message: str = ""


@dataclass
class SessionState:
    """A session as its journal tells it."""

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
    unplayable: str = ""
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
        self.last_wall = float(line.get("wall", self.last_wall))
        if event == "session":
            for name in ("instruction", "shots", "held_out_shots", "seed", "planner", "number", "next_shot"):
                setattr(self, name, line[name])
            self.started = self.last_wall
        elif event == "phase":
            self.phases.append((line["phase"], self.last_wall))
        elif event == "decision" and what == "shot":
            self.attempts.append(Attempt(Shot(**line["shot"]), line["role"], line["revision"]))
            self.next_shot += 1
        elif event == "outcome" and what == "shot":
            attempt = self.attempts[-1]
            attempt.status = StrikeStatus(line["status"])
            attempt.message, attempt.struck, attempt.usable = line["message"], line["struck"], line["usable"]
            attempt.rest_error = float(line["rest_error_m"])
        elif event == "decision" and what == "fit":
            self.fits.append(FitRound(tuple(line["shot_ids"]), line["seed"], line["final"]))
        elif event == "outcome" and what == "fit":
            fit = self.fits[-1]
            fit.done, fit.code, fit.promoted = True, line["code"], line["promoted"]
            fit.revision, fit.message = line["revision"], line["message"]
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
        """Return the revision in use: of the last promoted fit, else the nominal one."""
        return next((f.revision for f in reversed(self.fits) if f.promoted), NOMINAL)

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
