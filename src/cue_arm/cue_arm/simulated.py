"""The simulated world in this process: an arm that plays trajectories, and a camera that sees the balls."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cue_arm.situation import Situation
from cue_arm.trajectory import JointTrajectory
from cue_core.balls import BallState, Visibility
from cue_sim.trajectory import GoalError, Tolerances, TrajectoryCode, check_goal, check_motion
from cue_sim.world import SECOND, World


@dataclass
class SimulatedRun:
    """One trajectory that the world has played; see ``cue_arm.player.Run``."""

    accepted: bool | None = True
    ended: bool = True
    failure: str = ""
    code: int = 0
    lost: bool = False

    def cancel(self) -> None:
        """Come too late: a trajectory is played in no time."""

    def probe(self) -> None:
        """Know the goal."""


@dataclass
class SimulatedArm:
    """A world whose arm and camera speak to a situation; see ``cue_arm.player.Controller``.

    Attributes:
        world: not used by anybody else.
        situation: gets joint and ball states.
        noise: standard deviation of each seen coordinate of a ball, drawn once per place [m].
        rng: draws it.
        tolerances: of the arm's controller.
        longest_roll: after a trajectory; balls that roll on are not awaited longer [s].
    """

    world: World
    situation: Situation
    noise: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    tolerances: Tolerances | None = None
    longest_roll: float = 30.0

    def __post_init__(self) -> None:
        """Look once."""
        self._tell_joints()
        self.look()

    def available(self) -> bool:
        """Be there."""
        return True

    def send(self, trajectory: JointTrajectory) -> SimulatedRun:
        """Play a trajectory to its end, until the balls rest, and look."""
        world = self.world
        robot = world.config.robot
        position, velocity, _ = world.follower.set_point(world.time / SECOND)
        try:
            goal = check_goal(
                robot,
                robot.joint_names,
                trajectory.times,
                trajectory.positions,
                trajectory.velocities,
                trajectory.accelerations,
            )
            whole = check_motion(robot, goal, position, velocity)
        except GoalError as error:
            return SimulatedRun(accepted=False, failure=str(error), code=int(error.code))
        tolerances = self.tolerances or Tolerances.default(len(robot.joint_names))
        world.follower.start(whole, tolerances, world.time / SECOND)
        while world.follower.busy(world.time / SECOND):
            self._run()
        latest = world.time + round(self.longest_roll * SECOND)
        while world.moving and world.time < latest:
            self._run()
        self.look()
        code, text = world.follower.outcome or (TrajectoryCode.SUCCESSFUL, "")
        failed = code is not TrajectoryCode.SUCCESSFUL
        return SimulatedRun(failure=text or code.name if failed else "", code=int(code))

    def look(self) -> None:
        """See where the balls are."""
        truth, balls = self.world.balls(), []
        for i, ball_id in enumerate(self.world.config.ball_ids):
            seen = truth.positions[i, :2] + self.noise * self.rng.standard_normal(2)
            visibility = Visibility.POCKETED if truth.pocketed[i] else Visibility.VISIBLE
            balls.append(BallState(ball_id, seen, visibility=visibility))
        self.situation.add_balls(tuple(balls))

    def _run(self) -> None:
        for sample in self.world.next_frame():
            self.situation.add_joints(sample.time / SECOND, sample.positions, sample.velocities)

    def _tell_joints(self) -> None:
        sample = self.world.joints()
        self.situation.add_joints(sample.time / SECOND, sample.positions, sample.velocities)
