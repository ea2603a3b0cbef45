"""The progress display of a session: one line per event, and a live bar where the output is a terminal."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

_NUMBER = re.compile(r"[\d.,]+")
_STYLES = {"stopped": "bold", "strike": "cyan", "fit": "magenta", "validate": "green", "waiting": "yellow"}


@dataclass(frozen=True)
class Update:
    """What is known of the session at one instant.

    Attributes:
        phase: as in ``cue_msgs/AgentStatus``.
        text: one line for a person.
        shots_used: strokes played.
        shots_budget: strokes allowed.
        held_out_error: mean rest-position error over held-out shots [m]; NaN = not known yet.
    """

    phase: str
    text: str
    shots_used: int = 0
    shots_budget: int = 0
    held_out_error: float = math.nan


class ProgressDisplay:
    """Shows updates. Use as a context manager; the live bar is drawn only on a terminal."""

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._console = console
        self._start = time.monotonic()
        self._last: tuple[str, str] | None = None
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[phase]:<11}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("shots"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}", style="dim"),
            TextColumn("{task.fields[error]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("session", total=None, phase="waiting", text="", error="")

    def __enter__(self) -> ProgressDisplay:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away; the lines stay."""
        self._bar.stop()

    def show(self, update: Update) -> None:
        """Show an update: the bar always, a line only when more than a number in it is new."""
        error = "" if math.isnan(update.held_out_error) else f"held-out error {100 * update.held_out_error:.2f} cm"
        self._bar.update(
            self._task,
            total=update.shots_budget or None,
            completed=update.shots_used,
            phase=update.phase,
            text=update.text,
            error=error,
        )
        kind = update.phase, _NUMBER.sub("#", update.text)
        if update.text and kind != self._last:
            self._last = kind
            self.say(update.phase, update.text)

    def say(self, phase: str, text: str) -> None:
        """Write one line with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        line = Text.assemble(
            (f"{minutes:3d}:{seconds:02d} ", "dim"), (f"{phase:<11} ", _STYLES.get(phase, "blue")), (text, "")
        )
        self._console.print(line, soft_wrap=True)
