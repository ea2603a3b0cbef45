"""Balls pushed to places 10 to 30 cm away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.arm.draws import BALLS
from benchmarks.arm.strokes import world_with_arm
from cue_arm.envelope import Envelope
from cue_arm.executor import Patience
from cue_arm.ledger import Ledger
from cue_arm.planner import MinkBackend
from cue_arm.player import Phase, Player, Push, Workplace
from cue_arm.simulated import SimulatedArm
from cue_arm.situation import Interrupt, Situation
from cue_arm.stroke_model import StrokeModel
from cue_sim.world import World
from cue_sim.world_config import lay_out

NOISE = 0.3e-3
"""Of a ball's place as the camera sees it [m], each coordinate."""
_WAY = (0.10, 0.30)  # m


def play(seed: int, block: int, pushes: int) -> dict[str, Any]:
    """Push one ball of six, laid anew for each; goals that the arm refuses before it moves are counted apart."""
    config = world_with_arm(seed, block)
    table, robot = config.table, config.robot
    place = Workplace(MinkBackend(robot, table), table, Envelope(robot, table), StrokeModel(table.ball_radius))
    ends: list[float] = []
    refused: list[str] = []
    strokes: list[int] = []
    said: list[str] = []
    index = 0
    while len(ends) < pushes:
        rng = np.random.default_rng([seed, block, index, 9])
        index += 1
        positions = lay_out(table, len(BALLS), rng, 0.02, spread=True)
        which = int(rng.integers(len(BALLS)))
        goal = _goal(positions, which, table.ball_radius, np.array([table.length, table.width]) / 2, rng)
        if goal is None:
            continue
        world = World(replace(config, ball_ids=BALLS, positions=positions))
        situation = Situation()
        arm = SimulatedArm(world, situation, NOISE, rng)

        def report(_phase: Phase, _entry: object) -> None:
            return

        player = Player(situation, arm, Ledger(""), Patience(state=1.0, accept=1.0, silence=5.0), report)
        player.set_workplace(place)

        def told(_phase: str, _distance: float, _strokes: int) -> None:
            return

        outcome = player.push(Push(f"push{index}", BALLS[which], goal), Interrupt(situation.changed), told)
        if not outcome.moved:
            refused.append(outcome.text)
            continue
        ends.append(float(np.linalg.norm(world.balls().positions[which, :2] - goal)))
        strokes.append(outcome.strokes)
        if outcome.text:
            said.append(f"push{index}: {outcome.text}")
    return {"ends": ends, "strokes": strokes, "refused": refused, "said": said}


def _goal(
    positions: np.ndarray, which: int, radius: float, half: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """Return a goal (2,) [m] on the cloth with a free way to it, or None."""
    for _ in range(50):
        length, azimuth = rng.uniform(*_WAY), rng.uniform(-np.pi, np.pi)
        way = length * np.array([np.cos(azimuth), np.sin(azimuth)])
        goal = positions[which] + way
        if np.any(np.abs(goal) > half - 2 * radius):
            continue
        offsets = np.delete(positions, which, axis=0) - positions[which]
        share = np.clip(offsets @ way / length**2, 0.0, 1.0)
        if np.linalg.norm(offsets - share[:, None] * way, axis=1).min() > 2 * radius + 0.01:
            return np.asarray(goal)
    return None
