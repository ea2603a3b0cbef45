"""What of a conversation is sent: all of it while it is short, else its beginning in short and the newest parts whole.

Old pictures go first, then whole parts, never half of one: each call keeps its result. It is cut to half of what is
allowed, so that the next requests begin alike and the provider's cache serves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

IMAGE_TOKENS = 1600
"""What a picture of ours costs, about (width x height / 750)."""
_CHARACTERS = 3.5  # of a token, about
_THINKING = ("thinking", "redacted_thinking")

Message = dict[str, Any]


def tokens_of(value: Any) -> int:
    """Return about how many tokens a part of a conversation is."""
    if isinstance(value, dict):
        if value.get("type") == "image":
            return IMAGE_TOKENS
        return sum(tokens_of(v) for v in value.values()) + 4
    if isinstance(value, (list, tuple)):
        return sum(tokens_of(v) for v in value)
    return int(len(str(value)) / _CHARACTERS) + 1


def keep(parts: Sequence[Sequence[Message]], most: int, images: int, summary: str) -> tuple[list[Message], bool]:
    """Return the messages to send, and whether something was left out.

    Args:
        parts: of the conversation, see :meth:`cue_agent.llm.transcript.Transcript.exchanges`; the first is the task.
        most: tokens.
        images: newest pictures that are kept.
        summary: of what is left out, for the model.
    """
    kept, dropped = _without_old_images(parts, images)
    first, rest = list(kept[:1]), list(kept[1:])
    if tokens_of(kept) > most:
        room = most // 2 - tokens_of(first) - tokens_of(summary)
        newest: list[list[Message]] = []
        while rest and (not newest or tokens_of(rest[-1]) <= room):
            room -= tokens_of(rest[-1])
            newest.insert(0, rest.pop())
        text = {"role": "user", "content": [{"type": "text", "text": summary}]}
        kept, dropped = [*first, [text], *newest], True
    messages = [message for part in kept for message in part]
    if dropped:  # a model's thoughts are bound to all that stood before them
        messages = [_without_thinking(m) for m in messages]
    return _merged([m for m in messages if m["content"]]), dropped


def _without_old_images(parts: Sequence[Sequence[Message]], images: int) -> tuple[list[list[Message]], bool]:
    left, dropped = images, False
    found: list[list[Message]] = []
    for part in reversed(parts):
        new_part: list[Message] = []
        for message in reversed(part):
            blocks: list[Message] = []
            for block in reversed(message["content"]):
                if block.get("type") == "tool_result" and isinstance(block["content"], list):
                    inner: list[Message] = []
                    for item in reversed(block["content"]):
                        if item.get("type") == "image":
                            left -= 1
                            if left < 0:
                                dropped = True
                                item = {"type": "text", "text": "(the picture was dropped; ask for it anew)"}
                        inner.insert(0, item)
                    block = {**block, "content": inner}
                blocks.insert(0, block)
            new_part.insert(0, {**message, "content": blocks})
        found.insert(0, new_part)
    return found, dropped


def _without_thinking(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    return {**message, "content": [b for b in message["content"] if b.get("type") not in _THINKING]}


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with roles taking turns; results of calls come before other content."""
    found: list[Message] = []
    for message in messages:
        if found and found[-1]["role"] == message["role"]:
            found[-1] = {**found[-1], "content": [*found[-1]["content"], *message["content"]]}
        else:
            found.append(dict(message))
    return found
