"""Which parts the benchmark of planners has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError, Options, Part
from benchmarks.plan.conditions import LAYOUTS, PHYSICS, SEEDS
from benchmarks.plan.peers import reach
from cue_agent.config import PLANNERS
from cue_core.table import TableModel
from cue_sim import kernel

CODE = (
    "benchmarks/plan/conditions.py",
    "benchmarks/plan/peers.py",
    "benchmarks/plan/session.py",
    "config/robots",
    "config/tables/small.yaml",
    "config/worlds/bench",
    "src/cue_agent/cue_agent",
    "src/cue_arm/cue_arm",
    "src/cue_core/cue_core",
    "src/cue_identify/cue_identify",
    "src/cue_sim/cue_sim",
    "src/cue_sim/native",
)
USUAL = ("offline", "random")
"""Planners that are compared unless others are asked for."""
KEYS = "ended_early cue_pocketed any_pocketed coverage95 brier session_s"
_QUICK = {"shots": 3, "evaluations": 800, "judges": 6, "quick": True, "robot": ""}
_WORDS = {"planners": PLANNERS, "layouts": LAYOUTS, "physics": PHYSICS, "seeds": tuple(map(str, SEEDS))}


def built() -> tuple[Path, ...]:
    """Return the compiled kernel: its sources may have changed without it, and the other way round."""
    return (Path(kernel.library()._name),)


def prepare(options: Options, tell: Callable[[str], None]) -> None:
    """Have the map of the arm's reach made before the workers need it, each for itself."""
    if not options.quick:
        tell("looking up where the arm reaches (the first time this takes a minute)")
        reach(TableModel.load(options.root / "config" / "tables" / "small.yaml"))


def make_parts(options: Options) -> list[Part]:
    """Return the parts, seed by seed, and within a seed the planners of a condition beside each other.

    Raises:
        BenchmarkError: an option names something that is not there.
    """
    for name, known in _WORDS.items():
        for word in _asked(options, name):
            if word not in known:
                raise BenchmarkError(f"--{name} knows no {word!r}, only {', '.join(known)}")
    parts: list[Part] = []
    more: dict[str, Any] = dict(_QUICK) if options.quick else {}
    for seed in SEEDS:
        for layout in LAYOUTS:
            for physics in PHYSICS:
                for planner in PLANNERS:
                    words = {"layout": layout, "physics": physics, "seed": 1000 * options.seed + seed, **more}
                    name = f"shots_ratio/{planner}.{layout}.{physics}.{seed}"
                    arguments = {**words, "planner": planner}
                    parts.append(Part(name, "benchmarks.plan.session:play", arguments, also=tuple(KEYS.split())))
    for physics in PHYSICS:
        words = {"physics": physics, "seed": 1000 * options.seed, **({"quick": True} if options.quick else {})}
        parts.append(
            Part(f"decision_s/offline.spread.{physics}.0", "benchmarks.plan.session:decide", words, alone=True)
        )
    return parts


def chosen(options: Options, part: Part) -> bool:
    """Tell whether a part is to be run; a quick run plays one condition."""
    planner, layout, physics, seed = part.name.partition("/")[2].split(".")
    wanted = {"planners": planner, "layouts": layout, "physics": physics, "seeds": seed}
    asked = {name: _asked(options, name) for name in wanted}
    if options.quick:
        few = {"layouts": ("two",), "physics": PHYSICS[:1], "seeds": ("0",)}
        asked = {name: words or few.get(name, ()) for name, words in asked.items()}
    asked["planners"] = asked["planners"] or USUAL
    if part.alone:  # always the offline planner with one layout
        wanted = {"physics": physics}
    return all(not asked[name] or value in asked[name] for name, value in wanted.items())


def _asked(options: Options, name: str) -> Sequence[str]:
    return tuple(word for word in str(options.extra.get(name) or "").split(",") if word)
