"""A whole session on the real twin as a hidden world, with the real arm's reach: short, for the rest is a study."""

from pathlib import Path

import numpy as np
import pytest

from cue_agent import AgentConfig, Code, Journal, Session, make_planner
from cue_agent.journal import HELD_OUT
from cue_agent.reach import GeometricReach
from cue_agent.rehearsal import Errors, Rehearsal
from cue_agent.session import Goal
from cue_core.shots import Shot

SMALL = {"candidates": 12, "shortlist": 6, "ensemble": 3}


@pytest.fixture(scope="module")
def world():
    from cue_sim.world_config import WorldConfig

    return WorldConfig.load(str(Path(__file__).parents[3] / "config" / "worlds" / "hidden.yaml"), 4)


def test_session_that_once_lost_its_cue_ball_ends_as_it_should(world):
    peers = Rehearsal(world, GeometricReach(world.table))
    journal = Journal("")
    session = Session(AgentConfig(seed=4, **SMALL), peers, make_planner("offline"), journal, lambda _table: peers.reach)
    result = session.run(Goal("explain this table"))
    assert result.code == Code.NONE, result.message
    assert result.shots_used == 12 == len(peers.struck) and 0 not in peers.pocketed
    assert len(journal.state.usable_ids(HELD_OUT)) >= 5
    assert result.calibrated_rest_error < result.unfitted_rest_error


def test_same_world_same_outcome_and_the_truth_stays_hidden(world):
    quiet = Errors(lost=0.0, refused=0.0)
    peers = [Rehearsal(world, GeometricReach(world.table), quiet) for _ in range(2)]
    for p in peers:
        p.strike(Shot("s001", 0.5, 1.0), False)
    first, second = (p.record("s001") for p in peers)
    assert first is not None and second is not None
    assert np.array_equal(first.tracks[0].position, second.tracks[0].position)
    assert first.achieved.tip_speed == 0.5, "the arm does not know its own error"
    seen = {b.ball_id: b.position for b in peers[0].scene().balls}
    assert 0 < np.linalg.norm(seen[0] - peers[0].balls[0]) < 0.005
