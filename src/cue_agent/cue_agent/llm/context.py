"""What of a conversation is sent: all of it while it is short, else its beginning in short and the newest parts whole.

Old pictures go first, then whole parts, never half of one: each call keeps its result. Both are cut rarely and deep, so
that many requests in a row begin alike and the provider's cache serves them. A model's thoughts are bound to all that
stood before them: those from before a cut are left out with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

IMAGE_TOKENS = 1600
"""What a picture of ours costs at most, about (width x height / 750, bounded by the provider)."""
_CHARACTERS = 3.5  # of a token, about
_THINKING = ("thinking", "redacted_thinking")
_FADED = {"type": "text", "text": "(this picture is left out by now; ask for it anew)"}

Message = dict[str, Any]
Part = Sequence[Message]


def tokens_of(value: Any) -> int:
    """Return about how many tokens a part of a conversation is."""
    if isinstance(value, dict):
        if value.get("type") == "image":
            return IMAGE_TOKENS
        return sum(tokens_of(v) for v in value.values()) + 4
    if isinstance(value, (list, tuple)):
        return sum(tokens_of(v) for v in value)
    return int(len(str(value)) / _CHARACTERS) + 1


@dataclass
class Window:
    """What is sent of a conversation's parts, see :meth:`cue_agent.llm.transcript.Transcript.exchanges`.

    Attributes:
        most: tokens.
        images: newest pictures that are sent at least; at most twice as many are.
        cut: parts after the first that are left out.
        faded: oldest pictures that are.
        plain: parts whose thoughts are.
        summary: of the parts left out.
    """

    most: int
    images: int
    cut: int = 0
    faded: int = 0
    plain: int = 0
    summary: str = ""

    def outgrown(self, parts: Sequence[Part]) -> bool:
        """Tell whether more is to be left out than up to now."""
        return self._too_many_pictures(parts) or tokens_of(self._chosen(parts)) > self.most

    def fit(self, parts: Sequence[Part], summary: Callable[[], str]) -> None:
        """Leave out what must be. ``parts`` begins with the task, which stays."""
        if not self.outgrown(parts):
            return
        if self._too_many_pictures(parts):
            self.faded = _pictures(parts) - self.images
        if tokens_of(self._chosen(parts)) > self.most:
            self.summary = summary()
            room, self.cut = self.most // 2 - tokens_of(self.summary), len(parts) - 1
            shown = self._with_pictures(parts)
            room -= tokens_of(shown[0])
            while self.cut and (self.cut == len(parts) - 1 or tokens_of(shown[self.cut]) <= room):
                room -= tokens_of(shown[self.cut])
                self.cut -= 1
        self.plain = len(parts)

    def messages(self, parts: Sequence[Part]) -> list[Message]:
        """Return the messages to send; roles take turns, and results of calls come before other content."""
        found: list[Message] = []
        for message in self._chosen(parts):
            if not message["content"]:
                continue
            if found and found[-1]["role"] == message["role"]:
                found[-1] = {**found[-1], "content": [*found[-1]["content"], *message["content"]]}
            else:
                found.append(dict(message))
        return found

    def _too_many_pictures(self, parts: Sequence[Part]) -> bool:
        return _pictures(parts) - self.faded > max(2 * self.images, self.images + 1) - (self.images == 0)

    def _chosen(self, parts: Sequence[Part]) -> list[Message]:
        shown = self._with_pictures(parts)
        shown = [[_without_thinking(m) for m in p] if n < self.plain else p for n, p in enumerate(shown)]
        between = [[{"role": "user", "content": [{"type": "text", "text": self.summary}]}]] if self.cut else []
        return [message for part in [*shown[:1], *between, *shown[1 + self.cut :]] for message in part]

    def _with_pictures(self, parts: Sequence[Part]) -> list[list[Message]]:
        """Return the parts without the oldest pictures."""
        left = self.faded
        found: list[list[Message]] = []
        for part in parts:
            messages: list[Message] = []
            for message in part:
                blocks: list[Message] = []
                for block in message["content"]:
                    if block.get("type") == "tool_result" and isinstance(block["content"], list):
                        inner: list[Message] = []
                        for item in block["content"]:
                            fades = item.get("type") == "image" and left > 0
                            left -= fades
                            inner.append(_FADED if fades else item)
                        block = {**block, "content": inner}
                    blocks.append(block)
                messages.append({**message, "content": blocks})
            found.append(messages)
        return found


def _pictures(parts: Sequence[Part]) -> int:
    blocks = (b for part in parts for message in part for b in message["content"] if b.get("type") == "tool_result")
    return sum(i.get("type") == "image" for b in blocks if isinstance(b["content"], list) for i in b["content"])


def _without_thinking(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    return {**message, "content": [b for b in message["content"] if b.get("type") not in _THINKING]}
