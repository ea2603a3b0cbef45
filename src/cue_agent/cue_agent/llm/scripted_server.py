"""A stand-in for the Messages API on loopback: it answers by a script, as JSON or stream, and makes faults to order.

It is as strict as the real one about what tests could get wrong: version and key in the headers, the fields of the
body, a result for each call in the very next message and before other content.

``python -m cue_agent.llm.scripted_server`` serves the rule-based player of :mod:`cue_agent.llm.rules`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_NEEDED = ("model", "max_tokens", "messages")
_PIECE = 24  # characters of a delta


@dataclass(frozen=True)
class Call:
    """A tool call of an answer."""

    name: str
    input: Any


@dataclass(frozen=True)
class Say:
    """An answer.

    Attributes:
        text: of it.
        calls: of tools.
        stop: reason; empty = as the calls have it.
        thinking: before it.
        usage: tokens read and written.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = ""
    thinking: str = ""
    usage: tuple[int, int] = (1000, 100)

    def content(self, ids: Iterator[int]) -> list[dict[str, Any]]:
        """Return the content blocks."""
        found: list[dict[str, Any]] = []
        if self.thinking:
            found.append({"type": "thinking", "thinking": self.thinking, "signature": "c2lnbmF0dXJl"})
        if self.text:
            found.append({"type": "text", "text": self.text})
        for call in self.calls:
            found.append({"type": "tool_use", "id": f"toolu_{next(ids):06d}", "name": call.name, "input": call.input})
        return found


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong instead of an answer.

    Attributes:
        status: of HTTP.
        headers: more of them.
        message: of the error.
        hang: say nothing at all until the client gives up.
        drip: send pings for ever.
        cut: end the stream after so many events; -1 = no.
        inside: the error comes within the stream.
    """

    status: int = 529
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "Overloaded"
    hang: bool = False
    drip: bool = False
    cut: int = -1
    inside: bool = False


Script = Callable[[Mapping[str, Any]], "Say | Fault"]


def in_turn(*answers: Say | Fault) -> Script:
    """Return a script of given answers; the last one is repeated."""
    left = list(answers)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


def fault_of(body: Any) -> str:
    """Return what the real API would find wrong with a request's body, empty = nothing."""
    if not isinstance(body, dict):
        return "the body is no object"
    for name in _NEEDED:
        if name not in body:
            return f"{name}: Field required"
    messages = body["messages"]
    if not messages:
        return "messages: at least one message is required"
    names = [t.get("name") for t in body.get("tools", [])]
    if len(names) != len(set(names)):
        return "tools: Tool names must be unique."
    if messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks and n < len(messages) - 1:
            return f"messages.{n}: all messages must have non-empty content"
        if any(b.get("type") == "text" and not b["text"] for b in blocks):
            return f"messages.{n}: text content blocks must be non-empty"
        results = [b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"]
        if sorted(results) != sorted(open_calls):
            return (
                f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after, or the other "
                f"way round: {open_calls} and {results}"
            )
        kinds = [b.get("type") for b in blocks]
        if results and "tool_result" in kinds[len(results) :]:
            return f"messages.{n}: tool_result blocks come before all other content"
        open_calls = [b["id"] for b in blocks if b.get("type") == "tool_use"]
    return "" if not open_calls else "the last message has calls without results"


@dataclass
class ScriptedServer:
    """See the module.

    Attributes:
        script: says what to answer to each sound request.
        requests: bodies received, sound or not.
        faulty: what was wrong with unsound ones.
        keys: that came with them.
    """

    script: Script
    requests: list[dict[str, Any]] = field(default_factory=list)
    faulty: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        """Listen on loopback."""
        self._ids = itertools.count(1)
        self._lock, self._released = threading.Lock(), threading.Event()
        handler = type("Handler", (_Handler,), {"served": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ScriptedServer:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop serving."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> Say | Fault:
        """Return the answer to a request."""
        with self._lock:
            self.requests.append(body)
            problem = fault_of(body)
            if problem:
                self.faulty.append(problem)
                return Fault(400, message=problem)
            return self.script(body)

    def message(self, said: Say, model: str) -> dict[str, Any]:
        """Return an answer as the API has it."""
        return {
            "id": f"msg_{next(self._ids):06d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": said.content(self._ids),
            "stop_reason": said.stop or ("tool_use" if said.calls else "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": said.usage[0],
                "output_tokens": said.usage[1],
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }

    def wait(self, seconds: float) -> bool:
        """Wait; True = the server ends."""
        return self._released.wait(seconds)


def events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the events by which a message is streamed."""
    usage = message["usage"]
    empty = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": empty}
    for n, block in enumerate(message["content"]):
        if block["type"] == "tool_use":
            start, key, kind, text = (
                {**block, "input": {}},
                "partial_json",
                "input_json_delta",
                json.dumps(block["input"]),
            )
        elif block["type"] == "thinking":
            start, key, kind, text = (
                {**block, "thinking": "", "signature": ""},
                "thinking",
                "thinking_delta",
                block["thinking"],
            )
        else:
            start, key, kind, text = {**block, "text": ""}, "text", "text_delta", block["text"]
        yield {"type": "content_block_start", "index": n, "content_block": start}
        if n == 0:
            yield {"type": "ping"}
        for at in range(0, len(text), _PIECE):
            yield {"type": "content_block_delta", "index": n, "delta": {"type": kind, key: text[at : at + _PIECE]}}
        if block["type"] == "thinking":
            signature = {"type": "signature_delta", "signature": block["signature"]}
            yield {"type": "content_block_delta", "index": n, "delta": signature}
        yield {"type": "content_block_stop", "index": n}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ScriptedServer

    def log_message(self, *_words: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Answer a request; the name is the library's."""
        try:
            self._post()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _key(self) -> str:
        bearer = self.headers.get("authorization", "")
        return bearer.removeprefix("Bearer ").strip() or self.headers.get("x-api-key", "")

    def _post(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        server, key = self.served, self._key()
        server.keys.append(key)
        if self.path.split("?")[0] != "/v1/messages":
            return self._json(404, _error(404, f"there is no {self.path}"))
        if not key:
            return self._json(401, _error(401, "a key is required, as Authorization: Bearer or x-api-key"))
        if not self.headers.get("anthropic-version"):
            return self._json(400, _error(400, "anthropic-version: header is required"))
        try:
            body = json.loads(raw)
        except ValueError:
            return self._json(400, _error(400, "the body is no JSON"))
        said = server.answer(body)
        if isinstance(said, Fault):
            return self._fault(said, body)
        message = server.message(said, body["model"])
        if not body.get("stream"):
            return self._json(200, message)
        self._open_stream()
        for event in events_of(message):
            self._event(event)
        return self._end_stream()

    def _fault(self, fault: Fault, body: Mapping[str, Any]) -> None:
        self.close_connection = True
        if fault.hang:
            self.served.wait(600)
            return
        if fault.drip:
            self._open_stream()
            while not self.served.wait(0.02):
                self._event({"type": "ping"})
            return
        if fault.cut >= 0 or fault.inside:
            message = self.served.message(Say("this answer never ends", (Call("look", {}),)), str(body["model"]))
            self._open_stream()
            for event in itertools.islice(events_of(message), max(fault.cut, 1)):
                self._event(event)
            if fault.inside:
                self._event(_error(fault.status, fault.message))
                self._end_stream()
            return
        self._json(fault.status, _error(fault.status, fault.message), fault.headers)

    def _json(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("request-id", "req_scripted")
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("request-id", "req_scripted")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _event(self, event: Mapping[str, Any]) -> None:
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def _error(status: int, message: str) -> dict[str, Any]:
    kind = ERRORS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


def main() -> int:
    """Serve the rule-based player until the input ends or the process is stopped."""
    from cue_agent.llm.rules import RulePlayer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with ScriptedServer(RulePlayer(), port=options.port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
