"""The progress display of a fit: a live line on a terminal, else one line at the end of each stage."""

from __future__ import annotations

import math
import time

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from cue_identify.pace import Pace
from cue_identify.replay import Progress


class FitDisplay:
    """Shows how far a fit is. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._console, self._pace = console, Pace()
        self._stage, self._last = "", ""
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("fit", total=None, text="reading")
        self._begin = time.monotonic()

    def __enter__(self) -> FitDisplay:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the live line away."""
        self._bar.stop()
        self._end_stage()

    def _end_stage(self) -> None:
        if self._last and not self._console.is_terminal:
            self._console.print(f"{time.monotonic() - self._begin:6.1f} s  {self._last}", soft_wrap=True)
        self._last = ""

    def show(self, progress: Progress) -> None:
        """Show the progress."""
        now = time.monotonic()
        text = told(progress, self._pace.add(now, progress.evaluations))
        self._bar.update(self._task, text=text)
        if progress.stage != self._stage:
            self._end_stage()
        self._stage, self._last = progress.stage, text


def told(progress: Progress, rate: float) -> str:
    """Return the progress as one line."""
    parts = [f"{progress.stage:<16}"]
    if math.isfinite(progress.best_cost):
        parts.append(f"best cost {progress.best_cost:.4f}")
    parts.append(f"{progress.evaluations} simulated shots")
    if rate > 0:
        parts.append(f"{rate:.0f}/s")
    if math.isfinite(progress.seconds_left):
        parts.append(f"{progress.seconds_left:.0f} s left at most")
    return ", ".join(parts)
