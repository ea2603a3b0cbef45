"""The smaller subcommands of ``cue``: thin calls of the packages that do the work."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from cue.resources import config_file, executable
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


def fit(shots: str, table: str, out: str, seed: int, write: Callable[[str], object]) -> int:
    """Fit the parameters to recorded shots and print them.

    Raises:
        CueError: a file is missing or malformed, or the shots do not suffice.
    """
    from cue_core.shot_log import append_line
    from cue_identify.offline import fit as fit_offline

    outcome = fit_offline(shots, config_file("tables", table), seed=seed)
    estimate = outcome.estimate
    for name, row in estimate.to_dict()["parameters"].items():
        how = "frozen" if row["frozen"] else f"+- {row['stddev']:.4g}"
        write(f"{name:<28} {row['value']:>10.5g} {how:<12} {row['unit'] if row['unit'] != '1' else ''}".rstrip())
    write(f"rest error: {estimate.train_error * 1000:.1f} mm fitted, {estimate.held_out_error * 1000:.1f} mm held out")
    write(outcome.reason)
    if out:
        append_line(out, estimate.to_dict())
    return 0


def predict(run: str, numbers: Sequence[int], write: Callable[[str], object]) -> int:
    """Print predicted and observed rest positions of recorded shots.

    Raises:
        CueError: the run has no twin, no such shot, or a shot that cannot be predicted.
    """
    import numpy as np

    from cue_core.shot_log import ShotLog
    from cue_sim.export import load_twin
    from cue_sim.predict import for_balls, rest_fault, start_from

    folder = Path(run)
    twin, estimate = load_twin(folder / "twin.json")
    records = {record.index: record for record in ShotLog(folder / "shots.jsonl").read()}
    unknown = sorted(set(numbers) - set(records))
    if unknown:
        raise FileFormatError(folder / "shots.jsonl", f"has no shot {unknown[0]}; it has {sorted(records)}")
    write("shot ball   predicted x, y [m]   observed x, y [m]   error [mm]")
    for index in numbers or sorted(records):
        record = records[index]
        if record.achieved is None:
            write(f"{index:>4}        not predicted: no stroke was measured")
            continue
        balls = tuple(ball.ball_id for ball in record.before if ball.in_play)
        start = start_from(record.before, record.achieved, estimate.values, twin.table, balls)
        path = for_balls(twin, balls).simulate(start, estimate.values)
        if fault := rest_fault(path):
            write(f"{index:>4}        not predicted: {fault}")
            continue
        after = {ball.ball_id: ball for ball in record.after}
        for k, ball in enumerate(balls):
            (x, y), seen = path.rest_positions[k], after.get(ball)
            predicted = "       pocketed" if path.rest_pocketed[k] else f"{x:>8.4f}{y:>9.4f}"
            observed, error = "        unknown", ""
            if seen is not None and seen.in_play:
                observed = f"{seen.position[0]:>8.4f}{seen.position[1]:>9.4f}"
                error = f"{1000 * np.hypot(x - seen.position[0], y - seen.position[1]):.1f}"
            elif seen is not None:
                observed = "       pocketed"
            write(f"{index:>4} {ball:>4}   {predicted:<17}    {observed:<17}   {error:>9}".rstrip())
    return 0
