"""``cue bench arm``: how surely strokes are planned, how exactly they are played, and what the arm never does."""

from __future__ import annotations

from pathlib import Path

from benchmarks.arm.figures import assemble
from benchmarks.arm.plan import CODE, built, make_parts
from benchmarks.arm.plot import plot
from benchmarks.harness import Benchmark

ABOUT = (
    "Random shots over the small table: planned on one core and compared with a search three times as dense; played by "
    "simulated arms whose servos follow more or less closely, beside balls that nothing may touch, while the truth of "
    "the tip is watched; and hostile trajectories, of which none may leave the envelope."
)
BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="The arm: planning, strokes, reach, envelope, pushes",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    assemble=assemble,
    plot=plot,
    built=built,
)
