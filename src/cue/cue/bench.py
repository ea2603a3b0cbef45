"""``cue bench``: find the benchmarks of the source checkout and run one."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cue.resources import ResourceError

_OPTIONS_OF_ONE = ("real_shots", "install_pooltool", "planners", "layouts", "physics", "seeds")
"""Options of the command line that only some benchmarks read."""
_READ_A_FILE = ("real", "twin")
"""Benchmarks that score on recorded shots, which ``FILE`` or ``--real-shots FILE`` names."""


def checkout() -> Path:
    """Return the source checkout, whose ``benchmarks`` are not installed.

    Raises:
        ResourceError: this CUE was installed without its sources.
    """
    places = [Path(os.environ["CUE_ROOT"])] if os.environ.get("CUE_ROOT") else []
    for place in [*places, *Path(__file__).resolve().parents]:
        if (place / "benchmarks" / "harness").is_dir():
            return place
    raise ResourceError("benchmarks run from CUE's source checkout, and there is none here; run 'source env.sh' in it")


def bench(options: argparse.Namespace) -> int:
    """Run the benchmark that the command line names; return its exit code.

    Raises:
        CueError: an unknown benchmark or part, or files that cannot be written.
    """
    root = checkout()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    from benchmarks.harness import BenchmarkError, Options
    from benchmarks.harness.run import load, run

    benchmark = load(options.name, root)
    if options.file and options.real_shots:
        raise BenchmarkError(f"{options.file} and --real-shots {options.real_shots} both name recorded shots")
    if options.file and benchmark.name not in _READ_A_FILE:
        raise BenchmarkError(f"benchmark {benchmark.name} reads no file; {options.file} is one word too many")
    options.real_shots = options.real_shots or options.file
    default = root / "runs" / "bench" / f"{benchmark.name}{'-quick' if options.quick else ''}.json"
    return run(
        benchmark,
        Options(
            seed=options.seed,
            quick=options.quick,
            root=root,
            extra={name: getattr(options, name) for name in _OPTIONS_OF_ONE},
        ),
        Path(options.json).absolute() if options.json else default,
        fresh=options.fresh,
        workers=options.workers,
        only=[name for names in options.only for name in names.split(",") if name],
    )
