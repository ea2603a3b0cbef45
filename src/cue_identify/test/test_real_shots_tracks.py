"""Reading recorded shots, and what of them makes an object-ball track."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cue_core.errors import CueError, FileFormatError
from cue_identify.real_shots import MATCH_TABLE, MatchModel, RecordedShot, extract_tracks, read_shots
from cue_identify.real_shots.rebounds import find_rebounds
from cue_identify.real_shots.synthetic import record_shots, write_recording

RADIUS = MATCH_TABLE.ball_radius
CORNER = np.array([MATCH_TABLE.length, MATCH_TABLE.width]) / 2
REAL = Path(__file__).parents[4] / "shared/data/real_shots/visible.jsonl.gz"


def _row(**paths: tuple[list[float], list[float], list[float]]) -> dict[str, Any]:
    still = ([0.0, 9.0], [2.0, 2.0], [1.0, 1.0])
    balls = {ball: paths.get(ball, still) for ball in ("white", "yellow", "red")}
    return {"shotID": 7, "balls": {ball: dict(zip("txy", path, strict=True)) for ball, path in balls.items()}}


def _read(tmp_path: Path, *rows: Any) -> list[RecordedShot]:
    path = tmp_path / "shots.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return read_shots(path)


def test_positions_are_in_the_table_frame_and_projected_ones_known(tmp_path: Path) -> None:
    low, high = RADIUS, MATCH_TABLE.width - RADIUS
    [shot] = _read(tmp_path, _row(white=([0.0, 0.1, 0.2, 0.3], [1.0, 1.1, 1.2, 1.3], [0.2, low, high, 0.5])))
    white = shot.balls["white"]
    assert np.allclose(white.positions[0], [1.0 - 1.42, 0.2 - 0.71])
    assert white.projected.tolist() == [False, True, True, False]
    assert shot.cue_ball == "white"


def test_a_ball_rests_in_a_gap_that_ends_in_motion(tmp_path: Path) -> None:
    [shot] = _read(tmp_path, _row(red=([0.0, 2.0, 2.02, 2.04], [1.0, 1.02, 1.04, 1.06], [0.5] * 4)))
    x = shot.balls["red"].at(np.array([1.0, 1.97, 1.99, 2.03]))[:, 0] + 1.42
    assert np.allclose(x, [1.0, 1.0, 1.01, 1.05])


@pytest.mark.parametrize(
    "change, problem",
    [
        ("{", "line 1: is not JSON"),
        ({"shotID": 7}, "line 1: lacks balls"),
        ({"shotID": "7", "balls": {}}, "shotID is '7', needs a whole number"),
        ({"shotID": 7, "balls": {"white": {}}}, "lacks yellow, red"),
        (_row(red=([0.0, 0.0], [1.0, 1.0], [1.0, 1.0])), "red: needs finite numbers and times that increase"),
        (_row(red=([0.0, 1.0], [1.0], [1.0, 1.0])), r"red: t, x and y have shapes \(2,\), \(1,\), \(2,\)"),
        (_row(red=([0.0], [3.0], [1.0])), "red: leaves the table of 2.84 x 1.42 m"),
        ("", "holds no shot"),
    ],
)
def test_malformed_recordings_are_refused_with_the_place(tmp_path: Path, change: Any, problem: str) -> None:
    with pytest.raises(FileFormatError, match=problem):
        _read(tmp_path, change)


def test_a_shot_twice_and_a_broken_archive_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="line 2: repeats shot 7"):
        _read(tmp_path, _row(), _row())
    path = tmp_path / "shots.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}" * 100)[:-12])
    with pytest.raises(CueError, match="cannot be read"):
        read_shots(path)
    with pytest.raises(FileFormatError, match="no such file"):
        read_shots(tmp_path / "none.jsonl")


def test_rebounds_are_found_where_the_ball_turned() -> None:
    times = np.arange(0, 3, 0.02)
    free = np.array([0.3, 0.2]) + times[:, None] * [0.9, 0.7]
    reach = CORNER - RADIUS
    folded = reach - np.abs((free + reach) % (4 * reach) - 2 * reach)  # mirror rebounds off all four cushions
    found = find_rebounds(MATCH_TABLE, times, folded)
    crossings = sorted(
        [(t, 1) for t in (reach[0] - 0.3 + 2 * reach[0] * np.arange(1)) / 0.9]
        + [((reach[1] - 0.2) / 0.7, 2), ((3 * reach[1] - 0.2) / 0.7, 0)]
    )
    assert [r.cushion for r in found] == [cushion for t, cushion in crossings if t < 2.9]
    assert np.allclose([times[r.sample] for r in found], [t for t, _ in crossings if t < 2.9], atol=0.02)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedShot]:
    model = MatchModel()
    values = np.array([term.start for term in model.terms])
    path = tmp_path_factory.mktemp("recording") / "shots.jsonl.gz"
    write_recording(path, record_shots(model, values, 24, np.random.default_rng(2)))
    return read_shots(path)


def test_tracks_measure_the_hit(recording: list[RecordedShot]) -> None:
    tracks, refused = extract_tracks(recording)
    assert len(tracks) >= 12 and sum(refused.values()) >= 1
    for track in tracks:
        assert track.striker is not None
        # a rolling ball passes on (1 + e)/2 cos(cut) of its speed, and throws within the friction, 0.06
        share = track.hit_speed / (track.striker.speed * np.cos(track.striker.cut))
        assert abs(share - 0.965) < 0.06  # e = 0.93, where the terms start
        assert abs(np.tan(track.striker.throw)) < 0.06 + 3 * track.striker.throw_stddev
        assert 0 < track.sliding_time <= 0.1 + 1e-9
        assert track.travel >= 0.5 and np.all(np.diff(track.times) > 0) and track.times[0] > 0
        assert np.all(np.diff(track.rebounds_before) >= 0) and track.rebounds_before[-1] <= len(track.rebounds)


def test_tracks_end_before_another_ball_is_near(recording: list[RecordedShot]) -> None:
    shots = {shot.shot_id: shot for shot in recording}
    for track in extract_tracks(recording)[0]:
        times = track.times + track.start_time
        for colour, other in shots[track.shot_id].balls.items():
            if colour != track.ball:
                assert np.hypot(*(other.at(times) - track.positions).T).min() > 0.085


def test_hits_that_say_too_little_are_refused_with_the_reason(tmp_path: Path) -> None:
    t = (0.5 + 0.02 * np.arange(5)).tolist()
    slow = _row(
        white=([0.0, *t], [0.5, *np.linspace(0.6, 0.7, 5)], [0.5] * 6),
        red=([0.0, 1.0, 1.4, 1.9, 2.5, 3.5], np.linspace(1.0, 1.1, 6).tolist(), [0.5] * 6),
    )
    tracks, refused = extract_tracks(_read(tmp_path, slow))
    assert tracks == [] and refused == {"starts too slowly": 1}


@pytest.mark.skipif(
    not REAL.exists(), reason="the recorded match is not beside this checkout: ../shared/data/real_shots"
)
def test_the_recorded_match_gives_the_tracks_its_description_counts() -> None:
    shots = read_shots(REAL)
    tracks, refused = extract_tracks(shots)
    assert len(shots) == 60
    assert len(tracks) == 45
    assert sum(refused.values()) == 30
