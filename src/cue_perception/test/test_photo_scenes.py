"""Pictures of unknown cameras whose truth is known: oblique views, markers, mirrors, and the twin drawn over them."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import cv2
import numpy as np
import pytest

from cue_core.errors import UnknownNameError
from cue_perception.camera import Intrinsics
from cue_perception.colours import classify, nominal_lab
from cue_perception.errors import TableNotFoundError
from cue_perception.faint_balls import faint_balls
from cue_perception.photo import _lit
from cue_perception.photo_result import PhotoResult, examine
from cue_perception.scale import find_scale, mirrored
from cue_perception.testing import SMALL, Scene, look_at

BALLS = {
    0: np.array([-0.30, 0.05]),
    1: np.array([0.10, 0.12]),
    3: np.array([0.30, -0.10]),
    5: np.array([0.44, 0.20]),
    6: np.array([-0.12, -0.20]),
    8: np.array([0.02, -0.05]),
}
SIDE = 0.05  # m, of a marker


def _scene(position: tuple[float, float, float], cloth: tuple[float, float, float] = (0.10, 0.35, 0.62)) -> Scene:
    lens = Intrinsics.guess(1280, 720, 1.15)
    lens = Intrinsics(1280, 720, lens.matrix, np.array([-0.06, 0.0, 0.0, 0.0, 0.0]))
    return Scene(look_at(lens, position, (0, -0.03, 0)), cloth=cloth, samples=1)


def _with_markers(scene: Scene, image: np.ndarray) -> np.ndarray:
    """Return the picture with four ArUco markers lying on the frame, level with the noses."""
    family = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_250)
    picture = image.copy()
    for k, (x, y) in enumerate(((-0.4, 0.30), (0.4, 0.30), (0.4, -0.30), (-0.4, -0.30))):
        tile = cv2.copyMakeBorder(cv2.aruco.generateImageMarker(family, k, 120), 30, 30, 30, 30, 0, value=255)
        half = SIDE / 2 * 180 / 120
        ring = np.array([[-half, half], [half, half], [half, -half], [-half, -half]]) + np.array([x, y])
        corners = scene.camera.project(np.column_stack([ring, np.full(4, SMALL.nose_height)])).astype(np.float32)
        square = np.array([[0, 0], [180, 0], [180, 180], [0, 180]], np.float32) - 0.5
        to_image = cv2.getPerspectiveTransform(square, corners)
        size = picture.shape[1::-1]
        inside = cv2.warpPerspective(np.full(tile.shape, 255, np.uint8), to_image, size, flags=cv2.INTER_AREA)
        shown = cv2.warpPerspective(tile, to_image, size, flags=cv2.INTER_AREA)
        picture[inside > 128] = shown[inside > 128, None]
    return picture


@cache
def _overhead() -> tuple[Scene, np.ndarray, PhotoResult]:
    scene = _scene((0.0, -0.25, 1.3))
    image = _with_markers(scene, scene.render(BALLS, np.random.default_rng(1)))
    return scene, image, examine(image, marker_side=SIDE)


def _worst(scene: Scene, result: PhotoResult) -> float:
    places = np.column_stack([np.array(list(BALLS.values())), np.full(len(BALLS), SMALL.ball_radius)])
    pixels = scene.camera.project(places)
    found = np.array([b.pixel for b in result.balls])
    return float(np.linalg.norm(pixels[:, None] - found[None], axis=-1).min(axis=1).max())


def _corner_error(scene: Scene, result: PhotoResult) -> float:
    x, y = SMALL.length / 2, SMALL.width / 2
    corners = scene.camera.project(np.array([[s * x, t * y, SMALL.nose_height] for s in (-1, 1) for t in (-1, 1)]))
    gaps = np.linalg.norm(corners[:, None] - result.reading.corners[None], axis=-1).min(axis=1)
    return float(gaps.max() / np.linalg.norm(corners[0] - corners[3]))


def test_oblique_view_through_an_unknown_lens():
    scene = _scene((0.1, -1.0, 1.0), cloth=(0.50, 0.10, 0.12))
    result = examine(scene.render({k: v for k, v in BALLS.items() if k != 3}, np.random.default_rng(2)), SMALL)
    assert len(result.balls) == len(BALLS) - 1
    assert _corner_error(scene, result) < 0.01
    for ball in result.balls:
        gap = min(np.linalg.norm(ball.position - place) for k, place in BALLS.items() if k != 3)
        assert gap < 0.01, "metres through an unknown lens"


def test_a_far_cushion_that_shows_its_face_is_no_wider_table():
    position = (-1.05, -0.85, 0.75)  # over a corner
    lens = Intrinsics.guess(1280, 720, 1.15)
    level = look_at(lens, position, (0, 0, 0)).rotation[:2, 2]  # heights of the image's right and down
    camera = look_at(lens, position, (0, 0, 0), roll=float(np.arctan2(level[0], -level[1])))
    scene = Scene(camera, cloth=(0.08, 0.42, 0.25), samples=1)
    result = examine(scene.render({k: v for k, v in BALLS.items() if k != 6}, np.random.default_rng(4)))
    # All proportions are unknown here; docs/photographs.md says how far off oblique views are.
    assert _corner_error(scene, result) < 0.02
    places = np.array([[*v, SMALL.ball_radius] for k, v in BALLS.items() if k != 6])
    found = np.array([b.pixel for b in result.balls])
    gaps = np.linalg.norm(scene.camera.project(places)[:, None] - found[None], axis=-1)
    assert gaps.min(axis=1).max() < 4.0
    assert len(found) == len(places)


def test_table_and_balls_are_found_without_knowing_anything():
    scene, _, result = _overhead()
    assert len(result.balls) == len(BALLS)
    assert _worst(scene, result) < 1.0
    assert _corner_error(scene, result) < 0.01
    assert result.table.length / result.table.width == pytest.approx(2.0, rel=0.03)
    assert result.reading.ball_ratio == pytest.approx(SMALL.ball_radius / SMALL.length, rel=0.02)


def test_markers_and_balls_give_the_size_and_their_disagreement():
    _, image, result = _overhead()
    assert (result.scale.source, result.scale.known) == ("markers", True)
    assert result.table.length == pytest.approx(SMALL.length, rel=0.02)
    with pytest.raises(UnknownNameError, match="aruco_4x4"):
        examine(image, marker_side=SIDE, marker_family="barcode")
    ratio, sigma = result.reading.ball_ratio, result.reading.ball_ratio_sigma
    both = find_scale(ratio, sigma, SMALL, ball_diameter=2 * SMALL.ball_radius)
    assert both.source == "table"
    assert both.disagreement < 0.03
    swollen = find_scale(ratio, sigma, SMALL, ball_diameter=0.05715)
    assert swollen.disagreement == pytest.approx(0.5, abs=0.05)
    assert swollen.source == "balls", "so far off, it is not the table that was named"


def test_a_mirrored_picture_is_known_by_its_markers_alone():
    # V09: a mirrored table is a possible table; only what has a sense of rotation tells.
    scene, image, result = _overhead()
    assert result.mirrored is False
    flipped = np.ascontiguousarray(image[:, ::-1])
    assert mirrored(flipped) is True
    assert mirrored(scene.background()[..., ::-1].copy().astype(np.uint8)) is None


def test_white_balance_far_off_leaves_one_cue_ball():
    # V13: red up and blue down; a white spot and highlights are no second cue ball.
    scene = _scene((0.0, -0.25, 1.3))

    def spot(image: np.ndarray) -> None:
        u, v = scene.camera.project(np.array([0.265, 0.0, 0.0]))
        cv2.circle(image, (round(u), round(v)), 6, (230, 230, 230), -1, cv2.LINE_AA)

    image = scene.render(BALLS, np.random.default_rng(3), spot)
    warm = np.clip(image * np.array([0.85, 1.0, 1.2]), 0, 255).astype(np.uint8)
    result = examine(warm, SMALL)
    assert len(result.balls) == len(BALLS)
    assert sum(ball.kind.number == 0 for ball in result.balls) == 1
    for ball in result.balls:
        truth = min(BALLS, key=lambda k: float(np.linalg.norm(BALLS[k] - ball.position)))
        assert ball.kind.number == truth or ball.kind.confidence < 0.6, "a changed class must be doubtful"


def test_the_twin_drawn_over_the_picture_agrees_and_a_wrong_one_does_not():
    verify = pytest.importorskip("cue_perception.verify")
    graphics = pytest.importorskip("cue_sim.graphics")
    _, image, result = _overhead()
    try:
        good = verify.verify(result, image)
    except graphics.NoGraphicsError as error:
        pytest.skip(f"no OpenGL here: {error}")
    moved = [verify.TwinBall(b.position + np.array([0.03, 0.0]), b.colour) for b in result.balls]
    bad = verify.verify_view(result.camera, result.table, moved, image)
    assert good.edge_rms < 1.0
    assert good.silhouette_iou > 0.8
    assert bad.silhouette_iou < 0.5 * good.silhouette_iou
    assert bad.ssim < good.ssim
    assert bad.mean_lab_de > good.mean_lab_de
    assert good.picture.shape[1] == 2 * image.shape[1]


def test_everything_is_importable_without_mujoco():
    code = "import sys; sys.modules['mujoco'] = None; import cue_perception.verify, cue_perception.photo_overlay"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_classes_repeat_no_number():
    lab = np.array([nominal_lab(1), nominal_lab(1) + np.array([2, 0, 3]), nominal_lab(8)])
    kinds = classify(lab, np.array([0.05, 0.4, 0.05]))
    assert [k.number for k in kinds] == [1, 9, 8]
    assert all(0 < k.confidence <= 1 for k in kinds)


def test_a_ball_of_the_cloths_own_colour_is_found_by_its_outline():
    lens = Intrinsics.guess(960, 540, 1.15)
    scene = Scene(look_at(lens, (0.1, -0.5, 0.95)), cloth=(0.04, 0.40, 0.20), samples=2)
    image = scene.render({6: np.array([0.1, 0.05]), 3: np.array([-0.25, 0.0])}, np.random.default_rng(5))
    found = faint_balls(image, scene.camera, SMALL, [])
    gaps = [float(np.linalg.norm(b.position - [0.1, 0.05])) for b in found]
    assert min(gaps) < 0.1 * SMALL.ball_radius
    assert len(found) <= 2, "no ball is invented"
    # Chalk and shadows on an empty cloth are none.
    empty = scene.render({}, np.random.default_rng(6), lambda im: cv2.circle(im, (300, 300), 3, (230, 230, 230), -1))
    assert faint_balls(empty, scene.camera, SMALL, []) == []


def test_a_poster_with_coloured_discs_is_no_table():
    image = np.full((450, 700, 3), (215, 218, 220), np.uint8)
    cv2.rectangle(image, (150, 100), (550, 300), (160, 90, 30), -1)
    for k in range(6):
        cv2.circle(image, (200 + 60 * k, 150 + 20 * k), 6, (40 * k, 30, 250 - 40 * k), -1, cv2.LINE_AA)
    with pytest.raises(TableNotFoundError) as caught:
        examine(image)
    assert "\n" not in str(caught.value)


def test_brightening_a_lit_table_in_the_dark_keeps_its_hue():
    image = np.zeros((120, 160, 3), np.uint8)
    image[30:90, 30:130] = (180, 90, 20)
    lit = _lit(image)
    assert np.allclose(lit[60, 60] / lit[60, 60].max(), image[60, 60] / 180, atol=0.02)
