"""Real photographs against marks made by hand. The photographs are not part of the project: see docs/perception.md."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest

from cue_core.table import TableModel
from cue_perception.errors import TableNotFoundError
from cue_perception.photo_result import PhotoResult, examine

ROOT = Path(__file__).resolve().parents[3]
PHOTOS = ROOT.parent / "shared" / "data" / "photos"
MARKS = json.loads((Path(__file__).parent / "data" / "photo_marks.json").read_text())
NAMES = sorted(name for name in MARKS if name != "about")
WORST_CENTRE = 4.0  # px on the full-size image
WORST_CORNER = 0.01  # of the outline's diagonal


def _photo(name: str) -> np.ndarray:
    path = PHOTOS / name
    if not path.is_file():
        pytest.skip(f"no photographs here: {path} is absent")
    image = cv2.imread(str(path))
    assert image is not None, f"{path} cannot be read"
    return image


def _preset(name: str) -> TableModel | None:
    return TableModel.load(ROOT / "config" / "tables" / f"{name}.yaml") if name else None


@cache
def _result(name: str, table: str = "") -> PhotoResult:
    return examine(_photo(name), _preset(table))


def _gaps(result: PhotoResult, name: str) -> np.ndarray:
    marks = np.array([[b["x"], b["y"]] for b in MARKS[name]["balls"]])
    found = np.array([b.pixel for b in result.balls]).reshape(-1, 2)
    return np.linalg.norm(marks[:, None] - found[None], axis=-1)


def _corner_error(result: PhotoResult, corners: list[list[float]]) -> float:
    marked = np.array(corners, float)
    gap = np.linalg.norm(marked[:, None] - result.reading.corners[None], axis=-1).min(axis=1).max()
    return float(gap / np.linalg.norm(marked[2] - marked[0]))


# A named table that is not the one in the picture must not spoil what is measured in pixels.
@pytest.mark.parametrize(
    ("name", "table"),
    [(name, "") for name in NAMES] + [("overhead_pool_10_balls.jpg", "8ft"), ("home_snooker_16_balls.jpg", "snooker")],
)
def test_every_ball_is_found_where_it_was_marked_and_none_is_invented(name, table):
    result = _result(name, table)
    gaps = _gaps(result, name)
    assert gaps.min(axis=1).max() < WORST_CENTRE
    assert len(result.balls) == len(MARKS[name]["balls"])
    assert sorted(gaps.argmin(axis=1)) == list(range(len(result.balls))), "a ball was found twice"
    assert _corner_error(result, MARKS[name]["corners"]) < WORST_CORNER


def test_an_empty_table_is_empty():
    result = examine(_photo("overhead_pool_empty.jpg"))
    assert result.balls == ()
    # The same camera and table as in the picture with ten balls.
    assert _corner_error(result, MARKS["overhead_pool_10_balls.jpg"]["corners"]) < WORST_CORNER


@pytest.mark.parametrize("name", ["overhead_pool_10_balls.jpg", "overhead_pool_grid_16_balls.jpg"])
def test_stripes_and_colours_of_a_pool_set_are_told(name):
    result, gaps = _result(name), _gaps(_result(name), name)
    wrong = []
    for mark, k in zip(MARKS[name]["balls"], gaps.argmin(axis=1), strict=True):
        kind = result.balls[k].kind
        assert kind.set_name == "pool"
        if kind.number is None or kind.number != mark["what"]:
            wrong.append(f"{mark['what']} taken for {kind.number} ({kind.confidence:.0%})")
    # A number on a striped ball that shows its white end, or 3 and 7 in warm light, fool a person too.
    assert len(wrong) <= 0.35 * len(result.balls), wrong


def test_colours_of_a_snooker_set_are_told():
    name = "home_snooker_16_balls.jpg"
    result, gaps = _result(name), _gaps(_result(name), name)
    for mark, k in zip(MARKS[name]["balls"], gaps.argmin(axis=1), strict=True):
        kind = result.balls[k].kind
        assert (kind.set_name, kind.name) == ("snooker", mark["what"])


def test_the_size_of_a_table_follows_from_its_balls_and_a_wrong_preset_is_noticed():
    plain = _result("overhead_pool_10_balls.jpg")
    assert not plain.scale.known
    assert any("guess" in warning for warning in plain.warnings)
    named = _result("overhead_pool_10_balls.jpg", "8ft")
    by = {e.source: e for e in named.scale.estimates}
    assert named.scale.source == "table"
    # Two photographs at unlike resolution, one table: its balls say the same of its length.
    other = _result("overhead_pool_grid_16_balls.jpg")
    assert other.reading.ball_ratio == pytest.approx(plain.reading.ball_ratio, rel=0.02)
    assert by["balls"].length == pytest.approx(0.028575 / plain.reading.ball_ratio, rel=0.02)
    assert named.scale.disagreement == pytest.approx(by["balls"].length / by["table"].length - 1, abs=1e-6)
    assert any("another table" in w for w in _result("home_snooker_16_balls.jpg", "snooker").warnings)


def test_pixels_and_metres_of_a_ball_belong_together():
    result = _result("overhead_pool_grid_16_balls.jpg")
    for ball in result.balls:
        pixel = result.camera.project(np.array([*ball.position, result.table.ball_radius]))
        assert pixel == pytest.approx(ball.pixel, abs=0.05 * ball.radius)
        assert np.all(np.linalg.eigvalsh(ball.covariance) > 0)
        assert np.all(np.linalg.eigvalsh(ball.pixel_covariance) > 0)
    data = json.loads(json.dumps(result.to_dict()))
    assert len(data["balls"]) == len(result.balls)


@pytest.mark.parametrize("kind", ["noise", "flat", "gradient"])
def test_a_picture_without_a_table_is_refused(kind):
    rng = np.random.default_rng(0)
    image = {
        "noise": rng.integers(0, 255, (480, 640, 3), np.uint8),
        "flat": np.full((480, 640, 3), (120, 90, 30), np.uint8),
        "gradient": np.repeat(np.linspace(0, 255, 640).astype(np.uint8)[None, :, None], 480, axis=0).repeat(3, axis=2),
    }[kind]
    with pytest.raises(TableNotFoundError) as caught:
        examine(image)
    assert "\n" not in str(caught.value)
