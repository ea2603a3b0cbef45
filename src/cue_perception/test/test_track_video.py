"""``cue track VIDEO``: a rendered film in; shots, balls per image and an annotated film out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from cue.cli import main
from cue_core.balls import BallState, Visibility
from cue_core.shot_log import ShotLog, read_lines
from cue_core.shots import BallTrack, ShotRecord
from cue_perception import offline
from cue_perception.camera import Intrinsics
from cue_perception.offline import EncoderError, Film, Result, track_film
from cue_perception.sources import SourceConfig, opened
from cue_perception.testing import SMALL, Scene, lens_640, look_at

FPS = 30.0
STRUCK, SPEED, SLOWING = 0.71, 0.6, 0.9
"""When the cue ball begins to roll [s], how fast [m/s], and how it slows down [m/s^2]."""


@dataclass(frozen=True)
class Shown:
    """A film and the truth about it."""

    film: Path
    table: Path
    camera: Path
    start: dict[int, np.ndarray]
    direction: np.ndarray
    count: int


def cue_ball(shown: Shown, time: float) -> np.ndarray:
    t = np.clip(time - STRUCK, 0, SPEED / SLOWING)
    return shown.start[0] + shown.direction * (SPEED * t - SLOWING * t * t / 2)


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> Shown:
    folder = tmp_path_factory.mktemp("film")
    scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=2, noise=1.0)
    start = {0: np.array([-0.3, 0.0]), 1: np.array([0.2, 0.12]), 3: np.array([0.1, -0.15]), 8: np.array([-0.4, 0.2])}
    lens = scene.camera.intrinsics
    camera, table = folder / "camera.yaml", folder / "table.yaml"
    camera.write_text(
        yaml.safe_dump(
            {
                "image_width": lens.width,
                "image_height": lens.height,
                "distortion_model": "plumb_bob",
                "camera_matrix": {"rows": 3, "cols": 3, "data": lens.matrix.ravel().tolist()},
                "distortion_coefficients": {"rows": 1, "cols": 5, "data": lens.distortion.tolist()},
            }
        )
    )
    table.write_text(yaml.safe_dump(SMALL.to_dict()))
    count = int((STRUCK + SPEED / SLOWING + 0.75) * FPS)
    direction = np.array([np.cos(0.2), np.sin(0.2)])
    made = Shown(folder / "shot.avi", table, camera, start, direction, count)
    rng = np.random.default_rng(3)
    writer = cv2.VideoWriter(str(made.film), cv2.VideoWriter.fourcc(*"MJPG"), FPS, (lens.width, lens.height))
    writer.set(cv2.VIDEOWRITER_PROP_QUALITY, 98)
    for k in range(count):
        writer.write(scene.render({**start, 0: cue_ball(made, k / FPS)}, rng))
    writer.release()
    return made


def _words(shown: Shown, *more: str) -> list[str]:
    return ["track", str(shown.film), "--table", str(shown.table), "--camera", str(shown.camera), *more]


@pytest.fixture(scope="module")
def tracked(shown, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tracked")
    assert main(_words(shown, "--out", str(folder), "--json", str(folder / "said.json"))) == 0
    return folder


def test_shot_is_found_with_its_time_and_path(shown, tracked):
    [record] = ShotLog(tracked / "shots.jsonl").read()
    assert record.flags == ()
    assert record.moved_ball_ids() == (0,)
    assert record.strike_time == pytest.approx(STRUCK, abs=6e-3)
    track = record.tracks[0]
    truth = np.array([cue_ball(shown, t + record.strike_time) for t in track.time])
    assert np.median(np.linalg.norm(track.position - truth, axis=1)) < 1.5e-3
    after = {b.ball_id: b.position for b in record.after}
    assert after[0] == pytest.approx(cue_ball(shown, 1e9), abs=1.5e-3)


def test_every_image_has_a_line_of_balls(shown, tracked):
    head, *lines = read_lines(tracked / "balls.jsonl")
    assert (head["format"], head["version"], head["fps"]) == ("cue-balls-log", 1, FPS)
    assert [line["image"] for line in lines] == list(range(shown.count))
    assert lines[10]["time"] == pytest.approx(10 / FPS, abs=1e-3)
    last = {b["id"]: b for b in lines[-1]["balls"]}
    assert set(last) == {0, 1, 3, 8}
    for ball_id in (1, 3, 8):
        assert last[ball_id]["position"] == pytest.approx(shown.start[ball_id], abs=1.5e-3)
    rolling = next(line for line in lines if line["time"] > STRUCK + 0.25)
    ball = next(b for b in rolling["balls"] if b["id"] == 0)
    assert np.hypot(*ball["velocity"]) == pytest.approx(SPEED - SLOWING * (rolling["time"] - STRUCK), rel=0.15)


def test_film_is_annotated_and_summary_agrees(shown, tracked):
    said = json.loads((tracked / "said.json").read_text())
    assert said["images"] == shown.count
    assert len(said["shots"]) == 1
    assert {b["id"] for b in said["balls"]} == {0, 1, 3, 8}
    assert said["film"] == "annotated.mp4" or "no encoder" in said["film"]
    if said["film"] != "annotated.mp4":
        assert not (tracked / "annotated.mp4").exists()
        return
    with (
        opened(SourceConfig(source=str(tracked / "annotated.mp4"))) as film,
        opened(SourceConfig(source=str(shown.film))) as plain,
    ):
        assert film.fps == pytest.approx(FPS)
        pictures = [(film.read(), plain.read()) for _ in range(shown.count)]
        assert film.read() is None
    one, other = pictures[-1]
    green = (one[..., 1].astype(int) - one[..., [0, 2]].max(axis=-1) > 60).sum()
    assert green > (other[..., 1].astype(int) - other[..., [0, 2]].max(axis=-1) > 60).sum() + 300, "noses are drawn"


def test_nothing_half_done_is_left_behind(shown, tmp_path, monkeypatch):
    (tmp_path / "shots.jsonl").write_text("earlier\n")

    def cut(images: int) -> None:
        if images == 9:
            raise KeyboardInterrupt

    with opened(SourceConfig(source=str(shown.film))) as source, pytest.raises(KeyboardInterrupt):
        track_film(source, SMALL, Intrinsics.load(shown.camera), tmp_path, progress=cut)
    assert {p.name for p in tmp_path.iterdir()} == {"shots.jsonl"}
    assert (tmp_path / "shots.jsonl").read_text() == "earlier\n"


def test_only_motion_makes_a_shot(tmp_path):
    at, elsewhere = BallState(0, np.zeros(2)), BallState(0, np.array([0.1, 0.0]))
    gone = BallState(0, np.zeros(2), visibility=Visibility.POCKETED)
    path = np.stack([np.zeros(2), np.array([0.1, 0.0])])
    track = BallTrack(0, np.array([0.0, 0.1]), path, np.zeros((2, 2, 2)) + np.eye(2) * 1e-8, False)
    log, result = ShotLog(tmp_path / "shots.jsonl"), Result()
    for index, (after, tracks) in enumerate([(at, ()), (elsewhere, (track,)), (at, ()), (gone, ())]):
        offline._keep(ShotRecord("", index, None, None, 1.0, (at,), (after,), tracks), log, result)
    offline._keep(None, log, result)
    assert [(r.index, r.moved_ball_ids()) for r in log.read()] == [(0, (0,)), (1, ())]
    assert len(result.records) == 2


def test_without_an_encoder_the_rest_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(offline, "_CODECS", ("zzzz",))
    film = Film(tmp_path / "annotated.mp4", 30.0)
    with pytest.raises(EncoderError, match="has no encoder"):
        film.add(np.zeros((48, 64, 3), np.uint8))
    film.close(keep=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_table_says_why(shown, tmp_path, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    across = np.linspace(60, 190, 640)[None, :, None] * [0.8, 0.9, 1.0]
    for k in range(8):  # a bare wall
        noise = np.random.default_rng(k).normal(0, 2, (360, 640, 3))
        cv2.imwrite(str(folder / f"{k}.png"), np.clip(across + noise, 0, 255).astype(np.uint8))
    words = ["track", str(folder), "--table", str(shown.table), "--camera", str(shown.camera)]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "no table was found in 8 images: " in said and said.count("\n") == 1
    assert len(said) > len("cue: no table was found in 8 images: \n") + 10, "the reason is told"
    assert list((tmp_path / "out").iterdir()) == []


def test_large_images_are_reduced_with_their_lens():
    lens = lens_640()
    large = Intrinsics(3840, 2160, np.diag([6.0, 6.0, 1.0]) @ lens.matrix, lens.distortion)
    image, small = offline.reduced(np.zeros((2160, 3840, 3), np.uint8), large)
    assert image.shape == (1080, 1920, 3) and (small.width, small.height) == (1920, 1080)
    spot = np.array([[1000.0, 700.0], [3000.0, 90.0]])
    # The middle of two by two pixels is the middle of the one that they become.
    assert small.distort(large.undistort(spot + 0.5)) == pytest.approx(spot / 2, abs=1e-6)
    assert offline.reduced(image, small)[0] is image


def test_images_of_several_sizes_are_refused(shown, tmp_path, capsys):
    for k, width in enumerate((640, 640, 600)):
        cv2.imwrite(str(tmp_path / f"{k}.png"), np.zeros((360, width, 3), np.uint8))
    assert main(["track", str(tmp_path), "--table", str(shown.table), "--out", str(tmp_path / "out")]) == 2
    assert "image 2 is 600 x 360 px, the first 640 x 360" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no_such.mp4", "--table", "{table}"], "no_such.mp4 is not there"),
        (["{film}"], "a video needs --table"),
        (["{film}", "--table", "moon.yaml"], "moon.yaml does not exist"),
        (["{table}", "--table", "{table}"], "table.yaml cannot be opened as a video"),
        (["{film}", "--table", "{table}", "--camera", "{table}"], "is no camera calibration"),
        (["{film}", "--table", "{table}", "--fps", "-3"], "--fps is -3"),
    ],
)
def test_wrong_words_are_one_line(shown, words, says, capsys):
    filled = [w.format(film=shown.film, table=shown.table) for w in words]
    assert main(["track", *filled]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_calibration_of_another_size_is_refused(shown, tmp_path, capsys):
    data = yaml.safe_load(shown.camera.read_text())
    data.update(image_width=1280, image_height=720)
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(data))
    words = ["track", str(shown.film), "--table", str(shown.table), "--camera", str(tmp_path / "other.yaml")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "images are 640 x 360 px, the calibration is for 1280 x 720" in capsys.readouterr().err
