"""``cue bench twin``: how right, how sound and how fast the twin is."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.twin.figures import assemble
from benchmarks.twin.plan import CODE, built, make_parts, prepare
from benchmarks.twin.plot import plot

ABOUT = (
    "The MuJoCo twin against an independent event-driven simulation, closed forms, its own finer steps, mirror images, "
    "pooltool, MuJoCo's own cost, its portable export, and recorded shots."
)
BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="The twin: accuracy, soundness, speed",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    assemble=assemble,
    plot=plot,
    prepare=prepare,
    built=built,
)
