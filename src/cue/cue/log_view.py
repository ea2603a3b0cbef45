"""What a person sees of the processes' logs: warnings and worse, each under its process's colour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ROS_LINE = re.compile(r"\[(?P<level>DEBUG|INFO|WARN|ERROR|FATAL)\] \[[\d.]+\] \[[^\]]*\]: (?P<text>.*)")
_PLAIN_ALARM = re.compile(
    r"(?i:\s*(error|warning|fatal)\b.*)|Traceback \(most recent call last\):.*|terminate called.*"
)
_SEVERE = {"WARN", "ERROR", "FATAL"}
COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta", "bright_blue")


@dataclass
class LogTail:
    """Follows one log file and picks the lines that matter.

    Attributes:
        path: of the file; it need not be there yet.
        offset: up to where it was read [bytes].
    """

    path: Path
    offset: int = 0
    _rest: bytes = b""
    _open: bool = field(default=False)  # the line before this one was shown, so what continues it is shown too

    def __post_init__(self) -> None:
        """Skip what an earlier run wrote into the same file."""
        self.offset = self.path.stat().st_size if self.path.exists() else 0

    def new_lines(self, final: bool = False) -> Iterator[tuple[str, str]]:
        """Yield (level, text) of the lines written since the last call that matter; ``final`` ends the last one."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return
        self.offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if final and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            chosen = self._choose(line.decode("utf-8", "replace").rstrip())
            if chosen:
                yield chosen

    def _choose(self, line: str) -> tuple[str, str] | None:
        match = _ROS_LINE.fullmatch(line)
        if match:
            self._open = match["level"] in _SEVERE
            return (match["level"], match["text"]) if self._open else None
        if _PLAIN_ALARM.fullmatch(line):
            self._open = True
        return ("", line) if self._open and line else None


def terminal_printer(names: list[str]) -> Callable[[str, str, str], None]:
    """Return a function (name, level, text) that writes one line to the terminal, coloured where it can be."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    width = max((len(name) for name in names), default=0)
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    style = {"WARN": "yellow", "ERROR": "red", "FATAL": "bold red"}

    def write(name: str, level: str, text: str) -> None:
        label = f"{level.lower()}: " if level else ""
        console.print(
            Text.assemble((f"{name:<{width}} | ", colour.get(name, "")), (label + text, style.get(level, "")))
        )

    return write
