"""Which effect does a table have that the usual parameters lack? Worlds with one such effect each, and plain ones."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.fit.worlds import BALLS, NOISES, SHOTS, HeldOut, World, draw_world, stream, table
from cue_core.parameters import nominal_values
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.replay import TwinSimulator
from cue_identify.selection import base_parameters

EFFECTS = {
    "tilt": "tilt",
    "nap": "nap",
    "cushions": "per_cushion",
    "patch": "cloth_field",
    "light_ball": "ball_mass",
}
"""What a world may have, and the term that stands for it."""
PLAIN = "plain"
_FIRST = 100
"""Worlds of this part begin at this index: none of them is one of another part."""


def place(effect: str, index: int) -> int:
    """Return the index among all worlds of world ``index`` with an effect."""
    return _FIRST + 10 * [*EFFECTS, PLAIN].index(effect) + index


def draw(seed: int, effect: str, index: int) -> World:
    """Return world ``index`` with an effect of a size that tables have, its usual parameters 30 to 60 % off."""
    where = place(effect, index)
    world = draw_world(seed, where, base_parameters())
    rng = stream(seed, where, "effect")
    turn = rng.uniform(-math.pi, math.pi)
    if effect == "tilt":
        size = rng.uniform(2e-3, 4e-3)
        return world.changed({"tilt_x": size * math.cos(turn), "tilt_y": size * math.sin(turn)})
    if effect == "nap":
        size = rng.uniform(0.2, 0.35)
        return world.changed({"nap_x2": size * math.cos(turn), "nap_y2": size * math.sin(turn)})
    if effect == "cushions":
        offsets = rng.normal(0.0, 1.0, 6)
        offsets *= 0.05 / np.std(offsets)
        offsets -= offsets.mean()
        return replace(world, settings={"extras": {"cushion_offset": tuple(map(float, offsets))}})
    if effect == "patch":
        half = 0.3 * np.array([table().length, table().width])
        x, y = rng.uniform(-half, half)
        patch = {
            "patch_x": x,
            "patch_y": y,
            "patch_radius": rng.uniform(0.13, 0.17),
            "patch_edge": 0.02,
            "patch_more": rng.uniform(0.6, 1.0),
        }
        return replace(world, settings={"extras": {"cloth_law": "patched", "cloth_parameters": patch}})
    if effect == "light_ball":
        ball = int(rng.choice(BALLS[1:]))
        return replace(world, settings={"masses": {ball: table().ball_mass * rng.uniform(0.85, 0.92)}})
    return world


def select(seed: int, effect: str, index: int) -> dict[str, Any]:
    """Fit a world of an effect with terms chosen by evidence; return which were."""
    world = draw(seed, effect, index)
    records = world.shots(stream(seed, place(effect, index), "shots"), SHOTS, NOISES["recovery"])
    held_out = HeldOut(world, stream(seed, place(effect, index), "held out"))
    fitter = Fitter(TwinSimulator(table(), BALLS), FitConfig(threads=1))
    outcome = fitter.fit(records, FitRequest(seed=seed, terms=("auto",)))
    return {
        "effect": effect,
        "right": EFFECTS.get(effect, ""),
        "chosen": list(outcome.terms),
        "steps": [{"term": s.term, "action": s.action, "words": s.words} for s in outcome.steps],
        "rest_m": held_out.error(outcome.estimate.values),
        "unfitted_m": held_out.error(nominal_values()),
        "simulations": outcome.evaluations,
    }


def is_hit(result: dict[str, Any]) -> bool:
    """Tell whether the right term was chosen; on a plain world, whether none was."""
    return result["right"] in result["chosen"] if result["right"] else not result["chosen"]
