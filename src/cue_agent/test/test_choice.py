"""Candidates, reach, value, misfit, planners and configuration."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cue_agent.candidates import PROBES, aimed, contact_azimuth, escapes, free_path, generate
from cue_agent.config import AgentConfig
from cue_agent.hazard import in_mouth, near_rail, rest_hazards
from cue_agent.misfit import Misfit, misfit, stretches
from cue_agent.peers import NOMINAL, Prediction, Scene
from cue_agent.planners import TURNS, Context, OfflinePlanner, choose_held_out, make_planner, safe
from cue_agent.reach import Anywhere, GeometricReach, SectorReach, distance_to_nose, playable, remains_playable
from cue_agent.scores import achieved_shot, replay, score
from cue_agent.testing import TRUE_FRICTION, FakePeers, small_table, some_balls
from cue_agent.value import chaos, copies, information, pocketed, shares, worries
from cue_core.balls import BallState
from cue_core.errors import CueError, OutOfRangeError, UnknownNameError
from cue_core.shots import Shot

TABLE = small_table()
SCENE = Scene(TABLE, some_balls())
SPEEDS = (0.3, 1.2)


def scene_with(**positions):
    return Scene(TABLE, tuple(BallState(int(i[1:]), np.array(p)) for i, p in positions.items()))


def test_candidates_repeat_with_the_seed_and_are_playable():
    first = aimed(SCENE, 30, np.random.default_rng(5), SPEEDS, GeometricReach(TABLE))
    again = aimed(SCENE, 30, np.random.default_rng(5), SPEEDS, GeometricReach(TABLE))
    assert first == again and len(first) == 30
    assert all(SPEEDS[0] <= c.speed <= SPEEDS[1] for c in first)
    assert all(playable(SCENE, c.azimuth, c.speed, GeometricReach(TABLE))[0] for c in first)
    assert {c.kind for c in first} >= {"aimed", "cushion"}


@pytest.mark.parametrize("kind", PROBES)
def test_every_probe_can_be_drawn(kind):
    found = generate(SCENE, [kind], 5, np.random.default_rng(0), SPEEDS, Anywhere())
    assert found and all(c.kind == kind for c in found)


def test_contact_azimuth_meets_the_ball_as_asked():
    scene = scene_with(b0=(-0.2, 0.0), b1=(0.2, 0.0))
    assert contact_azimuth(scene, 1, 0.0) == pytest.approx(0.0)
    diameter = 2 * TABLE.ball_radius
    half = contact_azimuth(scene, 1, 0.5)
    # The target's centre lies half a diameter beside the cue ball's line, to the right of it.
    offset = np.array([0.4, 0.0])
    across = np.array([-math.sin(half), math.cos(half)])
    assert offset @ across == pytest.approx(-0.5 * diameter)
    blocked = scene_with(b0=(-0.2, 0.0), b1=(0.2, 0.0), b3=(0.0, 0.01))
    assert contact_azimuth(blocked, 1, 0.0) is None
    assert not free_path(blocked, 0.0, 0.4) and free_path(blocked, math.pi, 0.3)
    assert contact_azimuth(scene, 7, 0.0) is None


def test_geometric_reach_needs_room_behind_the_ball():
    scene = scene_with(b0=(-0.49, 0.0), b1=(0.3, 0.0))
    free, why = playable(scene, 0.0, 0.5, GeometricReach(TABLE))
    assert not free and "cushion" in why
    assert playable(scene, math.pi, 0.5, GeometricReach(TABLE))[0]
    behind = scene_with(b0=(0.0, 0.0), b1=(-0.1, 0.0))
    assert "in the cue's way" in playable(behind, 0.0, 0.5, GeometricReach(TABLE))[1]
    assert distance_to_nose(TABLE, np.array([0.1, 0.0]), np.array([1.0, 0.0])) == pytest.approx(0.43)


def test_touching_ball_bars_only_strokes_towards_it():
    scene = scene_with(b0=(0.0, 0.0), b1=(2 * TABLE.ball_radius + 0.001, 0.0))
    assert "touches" in playable(scene, 0.0, 0.5, Anywhere())[1]
    assert playable(scene, math.pi, 0.5, Anywhere())[0]


def test_sector_reach_asks_once_for_each_sector_and_speed():
    asked = []

    class Counting(Anywhere):
        def reachable(self, cue_ball, azimuth, speed, balls, elevation=0.0):
            asked.append((azimuth, speed))
            return azimuth < 1.0, ""

    reach = SectorReach(Counting())
    for azimuth in np.linspace(0, 2 * math.pi, 500):
        reach.reachable(np.zeros(2), float(azimuth), 0.5, {})
    assert len(asked) == 36
    assert reach.reachable(np.zeros(2), 0.02, 0.5, {})[0] and not reach.reachable(np.zeros(2), 3.0, 0.5, {})[0]


def test_escape_from_a_corner_raises_the_cue():
    corner = scene_with(b0=(0.5, 0.2))
    assert not remains_playable(corner, GeometricReach(TABLE), 0.7)
    found, _ = escapes(corner, GeometricReach(TABLE), 8)
    raised = [c for c in found if c.elevation > 0]
    assert raised and any(math.cos(c.azimuth) < -0.5 for c in raised), "away from the cushion"
    shot = raised[0].shot("s")
    assert shot.elevation == raised[0].elevation and shot.vertical_offset > 0


def test_escapes_say_why_other_directions_are_refused():
    class Nowhere(Anywhere):
        def raised(self, shot, cue_ball, balls):
            raise CueError("cue stem would touch north rail 12.5 mm behind")

    found, refused = escapes(scene_with(b0=(0.0, 0.26)), Nowhere(), 8)
    assert not found and sum(refused.values()) == 4 * 72
    assert "0.35 m/s: cue stem would touch north rail # mm behind" in refused


def test_rest_in_a_mouth_or_at_a_rail_is_a_hazard():
    # Where a session once ended: between the jaws of a side pocket.
    assert in_mouth(TABLE, np.array([[0.0216, 0.2617], [0.52, -0.25], [0.0, 0.2], [0.3, 0.246]])).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert near_rail(TABLE, np.array([[0.3, 0.24], [0.3, 0.2]])).tolist() == [True, False]
    sure, unsure = (rest_hazards(TABLE, [prediction((0.0, 0.22))], stddev)[0] for stddev in (0.001, 0.03))
    assert sure == 0.0 and unsure > 0.1
    gone = rest_hazards(TABLE, [prediction((0.0, 0.3), 1.0)], 0.01)
    assert gone == (0.0, 0.0), "a pocketed ball is counted elsewhere"
    middle = rest_hazards(TABLE, [prediction((0.2, 0.0))], 0.01)
    assert middle == (0.0, 0.0)
    carom = replace(TABLE, corner_mouth=0.0, side_mouth=0.0)
    assert not in_mouth(carom, np.array([[0.52, -0.25]])).any()


def test_worries_go_further_than_copies():
    found = worries(Shot("s", 1.0, 0.0), 0.1, 0.01)
    assert len({s.shot_id for s in found}) == len(found) == 16
    assert max(s.speed for s in found) == pytest.approx(math.exp(0.2))
    assert max(abs(s.azimuth) for s in found) == pytest.approx(0.02)


def test_information_of_a_line_grows_with_spread_and_dies_with_chaos():
    spread = np.diag([0.02**2, 0.0])[None]
    none = np.zeros((1, 2, 2))
    sharp = information(spread, none, 0.002)
    assert sharp == pytest.approx(0.5 * math.log(1 + 0.02**2 / 0.002**2))
    assert information(4 * spread, none, 0.002) > sharp
    assert information(spread, np.eye(2)[None] * 0.1**2, 0.002) < 0.05 * sharp
    assert information(none, none, 0.002) == 0.0 == information(np.zeros((0, 2, 2)), np.zeros((0, 2, 2)), 0.002)


def prediction(rest, pocket=0.0, **changes):
    rest = np.array([rest], float)
    return replace(Prediction("s", (0,), rest, np.zeros((1, 2, 2)), np.array([pocket])), **changes)


def test_chaos_is_the_covariance_of_one_standard_deviation():
    assert [c.shot_id for c in copies(Shot("s", 1.0, 0.0), 0.1, 0.01)] == ["s:0", "s:1", "s:2", "s:3"]
    around = [prediction((1.1, 0)), prediction((0.9, 0)), prediction((1, 0.2)), prediction((1, -0.2))]
    assert chaos(prediction((1, 0)), around)[0] == pytest.approx(np.diag([0.1**2, 0.2**2]))


def test_pocket_risk_weighs_ensemble_and_copies():
    cue, any_ball = pocketed([(prediction((0, 0), 0.25), 4.0), (prediction((0, 0), 1.0), 1.0)])
    assert cue == pytest.approx(0.4) == any_ball
    two = Prediction("s", (0, 3), np.zeros((2, 2)), np.zeros((2, 2, 2)), np.array([0.5, 0.5]))
    assert pocketed([(two, 1.0)]) == (pytest.approx(0.5), pytest.approx(0.75))


def test_shares_ignore_balls_out_of_play():
    assert shares(scene_with(b0=(0.0, 0.0)), prediction((0.4, 0.3)))["roll"] == pytest.approx(0.5)
    assert shares(scene_with(b1=(0.0, 0.0)), prediction((0.4, 0.3)))["roll"] == 0.0


def recorded(shot, balls=None):
    peers = FakePeers(balls=balls or some_balls(), estimates={NOMINAL: 0.5, 1: TRUE_FRICTION})
    peers.strike(shot, False)
    return peers, peers.records[shot.shot_id]


def test_stretches_are_told_apart():
    _, record = recorded(Shot("s", 0.9, math.pi), some_balls()[:1])
    assert [kind for kind, _, _ in stretches(record, TABLE)][:2] == ["roll", "cushion"]
    balls = (BallState(0, np.array([-0.2, 0.0])), BallState(1, np.array([0.1, 0.0])))
    _, record = recorded(Shot("s", 0.7, 0.0), balls)
    kinds = {(track.ball_id, kind) for kind, track, _ in stretches(record, TABLE)}
    assert (0, "roll") in kinds and (1, "ball") in kinds


def test_misfit_vanishes_for_the_truth_only():
    peers, record = recorded(Shot("s", 0.9, math.pi), some_balls()[:1])
    wrong = misfit([(record, replay(peers, record, NOMINAL))], TABLE)
    right = misfit([(record, replay(peers, record, 1))], TABLE)
    assert wrong["roll"].growth > 0.05 and right["roll"].growth < 0.01
    assert wrong["ball"] == Misfit(0.0, 0)


def test_score_of_the_truth_is_zero_and_uses_the_achieved_stroke():
    peers, record = recorded(Shot("s", 0.8, 0.9))
    assert score(record, replay(peers, record, 1)).rest_error < 1e-9
    assert score(record, replay(peers, record, NOMINAL)).rest_error > 0.01
    moved = replace(record, achieved=replace(record.achieved, tip_speed=0.4))
    assert achieved_shot(moved).speed == 0.4
    with pytest.raises(ValueError, match="no measured stroke"):
        achieved_shot(replace(record, achieved=None))


def context(peers, **changes):
    values = dict(
        scene=Scene(peers.table, peers.balls),
        slot=3,
        held_out_slot=0,
        revision=NOMINAL,
        explained=(),
        twin=peers,
        reach=GeometricReach(TABLE),
        turn=0,
        rng=np.random.default_rng(1),
        config=AgentConfig(candidates=24, shortlist=6, ensemble=4),
    )
    return Context(**{**values, **changes})


def test_choice_is_within_the_limits_ranked_and_explained():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    choice = OfflinePlanner().choose(context(peers, revision=1))
    assert choice.options
    values = [o.value for o in choice.options]
    assert [v.utility for v in values] == sorted((v.utility for v in values), reverse=True)
    assert all(safe(v, AgentConfig()) for v in values)
    assert any(v.information > 0 for v in values)
    assert "utility" in choice.options[0].reason and choice.numbers["proposed"] == 24
    assert set(choice.options[0].to_dict()) >= {"speed", "azimuth", "utility", "pocket_cue", "scatter"}


def test_budget_is_in_simulated_shots():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    OfflinePlanner().choose(context(peers, revision=1))
    assert peers.simulated <= 24 + 6 * (4 + 4 + 16)


def test_probe_is_played_as_meant():
    peers = FakePeers()
    for slot, kind in enumerate(PROBES[:3]):
        config = AgentConfig(candidates=40, shortlist=6)
        choice = OfflinePlanner().choose(context(peers, slot=slot, config=config))
        assert choice.options[0].candidate.kind == kind


def test_held_out_shots_must_touch_every_other_time_and_are_no_lottery():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    config = AgentConfig(shortlist=12)
    must = choose_held_out(context(peers, revision=1, config=config))
    assert must.options
    assert all(o.value.ball_contacts + o.value.cushion_contacts > 0 for o in must.options)
    free = choose_held_out(context(peers, revision=1, held_out_slot=1, config=config))
    assert len(free.options) >= len(must.options)
    strict = AgentConfig(shortlist=12, max_held_out_scatter=0.0)
    assert not choose_held_out(context(peers, revision=1, config=strict)).options
    assert choose_held_out(context(peers, revision=1, config=strict, turn=TURNS - 1)).options


@pytest.mark.parametrize("planner", ["offline", "random", "script"])
def test_planners_never_choose_to_lose_the_cue_ball(planner):
    # The cue ball lies before a corner pocket.
    peers = FakePeers(balls=(BallState(0, np.array([0.40, 0.18])), BallState(1, np.array([0.46, 0.22]))))
    # Not in the last turn, in which any shot is better than none.
    turns = range(TURNS - 1)
    options = [o for turn in turns for o in make_planner(planner).choose(context(peers, turn=turn)).options]
    assert all(o.value.pocket_cue + o.value.mouth < 0.5 for o in options)
    assert make_planner(planner).choose(context(peers, turn=TURNS - 1)).options


def test_unknown_planner_and_bad_settings_are_refused():
    with pytest.raises(UnknownNameError, match="offline"):
        make_planner("best")
    with pytest.raises(CueError, match="available are offline"):
        AgentConfig(planner="llm")
    with pytest.raises(CueError, match="available are offline"):
        AgentConfig(planner="x")
    with pytest.raises(OutOfRangeError, match="held_out_shots"):
        AgentConfig(shots=5, held_out_shots=5)
    with pytest.raises(OutOfRangeError, match="speed_min"):
        AgentConfig(speed_min=1.0, speed_max=0.5)
