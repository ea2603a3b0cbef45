"""The Gymnasium environments: the library's own checker, the twin behind them, batching, seeds, ends, refusals."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.export import save_twin
from cue_sim.gym import ENVIRONMENT_ID, ActionError, EpisodeError, TableEnv, TableVectorEnv, Transition
from cue_sim.predict import start_from
from cue_sim.twin import Twin

ROOT = Path(__file__).parents[3]
SMALL = TableModel.load(config_file("tables", "small"))
NAMES = list(PARAMETERS)
SPREAD = {"sliding_friction": 0.02, "cushion_restitution": 0.03}
NOISE = {"speed": 0.02, "azimuth": 0.004, "offset": 0.02}
FAST_LEFT = np.array([0.5, 1.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A run folder with the twin of a table with one light ball, and its positions."""
    folder = tmp_path_factory.mktemp("run")
    stddev = np.zeros(len(NAMES))
    stddev[NAMES.index("rolling_friction")] = 0.001
    values = nominal_values()
    values[NAMES.index("rolling_friction")] = 0.013
    estimate = replace(ParameterEstimate.nominal(), revision=3, values=values, covariance=np.diag(stddev**2))
    twin = Twin(SMALL, (0, 2, 5), masses={2: 0.045}, largest_step=0.01, extras={"rolling_slope": 0.1})
    balls = [BallState(b, np.array(p)) for b, p in ((0, (-0.3, 0.0)), (2, (0.1, 0.02)), (5, (0.3, -0.1)))]
    save_twin(folder / "twin.json", twin, estimate, balls)
    return folder


def play(env, seed, shots=6):
    """Return all that a few random shots gave."""
    seen = [env.reset(seed=seed)]
    env.action_space.seed(seed)
    for _ in range(shots):
        *rest, _info = result = env.step(env.action_space.sample())
        seen.append(result)
        if rest[2] or rest[3]:
            seen.append(env.reset())
    return tuple(seen)


def test_the_librarys_own_checker_finds_nothing_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(ENVIRONMENT_ID).unwrapped)
        hard = {"units": "physical", "goal_ball": None, "spread": SPREAD, "strike_noise": NOISE, "max_shots": 3}
        check_space = gymnasium.make(ENVIRONMENT_ID, table="7ft", balls=16, speed=(0.5, 8.0), **hard)
        with pytest.warns(UserWarning, match="symmetric and normalized"):  # physical units are the user's choice
            check_env(check_space.unwrapped, skip_render_check=True)


def test_it_is_registered_with_both_entry_points():
    with gymnasium.make(ENVIRONMENT_ID, balls=2) as env:
        assert isinstance(env.unwrapped, TableEnv)
        assert env.unwrapped.game.ground.twin.ball_ids == (0, 1)
    envs = gymnasium.make_vec(ENVIRONMENT_ID, num_envs=3, balls=2, max_episode_steps=4)
    assert isinstance(envs, TableVectorEnv) and envs.games[0].options.max_shots == 4
    envs.close()


@pytest.mark.parametrize("units", ["normalised", "physical"])
def test_a_step_is_the_twins_own_trajectory(calibrated, units):
    env = TableEnv(twin=calibrated, layout="observed", units=units, speed=(0.2, 2.2), goal_ball=5, goal=(0.0, 0.1))
    env.reset(seed=0)
    shot = Shot("", 1.7, 0.05, 0.0, 0.14, -0.07)
    action = np.array([1.7, 0.05, 0.14, -0.07])
    if units == "normalised":
        action = np.array([0.5, 0.05 / math.pi, 0.4, -0.2])
    seen, reward, terminated, truncated, info = env.step(action)
    twin = env.game.ground.twin
    assert twin.masses[2] == 0.045 and twin.largest_step == 0.01 and twin.extras == {"rolling_slope": 0.1}
    balls = [BallState(b, np.array(p)) for b, p in ((0, (-0.3, 0.0)), (2, (0.1, 0.02)), (5, (0.3, -0.1)))]
    values = env.game.ground.estimate.values
    assert values[NAMES.index("rolling_friction")] == 0.013
    path = twin.simulate(start_from(balls, shot, values, twin.table, twin.ball_ids), values)
    assert path.contacts(1) >= 1 and not path.rest_pocketed.any()
    np.testing.assert_allclose(seen["positions"], path.rest_positions, atol=1e-9)
    assert reward == pytest.approx(-math.hypot(*(path.rest_positions[2] - [0.0, 0.1])))
    assert (info["fault"], terminated, truncated) == ("", False, False)
    np.testing.assert_allclose(info["shot"], [1.7, 0.05, 0.14, -0.07])
    assert info["events"]["ball_ball"] == path.contacts(1) and info["duration"] == pytest.approx(path.stop_time)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_vector_environment_is_many_single_ones_to_the_last_bit(mode):
    options = {"balls": 4, "spread": SPREAD, "strike_noise": NOISE, "max_shots": 3, "speed": (0.2, 3.5)}
    ours = [TableVectorEnv(5, threads=n, autoreset_mode=mode, **options) for n in (1, 3)]
    theirs = gymnasium.make_vec(
        ENVIRONMENT_ID, 5, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **options
    )
    everything = [*ours, theirs]
    assert len({str(e.observation_space) for e in everything} | {str(e.action_space) for e in everything}) == 2
    theirs.action_space.seed(4)
    ended = 0
    results = [e.reset(seed=11) for e in everything]
    for _ in range(8):
        for one in results[:2]:
            _same(one, results[2])
        actions = theirs.action_space.sample()
        results = [e.step(actions) for e in everything]
        assert results[0][0] in theirs.observation_space
        ended += int(np.sum(results[0][2] | results[0][3]))
    assert ended >= 10


def _same(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _same(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        _same(tuple(one), tuple(other))
    else:
        np.testing.assert_array_equal(one, other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)


def test_all_tables_are_simulated_in_one_batch(monkeypatch):
    envs = TableVectorEnv(7, balls=3, threads=2)
    envs.reset(seed=1)
    batches = []
    whole = Twin.simulate_batch

    def counted(self, starts, *rest, **options):
        batches.append((len(starts), options["threads"]))
        return whole(self, starts, *rest, **options)

    monkeypatch.setattr(Twin, "simulate_batch", counted)
    monkeypatch.setattr(Twin, "simulate", None)
    envs.step(envs.action_space.sample())
    assert batches == [(7, 2)]


def test_episodes_that_all_end_together_all_begin_again():
    envs = TableVectorEnv(2, balls=2, max_shots=2, goal=(0.3, 0.0), layout={0: (-0.3, 0.0), 1: (0.0, 0.1)})
    envs.reset(seed=1)
    gentle = np.tile([-1.0, 1.0, 0.0, 0.0], (2, 1))
    assert [envs.step(gentle)[3].tolist() for _ in range(2)] == [[False] * 2, [True] * 2]
    seen, rewards, terminations, truncations, infos = envs.step(gentle)
    assert infos["shots"].tolist() == [0, 0] and not (terminations | truncations).any() and not rewards.any()
    np.testing.assert_array_equal(seen["positions"][0], [[-0.3, 0.0], [0.0, 0.1]])


@pytest.mark.parametrize("table", ["carom", "9ft", "snooker"])
def test_every_table_can_be_played(table):
    envs = TableVectorEnv(8, table=table, balls=16, speed=(0.5, 6.0), max_shots=3)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(4):
        seen, *_, infos = envs.step(envs.action_space.sample())
        assert seen in envs.observation_space
        assert not any(infos.get("fault", []))


def test_a_bad_action_of_one_table_plays_none():
    envs = TableVectorEnv(3, balls=2, strike_noise=NOISE)
    before, _ = envs.reset(seed=1)
    actions = np.zeros((3, 4))
    actions[2, 1] = 1.5
    with pytest.raises(ActionError):
        envs.step(actions)
    _same({k: np.stack([g.observation()[k] for g in envs.games]) for k in before}, before)
    actions[2, 1] = 0.5
    fresh = TableVectorEnv(3, balls=2, strike_noise=NOISE)
    fresh.reset(seed=1)
    _same(envs.step(actions), fresh.step(actions))


def test_seeds_repeat_and_differ():
    options = {"balls": 5, "spread": SPREAD, "strike_noise": NOISE, "max_shots": 3}
    env = TableEnv(**options)
    first = play(env, 3)
    _same(play(env, 3), first)
    _same(play(TableEnv(**options), 3), first)
    other = play(env, 4)
    assert np.all(other[0][0]["positions"] != first[0][0]["positions"])
    assert np.any(other[0][1]["parameters"] != first[0][1]["parameters"])


def test_random_starts_are_legal():
    env = TableEnv(balls=16)
    twin = env.game.ground.twin
    for seed in range(20):
        seen, _ = env.reset(seed=seed)
        places = seen["positions"]
        apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + np.eye(16)
        assert apart.min() > 2 * SMALL.ball_radius
        assert all(SMALL.inside(p) for p in (*places, seen["goal"]))
        for pocket in SMALL.pockets:
            assert np.hypot(*(places - pocket.position).T).min() > pocket.radius
        assert seen["in_play"].all() and seen["in_play"].shape == (len(twin.ball_ids),)


def test_the_posterior_is_drawn_anew_at_each_reset(calibrated):
    env = TableEnv(twin=calibrated, posterior=True, goal_ball=2)
    drawn = np.array([env.reset(seed=k)[1]["parameters"] for k in range(200)])
    spread = drawn.std(axis=0)
    k = NAMES.index("rolling_friction")
    assert spread[k] == pytest.approx(0.001, rel=0.2) and drawn[:, k].mean() == pytest.approx(0.013, abs=3e-4)
    assert np.delete(spread, k).max() < 1e-12
    fixed = TableEnv(twin=calibrated, goal_ball=2)
    assert fixed.reset(seed=0)[1]["parameters"][k] == fixed.reset(seed=1)[1]["parameters"][k] == 0.013
    one = TableEnv(balls=2, parameters={"sliding_friction": 0.3})
    assert one.reset(seed=0)[1]["parameters"][0] == 0.3
    assert one.reset(options={"parameters": {"sliding_friction": 0.25}})[1]["parameters"][0] == 0.25


def test_strike_noise_has_the_given_size():
    env = TableEnv(balls=1, goal_ball=0, strike_noise=NOISE, max_shots=1000)
    env.reset(seed=0)
    missed = []
    for _ in range(150):
        env.reset()
        info = env.step(np.array([0.0, 0.3, 0.2, -0.1]))[-1]
        missed.append(info["stroke"] - info["shot"])
    missed = np.array(missed) / [1.35 * NOISE["speed"], NOISE["azimuth"], NOISE["offset"], NOISE["offset"]]
    np.testing.assert_allclose(missed.std(axis=0), 1.0, atol=0.2)
    np.testing.assert_allclose(missed.mean(axis=0), 0.0, atol=0.3)


def aimed(target, start, speed=0.8):
    """Return the normalised action that rolls a ball from start towards target."""
    delta = np.subtract(target, start)
    return np.array([2 * (speed - 0.2) / 2.3 - 1, math.atan2(delta[1], delta[0]) / math.pi, 0.0, 0.0])


def test_a_lost_cue_ball_ends_the_episode():
    corner = next(p.position for p in SMALL.pockets if p.name == "corner_ne")
    start = corner - 0.2
    env = TableEnv(balls=2, layout={0: start, 1: (-0.3, 0.0)}, reward="pocketed", goal_ball=None)
    env.reset(seed=0)
    seen, reward, terminated, truncated, info = env.step(aimed(corner, start))
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert seen["in_play"].tolist() == [0, 1] and seen["positions"][0].tolist() == [0.0, 0.0]
    assert info["pocketed"].tolist() == [True, False]
    with pytest.raises(EpisodeError, match="reset"):
        env.step(FAST_LEFT)


def test_a_lost_goal_ball_ends_the_episode_and_an_object_ball_pays():
    side = next(p.position for p in SMALL.pockets if p.name == "side_n")
    layout = {0: (0.0, -0.1), 1: (0.0, 0.15), 2: (0.4, 0.0)}
    for goal_ball, ends in ((1, True), (2, False), (None, False)):
        env = TableEnv(balls=3, layout=layout, reward="pocketed", goal_ball=goal_ball)
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step(aimed(side, layout[0]) - [0, 0, 0, 1.0])  # draw: it stays out
        assert info["pocketed"].tolist() == [False, True, False]
        assert (reward, terminated) == (1.0, ends)


def test_reaching_the_goal_ends_the_episode():
    env = TableEnv(balls=2, layout={0: (-0.3, 0.0), 1: (0.0, 0.1)}, goal=(0.005, 0.1), goal_tolerance=0.01)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.array([-1.0, 1.0, 0.0, 0.0]))  # away from the ball
    assert (terminated, truncated, info["is_success"]) == (True, False, True)
    assert reward == pytest.approx(-0.005)


def test_the_last_shot_truncates():
    env = TableEnv(balls=2, max_shots=2, goal=(0.3, 0.0), layout={0: (-0.3, 0.0), 1: (0.0, 0.1)})
    env.reset(seed=0)
    gentle = np.array([-1.0, 1.0, 0.0, 0.0])
    assert env.step(gentle)[2:4] == (False, False)
    assert env.step(gentle)[2:4] == (False, True)
    with pytest.raises(EpisodeError):
        env.step(gentle)


def test_m08_a_failed_simulation_is_told_and_never_looks_like_still_balls():
    """FAULTS M08: a table of impossible cushions, as a sick posterior draw would make it."""
    envs = TableVectorEnv(3, balls=2, autoreset_mode=AutoresetMode.DISABLED)
    sick = nominal_values()
    sick[NAMES.index("cushion_restitution")] = 1.6
    game = envs.games[1]
    game.ground = replace(game.ground, estimate=replace(game.ground.estimate, values=sick))
    envs.reset(seed=3)
    seen, rewards, terminations, truncations, infos = envs.step(np.tile(FAST_LEFT, (3, 1)))
    assert infos["fault"].tolist() == ["", "energy gain", ""]
    assert truncations.tolist() == [False, True, False] and not terminations[1]
    assert not seen["in_play"][1].any() and not seen["positions"][1].any()
    assert seen["in_play"][[0, 2]].any(axis=1).all()
    assert rewards[1] < min(rewards[0], rewards[2]) and rewards[1] == -math.hypot(SMALL.length, SMALL.width)
    assert [g.faults for g in envs.games] == [0, 1, 0]
    with pytest.raises(EpisodeError, match=r"\[1\]"):
        envs.step(np.tile(FAST_LEFT, (3, 1)))
    seen, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert seen["in_play"][1].all()


def test_m08_a_shot_without_rest_is_a_fault():
    env = TableEnv(balls=2, fault_reward=-7.0)
    env.reset(seed=0)
    start, values = env.game.begin(env.np_random, env.game.shot(FAST_LEFT))
    path = env.game.ground.twin.simulate(start, values, horizon=0.2)
    assert path.fault is None and math.isnan(path.rest_time)
    done = env.game.finish(path)
    assert (done.info["fault"], done.reward, done.truncated) == ("balls still move after 0.2 s", -7.0, True)
    assert not done.observation["in_play"].any()


def test_a_reward_is_any_function_of_the_shot():
    seen: list[Transition] = []

    def travelled(shot: Transition) -> float:
        seen.append(shot)
        return float(np.hypot(*(shot.after.positions[0] - shot.before.positions[0])))

    env = TableEnv(balls=2, reward=travelled)
    first, _ = env.reset(seed=1)
    second, reward, *_ = env.step(FAST_LEFT)
    assert reward == pytest.approx(math.hypot(*(second["positions"][0] - first["positions"][0])))
    assert seen[0].path.fault is None and seen[0].shot.azimuth == math.pi and seen[0].ball_ids == (0, 1)
    sick = TableEnv(balls=2, reward=lambda shot: math.nan)
    sick.reset(seed=1)
    with pytest.raises(CueError, match="finite"):
        sick.step(FAST_LEFT)


@pytest.mark.parametrize(
    "action", [[0, 1.01, 0, 0], [0, math.nan, 0, 0], [0, 0, 0], [[0, 0, 0, 0]], ["a", 0, 0, 0], None, [0, 0, -2, 0]]
)
def test_a_bad_action_is_refused_and_nothing_is_played(action):
    env = TableEnv(balls=2)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"speed -1 to 1, azimuth -1 to 1"):
        env.step(action)
    assert env.game.faults == 0 and env.step(FAST_LEFT)[-1]["shots"] == 1


def test_a_float32_policy_may_sit_on_a_bound():
    env = TableEnv(balls=2, units="physical")
    env.reset(seed=0)
    assert float(np.float32(math.pi)) > math.pi
    assert env.step(np.array([2.5, math.pi, 0.35, -0.35], np.float32))[-1]["shot"][1] == math.pi


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"ball": 3}, "unknown key ball"),
        ({"picture_size": (0, 0)}, "picture_size"),
        ({"picture_size": (640,)}, "picture_size"),
        ({"twin": "a", "table": "b"}, "not both"),
        ({"table": "12ft"}, "12ft"),
        ({"balls": [1, 2]}, "cue ball"),
        ({"balls": 17}, "balls is 17"),
        ({"goal_ball": 9}, "is 9, the table has"),
        ({"goal": (2.0, 0.0)}, "goal"),
        ({"layout": {1: (0, 0)}}, "cue ball"),
        ({"layout": {0: (0, 0), 1: (0.01, 0)}}, "ball . at"),
        ({"layout": {0: (0.9, 0)}}, "ball 0 at"),
        ({"layout": {0: (0.1, 0)}}, "goal ball 1"),
        ({"layout": "rack"}, "observed"),
        ({"layout": "observed"}, "positions"),
        ({"posterior": True}, "no covariance"),
        ({"spread": {"gravity": 1.0}}, "gravity"),
        ({"parameters": {"sliding_friction": 7.0}}, "sliding_friction is 7.0"),
        ({"speed": (2.0, 1.0)}, "slower before"),
        ({"largest_offset": 0.5}, "largest_offset"),
        ({"units": "imperial"}, "imperial"),
        ({"reward": "score"}, "goal_distance, pocketed"),
        ({"strike_noise": {"speed": -1}}, "strike_noise speed"),
        ({"max_shots": 0}, "max_shots"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, what):
    with pytest.raises(CueError, match=re.escape(what) if "." not in what else what):
        TableEnv(**options)


def test_reset_options():
    env = TableEnv(balls=3, goal_ball=2)
    seen, _ = env.reset(options={"positions": {0: (0, 0), 2: (0.2, 0.1)}, "goal": (-0.2, 0.0)})
    assert seen["in_play"].tolist() == [1, 0, 1] and seen["goal"].tolist() == [-0.2, 0.0]
    np.testing.assert_array_equal(seen["positions"], [[0, 0], [0, 0], [0.2, 0.1]])
    for wrong in (
        {"position": {}},
        {"goal": (9, 9)},
        {"positions": {7: (0, 0)}},
        {"positions": {0: (0, 0)}},
        {"parameters": {"mass": 1}},
    ):
        with pytest.raises(CueError):
            env.reset(options=wrong)


def test_a_picture_shows_the_balls_where_they_lie():
    layout = {0: (-0.3, 0.0), 3: (0.3, 0.1)}
    env = TableEnv(balls=(0, 3), layout=layout, goal_ball=0, goal=(0.0, 0.0), render_mode="rgb_array")
    env.reset(seed=0)
    both = env.render()
    assert both.shape == (400, 640, 3) and both.dtype == np.uint8
    env.reset(options={"positions": {0: layout[0]}})
    changed = np.argwhere(np.any(both != env.render(), axis=2))
    rows, columns = changed.mean(axis=0)
    assert 100 < len(changed) < 3000 and columns > 380 and rows < 200  # to the right, beyond the middle
    env.close()
    envs = gymnasium.make_vec(ENVIRONMENT_ID, 2, balls=2, render_mode="rgb_array", picture_size=(64, 48))
    envs.reset(seed=0)
    assert [p.shape for p in envs.render()] == [(48, 64, 3)] * 2
    envs.close()


def test_the_example_of_the_documentation_runs(calibrated, monkeypatch, capsys):
    """In a run folder, as the page says."""
    monkeypatch.chdir(calibrated)
    text = (ROOT / "docs" / "gym.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/gym.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out
