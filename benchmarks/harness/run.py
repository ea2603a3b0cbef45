"""Run a benchmark: what is not done yet, with progress, then table, JSON, CSV, picture and page."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.harness.benchmark import Benchmark, Options
from benchmarks.harness.environment import environment
from benchmarks.harness.output import table, write_csv, write_json, write_page
from benchmarks.harness.parts import BenchmarkError, Part, Result, Store, hash_files
from benchmarks.harness.pool import run_parts
from cue_core.errors import FileFormatError

FAILED = 1
"""Exit code when a part broke; a missed target is a result, not a failure."""
STOPPED = 130
"""Exit code after Ctrl-C, as shells have it."""


_WIDTH = 120  # of the table where the output is no terminal


def known(root: Path) -> list[str]:
    """Return the names of the benchmarks in the checkout."""
    folder = root / "benchmarks"
    names = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return sorted(names - {"__init__", "harness"})


def load(name: str, root: Path) -> Benchmark:
    """Return a benchmark by its name.

    Raises:
        BenchmarkError: there is none of that name; lists those there are.
    """
    names = known(root)
    if name not in names:
        raise BenchmarkError(f"unknown benchmark {name!r}; known are {', '.join(names) or 'none'}")
    benchmark = importlib.import_module(f"benchmarks.{name}").BENCHMARK
    if not isinstance(benchmark, Benchmark):
        raise BenchmarkError(f"benchmarks/{name} has no BENCHMARK")
    return benchmark


def run(
    benchmark: Benchmark,
    options: Options,
    target: Path,
    *,
    fresh: bool = False,
    workers: int = 0,
    only: Collection[str] = (),
    console: Console | None = None,
) -> int:
    """Run a benchmark and write its files beside ``target``.

    Args:
        benchmark: what to run.
        options: how.
        target: the JSON; CSV, PNG, HTML and the finished parts go beside it under the same name.
        fresh: do everything again.
        workers: processes; 0 = one per core.
        only: keys of the JSON; empty = all. Others are filled in as far as they are done already.
        console: for table and progress.

    Returns:
        0, 1 when a part broke, or 130 when it was stopped.

    Raises:
        BenchmarkError: nothing of that name to run, or another run writes the same files.
        FileFormatError: the files cannot be written.
    """
    console = console or _console()
    if target.suffix != ".json":
        raise BenchmarkError(f"--json {target} should end in .json: other files are written beside it")
    parts = list(benchmark.parts(options))
    keys = sorted({key for part in parts for key in part.keys})
    unknown = sorted(set(only) - set(keys))
    if unknown:
        raise BenchmarkError(f"unknown figure {unknown[0]!r}; known are {', '.join(keys)}")
    if benchmark.prepare is not None:
        benchmark.prepare(options, lambda text: console.print(text, style="dim", soft_wrap=True))

    def code_now() -> str:
        return hash_files([*(options.root / name for name in benchmark.code), *benchmark.built()])

    code = code_now()
    store = Store(
        target.with_suffix(".parts.jsonl"), {part.name: part.fingerprint(code) for part in parts}, fresh=fresh
    )
    try:
        wanted = [p for p in parts if benchmark.chosen(options, p) and (not only or p.keys & set(only))]
        missing = [part for part in wanted if part.name not in store.results]
        if len(missing) < len(wanted):
            console.print(f"{len(wanted) - len(missing)} of {len(wanted)} parts are done already", style="dim")
        surroundings = environment(options.root)
        _run_missing(missing, len(wanted), workers or os.cpu_count() or 1, store, console, lambda: code_now() == code)
        if missing and code_now() != code:
            console.print("[yellow]the code changed while this ran: parts may be of either; run it again[/]")
        assembled = benchmark.assemble(options, store.results)
        data = {
            **assembled.data,
            "benchmark": benchmark.name,
            "settings": {"seed": options.seed, "quick": options.quick},
            "environment": {**surroundings, "finished": datetime.now(timezone.utc).isoformat(timespec="seconds")},
            "rows": [row.to_dict() for row in assembled.rows],
            "parts": _account(
                [p for p in parts if p.name in store.results or benchmark.chosen(options, p)], store.results
            ),
        }
        _write(benchmark, data, target)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return STOPPED
    finally:
        store.close()
    console.print(table(benchmark.title, data["rows"]))
    broken = [entry for entry in data["parts"] if entry["failed"]]
    for entry in broken:
        console.print(f"[red]broke[/] {entry['part']}: {entry['problem']}", soft_wrap=True, highlight=False)
    console.print(f"{target} (.csv, .png, .html beside it)", soft_wrap=True, highlight=False)
    return FAILED if broken else 0


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def _account(parts: Sequence[Part], results: Mapping[str, Result]) -> list[dict[str, Any]]:
    return [
        {
            "part": part.name,
            "seconds": round(results[part.name].seconds, 2) if part.name in results else None,
            "problem": results[part.name].problem if part.name in results else "not run",
            "failed": part.name in results and results[part.name].failed,
        }
        for part in parts
    ]


def _write(benchmark: Benchmark, data: Mapping[str, Any], target: Path) -> None:
    picture = target.with_suffix(".png")
    try:
        benchmark.plot(data, picture)
    except OSError as error:
        raise FileFormatError(picture, f"cannot be written: {error.strerror}") from None
    write_json(data, target)
    write_csv(data["rows"], target.with_suffix(".csv"))
    for name, rows in benchmark.sheets(data).items():
        write_csv(rows, target.with_suffix(f".{name}.csv"))
    write_page(benchmark, data, picture, target.with_suffix(".html"))


def _run_missing(
    missing: list[Part], total: int, workers: int, store: Store, console: Console, same_code: Callable[[], bool]
) -> None:
    began = time.monotonic()
    running: list[str] = []
    bar = Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("parts"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=total, completed=total - len(missing))

        def started(part: Part) -> None:
            running.append(part.name)
            bar.update(task, description=", ".join(running))

        def finished(part: Part, result: Result) -> None:
            store.add(part.name, result, lasting=same_code())
            running.remove(part.name)
            bar.update(task, description=", ".join(running), advance=1)
            how = f": {result.problem}" if result.problem else f" ({result.seconds:.1f} s)"
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            console.print(
                f"{minutes:3d}:{seconds:02d} {part.name}{how}",
                style="dim",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )

        run_parts(missing, workers, started, finished)


def read_results(path: Path) -> dict[str, Any]:
    """Read the JSON of a run.

    Raises:
        FileFormatError: it is missing or no such JSON.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(path, f"is not JSON: {error}") from None
    if not isinstance(data, dict) or "rows" not in data:
        raise FileFormatError(path, "holds no results of a benchmark")
    return data
