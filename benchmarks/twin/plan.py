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
    per_class = 4 if quick else 50
    parts: list[Part] = []

    def add(key: str, function: str, alone: bool = False, **arguments: Any) -> None:
        parts.append(Part(key, f"{_MODULE}.{function}", arguments, alone))

    path, content = real_shots_file(options)
    for law in cushion_laws()[: 1 if quick else None]:
        add(
            f"real_median_mm/{law}",
            "providers:real_shots",
            path=str(path),
            cushion_law=law,
            seed=seed,
            content=content,
        )
    add("portable_mm/calibrated", "providers:portable", seed=seed, shots=12 if quick else 200)
    for table in TABLES:
        for label in CLASSES[::-1]:
            shots: dict[str, Any] = {"table": table, "label": label, "count": per_class, "seed": seed}
            add(f"vs_reference_mm/{table}/{label}", "accuracy:against_reference", **shots)
    for table in TABLES:
        for label in CLASSES[::-1]:
            shots = {"table": table, "label": label, "count": per_class, "seed": seed}
            add(f"step_halving_mm/{table}/{label}", "accuracy:step_halving", **shots)
    for chunk in range(1 if quick else 5):
        for table in TABLES:
            count = 10 if quick else 100
            settings: dict[str, Any] = {"table": table, "kind": "shots", "count": count, "seed": seed + 1000 * chunk}
            add(f"energy_gain/{table}/{chunk}", "soundness:energy_and_escapes", **settings)
    for chunk in range(1 if quick else 4):
        settings = {"table": "7ft", "kind": "breaks", "count": 4 if quick else 25, "seed": seed + 1000 * chunk}
        add(f"energy_gain/breaks/{chunk}", "soundness:energy_and_escapes", **settings)
    for table in TABLES:
        for axis, name in enumerate("xy"):
            add(
                f"mirror_mm/{table}/{name}",
                "accuracy:mirror",
                table=table,
                axis=axis,
                count=10 if quick else 100,
                seed=seed,
            )
    for law in LIMITS:
        add(f"laws/{law}", "laws:law", name=law)

    timed: dict[str, Any] = {"count": 20 if quick else 100, "repeats": 3 if quick else 9, "seed": seed}
    for balls in BALL_COUNTS:
        add(f"ms_per_shot/{balls}", "speed:ms_per_shot", alone=True, balls=balls, **timed)
    for balls in BALL_COUNTS if not quick else (6,):
        add(f"vs_pooltool/{balls}", "speed:vs_pooltool", alone=True, balls=balls, **timed)
    add("scaling_2/6", "speed:scaling_2", alone=True, **{**timed, "count": 100 if quick else 400})
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


def prepare(options: Options, write: Callable[[str], None]) -> None:
    """Install pooltool where that was asked for."""
    if options.extra.get("install_pooltool"):
        pooltool.install(write)
