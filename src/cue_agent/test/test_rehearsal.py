"""A whole session on the real twin as a hidden world, with the real arm's reach: short, for the rest is a study."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_agent import AgentConfig, Code, Journal, Session, make_planner
from cue_agent.journal import HELD_OUT
from cue_agent.peers import FitRequest
from cue_agent.reach import GeometricReach
from cue_agent.rehearsal import Errors, Rehearsal, hidden_twin
from cue_agent.session import Goal
from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS
from cue_core.shots import Shot
from cue_sim.predict import start_from
from cue_sim.world_config import WorldConfig

PATCH = {"patch_x": 0.0, "patch_y": 0.1, "patch_radius": 0.15, "patch_edge": 0.02, "patch_more": 0.8}
SMALL = {"candidates": 24, "shortlist": 6, "drawn": 6, "goal_shots": 3, "finalists": 2}


@pytest.fixture(scope="module")
def world():
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
    assert 0 < abs(first.achieved.tip_speed - 0.5) < 0.05, "the arm measures what it plays"
    seen = {b.ball_id: b.position for b in peers[0].scene().balls}
    assert 0 < np.linalg.norm(seen[0] - peers[0].balls[0]) < 0.005


def test_the_hidden_table_has_all_its_laws(world):
    strange = replace(world, laws={"cloth_law": "patched", "cloth_parameters": PATCH})
    plain = replace(world, cushion_offsets=np.zeros(6))
    shot, rests = Shot("s001", 0.6, 1.0), []
    for table in (world, strange, plain):
        start = start_from([BallState(0, np.zeros(2))], shot, table.parameters, table.table, (0,))
        rests.append(hidden_twin(table, (0,)).simulate(start, table.parameters).rest_positions[0])
    assert np.linalg.norm(rests[1] - rests[0]) > 2e-3 and np.linalg.norm(rests[2] - rests[0]) > 1e-4


def test_the_real_fitter_finds_the_hidden_parameters_within_its_own_error_bars(world):
    peers = Rehearsal(world, GeometricReach(world.table), Errors(lost=0.0, refused=0.0), real=True)
    shots = (Shot(f"s{k}", 0.5 + 0.02 * k, 0.3 + 1.7 * k % 6.0) for k in range(20))
    struck = [shot.shot_id for shot in shots if len(peers.struck) < 4 and peers.strike(shot, False).struck]
    assert len(struck) == 4
    result = peers.fit(FitRequest(tuple(struck), 0, 3000), False)
    assert result.code == 0 and result.promoted and peers.promoted == 1, result.message
    estimate = peers.estimate(1)
    fitted = ~estimate.frozen
    off = (estimate.values - world.parameters)[fitted] / estimate.stddevs[fitted]
    assert np.max(np.abs(off)) < 4.0 and 0.1 < np.sqrt(np.mean(off**2)) < 2.0
    (ahead,) = peers.look_ahead([Shot("next", 0.5, 1.0)], peers.scene().balls, revision=1)
    assert ahead is not None and ahead.names == tuple(np.array(list(PARAMETERS))[fitted])
    assert peers.fit(FitRequest((), 0, held_out_shot_ids=("unknown",)), False).code != 0
    assert peers.roll_back(0).estimate.revision == 2 == peers.promoted
