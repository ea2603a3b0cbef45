"""Strokes played by simulated arms, and what the truth says of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.arm.draws import BALLS, ROOT, Draw, draws
from cue_arm.envelope import Envelope
from cue_arm.executor import Patience
from cue_arm.ledger import Ledger
from cue_arm.planner import MinkBackend
from cue_arm.player import Outcome, Phase, Player, Workplace
from cue_arm.simulated import SimulatedArm
from cue_arm.situation import Interrupt, Situation
from cue_arm.stroke import stroke_axes
from cue_arm.stroke_model import StrokeModel
from cue_core.arm_codes import ArmCode
from cue_core.shots import Shot
from cue_sim.servo import ServoConfig
from cue_sim.world import SECOND, World
from cue_sim.world_config import WorldConfig

SETTLED = 10
"""Strokes after which the stroke model counts as settled."""
_CYCLE = 2_000_000  # ns
_FINE = 500_000  # ns, where the tip is about to meet the ball or has just met it
_NEAR = 0.004  # m
_ROLL = 0.5  # s: that long after its motion the arm is watched
_PATIENCE = Patience(state=1.0, accept=1.0, silence=5.0)


def world_with_arm(seed: int, arm: int) -> WorldConfig:
    """Return a hidden table beside an arm whose servo follows more or less closely, and whose joints rub."""
    rng = np.random.default_rng([seed, arm, 5])
    stiffness = float(np.exp(rng.uniform(np.log(400.0), np.log(10_000.0))))
    damping = float(2 * rng.uniform(0.7, 1.0) * math.sqrt(stiffness))
    rubs = float(np.exp(rng.uniform(np.log(0.5), np.log(2.0))))
    config = WorldConfig.load(str(ROOT / "config/worlds/hidden.yaml"), 1 + 100 * seed + arm)
    worn = replace(config.robot, friction=rubs * config.robot.friction, damping=rubs * config.robot.damping)
    return replace(config, robot=worn, servo=ServoConfig(stiffness=stiffness, damping=damping))


@dataclass
class WatchedArm(SimulatedArm):
    """A simulated arm, and what its tip truly does before it first meets the cue ball.

    Attributes:
        tip: (3,) centre of the tip's sphere [m] and (3,) velocity [m/s] at the last moment before the contact.
        strikes: times at which the tip began to touch the cue ball.
        touched: whatever else arm or cue touched.
    """

    tip: tuple[np.ndarray, np.ndarray] | None = None
    strikes: int = 0
    touched: list[str] = field(default_factory=list)

    def _run(self) -> None:
        world = self.world
        reach = world.config.table.ball_radius + world.config.robot.cue.tip_radius
        until = world.frame_time
        while world.time < until:
            position, velocity = world.tip()
            gap = float(np.linalg.norm(position - world.balls().positions[0])) - reach
            if self.strikes == 0 and gap > 0.0:
                self.tip = position, velocity
            step = _FINE if gap < _NEAR else _CYCLE
            for sample in world.run_to(min(until, (world.time // step + 1) * step)):
                self.situation.add_joints(sample.time / SECOND, sample.positions, sample.velocities)
            for event in world.take_events():
                self.strikes += event.kind == "strike"
                if event.kind == "collision":
                    self.touched.append(event.text)
        super()._run()  # counts the frame


def _outcome(place: Workplace, world: World, draw: Draw) -> tuple[Outcome, WatchedArm]:
    situation = Situation()
    arm = WatchedArm(world, situation, longest_roll=_ROLL)

    def report(_phase: Phase, _entry: object) -> None:
        return

    player = Player(situation, arm, Ledger(""), _PATIENCE, report)
    player.set_workplace(place)

    def feedback(_phase: str, _share: float) -> None:
        return

    return player.play(draw.shot, Interrupt(situation.changed), feedback), arm


def errors(
    shot: Shot, ball: np.ndarray, radius: float, reach: float, tip: tuple[np.ndarray, np.ndarray]
) -> list[float]:
    """Return relative speed error, azimuth error [rad], side and vertical offset errors [m] of a true tip motion.

    Args:
        shot: asked for.
        ball: (2,) where the cue ball lay [m].
        radius: of the ball [m].
        reach: radius of ball and tip together [m].
        tip: (3,) centre of the tip's sphere [m] just before the contact, and its (3,) velocity [m/s].
    """
    position, velocity = tip
    speed = float(np.linalg.norm(velocity))
    forward = velocity / speed
    sphere = position - np.array([*ball, radius])
    along = float(sphere @ forward)
    way = -along - math.sqrt(max(along**2 - float(sphere @ sphere) + reach**2, 0.0))
    offset = (sphere + way * forward) / reach * radius
    _, left, up = stroke_axes(math.atan2(forward[1], forward[0]), 0.0).T
    turn = math.remainder(math.atan2(forward[1], forward[0]) - shot.azimuth, 2 * math.pi)
    return [
        speed / shot.speed - 1.0,
        turn,
        float(offset @ left) - radius * shot.side_offset,
        float(offset @ up) - radius * shot.vertical_offset,
    ]


def play(seed: int, arm: int, strokes: int) -> dict[str, Any]:
    """Play shots one after the other with one arm, while its stroke model learns; balls are laid anew for each."""
    config = world_with_arm(seed, arm)
    table = config.table
    robot = config.robot
    place = Workplace(MinkBackend(robot, table), table, Envelope(robot, table), StrokeModel(table.ball_radius))
    reach = table.ball_radius + robot.cue.tip_radius
    rows: list[list[float]] = []
    doubles = drawn = 0
    touched: list[str] = []
    failed: list[str] = []
    ball_speeds = []
    for draw in draws(table, seed, 50 + arm):
        drawn += 1
        positions = np.array([draw.places[i] for i in BALLS])
        world = World(replace(config, ball_ids=BALLS, positions=positions))
        outcome, watched = _outcome(place, world, draw)
        if outcome.code in (ArmCode.UNREACHABLE, ArmCode.COLLISION):
            continue
        if outcome.code != ArmCode.NONE or outcome.text:
            failed.append(f"{draw.shot.shot_id}: {outcome.code.name}: {outcome.text}")
        touched += watched.touched
        doubles += max(watched.strikes - 1, 0)
        if watched.strikes and watched.tip is not None:
            rows.append(errors(draw.shot, draw.places[0], table.ball_radius, reach, watched.tip))
            ball_speeds.append(draw.shot.speed)
        if len(rows) + len(failed) >= strokes:
            break
    return {
        "stiffness": config.servo.stiffness,
        "friction": robot.friction,
        "drawn": drawn,
        "rows": rows,
        "speeds": ball_speeds,
        "double_hits": doubles,
        "touched": touched,
        "failed": failed,
    }
