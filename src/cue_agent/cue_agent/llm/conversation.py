"""A conversation as a provider sees it: what to send, what to do with what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cue_agent.llm.config import LlmConfig
from cue_agent.llm.context import Message, Window
from cue_agent.llm.limits import Ledger, Usage
from cue_agent.llm.registry import Registry, Reply
from cue_agent.llm.transcript import Transcript

_MOST_SHRUNK = 3


class Why(Enum):
    """Why a conversation ended."""

    OVER = "over"
    """Exploration is over, or the session."""
    KEY = "key"
    """There is no key, or it is refused."""
    OVERLOADED = "overloaded"
    """The provider does not answer in time, or not at all."""
    REJECTED = "rejected"
    """The provider finds fault with the request."""
    REFUSED = "refused"
    """The model does not want to."""
    CUT_OFF = "cut off"
    """Answers that are too long, or call no tool, again and again."""
    CONTEXT = "context"
    """The conversation is too long even when it is cut."""
    BUDGET = "budget"
    """A limit of ours is reached."""


@dataclass(frozen=True)
class Ending:
    """How a conversation ended; ``text`` is for people."""

    why: Why
    text: str = ""


@dataclass
class Conversation:
    """What a provider works on.

    Attributes:
        system: prompt.
        transcript: that all goes into.
        registry: of the tools.
        ledger: of what is spent.
        config: limits.
        over: True when the model has nothing more to do.
        check: raises when the session should not go on.
        progress: takes a line for people, which says what is being done.
        log: takes a line for people, which is kept.
        summary: tells what happened so far, for what is left out of a long conversation.
    """

    system: str
    transcript: Transcript
    registry: Registry
    ledger: Ledger
    config: LlmConfig
    over: Callable[[], bool]
    check: Callable[[], None]
    progress: Callable[[str], None]
    log: Callable[[str], None]
    summary: Callable[[], str]
    shrunk: int = 0

    def __post_init__(self) -> None:
        """Begin with all of the conversation."""
        self._window = Window(self.config.context_tokens, self.config.images)

    def messages(self) -> list[Message]:
        """Return what the next request says."""
        parts = self.transcript.exchanges()
        self._window.fit(parts, self.summary)
        return self._window.messages(parts)

    def outgrown(self) -> bool:
        """Tell whether the conversation became too long to be sent as it was."""
        return self._window.outgrown(self.transcript.exchanges())

    def shrink(self) -> bool:
        """Send half as much from now on; False when that is not possible any more."""
        self.shrunk += 1
        self._window.most //= 2
        return self.shrunk <= _MOST_SHRUNK

    def heard(self, content: list[dict[str, Any]], stop: str, usage: Usage) -> None:
        """Take in an answer."""
        self.ledger.add(usage)
        self.transcript.heard(content, stop, usage)

    def run(self, call_id: str, name: str, arguments: Any) -> Reply:
        """Carry out a call and write its result down."""
        self.check()
        self.ledger.calls += 1
        if self.over():
            reply = Reply({"error": "exploration is over; nothing more is carried out"}, failed=True)
        else:
            self.progress(f"{name} {_brief(arguments)}")
            reply = self.registry.call(name, arguments)
        self.transcript.result(call_id, name, reply)
        return reply

    def say(self, text: str) -> None:
        """Say something to the model."""
        self.transcript.said(text)

    def trouble(self, text: str) -> None:
        """Write down and tell what went wrong."""
        self.transcript.write("trouble", text=text)
        self.log(text)


def _brief(arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return ""
    told = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in arguments.items())
    return told if len(told) < 100 else told[:97] + "..."


class Provider(Protocol):
    """Somebody's models."""

    @property
    def name(self) -> str:
        """Return the name that the setting has for it."""

    def missing(self) -> str:
        """Return what it lacks to be used, for a person; empty = nothing. Nothing is sent."""

    def secrets(self) -> tuple[str, ...]:
        """Return what must never be written down."""

    def converse(self, conversation: Conversation) -> Ending:
        """Let the model work until it is over, or nothing more comes of it.

        Raises:
            SessionEndedError: the session is over.
        """
