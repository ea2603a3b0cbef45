"""Which parts the benchmark of the twin has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Part
from benchmarks.harness.parts import hash_files
from benchmarks.twin import pooltool
from benchmarks.twin.laws import LIMITS
from benchmarks.twin.providers import cushion_laws
from benchmarks.twin.shots import CLASSES
from benchmarks.twin.speed import BALL_COUNTS
from cue_sim import kernel

CODE = (
    "benchmarks/twin",
    "config/tables",
    "src/cue_core/cue_core",
    "src/cue_sim/cue_sim",
    "src/cue_sim/native",
    "src/cue_identify/cue_identify",
)
TABLES = ("small", "7ft")
_MODULE = "benchmarks.twin"
REAL_SHOTS = Path("..") / "shared" / "data" / "real_shots" / "visible.jsonl.gz"
"""Where recorded shots are looked for, from the checkout."""


def make_parts(options: Options) -> list[Part]:
    """Return the parts, long ones first so that two workers end together."""
    seed, quick = options.seed, options.quick
    parts: list[Part] = []

    def add(name: str, function: str, arguments: dict[str, Any], alone: bool = False, also: str = "") -> None:
        parts.append(Part(name, f"{_MODULE}.{function}", arguments, alone, tuple(also.split())))

    path, content = real_shots_file(options)
    if not quick:  # they are fits, which cannot be had in small
        for law in cushion_laws():
            shots = {"path": str(path), "cushion_law": law, "seed": seed, "content": content}
            add(f"real_median_mm/{law}", "providers:real_shots", shots)
        add("portable_mm/calibrated", "providers:portable", {"seed": seed, "shots": 200})
    for key, function in (("vs_reference_mm", "against_reference"), ("step_halving_mm", "step_halving")):
        for table in TABLES:
            for label in CLASSES[::-1]:
                drawn = {"table": table, "label": label, "count": 4 if quick else 200, "seed": seed}
                add(f"{key}/{table}/{label}", f"accuracy:{function}", drawn)
    for name, table, kind, count in (
        ("small", "small", "shots", 500),
        ("7ft", "7ft", "shots", 500),
        ("breaks", "7ft", "breaks", 100),
    ):
        for chunk in range(1 if quick else 5):
            played = {"table": table, "kind": kind, "count": count // (50 if quick else 5), "seed": seed + 1000 * chunk}
            add(f"energy_gain/{name}/{chunk}", "soundness:energy_and_escapes", played, also="escapes")
    for table in TABLES:
        for axis, name in enumerate("xy"):
            images = {"table": table, "axis": axis, "count": 10 if quick else 100, "seed": seed}
            add(f"mirror_mm/{table}/{name}", "accuracy:mirror", images)
    for law in LIMITS:
        add(f"laws/{law}", "laws:law", {"name": law})

    timed: dict[str, Any] = {"count": 100 if quick else 1000, "repeats": 3 if quick else 9, "seed": seed}
    for balls in BALL_COUNTS:
        add(f"ms_per_shot/{balls}", "speed:ms_per_shot", {"balls": balls, **timed}, alone=True, also="vs_mj_step")
    for balls in BALL_COUNTS if not quick else (6,):
        add(
            f"vs_pooltool/{balls}",
            "speed:vs_pooltool",
            {"balls": balls, **timed, "count": 20 if quick else 100, "repeats": 3 if quick else 5},
            alone=True,
        )
    add("scaling_2/6", "speed:scaling_2", {**timed, "count": 200 if quick else 2000}, alone=True)
    return parts


def real_shots_file(options: Options) -> tuple[Path, str]:
    """Return the file of recorded shots and a hash of it; empty = it is not there.

    Raises:
        BenchmarkError: a file was named that is not there.
    """
    given = options.extra.get("real_shots") or ""
    path = Path(given).expanduser().absolute() if given else (options.root / REAL_SHOTS).resolve()
    if not path.is_file():
        if given:
            raise BenchmarkError(f"--real-shots {given} does not exist")
        return path, ""
    return path, hash_files([path])


def built() -> tuple[Path, ...]:
    """Return the compiled kernel: its sources may have changed without it, and the other way round."""
    return (Path(kernel.library()._name),)


def prepare(options: Options, write: Callable[[str], None]) -> None:
    """Install pooltool where that was asked for."""
    if options.extra.get("install_pooltool"):
        pooltool.install(write)
