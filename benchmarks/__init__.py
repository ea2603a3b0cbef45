"""What ``cue bench`` runs: each benchmark is a module or package here with a ``BENCHMARK``; see docs/benchmarks.md."""
