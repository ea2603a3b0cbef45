"""Markers beside the table: ends, mirror and size."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from cue_core.errors import CueError
from cue_perception.errors import TableNotFoundError
from cue_perception.fiducials import MarkerLayout, find_markers, half_turned, is_mirrored, orient, read_markers
from cue_perception.pipeline import Pipeline, TrackerConfig
from cue_perception.reconstruct import Reconstruction
from cue_perception.scale import MARKERS
from cue_perception.testing import SMALL, Scene, lens_640, look_at

SIDE = 0.05
PLACES = {7: np.array([-0.30, 0.315]), 9: np.array([0.20, 0.315])}
"""On the frame of the long side that lies at y > 0, one nearer to its end than the other: not the same after a turn."""


def lay(image: np.ndarray, scene: Scene, family: str, side: float = SIDE) -> None:
    """Draw the markers of PLACES on the frame, with their white rims, as the scene's camera sees them."""
    dictionary = cv2.aruco.getPredefinedDictionary(MARKERS[family])
    for marker_id, (x, y) in PLACES.items():
        code = np.pad(cv2.aruco.generateImageMarker(dictionary, marker_id, 200), 50, constant_values=255)
        half = side / 2 * 300 / 200
        ring = np.array([[x - half, y + half], [x + half, y + half], [x + half, y - half], [x - half, y - half]])
        seen = scene.camera.project(np.column_stack([ring, np.full(4, SMALL.nose_height)]))
        own = np.array([[-0.5, -0.5], [299.5, -0.5], [299.5, 299.5], [-0.5, 299.5]])
        to_image = cv2.getPerspectiveTransform(own.astype(np.float32), seen.astype(np.float32))
        big = np.array([[3, 0, 1], [0, 3, 1], [0, 0, 1.0]]) @ to_image  # three times as fine, then averaged
        size = image.shape[1] * 3, image.shape[0] * 3
        drawn, mask = (
            cv2.resize(cv2.warpPerspective(c, big, size), image.shape[1::-1], interpolation=cv2.INTER_AREA)
            for c in (code.astype(np.float32), np.full(code.shape, 1.0, np.float32))
        )
        image[:] = image * (1 - mask[..., None]) + drawn[..., None] * (mask[..., None] > 0)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(look_at(lens_640(), (0.05, -0.15, 1.2)), samples=2)


def picture(scene: Scene, family: str = "apriltag_36h11", side: float = SIDE) -> np.ndarray:
    balls = {0: np.array([-0.3, 0.0]), 3: np.array([0.2, 0.1])}
    return scene.render(balls, np.random.default_rng(0), lambda image: lay(image, scene, family, side))


def reconstruction(scene: Scene) -> Reconstruction:
    return Reconstruction(scene.camera, np.diag(np.arange(1.0, 7.0)) * 1e-6, 0.1, 400, np.zeros(3))


LAYOUT = MarkerLayout("apriltag_36h11", PLACES, SIDE)


@pytest.mark.parametrize("family", ["apriltag_36h11", "aruco_4x4"])
def test_markers_lie_where_they_were_laid(scene, family):
    layout = MarkerLayout(family, PLACES, SIDE)
    markers = find_markers(picture(scene, family), family)
    assert [m.marker_id for m in markers] == [7, 9]
    reading = read_markers(markers, scene.camera, SMALL, layout)
    assert reading.half_turn is False
    assert max(reading.misses.values()) < 2e-3
    assert reading.size_ratio == pytest.approx(1.0, abs=0.04)  # they are 21 px wide
    assert abs(reading.size_ratio - 1) < 3 * reading.size_sigma


def test_half_turn_is_undone_whichever_frame_was_found(scene):
    image, right = picture(scene), reconstruction(scene)
    for start in (right, half_turned(right)):
        found = orient(start, image, SMALL, LAYOUT)
        assert found.camera.position == pytest.approx(scene.camera.position)
        assert np.allclose(found.covariance, right.covariance)


def test_one_marker_suffices_unless_it_lies_in_the_middle(scene):
    markers = find_markers(picture(scene), LAYOUT.family)[:1]
    assert read_markers(markers, scene.camera.half_turned(), SMALL, LAYOUT).half_turn is True
    middle = MarkerLayout(LAYOUT.family, {7: np.zeros(2)})
    assert read_markers(markers, scene.camera, SMALL, middle).half_turn is None


def test_mirrored_image_is_told(scene):
    image = picture(scene)
    assert is_mirrored(image, LAYOUT) is False
    flipped = np.ascontiguousarray(image[:, ::-1])
    assert is_mirrored(flipped, LAYOUT) is True
    assert is_mirrored(scene.render({}, np.random.default_rng(0)), LAYOUT) is None
    with pytest.raises(TableNotFoundError, match="mirrored"):
        orient(reconstruction(scene), flipped, SMALL, LAYOUT)


def test_wrong_size_of_the_table_is_told(scene):
    image = picture(scene)
    smaller = MarkerLayout(LAYOUT.family, PLACES, 0.8 * SIDE)  # by markers of 40 mm the table would be a fifth smaller
    with pytest.raises(TableNotFoundError, match=r"table is 0\.8\d\d m long, the preset small says 1\.060 m"):
        orient(reconstruction(scene), image, SMALL, smaller)
    elsewhere = MarkerLayout(LAYOUT.family, {7: np.array([0.5, 0.0]), 9: np.array([0.5, 0.2])})
    with pytest.raises(TableNotFoundError, match="lie off their places, 7 by"):
        orient(reconstruction(scene), image, SMALL, elsewhere)


def test_layouts_are_read_and_checked(tmp_path):
    path = tmp_path / "markers.yaml"
    path.write_text("family: aruco_4x4\nside: 0.05\nplaces: {7: [-0.3, 0.315], 9: [0.2, 0.315]}\n")
    layout = MarkerLayout.load(path)
    assert layout.side == 0.05 and layout.places[9] == pytest.approx([0.2, 0.315])
    for text, says in (
        ("family: qr\nplaces: {1: [0, 0]}\n", "known are apriltag_25h9"),
        ("family: aruco_4x4\n", "lacks places"),
        ("family: aruco_4x4\nplaces: {a: [0]}\n", "not written id"),
        ("family: aruco_4x4\nplaces: {1: [0, 99]}\n", "y of marker 1"),
        ("family: aruco_4x4\nplaces: {1: [0, 0]}\nsize: 3\n", "unknown key size"),
    ):
        path.write_text(text)
        with pytest.raises(CueError, match=says):
            MarkerLayout.load(path)


def test_tracker_takes_the_frame_that_the_markers_tell(scene, tmp_path):
    path = tmp_path / "markers.yaml"
    places = "{7: [0.30, -0.315], 9: [-0.20, -0.315]}"  # the other way round: y points down in this image
    path.write_text(f"family: apriltag_36h11\nside: {SIDE}\nplaces: {places}\n")
    pipeline = Pipeline(TrackerConfig(markers=str(path), calibration_images=1), SMALL)
    outcome = pipeline.process(picture(scene), 0, scene.camera.intrinsics)
    assert outcome.calibrated, pipeline.problem
    assert pipeline.reconstruction.camera.position[:2] == pytest.approx(-scene.camera.position[:2], abs=0.01)
