"""``cue residuals``: pictures and numbers of where a twin errs."""

from __future__ import annotations

import argparse
import base64
import csv
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from cue.offline_inputs import Model, choose_shots, consoles, read_model, read_source
from cue.residual_data import Group, Residuals, as_rows, groups, replay
from cue.residual_local import ContactRow, contact_rows
from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_core.shots import ShotRecord
from cue_identify.offline import told_exclusions

_TEMPLATE = Path(__file__).resolve().parent / "templates" / "residuals.html.j2"
_WORST = 10  # shots listed on the page
_TITLES = {
    "by_contact": "By number and kind of contacts",
    "at_contacts": "At single contacts",
    "by_place": "By place on the table",
    "by_speed": "By speed",
    "by_time": "By time since the strike",
    "by_shot": "By shot",
}


def residuals_command(options: argparse.Namespace) -> int:
    """Replay shots, write pictures, page and numbers, and print the numbers; return the exit code.

    Raises:
        CueError: a file is missing, malformed or cannot be written, no such shot, or none that can be replayed.
    """
    source = Path(options.run)
    out = Path(options.out) if options.out else (source if source.is_dir() else source.parent) / "residuals"
    console, notes = consoles()
    contents = read_source(source, options.skip_bad)
    records = choose_shots(contents.records, options.shot, source)
    model = read_model(source, options.table, options.estimate, options.revision, contents.records)
    for problem in contents.problems:
        notes.print(Text(f"left out: {problem}"), soft_wrap=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(out, f"cannot be made: {error.strerror}") from None
    residuals = _replay(model, records, notes)
    if not len(residuals.samples.time):
        told = "; ".join(told_exclusions(residuals.excluded))
        raise CueError(f"{source}: none of {len(records)} shots can be replayed ({told})")
    table = model.twin.table
    found = groups(residuals.samples, (table.length, table.width))
    page = _write(out, model, residuals, found, source)
    console.print(f"replayed {len(residuals.shots)} of {len(records)} shots with {model.told}", soft_wrap=True)
    for line in told_exclusions(residuals.excluded):
        console.print(Text(f"  left out, {line}"), soft_wrap=True)
    console.print(_numbers(found))
    if rows := contact_rows(residuals.kinks):
        console.print("", _contacts(rows), sep="\n")
    console.print(f"{page}", soft_wrap=True)
    return 0


def _replay(model: Model, records: Sequence[ShotRecord], console: Console) -> Residuals:
    bar = Progress(
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("replay", total=len(records))
        return replay(model, records, lambda done: bar.update(task, completed=done))


def _numbers(found: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("mm", no_wrap=True)
    for name in ("samples", "balls", "median", "mean", "90 %", "along", "across"):
        table.add_column(name, justify="right")
    before = ""
    for row in cells(found):
        if row["by"] != before and before:
            table.add_row()
        before = str(row["by"])
        table.add_row(*(str(value) for key, value in row.items() if key != "by"))
    return table


def _contacts(rows: Sequence[ContactRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    first = "outgoing speed beyond the twin's, in %"
    for name in (first, "contacts", "outward", "sideways"):
        table.add_column(name, justify="left" if name == first else "right", no_wrap=True)
    for row in contact_cells(rows):
        table.add_row(*row.values())
    return table


def contact_cells(rows: Sequence[ContactRow]) -> list[dict[str, str]]:
    """Return kinks as texts, in % with their standard deviations."""

    def told(value: float, stddev: float) -> str:
        return f"{100 * value:+.1f}" + ("" if math.isnan(stddev) else f" ± {100 * stddev:.1f}")

    return [
        {
            "name": row.name.replace("_", " "),
            "count": str(row.count),
            "outward": told(row.outward, row.outward_stddev),
            "sideways": told(row.sideways, row.sideways_stddev),
        }
        for row in rows
    ]


def cells(found: Sequence[Group]) -> list[dict[str, str]]:
    """Return the groups as texts in mm."""

    def told(value: float, sign: str = "") -> str:
        return "–" if math.isnan(value) else f"{1000 * value:{sign}.1f}"

    return [
        {
            "by": g.by,
            "name": g.name,
            "samples": str(g.samples),
            "tracks": str(g.tracks),
            "median": told(g.median),
            "mean": told(g.mean),
            "p90": told(g.p90),
            "along": told(g.along, "+"),
            "across": told(g.across, "+"),
        }
        for g in found
    ]


def _write(out: Path, model: Model, residuals: Residuals, found: Sequence[Group], source: Path) -> Path:
    import jinja2

    from cue.residual_figures import pictures

    try:
        paths = pictures(residuals, model.twin.table, out)
    except OSError as error:
        raise FileFormatError(out, f"cannot be written: {error.strerror}") from None
    write_atomically(out / "residuals.csv", _csv(as_rows(found)))
    kicks = [dataclasses.asdict(row) for row in contact_rows(residuals.kinks)]
    write_atomically(out / "contacts.csv", _csv(kicks) if kicks else "")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        source=str(source),
        model=model.told,
        table=model.twin.table,
        pictures=[(_TITLES[name], _embedded(path), name) for name, path in paths.items()],
        rows=cells(found),
        contacts=contact_cells(contact_rows(residuals.kinks)),
        shots=len(residuals.shots),
        samples=len(residuals.samples.time),
        excluded=told_exclusions(residuals.excluded),
        worst=_worst(residuals),
    )
    target = out / "residuals.html"
    write_atomically(target, page)
    return target


def _worst(residuals: Residuals) -> list[dict[str, str]]:
    known = [row for row in residuals.shots if math.isfinite(row.rest)]
    return [
        {
            "number": str(row.record.index),
            "id": row.record.shot_id,
            "error": f"{1000 * row.rest:.0f}",
            "contacts": str(row.contacts),
            "turn": f"{math.degrees(row.turn):+.2f}",
            "flags": ", ".join(row.record.flags),
        }
        for row in sorted(known, key=lambda row: -row.rest)[:_WORST]
    ]


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _embedded(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
