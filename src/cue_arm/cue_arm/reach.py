"""Which strokes the arm can play: a fast test that uses the same joint solutions, limits and scene as the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cue_arm.chain import SerialChain
from cue_arm.clearance import Clearance
from cue_arm.errors import ArmError, CollisionError, UnreachableError
from cue_arm.search import LEAST_SHARE, Search
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import TipPath, check_aftermath, tip_rotation
from cue_core.arm_codes import ArmCode
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.robot import TIP_SITE, RobotConfig, robot_model

SOLVED = 1e-5  # m + rad
_BANK_ROUNDS = 4
_BANK_FULL = 0.3  # of the trials of one round
_BANK_ROOM = 0.05  # m
# Elevation [rad] and height of the contact [ball radii]. Low on the ball first: a ball that is struck at 0.3 or higher
# leaves hardly faster than the tip, which may then touch it again.
_RAISED = ((0.2, 0.2), (0.35, 0.2), (0.5, 0.2), (0.7, 0.1), (0.7, 0.2), (0.75, 0.3))
LARGEST_STEP = 1.0  # rad between neighbouring key poses of one stroke: more is a jump to another branch


class AccelerationError(UnreachableError):
    """The tip's acceleration asks too much of a joint; a gentler, longer stroke may do."""

    def __init__(self, text: str, load: float) -> None:
        """Keep how many times too much."""
        self.load = load
        super().__init__(text)


class AftermathError(CollisionError):
    """The struck ball would come back to the tip: no other joint solution helps."""


@dataclass(frozen=True)
class Candidate:
    """One way of the joints through a stroke.

    Attributes:
        path: of the tip.
        keys: (5, n) configurations at the key positions of the path [rad].
        distance: largest joint travel from home [rad].
    """

    path: TipPath
    keys: np.ndarray
    distance: float


class Reach:
    """Answers whether a stroke can be played on one table, and how the joints would pass through it."""

    def __init__(
        self,
        robot: RobotConfig,
        table: TableModel,
        settings: StrokeSettings | None = None,
        search: Search | None = None,
    ) -> None:
        """Solve some thousand tip poses over the table; they start every later search (under a second)."""
        self.robot = robot
        self.table = table
        self.settings = settings or StrokeSettings()
        self.search = search or Search()
        self.chain = SerialChain.from_model(robot_model(robot, table), robot.joint_names, TIP_SITE)
        self.clearance = Clearance(robot, table, self.settings.clearance)
        self.velocity = self.settings.stroke_velocity * robot.limits("velocity")
        self.acceleration = self.settings.stroke_acceleration * robot.limits("acceleration")
        self._bank_poses, self._bank = self._fill_bank()
        self._verify_scene()

    def reachable(
        self,
        cue_ball: np.ndarray,
        azimuth: float,
        speed: float = 0.5,
        balls: Mapping[int, np.ndarray] | None = None,
        elevation: float = 0.0,
    ) -> tuple[bool, str]:
        """Tell whether a stroke at the cue ball (2,) [m] can be played, and if not, why.

        Args:
            cue_ball: (2,) position [m].
            azimuth: of the stroke [rad].
            speed: of the tip at contact [m/s].
            balls: (2,) positions by id of the other balls [m]; None = none is in the way.
            elevation: of the cue [rad].
        """
        try:
            self.best(Shot("reach", speed, azimuth, elevation), np.asarray(cue_ball, float), balls or {})
        except ArmError as error:
            return False, str(error)
        return True, ""

    def raised(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray] | None = None) -> Shot:
        """Return the shot as the arm can play it: level if it can, else with the cue raised over the rail behind.

        A raised cue needs a contact above the centre, so the vertical offset changes with the elevation.

        Args:
            shot: wanted.
            cue_ball: (2,) position [m].
            balls: (2,) positions by id of the other balls [m].

        Raises:
            UnreachableError, CollisionError: why not even a raised cue plays it.
        """
        where = np.asarray(cue_ball, float)
        try:
            self.best(shot, where, balls or {})
            return shot
        except CollisionError as collision:
            if not collision.pair[1].endswith("rail"):
                raise
            refused: ArmError = collision
        for elevation, vertical in _RAISED:
            if shot.elevation < elevation <= self.settings.largest_elevation:
                try:
                    other = replace(shot, elevation=elevation, vertical_offset=vertical)
                    self.best(other, where, balls or {})
                    return other
                except ArmError as error:
                    refused = error
        raise refused

    def best(self, shot: Shot, cue_ball: np.ndarray, balls: Mapping[int, np.ndarray]) -> Candidate:
        """Return the first joint way through a stroke at the cue ball (2,) [m], past balls (2,) by id [m].

        Raises:
            UnreachableError, CollisionError: there is none; why the usual turn of the cue fails.
        """
        refused: ArmError | None = None
        for roll in self.search.rolls:
            try:
                return self.candidates(shot, cue_ball, balls, count=1, roll=roll)[0]
            except AftermathError:
                raise
            except (UnreachableError, CollisionError) as error:
                refused = refused or error
        assert refused is not None  # there is at least one roll
        raise refused

    def candidates(
        self,
        shot: Shot,
        cue_ball: np.ndarray,
        balls: Mapping[int, np.ndarray],
        count: int = 3,
        share: float = 1.0,
        roll: float = 0.0,
    ) -> list[Candidate]:
        """Return up to ``count`` joint ways through a stroke, nearest to home first.

        Args:
            shot: asked for.
            cue_ball: (2,) [m].
            balls: (2,) positions by id of the other balls [m].
            count: how many ways are wanted.
            share: of the settings' tip acceleration to begin with; a gentler stroke is tried where that is too much.
            roll: turn of the cue about its axis [rad].

        Raises:
            UnreachableError: no joint solution; names the limit.
            CollisionError: every solution touches something, or the tip would meet the cue ball twice.
        """
        tip_radius = self.robot.cue.tip_radius
        named = [(f"ball {i}", np.asarray(p, float)) for i, p in balls.items() if i != 0]
        while True:
            path = TipPath.of(shot, cue_ball, self.table, tip_radius, self.settings, share, roll)
            try:
                check_aftermath(shot, cue_ball, named, self.table, path, self.settings)
            except CollisionError as error:
                if share < 1.0:  # a stroke of another roll may be less gentle
                    raise
                raise AftermathError(*error.pair, error.when) from None
            try:
                return self.ways(path, {i: p for i, p in balls.items() if i != 0}, count)
            except AccelerationError as error:
                share *= 0.95 / error.load
                if share < LEAST_SHARE:
                    raise

    def ways(self, path: TipPath, balls: Mapping[int, np.ndarray], count: int) -> list[Candidate]:
        """Return up to ``count`` joint ways along a path of the tip, nearest to home first.

        Args:
            path: of the tip.
            balls: (2,) positions by id of all balls that nothing may touch [m].
            count: how many ways are wanted.

        Raises:
            UnreachableError: no joint solution; names the limit.
            CollisionError: every solution touches something.
        """
        keys, error = self._solve_keys(path)
        ways = self._within_limits(path, keys, error)
        self.clearance.place_balls(balls)
        found: list[Candidate] = []
        refused: CollisionError | None = None
        for way in ways:
            try:
                self.clearance.check(way.keys, "in the stroke")
            except CollisionError as collision:
                refused = refused or collision
                continue
            found.append(way)
            if len(found) == count:
                break
        if not found:
            assert refused is not None  # _within_limits raises when there is no way
            raise refused
        return found

    def _solve_keys(self, path: TipPath) -> tuple[np.ndarray, np.ndarray]:
        """Return configurations (m, 5, n) [rad] at the path's key positions and the worst error (m,) of each row."""
        positions = path.key_positions()
        q = self.seeds(path.contact, path.rotation)
        goal, turn = np.broadcast_to(positions[2], (len(q), 3)), np.broadcast_to(path.rotation, (len(q), 3, 3))
        contact, error = self.chain.solve(goal, turn, q, iterations=9)
        keep = distinct(contact, error)
        contact, error = contact[keep], error[keep]
        # The other key poses start from the contact's solution, so that all belong to one branch.
        others = [0, 1, 3, 4]
        start = np.repeat(contact, len(others), axis=0)
        goal, turn = np.tile(positions[others], (len(contact), 1)), np.broadcast_to(path.rotation, (len(start), 3, 3))
        rest, miss = self.chain.solve(goal, turn, start, iterations=7)
        keys = np.empty((len(contact), len(positions), contact.shape[1]))
        keys[:, 2], keys[:, others] = contact, rest.reshape(len(contact), len(others), -1)
        return keys, np.maximum(error, miss.reshape(len(contact), len(others)).max(axis=1))

    def seeds(self, position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """Return (m, n) configurations [rad] whose tip poses lie near one, (3,) [m] and (3, 3) table_from_tip."""
        wanted = _pose_key(position, rotation)
        count = min(self.search.seeds, len(self._bank) - 1)
        nearest = np.argpartition(np.sum((self._bank_poses - wanted) ** 2, axis=1), count)[:count]
        return self._bank[nearest]

    def _within_limits(self, path: TipPath, keys: np.ndarray, error: np.ndarray) -> list[Candidate]:
        """Return the rows that keep every joint limit, nearest to home first.

        Raises:
            UnreachableError: none does; names what the best one lacks.
        """
        chain, home = self.chain, self.robot.home
        solved = (error < SOLVED) & (np.abs(np.diff(keys, axis=1)).max(axis=(1, 2)) < LARGEST_STEP)
        if not np.any(solved):
            raise UnreachableError(self._why_unsolved(path))
        keys = keys[solved]
        keys = keys + turns_towards(keys[:, 2], home, chain.lower, chain.upper)[:, None]
        over = np.maximum(chain.lower - keys, keys - chain.upper).max(axis=1)
        inside = np.all(over <= 0.0, axis=1)
        if not np.any(inside):
            joint = int(np.argmax(over[np.argmin(over.max(axis=1))]))
            raise UnreachableError(
                f"{chain.names[joint]} would leave its limits {chain.lower[joint]:g} to {chain.upper[joint]:g} rad"
            )
        keys = keys[inside]
        rates, changes = self._stroke_rates(path, keys)
        load = rates.max(axis=1) / self.velocity
        if not np.any(load.max(axis=1) <= 1.0):
            best, joint = _best(load)
            raise UnreachableError(
                f"{chain.names[joint]} would need {load[best, joint] * self.velocity[joint]:.2f} rad/s "
                f"at {path.profile.speed:.2f} m/s, has {self.velocity[joint]:.2f}"
            )
        keys, changes = keys[load.max(axis=1) <= 1.0], changes[load.max(axis=1) <= 1.0]
        load = changes.max(axis=1) / self.acceleration
        if not np.any(load.max(axis=1) <= 1.0):
            best, joint = _best(load)
            raise AccelerationError(
                f"{chain.names[joint]} cannot bring the tip to {path.profile.speed:.2f} m/s and back to rest",
                load[best, joint],
            )
        keys = keys[load.max(axis=1) <= 1.0]
        distance = np.abs(keys[:, 0] - home).max(axis=1)
        return [Candidate(path, keys[i], float(distance[i])) for i in np.argsort(distance, kind="stable")]

    def _stroke_rates(self, path: TipPath, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sizes of joint speed [rad/s] and acceleration [rad/s^2] (m, 7, n) at critical times of the stroke.

        The joints' travel per tip travel is known at three key poses; a parabola goes through it.
        """
        profile, (m, _, n) = path.profile, keys.shape
        inner = keys[:, 1:4].reshape(-1, n)
        twist = np.concatenate([path.forward, np.zeros(3)])[:, None]
        jacobian = self.chain.jacobian(inner)
        across = jacobian.transpose(0, 2, 1)
        square = jacobian @ across + 1e-9 * np.eye(6)
        per_travel = (across @ np.linalg.solve(square, np.broadcast_to(twist, (len(inner), 6, 1))))[..., 0].reshape(
            m, 3, n
        )
        brake = profile.duration - profile.ramp_down
        shares = np.array([0.2, 0.5, 0.8])
        times = np.concatenate([shares * profile.ramp_up, [profile.contact_time], brake + shares * profile.ramp_down])
        travel, speed, acceleration = (column[:, None] for column in profile.at(times))
        fit = np.linalg.inv(np.vander([-profile.run_up, 0.0, profile.run_out], increasing=True)) @ per_travel
        rate = fit[:, 0, None] + fit[:, 1, None] * travel + fit[:, 2, None] * travel**2
        slope = fit[:, 1, None] + 2 * fit[:, 2, None] * travel
        return np.abs(rate * speed), np.abs(rate * acceleration + slope * speed**2)

    def _why_unsolved(self, path: TipPath) -> str:
        base = self.robot.table_from_base(self.table)[:3, 3]
        distance = float(np.linalg.norm(path.contact[:2] - base[:2]))
        return f"out of reach or singular: no joint solution along the stroke, {distance:.2f} m from the base axis"

    def _verify_scene(self) -> None:
        """See that the cue is attached and the table there: a tip that is led into the cloth must be found to touch it.

        Raises:
            ArmError: it is not, so no check of collisions could be believed.
        """
        self.clearance.place_balls({})
        q = self._bank[:20]
        tip, turn = self.chain.forward(q)
        below, error = self.chain.solve(tip - np.array([0.0, 0.0, 0.02 + self.table.ball_radius]), turn, q)
        for row in below[error < SOLVED]:
            touched = self.clearance.all_touching(row)
            if not any(first.startswith("cue") and second == "cloth" for first, second in touched):
                raise ArmError(ArmCode.COLLISION, "the scene is wrong: a cue led into the cloth touches nothing there")

    def _fill_bank(self) -> tuple[np.ndarray, np.ndarray]:
        """Return pose keys (m, 4) and collision-free configurations (m, n) [rad] of random strokes over the table.

        Where few of them are within reach, more are drawn where those were.
        """
        rng, table, trials = np.random.default_rng(7), self.table, self.search.bank
        high = np.array([table.length, table.width]) / 2 - table.ball_radius
        low, poses, solved = -high, np.empty((0, 4)), np.empty((0, len(self.robot.home)))
        self.clearance.place_balls({})
        for _ in range(_BANK_ROUNDS):
            more, q = self._random_strokes(rng, low, high, trials)
            poses, solved = np.concatenate([poses, more]), np.concatenate([solved, q])
            if not len(poses) or len(poses) >= _BANK_FULL * trials:
                break
            low = np.maximum(low, poses[:, :2].min(axis=0) - _BANK_ROOM)
            high = np.minimum(high, poses[:, :2].max(axis=0) + _BANK_ROOM)
        if not len(poses):
            base = self.robot.table_from_base(table)[:3, 3]
            raise UnreachableError(
                f"{self.robot.name} reaches no ball on the table from where its file puts it, "
                f"({base[0]:.2f}, {base[1]:.2f}, {base[2]:.2f}) m"
            )
        return poses, solved

    def _random_strokes(
        self, rng: np.random.Generator, low: np.ndarray, high: np.ndarray, trials: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what :meth:`_fill_bank` does, for cue balls between two corners (2,) [m]."""
        chain, home = self.chain, self.robot.home
        position = np.column_stack([rng.uniform(low, high, (trials, 2)), np.full(trials, self.table.ball_radius)])
        rotation = np.stack([tip_rotation(a, 0.0) for a in rng.uniform(-np.pi, np.pi, trials)])
        start = rng.uniform(np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi), (trials, len(home)))
        q, error = chain.solve(position, rotation, start, iterations=20)
        q = q + turns_towards(q, home, chain.lower, chain.upper)
        good = (error < SOLVED) & np.all((q >= chain.lower) & (q <= chain.upper), axis=1)
        rows = [i for i in np.flatnonzero(good) if not self.clearance.arm_touches(q[i])]
        poses = [_pose_key(position[i], rotation[i]) for i in rows]
        return np.array(poses).reshape(-1, 4), q[rows]


def _best(load: np.ndarray) -> tuple[int, int]:
    """Return the row whose worst column is least, and that column."""
    row = int(np.argmin(load.max(axis=1)))
    return row, int(np.argmax(load[row]))


def _pose_key(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Return (4,) coordinates in which neighbours have similar joint solutions: x, y [m], weighted direction."""
    return np.concatenate([position[:2], 0.25 * rotation[:2, 0]])


def distinct(q: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the indices of solved rows (m, n) [rad] that differ from each other by more than whole turns."""
    kept: list[int] = []
    for i in np.flatnonzero(error < SOLVED):
        if all(np.abs(np.remainder(q[i] - q[j] + np.pi, 2 * np.pi) - np.pi).max() > 1e-3 for j in kept):
            kept.append(int(i))
    return np.array(kept, dtype=int) if kept else np.array([int(np.argmin(error))])


def turns_towards(q: np.ndarray, home: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the whole turns (m, n) [rad] that bring each joint of (m, n) nearest to home within its limits."""
    turns = 2 * np.pi * np.round((home - q) / (2 * np.pi))
    turns = np.where(q + turns > upper, turns - 2 * np.pi, turns)
    return np.where(q + turns < lower, turns + 2 * np.pi, turns)
