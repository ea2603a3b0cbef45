"""A fake table with its arm, camera, fitter and twin: hardly any physics, but it keeps the promises of the real ones.

Balls slide along straight lines, lose speed at a constant rate, bounce off the noses, hand all their speed to the first
ball they meet, and are gone near a pocket. One parameter is to be found: the ``friction``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cue_agent.peers import (
    NOMINAL,
    ArmResult,
    Code,
    FitRequest,
    FitResult,
    Foresight,
    Prediction,
    Scene,
    SessionEndedError,
    Status,
    UnknownRevisionError,
)
from cue_core.arm_codes import ArmCode
from cue_core.balls import BallState, Visibility
from cue_core.parameters import ParameterEstimate
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_core.table import TableModel

NOMINAL_FRICTION = 0.5
TRUE_FRICTION = 0.8
AZIMUTH_STDDEV, SPEED_STDDEV, MEASUREMENT_STDDEV = 0.003, 0.01, 0.002
"""Of a stroke [rad], relative, and of a rest position as seen [m]."""
_STEP = 0.02
_POCKET = 0.05


def small_table() -> TableModel:
    """Return a small pool table."""
    return TableModel(
        name="small",
        length=1.06,
        width=0.53,
        ball_radius=0.01905,
        ball_mass=0.049,
        nose_height=0.0241,
        corner_mouth=0.072,
        side_mouth=0.076,
        corner_shelf=0.01,
        side_shelf=0.005,
        rail_width=0.06,
    )


def some_balls() -> tuple[BallState, ...]:
    """Return six balls at rest, none of them touching another or a cushion."""
    places = {0: (-0.25, 0.02), 1: (0.10, 0.10), 3: (0.22, -0.12), 5: (0.33, 0.08), 6: (-0.05, -0.14), 8: (0.02, 0.02)}
    return tuple(BallState(i, np.array(p), np.eye(2) * 1e-6) for i, p in places.items())


@dataclass(frozen=True)
class Outcome:
    """What one shot does: paths (T, n, 2), their times (T,), and which balls are pocketed (n,)."""

    ids: tuple[int, ...]
    times: np.ndarray
    paths: np.ndarray
    pocketed: np.ndarray
    ball_contacts: int
    cushion_contacts: int


def play(table: TableModel, balls: Sequence[BallState], shot: Shot, friction: float) -> Outcome:
    """Return what a shot does on the fake table with a deceleration of ``friction`` [m/s^2]."""
    live = [b for b in balls if b.in_play]
    ids = tuple(b.ball_id for b in live)
    at = np.array([b.position for b in live])
    half = np.array([table.length / 2, table.width / 2]) - table.ball_stop
    gone = np.zeros(len(ids), bool)
    pockets = np.array([p.position for p in table.pockets])
    paths, times = [at.copy()], [0.0]
    contacts = [0, 0]
    moving = ids.index(0)
    velocity = shot.speed * np.array([np.cos(shot.azimuth), np.sin(shot.azimuth)])
    left_alone = -1
    while (speed := float(np.linalg.norm(velocity))) > 1e-3 and times[-1] < 30:
        slower = max(speed - friction * _STEP, 0.0)
        at[moving] += velocity / speed * 0.5 * (speed + slower) * _STEP
        velocity *= slower / speed
        for axis in range(2):
            if abs(at[moving, axis]) > half[axis]:
                at[moving, axis] = 2 * np.sign(at[moving, axis]) * half[axis] - at[moving, axis]
                velocity[axis] *= -1
                contacts[1] += 1
                left_alone = -1
        if np.min(np.hypot(*(pockets - at[moving]).T)) < _POCKET:
            gone[moving] = True
            velocity *= 0
        ways = at - at[moving]
        distances = np.hypot(*ways.T)
        distances[[moving, left_alone] if left_alone >= 0 else moving] = np.inf
        distances[gone] = np.inf
        other = int(np.argmin(distances))
        if distances[other] < 2 * table.ball_radius:
            along = ways[other] / distances[other]
            velocity = np.linalg.norm(velocity) * along
            at[moving] = at[other] - along * (2 * table.ball_radius + 0.004)
            left_alone, moving = moving, other
            contacts[0] += 1
        times.append(times[-1] + _STEP)
        paths.append(at.copy())
    return Outcome(ids, np.array(times), np.array(paths), gone, contacts[0], contacts[1])


@dataclass
class FakePeers:
    """All other nodes of a graph in one object, which also says what they were asked.

    ``faults`` holds what goes wrong, by the name of the call, once each, in order: a function that is called instead.
    ``hook`` is called with the name of each call before it is served; it may raise what ends a process.
    """

    table: TableModel = field(default_factory=small_table)
    balls: tuple[BallState, ...] = field(default_factory=some_balls)
    friction: float = TRUE_FRICTION
    hook: Callable[[str], None] = lambda _call: None
    faults: dict[str, list[Callable[..., object]]] = field(default_factory=dict)
    struck: list[Shot] = field(default_factory=list)
    records: dict[str, ShotRecord] = field(default_factory=dict)
    estimates: dict[int, float] = field(default_factory=lambda: {NOMINAL: NOMINAL_FRICTION})
    fits: list[FitRequest] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    shown: list[Shot] = field(default_factory=list)
    rolled_back: list[int] = field(default_factory=list)
    refined: int = 0
    simulated: int = 0
    cancelled: bool = False

    def _call(self, name: str) -> Callable[..., object] | None:
        self.hook(name)
        return self.faults[name].pop(0) if self.faults.get(name) else None

    def check(self) -> None:
        """See :class:`cue_agent.peers.Peers`."""
        self.hook("check")
        if self.cancelled:
            raise SessionEndedError(Code.CANCELED, "cancelled")

    def scene(self) -> Scene:
        """See :class:`cue_agent.peers.Peers`."""
        fault = self._call("scene")
        if fault is not None:
            fault()
        self.check()
        return Scene(self.table, self.balls)

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
        fault = self._call("predict")
        if fault is not None:
            fault(shots)
        self.check()
        if revision not in self.estimates:
            raise UnknownRevisionError(f"revision {revision} is unknown")
        return [self._predict(shot, balls, self.estimates[revision], ensemble, times) for shot in shots]

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState], *, revision: int = NOMINAL
    ) -> list[Foresight | None]:
        """See :class:`cue_agent.peers.Twin`."""
        fault = self._call("look_ahead")
        if fault is not None:
            fault(shots)
        self.check()
        if revision not in self.estimates:
            raise UnknownRevisionError(f"revision {revision} is unknown")
        return [self._look_ahead(shot, balls, revision) for shot in shots]

    def _look_ahead(self, shot: Shot, balls: Sequence[BallState], revision: int) -> Foresight:
        """Vary friction, azimuth and speed one by one, two ways each, like an outlook of the real twin."""
        friction, stddev = self.estimates[revision], self.doubt(revision)
        turns = [replace(shot, azimuth=shot.azimuth + sign * AZIMUTH_STDDEV) for sign in (-1, 1)]
        speeds = [replace(shot, speed=shot.speed * (1 + sign * SPEED_STDDEV)) for sign in (-1, 1)]
        softer, harder = (play(self.table, balls, shot, friction + sign * stddev) for sign in (-1, 1))
        strayed = [play(self.table, balls, other, friction) for other in (*turns, *speeds)]
        self.simulated += 6
        members = [softer, harder, *strayed]
        rests = np.array([o.paths[-1] for o in members])
        mean = self._predict(shot, balls, friction, 0, ())
        moves = np.linalg.norm(rests - np.array([b.position for b in balls if b.in_play]), axis=2).max(axis=0) > 1e-3
        slope = ((rests[1] - rests[0]) / (2 * stddev))[moves]
        known = [((rests[k + 1] - rests[k]) / 2)[moves] for k in (2, 4)]
        scatter = float(np.sqrt(sum(np.sum(s**2) for s in known) / max(int(moves.sum()), 1)))
        centred = rests - mean.rest
        return Foresight(
            **{
                **vars(mean),
                "rest_covariance": np.einsum("mni,mnj->nij", centred, centred) / 2,
                "pocket_probability": np.mean([o.pocketed for o in members], axis=0),
            },
            rests=rests,
            pocketed=np.array([o.pocketed for o in members]),
            names=("rolling_friction",),
            information=np.array([[np.sum(slope**2) / (MEASUREMENT_STDDEV**2 + scatter**2)]]),
            sensitivity=np.array([[np.sum(slope**2) / max(int(moves.sum()), 1)]]),
            covariance=np.array([[stddev**2]]),
            scatter=scatter,
        )

    def doubt(self, revision: int) -> float:
        """Return the standard deviation of a revision's friction [m/s^2]; the more fits, the less."""
        return 0.2 * 0.5**revision

    def _predict(
        self, shot: Shot, balls: Sequence[BallState], friction: float, ensemble: int, times: Sequence[float]
    ) -> Prediction:
        spread = np.linspace(-0.1, 0.1, ensemble) if ensemble else np.zeros(1)
        outcomes = [play(self.table, balls, shot, friction * (1 + s)) for s in spread]
        self.simulated += len(outcomes)
        mean = outcomes[len(outcomes) // 2]
        rests = np.array([o.paths[-1] for o in outcomes])
        off = rests - rests.mean(axis=0)
        tracks = tuple(
            BallTrack(
                i,
                np.array(times, float),
                np.stack([np.interp(times, mean.times, mean.paths[:, n, axis]) for axis in range(2)], -1),
                np.zeros((len(times), 2, 2)),
                bool(mean.pocketed[n]),
            )
            for n, i in enumerate(mean.ids)
            if len(times)
        )
        return Prediction(
            shot.shot_id,
            mean.ids,
            rests.mean(axis=0),
            np.einsum("sni,snj->nij", off, off) / len(rests),
            np.mean([o.pocketed for o in outcomes], axis=0),
            tracks,
            mean.ball_contacts,
            mean.cushion_contacts,
        )

    def strike(self, shot: Shot, resumed: bool) -> ArmResult:
        """See :class:`cue_agent.peers.Peers`."""
        fault = self._call("strike")
        if fault is not None:
            answer = fault(shot)
            if isinstance(answer, ArmResult):
                return answer
        if shot.shot_id in [s.shot_id for s in self.struck]:
            return ArmResult(ArmCode.ALREADY_STRUCK, f"{shot.shot_id} was struck", True)
        self.struck.append(shot)
        self._happen(shot)
        self.hook("struck")
        record = self.records[shot.shot_id]
        return ArmResult(ArmCode.NONE, "", True, record.achieved)

    def _happen(self, shot: Shot) -> None:
        outcome = play(self.table, self.balls, shot, self.friction)
        before = self.balls
        rest = dict(zip(outcome.ids, zip(outcome.paths[-1], outcome.pocketed, strict=True), strict=True))
        after = []
        for ball in before:
            if ball.ball_id in rest and ball.in_play:
                position, gone = rest[ball.ball_id]
                ball = replace(ball, position=position, visibility=Visibility.POCKETED if gone else ball.visibility)
            after.append(ball)
        self.balls = tuple(after)
        tracks = tuple(
            BallTrack(
                i,
                outcome.times,
                outcome.paths[:, n],
                np.tile(np.eye(2) * 1e-6, (len(outcome.times), 1, 1)),
                bool(outcome.pocketed[n]),
            )
            for n, i in enumerate(outcome.ids)
            if np.linalg.norm(outcome.paths[-1, n] - outcome.paths[0, n]) > 1e-3
        )
        stroke = Stroke(shot.speed, shot.azimuth)
        self.records[shot.shot_id] = ShotRecord(
            shot.shot_id, len(self.records), shot, stroke, 0.0, before, self.balls, tracks
        )

    def record(self, shot_id: str) -> ShotRecord | None:
        """See :class:`cue_agent.peers.Peers`."""
        fault = self._call("record")
        if fault is not None:
            answer = fault(shot_id)
            return answer if isinstance(answer, ShotRecord) else None
        self.check()
        return self.records.get(shot_id)

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        fault = self._call("fit")
        if fault is not None:
            answer = fault(request)
            if isinstance(answer, FitResult):
                return answer
        self.check()
        revision = max(self.estimates)
        if not (resumed and self.fits and self.fits[-1].shot_ids == request.shot_ids):
            self.fits.append(request)
            revision += 1
            # The more shots, the nearer to the truth.
            off = (NOMINAL_FRICTION - self.friction) * 0.3 ** len(request.shot_ids)
            self.estimates[revision] = self.friction + off
        estimate = replace(ParameterEstimate.nominal(), revision=revision, shot_ids=request.shot_ids)
        self.hook("fitted")
        return FitResult(0, "promoted", True, estimate)

    def roll_back(self, revision: int) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        self._call("roll_back")
        self.check()
        new = max(self.estimates) + 1
        self.estimates[new] = self.estimates[revision]
        self.rolled_back.append(revision)
        estimate = replace(ParameterEstimate.nominal(), revision=new)
        return FitResult(0, f"rolled back to revision {revision}", True, estimate)

    def refine_perception(self) -> str:
        """See :class:`cue_agent.peers.Peers`."""
        self._call("refine_perception")
        self.check()
        self.refined += 1
        return ""

    def report(self, status: Status) -> None:
        """See :class:`cue_agent.peers.Peers`."""
        self.statuses.append(status)

    def show(self, shot: Shot, prediction: Prediction | None) -> None:
        """See :class:`cue_agent.peers.Peers`."""
        self.shown.append(shot)


class MisledPeers(FakePeers):
    """Their second fit is far off, and passes all the same."""

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        result = super().fit(request, resumed)
        if len(self.fits) == 2 and result.estimate is not None:
            self.estimates[result.estimate.revision] = 0.6 * NOMINAL_FRICTION
        return result
