"""Which parts the benchmark of identification has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.fit.correction import WORLDS as CORRECTED
from benchmarks.fit.structure import EFFECTS, PLAIN
from benchmarks.harness import Options, Part
from cue_sim import kernel

CODE = (
    "benchmarks/fit",
    "config/tables/small.yaml",
    "src/cue_core/cue_core",
    "src/cue_identify/cue_identify",
    "src/cue_sim/cue_sim",
    "src/cue_sim/native",
)
WORLDS = 5
RACES = 3
REFITS = 2
_CANCELLED = (0.1, 0.35, 0.6, 0.9)
"""Shares of a fit's time."""
_FEW = 8  # shots of a quick run


def built() -> tuple[Path, ...]:
    """Return the compiled kernel: its sources may have changed without it, and the other way round."""
    return (Path(kernel.library()._name),)


def make_parts(options: Options) -> list[Part]:
    """Return the parts; those that take no times run first, as many at a time as there are cores."""
    seed, quick = options.seed, options.quick
    parts: list[Part] = []

    def add(key: str, what: str, function: str, arguments: dict[str, Any], alone: bool = False, also: str = "") -> None:
        words = {"seed": seed, **arguments}
        parts.append(Part(f"{key}/{what}", f"benchmarks.fit.{function}", words, alone, tuple(also.split())))

    for effect in (*EFFECTS, PLAIN):
        for index in range(0 if quick else WORLDS):
            add("terms", f"{effect}{index}", "structure:select", {"effect": effect, "index": index})
    for world in CORRECTED[: 0 if quick else None]:
        add("residual", world, "correction:gain", {"world": world})
    few = {"shots": _FEW} if quick else {}
    for index in range(1 if quick else WORLDS):
        for noise in ("recovery", "noisy"):
            add(noise, f"world{index}", "recover:recovery", {"index": index, "noise": noise, **few}, alone=True)
    for index in range(0 if quick else REFITS):
        add("refit_s", f"world{index}", "recover:refit", {"index": index}, alone=True)
    shares = list(_CANCELLED[1:2] if quick else _CANCELLED)
    add("cancel_s", "world0", "recover:cancel", {"index": 0, "shares": shares, **few}, alone=True)
    for index in range(1 if quick else RACES):
        limited = {"index": index, **few, **({"most": 20.0} if quick else {})}
        add("speedup_vs_cma", f"world{index}", "race:race", limited, alone=True, also="speedup_vs_sysid")
    return parts
