"""The match model, its fit, the scores and the benchmark, on recordings made up with known terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import OutOfRangeError, UnknownNameError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.real_shots import (
    MATCH_TABLE,
    TERMS,
    FitConfig,
    MatchModel,
    Striker,
    TooFewTracksError,
    Track,
    benchmark,
    extract_tracks,
    fit,
    halves,
    read_shots,
    score_tracks,
    summarise,
    terms_of,
)
from cue_identify.real_shots.baselines import fit_mirror, mirror
from cue_identify.real_shots.descent import descend_each
from cue_identify.real_shots.hits import Hits
from cue_identify.real_shots.model import start_states
from cue_identify.real_shots.synthetic import record_shots, write_recording
from cue_identify.real_shots.watched import watch
from cue_sim import laws
from cue_sim.laws import Laws
from cue_sim.laws.evaluate import BallImpact
from cue_sim.twin import Start

REAL = Path(__file__).parents[4] / "shared/data/real_shots/visible.jsonl.gz"
TRUTH = {
    "sliding_friction": 0.17,
    "rolling_friction": 0.0095,
    "cushion_restitution": 0.75,
    "cushion_friction": 0.15,
    "nose_height": 0.0378,
    "line_south": 0.003,
    "line_west": 0.004,
    "ball_friction": 0.08,
}


def _start(model: MatchModel) -> np.ndarray:
    return np.array([term.start for term in model.terms])


def _truth(model: MatchModel) -> np.ndarray:
    return np.array([TRUTH.get(term.name, term.start) for term in model.terms])


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = MatchModel()
    path = tmp_path_factory.mktemp("recording") / "shots.jsonl.gz"
    write_recording(path, record_shots(model, _truth(model), 30, np.random.default_rng(3)))
    return path


@pytest.fixture(scope="module")
def tracks(recording: Path) -> list[Track]:
    return extract_tracks(read_shots(recording))[0]


def _track(striker: Striker | None, direction: float = 0.3) -> Track:
    ahead = np.array([math.cos(direction), math.sin(direction)])
    times = np.array([0.5, 1.0])
    return Track(
        shot_id=1,
        ball="red",
        hit_time=0.0,
        hit_speed=1.0,
        direction=direction,
        start_time=0.1,
        start_position=np.zeros(2),
        start_velocity=0.8 * ahead,
        striker=striker,
        rebounds=(),
        times=times,
        positions=times[:, None] * ahead,
        rebounds_before=np.zeros(2, int),
        travel=1.0,
    )


def _spins(track: Track, friction: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    mean, factor = Hits([track]).spins(friction, 0.94, 0.2)
    return mean[0], factor[0] @ factor[0].T


def _hit(cut: float, side: float, follow: float, speed: float = 2.0) -> tuple[Striker, float, np.ndarray]:
    """Return the striker and the struck ball's speed and spin by the twin's own impact."""
    radius, mass = MATCH_TABLE.ball_radius, MATCH_TABLE.ball_mass
    # ball 1 lies along +y; the striker comes from the right for a cut to the left
    velocity = np.array([[-speed * math.sin(cut), speed * math.cos(cut)], [0, 0]])
    rolling = follow * speed / radius * np.array([-math.cos(cut), -math.sin(cut)])
    spin = np.array([[*rolling, side * speed / radius], [0, 0, 0]])
    values = nominal_values()
    values[list(PARAMETERS).index("ball_friction")] = 0.05
    values[list(PARAMETERS).index("ball_restitution")] = 0.94
    coefficients = Laws.from_parameters(values)
    after = laws.find("ball", "coulomb")(BallImpact(velocity, spin, (radius, radius), (mass, mass)), coefficients)
    left = after.velocity[1]
    throw = math.atan2(-left[0], left[1])
    struck = float(np.hypot(*left))
    return Striker(speed, cut - throw, throw, 1e-3), struck, after.spin[1]


@pytest.mark.parametrize("cut, side, follow", [(0.6, 0.0, 0.8), (-0.6, 0.0, 0.8), (0.3, 0.6, 0.8), (0.9, 1.2, 0.6)])
def test_spin_of_the_hit_is_that_of_the_twins_own_impact(cut: float, side: float, follow: float) -> None:
    striker, struck, spin = _hit(cut, side, follow)
    mean, covariance = _spins(replace(_track(striker, math.pi / 2), hit_speed=struck))
    # in these axes the struck ball goes along +y: backspin turns it about +x
    stddev = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(mean - [spin[0], spin[2]]) < 2 * stddev + 0.3), (mean, spin, stddev)
    assert abs(mean[1] - spin[2]) < 0.25 * 2.5 * 0.05 * struck / MATCH_TABLE.ball_radius


def test_mirrored_hits_give_mirrored_spins_and_unseen_ones_no_side_spin() -> None:
    striker = Striker(1.3, 0.6, 0.03, 0.02)
    mean, covariance = _spins(_track(striker))
    mirrored, _ = _spins(_track(replace(striker, cut=-0.6, throw=-0.03)))
    assert np.allclose(mirrored, mean * [1, -1], rtol=1e-6)
    unseen, doubt = _spins(_track(None))
    assert unseen[0] > 0 and abs(unseen[1]) < 1e-9 and doubt[1, 1] > covariance[1, 1]


def test_one_wild_measurement_of_the_throw_hardly_counts() -> None:
    striker, struck, _ = _hit(0.6, 0.0, 0.8)
    calm, _ = _spins(replace(_track(striker), hit_speed=struck))
    wild, _ = _spins(replace(_track(replace(striker, throw=striker.throw - 0.5, throw_stddev=0.02)), hit_speed=struck))
    assert abs(wild[1] - calm[1]) < 0.3 * abs(calm[1])


def test_a_starts_spin_place_and_velocity_can_be_set_apart_from_what_is_expected() -> None:
    model = MatchModel()
    value = {**model.named(_start(model)), "spinning_deceleration": 0.0}
    track = _track(Striker(1.3, 0.6, 0.02, 0.01), 0.0)
    [usual] = start_states([track], value, np.zeros(2))
    moves = np.array([[0.001, -0.002, 0.01, 0.02]])
    [other] = start_states([track], value, np.zeros(2), np.array([[1.5, -2.0]]), moves)
    _, factor = Hits([track]).spins(value["ball_friction"], value["ball_restitution"], value["sliding_friction"])
    back, side = factor[0] @ [1.5, -2.0]
    assert np.allclose(other.spins[0] - usual.spins[0], [0.0, -back, side])
    assert np.allclose(other.positions - usual.positions, moves[:, :2])
    assert np.allclose(other.velocities - usual.velocities, moves[:, 2:])


def test_start_states_turn_with_the_direction_and_never_overtake_rolling() -> None:
    value, striker = MatchModel().named(_start(MatchModel())), Striker(1.3, 0.6, 0.02, 0.01)
    [straight] = start_states([_track(striker, 0.0)], value, np.zeros(2))
    [turned] = start_states([_track(striker, math.pi / 2)], value, np.zeros(2))
    x, y, z = straight.spins[0]
    assert np.allclose(turned.spins[0], [-y, x, z])
    assert y < 0.8 / MATCH_TABLE.ball_radius
    [long_ago] = start_states([replace(_track(None, 0.0), start_time=2.0)], value, np.zeros(2))
    assert math.isclose(long_ago.spins[0, 1], 0.8 / MATCH_TABLE.ball_radius)


@pytest.mark.parametrize("law", laws.available("cushion"))
def test_contact_lines_are_where_the_terms_put_them(law: str) -> None:
    model = MatchModel(law)
    values = _start(model)
    lines = {"line_south": 0.004, "line_east": -0.003, "line_north": 0.002, "line_west": 0.006, "nose_height": 0.0405}
    for i, term in enumerate(model.terms):
        values[i] = lines.get(term.name, values[i])
    twin, centre = model.twin(values)
    half = np.array([twin.table.length, twin.table.width]) / 2 - twin.table.ball_stop
    reach = np.array([MATCH_TABLE.length, MATCH_TABLE.width]) / 2 - MATCH_TABLE.ball_radius
    assert np.allclose(centre + half, reach - [-0.003, 0.002])
    assert np.allclose(centre - half, -reach + [0.006, 0.004])


def test_every_cushion_law_brings_its_own_terms() -> None:
    for law in laws.available("cushion"):
        own = [term.name for term in terms_of(law)[len(TERMS) :]]
        assert own == list(laws.find("cushion", law).parameters)
    with pytest.raises(UnknownNameError, match=r"rubber.*coulomb"):
        MatchModel("rubber")


def test_the_fit_finds_the_truth_again(tracks: list[Track]) -> None:
    model = MatchModel()
    found = fit(model, tracks, np.random.default_rng(0), FitConfig(restarts=0))
    # as well as the truth explains them, though the starts were 20-40 % off
    errors = {
        name: np.median([score.mean for score in score_tracks(tracks, model.predict(tracks, values))])
        for name, values in (("start", _start(model)), ("truth", _truth(model)), ("found", found.values))
    }
    assert errors["found"] < 1.2 * errors["truth"] < 0.2 * errors["start"]
    value = model.named(found.values)
    for name, tolerance in {
        "sliding_friction": 0.015,
        "rolling_friction": 0.0005,
        "cushion_restitution": 0.02,
        "cushion_friction": 0.02,
        "nose_height": 0.001,
        "line_west": 0.004,
        "ball_friction": 0.012,
    }.items():
        assert abs(value[name] - TRUTH[name]) < tolerance, name


def test_a_fit_that_makes_no_sense_is_refused() -> None:
    for wrong, problem in (({"scales": ()}, "number of scales is 0"), ({"restarts": -1}, "restarts is -1, allowed")):
        with pytest.raises(OutOfRangeError, match=problem):
            FitConfig(**wrong)


def test_a_track_thrown_far_off_hardly_pulls(tracks: list[Track]) -> None:
    model, config = MatchModel(), FitConfig(restarts=0, iterations=4)
    some = tracks[:8]
    wild = replace(some[0], positions=some[0].positions[:, ::-1].copy())
    calm = fit(model, some[1:], np.random.default_rng(0), config).values
    pulled = fit(model, [wild, *some[1:]], np.random.default_rng(0), config).values
    spread = np.array([term.spread for term in model.terms])
    assert np.max(np.abs(pulled - calm) / spread) < 1.0


def test_scores_count_every_track_once_and_rebounds_apart() -> None:
    near, far = _track(None), replace(_track(None), rebounds_before=np.array([0, 1]))
    off = np.array([[0.003, 0.004]]), np.array([[0.0, 0.01], [0.0, 0.03]])
    scores = score_tracks([near, far], [near.positions + off[0], far.positions + off[1]])
    summary = summarise(scores, np.random.default_rng(0))
    assert summary["tracks"] == 2
    assert summary["median_mm"] == summary["mean_mm"] == 12.5
    assert summary["last_median_mm"] == 17.5
    assert summary["by_rebounds"] == {"0": {"tracks": 2, "median_mm": 7.5}, "1": {"tracks": 1, "median_mm": 30.0}}
    lost = score_tracks([near], [np.full((2, 2), np.nan)])
    assert math.isinf(lost[0].mean)


def test_halves_split_the_shots_not_the_tracks(recording: Path) -> None:
    first, second = halves(read_shots(recording))
    assert len(first) == len(second) == 15 and not first & second


def test_the_benchmark_scores_what_it_did_not_fit_and_repeats(recording: Path) -> None:
    told: list[float] = []
    config = FitConfig(scales=(0.3,), restarts=0, iterations=2)
    results = [
        benchmark(recording, "coulomb", 4, lambda done, _text: told.append(done), config, threads) for threads in (1, 2)
    ]
    assert results[0] == results[1]
    result = results[0]
    assert result["tracks"] == sum(half["scored"]["tracks"] for half in result["halves"])
    assert [half["known"]["tracks"] for half in result["halves"]] == [
        half["scored"]["tracks"] for half in reversed(result["halves"])
    ]
    assert result["median_mm"] == pytest.approx(np.mean(result["medians_mm"]), abs=0.01)
    assert told[len(told) // 2 - 1] == 1.0 and told[0] == 0.0
    with pytest.raises(UnknownNameError, match="stronge"):
        benchmark(recording, "rubber")


def test_a_recording_too_small_is_refused(tmp_path: Path) -> None:
    model = MatchModel()
    path = tmp_path / "few.jsonl.gz"
    write_recording(path, record_shots(model, _start(model), 4, np.random.default_rng(3)))
    with pytest.raises(TooFewTracksError, match=r"the even half has \d object-ball tracks, needs at least 5"):
        benchmark(path)


def test_watching_the_first_rebound_finds_a_spin_that_the_hit_did_not_tell(tracks: list[Track]) -> None:
    model = MatchModel()
    values = _truth(model)
    usual = [t for t in tracks if t.rebounds and t.times[-1] > t.rebounds[0][0] - t.start_time + 0.8][:4]
    spins, moved = np.tile([0.0, 3.0], (len(usual), 1)), np.zeros((len(usual), 4))
    odd = [
        replace(track, positions=path)
        for track, path in zip(usual, model.predict(usual, values, spins, moved), strict=True)
    ]
    seen = watch(model, odd, values)
    assert all(track.times[0] > track.rebounds[0][0] - track.start_time + 0.4 for track in seen.tracks)
    blind = [path[-len(t.times) :] for t, path in zip(seen.tracks, model.predict(odd, values), strict=True)]
    watched, unwatched = (
        np.mean([s.mean for s in score_tracks(seen.tracks, paths)]) for paths in (seen.predicted, blind)
    )
    assert watched < 0.4 * unwatched
    assert watch(model, [replace(odd[0], rebounds=())], values).tracks == []


def test_watching_forgives_a_cushion_that_is_not_as_fitted(tracks: list[Track]) -> None:
    model = MatchModel()
    values, other = _truth(model), _truth(model)
    names = [term.name for term in model.terms]
    other[names.index("cushion_friction")] += 0.08
    other[names.index("cushion_restitution")] -= 0.05
    long = [t for t in tracks if t.rebounds and t.times[-1] > t.rebounds[0][0] - t.start_time + 0.8]
    once = [replace(t, rebounds=t.rebounds[:1]) for t in long if len(t.rebounds) == 1][:4] or long[:4]
    seen = watch(
        model, [replace(t, positions=p) for t, p in zip(once, model.predict(once, other), strict=True)], values
    )
    blind = [path[-len(t.times) :] for t, path in zip(seen.tracks, model.predict(once, values), strict=True)]
    watched, unwatched = (
        np.median([s.mean for s in score_tracks(seen.tracks, paths)]) for paths in (seen.predicted, blind)
    )
    assert watched < 0.4 * unwatched


def test_states_on_the_way_lie_on_the_predicted_path(tracks: list[Track]) -> None:
    model = MatchModel()
    values, some = _truth(model), tracks[:3]
    spins, moved = np.array([[1.0, -1.0]] * 3), np.array([[1e-3, 2e-3, 0.01, -0.02]] * 3)
    halfway = [t.times[len(t.times) // 2] for t in some]
    states = model.states(some, values, spins, moved, np.array(halfway))
    paths = model.predict(some, values, spins, moved)
    for track, state, path in zip(some, states, paths, strict=True):
        assert state is not None
        assert np.allclose(state.position, path[len(track.times) // 2], atol=1e-6)
        again = Start(
            state.position[None], state.velocity[None], state.spin[None], np.ones(1, bool)
        )  # and go on along it
        rest = track.times[len(track.times) // 2 :] - track.times[len(track.times) // 2]
        assert np.allclose(model.play([again], [rest], values)[0], path[len(track.times) // 2 :], atol=1e-4)


def test_small_problems_are_solved_each_on_its_own() -> None:
    rng = np.random.default_rng(0)
    slope, owner = rng.standard_normal((40, 2, 3)), np.repeat([0, 1], 20)
    truth = np.array([[1.0, -0.5, 0.3], [0.2, 0.1, -1.0]])
    observed = np.einsum("tak,tk->ta", slope, truth[owner])
    observed[3] += 50.0  # an outlier

    def errors(x: np.ndarray) -> np.ndarray:
        return (np.einsum("tak,tk->ta", slope, x[owner]) - observed) / 0.01

    found, cost = descend_each(errors, owner, np.zeros((2, 3)))
    assert np.allclose(found, truth, atol=1e-2)
    assert cost[1] < 3 < cost[0]


def test_the_mirror_baseline_keeps_its_angles() -> None:
    track = replace(
        _track(None, math.pi / 4), times=np.array([0.0, 1.0, 2.0, 20.0]), start_position=np.array([0.5, 0.3])
    )
    [path] = mirror([track], 0.1)
    reach = np.array([MATCH_TABLE.length, MATCH_TABLE.width]) / 2 - MATCH_TABLE.ball_radius
    straight = 0.3 + (0.8 * 1.0 - 0.05) * math.sin(math.pi / 4)
    assert np.allclose(path[1], [0.5 + straight - 0.3, 2 * reach[1] - straight])
    assert np.all(np.abs(path) <= reach)
    assert fit_mirror([replace(track, positions=path)]) == pytest.approx(0.1, rel=0.1)


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL.exists(), reason="the recorded match is not beside this checkout: ../shared/data/real_shots"
)
def test_the_twin_explains_the_recorded_match() -> None:
    assert benchmark(REAL)["median_mm"] <= 75.0
