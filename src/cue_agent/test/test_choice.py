"""Candidates, reach, what a shot is worth, planners and configuration."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cue_agent.candidates import PROBES, aimed, contact_azimuth, escapes, free_path, generate, mixed, propose
from cue_agent.config import AgentConfig
from cue_agent.hazard import in_mouth, near_rail, rest_hazards
from cue_agent.knowledge import Knowledge, lesson, quiet, strew, typical_goal
from cue_agent.lookahead import Thought, future
from cue_agent.peers import NOMINAL, Foresight, Scene
from cue_agent.planners import TURNS, Context, OfflinePlanner, choose_held_out, make_planner, safe
from cue_agent.promise import Promise
from cue_agent.reach import Anywhere, GeometricReach, SectorReach, distance_to_nose, playable, remains_playable
from cue_agent.scores import achieved_shot, replay, score
from cue_agent.surprise import Residual, Surprise
from cue_agent.testing import TRUE_FRICTION, FakePeers, small_table, some_balls
from cue_agent.value import evaluate, members, outcome, stirs_cluster, to_come, worth
from cue_core.balls import BallState
from cue_core.errors import CueError, OutOfRangeError, UnknownNameError
from cue_core.information import after, expected_gain, goal_gain
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


@pytest.mark.parametrize("kind", ["combination", "slow", "spin"])
def test_every_further_kind_can_be_drawn(kind):
    rng = np.random.default_rng(2)
    found = [c for c in (propose(SCENE, kind, rng, SPEEDS) for _ in range(200)) if c is not None]
    assert found and all(c.kind == kind for c in found)
    if kind == "spin":
        assert 0.1 < max(math.hypot(c.side_offset, c.vertical_offset) for c in found) <= 0.35
        assert found[0].shot("s").side_offset == found[0].side_offset != 0.0


def test_combination_sends_the_first_ball_at_the_second():
    scene = scene_with(b0=(-0.3, 0.0), b1=(0.0, 0.05), b3=(0.3, 0.1))
    rng = np.random.default_rng(0)
    found = [c for c in (propose(scene, "combination", rng, SPEEDS) for _ in range(40)) if c is not None]
    first = next(c for c in found if c.target == 1)
    # Where the cue ball's centre is when it touches ball 1: the line from there through ball 1 meets ball 3.
    way, target = np.array([math.cos(first.azimuth), math.sin(first.azimuth)]), np.array([0.3, 0.05])
    along = float(target @ way)
    aside = np.linalg.norm(target - along * way)
    ghost = way * (along - math.sqrt((2 * TABLE.ball_radius) ** 2 - aside**2))
    sent, wanted = target - ghost, np.array([0.3, 0.05])
    assert math.atan2(sent[1], sent[0]) == pytest.approx(math.atan2(wanted[1], wanted[0]), abs=1e-6)
    mix = mixed(SCENE, 200, np.random.default_rng(1), SPEEDS, Anywhere())
    assert {c.kind for c in mix} == {"aimed", "combination", "cushion", "roll", "slow", "spin", "random"}


def test_rest_in_a_mouth_or_at_a_rail_is_a_hazard():
    # Where a session once ended: between the jaws of a side pocket.
    assert in_mouth(TABLE, np.array([[0.0216, 0.2617], [0.52, -0.25], [0.0, 0.2], [0.3, 0.246]])).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert near_rail(TABLE, np.array([[0.3, 0.24], [0.3, 0.2]])).tolist() == [True, False]
    stays = np.zeros(1, bool)
    sure, unsure = (rest_hazards(TABLE, np.array([[0.0, 0.22]]), stays, stddev)[0] for stddev in (0.001, 0.03))
    assert sure == 0.0 and unsure > 0.1
    assert rest_hazards(TABLE, np.array([[0.0, 0.3]]), ~stays, 0.01) == (0.0, 0.0), "a pocketed ball counts elsewhere"
    assert rest_hazards(TABLE, np.array([[0.2, 0.0]]), stays, 0.01) == (0.0, 0.0)
    carom = replace(TABLE, corner_mouth=0.0, side_mouth=0.0)
    assert not in_mouth(carom, np.array([[0.52, -0.25]])).any()


def test_gain_towards_a_goal_ignores_what_the_goal_does_not_need():
    covariance, goal = np.diag([4.0, 9.0]), np.diag([1.0, 0.0])
    of_the_first, of_the_second = np.diag([0.75, 0.0]), np.diag([0.0, 100.0])
    assert goal_gain(of_the_first, covariance, goal) == pytest.approx(0.5 * math.log(4.0))
    assert goal_gain(of_the_second, covariance, goal) == pytest.approx(0.0)
    assert expected_gain(of_the_second, covariance) > expected_gain(of_the_first, covariance)
    assert after(of_the_first, covariance) == pytest.approx(np.diag([1.0, 9.0]))
    assert goal_gain(of_the_first, covariance, 0 * goal) == 0.0, "without a goal nothing can be gained"
    # A direction in which nothing was learnt yet: the shot that identifies it is worth more than the sharper one.
    product, known = np.array([[1.0, 1.0], [1.0, 1.0]]) * 1e4, np.eye(2)
    left = after(product, known)
    assert goal_gain(np.diag([10.0, 0.0]), left, np.eye(2)) > goal_gain(product, left, np.eye(2)) + 0.1


def foresight(rests, pocketed=None, **changes):
    """Return what a shot of ball 0, and of 1 where there is a second column, may do; one parameter."""
    rests = np.array(rests, float)
    gone = np.zeros(rests.shape[:2], bool) if pocketed is None else np.array(pocketed, bool)
    values = dict(
        shot_id="s",
        ball_ids=tuple(range(rests.shape[1])),
        rest=rests.mean(axis=0),
        rest_covariance=np.zeros((rests.shape[1], 2, 2)),
        pocket_probability=gone.mean(axis=0),
        rests=rests,
        pocketed=gone,
        names=("rolling_friction",),
        information=np.eye(1),
        sensitivity=np.eye(1),
        covariance=np.eye(1),
        scatter=0.0,
    )
    return Foresight(**{**values, **changes})


KNOWN = Knowledge(("rolling_friction",), np.eye(1), np.eye(1))


def test_worth_is_gain_less_chaos_and_frozen_clusters():
    scene = scene_with(b0=(0.0, 0.0), b1=(0.2, 0.0), b3=(0.2 + 2 * TABLE.ball_radius, 0.0))
    free = foresight([[(0.0, 0.2), (0.2, 0.0), tuple(scene.balls[2].position)]], ball_ids=(0, 1, 3))
    stirred = foresight([[(0.1, 0.0), (0.3, 0.0), (0.4, 0.0)]], ball_ids=(0, 1, 3))
    assert worth(scene, 0.5, free, KNOWN, Surprise())[0] == pytest.approx(0.5 * math.log(2.0))
    assert stirs_cluster(scene, stirred) and not stirs_cluster(scene, free)
    assert worth(scene, 0.5, stirred, KNOWN, Surprise())[0] < 0.12, (
        "B04: contacts in a frozen cluster are modelled wrong"
    )
    chaotic = replace(free, scatter=0.2)
    assert worth(scene, 0.5, chaotic, KNOWN, Surprise())[0] == pytest.approx(0.5 * math.log(1.5))
    assert quiet(0.0) == 1.0 and quiet(0.05) == pytest.approx(0.5)
    assert lesson(chaotic)[0, 0] == pytest.approx(0.5), "its information has lost what chaos takes already"


def test_surprise_pays_where_outcomes_lay_outside_what_was_stated():
    scene = scene_with(b0=(0.0, 0.0))
    off = Surprise([Residual("a", {"cushion": 1.0}, {0: 20.0}, {}), Residual("b", {"cushion": 1.0}, {0: 20.0}, {})])
    rail = foresight([[(0.0, 0.2)]], cushion_contacts=2)
    roll = foresight([[(0.0, 0.2)]])
    _, surprised, fresh = worth(scene, 0.5, rail, KNOWN, off)
    assert surprised > 0.2 and worth(scene, 0.5, roll, KNOWN, off)[1] == 0.0
    assert worth(scene, 0.5, rail, KNOWN, Surprise())[2] > fresh > 0, "novelty wears off"


def test_price_is_what_is_still_to_come():
    assert to_come(0.5, 1) == pytest.approx(0.5) and to_come(0.5, 0) == 0.0
    assert 0.5 < to_come(0.5, 10) < 5.0
    scene = scene_with(b0=(0.0, 0.0), b1=(0.2, 0.1))
    rests = [[(0.1, 0.0), (0.2, 0.1)]] * 4

    def price(pocketed, still):
        found = evaluate(scene, 0.5, foresight(rests, pocketed), (1.0, 0, 0), still, 1e-3, Anywhere(), 0.25)
        assert found.utility == pytest.approx(1.0 - found.price)
        return found

    none, cue, other = (price([[a, b], *[[0, 0]] * 3], 2.0) for a, b in ((0, 0), (1, 0), (0, 1)))
    assert none.price == 0.0 and cue.price == pytest.approx(0.25 * 3.0) and other.price == pytest.approx(0.25 * 1.0)
    assert cue.pocket_cue == other.pocket_any == 0.25 and other.pocket_cue == 0.0
    assert price([[1, 0], *[[0, 0]] * 3], 0.5).price < cue.price, "late in a session a ball is worth less"


def test_outcomes_stand_for_the_ensemble():
    scene = scene_with(b0=(0.0, 0.0), b1=(0.2, 0.1))
    rests = [[(0.01 * i, 0.0), (0.2, 0.1)] for i in range(9)]
    seen = foresight(rests, [[i == 8, i == 4] for i in range(9)])
    chosen = members(seen, 3)
    assert len(set(chosen)) == 3 and 8 not in chosen, "outcomes without a cue ball are no place to go on from"
    assert {min(chosen), max(chosen)} == {1, 6}
    left = outcome(scene, seen, 4)
    assert left.cue_ball.position[0] == pytest.approx(0.04) and not left.object_balls
    assert members(foresight(rests, [[1, 0]] * 9), 3) == []


def test_future_is_less_where_little_can_be_played():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: TRUE_FRICTION})
    promise = Promise.of(np.zeros((2, 19)), [0.1, 0.1])

    def ahead(reach):
        rng = np.random.default_rng(3)
        seen = foresight([[b.position for b in peers.balls]] * 2, ball_ids=tuple(b.ball_id for b in peers.balls))
        known = replace(KNOWN, covariance=np.eye(1) * 0.04)
        return future(SCENE, seen, known, promise, Surprise(), peers, 1, SPEEDS, reach, rng, 0.15, Thought(2, 12, 2))

    class Nowhere(Anywhere):
        def reachable(self, cue_ball, azimuth, speed, balls, elevation=0.0):
            return math.cos(azimuth) > 0.95, ""

    free, tight = ahead(Anywhere()), ahead(Nowhere())
    assert free.value > 0 and free.playable > 0.4
    assert tight.value < free.value
    assert ahead(Anywhere()) == free, "same draws, same thought"


def test_promise_finds_what_teaches():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 19))
    promise = Promise.of(rows, 1.0 + 0.3 * rows[:, 2])
    assert promise.explained > 0.95
    assert promise(np.eye(19)[2:3])[0] > promise(np.zeros((1, 19)))[0] + 0.2
    assert Promise.of(rows[:1], [0.5])(rows)[:5] == pytest.approx([0.5] * 5)


def test_goal_is_made_of_typical_shots_and_strewn_balls_do_not_touch():
    balls = strew(TABLE, range(6), np.random.default_rng(0))
    places = np.array([b.position for b in balls])
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[~np.eye(6, dtype=bool)]
    assert len(balls) == 6 and gaps.min() > 2 * TABLE.ball_radius and all(TABLE.inside(p) for p in places)
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: TRUE_FRICTION})

    def known(revision):
        ask = lambda shots, balls: peers.look_ahead(shots, balls, revision=revision)  # noqa: E731
        return typical_goal(TABLE, range(6), SPEEDS, 8, np.random.default_rng(1), ask)

    assert 0 < known(1).error < known(NOMINAL).error
    assert (
        typical_goal(TABLE, range(6), SPEEDS, 8, np.random.default_rng(1), lambda shots, _b: [None] * len(shots))
        is None
    )


def recorded(shot, balls=None):
    peers = FakePeers(balls=balls or some_balls(), estimates={NOMINAL: 0.5, 1: TRUE_FRICTION})
    peers.strike(shot, False)
    return peers, peers.records[shot.shot_id]


def test_score_of_the_truth_is_zero_and_uses_the_achieved_stroke():
    peers, record = recorded(Shot("s", 0.8, 0.9))
    assert score(record, replay(peers, record, 1)).rest_error < 1e-9
    assert score(record, replay(peers, record, NOMINAL)).rest_error > 0.01
    moved = replace(record, achieved=replace(record.achieved, tip_speed=0.4))
    assert achieved_shot(moved).speed == 0.4
    with pytest.raises(ValueError, match="no measured stroke"):
        achieved_shot(replace(record, achieved=None))


SMALL = AgentConfig(candidates=40, shortlist=10, drawn=8, goal_shots=4, finalists=2)


def context(peers, **changes):
    values = dict(
        scene=Scene(peers.table, peers.balls),
        slot=3,
        held_out_slot=0,
        revision=NOMINAL,
        twin=peers,
        reach=GeometricReach(TABLE),
        turn=0,
        rng=np.random.default_rng(1),
        config=SMALL,
    )
    return Context(**{**values, **changes})


def test_choice_is_within_the_limits_ranked_and_explained():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    lines = []
    choice = OfflinePlanner().choose(context(peers, revision=1, progress=lines.append))
    assert len(choice.options) > 2
    values = [o.value for o in choice.options]
    ahead, others = values[:2], values[2:]
    assert [v.utility for v in others] == sorted((v.utility for v in others), reverse=True)
    assert ahead[0].utility >= ahead[1].utility and all(v.future > 0 for v in ahead)
    assert all(safe(v, AgentConfig()) for v in values)
    best = values[0]
    assert best.utility == pytest.approx(best.gain + best.surprise + best.novelty + best.future - best.price)
    assert best.gain > 0 and choice.numbers["goal_error"] > 0
    assert "utility" in choice.options[0].reason and choice.numbers["proposed"] == 40
    assert set(choice.options[0].to_dict()) >= {"speed", "azimuth", "utility", "gain", "pocket_cue", "scatter"}
    assert choice.options[0].foresight.ball_ids == tuple(b.ball_id for b in peers.balls)
    assert any("typical" in t for t in lines) and any("further" in t for t in lines)
    again = OfflinePlanner().choose(context(peers, revision=1))
    assert [o.candidate for o in again.options] == [o.candidate for o in choice.options]


def test_thinking_can_be_broken_off_between_chunks():
    class StopError(Exception):
        pass

    def stop(text):
        if "further" in text:
            raise StopError

    with pytest.raises(StopError):
        OfflinePlanner().choose(context(FakePeers(), progress=stop))


def test_budget_is_in_simulated_shots():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    OfflinePlanner().choose(context(peers, revision=1))
    thought = Thought()
    further = 2 * thought.outcomes * (thought.proposals + 7 * thought.replies)
    assert 60 < peers.simulated <= 40 + 7 * (10 + 4) + further


def test_first_shot_needs_no_fit_and_misfit_follows_surprise():
    choice = OfflinePlanner().choose(context(FakePeers(), slot=0))
    assert choice.options and choice.options[0].value.gain > 0
    off = Surprise([Residual("a", {"cushion": 1.0}, {0: 60.0}, {}), Residual("b", {"cushion": 1.0}, {0: 60.0}, {})])
    chased = make_planner("misfit").choose(context(FakePeers(), surprise=off)).options[0]
    assert chased.value.gain == 0.0 and chased.value.surprise > 0 and chased.value.cushion_contacts > 0


def test_script_plays_each_probe_as_meant():
    peers = FakePeers()
    for slot, kind in enumerate(PROBES[:3]):
        choice = make_planner("script").choose(context(peers, slot=slot))
        assert choice.options[0].candidate.kind == kind


def test_held_out_shots_must_touch_every_other_time_and_are_no_lottery():
    peers = FakePeers(estimates={NOMINAL: 0.5, 1: 0.8})
    config = replace(SMALL, drawn=12)
    must = choose_held_out(context(peers, revision=1, config=config))
    assert must.options
    assert all(o.value.ball_contacts + o.value.cushion_contacts > 0 for o in must.options)
    free = choose_held_out(context(peers, revision=1, held_out_slot=1, config=config))
    assert len(free.options) >= len(must.options)
    strict = replace(config, max_held_out_scatter=0.0)
    assert not choose_held_out(context(peers, revision=1, config=strict)).options
    assert choose_held_out(context(peers, revision=1, config=strict, turn=TURNS - 1)).options


@pytest.mark.parametrize("planner", ["offline", "random", "script", "misfit"])
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
    with pytest.raises(CueError, match="available are offline, random"):
        AgentConfig(planner="x")
    with pytest.raises(OutOfRangeError, match="held_out_shots"):
        AgentConfig(shots=5, held_out_shots=5)
    with pytest.raises(OutOfRangeError, match="speed_min"):
        AgentConfig(speed_min=1.0, speed_max=0.5)
