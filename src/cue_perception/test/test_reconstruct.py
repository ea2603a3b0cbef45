"""The camera's pose from one image: accuracy, any cloth, and refusals (FAULTS V08, V09, V12)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.special import ndtr

from cue_perception import reconstruct as reconstruct_module
from cue_perception.camera import Camera, Intrinsics
from cue_perception.errors import TableNotFoundError
from cue_perception.noses import NoseEdges, edge_bias, nose_edges
from cue_perception.reconstruct import canonical_order, reconstruct, reconstruct_any_lens
from cue_perception.testing import SMALL, Scene, lens_640, look_at

BALLS = {
    0: np.array([-0.30, 0.05]),
    1: np.array([0.10, 0.10]),
    3: np.array([0.30, -0.10]),
    5: np.array([0.49, 0.20]),
    6: np.array([-0.10, -0.24]),
    8: np.array([-0.10, 0.245]),
}
GRID = np.array([[x, y, SMALL.ball_radius] for x in np.linspace(-0.5, 0.5, 9) for y in np.linspace(-0.24, 0.24, 5)])


def _bed_error(found: Camera, truth: Camera) -> float:
    """Largest error [m] of a ball's place anywhere on the bed."""
    seen = found.on_plane(truth.project(GRID), SMALL.ball_radius)
    return float(np.linalg.norm(seen - GRID[:, :2], axis=1).max())


@pytest.mark.parametrize(
    ("position", "roll", "cloth"),
    [
        ((0.0, -0.12, 1.20), 0.00, (0.10, 0.35, 0.62)),
        ((0.05, -0.45, 1.35), 0.02, (0.05, 0.40, 0.20)),
        ((0.20, 0.30, 1.20), 0.00, (0.50, 0.10, 0.12)),
        ((-0.20, -0.80, 1.20), 0.00, (0.10, 0.50, 0.50)),
    ],
)
def test_pose_is_right_for_any_cloth(position, roll, cloth):
    scene = Scene(look_at(lens_640(), position, (0, 0.02, 0), roll), cloth=cloth)
    found = reconstruct(scene.render(BALLS, np.random.default_rng(1)), scene.camera.intrinsics, SMALL)
    assert _bed_error(found.camera, scene.camera) < 1.6e-3
    assert found.rms < 0.4
    spread = np.sqrt(np.diag(found.covariance)[:3])
    assert np.all(np.abs(found.camera.position - scene.camera.position) < 6 * spread + 2e-3)


def test_ball_height_is_not_cloth_height():
    # V12: camera 1.5 m up and 0.8 m to the side; the centre of a ball appears 10 mm and more off its foot.
    lens = lens_640()
    lens = Intrinsics(640, 360, lens.matrix * [[1.25, 1, 1], [1, 1.25, 1], [1, 1, 1]], lens.distortion)
    scene = Scene(look_at(lens, (0.0, -0.8, 1.5)))
    found = reconstruct(scene.render(BALLS, np.random.default_rng(2)), lens, SMALL).camera
    on_cloth = found.on_plane(scene.camera.project(GRID), 0.0)
    assert np.linalg.norm(on_cloth - GRID[:, :2], axis=1).max() > 8e-3
    assert _bed_error(found, scene.camera) < 2e-3


def test_all_orders_of_the_corners_give_one_answer():
    corners = np.array([[120.0, 90.0], [520.0, 80.0], [525.0, 280.0], [122.0, 290.0]])
    answers = {tuple(canonical_order(corners[list(p)]).ravel()) for p in itertools.permutations(range(4))}
    assert len(answers) == 1


def test_frame_is_fixed_by_the_camera_and_can_be_turned():
    lens = Intrinsics.guess(640, 640, 0.95)
    image = {}
    for degrees in (0, 45, 50, 90, 135, 180, 310):
        scene = Scene(look_at(lens, (0.02, -0.1, 1.35), roll=np.radians(degrees)), samples=1)
        image[degrees] = scene, scene.render(BALLS, np.random.default_rng(3))
    for degrees, (scene, picture) in image.items():
        found = reconstruct(picture, lens, SMALL).camera
        up = -found.rotation[1, :2]
        assert up[1] > -1e-9 or abs(up[1]) < 0.1, f"y must point up in the image at {degrees} degrees"
        truth = scene.camera if found.rotation[0] @ scene.camera.rotation[0] > 0 else scene.camera.half_turned()
        assert _bed_error(found, truth) < 2e-3, f"at {degrees} degrees"
        assert np.linalg.det(found.rotation) == pytest.approx(1)
        assert found.position[2] > 0
    scene, picture = image[0]
    turned = reconstruct(picture, lens, SMALL, half_turn=True).camera
    assert _bed_error(turned, scene.camera.half_turned()) < 2e-3


def test_mirrored_image_gives_mirrored_result():
    lens = Intrinsics.guess(640, 360, 1.15)
    scene = Scene(look_at(lens, (0.03, -0.2, 1.25)))
    picture = scene.render(BALLS, np.random.default_rng(4))
    there = reconstruct(picture, lens, SMALL).camera
    back = reconstruct(np.ascontiguousarray(picture[:, ::-1]), lens, SMALL).camera
    assert back.position * [-1, 1, 1] == pytest.approx(there.position, abs=2e-3)


def test_wrong_aspect_is_refused():
    scene = Scene(look_at(lens_640(), (0.0, -0.3, 1.3)))
    picture = scene.render(BALLS, np.random.default_rng(5))
    with pytest.raises(TableNotFoundError, match=r"no rectangle of 1.06 x 0.40 m|no rectangle of 1.06 x 0.4 m"):
        reconstruct(picture, scene.camera.intrinsics, replace(SMALL, width=0.40))


def test_wall_of_the_cloths_colour_does_not_leak_in():
    # V08: everything around the frame, and the frame, three grey levels from the cloth.
    cloth = np.array([0.10, 0.35, 0.62])
    around = tuple(float(c) for c in 0.8 * cloth + 3 / 255)
    scene = Scene(look_at(lens_640(), (0.0, -0.3, 1.3)), floor=around, wood=around)
    try:
        found = reconstruct(scene.render({}, np.random.default_rng(6)), scene.camera.intrinsics, SMALL)
    except TableNotFoundError as error:
        assert "no cloth" in str(error) or "no rectangle" in str(error)
    else:
        assert _bed_error(found.camera, scene.camera) < 3e-3


def test_no_table_is_refused_in_one_line():
    picture = np.random.default_rng(7).integers(0, 255, (360, 640, 3), np.uint8)
    with pytest.raises(TableNotFoundError) as caught:
        reconstruct(picture, lens_640(), SMALL)
    assert "\n" not in str(caught.value)
    with pytest.raises(TableNotFoundError, match="640 x 360 px, camera_info says 640 x 480"):
        reconstruct(picture, Intrinsics.guess(640, 480), SMALL)


def test_unknown_lens_is_good_enough_to_see_balls():
    lens = Intrinsics.guess(640, 360, 1.1)
    scene = Scene(look_at(lens, (0.05, -0.45, 1.35)))
    found = reconstruct_any_lens(scene.render(BALLS, np.random.default_rng(8)), SMALL)
    assert _bed_error(found.camera, scene.camera) < 4e-3


def _first_region_only(monkeypatch, change):
    """Let the rough pose of a scene go through ``change`` before it is refined."""
    first = reconstruct_module._first_pose
    monkeypatch.setattr(reconstruct_module, "_first_pose", lambda *args: change(first(*args)))


def test_a_rough_outline_is_enough(monkeypatch):
    # noses further off than the usual reach, some of them
    scene = Scene(look_at(lens_640(), (0.0, -0.12, 1.20)))
    image = scene.render(BALLS, np.random.default_rng(4))
    shift = np.array([0.012, -0.01, 0.05])
    _first_region_only(monkeypatch, lambda c: Camera(c.intrinsics, c.rotation, c.translation + shift))
    assert _bed_error(reconstruct(image, scene.camera.intrinsics, SMALL).camera, scene.camera) < 1.6e-3


def test_a_pose_that_only_a_few_edges_support_is_refused(monkeypatch):
    # a camera a hand's breadth above the bed looks along one nose, which explains the edges of any line
    scene = Scene(look_at(lens_640(), (0.0, -0.12, 1.20)))
    image = scene.render(BALLS, np.random.default_rng(5))
    shift = np.array([0.3, 0.25, 0.0])
    _first_region_only(monkeypatch, lambda c: Camera(c.intrinsics, c.rotation, c.translation + shift))
    with pytest.raises(TableNotFoundError, match=r"are needed"):
        reconstruct(image, scene.camera.intrinsics, SMALL)


def test_a_pose_that_explains_a_quarter_of_the_noses_is_refused(monkeypatch):
    scene = Scene(look_at(lens_640(), (0.0, -0.12, 1.20)))
    image = scene.render(BALLS, np.random.default_rng(5))

    def few(*arguments):
        return [
            replace(e, points=e.points[::4], normals=e.normals[::4], offsets=e.offsets[::4])
            for e in nose_edges(*arguments)
        ]

    monkeypatch.setattr(reconstruct_module, "nose_edges", few)
    with pytest.raises(TableNotFoundError, match=r"places along the noses in view, 35% are needed"):
        reconstruct(image, scene.camera.intrinsics, SMALL)


def test_strips_under_noses_may_be_dark_and_wide_in_other_ways_on_every_cushion():
    # faces look different ways, so lamps light them differently: one darkness for all put noses a pixel off
    height, steps = 0.036, np.arange(-5.5, 10.01, 0.5)
    darkness = (0.45, 0.30, 0.62, 0.38)
    shifts = (0.0, 240.0, 120.0, 180.0)
    edges = []
    for dark, shift in zip(darkness, shifts, strict=True):
        width, blur = 0.25 * height * shift, 0.9
        level = 0.8 + (dark - 0.8) * ndtr(steps / blur) + (1 - dark) * ndtr((steps - width) / blur)
        slope = np.abs(np.gradient(level))
        near = np.flatnonzero((np.abs(steps) < 2.5) & (slope >= np.roll(slope, 1)) & (slope > np.roll(slope, -1)))
        peak = float(steps[near[np.argmin(np.abs(steps[near]))]])
        profile = np.column_stack([40 * level, 0 * level, 0 * level])
        edges.append(NoseEdges(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), steps, profile, peak, shift))
    bias, covariance = edge_bias(edges, height)
    off = np.array([e.peak for e in edges]) - bias  # the noses are at 0
    assert np.all(np.abs(off) < 0.2)
    assert off @ np.linalg.solve(covariance + 0.03**2 * np.eye(4), off) < 13.3  # 99 % of chi-squared


@pytest.mark.parametrize(
    "arm",
    [
        [(250, 480), (345, 480), (330, 230), (290, 230)],  # over a long cushion
        [(640, 150), (640, 235), (400, 260), (400, 225)],  # over a short one
    ],
)
def test_an_arm_over_a_cushion_does_not_spoil_the_pose(arm):
    # a camera that was nudged is calibrated anew with whatever is in view then
    scene = Scene(look_at(lens_640(), (0.0, -0.12, 1.20)))

    def draw(image: np.ndarray) -> None:
        cv2.fillPoly(image, [np.array(arm, np.int32)], (150, 150, 155), cv2.LINE_AA)
        cv2.line(image, arm[2], arm[3], (60, 60, 60), 6, cv2.LINE_AA)

    found = reconstruct(scene.render(BALLS, np.random.default_rng(6), draw), scene.camera.intrinsics, SMALL)
    assert _bed_error(found.camera, scene.camera) < 1.5e-3
