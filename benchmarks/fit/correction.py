"""What a learned correction adds on a cloth that no fitted parameter describes, and on one that needs none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.fit.worlds import BALLS, NOISES, SHOTS, HeldOut, World, draw_world, stream, table
from cue_core.shots import ShotRecord
from cue_identify.fit import FitConfig, FitOutcome, FitRequest, Fitter
from cue_identify.replay import TwinSimulator
from cue_sim.correction import Correction

WORLDS = ("uneven0", "uneven1", "plain0", "plain1")
"""With waves of rolling friction over the table; and without."""
_FIRST = 200
"""Worlds of this part begin at this index."""


def draw(seed: int, name: str) -> World:
    """Return a world of :data:`WORLDS`: the usual parameters 30 to 60 % off, with or without waves."""
    where = _FIRST + WORLDS.index(name)
    world = draw_world(seed, where)
    if not name.startswith("uneven"):
        return world
    rng = stream(seed, where, "waves")
    waves = {
        "wave": float(rng.uniform(0.3, 0.4)),
        "wave_length": float(rng.uniform(0.9, 1.2)),
        "wave_phase": float(rng.uniform(-math.pi, math.pi)),
    }
    return replace(world, settings={"extras": {"cloth_law": "patched", "cloth_parameters": waves}})


def gain(seed: int, world: str) -> dict[str, Any]:
    """Fit a world with and without a learned correction, and score both."""
    hidden, where = draw(seed, world), _FIRST + WORLDS.index(world)
    records = hidden.shots(stream(seed, where, "shots"), SHOTS, NOISES["recovery"])
    held_out = HeldOut(hidden, stream(seed, where, "held out"))
    plain, learned = (_fit(records, seed, learn=learn) for learn in (False, True))
    correction = learned.estimate.correction
    simulator = TwinSimulator(table(), BALLS, correction=Correction.from_dict(correction)) if correction else None
    return {
        "without_m": held_out.error(plain.estimate.values),
        "with_m": held_out.error(learned.estimate.values, simulator),
        "promoted": bool(correction),
        "truth_without_m": held_out.error(hidden.values),
    }


def _fit(records: Sequence[ShotRecord], seed: int, *, learn: bool) -> FitOutcome:
    fitter = Fitter(TwinSimulator(table(), BALLS), FitConfig(threads=1))
    return fitter.fit(records, FitRequest(seed=seed, learn=learn))
