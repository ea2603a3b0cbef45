"""Tables, JSON, CSV and the page of a benchmark, all made from the same rows."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from benchmarks.harness.benchmark import Benchmark
from cue_core.files import write_atomically

_TEMPLATE = Path(__file__).with_name("page.html.j2")
_STYLES = {"met": "green", "missed": "bold red", "not measured": "yellow"}


def number(value: float | None) -> str:
    """Return three or four significant digits, as people write them."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    if value == 0 or (float(value).is_integer() and abs(value) < 1e5):
        return f"{value:.0f}"
    return f"{value:.2e}" if not 1e-4 <= abs(value) < 1e5 else f"{value:.3g}"


def target_text(row: Mapping[str, Any]) -> str:
    """Return e.g. ``≤ 0.2 mm``; empty without a target."""
    if row["target"] is None:
        return ""
    return f"{'≤' if row['sense'] == '<=' else '≥'} {number(row['target'])}"


def table(title: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return the rows for a terminal, a note only where something is missed or missing."""
    out = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("figure", "left"), ("what", "left"), ("measured", "right"), ("target", "right")):
        out.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    out.add_column("unit")
    out.add_column("", no_wrap=True)
    last = said = ""
    for row in rows:
        key = row["key"].partition(".")[0]
        verdict = row["verdict"]
        tell = verdict in ("missed", "not measured") and row["note"] and (key, row["note"]) != (last, said)
        said = row["note"] if verdict in ("missed", "not measured") else ""
        out.add_row(
            escape(key) if key != last else "",
            escape(row["what"]) + (f"\n[dim]{escape(row['note'])}[/]" if tell else ""),
            number(row["value"]),
            target_text(row),
            row["unit"],
            f"[{_STYLES[verdict]}]{verdict}[/]" if verdict else "",
        )
        last = key
    return out


def markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| figure | what | measured | target | |", "|---|---|---|---|---|"]
    for row in rows:
        note = f" ({row['note']})" if row["note"] else ""
        value = f"{number(row['value'])} {row['unit']}".strip() if row["value"] is not None else "–"
        cells = (f"`{row['key']}`", row["what"] + note, value, target_text(row), row["verdict"])
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def write_json(data: Mapping[str, Any], path: Path) -> None:
    """Write the data with six digits; what is not finite becomes null, so that any tool reads it."""
    write_atomically(path, json.dumps(_shortened(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _shortened(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write one line per row."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]) if rows else ["key"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, buffer.getvalue())


def write_page(benchmark: Benchmark, data: Mapping[str, Any], picture: Path, path: Path) -> None:
    """Write the self-contained page."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters.update(number=number, target=target_text)
    rows = data["rows"]
    page = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        title=benchmark.title,
        about=benchmark.about,
        rows=rows,
        counts={verdict: sum(row["verdict"] == verdict for row in rows) for verdict in _STYLES},
        picture="data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode(),
        settings=data["settings"],
        environment=data["environment"],
        parts=data["parts"],
    )
    write_atomically(path, page)
