"""``cue export``: both files of the twin, from an estimate and a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cue.offline_inputs import SHOTS, TWIN, carrying, consoles, find_table, read_estimate
from cue_core.balls import BallState
from cue_core.errors import CueError, FileFormatError
from cue_core.shots import ShotRecord
from cue_identify.offline import ball_ids_of, read_shots, refuse_other_table
from cue_sim.export import load_balls, load_twin, save_twin
from cue_sim.portable import save_portable
from cue_sim.portable_fit import PortableFit, fit_portable
from cue_sim.predict import for_balls
from cue_sim.twin import Twin

PORTABLE = "twin.xml"


def export_command(options: argparse.Namespace) -> int:
    """Write ``twin.json`` and ``twin.xml``; return the exit code.

    Raises:
        CueError: a file is missing, malformed or cannot be written, or the table is unknown.
    """
    console, notes = consoles()
    source, out = Path(options.estimate), Path(options.out)
    twin, balls = _twin(options, source)
    estimate = read_estimate(source, options.revision, twin.table)
    twin = carrying(twin, estimate)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(out, f"cannot be made: {error.strerror}") from None
    fit = None if options.no_fit else _fit(twin, estimate, options, notes)
    save_twin(out / TWIN, twin, estimate, balls)
    save_portable(
        out / PORTABLE,
        twin.table,
        twin.ball_ids,
        estimate,
        balls,
        parameters=fit.parameters if fit else None,
        statement=fit.to_dict() if fit else None,
        radii=twin.radii,
        masses=twin.masses,
    )
    console.print(f"{out / TWIN}: the exact twin, revision {estimate.revision}", soft_wrap=True)
    console.print(f"{out / PORTABLE}: portable MJCF, {_told(fit)}", soft_wrap=True)
    return 0


def _told(fit: PortableFit | None) -> str:
    if fit is None:
        return "not fitted to the twin: how far it is off is not known"
    rows = ", ".join(f"{1000 * row.median:.0f} mm ({name})" for name, row in fit.difference.items())
    return f"fitted; its rest positions differ from the twin's, in the median and by the shot's contacts, by {rows}"


def _twin(options: argparse.Namespace, source: Path) -> tuple[Twin, tuple[BallState, ...]]:
    """Return the twin to write, and where its balls lie."""
    folder = source if source.is_dir() else source.parent
    beside = folder / TWIN
    shots = Path(options.shots) if options.shots else None
    if options.table or not beside.is_file():
        if shots is None and (folder / SHOTS).is_file():
            shots = folder / SHOTS
        table = find_table(options.table, folder)
        records = read_shots(shots).records if shots else ()
        refuse_other_table(records, table, shots)
        ids = _ids(options.balls) if options.balls else ball_ids_of(records) if records else tuple(range(16))
        return Twin(table, ids), _last_places(records, ids)
    twin, balls = load_twin(beside)[0], load_balls(beside)
    if shots is not None:
        records = read_shots(shots).records
        refuse_other_table(records, twin.table, shots)
        twin = for_balls(twin, ball_ids_of(records))
        balls = _last_places(records, twin.ball_ids)
    if options.balls:
        twin = for_balls(twin, _ids(options.balls))
        balls = tuple(ball for ball in balls if ball.ball_id in twin.ball_ids)
    return twin, balls


def _last_places(records: tuple[ShotRecord, ...], ids: tuple[int, ...]) -> tuple[BallState, ...]:
    """Return the balls in play after the last shot."""
    return tuple(b for b in records[-1].after if b.in_play and b.ball_id in ids) if records else ()


def _ids(text: str) -> tuple[int, ...]:
    """Return the ids of ``0-5,8``.

    Raises:
        CueError: malformed, or no ball has such an id.
    """
    ids: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CueError(f"balls are {text!r}, needed are ids like 0-5,8")
        ids.update(range(int(first), int(last if dash else first) + 1))
    if not ids <= set(range(16)):
        raise CueError(f"balls are {text!r}, allowed are ids 0 to 15")
    return tuple(sorted(ids | {0}))


def _fit(twin: Twin, estimate: object, options: argparse.Namespace, console: Console) -> PortableFit:
    bar = Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("portable copy", total=1.0)
        return fit_portable(
            twin,
            estimate,  # type: ignore[arg-type]
            seed=options.seed,
            effort=options.effort,
            progress=lambda share, text: bar.update(task, completed=share, description=text),
        )
