"""What the session asks of the other nodes, and their answers, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol

import numpy as np

from cue_core.arm_codes import ArmCode
from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.parameters import ParameterEstimate
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_core.table import TableModel

CUE_BALL = 0
NOMINAL = 0
"""Revision of the unfitted twin."""
FIT_TIME_RESET = 8
"""``IdentifyParameters.Result.TIME_RESET``."""
NO_MOTION = "no_motion"
"""Flag of a shot record in which no ball moved."""


class Code(IntEnum):
    """How a session ended; values equal the constants of ``cue_msgs/action/Calibrate``."""

    NONE = 0
    INVALID_GOAL = 1
    NO_TABLE = 2
    ARM_FAILED = 3
    NOT_OBSERVED = 4
    FIT_FAILED = 5
    UNPLAYABLE = 6
    CANCELED = 7
    TIME_RESET = 8
    BUSY = 9


class SessionEndedError(CueError):
    """The session is over, for good or ill."""

    def __init__(self, code: Code, message: str) -> None:
        """Keep the code beside the message."""
        super().__init__(message)
        self.code = code


class TwinError(CueError):
    """The twin could not answer for the shots asked; others may do."""


class UnknownRevisionError(TwinError):
    """The twin does not know the estimate asked for."""


@dataclass(frozen=True)
class Scene:
    """The table and the balls at rest on it.

    Attributes:
        table: as reconstructed.
        balls: all that are known, pocketed ones included.
    """

    table: TableModel
    balls: tuple[BallState, ...]

    @property
    def cue_ball(self) -> BallState | None:
        """Return the cue ball while it is in play."""
        return next((b for b in self.balls if b.ball_id == CUE_BALL and b.in_play), None)

    @property
    def object_balls(self) -> tuple[BallState, ...]:
        """Return the object balls in play."""
        return tuple(b for b in self.balls if b.ball_id != CUE_BALL and b.in_play)


@dataclass(frozen=True)
class Prediction:
    """The twin's answer for one shot; arrays follow ``ball_ids`` (n of them).

    Attributes:
        shot_id: of the shot asked about.
        ball_ids: the balls.
        rest: (n, 2) mean rest positions over the ensemble [m].
        rest_covariance: (n, 2, 2) of them over the ensemble [m^2].
        pocket_probability: (n,) 0..1.
        tracks: of the mean parameters, sampled as asked; empty when no times were.
        ball_contacts: count of ball-ball contacts.
        cushion_contacts: count of cushion contacts.
    """

    shot_id: str
    ball_ids: tuple[int, ...]
    rest: np.ndarray
    rest_covariance: np.ndarray
    pocket_probability: np.ndarray
    tracks: tuple[BallTrack, ...] = ()
    ball_contacts: int = 0
    cushion_contacts: int = 0


@dataclass(frozen=True, kw_only=True)
class Foresight(Prediction):
    """What a shot may do and what seeing it would teach; n balls, d fitted parameters, m members of the ensemble.

    The ensemble is over everything that is not known before the shot: parameters, stroke, places of the balls.

    Attributes:
        rests: (m, n, 2) where the balls come to rest in each member [m].
        pocketed: (m, n) bool.
        names: of the d parameters.
        information: (d, d) about them, in their inverse units: errors of the stroke, places and chaos marginalised.
        sensitivity: (d, d): with a covariance C of the parameters, trace(C @ sensitivity) is the mean square of the
            rest error that it causes, over the balls that move [m^2].
        covariance: (d, d) of the parameters now.
        scatter: rms over the balls that move of the rest positions' spread for known parameters [m].
    """

    rests: np.ndarray
    pocketed: np.ndarray
    names: tuple[str, ...]
    information: np.ndarray
    sensitivity: np.ndarray
    covariance: np.ndarray
    scatter: float


@dataclass(frozen=True)
class ArmResult:
    """What came of one stroke, as far as the arm knows.

    Attributes:
        code: 0 = none.
        message: for a person; empty when all went well.
        struck: the tip passed the ball.
        achieved: as measured, None where nothing was.
    """

    code: ArmCode
    message: str = ""
    struck: bool = False
    achieved: Stroke | None = None


class StrikeStatus(Enum):
    """What a stroke means for the session."""

    OBSERVED = "observed"
    """Struck, and the camera saw balls move."""
    NOT_OBSERVED = "not_observed"
    """Struck as the arm says, but nothing was seen to move."""
    REFUSED = "refused"
    """The arm cannot play this shot; another one may do."""
    FAILED = "failed"
    """The arm tried and failed without touching the ball; it may be tried again."""
    ABORTED = "aborted"
    """The arm broke off at or after contact: the ball was struck, and the arm may need a person's look."""
    HALTED = "halted"
    """The arm is stopped or disabled until a person clears it."""
    CANCELED = "canceled"
    TIME_RESET = "time_reset"

    @property
    def used(self) -> bool:
        """True when a shot of the budget is gone."""
        return self in (StrikeStatus.OBSERVED, StrikeStatus.NOT_OBSERVED, StrikeStatus.ABORTED)


def classify(result: ArmResult, record: ShotRecord | None) -> StrikeStatus:
    """Say what an arm's result and the camera's record (None = there is none) mean for the session."""
    if result.code == ArmCode.TIME_RESET:
        return StrikeStatus.TIME_RESET
    if result.code == ArmCode.CANCELED:
        return StrikeStatus.CANCELED
    if result.code == ArmCode.STOPPED:
        return StrikeStatus.HALTED
    if result.struck and result.code not in (ArmCode.NONE, ArmCode.ALREADY_STRUCK):
        return StrikeStatus.ABORTED
    if result.code in (ArmCode.NONE, ArmCode.ALREADY_STRUCK):
        seen = record is not None and bool(record.tracks) and NO_MOTION not in record.flags
        return StrikeStatus.OBSERVED if seen else StrikeStatus.NOT_OBSERVED
    if result.code == ArmCode.PROTECTIVE_STOP:
        return StrikeStatus.HALTED
    if result.code in (ArmCode.CONTROLLER, ArmCode.TOLERANCE, ArmCode.PREEMPTED, ArmCode.TIMEOUT):
        return StrikeStatus.FAILED
    return StrikeStatus.REFUSED


@dataclass(frozen=True)
class FitRequest:
    """What to fit; see ``cue_msgs/action/IdentifyParameters``.

    Attributes:
        shot_ids: to fit.
        seed: of the search.
        evaluations: budget of simulated shots; 0 = the fitter's default.
        held_out_shot_ids: that only judge; empty = the fitter picks the judges among ``shot_ids``.
        parameters: names to fit; empty = the default ones.
        terms: names, or "auto" alone; see ``cue_identify.offline.fit_request``.
    """

    shot_ids: tuple[str, ...]
    seed: int
    evaluations: int = 0
    held_out_shot_ids: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitResult:
    """What came of a fit.

    Attributes:
        code: of ``cue_msgs/action/IdentifyParameters``, 0 = none.
        message: what went wrong, or why the estimate was promoted or not.
        promoted: the twin uses it now.
        estimate: None where the fit failed.
    """

    code: int
    message: str
    promoted: bool
    estimate: ParameterEstimate | None


@dataclass(frozen=True)
class Status:
    """Where the session stands, for people and for the client; ``decision`` is the newest judgement as JSON."""

    phase: str
    text: str
    shots_used: int
    shots_budget: int
    revision: int
    held_out_error: float
    decision: str = ""


class Twin(Protocol):
    """Predicts shots."""

    def predict(
        self,
        shots: Sequence[Shot],
        balls: Sequence[BallState],
        *,
        revision: int = NOMINAL,
        ensemble: int = 0,
        times: Sequence[float] = (),
    ) -> list[Prediction | None]:
        """Return one prediction per shot, in order, each from the same balls at rest; None: the twin cannot tell.

        Raises:
            UnknownRevisionError: no such estimate.
            TwinError: the balls or one of the shots make no sense.
            SessionEndedError: the twin is gone for good, or the session was cancelled.
        """

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState], *, revision: int = NOMINAL
    ) -> list[Foresight | None]:
        """Return for each shot what it may do and teach, each from the same balls at rest; None: the twin cannot tell.

        The balls may lie anywhere, also where a shot not yet played may leave them.

        Raises:
            UnknownRevisionError: no such estimate.
            TwinError: the balls or one of the shots make no sense.
            SessionEndedError: the twin is gone for good, or the session was cancelled.
        """


class Peers(Twin, Protocol):
    """The other nodes.

    Every call may raise :class:`SessionEndedError`: cancelled, clock reset, or a peer gone for good.
    """

    def check(self) -> None:
        """Raise if the session should not go on."""

    def scene(self) -> Scene:
        """Wait until table and balls are known and at rest, and return them."""

    def strike(self, shot: Shot, resumed: bool) -> ArmResult:
        """Have a shot played and wait until the arm is done, also when the session is cancelled meanwhile.

        Args:
            shot: the arm never strikes the same id twice.
            resumed: it may have been asked for before a restart; what came of it is found out first.
        """

    def record(self, shot_id: str) -> ShotRecord | None:
        """Wait until the camera has done with a shot that was struck; None when it recorded nothing."""

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """Have parameters fitted. ``resumed``: the same was asked for before a restart."""

    def roll_back(self, revision: int) -> FitResult:
        """Have an earlier promoted estimate used again, under a new number; asked twice, under two."""

    def refine_perception(self) -> str:
        """Have the tracker look for the table and the balls anew; return why it did not, empty = it does."""

    def report(self, status: Status) -> None:
        """Tell people where the session stands."""

    def show(self, shot: Shot, prediction: Prediction | None) -> None:
        """Draw the next shot and what it is expected to do."""
