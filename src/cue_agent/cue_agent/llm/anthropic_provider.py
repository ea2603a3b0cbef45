"""Models of Anthropic through the official SDK's tool runner, streamed, with waits and deadlines of our own.

The SDK would retry by itself, obey any ``retry-after`` and wait ten minutes for a byte. Here one outage is waited for
``patience`` at most; then somebody else goes on. A runner is thrown away when a request fails: the next one starts from
the transcript, which holds whatever was answered and done so far, so that no call is carried out twice.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anthropic
from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

from cue_agent.llm.conversation import Conversation, Ending, Why
from cue_agent.llm.limits import Usage
from cue_agent.llm.registry import LimitError, Reply
from cue_agent.llm.transcript import without
from cue_core.errors import CueError

KEY = "ANTHROPIC_API_KEY"
WEB_SEARCH = "web_search_20250305"
_CONNECT_S = 10.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 20.0
_PAUSE_S = 0.1
_KEY_REFUSED = (401, 402, 403)
_PASSING = ("overloaded_error", "rate_limit_error", "api_error", "timeout_error")
_TOO_LONG = "prompt is too long"


# At its lowest level the SDK logs whole requests; what a run says must not depend on ANTHROPIC_LOG.
logging.getLogger("anthropic").setLevel(logging.WARNING)


class _LostError(Exception):
    """An answer did not come; another try may help, after ``wait`` [s] where the provider asks for it."""

    def __init__(self, text: str, wait: float = 0.0) -> None:
        super().__init__(text)
        self.wait = wait


class _EndedError(Exception):
    """The conversation ended."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(text)
        self.ending = Ending(why, text)


@dataclass
class _Calls:
    """The calls of one answer that wait to be carried out; the runner tells a tool its arguments, but not the id."""

    waiting: list[tuple[str, str, str]] = field(default_factory=list)
    raised: Exception | None = None
    """The runner takes any error of a tool for an answer to the model; this one is not."""

    def take(self, name: str, arguments: Any) -> str:
        key = (name, json.dumps(arguments, sort_keys=True))
        place = next(n for n, (_, *rest) in enumerate(self.waiting) if tuple(rest) == key)
        return self.waiting.pop(place)[0]


class _Tool(BetaBuiltinFunctionTool):
    """One of our tools in the form that the runner calls. The registry checks the arguments, strictly."""

    def __init__(self, definition: Mapping[str, Any], conversation: Conversation, calls: _Calls) -> None:
        self._definition, self._conversation, self._calls = dict(definition), conversation, calls

    def to_dict(self) -> Any:
        """Return the definition."""
        return self._definition

    def call(self, input: object) -> Any:
        """Carry out a call."""
        if self._calls.raised is not None:
            raise ToolError("not carried out")
        try:
            reply = self._conversation.run(self._calls.take(self.name, input), self.name, input)
        except Exception as error:
            self._calls.raised = error
            raise ToolError("not carried out") from None
        if reply.failed:
            raise ToolError(reply.text)
        return _blocks(reply)


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
    for picture in reply.pictures:
        data = base64.b64encode(picture.png).decode()
        found.append({"type": "text", "text": f"picture: {picture.caption}"})
        found.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
    return found


class _Watch:
    """Closes a stream that goes on too long, or whose session was cancelled.

    A server that sends a byte now and then is never silent, and its pings do not reach who reads the stream.
    """

    def __init__(self, stream: Any, conversation: Conversation) -> None:
        self.why: Exception | None = None
        self._stream, self._conversation, self._ended = stream, conversation, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        most = self._conversation.config.answer_timeout
        end = time.monotonic() + most
        while not self._ended.wait(_PAUSE_S):
            try:
                self._conversation.check()
            except CueError as error:
                self.why = error
            if time.monotonic() > end:
                self.why = _LostError(f"the model did not end its answer within {most:g} s")
            if self.why is not None:
                self._stream.close()
                return

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


class AnthropicProvider:
    """See the module."""

    name = "anthropic"

    def __init__(self, environment: Mapping[str, str] = os.environ, base_url: str | None = None) -> None:
        """Read the key from an environment; ``base_url`` None = the usual one, or ``ANTHROPIC_BASE_URL``."""
        self._key = environment.get(KEY, "").strip()
        self._base_url = base_url if base_url is not None else environment.get("ANTHROPIC_BASE_URL") or None

    def missing(self) -> str:
        """See :class:`cue_agent.llm.conversation.Provider`."""
        if not self._key:
            return f"no key for the model: the environment variable {KEY} is not set"
        if not self._key.isascii() or not self._key.isprintable():
            return f"no key for the model: the environment variable {KEY} holds what cannot be a key"
        return ""

    def secrets(self) -> tuple[str, ...]:
        """See :class:`cue_agent.llm.conversation.Provider`."""
        return (self._key,) if self._key else ()

    def converse(self, conversation: Conversation) -> Ending:
        """See :class:`cue_agent.llm.conversation.Provider`."""
        config = conversation.config
        client = anthropic.Anthropic(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=anthropic.Timeout(config.silence, connect=min(_CONNECT_S, config.silence)),
        )
        waited, tries = 0.0, 0
        with client:
            while True:
                answers = conversation.ledger.turns
                begin = time.monotonic()
                try:
                    return self._run(client, conversation)
                except _EndedError as ended:
                    return ended.ending
                except LimitError as error:
                    return Ending(Why.BUDGET, str(error))
                except _LostError as lost:
                    if conversation.ledger.turns > answers:  # it answered since: another outage
                        waited, tries, begin = 0.0, 0, time.monotonic()
                    tries += 1
                    wait = lost.wait or min(_FIRST_WAIT_S * 2 ** (tries - 1), _LONGEST_WAIT_S)
                    waited += time.monotonic() - begin
                    text = without(self.secrets(), str(lost))
                    if waited + wait > config.patience:
                        tried = f"{tries} {'try' if tries == 1 else 'tries'}"
                        asked = f"; it asks to wait {lost.wait:g} s" if lost.wait else ""
                        return Ending(
                            Why.OVERLOADED, f"{text} ({tried}, {waited:.0f} s of {config.patience:g} s{asked})"
                        )
                    conversation.trouble(f"{text}; trying again in {wait:.1f} s")
                    self._pause(conversation, wait)
                    waited += wait

    @staticmethod
    def _pause(conversation: Conversation, seconds: float) -> None:
        end, never = time.monotonic() + seconds, threading.Event()
        while (left := end - time.monotonic()) > 0:
            conversation.check()
            never.wait(min(left, _PAUSE_S))

    def _run(self, client: anthropic.Anthropic, conversation: Conversation) -> Ending:
        """Let one runner after the other work: a new one whenever what is sent must be cut, or something be said."""
        idle = 0
        while not conversation.over():
            conversation.check()
            conversation.ledger.check()
            before = conversation.ledger.calls
            said = self._with_one_runner(client, conversation)
            if said is None:
                continue
            idle = idle + 1 if conversation.ledger.calls == before else 1
            if idle > conversation.config.idle_turns:
                return Ending(Why.CUT_OFF, f"{idle} answers in a row were no use: {said}")
            conversation.say(said)
        return Ending(Why.OVER)

    def _with_one_runner(self, client: anthropic.Anthropic, conversation: Conversation) -> str | None:
        """Return what must be said before the model goes on, None = nothing."""
        calls = _Calls()
        try:
            runner = self._runner(client, conversation, calls)
            for stream in runner:
                message = self._read(stream, conversation, calls)
                stop = message.stop_reason or ""
                if stop == "refusal":
                    raise _EndedError(Why.REFUSED, "the model refused to go on")
                if stop == "max_tokens":
                    return "Your answer was cut off at its greatest length, and no tool was called. Be shorter."
                if stop == "model_context_window_exceeded":
                    return self._shrink(conversation)
                if stop == "pause_turn":
                    conversation.ledger.check()
                    continue  # the runner sends it back as it is
                if stop != "tool_use" or not any(b.type == "tool_use" for b in message.content):
                    return "Go on with a tool, or call finish with your verdict."
                self._answer(runner, message, conversation, calls)
                if conversation.over():
                    return None
                conversation.check()
                conversation.ledger.check()
                if conversation.outgrown():
                    return None
            return None
        except anthropic.APIStatusError as error:
            return self._status(error, conversation)
        except anthropic.APITimeoutError:
            raise _LostError(f"the model is silent: nothing within {conversation.config.silence:g} s") from None
        except anthropic.APIConnectionError as error:
            raise _LostError(f"the model cannot be reached: {error.__cause__ or error}") from None
        except anthropic.APIError as error:
            raise _LostError(f"the model's answer makes no sense: {error}") from None

    def _runner(self, client: anthropic.Anthropic, conversation: Conversation, calls: _Calls) -> Any:
        config = conversation.config
        tools: list[Any] = [_Tool(d, conversation, calls) for d in conversation.registry.definitions()]
        if config.domains:
            tools.append(
                {
                    "type": WEB_SEARCH,
                    "name": "web_search",
                    "allowed_domains": list(config.domains),
                    "max_uses": config.web_searches,
                }
            )
        system: list[Any] = [{"type": "text", "text": conversation.system, "cache_control": {"type": "ephemeral"}}]
        messages: list[Any] = conversation.messages()
        thinking: Any = {"type": "adaptive", "display": config.thinking} if config.thinking else anthropic.omit
        return client.beta.messages.tool_runner(
            model=config.model,
            max_tokens=config.answer_tokens,
            # Tools and system prompt stay the same for the whole session, the conversation grows at its end.
            system=system,
            cache_control={"type": "ephemeral"},
            messages=messages,
            tools=tools,
            stream=True,
            thinking=thinking,
            thread=False,  # the transcript is what counts, not a copy of it elsewhere
        )

    def _read(self, stream: Any, conversation: Conversation, calls: _Calls) -> Any:
        """Read one answer to its end and write it down."""
        begin = time.monotonic()
        watch = _Watch(stream, conversation)
        try:
            words = ""
            for event in stream:
                if event.type == "text":
                    words += event.text
                elif event.type == "thinking":
                    words += event.thinking
                elif event.type == "content_block_stop" and words.strip():
                    conversation.progress(f"the model: {' '.join(words.split())[:300]}")
                    words = ""
            message = stream.get_final_message()
        except CueError:
            raise
        except Exception as error:
            if watch.why is not None:
                raise watch.why from None
            broken = isinstance(error, (AssertionError, ValueError, RuntimeError))
            if broken or type(error).__module__.startswith("httpx"):
                raise _LostError(f"the model's answer broke off: {type(error).__name__}") from None
            raise
        finally:
            watch.end()
        conversation.check()
        if message.stop_reason is None:
            raise _LostError("the model's answer broke off")
        content = [_plain(b) for b in message.content]
        conversation.heard(content, message.stop_reason, _usage(message.usage, time.monotonic() - begin))
        calls.waiting = [
            (b.id, b.name, json.dumps(b.input, sort_keys=True)) for b in message.content if b.type == "tool_use"
        ]
        return message

    @staticmethod
    def _answer(runner: Any, message: Any, conversation: Conversation, calls: _Calls) -> None:
        """Have the calls of an answer carried out, in order; all results go back in one message."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the runner warns of a tool that there is not; the model is told below
            response = runner.generate_tool_call_response()
        if response is None:
            return
        known = conversation.registry.tools
        if calls.raised is not None:
            raise calls.raised
        asked = [b for b in message.content if b.type == "tool_use"]
        for block, result in zip(asked, response["content"], strict=True):
            if block.name not in known:
                reply = conversation.run(block.id, block.name, block.input)
                result["content"], result["is_error"] = reply.text, True

    @staticmethod
    def _shrink(conversation: Conversation) -> str | None:
        if not conversation.shrink():
            raise _EndedError(Why.CONTEXT, "the conversation is too long for the model even when it is cut")
        conversation.trouble("the conversation is too long for the model; it is cut")
        return None

    def _status(self, error: anthropic.APIStatusError, conversation: Conversation) -> str | None:
        status, text = error.status_code, without(self.secrets(), _told(error))
        kind = _kind(error)
        if status in _KEY_REFUSED or kind in ("authentication_error", "permission_error", "billing_error"):
            raise _EndedError(Why.KEY, f"the key is refused: {text}")
        if status == 413 or _TOO_LONG in text:
            return self._shrink(conversation)
        # An error within a stream comes with status 200.
        if status in (408, 409, 429) or status >= 500 or kind in _PASSING:
            raise _LostError(f"the model is not available: {text}", _retry_after(error))
        raise _EndedError(Why.REJECTED, f"the request is refused: {text}")


def _kind(error: anthropic.APIStatusError) -> str:
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""


def _told(error: anthropic.APIStatusError) -> str:
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message", "") if isinstance(inner, dict) else ""
    return f"{error.status_code} {_kind(error)} {message}".strip()[:300]


def _retry_after(error: anthropic.APIStatusError) -> float:
    try:
        wait = float(error.response.headers.get("retry-after", "0"))
    except ValueError:  # a date: our own waits will do
        return 0.0
    return wait if 0 < wait < float("inf") else 0.0


def _plain(block: Any) -> dict[str, Any]:
    found = dict(block.to_dict(mode="json"))
    found.pop("parsed_output", None)
    return found


def _usage(usage: Any, seconds: float) -> Usage:
    return Usage(
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cache_creation_input_tokens or 0,
        usage.cache_read_input_tokens or 0,
        round(seconds, 3),
    )
