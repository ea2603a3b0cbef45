"""Which parts the benchmark of real shots has: one for each cushion law."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Options, Part, UnavailableError
from benchmarks.twin.plan import built, real_shots_file
from benchmarks.twin.providers import cushion_laws

__all__ = ["CODE", "LAW", "built", "make_parts", "score"]

CODE = (
    "benchmarks/real",
    "src/cue_core/cue_core",
    "src/cue_identify/cue_identify/real_shots",
    "src/cue_sim/cue_sim",
    "src/cue_sim/native",
)
LAW = "coulomb"
"""The twin's own cushion law: the one that counts. The others are for information."""


def make_parts(options: Options) -> list[Part]:
    """Return the parts, the slowest laws first."""
    path, content = real_shots_file(options)
    laws = [LAW] if options.quick else sorted(cushion_laws(), key=lambda law: law == LAW)
    shared = {"path": str(path), "content": content, "seed": options.seed, "quick": options.quick}
    return [
        Part(
            f"median_mm/{law}",
            "benchmarks.real.plan:score",
            {"law": law, **shared},
            also=("mode_b_mm", "baselines", "by_rebounds", "laws"),
        )
        for law in laws
    ]


def score(path: str, content: str, seed: int, quick: bool, law: str) -> dict[str, Any]:
    """Return what :func:`cue_identify.real_shots.benchmark` says of a cushion law.

    Args:
        path: of the recording.
        content: hash of it; empty = it is not there.
        seed: of the fits.
        quick: no restarts of the fits.
        law: its name.

    Raises:
        UnavailableError: there is no recording.
    """
    if not content:
        raise UnavailableError("no recorded shots are here; cue bench real FILE names them")
    from cue_identify.real_shots import FitConfig, benchmark

    return benchmark(path, law, seed, config=FitConfig(restarts=0) if quick else None, threads=1)
