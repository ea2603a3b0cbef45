"""``cue bench real``: how well the twin predicts balls of a recorded match."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.real.figures import assemble
from benchmarks.real.plan import CODE, built, make_parts
from benchmarks.real.plot import plot

ABOUT = (
    "Struck balls of a recorded three-cushion match: the table's terms are fitted on one half of the shots and scored "
    "on the other, both ways. Mode B: each ball is watched until 0.4 s after its first rebound, and what it does later "
    "is scored. docs/real-shots.md tells more. The recording is not part of the project."
)
BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="Real shots: what the twin predicts of a recorded match",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    assemble=assemble,
    plot=plot,
    built=built,
)
