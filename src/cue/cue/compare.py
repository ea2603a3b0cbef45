"""``cue compare``: two or more runs side by side: their errors, what they learnt, and what it cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from cue.offline_inputs import consoles, read_estimate
from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_core.parameters import PARAMETERS, ParameterEstimate

_ERRORS = ("rest_error_m", "along_track_error_m")
_CLEARLY = 3.0
"""Standard deviations by which two values certainly differ."""


@dataclass(frozen=True)
class Run:
    """What is compared of one run.

    Attributes:
        name: to show.
        summary: its ``summary.json``.
        estimate: that it ended with; None = it promoted nothing.
    """

    name: str
    summary: dict[str, Any]
    estimate: ParameterEstimate | None

    def error(self, state: str, key: str) -> float:
        """Return an error over the held-out shots, ``state`` unfitted or calibrated [m]; NaN = not known."""
        value = self.summary.get("held_out", {}).get(state, {}).get(key)
        return math.nan if value is None else float(value)


def read_run(folder: Path) -> Run:
    """Read a run.

    Raises:
        FileFormatError: it has not ended, or a file is malformed.
    """
    path = folder / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        revision = int(summary["revision"])
    except OSError as error:
        raise FileFormatError(path, f"cannot be read ({error.strerror}); has the session ended?") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(path, f"is no summary of a session: {error}") from None
    estimate = read_estimate(folder / "estimates.jsonl", revision) if revision else None
    return Run(folder.resolve().name, summary, estimate)


def differences(one: ParameterEstimate, other: ParameterEstimate) -> dict[str, float]:
    """Return by how many standard deviations the parameters that both fitted differ; NaN = no deviation is known."""
    a, b = learnt(one), learnt(other)
    found = {}
    for name in (name for name in a if name in b):
        spread = math.hypot(a[name][1], b[name][1])
        found[name] = abs(a[name][0] - b[name][0]) / spread if spread > 0 else math.nan
    return found


def learnt(estimate: ParameterEstimate | None) -> dict[str, tuple[float, float]]:
    """Return value and standard deviation of the parameters that were fitted, by name, in their units."""
    if estimate is None:
        return {}
    rows = zip(PARAMETERS, estimate.values, estimate.stddevs, estimate.frozen, strict=True)
    return {name: (float(value), float(deviation)) for name, value, deviation, frozen in rows if not frozen}


def to_dict(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the comparison as plain data; NaN becomes None."""
    first = runs[0]
    data = []
    for run in runs:
        both = first.estimate is not None and run.estimate is not None
        apart = differences(first.estimate, run.estimate) if both else {}  # type: ignore[arg-type]
        data.append(
            {
                "run": run.name,
                "planner": run.summary.get("planner"),
                "seed": run.summary.get("seed"),
                "shots_used": run.summary.get("shots_used"),
                "wall_s": run.summary.get("wall_s"),
                "stopped_because": run.summary.get("stopped_because"),
                "held_out": {s: {k: _plain(run.error(s, k)) for k in _ERRORS} for s in ("unfitted", "calibrated")},
                "parameters": {
                    name: {"value": value, "stddev": deviation, "unit": PARAMETERS[name].unit}
                    for name, (value, deviation) in learnt(run.estimate).items()
                },
                "sigmas_from_first": {name: _plain(value) for name, value in apart.items()},
            }
        )
    return {"runs": data}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tables(runs: Sequence[Run]) -> tuple[Table, Table]:
    errors, parameters = Table(box=None, pad_edge=False), Table(box=None, pad_edge=False)
    for table, title in ((errors, ""), (parameters, "parameter")):
        table.add_column(title)
        for run in runs:
            table.add_column(Text(run.name), justify="right", overflow="fold")
    for title, state, key in (
        ("rest position, unfitted [cm]", "unfitted", "rest_error_m"),
        ("rest position, calibrated [cm]", "calibrated", "rest_error_m"),
        ("along the track, unfitted [cm]", "unfitted", "along_track_error_m"),
        ("along the track, calibrated [cm]", "calibrated", "along_track_error_m"),
    ):
        errors.add_row(Text(title), *(_centimetres(run.error(state, key)) for run in runs))
    errors.add_row("held-out shots", *(str(run.summary.get("held_out", {}).get("shots", "")) for run in runs))
    for title, key in (
        ("strokes", "shots_used"),
        ("wall time [s]", "wall_s"),
        ("planner", "planner"),
        ("seed", "seed"),
    ):
        errors.add_row(Text(title), *(_short(run.summary.get(key)) for run in runs))
    errors.add_row("ended by", *(str(run.summary.get("stopped_because", "")) for run in runs))
    for name in dict.fromkeys(name for run in runs for name in learnt(run.estimate)):
        unit = PARAMETERS[name].unit
        cells = [_cell(run, name, runs[0]) for run in runs]
        parameters.add_row(Text(name if unit == "1" else f"{name} [{unit}]"), *cells)
    return errors, parameters


def _centimetres(metres: float) -> str:
    return f"{100 * metres:.2f}" if math.isfinite(metres) else ""


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.0f}" if isinstance(value, float) else str(value)


def _cell(run: Run, name: str, first: Run) -> str:
    """Return a value with its deviation, and how far from the first run's where it is certainly another."""
    known = learnt(run.estimate)
    if name not in known:
        return ""
    text = f"{known[name][0]:.4g} ± {known[name][1]:.1g}"
    if run is first or first.estimate is None or run.estimate is None:
        return text
    apart = differences(first.estimate, run.estimate).get(name, math.nan)
    return f"{text} ({apart:.1f} σ)" if apart >= _CLEARLY else text


def compare(folders: Sequence[str], json_file: str, write: Callable[[str], object]) -> int:
    """Compare runs in the terminal, and as JSON where asked for (``-`` = in place of the tables).

    Raises:
        CueError: a run cannot be read, or only one is named.
    """
    if len(folders) < 2:
        raise CueError("a comparison needs two run folders or more")
    runs = [read_run(Path(folder)) for folder in folders]
    text = json.dumps(to_dict(runs), indent=2)
    if json_file == "-":
        write(text)
        return 0
    if json_file:
        write_atomically(Path(json_file), text + "\n")
    console, _ = consoles()
    errors, parameters = _tables(runs)
    console.print(errors)
    if parameters.row_count:
        console.print()
        console.print(parameters)
        console.print(f"σ: standard deviations from {runs[0].name}, where more than {_CLEARLY:g}; empty = not fitted")
    return 0
