"""A rehearsal that keeps the truth about every stroke for the score, and says nothing of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cue_agent.peers import ArmResult, FitRequest, FitResult, Foresight, TwinError
from cue_agent.reach import Reach, reach_of
from cue_agent.rehearsal import Rehearsal
from cue_core.balls import BallState
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.config_files import config_file
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

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """See :class:`cue_agent.peers.Peers`."""
        began = time.process_time()
        result = super().fit(request, resumed)
        self.fit_seconds.append(time.process_time() - began)
        return result

    def foresee(self, shot: Played, revision: int) -> Foresight | None:
        """Return what an estimate foresaw for a stroke, from the balls as seen before it; None = nothing."""
        try:
            (found,) = self.look_ahead([shot.shot], shot.seen, revision=revision)
        except TwinError:
            return None
        return found


def make_peers(world: WorldConfig, robot: str = "ur5e", real: bool = True, threads: int = 1) -> Recorder:
    """Return the other nodes of a session on a hidden table.

    Args:
        world: the table.
        robot: whose reach counts, by name; empty = the geometric rule.
        real: fit the records; otherwise the estimates are made up.
        threads: of simulations.
    """
    return Recorder(world, reach(world.table, robot), real=real, threads=threads)


def reach(table: TableModel, robot: str = "ur5e") -> Reach:
    """Return where an arm reaches; made once for a robot and a table, which takes a minute."""
    return reach_of(str(config_file("robots", robot)) if robot else "")(table)
