"""Whole sessions without ROS, images or an arm's motion: the real twin plays a hidden world, the arm's reach refuses.

What it is for: how often does a session end early, and why. A world is drawn as the simulated one draws it; balls are
seen with noise, strokes are played with errors, and an estimate stands in for the fitter: the truth, off by an error
that shrinks with the shots fitted and that its covariance admits.
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
from cue_sim.kernel import EventKind
from cue_sim.outlook import Outlook, Unknowns, outlooks, spread_of
from cue_sim.predict import Prediction as TwinPrediction
from cue_sim.predict import TwinFaultError, contact_counts, predict_all, start_from, tracks_of
from cue_sim.twin import Twin
from cue_sim.world_config import WorldConfig

_TIMES = np.arange(0.0, 12.0, 1 / 30)
_MOVED = 2e-3


@dataclass(frozen=True)
class Errors:
    """What camera, arm and fit get wrong, one standard deviation each.

    Attributes:
        seen: of a resting ball's position along an axis [m].
        offset: of the tip beside the ball's centre, beyond that [m].
        azimuth: of the stroke, unseen by the arm [rad].
        speed: of the stroke, relative, unseen by the arm.
        raised: ball speed after a stroke with a raised cue, against the twin's.
        lost: share of the records that cannot be used.
        refused: share of the shots that the arm refuses although they are within reach: its way there is barred.
        fit: of the first fit, in shares of a parameter's bounds; it falls with the root of the shots fitted.
    """

    seen: float = 5e-4
    offset: float = 2e-4
    azimuth: float = math.radians(0.1)
    speed: float = 0.005
    raised: float = 0.9
    lost: float = 0.05
    refused: float = 0.08
    fit: float = 0.04


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
    """

    world: WorldConfig
    reach: Reach
    errors: Errors = field(default_factory=Errors)
    balls: dict[int, np.ndarray] = field(default_factory=dict)
    struck: list[Shot] = field(default_factory=list)
    pocketed: list[int] = field(default_factory=list)
    simulated: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        """Lay the balls out."""
        self.balls = dict(zip(self.world.ball_ids, self.world.positions.copy(), strict=True))
        offsets = tuple(map(float, self.world.cushion_offsets))
        self._hidden = Twin(self.world.table, self.world.ball_ids, extras={"cushion_offset": offsets})
        self._twin = Twin(self.world.table, self.world.ball_ids)
        self.unknowns = Unknowns()
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
        twin = self._twin
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
        try:
            answers = outlooks(self._twin, balls, shots, estimate, self.unknowns, self.threads)
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
                    **vars(_prediction(shot, seen, self._twin, live, True)),
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
        return [n for n, i in enumerate(self._twin.ball_ids) if i in playing]

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
        beside = math.hypot(errors.seen, errors.offset) * rng.standard_normal() / (table.ball_radius + 0.006)
        measured = Stroke(shot.speed, shot.azimuth, 0.002 * shot.speed, 5e-4, shot.elevation, 0.0, shot.vertical_offset)
        real = replace(
            measured,
            tip_speed=shot.speed
            * (1 + errors.speed * rng.standard_normal())
            * (errors.raised if shot.elevation else 1),
            azimuth=shot.azimuth + errors.azimuth * rng.standard_normal(),
            side_offset=float(np.clip(beside, -0.3, 0.3)),
        )
        live = [BallState(i, p) for i, p in self.balls.items() if i not in self.pocketed]
        start = start_from(live, real, self.world.parameters, table, self._hidden.ball_ids)
        path = self._hidden.simulate(start, self.world.parameters, _TIMES)
        before, tracks = self._seen, []
        for n, ball_id in enumerate(self._hidden.ball_ids):
            if ball_id in self.pocketed:
                continue
            gone = bool(path.rest_pocketed[n])
            way = path.positions[:, n]
            if gone or np.linalg.norm(way - self.balls[ball_id], axis=1).max() > _MOVED:
                noisy = way + errors.seen * rng.standard_normal(way.shape)
                spread = np.tile(np.eye(2) * errors.seen**2, (len(way), 1, 1))
                tracks.append(BallTrack(ball_id, _TIMES, noisy, spread, gone))
            self.balls[ball_id] = path.rest_positions[n].copy()
        self.pocketed += [e.ball for e in path.events if e.kind == EventKind.POCKET]
        self._seen = self._look()
        flags = ("ball_lost",) if rng.random() < errors.lost else ()
        self._records[shot.shot_id] = ShotRecord(
            shot.shot_id, len(self._records), shot, measured, 0.0, before, self._seen, tuple(tracks), flags=flags
        )
        return measured

    def record(self, shot_id: str) -> ShotRecord | None:
        """See :class:`cue_agent.peers.Peers`."""
        return self._records.get(shot_id)

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        revision = max(self._estimates) + 1
        nominal = ParameterEstimate.nominal()
        fitted = np.array([p.fitted for p in PARAMETERS.values()])
        low = np.array([p.minimum for p in PARAMETERS.values()])
        high = np.array([p.maximum for p in PARAMETERS.values()])
        stddev = np.where(fitted, self.errors.fit * (high - low) / math.sqrt(len(request.shot_ids)), 0.0)
        rng = np.random.default_rng([self.world.seed, 78, revision])
        off = self.world.parameters + stddev * rng.standard_normal(len(stddev))
        values = np.where(fitted, np.clip(off, low, high), nominal.values)
        self._estimates[revision] = replace(
            nominal, revision=revision, values=values, covariance=np.diag(stddev**2), frozen=~fitted
        )
        return FitResult(0, "promoted", True, self._estimates[revision])

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
