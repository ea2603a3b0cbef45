"""The match model, its fit, the scores and the benchmark, on recordings made up with known terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import OutOfRangeError, UnknownNameError
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
from cue_identify.real_shots.model import hit_spin, start_state
from cue_identify.real_shots.synthetic import record_shots, write_recording
from cue_sim import laws

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


def test_spin_of_the_hit_follows_cut_and_throw() -> None:
    exact = 1e-6
    straight = Striker(1.3, 0.6, math.atan(0.05 * math.sin(0.6)), exact)
    spin = hit_spin(_track(straight), 0.05)
    unit = 2.5 * 0.05 / MATCH_TABLE.ball_radius
    assert np.allclose(spin[:2], [unit * math.cos(0.6), -unit * math.sin(0.6)])
    mirrored = hit_spin(_track(replace(straight, cut=-straight.cut, throw=-straight.throw)), 0.05)
    assert np.allclose(mirrored, np.array(spin) * [1, -1, 1, 1])
    # a measurement without worth changes nothing; a ball whose striker was not seen has no side spin that is known
    worthless = hit_spin(_track(Striker(1.3, 0.6, -0.2, 1e3)), 0.05)
    assert np.allclose(worthless[:2], spin[:2])
    assert spin.side_stddev < 0.01 * worthless.side_stddev
    unseen = hit_spin(_track(None), 0.05)
    assert unseen.side == 0.0 and unseen.side_stddev > worthless.side_stddev


def test_a_hits_spin_can_be_set_apart_from_what_is_expected() -> None:
    model = MatchModel()
    value, track = model.named(_start(model)), _track(Striker(1.3, 0.6, 0.02, 0.01), 0.0)
    usual = start_state(track, value, np.zeros(2)).spins[0]
    other = start_state(track, value, np.zeros(2), np.array([1.5, -2.0])).spins[0]
    spin = hit_spin(track, value["ball_friction"])
    assert np.allclose(other - usual, [0.0, -1.5 * spin.back_stddev, -2.0 * spin.side_stddev])


def test_start_states_turn_with_the_direction_and_never_overtake_rolling() -> None:
    value = MatchModel().named(_start(MatchModel()))
    straight = start_state(_track(Striker(1.3, 0.6, 0.02, 0.01), 0.0), value, np.zeros(2)).spins[0]
    turned = start_state(_track(Striker(1.3, 0.6, 0.02, 0.01), math.pi / 2), value, np.zeros(2)).spins[0]
    assert np.allclose(turned, [-straight[1], 0.0, straight[2]])
    assert straight[1] < 0.8 / MATCH_TABLE.ball_radius
    long_ago = replace(_track(None, 0.0), start_time=2.0)
    assert math.isclose(start_state(long_ago, value, np.zeros(2)).spins[0, 1], 0.8 / MATCH_TABLE.ball_radius)


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
    config = FitConfig(scales=(0.3,), restarts=1, iterations=2)
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


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL.exists(), reason="the recorded match is not beside this checkout: ../shared/data/real_shots"
)
def test_the_twin_explains_the_recorded_match() -> None:
    assert benchmark(REAL)["median_mm"] <= 85.0
