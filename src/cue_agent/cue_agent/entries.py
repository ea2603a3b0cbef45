"""What a journal tells of: shots, fits and judgements, as they were decided on and as they came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cue_agent.peers import NOMINAL, StrikeStatus
from cue_agent.surprise import Expectation, Residual
from cue_core.shots import Shot

EXPLORE = "explore"
HELD_OUT = "held_out"
ESCAPE = "escape"
"""Played among the held-out shots to free the cue ball; part of the budget, but neither fitted nor judged."""


class Action(Enum):
    """What a judgement may come to; see :mod:`cue_agent.judgement`."""

    SHOOT = "shoot"
    FIT = "fit"
    ENLARGE = "enlarge"
    """Fit, and let held-out evidence choose terms beyond the usual ones."""
    SHRINK = "shrink"
    """Fit the usual terms alone again."""
    PERCEIVE = "refine_perception"
    HOLD_OUT = "hold_out"
    DROP = "drop"
    ROLL_BACK = "roll_back"
    VALIDATE = "validate"
    """Explore no more: fit what is not fitted yet, then play the held-out shots."""
    STOP = "stop"

    @property
    def fits(self) -> bool:
        """True when it asks for a fit."""
        return self in (Action.FIT, Action.ENLARGE, Action.SHRINK)

    @property
    def settled_at_once(self) -> bool:
        """True when nothing but the judgement itself is to be done, so that the next one is due."""
        return self in (Action.DROP, Action.HOLD_OUT)


@dataclass
class Attempt:
    """One shot that was decided on.

    Attributes:
        shot: as commanded.
        role: :data:`EXPLORE`, :data:`HELD_OUT` or :data:`ESCAPE`.
        revision: of the estimate when it was chosen.
        status: None = not known yet.
        message: what went wrong.
        struck: the tip passed the ball, as the arm says.
        usable: its record can be fitted.
        rest_error: of the prediction with the estimate of that time [m], NaN = not known.
        expected: what was stated before it, None = nothing was.
        residual: how far the outcome lay outside of that.
        gain: that was expected of it towards the goal [nat], NaN = not known.
        goal_error: that ignorance of the parameters was thought to cause on typical shots then [m], NaN = not known.
        scatter: of its outcome for known parameters, rms over the balls that move [m].
        simulated: shots simulated to choose it.
        seconds: of wall time that it took, its choice included.
        flags: of its record.
    """

    shot: Shot
    role: str
    revision: int
    status: StrikeStatus | None = None
    message: str = ""
    struck: bool = False
    usable: bool = False
    rest_error: float = float("nan")
    expected: Expectation | None = None
    residual: Residual | None = None
    gain: float = float("nan")
    goal_error: float = float("nan")
    scatter: float = 0.0
    simulated: int = 0
    began: float = 0.0
    seconds: float = 0.0
    flags: tuple[str, ...] = ()

    @property
    def spent(self) -> bool:
        """True when it used up a shot of the budget."""
        return self.struck or (self.status is not None and self.status.used)


@dataclass
class FitRound:
    """One fit that was decided on.

    Attributes:
        shot_ids: fitted.
        seed: of its search.
        final: no exploration comes after it.
        done: its result is known.
        code: of ``IdentifyParameters``.
        promoted: the twin uses it.
        revision: of its estimate.
        message: why it failed, or was promoted or not.
        terms: asked for: empty, or "auto".
        held_out_ids: shots that only judged.
        parameters: fitted; before the fit, those asked for, empty = the usual ones.
        evaluations: simulated shots granted, 0 = the fitter's default.
        chosen: its parameters go back to terms that held-out evidence chose.
        seconds: of wall time.
        after: count of attempts before it.
    """

    shot_ids: tuple[str, ...]
    seed: int
    final: bool
    done: bool = False
    code: int = 0
    promoted: bool = False
    revision: int = NOMINAL
    message: str = ""
    terms: tuple[str, ...] = ()
    held_out_ids: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    evaluations: int = 0
    chosen: bool = False
    began: float = 0.0
    seconds: float = 0.0
    after: int = 0


@dataclass(frozen=True)
class Judgement:
    """One decision and its reason.

    Attributes:
        action: what is to be done.
        reason: for people.
        numbers: that led to it.
        shot_id: the shot that it is about, empty = none.
        revision: to roll back to.
    """

    action: Action
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    shot_id: str = ""
    revision: int = NOMINAL

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        about = {"shot_id": self.shot_id} if self.shot_id else {}
        to = {"revision": self.revision} if self.action is Action.ROLL_BACK else {}
        return {"action": self.action.value, **about, **to, "reason": self.reason, "numbers": dict(self.numbers)}
