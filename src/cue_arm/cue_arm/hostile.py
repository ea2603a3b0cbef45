"""Trajectories that nobody should send, and an independent look at what a driver would do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np

from cue_arm.clearance import Clearance
from cue_arm.envelope import EnvelopeSettings
from cue_arm.trajectory import JointTrajectory
from cue_core.table import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model
from cue_sim.trajectory import JointTrajectory as DriverTrajectory

_ODD: tuple[Any, ...] = (
    None,
    "ninety",
    [],
    {},
    3.0,
    [[1.0], [1.0, 2.0]],
    np.array(["a"]),
    np.array([True]),
    object(),
    b"\0",
    1 + 2j,
)
_FIELDS = ("times", "positions", "velocities", "accelerations")
_NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e30, 1e-320, 2.0**63, -1e3, 10.0, -7.0)


@dataclass(frozen=True)
class Hostile:
    """Makes one trajectory after the other, each in another way wrong; some are right.

    Attributes:
        robot: whose joints they speak of.
        honest: trajectories to spoil, at least one.
        rng: chooses.
    """

    robot: RobotConfig
    honest: Sequence[JointTrajectory]
    rng: np.random.Generator

    def __call__(self) -> Any:
        """Return the next one."""
        makers: tuple[Callable[[], Any], ...] = (
            self._odd,
            self._one_number,
            self._times,
            self._waves,
            self._jumps,
            self._stretched,
            self._turned,
            self._between_the_points,
            self._shifted,
            self._ends_early,
        )
        return makers[int(self.rng.integers(len(makers)))]()

    def _honest(self) -> JointTrajectory:
        return self.honest[int(self.rng.integers(len(self.honest)))]

    def _odd(self) -> Any:
        """Not even numbers, or not of one shape."""
        odd: Any = _ODD[int(self.rng.integers(len(_ODD)))]
        if self.rng.random() < 0.1:
            return odd
        good = self._honest()
        name = _FIELDS[int(self.rng.integers(4))]
        rows = getattr(good, name)
        cut: tuple[Any, ...] = (
            odd,
            rows[:-1],
            rows[..., None],
            rows[:0],
            rows.T,
            rows.astype(object),
            rows.astype(complex),
        )
        return replace(good, **{name: cut[int(self.rng.integers(len(cut)))]})

    def _one_number(self) -> JointTrajectory:
        good = self._honest()
        name = _FIELDS[int(self.rng.integers(4))]
        rows = getattr(good, name).copy()
        rows.flat[self.rng.integers(rows.size)] = _NUMBERS[int(self.rng.integers(len(_NUMBERS)))]
        return replace(good, **{name: rows})

    def _times(self) -> JointTrajectory:
        good = self._honest()
        times = good.times.copy()
        way = self.rng.integers(4)
        if way == 0:
            times[self.rng.integers(1, len(times))] = times[self.rng.integers(len(times))]
        elif way == 1:
            times = times[::-1].copy()
        elif way == 2:
            times = times * 10.0 ** self.rng.uniform(-6, 3)
        else:
            times = times + self.rng.normal(0.0, 0.01, len(times))
        return replace(good, times=times)

    def _waves(self) -> JointTrajectory:
        """Smooth motion anywhere within the joint limits: collisions are the question."""
        n = len(self.robot.home)
        low, high = self.robot.limits("lower"), self.robot.limits("upper")
        goal = self.rng.uniform(low, high)
        if self.rng.random() < 0.5:
            goal = self.robot.home + self.rng.normal(0.0, 0.6, n)
        duration = self.rng.uniform(0.5, 6.0)
        times = np.linspace(0.0, duration, int(self.rng.integers(2, 200)))
        x = (times / duration)[:, None]
        move = goal - self.robot.home
        return JointTrajectory(
            times,
            self.robot.home + move * (10 * x**3 - 15 * x**4 + 6 * x**5),
            move * (30 * x**2 - 60 * x**3 + 30 * x**4) / duration,
            move * (60 * x - 180 * x**2 + 120 * x**3) / duration**2,
        )

    def _jumps(self) -> JointTrajectory:
        count, n = int(self.rng.integers(2, 40)), len(self.robot.home)
        scale = 10.0 ** self.rng.uniform(-3, 2)
        rows = self.rng.normal(0.0, scale, (3, count, n))
        rows[0] += self.robot.home
        rows[1:, [0, -1]] = 0.0
        return JointTrajectory(np.cumsum(self.rng.exponential(0.2, count)) * np.r_[0, np.ones(count - 1)], *rows)

    def _stretched(self) -> JointTrajectory:
        """The right way at another pace, up to ten times too fast."""
        good, pace = self._honest(), 10.0 ** self.rng.uniform(-0.5, 1)
        return JointTrajectory(good.times / pace, good.positions, good.velocities * pace, good.accelerations * pace**2)

    def _turned(self) -> JointTrajectory:
        """One joint goes another way."""
        good, joint = self._honest(), int(self.rng.integers(len(self.robot.home)))
        factor = self.rng.normal(1.0, 0.5)
        first = good.positions[0]
        positions, velocities, accelerations = good.positions.copy(), good.velocities.copy(), good.accelerations.copy()
        positions[:, joint] = first[joint] + factor * (positions[:, joint] - first[joint])
        velocities[:, joint] *= factor
        accelerations[:, joint] *= factor
        return JointTrajectory(good.times, positions, velocities, accelerations)

    def _between_the_points(self) -> JointTrajectory:
        """Points that keep every limit while the spline between them does not."""
        good = self._honest()
        keep = np.unique(np.r_[0, self.rng.integers(0, len(good.times), 12), len(good.times) - 1])
        shake = self.rng.uniform(-1, 1, (len(keep), len(self.robot.home))) * 10.0 ** self.rng.uniform(-3, 0)
        shake[[0, -1]] = 0.0
        velocities = good.velocities[keep] + shake * self.robot.limits("velocity")
        return JointTrajectory(good.times[keep], good.positions[keep], velocities, good.accelerations[keep])

    def _shifted(self) -> JointTrajectory:
        good = self._honest()
        offset = self.rng.normal(0.0, 10.0 ** self.rng.uniform(-3, 0), len(self.robot.home))
        return replace(good, positions=good.positions + offset)

    def _ends_early(self) -> JointTrajectory:
        good = self._honest()
        end = int(self.rng.integers(2, len(good.times) + 1))
        return JointTrajectory(*(getattr(good, name)[:end] for name in good.__dataclass_fields__))


class Monitor:
    """Plays a trajectory as a driver would and says where it leaves the envelope; shares no code with it."""

    def __init__(self, robot: RobotConfig, table: TableModel, settings: EnvelopeSettings) -> None:
        """Build the scene."""
        self._robot, self._settings = robot, settings
        self._scene = Clearance(robot, table, 0.0)
        self._model = robot_model(robot, table)
        self._data = mujoco.MjData(self._model)
        self._tip = self._model.site(TIP_SITE).id

    def escapes(self, trajectory: JointTrajectory, rng: np.random.Generator, samples: int = 200) -> list[str]:
        """Return what goes wrong at that many random moments, each once; empty = nothing."""
        driver = DriverTrajectory(
            trajectory.times, trajectory.positions, trajectory.velocities, trajectory.accelerations
        )
        robot, slack = self._robot, 1.0 + 1e-5
        wrong: dict[str, None] = {}
        for time in rng.uniform(0.0, driver.duration, samples):
            q, qd, qdd = driver.sample(float(time))
            if np.any(q < robot.limits("lower") - 1e-5) or np.any(q > robot.limits("upper") + 1e-5):
                wrong["joint position"] = None
            if np.any(np.abs(qd) > slack * robot.limits("velocity")):
                wrong["joint velocity"] = None
            if np.any(np.abs(qdd) > slack * robot.limits("acceleration")):
                wrong["joint acceleration"] = None
            if self._tip_speed(q, qd) > slack * self._settings.tip_speed:
                wrong["tip speed"] = None
            pair = self._scene.touching(q)
            if pair is not None and (pair[1] == "cloth" or pair[1].endswith("rail")):
                wrong[f"{pair[0]} touches {pair[1]}"] = None
        return list(wrong)

    def _tip_speed(self, q: np.ndarray, qd: np.ndarray) -> float:
        model, data = self._model, self._data
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jacobian, None, self._tip)
        return float(np.linalg.norm(jacobian @ qd))
