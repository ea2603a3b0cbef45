"""The smaller subcommands of ``cue``: thin calls of the packages that do the work."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from cue.resources import executable
from cue_core.errors import FileFormatError


def report(run: str, picture: str, write: Callable[[str], object]) -> int:
    """Write ``report.html`` of a run folder, or a picture of it.

    Raises:
        CueError: the folder holds no run.
    """
    from cue.report import write_overview, write_report

    folder = Path(run)
    if not folder.is_dir():
        raise FileFormatError(folder, "no such run folder")
    if picture:
        write_overview(folder, picture)
        write(picture)
        return 0
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


def doctor_between_machines(seconds: float | None, host: str | None, write: Callable[[str], object]) -> int:
    """Answer another machine's check, or check another machine that answers; return 1 if nodes cannot meet."""
    from cue.discovery import answer, check_peer

    if host is None:
        write(f"answering for {seconds or 0:.0f} s; now run 'cue doctor --peer THIS_MACHINE' on the other one")
        answer(os.environ, seconds or 0.0)
        return 0
    problem = check_peer(host, os.environ)
    write(
        f"WRONG  peer       {problem}" if problem else f"ok     peer       nodes here and on {host} can find each other"
    )
    return 1 if problem else 0
