"""The smaller subcommands of ``cue``: thin calls of the packages that do the work."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from cue.resources import executable
from cue_core.errors import CueError, FileFormatError


def report(run: str, write: Callable[[str], object]) -> int:
    """Write ``report.html`` of a run folder.

    Raises:
        CueError: the folder holds no run.
    """
    from cue.report import write_report

    folder = Path(run)
    if not folder.is_dir():
        raise FileFormatError(folder, "no such run folder")
    write(f"{write_report(folder)}")
    return 0


def calibrate(options: argparse.Namespace) -> int:
    """Become the client that starts a session in a running graph."""
    words = [str(executable("cue", "calibrate")), "--ros-args", "-r", f"__ns:=/{options.namespace.strip('/')}"]
    goal = {
        "instruction": options.instruction,
        "shots": options.shots,
        "held_out_shots": options.held_out_shots,
        "run_dir": os.path.abspath(options.run_dir) if options.run_dir else "",
    }
    for name, value in goal.items():
        words += ["-p", f"{name}:={json.dumps(value, ensure_ascii=False)}"]
    os.execv(words[0], words)


def fit(shots: str, table: str, out: str, seed: int, write: Callable[[str], object]) -> int:
    """Fit the parameters to recorded shots."""
    raise CueError("not available yet")


def predict(run: str, numbers: Sequence[int], write: Callable[[str], object]) -> int:
    """Print predicted and observed rest positions of recorded shots."""
    raise CueError("not available yet")
