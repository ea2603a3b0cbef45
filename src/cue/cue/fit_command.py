"""``cue fit``: the parameters of a table from recorded shots."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cue.fit_progress import FitDisplay
from cue.offline_inputs import consoles, find_table, read_estimate, read_source
from cue_core.errors import CueError
from cue_core.files import write_atomically
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shot_log import LogContents
from cue_core.table import TableModel
from cue_identify.fit import FitConfig, FitOutcome
from cue_identify.offline import (
    check_evaluations,
    choose_held_out,
    fit,
    refuse_other_table,
    refuse_unusable,
    told_exclusions,
    told_verdicts,
)
from cue_identify.replay import Progress
from cue_identify.store import EstimateStore

INTERRUPTED = 130  # as shells have it: 128 + SIGINT
_BADLY = 0.1  # [-] of the table's width: mean rest error of fitted shots that no noise explains
_KEEP_EVERY = 2.0  # [s] between two interim estimates of one stage


class _Keeper:
    """Takes the progress: shows it, and keeps how far the fit has got."""

    def __init__(self, display: FitDisplay, store: EstimateStore) -> None:
        self._display, self._store = display, store
        self._stage, self._cost, self._time = "", math.inf, -math.inf
        self.kept = 0
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        self._display.show(progress)
        values = progress.values
        if values is None:
            return
        now, new_stage = time.monotonic(), progress.stage != self._stage
        better = progress.best_cost < self._cost
        if new_stage or (better and now - self._time >= _KEEP_EVERY):
            self._stage, self._cost, self._time = progress.stage, progress.best_cost, now
            self._store.keep_interim(progress, np.asarray(values))
            self.kept += 1


def fit_command(options: argparse.Namespace) -> int:
    """Fit a shot log, show the result, and keep it; return the exit code.

    Raises:
        CueError: a file is missing or malformed, a name is unknown, or the shots do not suffice.
    """
    console, notes = consoles()
    source = Path(options.shots)
    folder = source if source.is_dir() else source.parent
    out = Path(options.out) if options.out else folder / "fit.jsonl"
    contents = read_source(source, options.skip_bad)
    table = find_table(options.table, folder)
    check_evaluations(options.evaluations)
    refuse_other_table(contents.records, table, source)
    refuse_unusable(contents.records, source)
    terms = [name.strip() for name in options.terms.split(",") if name.strip()]
    held_out = choose_held_out(contents.records, options.hold_out, options.seed)
    if options.revision is not None and not options.start:
        raise CueError("--revision says which estimate of --start is meant: give both")
    present = read_estimate(options.start, options.revision, table) if options.start else None
    store = EstimateStore(out.parent, out.name, table)
    store.check_writable()
    begun = _resumed(store, out) if options.resume else None
    notes_on(contents, notes)
    display = FitDisplay(notes)
    keeper = _Keeper(display, store)
    try:
        with display, _one_interrupt():
            outcome = fit(
                contents.records,
                table,
                held_out=held_out,
                evaluations=options.evaluations,
                seed=options.seed,
                threads=options.threads,
                present=present,
                report=keeper,
                terms=terms,
                start=begun,
                learn=options.learn,
            )
            estimate = store.add(outcome)
    except KeyboardInterrupt:
        notes.print(_farewell(keeper, out), soft_wrap=True)
        return INTERRUPTED
    if options.json == "-":
        console.file.write(_json(outcome, estimate, out) + "\n")
        return 0
    if options.json:
        write_atomically(options.json, _json(outcome, estimate, out) + "\n")
    show(outcome, estimate, out, console)
    for line in doubts(outcome, estimate, table, options.evaluations or FitConfig().evaluations):
        console.print(Text(line), soft_wrap=True)
    return 0


def _resumed(store: EstimateStore, out: Path) -> np.ndarray:
    """Return how far the last fit had come.

    Raises:
        CueError: the file says of no fit that did not end.
    """
    if store.interim is None:
        raise CueError(
            f"{out} holds no interim estimate to resume from: the last fit there came to its end, or none began"
        )
    return store.interim.values


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Make the first Ctrl-C end the fit, and a second one not tear what is still said."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def notes_on(contents: LogContents, console: Console) -> None:
    """Tell what of a log was left out."""
    for problem in contents.problems:
        console.print(Text(f"left out: {problem}"), soft_wrap=True)
    if contents.torn:
        console.print("left out: the last line, which a crash tore off", soft_wrap=True)


def _farewell(keeper: _Keeper, out: Path) -> str:
    done = keeper.last
    where = f" after {done.evaluations} simulated shots, at stage {done.stage!r}" if done else ""
    if keeper.kept:
        kept = (
            f"{keeper.kept} interim estimates are in {out}, not judged, without error bars; --resume goes on from there"
        )
    else:
        kept = "no estimate was reached yet, nothing is kept"
    return f"stopped{where}; {kept}"


def show(outcome: FitOutcome, estimate: ParameterEstimate, out: Path, console: Console) -> None:
    """Print the result."""
    verdicts = told_verdicts(estimate, outcome.verdicts)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("parameter", "value", "± 1 sd", "unit", "nominal", "verdict"):
        table.add_column(name, justify="right" if name in ("value", "± 1 sd", "nominal") else "left")
    stddevs = dict(zip(PARAMETERS, estimate.stddevs, strict=True))
    values = dict(zip(PARAMETERS, estimate.values, strict=True))
    for name, verdict in verdicts.items():
        parameter, spread = PARAMETERS[name], stddevs[name]
        value = figures(values[name], spread)
        nominal = f"{parameter.nominal:g}"
        table.add_row(name, value, f"{spread:.2g}", "" if parameter.unit == "1" else parameter.unit, nominal, verdict)
    console.print(table)
    for first, second, correlation in () if outcome.verdicts else outcome.pairs:
        console.print(f"hardly told apart: {first} and {second} (correlation {correlation:+.2f})", soft_wrap=True)
    for step in outcome.steps:
        console.print(Text(f"term {step.words}"), soft_wrap=True)
    if outcome.excluded:
        total = len(outcome.excluded) + len(estimate.shot_ids)
        console.print(f"{len(outcome.excluded)} of {total} shots took no part:")
        for line in told_exclusions(outcome.excluded):
            console.print(Text(f"  {line}"), soft_wrap=True)
    held = "" if math.isnan(estimate.held_out_error) else f", {1000 * estimate.held_out_error:.1f} mm held out"
    console.print(f"mean rest error: {1000 * estimate.train_error:.1f} mm fitted{held}")
    console.print(Text(outcome.reason), soft_wrap=True)
    console.print(
        f"{outcome.evaluations} simulated shots in {outcome.seconds:.1f} s; revision {estimate.revision} in {out}",
        soft_wrap=True,
    )


def doubts(outcome: FitOutcome, estimate: ParameterEstimate, table: TableModel, budget: int) -> list[str]:
    """Return what should make a reader distrust a fit.

    Args:
        outcome: of the fit.
        estimate: it found.
        table: fitted on.
        budget: of simulated shots.
    """
    found = []
    if outcome.evaluations >= budget:
        found.append(
            f"note: the budget of {budget} simulated shots was spent, so the search may have been cut off; "
            "--evaluations allows more, --resume goes on (judging and error bars come on top of the budget)"
        )
    if estimate.train_error > _BADLY * table.width:
        found.append(
            f"warning: even the fitted shots come to rest {1000 * estimate.train_error:.0f} mm from where they should, "
            f"{100 * estimate.train_error / table.width:.0f} % of the table's width: is {table.name!r} the right "
            "table, are the balls' names right? `cue residuals` shows where the errors arise, --terms auto asks what "
            "is missing"
        )
    return found


def figures(value: float, spread: float) -> str:
    """Return a value with as many figures as its standard deviation leaves sense in."""
    if not (math.isfinite(value) and spread > 0):
        return f"{value:.5g}"
    decimals = min(max(0, 1 - math.floor(math.log10(spread))), 8)
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0: no negative zero


def _json(outcome: FitOutcome, estimate: ParameterEstimate, out: Path) -> str:
    data = {**estimate.to_dict(), **outcome.details(), "kept_in": str(out)}
    return json.dumps(_plain(data), indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return plain data for strict JSON: what is not finite becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
