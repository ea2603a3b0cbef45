"""Fakes of what the arm talks to, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cue_arm.situation import Situation
from cue_arm.trajectory import JointTrajectory

JOINT_STATE_PERIOD = 0.008
"""[s] of simulated time, a UR5e's."""


def sample(trajectory: JointTrajectory, times: np.ndarray, pace: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities (m, n) of a trajectory played at ``pace`` at times (m,) [s] (cubic splines)."""
    t, q, v = trajectory.times, trajectory.positions, trajectory.velocities
    at = np.clip(times * pace, 0.0, t[-1])
    i = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    span = (t[i + 1] - t[i])[:, None]
    x = (at - t[i])[:, None] / span
    a, b, da, db = q[i], q[i + 1], span * v[i], span * v[i + 1]
    square, cube = 3 * (b - a) - 2 * da - db, 2 * (a - b) + da + db
    return a + x * (da + x * (square + x * cube)), pace * (da + x * (2 * square + 3 * x * cube)) / span


@dataclass
class FakeRun:
    """A trajectory that the fake controller plays at once, or as its behaviour says; see ``cue_arm.player.Run``."""

    controller: FakeController
    trajectory: JointTrajectory
    accepted: bool | None = None
    ended: bool = False
    failure: str = ""
    code: int = 0
    lost: bool = False
    canceled: bool = False

    def cancel(self) -> None:
        """Stop, if the controller still answers."""
        self.canceled = True
        if self.controller.answers_cancel and not self.ended:
            self.failure, self.code, self.ended = "canceled", 1, True

    def probe(self) -> None:
        """Confess that the goal is not known any more, if so."""
        self.lost = self.controller.forgets


@dataclass
class FakeController:
    """Plays trajectories into a situation in no time; see ``cue_arm.player.Controller``.

    Attributes:
        situation: gets the joint states.
        accepts: None = never answers.
        plays_until: share of the trajectory that is played.
        failure: said at the end; empty = success.
        code: said with it, of ``control_msgs/FollowJointTrajectory``; 1 = cancelled.
        ends: False: never says how it ended.
        forgets: does not know the goal when probed.
        pace: speed scaling, 1 = as asked.
    """

    situation: Situation
    accepts: bool | None = True
    plays_until: float = 1.0
    failure: str = ""
    code: int = 0
    ends: bool = True
    answers_cancel: bool = True
    forgets: bool = False
    pace: float = 1.0
    is_there: bool = True
    runs: list[FakeRun] = field(default_factory=list)

    def available(self) -> bool:
        """Tell whether it can be reached."""
        return self.is_there

    def send(self, trajectory: JointTrajectory) -> FakeRun:
        """Play."""
        run = FakeRun(self, trajectory, accepted=self.accepts)
        self.runs.append(run)
        if self.accepts is not True:
            run.failure = self.failure
            return run
        newest = self.situation.newest_joints()
        begin = 0.0 if newest is None else newest[0]
        stop = trajectory.duration / self.pace * self.plays_until
        times = np.arange(1, int(stop / JOINT_STATE_PERIOD) + 2) * JOINT_STATE_PERIOD
        positions, velocities = sample(trajectory, np.minimum(times, stop), self.pace)
        for time, q, v in zip(times, positions, velocities, strict=True):
            self.situation.add_joints(begin + time, q, v)
        self.situation.add_joints(begin + times[-1] + JOINT_STATE_PERIOD, positions[-1], np.zeros_like(positions[-1]))
        run.failure, run.code, run.ended = self.failure, self.code, self.ends
        return run
