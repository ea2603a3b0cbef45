"""``cue bench plan``: how many shots it takes to know a table, and what choosing them costs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.plan.figures import assemble, sheets
from benchmarks.plan.plan import CODE, built, chosen, make_parts, prepare
from benchmarks.plan.plot import plot

ABOUT = (
    "Whole sessions on simulated tables that nobody has seen, with the real fitter, the arm's reach and the errors of "
    "a camera and an arm; pocketed balls stay gone. After every shot the estimate of that time predicts shots from "
    "other layouts, and the truth scores them. Planners differ in nothing but the shots that they choose."
)


BENCHMARK = Benchmark(
    name=Path(__file__).parent.name,
    title="Choosing shots: how many it takes to know a table",
    about=ABOUT,
    code=CODE,
    parts=make_parts,
    prepare=prepare,
    assemble=assemble,
    plot=plot,
    sheets=sheets,
    built=built,
    chosen=chosen,
)
