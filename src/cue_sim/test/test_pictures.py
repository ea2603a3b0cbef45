"""Pictures and diagrams can be made again, and show what they should."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest

from cue_core.balls import ball_colour
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim import diagrams, pictures
from cue_sim.ball_marks import DISC, STRIPE, ball_texture
from cue_sim.pictures import View
from cue_sim.twin import Twin

ROOT = Path(__file__).parents[3]
TABLE = TableModel.load(ROOT / "config" / "tables" / "7ft.yaml")
SIZE = (320, 180)
ABOVE = View((0.0, 0.0, 0.0), 1.15 * TABLE.length, 90.0, -89.0)


def _pixels(picture: np.ndarray, colour: tuple[float, float, float]) -> int:
    """Return how many pixels of an RGB picture have about the hue of a saturated colour."""
    hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV).astype(int)
    wanted = cv2.cvtColor((255 * np.array([[colour]])).astype(np.uint8), cv2.COLOR_RGB2HSV)[0, 0].astype(int)
    hue = np.abs(hsv[..., 0] - wanted[0])
    return int(np.sum((np.minimum(hue, 180 - hue) < 6) & (hsv[..., 1] > 140) & (hsv[..., 2] > 60)))


def test_a_rack_touches_nowhere_and_stands_on_the_foot_spot() -> None:
    places = pictures.rack(TABLE)
    gaps = [float(np.linalg.norm(a - b)) - 2 * TABLE.ball_radius for a, b in combinations(places, 2)]
    assert min(gaps) == pytest.approx(2e-4)
    assert sum(gap < 2.1e-4 for gap in gaps) == 30  # every ball meets its neighbours
    np.testing.assert_allclose(places[0], TABLE.spots["foot"])
    middle = math.sqrt(3) * (2 * TABLE.ball_radius + 2e-4)  # the 8 lies two rows behind, in the middle
    np.testing.assert_allclose(places[7], TABLE.spots["foot"] + [middle, 0.0])


def test_a_photograph_shows_cloth_and_balls() -> None:
    balls = {0: np.array([-0.4, 0.1]), 3: np.array([0.3, 0.2]), 1: np.array([0.1, -0.2])}
    shown = pictures.photograph(TABLE, balls, ABOVE, size=SIZE)
    without = pictures.photograph(TABLE, {0: balls[0]}, ABOVE, size=SIZE)
    assert shown.shape == (180, 320, 3)
    assert _pixels(shown, TABLE.cloth_colour) > 0.3 * 320 * 180
    for ball in (1, 3):
        assert _pixels(shown, ball_colour(ball)[1]) > _pixels(without, ball_colour(ball)[1]) + 15


def test_a_shot_is_drawn_along_the_way_of_the_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, list[pictures.Trail]] = {}
    photograph = pictures.photograph

    def keep(*arguments, **named):  # type: ignore[no-untyped-def]
        drawn["trails"] = named["trails"]
        return photograph(*arguments, **named, size=SIZE)

    monkeypatch.setattr(pictures, "photograph", keep)
    twin = Twin(TABLE, (0, 3, 5))
    places = np.array([[-0.4, 0.0], [0.2, 0.0], [0.6, 0.3]])
    picture = pictures.shot_picture(twin, places, Shot("x", 1.0, 0.0), ABOVE)
    assert picture.shape == (180, 320, 3)
    cue_ball, struck = drawn["trails"]  # the third ball stays where it is
    np.testing.assert_allclose(cue_ball.places[0], places[0])
    np.testing.assert_allclose(struck.places[0], places[1])
    assert struck.places[:, 0].max() > 0.6
    assert len(cue_ball.ghosts) > 2


@pytest.mark.parametrize("ball", [3, 11])
def test_a_ball_carries_its_colour_and_small_white_marks(ball: int) -> None:
    """Shares of the sphere, each texel weighed by the solid angle that it covers."""
    faces = ball_texture(ball).reshape(6, 64, 64, 3).astype(float) / 255
    steps = (2 * np.arange(64) + 1) / 64 - 1
    weight = (1 + steps[:, None] ** 2 + steps[None] ** 2) ** -1.5
    white = (faces.min(axis=3) > 0.6) * weight
    disc = (1 - math.cos(DISC)) / 2
    expected = 2 * disc if ball < 9 else 1 - STRIPE + 2 * disc
    assert white.sum() / (6 * weight.sum()) == pytest.approx(expected, abs=0.01)
    ink = (faces.max(axis=3) < 0.5) * weight
    assert 0.05 * 2 * disc < ink.sum() / (6 * weight.sum()) < 0.6 * 2 * disc
    colour = np.all(np.abs(faces - np.array(ball_colour(ball)[1])) < 0.01, axis=3) * weight
    assert colour.sum() / (6 * weight.sum()) > 0.4


@pytest.mark.parametrize("name", sorted(diagrams.DIAGRAMS))
def test_diagrams_are_drawn_from_the_laws(name: str, tmp_path: Path) -> None:
    figure = diagrams.DIAGRAMS[name](TABLE)
    lines = [line for axes in figure.axes for line in axes.lines]
    assert len(lines) >= 3
    for line in lines:
        assert np.isfinite(np.asarray(line.get_xydata(), float)).all()
    figure.savefig(tmp_path / f"{name}.png", dpi=40)
    assert (tmp_path / f"{name}.png").stat().st_size > 3000


def test_the_documentation_shows_every_picture_and_none_is_heavy() -> None:
    text = "".join((ROOT / place).read_text() for place in ("README.md", "docs/physics.md"))
    for name in [*(f"{n}.png" for n in diagrams.DIAGRAMS), "table.jpg", "shot.jpg"]:
        picture = ROOT / "docs" / "images" / name
        assert picture.stat().st_size <= 150_000, name
        assert f"images/{name}" in text, name
