"""``cue bench fit``: how exactly, how honestly and how fast shots identify a table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fit.figures import assemble, sheet_of_curves
from benchmarks.fit.plan import CODE, built, make_parts
from benchmarks.fit.plot import plot
from benchmarks.harness import Benchmark

ABOUT = (
    "Simulated tables that nobody has seen, twenty random shots on each as a camera at 60 images a second reports "
    "them, and a fit that starts from the textbook's values. The error is the distance between where the balls of "
    "forty fresh shots truly stop and where they are predicted to. Beside it the usual ways: CMA-ES and mujoco.sysid "
    "on whole shots."
)


BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="Identification: accuracy, honesty, speed, structure",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    assemble=assemble,
    plot=plot,
    sheets=lambda data: {"curves": sheet_of_curves(data)},
    built=built,
)
