"""A finished session of the language-model agent as a page: what it was told, thought and did, and what came of it."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.shot_log import read_lines

_TEMPLATE = Path(__file__).resolve().parent / "templates" / "agent.html.j2"
_FOLDER = "llm"


@dataclass(frozen=True)
class Part:
    """One entry of the page."""

    kind: str
    title: str
    wall: float
    thought: str = ""
    words: str = ""
    code: str = ""
    pictures: tuple[Mapping[str, str], ...] = ()

    @property
    def time(self) -> str:
        """Return the time of day, UTC."""
        return datetime.datetime.fromtimestamp(self.wall, datetime.timezone.utc).strftime("%H:%M:%S")


def write_agent_page(run_dir: Path | str) -> Path:
    """Write ``agent.html`` into a run folder and return its path.

    Raises:
        FileFormatError: the run has no transcript, a file is malformed, or the page cannot be written.
    """
    import jinja2

    folder = Path(run_dir)
    lines = read_lines(folder / _FOLDER / "transcript.jsonl") if folder.is_dir() else []
    if not lines:
        raise FileFormatError(folder, "holds no transcript (llm/transcript.jsonl) of a language-model agent")
    journal = read_lines(folder / "agent.jsonl")
    try:
        text = _render(jinja2.Environment(autoescape=True, trim_blocks=True), folder / _FOLDER, lines, journal)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(folder, f"transcript is malformed: {type(error).__name__} {error}") from None
    write_atomically(folder / "agent.html", text)
    return folder / "agent.html"


def _render(
    environment: Any, folder: Path, lines: Sequence[Mapping[str, Any]], journal: Sequence[Mapping[str, Any]]
) -> str:
    parts = [*_talk(folder, lines), *_decisions(journal)]
    answers = [x for x in lines if x["event"] == "answer"]
    begin = next((x for x in lines if x["event"] == "begin"), {})
    result: Mapping[str, Any] = next((x["result"] for x in reversed(journal) if x["event"] == "result"), {})
    return str(
        environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
            instruction=next((x["instruction"] for x in journal if x["event"] == "session"), ""),
            model=begin.get("model", "no model"),
            answers=len(answers),
            calls=sum(x["event"] == "result" for x in lines),
            refused=sum(x["event"] == "refused" for x in lines),
            tokens=sum(v for x in answers for k, v in x["usage"].items() if k != "seconds"),
            outcome=result.get("summary", ""),
            parts=sorted(parts, key=lambda part: part.wall),
        )
    )


def _talk(folder: Path, lines: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    for line in lines:
        event, wall = line["event"], float(line["wall"])
        if event == "said":
            yield Part("said", "told", wall, words=line["text"])
        elif event == "answer":
            yield _answer(line, wall)
        elif event == "result":
            pictures = tuple(p for p in (_picture(folder, kept) for kept in line["pictures"]) if p)
            kind = "bad" if line["failed"] else "result"
            yield Part(kind, f"{line['tool']} answered", wall, code=_pretty(line["text"]), pictures=pictures)
        elif event == "refused" and line["limit"]:
            words = f"{line['message']}\nasked for: {line['arguments']}"
            yield Part("bad", f"{line['tool']} refused by limit {line['limit']}", wall, words=words)
        elif event == "verdict":
            yield Part("decision", f"verdict, confidence {line['confidence']:.0%}", wall, words=line["text"])
        elif event in ("trouble", "taken_over"):
            title = "trouble" if event == "trouble" else "the offline planner takes over"
            yield Part("bad", title, wall, words=line["text"])


def _answer(line: Mapping[str, Any], wall: float) -> Part:
    blocks = line["content"]
    calls = [f"{b['name']} {json.dumps(b['input'], ensure_ascii=False)}" for b in blocks if b["type"] == "tool_use"]
    return Part(
        "answer",
        "the model" if line["stop"] in ("tool_use", "end_turn") else f"the model ({line['stop']})",
        wall,
        thought="\n".join(b.get("thinking", "") for b in blocks if b["type"] == "thinking"),
        words="\n".join(b["text"] for b in blocks if b["type"] == "text"),
        code="\n".join(calls),
    )


def _decisions(journal: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield what the session decided and what came of it."""
    for line in journal:
        event, what, wall = line["event"], line.get("what", ""), float(line["wall"])
        if event == "decision" and what == "shot":
            shot = line["shot"]
            words = f"{shot['speed']:.2f} m/s, {shot['azimuth']:.3f} rad; {line['reason']}"
            yield Part("decision", f"shot {shot['shot_id']} ({line['role'].replace('_', ' ')})", wall, words=words)
        elif event == "decision" and what in ("judgement", "fit", "stop"):
            title = line.get("action", what).replace("_", " ")
            yield Part("decision", f"decided: {title}", wall, words=line["reason"])
        elif event == "outcome" and what == "shot":
            error = line["rest_error_m"]
            seen = f", predicted to {100 * error:.1f} cm" if error is not None and error == error else ""
            yield Part("result", f"shot {line['shot_id']}: {line['status']}{seen}", wall, words=line["message"])


def _picture(folder: Path, kept: Mapping[str, str]) -> dict[str, str] | None:
    try:
        png = (folder / kept["file"]).read_bytes()
    except OSError:
        return None
    return {"caption": kept["caption"], "data": "data:image/png;base64," + base64.b64encode(png).decode()}


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except ValueError:
        return text
