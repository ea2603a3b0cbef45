"""Ctrl-C, SIGTERM and kill -9 of the launcher, in the midst of a stroke and of a fit: nothing stays behind.

A finished session's run folder is cut back to a moment before a stroke or a fit; a graph that resumes it is soon there.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from system_harness import ASKED, Session, copy_run, wait_for, write_lines

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]

STATE = ("world_state.npz", "tracker.json", "table.png", "shots.jsonl", "score.jsonl")


def cut_back(source: Session, target: Path, to: str) -> Path:
    """Copy a run folder as it was before its last stroke or its last fit was decided on."""
    run = copy_run(source.run_dir, target, STATE)
    journal = source.lines("agent.jsonl")
    what = "shot" if to == "stroke" else "fit"
    at = max(n for n, line in enumerate(journal) if line["event"] == "decision" and line.get("what") == what)
    kept = journal[:at]
    write_lines(run / "agent.jsonl", kept)
    known = {line["shot"]["shot_id"] for line in kept if line.get("what") == "shot" and line["event"] == "decision"}
    write_lines(run / "shots.jsonl", [line for line in source.lines("shots.jsonl") if line["shot_id"] in known])
    ledger = source.lines("arm_ledger.jsonl")
    write_lines(run / "arm_ledger.jsonl", [e for e in ledger if (e.get("shot_id") or e["shot"]["shot_id"]) in known])
    fits = sum(1 for line in kept if line.get("what") == "fit" and line["event"] == "outcome")
    write_lines(run / "estimates.jsonl", source.lines("estimates.jsonl")[:fits])
    return run


CASES = [
    pytest.param("stroke", "INT"),
    pytest.param("fit", "INT", marks=pytest.mark.slow),
    pytest.param("fit", "INT INT"),
    pytest.param("stroke", "INT INT", marks=pytest.mark.slow),
    pytest.param("stroke", "TERM", marks=pytest.mark.slow),
    pytest.param("fit", "TERM"),
    pytest.param("stroke", "KILL"),
    pytest.param("fit", "KILL"),
]


@pytest.mark.parametrize(("moment", "how"), CASES)
def test_everything_is_gone_in_time(alone, launch, tmp_path, moment, how):
    session = launch(f"stop-{moment}", run_dir=cut_back(alone, tmp_path / "run", moment), **ASKED)
    if moment == "stroke":
        session.wait_striking()
    else:
        session.wait_fitting()
    session.note_shared_memory()
    began = time.monotonic()
    for name in how.split():
        number = signal.Signals[f"SIG{name}"]
        if number == signal.SIGINT:
            session.interrupt()
        else:
            session.signal(number)
    session.wait_ended(5.0)
    assert time.monotonic() - began <= 5.0
    if how != "KILL":
        assert session.launcher.returncode == 0, session.describe()
    session.assert_quiet()


def test_a_graph_that_just_starts_stops_too(launch):
    session = launch("stop-start", **ASKED)
    wait_for(lambda: len(session.processes()) >= 5, "processes", 20.0, session.describe)
    session.interrupt()
    session.wait_ended(5.0)
    assert session.launcher.returncode == 0, session.describe()
    session.assert_quiet()
