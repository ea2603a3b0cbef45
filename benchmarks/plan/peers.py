"""A rehearsal that keeps the truth about every stroke for the score, and says nothing of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.plan.conditions import hidden_twin
from cue_agent.peers import ArmResult, FitRequest, FitResult
from cue_agent.reach import reach_of
from cue_agent.rehearsal import Rehearsal
from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.shots import Shot
from cue_identify import fit as identify
from cue_identify.errors import FitError
from cue_identify.replay import TwinSimulator
from cue_sim.config_files import config_file
from cue_sim.outlook import Outlook, outlook
from cue_sim.twin import Twin
from cue_sim.world_config import WorldConfig


@dataclass(frozen=True)
class Played:
    """One stroke.

    Attributes:
        shot: as commanded.
        seen: balls as seen before it.
        before: (2,) true places of the balls in play [m].
        after: (2,) true places of all balls.
        pocketed: ids of the balls that it pocketed.
    """

    shot: Shot
    seen: tuple[BallState, ...]
    before: Mapping[int, np.ndarray]
    after: Mapping[int, np.ndarray]
    pocketed: tuple[int, ...]


@dataclass
class Recorder(Rehearsal):
    """See :class:`cue_agent.rehearsal.Rehearsal`.

    Attributes:
        played: every stroke, by shot id.
        fit_seconds: processor time of each fit.
    """

    played: dict[str, Played] = field(default_factory=dict)
    fit_seconds: list[float] = field(default_factory=list)

    def strike(self, shot: Shot, resumed: bool) -> ArmResult:
        """See :class:`cue_agent.peers.Peers`."""
        seen, gone, count = self.scene().balls, len(self.pocketed), len(self.struck)
        before = {i: p.copy() for i, p in self.balls.items() if i not in self.pocketed}
        result = super().strike(shot, resumed)
        if len(self.struck) > count:
            after = {i: p.copy() for i, p in self.balls.items()}
            self.played[shot.shot_id] = Played(shot, seen, before, after, tuple(self.pocketed[gone:]))
        return result

    real: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hidden = hidden_twin(self.world, self.world.ball_ids)

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        began = time.process_time()
        result = self._fit_really(request) if self.real else super().fit(request, resumed)
        self.fit_seconds.append(time.process_time() - began)
        return result

    def _fit_really(self, request: FitRequest) -> FitResult:
        fitter = identify.Fitter(TwinSimulator(self.world.table, self.world.ball_ids), identify.FitConfig(threads=1))
        wanted = identify.FitRequest(
            request.shot_ids, evaluations=request.evaluations, seed=request.seed, terms=getattr(request, "terms", ())
        )
        present = self._estimates[getattr(self, "_promoted", 0)]
        try:
            outcome = fitter.fit(sorted(self._records.values(), key=lambda r: r.index), wanted, present)
        except FitError as error:
            return FitResult(int(error.code), str(error), False, None)
        self.outcomes = [*getattr(self, "outcomes", []), outcome]
        revision = max(self._estimates) + 1
        self._estimates[revision] = replace(outcome.estimate, revision=revision)
        if outcome.promoted:
            self._promoted = revision
        return FitResult(0, outcome.reason, outcome.promoted, self._estimates[revision])

    def foresee(self, shot: Played, revision: int) -> Outlook | None:
        """Return what an estimate foresees for a stroke, all that is not known before it counted; None = nothing."""
        estimate = self.estimate(revision)
        twin = Twin(self.world.table, self.world.ball_ids)
        try:
            return outlook(twin, [b for b in shot.seen if b.in_play], shot.shot, estimate)
        except CueError:
            return None


def make_peers(world: WorldConfig, robot: str = "ur5e", fit: str = "real", threads: int = 1) -> Recorder:
    """Return the other nodes of a session on a hidden table.

    Args:
        world: the table.
        robot: whose reach counts, by name; empty = the geometric rule.
        fit: ``"real"`` or ``"stand_in"``.
        threads: of the twin.
    """
    reach = reach_of(str(config_file("robots", robot)) if robot else "")(world.table)
    return Recorder(world, reach, real=fit == "real", threads=threads)
