"""``cue bench track``: how exactly, how surely and how fast the tracker sees the balls."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.track.figures import assemble
from benchmarks.track.plan import CODE, make_parts
from benchmarks.track.plot import plot

ABOUT = (
    "The tracker in front of rendered tables: other cloths, lamps, lenses, cameras, noise and blur in each, 6 to 16 "
    "balls that a simulation drives. The truth is used to score, nowhere else; beside it a usual recipe: Hough circles."
)
BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="The tracker: accuracy, names, events, speed",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    assemble=assemble,
    plot=plot,
)
