"""Plans whole strokes: from where the arm rests, behind the ball, through it, and home."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from cue_arm.errors import ArmError, CollisionError, UnreachableError
from cue_arm.free_motion import move
from cue_arm.reach import AccelerationError, AftermathError, Candidate, Reach
from cue_arm.search import LEAST_SHARE, Search
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import TipPath, check_aftermath
from cue_arm.tracking import PathTracker
from cue_arm.trajectory import JointTrajectory, join
from cue_arm.way_round import way_round
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.robot import RobotConfig

_AT_HOME = 0.02  # rad
_LIMITS = ("speed", "acceleration", "torque", "jerk")

Progress = Callable[[float], None]


@dataclass(frozen=True)
class StrokeRequest:
    """What is to be played, and from where.

    Attributes:
        shot: asked for.
        cue_ball: (2,) [m].
        balls: (2,) positions by id of all other balls in play [m].
        start: (n,) where the joints rest now [rad].
    """

    shot: Shot
    cue_ball: np.ndarray
    balls: Mapping[int, np.ndarray]
    start: np.ndarray


@dataclass(frozen=True)
class StrokePlan:
    """A stroke that keeps every limit and touches nothing but the cue ball.

    Attributes:
        trajectory: of the joints.
        path: of the tip over the table.
        stroke_start: when the tip begins to move at the ball [s after the start].
        contact_time: when it meets the ball [s after the start].
        rise_start: when it stands still past the ball [s after the start].
    """

    trajectory: JointTrajectory
    path: TipPath
    stroke_start: float
    contact_time: float
    rise_start: float


class ArmBackend(Protocol):
    """Plans joint motion. All of it is checked: limits and collisions."""

    reach: Reach

    def plan(self, request: StrokeRequest, progress: Progress = ...) -> StrokePlan:
        """Return a stroke, or raise ArmError saying why there is none; what ``progress`` raises ends the planning."""
        ...

    def plan_path(
        self,
        path: TipPath,
        start: np.ndarray,
        target: int,
        ball: np.ndarray,
        others: Mapping[int, np.ndarray],
        progress: Progress = ...,
    ) -> StrokePlan:
        """Return the motion along a path of the tip that meets one ball, or raise ArmError saying why there is none."""
        ...

    def plan_home(self, start: np.ndarray, balls: Mapping[int, np.ndarray]) -> JointTrajectory | None:
        """Return the way home from (n,) [rad] past all balls, None when the arm is there, or raise ArmError."""
        ...

    def touches(self, configuration: np.ndarray) -> bool:
        """Tell whether the arm touches the table in a configuration (n,) [rad], as far as this planner knows."""
        ...


@dataclass(frozen=True)
class _Scene:
    """The ball that the tip is to meet, and those that nothing may touch: (2,) positions by id [m]."""

    target: int
    ball: np.ndarray
    others: Mapping[int, np.ndarray]

    @property
    def all(self) -> dict[int, np.ndarray]:
        return {**self.others, self.target: self.ball}


def _after(first: JointTrajectory, plan: StrokePlan) -> StrokePlan:
    """Return a plan that begins with another motion."""
    later = first.duration
    return replace(
        plan,
        trajectory=join([first, plan.trajectory]),
        stroke_start=plan.stroke_start + later,
        contact_time=plan.contact_time + later,
        rise_start=plan.rise_start + later,
    )


def _silent(_share: float) -> None:
    return


@dataclass
class MinkBackend:
    """The default backend: mink for the stroke, Ruckig for free motion, OMPL round obstacles, MuJoCo for collisions.

    Attributes:
        robot: from ``config/robots``.
        table: the reconstructed one.
        settings: of the stroke.
        search: how much is tried.
    """

    robot: RobotConfig
    table: TableModel
    settings: StrokeSettings = field(default_factory=StrokeSettings)
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        """Build models and the bank of joint solutions."""
        self.reach = Reach(self.robot, self.table, self.settings, self.search)
        self._tracker = PathTracker(self.robot, self.table)
        self._velocity, self._acceleration = self.robot.limits("velocity"), self.robot.limits("acceleration")
        self._effort = self.settings.effort * self.robot.limits("effort")

    def plan(self, request: StrokeRequest, progress: Progress = _silent) -> StrokePlan:
        """Return the stroke of the first joint solution that works; an arm that is elsewhere moves home first.

        Args:
            request: shot, balls and where the arm is.
            progress: told the share done, 0..1; what it raises ends the planning.

        Raises:
            UnreachableError, CollisionError: why the best solution fails.
        """
        progress(0.0)
        homewards = self.plan_home(request.start, {**request.balls, 0: request.cue_ball})
        if homewards is not None:
            return _after(homewards, self.plan(replace(request, start=self.robot.home), progress))
        refused: list[ArmError] = []
        for roll in self.search.rolls:
            for share in self.search.shares:
                try:
                    return self._try(request, roll, share, progress)
                except AftermathError:
                    raise
                except (UnreachableError, CollisionError) as error:
                    refused.append(error)
        raise refused[0]

    def plan_path(
        self,
        path: TipPath,
        start: np.ndarray,
        target: int,
        ball: np.ndarray,
        others: Mapping[int, np.ndarray],
        progress: Progress = _silent,
    ) -> StrokePlan:
        """Return the motion along a path of the tip that meets one ball; an arm that is elsewhere moves home first.

        Args:
            path: of the tip.
            start: (n,) where the joints rest now [rad].
            target: id of the ball that the tip meets.
            ball: (2,) where it lies [m].
            others: (2,) positions by id of all other balls in play [m].
            progress: told the share done, 0..1; what it raises ends the planning.

        Raises:
            UnreachableError, CollisionError: why the best solution fails.
        """
        progress(0.0)
        scene = _Scene(target, np.asarray(ball, float), {i: p for i, p in others.items() if i != target})
        homewards = self.plan_home(start, scene.all)
        refused: list[ArmError] = []
        for way in self.reach.ways(path, scene.others, self.search.ways):
            try:
                plan = self._play(scene, way, self.robot.home if homewards is not None else start, progress)
                return plan if homewards is None else _after(homewards, plan)
            except (UnreachableError, CollisionError) as error:
                refused.append(error)
        raise refused[0]

    def _try(self, request: StrokeRequest, roll: float, share: float, progress: Progress) -> StrokePlan:
        """Return the stroke with a turn of the cue, gentler than ``share`` of the usual if need be, or raise."""
        scene = _Scene(0, request.cue_ball, {i: p for i, p in request.balls.items() if i != 0})
        while True:
            ways = self.reach.candidates(
                request.shot, request.cue_ball, request.balls, count=self.search.ways, share=share, roll=roll
            )
            refused: list[ArmError] = []
            for way in ways:
                progress(0.2)
                try:
                    return self._play(scene, way, request.start, progress, request.shot)
                except (UnreachableError, CollisionError) as error:
                    refused.append(error)
            loads = [error.load for error in refused if isinstance(error, AccelerationError)]
            share = ways[0].path.share * 0.97 / min(loads, default=np.inf)
            if share < LEAST_SHARE:
                raise refused[0]

    def _play(
        self, scene: _Scene, way: Candidate, start: np.ndarray, progress: Progress, shot: Shot | None = None
    ) -> StrokePlan:
        """Return the whole motion of one way; a ``shot`` is one whose ball must not come back to the tip."""
        path, stroke = self._stroke(way.path, way)
        if shot is not None:
            named = [(f"ball {i}", np.asarray(p, float)) for i, p in scene.others.items()]
            check_aftermath(shot, scene.ball, named, self.table, path, self.settings)
        progress(0.6)
        clearance = self.reach.clearance
        clearance.place_balls(scene.others)
        clearance.check_motion(stroke.positions, "in the stroke")
        before_contact = stroke.positions[stroke.times < path.contact_time]
        clearance.place_balls(scene.all)
        clearance.check_motion(before_contact, "in the stroke", clearance.tip_on(scene.target))
        approach = self._free(start, stroke.positions[0], "on the way to the ball")
        progress(0.8)
        clearance.place_balls(scene.others)  # the ball is on its way
        retreat = self._free(stroke.positions[-1], self.robot.home, "on the way home")
        before = approach.duration
        progress(1.0)
        return StrokePlan(
            trajectory=join([approach, stroke, retreat]),
            path=path,
            stroke_start=before + path.stroke_start,
            contact_time=before + path.contact_time,
            rise_start=before + path.rise_start,
        )

    def _stroke(self, path: TipPath, way: Candidate) -> tuple[TipPath, JointTrajectory]:
        """Return the path, lowered and raised as slowly as need be, and the joint motion along it.

        Raises:
            UnreachableError: a joint limit in the stroke itself; AccelerationError where a gentler one may do.
        """
        for _ in range(4):
            motion = self._tracker.follow(path, way.keys[0], self.settings.period)
            loads = self._loads(motion)
            low, high = motion.times < path.stroke_start, motion.times > path.rise_start
            worst = loads[~low & ~high].max(axis=0)
            if worst.max() > 1.0:
                what, joint = np.unravel_index(int(np.argmax(worst)), worst.shape)
                name = self.robot.joint_names[joint]
                text = f"{name} would need {worst.max():.2f} times its {_LIMITS[what]} in the stroke"
                if what == 0:
                    raise UnreachableError(text)
                # At one speed, jerk goes with the square of the acceleration.
                raise AccelerationError(text, float(worst.max()) ** (0.5 if _LIMITS[what] == "jerk" else 1.0))
            lower, rise = float(loads[low].max()), float(loads[high].max())
            if max(lower, rise) <= 1.0:
                return path, motion
            path = replace(
                path,
                lower_time=path.lower_time * max(1.0, 1.05 * lower),
                rise_time=path.rise_time * max(1.0, 1.05 * rise),
            )
        raise UnreachableError("the arm cannot lower or raise the cue here")

    def _loads(self, motion: JointTrajectory) -> np.ndarray:
        """Return the share used of each limit (samples, 4 kinds as in _LIMITS, joints)."""
        jerk = np.zeros_like(motion.accelerations)
        jerk[1:] = np.diff(motion.accelerations, axis=0) / np.diff(motion.times)[:, None]
        fastest, steepest = motion.bounds()
        return np.stack(
            [
                fastest / self._velocity,
                steepest / self._acceleration,
                np.abs(self._tracker.efforts(motion)) / self._effort,
                np.abs(jerk) / self.settings.stroke_jerk,
            ],
            axis=1,
        )

    def plan_home(self, start: np.ndarray, balls: Mapping[int, np.ndarray]) -> JointTrajectory | None:
        """Return the way home from wherever the arm rests: straight up first where the tip is low.

        Args:
            start: (n,) [rad].
            balls: (2,) positions by id of all balls in play, the cue ball too [m].

        Raises:
            CollisionError: the arm touches something already, or every way does.
        """
        home = self.robot.home
        if np.abs(start - home).max() < _AT_HOME:
            return None
        clearance = self.reach.clearance
        clearance.place_balls(balls)
        near = clearance.near(start) | clearance.tip_on(0)  # where a broken-off stroke may have ended
        clearance.check([start], "where it rests now", near)
        refused: CollisionError | None = None
        raised = start
        for height in (0.0, *self.search.lifts[1:], 0.06):
            try:
                up = self._above(start, height)
                legs = [self._leg(start, up)] if height else []
                for leg in legs:
                    clearance.check_motion(leg.positions, "on the way home", near)
                raised = up
                legs.append(self._leg(up, home))
                clearance.check_motion(legs[-1].positions, "on the way home", near)
                return join(legs)
            except CollisionError as collision:
                refused = refused or collision
            except UnreachableError:
                continue
        assert refused is not None  # height 0 is always solved
        round_about = self._detour(raised, home)
        if round_about is None:
            raise refused
        return join([self._leg(start, raised), round_about]) if raised is not start else round_about

    def touches(self, configuration: np.ndarray) -> bool:
        """Tell whether the arm touches the table in a configuration (n,) [rad]."""
        self.reach.clearance.place_balls({})
        return self.reach.clearance.touching(configuration) is not None

    def _leg(self, start: np.ndarray, goal: np.ndarray) -> JointTrajectory:
        s = self.settings
        velocity, acceleration = s.free_velocity * self._velocity, s.free_acceleration * self._acceleration
        for _ in range(6):
            leg = move(start, goal, velocity, acceleration, s.free_jerk, s.period)
            excess = float((np.abs(self._tracker.efforts(leg)).max(axis=0) / self._effort).max())
            if excess <= 1.0:
                return leg
            acceleration = acceleration / max(excess, 1.2)
        raise UnreachableError("the motors cannot hold the arm on the way")

    def _free(self, start: np.ndarray, goal: np.ndarray, when: str) -> JointTrajectory:
        """Return a motion clear of everything, by way of a place above the lower end where the direct way is not."""
        refused: CollisionError | None = None
        low_start = self._tip_height(start) < self._tip_height(goal)
        for lift in self.search.lifts:
            try:
                via = self._above(start if low_start else goal, lift)
            except UnreachableError:
                continue
            legs = [self._leg(start, goal)] if lift == 0 else [self._leg(start, via), self._leg(via, goal)]
            try:
                for leg in legs:
                    self.reach.clearance.check_motion(leg.positions, when)
            except CollisionError as collision:
                refused = refused or collision
                continue
            return join(legs)
        assert refused is not None  # no lift is always possible
        round_about = self._detour(start, goal)
        if round_about is None:
            raise refused
        return round_about

    def _detour(self, start: np.ndarray, goal: np.ndarray) -> JointTrajectory | None:
        """Return a motion round what is in the way, at rest at each corner; None where the search finds none."""
        clearance, chain = self.reach.clearance, self.reach.chain
        corners = way_round(
            start, goal, chain.lower, chain.upper, lambda q: clearance.touching(q) is None, self.search.checks
        )
        if corners is None:
            return None
        try:
            legs = [self._leg(a, b) for a, b in pairwise(corners)]
            for leg in legs:
                clearance.check_motion(leg.positions)
        except (CollisionError, UnreachableError):
            return None
        return join(legs)

    def _tip_height(self, q: np.ndarray) -> float:
        return float(self.reach.chain.forward(q)[0][0, 2])

    def _above(self, q: np.ndarray, height: float) -> np.ndarray:
        """Return the configuration with the tip straight above that of (n,) [rad] by ``height`` [m], turned alike."""
        if height == 0:
            return q
        position, rotation = self.reach.chain.forward(q)
        raised, error = self.reach.chain.solve(
            position + np.array([0.0, 0.0, height]), rotation, q[None], iterations=15
        )
        inside = np.all((raised[0] >= self.reach.chain.lower) & (raised[0] <= self.reach.chain.upper))
        if error[0] > 1e-5 or not inside or np.abs(raised[0] - q).max() > 1.5:
            raise UnreachableError(f"the tip cannot be raised by {height:.2f} m")
        return raised[0]
