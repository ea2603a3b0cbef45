"""What the tools work on: one session, its limits, and what was ranked last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cue_agent.budgets import Plan, plan
from cue_agent.choice import Context, Option
from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, Action, Judgement, SessionState
from cue_agent.llm.config import LlmConfig
from cue_agent.llm.limits import Approval, Ledger
from cue_agent.llm.registry import LimitError
from cue_agent.llm.skills import Skills
from cue_agent.llm.transcript import Transcript
from cue_agent.llm.workbench import Workbench
from cue_agent.session import Session
from cue_agent.steps import Stop, next_step


@dataclass
class Workspace:
    """See the module.

    Attributes:
        image: returns the newest camera image (h, w, 3) BGR, None = there is none.
        ranked: options by the names that they were ranked under, and for which state of the table.
    """

    session: Session
    config: LlmConfig
    transcript: Transcript
    ledger: Ledger
    approval: Approval
    workbench: Workbench
    skills: Skills
    image: Callable[[], np.ndarray | None] = lambda: None
    ranked: dict[str, Option] = field(default_factory=dict)
    ranked_for: tuple[int, int] = (-1, -1)

    @property
    def state(self) -> SessionState:
        """Return the session's state."""
        return self.session.state

    @property
    def agent(self) -> AgentConfig:
        """Return the agent's settings."""
        return self.session.config

    @property
    def moment(self) -> tuple[int, int]:
        """Return what changes with the table and with the twin."""
        return len(self.state.attempts), self.state.revision

    def plan(self) -> Plan:
        """Return how what is left is shared out."""
        return plan(self.state, self.agent)

    def over(self) -> bool:
        """Tell whether exploration is over, or the session."""
        state = self.state
        if state.explored_enough or state.unplayable or state.stopped is not None:
            return True
        return isinstance(next_step(state, self.agent), Stop)

    def context(self, turn: int = 0) -> Context:
        """Return what a planner is told of the table as it is.

        Raises:
            LimitError: the cue ball is gone.
        """
        if self.session.phase != "choose":
            self.session.enter("choose", "the model explores")
        found = self.session.context(EXPLORE, len(self.state.used(EXPLORE)), turn)
        if found is None:
            raise LimitError("cue_ball", "the cue ball is not in play; nothing can be struck")
        return found

    def may_explore(self) -> None:
        """Refuse a stroke where none is left.

        Raises:
            LimitError: names the budget.
        """
        left = self.plan()
        if left.explore_left <= 0:
            used = len(self.state.used(EXPLORE))
            raise LimitError(
                left.limited_by.replace(" ", "_"),
                f"{used} strokes were played to explore and none is left; the others are kept to judge the result. "
                "Fit what is not fitted, then call finish",
            )
        if self.state.tried_in_slot >= self.agent.max_refusals:
            raise LimitError("max_refusals", f"the arm refused {self.state.tried_in_slot} strokes in a row")

    def decide(
        self, action: Action, reason: str, *, shot_id: str = "", revision: int = 0, told: dict[str, Any] | None = None
    ) -> None:
        """Pass a judgement in the model's name."""
        numbers = {"by": "model", **(told or {})}
        self.session.decide(Judgement(action, reason, numbers, shot_id=shot_id, revision=revision))

    def standing(self) -> dict[str, Any]:
        """Return where the session stands, in short."""
        state, left = self.state, self.plan()
        shots = [
            {
                "shot": a.shot.shot_id,
                "role": a.role,
                "status": a.status.value if a.status is not None else "not known yet",
                "usable": a.usable,
                "rest_error_cm": 100 * a.rest_error,
            }
            for a in state.attempts[-30:]
        ]
        return {
            "shots_used": len(state.used()),
            "shots_of_session": state.shots,
            "shots_left_to_explore": left.explore_left,
            "shots_kept_to_judge": left.held_out_left,
            "strokes": shots,
            "fits": [{"revision": f.revision, "promoted": f.promoted, "shots": len(f.shot_ids)} for f in state.fits],
            "revision_in_use": state.revision,
            "not_fitted_yet": list(state.unfitted),
            "dropped": list(state.dropped),
            "held_back": list(state.held_back),
        }

    def foreseen_trouble(self) -> str:
        """Return why the session ends now, empty = it does not."""
        step = next_step(self.state, self.agent)
        return step.reason if isinstance(step, Stop) else ""
