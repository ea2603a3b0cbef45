"""Limits that stand outside the model: what it may spend, how often it may repeat itself, who must agree."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cue_agent.llm.config import LlmConfig
from cue_agent.llm.registry import LimitError, Tool
from cue_core.shots import Shot


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer, as the provider counts them.

    Attributes:
        read: anew.
        written: by the model.
        cache_written: read and kept for the next request.
        cache_read: kept from an earlier one.
        seconds: that the answer took.
    """

    read: int = 0
    written: int = 0
    cache_written: int = 0
    cache_read: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Return all of them together."""
        return self.read + self.written + self.cache_written + self.cache_read


@dataclass
class Ledger:
    """What a session's model has used up so far; it is read back from the transcript after a restart."""

    config: LlmConfig
    turns: int = 0
    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    seconds: float = 0.0
    runs: int = 0

    def add(self, usage: Usage) -> None:
        """Count an answer."""
        c = self.config
        self.turns += 1
        self.tokens += usage.tokens
        self.seconds += usage.seconds
        self.money += 1e-6 * (
            usage.read * c.price_in
            + usage.written * c.price_out
            + usage.cache_written * c.price_cache_write
            + usage.cache_read * c.price_cache_read
        )

    def check(self) -> None:
        """Refuse another answer where one of the limits is reached.

        Raises:
            LimitError: names it.
        """
        c = self.config
        for limit, used, most, unit in (
            ("turns", self.turns, c.turns, "answers"),
            ("calls", self.calls, c.calls, "tool calls"),
            ("tokens", self.tokens, c.tokens, "tokens"),
            ("money", self.money, c.money, "USD"),
            ("time", self.seconds, c.seconds, "s"),
        ):
            if used >= most:
                raise LimitError(limit, f"{used:.4g} of {most:.4g} {unit} are used up")

    def to_dict(self) -> dict[str, Any]:
        """Return what is used and what is allowed."""
        c = self.config
        return {
            "answers": [self.turns, c.turns],
            "tool_calls": [self.calls, c.calls],
            "tokens": [self.tokens, c.tokens],
            "money_usd": [round(self.money, 4), c.money],
            "answer_seconds": [round(self.seconds, 1), c.seconds],
            "workbench_runs": [self.runs, c.workbench_runs],
        }


@dataclass
class RepeatBreaker:
    """Refuses a call that was made several times in a row with the same arguments: it would answer the same again."""

    most: int
    _last: str = ""
    _count: int = 0

    def __call__(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Count a call.

        Raises:
            LimitError: it is one too many.
        """
        key = json.dumps([tool.name, arguments], sort_keys=True)
        self._count = self._count + 1 if key == self._last else 1
        self._last = key
        if self._count > self.most:
            raise LimitError(
                "same_calls", f"{tool.name} was called {self._count} times in a row with the same arguments; do another"
            )


class Approver(Protocol):
    """Asks a person."""

    def ask(self, shot: Shot, text: str, timeout: float, check: Callable[[], None]) -> str:
        """Return why a stroke must not be played, empty = it may.

        Args:
            shot: to be played.
            text: for the person.
            timeout: after which nobody answered [s].
            check: raises when the session should not go on.
        """


class Nobody:
    """There is no person to ask."""

    def ask(self, shot: Shot, text: str, timeout: float, check: Callable[[], None]) -> str:
        """See :class:`Approver`."""
        return "nobody is there to approve it"


@dataclass
class Person:
    """A person's answers, given from another thread.

    Attributes:
        wants: what waits for an answer, empty = nothing.
    """

    told: Callable[[str], None] = lambda _text: None
    wants: str = ""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _answer: bool | None = None

    def ask(self, shot: Shot, text: str, timeout: float, check: Callable[[], None]) -> str:
        """See :class:`Approver`."""
        end = time.monotonic() + timeout
        with self._changed:
            self.wants, self._answer = text, None
        self.told(f"waiting for approval: {text}")
        try:
            with self._changed:
                while (answer := self._given()) is None:
                    check()
                    left = end - time.monotonic()
                    if left <= 0:
                        return f"nobody approved it within {timeout:g} s"
                    self._changed.wait(min(left, 0.2))
                return "" if answer else "a person refused it"
        finally:
            self.wants = ""

    def _given(self) -> bool | None:
        return self._answer

    def answer(self, yes: bool) -> bool:
        """Give the person's answer; False = nothing was asked."""
        with self._changed:
            if not self.wants:
                return False
            self._answer = yes
            self._changed.notify_all()
            return True


@dataclass
class Approval:
    """When a person must agree: ``every`` stroke, the ``first`` of the session, or ``never``."""

    mode: str
    approver: Approver
    timeout: float = 600.0

    def refuses(
        self, shot: Shot, text: str, played: int, check: Callable[[], None], tell: Callable[[str], None]
    ) -> str:
        """Ask where it is needed; return why the stroke must not be played, empty = it may.

        Args:
            shot: to be played.
            text: for the person.
            played: count of strokes of the session so far.
            check: raises when the session should not go on.
            tell: takes a line for people.
        """
        if self.mode == "never" or (self.mode == "first" and played > 0):
            return ""
        tell(f"waiting for a person to approve (service approve_shot): {text}")
        return self.approver.ask(shot, text, self.timeout, check)
