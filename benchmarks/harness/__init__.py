"""What every benchmark shares: parts that can be resumed, worker processes, tables, pages.

>>> BENCHMARK = Benchmark(name="twin", title=..., about=..., code=(...), parts=make_parts, assemble=..., plot=...)
"""

from benchmarks.harness.benchmark import Assembled, Benchmark, Options, Results, Row
from benchmarks.harness.parts import BenchmarkError, Part, Result, UnavailableError

__all__ = [
    "Assembled",
    "Benchmark",
    "BenchmarkError",
    "Options",
    "Part",
    "Result",
    "Results",
    "Row",
    "UnavailableError",
]
