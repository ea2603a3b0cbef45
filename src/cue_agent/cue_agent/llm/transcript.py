"""The transcript ``llm/transcript.jsonl``: every message, call, result and refusal, written as it happens.

It is only ever appended to. What the next request says is read from it, so that a conversation goes on after a restart,
and with it nothing is sent that is not on record. Pictures lie beside it as files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cue_agent.llm.limits import Usage
from cue_agent.llm.registry import Picture, Reply
from cue_core.files import write_atomically
from cue_core.shot_log import append_line, read_lines

FOLDER = "llm"
NAME = "transcript.jsonl"
HIDDEN = "[secret]"


def without(secrets: Iterable[str], text: str) -> str:
    """Return the text with every secret struck out."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
            text = text.replace(json.dumps(secret)[1:-1], HIDDEN)
    return text


@dataclass
class Transcript:
    """One session's conversation; without a run folder it lives in memory.

    Attributes:
        run_dir: of the run, empty = none.
        session: number of the session in the run folder.
        secrets: that are struck out of whatever is written.
        lines: of this session.
    """

    run_dir: str
    session: int
    secrets: tuple[str, ...] = ()
    wall: Callable[[], float] = time.time
    lines: list[dict[str, Any]] = field(default_factory=list)
    _pictures: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is there.

        Raises:
            FileFormatError: it is no transcript.
        """
        self.folder = Path(self.run_dir, FOLDER) if self.run_dir else None
        if self.folder is not None:
            self.lines = [x for x in read_lines(self.folder / NAME) if x.get("session") == self.session]

    def write(self, event: str, **values: Any) -> None:
        """Write one line, durably.

        Raises:
            FileFormatError: the file cannot be written.
        """
        line = {"event": event, "session": self.session, **values, "wall": round(self.wall(), 3)}
        line = json.loads(without(self.secrets, json.dumps(line, ensure_ascii=False)))
        if self.folder is not None:
            (self.folder / "pictures").mkdir(parents=True, exist_ok=True)
            append_line(self.folder / NAME, line)
        self.lines.append(line)

    def heard(self, content: list[dict[str, Any]], stop: str, usage: Usage) -> None:
        """Write an answer of the model."""
        self.write("answer", content=content, stop=stop, usage=asdict(usage))

    def said(self, text: str) -> None:
        """Write what we say to the model."""
        self.write("said", text=text)

    def result(self, call_id: str, tool: str, reply: Reply) -> None:
        """Write what came of a call."""
        pictures = [{"file": self._keep(p), "caption": p.caption} for p in reply.pictures]
        self.write("result", id=call_id, tool=tool, text=reply.text, pictures=pictures, failed=reply.failed)

    def _keep(self, picture: Picture) -> str:
        name = f"pictures/{hashlib.sha256(picture.png).hexdigest()[:16]}.png"
        self._pictures[name] = picture.png
        if self.folder is not None:
            (self.folder / "pictures").mkdir(parents=True, exist_ok=True)
            if not (self.folder / name).exists():
                write_atomically(self.folder / name, picture.png)
        return name

    def picture(self, name: str) -> bytes | None:
        """Return a picture by its file's name, None where it is gone."""
        if name not in self._pictures and self.folder is not None:
            try:
                self._pictures[name] = (self.folder / name).read_bytes()
            except OSError:
                return None
        return self._pictures.get(name)

    @property
    def notes(self) -> list[str]:
        """Return the model's own notes."""
        return [x["text"] for x in self.lines if x["event"] == "note"]

    def exchanges(self) -> list[list[dict[str, Any]]]:
        """Return the conversation in parts that cannot be parted: what we said, or an answer with all its results.

        Calls that never got a result, because the process ended or the answer was cut off, get one that says so: an
        API refuses a conversation in which one is missing.
        """
        results = {x["id"]: x for x in self.lines if x["event"] == "result"}
        parts: list[list[dict[str, Any]]] = []
        for line in self.lines:
            if line["event"] == "said":
                parts.append([{"role": "user", "content": [{"type": "text", "text": line["text"]}]}])
            elif line["event"] == "answer" and line["content"]:
                part: list[dict[str, Any]] = [{"role": "assistant", "content": line["content"]}]
                calls = [b for b in line["content"] if b.get("type") == "tool_use"]
                if calls:
                    part.append({"role": "user", "content": [self._result(b["id"], results) for b in calls]})
                parts.append(part)
        return parts

    def _result(self, call_id: str, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        found = results.get(call_id)
        if found is None:
            text = (
                "no result: this call was cut off, or CUE was restarted meanwhile. Nothing is repeated by itself; "
                "call budget to see which shots were played and fitted."
            )
            return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}
        content: list[dict[str, Any]] = [{"type": "text", "text": found["text"]}]
        for kept in found["pictures"]:
            png = self.picture(kept["file"])
            content.append({"type": "text", "text": f"picture: {kept['caption']}"})
            if png is not None:
                data = base64.b64encode(png).decode()
                source = {"type": "base64", "media_type": "image/png", "data": data}
                content.append({"type": "image", "source": source})
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return {**block, "is_error": True} if found["failed"] else block
