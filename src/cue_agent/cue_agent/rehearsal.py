"""Whole sessions without ROS, images or an arm's motion: the real twin plays a hidden world, the arm's reach refuses.

What it is for: how often does a session end early and why, and how many shots does a planner need. A world is drawn as
the simulated one draws it, with all its laws; balls are seen with noise, strokes are played with errors. Records go to
the real fitter, or an estimate stands in for it: the truth, off by an error that shrinks with the shots fitted and that
its covariance admits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cue_agent.peers import (
    NOMINAL,
    ArmResult,
    FitRequest,
    FitResult,
    Foresight,
    Prediction,
    Scene,
    Status,
    TwinError,
    UnknownRevisionError,
)
from cue_agent.reach import Reach
from cue_core.arm_codes import ArmCode
from cue_core.balls import BallState, Motion, Visibility
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_identify import fit as identify
from cue_identify.errors import FitError
from cue_identify.fit import FitOutcome
from cue_identify.offline import fit_request
from cue_identify.replay import TwinSimulator
from cue_sim.kernel import IMPACT_STEP, LARGEST_STEP, EventKind
from cue_sim.outlook import Outlook, Unknowns, outlooks, spread_of
from cue_sim.predict import Prediction as TwinPrediction
from cue_sim.predict import TwinFaultError, contact_counts, predict_all, start_from, tracks_of
from cue_sim.strike import END_MASS_RATIO
from cue_sim.twin import Trajectory, Twin
from cue_sim.world_config import WorldConfig

_LONGEST = 15.0  # [s] that a camera follows a shot
_STILL_IMAGES = 5  # after rest, as a tracker needs to be sure
_MOVED = 2e-3  # [m]
_TIP_RADIUS = 0.006  # [m]


@dataclass(frozen=True)
class Errors:
    """What camera, arm and fit get wrong, one standard deviation each.

    Attributes:
        seen: of a resting ball's position along an axis [m].
        track: of a position in one image along an axis [m].
        bias: of all positions of a ball in one shot along an axis [m].
        strike_time: of a record's strike time [s].
        offset: of the tip beside the ball's centre, beyond ``seen`` [m].
        azimuth: of the stroke, unseen by the arm [rad].
        speed: of the stroke, relative, unseen by the arm.
        played_azimuth: of the stroke against what was asked for, measured by the arm [rad].
        played_speed: the same of its speed, relative.
        raised: ball speed after a stroke with a raised cue, against the twin's.
        lost: share of the records that cannot be used.
        refused: share of the shots that the arm refuses although they are within reach: its way there is barred.
        fit: of the first fit, in shares of a parameter's bounds; it falls with the root of the shots fitted.
    """

    seen: float = 5e-4
    track: float = 7e-4
    bias: float = 3e-4
    strike_time: float = 3e-3
    offset: float = 2e-4
    azimuth: float = math.radians(0.1)
    speed: float = 0.005
    played_azimuth: float = math.radians(0.1)
    played_speed: float = 0.01
    raised: float = 0.9
    lost: float = 0.05
    refused: float = 0.08
    fit: float = 0.04

    def unknowns(self, ball_radius: float, frame_rate: float) -> Unknowns:
        """Return what an outlook must count with, for balls of a radius [m] and a camera's rate [1/s]."""
        squirt = 2.5 / (1 + END_MASS_RATIO + 2.5) * self.beside(ball_radius)
        return Unknowns(
            azimuth=math.hypot(self.azimuth, squirt),
            speed=self.speed,
            played_azimuth=self.played_azimuth,
            played_speed=self.played_speed,
            place=self.seen,
            track=self.track,
            bias=self.bias,
            frame_rate=frame_rate,
            alike=1.0,
        )

    def beside(self, ball_radius: float) -> float:
        """Return the standard deviation of the tip's contact beside the ball's centre [ball radii]."""
        return math.hypot(self.seen, self.offset) / (ball_radius + _TIP_RADIUS)


def hidden_twin(world: WorldConfig, ball_ids: Sequence[int] | None = None) -> Twin:
    """Return a simulation of a hidden table with all its laws, in steps as fine as the world's and the twin's.

    Args:
        world: the table.
        ball_ids: on it; None = those of the world.
    """
    return Twin(
        world.table,
        world.ball_ids if ball_ids is None else ball_ids,
        largest_step=min(world.steps.largest, LARGEST_STEP),
        impact_step=min(world.steps.impact, IMPACT_STEP),
        extras={**world.laws, "cushion_offset": tuple(map(float, world.cushion_offsets))},
    )


@dataclass
class Rehearsal:
    """The other nodes for one session; see :class:`cue_agent.peers.Peers`.

    Attributes:
        world: the hidden one.
        reach: of the arm.
        errors: of everything else.
        balls: where they truly lie.
        struck: every shot played.
        pocketed: ids of the balls lost, in order.
        simulated: count of simulated shots.
        threads: of the simulations; no influence on anything but time.
        real: fit the records; otherwise an estimate stands in.
        promoted: revision of the estimate that a fit must beat.
        outcomes: of the real fits.
    """

    world: WorldConfig
    reach: Reach
    errors: Errors = field(default_factory=Errors)
    balls: dict[int, np.ndarray] = field(default_factory=dict)
    struck: list[Shot] = field(default_factory=list)
    pocketed: list[int] = field(default_factory=list)
    simulated: int = 0
    threads: int = 1
    real: bool = False
    promoted: int = NOMINAL
    outcomes: list[FitOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lay the balls out."""
        self.balls = dict(zip(self.world.ball_ids, self.world.positions.copy(), strict=True))
        self._hidden = hidden_twin(self.world)
        self._simulator = TwinSimulator(self.world.table, self.world.ball_ids)
        self.unknowns = self.errors.unknowns(self.world.table.ball_radius, self.world.camera.fps)
        self._rng = np.random.default_rng([self.world.seed, 77])
        self._estimates = {NOMINAL: ParameterEstimate.nominal()}
        self._records: dict[str, ShotRecord] = {}
        self._seen = self._look()

    def _look(self) -> tuple[BallState, ...]:
        covariance = np.eye(2) * self.errors.seen**2
        found = []
        for ball_id, place in self.balls.items():
            gone = ball_id in self.pocketed
            where = place + self.errors.seen * self._rng.standard_normal(2)
            motion, visibility = (
                (Motion.POCKETED, Visibility.POCKETED) if gone else (Motion.STATIONARY, Visibility.VISIBLE)
            )
            found.append(BallState(ball_id, where, covariance, motion=motion, visibility=visibility))
        return tuple(found)

    def check(self) -> None:
        """See :class:`cue_agent.peers.Peers`."""

    def scene(self) -> Scene:
        """See :class:`cue_agent.peers.Peers`."""
        return Scene(self.world.table, self._seen)

    def predict(
        self,
        shots: Sequence[Shot],
        balls: Sequence[BallState],
        *,
        revision: int = NOMINAL,
        ensemble: int = 0,
        times: Sequence[float] = (),
    ) -> list[Prediction | None]:
        """See :class:`cue_agent.peers.Twin`."""
        estimate = self.estimate(revision)
        rng = np.random.default_rng([0, revision])
        twin = self._simulator.corrected(estimate.correction).twin
        try:
            answers = predict_all(twin, balls, shots, estimate, times, ensemble, rng, self.threads)
        except CueError as error:
            raise TwinError(str(error)) from None
        self.simulated += (1 + ensemble) * len(shots)
        live = self._live(balls)
        return [
            None if isinstance(found, TwinFaultError) else _prediction(shot, found, twin, live, len(times) > 0)
            for shot, found in zip(shots, answers, strict=True)
        ]

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState], *, revision: int = NOMINAL
    ) -> list[Foresight | None]:
        """See :class:`cue_agent.peers.Twin`."""
        estimate, live = self.estimate(revision), self._live(balls)
        _, covariance = spread_of(estimate)
        twin = self._simulator.corrected(estimate.correction).twin
        try:
            answers = outlooks(twin, balls, shots, estimate, self.unknowns, self.threads)
        except CueError as error:
            raise TwinError(str(error)) from None
        found: list[Foresight | None] = []
        for shot, seen in zip(shots, answers, strict=True):
            if seen is None:
                found.append(None)
                continue
            self.simulated += len(seen.rests) + seen.faults + 2
            found.append(
                Foresight(
                    **vars(_prediction(shot, seen, twin, live, True)),
                    rests=seen.rests[:, live],
                    pocketed=seen.pocketed[:, live],
                    names=seen.names,
                    information=seen.information,
                    sensitivity=seen.sensitivity,
                    covariance=covariance,
                    scatter=seen.scatter,
                )
            )
        return found

    def estimate(self, revision: int) -> ParameterEstimate:
        """Return an estimate, promoted or not.

        Raises:
            UnknownRevisionError: there is none.
        """
        if revision not in self._estimates:
            raise UnknownRevisionError(f"revision {revision} is unknown")
        return self._estimates[revision]

    def _live(self, balls: Sequence[BallState]) -> list[int]:
        playing = {b.ball_id for b in balls if b.in_play}
        return [n for n, i in enumerate(self.world.ball_ids) if i in playing]

    def strike(self, shot: Shot, resumed: bool) -> ArmResult:
        """See :class:`cue_agent.peers.Peers`."""
        if any(b.ball_id == 0 and not b.in_play for b in self._seen):
            return ArmResult(ArmCode.NO_BALL, "the cue ball is gone")
        others = {b.ball_id: b.position for b in self._seen if b.in_play and b.ball_id != 0}
        cue_ball = next(b.position for b in self._seen if b.ball_id == 0)
        try:
            if self.reach.raised(shot, cue_ball, others) != shot:
                return ArmResult(ArmCode.COLLISION, "the cue would touch the rail")
        except CueError as error:
            return ArmResult(ArmCode.UNREACHABLE, str(error))
        if self._rng.random() < self.errors.refused:
            return ArmResult(ArmCode.COLLISION, "shoulder lift link would touch cue stem on the way to the ball")
        return ArmResult(ArmCode.NONE, "", True, self._play(shot))

    def _play(self, shot: Shot) -> Stroke:
        rng, errors, table = self._rng, self.errors, self.world.table
        self.struck.append(shot)
        beside = errors.beside(table.ball_radius) * rng.standard_normal()
        measured = Stroke(
            shot.speed * (1 + errors.played_speed * rng.standard_normal()),
            shot.azimuth + errors.played_azimuth * rng.standard_normal(),
            max(errors.speed * shot.speed, 1e-4),
            max(errors.azimuth, 1e-5),
            shot.elevation,
            0.0,
            shot.vertical_offset,
        )
        real = replace(
            measured,
            tip_speed=measured.tip_speed
            * (1 + errors.speed * rng.standard_normal())
            * (errors.raised if shot.elevation else 1),
            azimuth=measured.azimuth + errors.azimuth * rng.standard_normal(),
            side_offset=float(np.clip(beside, -0.3, 0.3)),
        )
        live = [BallState(i, p) for i, p in self.balls.items() if i not in self.pocketed]
        start = start_from(live, real, self.world.parameters, table, self._hidden.ball_ids)
        period = 1 / self.world.camera.fps
        times = np.arange(0.0, _LONGEST, period) + rng.uniform(0, period)
        path = self._hidden.simulate(start, self.world.parameters, times)
        before, tracks = self._seen, self._tracks(path)
        for n, ball_id in enumerate(self._hidden.ball_ids):
            if ball_id not in self.pocketed:
                self.balls[ball_id] = path.rest_positions[n].copy()
        self.pocketed += [e.ball for e in path.events if e.kind == EventKind.POCKET]
        self._seen = self._look()
        flags = ("ball_lost",) if rng.random() < errors.lost else ()
        self._records[shot.shot_id] = ShotRecord(
            shot.shot_id,
            len(self._records),
            shot,
            measured,
            100.0 * len(self._records),
            before,
            self._seen,
            tracks,
            errors.strike_time,
            flags=flags,
        )
        return measured

    def _tracks(self, path: Trajectory) -> tuple[BallTrack, ...]:
        """Return what the camera sees of the balls that move, until they have rested for some images."""
        rng, errors, found = self._rng, self.errors, []
        late = errors.strike_time * rng.standard_normal()
        covariance = np.eye(2) * (errors.track**2 + errors.bias**2)
        for n, ball_id in enumerate(self._hidden.ball_ids):
            way, rest = path.positions[:, n], path.rest_positions[n]
            gone = bool(path.rest_pocketed[n])
            moved = np.linalg.norm(way - self.balls[ball_id], axis=1).max() > _MOVED
            if ball_id in self.pocketed or not (moved or gone):
                continue
            travelling = np.flatnonzero(np.linalg.norm(way - rest, axis=1) > 1e-4)
            count = int(travelling[-1]) + 1 if len(travelling) else 1
            count = min(count + (0 if gone else _STILL_IMAGES), len(way))
            off = errors.bias * rng.standard_normal(2) + errors.track * rng.standard_normal((count, 2))
            spread = np.tile(covariance, (count, 1, 1))
            found.append(BallTrack(ball_id, path.times[:count] - late, way[:count] + off, spread, gone))
        return tuple(found)

    def record(self, shot_id: str) -> ShotRecord | None:
        """See :class:`cue_agent.peers.Peers`."""
        return self._records.get(shot_id)

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        return self._fit(request) if self.real else self._stand_in(request)

    def _fit(self, request: FitRequest) -> FitResult:
        """Fit as the fitter's node does."""
        records = sorted(self._records.values(), key=lambda record: record.index)
        wanted = identify.FitRequest(
            request.shot_ids,
            request.held_out_shot_ids,
            request.parameters,
            request.evaluations,
            request.seed,
        )
        fitter = identify.Fitter(self._simulator, identify.FitConfig(threads=self.threads))
        try:
            asked = fit_request(wanted, request.terms, records, self.world.table)
            outcome = fitter.fit(records, asked, self.estimate(self.promoted))
        except FitError as error:
            return FitResult(int(error.code), str(error), False, None)
        self.outcomes.append(outcome)
        return self._keep(outcome.estimate, outcome.promoted, outcome.reason)

    def _keep(self, estimate: ParameterEstimate, promoted: bool, reason: str) -> FitResult:
        """Number an estimate."""
        revision = max(self._estimates) + 1
        self._estimates[revision] = replace(estimate, revision=revision)
        if promoted:
            self.promoted = revision
        return FitResult(0, reason, promoted, self._estimates[revision])

    def _stand_in(self, request: FitRequest) -> FitResult:
        nominal = ParameterEstimate.nominal()
        fitted = np.array([p.fitted for p in PARAMETERS.values()])
        low = np.array([p.minimum for p in PARAMETERS.values()])
        high = np.array([p.maximum for p in PARAMETERS.values()])
        stddev = np.where(fitted, self.errors.fit * (high - low) / math.sqrt(len(request.shot_ids)), 0.0)
        rng = np.random.default_rng([self.world.seed, 78, max(self._estimates) + 1])
        off = self.world.parameters + stddev * rng.standard_normal(len(stddev))
        values = np.where(fitted, np.clip(off, low, high), nominal.values)
        estimate = replace(nominal, values=values, covariance=np.diag(stddev**2), frozen=~fitted)
        return self._keep(estimate, True, "promoted")

    def roll_back(self, revision: int) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        return self._keep(self.estimate(revision), True, f"rolled back to revision {revision}")

    def refine_perception(self) -> str:
        """See :class:`cue_agent.peers.Peers`."""
        return "a rehearsal has no camera"

    def report(self, status: Status) -> None:
        """See :class:`cue_agent.peers.Peers`."""

    def show(self, shot: Shot, prediction: Prediction | None) -> None:
        """See :class:`cue_agent.peers.Peers`."""


def _prediction(
    shot: Shot, found: TwinPrediction | Outlook, twin: Twin, live: Sequence[int], sampled: bool
) -> Prediction:
    """Return the agent's form of an answer, for the balls at ``live`` in the twin's order."""
    tracks = tracks_of(found.mean, twin.ball_ids) if sampled else ()
    return Prediction(
        shot.shot_id,
        tuple(twin.ball_ids[n] for n in live),
        found.rest_mean[live],
        found.rest_covariance[live],
        found.pocket_probability[live],
        tuple(tracks[n] for n in live if sampled),
        *contact_counts(found.mean),
    )
