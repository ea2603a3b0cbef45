"""Which parts the benchmark of the arm has."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Options, Part
from cue_sim import kernel

CODE = (
    "benchmarks/arm/draws.py",
    "benchmarks/arm/envelope.py",
    "benchmarks/arm/planning.py",
    "benchmarks/arm/pushes.py",
    "benchmarks/arm/strokes.py",
    "config/robots/ur5e.yaml",
    "config/tables/small.yaml",
    "config/worlds/hidden.yaml",
    "src/cue_arm/cue_arm",
    "src/cue_core/cue_core",
    "src/cue_sim/cue_sim/robot.py",
    "src/cue_sim/cue_sim/servo.py",
    "src/cue_sim/cue_sim/trajectory.py",
    "src/cue_sim/cue_sim/world.py",
    "src/cue_sim/cue_sim/world_config.py",
    "src/cue_sim/cue_sim/world_model.py",
    "src/cue_sim/native",
)
DENSER = 3
"""How much denser the search is that decides what can be planned."""
STROKES = ("azimuth_rms_rad", "offset_rms_m", "double_hits", "touched")


def built() -> tuple[Path, ...]:
    """Return the compiled kernel: its sources may have changed without it, and the other way round."""
    return (Path(kernel.library()._name),)


def make_parts(options: Options) -> list[Part]:
    """Return the parts, the longest first."""
    seed, quick = options.seed, options.quick
    parts = []

    def add(name: str, function: str, alone: bool = False, also: tuple[str, ...] = (), **arguments: object) -> None:
        parts.append(Part(name, f"benchmarks.arm.{function}", {"seed": seed, **arguments}, alone, also))

    add("map_agreement/map", "planning:agreement", samples=60 if quick else 2000, quick=quick)
    for arm in range(1 if quick else 5):
        add(f"speed_rms/arm{arm}", "strokes:play", also=STROKES, arm=arm, strokes=14 if quick else 100)
    for k in range(1 if quick else 10):
        add(f"envelope_escapes/{k}", "envelope:attack", block=k, count=300 if quick else 10_000)
    for k in range(1 if quick else 5):
        add(f"push_p90_m/{k}", "pushes:play", block=k, pushes=2 if quick else 10)
        add(f"planned/{k}", "planning:compare", block=k, shots=20 if quick else 100, denser=DENSER)
    add("plan_ms_median/plan", "planning:clock", alone=True, also=("plan_ms_p95",), shots=20 if quick else 500)
    return parts
