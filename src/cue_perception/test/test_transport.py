"""What the tracker subscribes to, and that it draws for nobody who does not look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cue_core.errors import UnknownNameError
from cue_perception.pipeline import Pipeline, TrackerConfig
from cue_perception.testing import SMALL, Scene, lens_640, look_at

rclpy = pytest.importorskip("rclpy")
DOMAIN = 67
FRAME = 33_333_333
TWO_AND_THREE = {2: np.array([-0.3, 0.05]), 3: np.array([0.2, 0.1])}


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[Any]:
    from cue_perception.tracker_node import TrackerNode

    preset = tmp_path / "table.yaml"
    preset.write_text(yaml.safe_dump(SMALL.to_dict()))
    given = ["transport:=compressed", f"table:={preset}", "calibration_images:=1", "ball_ids:=[0, 1]"]
    rclpy.init(args=["--ros-args", *(word for g in given for word in ("-p", g))], domain_id=DOMAIN)
    node = TrackerNode()
    yield node
    node.destroy_node()
    rclpy.try_shutdown()


def test_compressed_images_are_tracked_and_drawn_only_for_subscribers(tracker, monkeypatch):
    from builtin_interfaces.msg import Time
    from sensor_msgs.msg import Image
    from std_msgs.msg import Header

    from cue_core.ros.images import bgr_to_compressed
    from cue_perception import tracker_node
    from cue_perception.ros_messages_node import lens_to_msg

    assert tracker.count_subscribers("camera/image_raw/compressed") == 1
    assert tracker.count_subscribers("camera/image_raw") == 0
    scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=2)
    balls, rng = {0: np.array([-0.3, 0.0]), 1: np.array([0.2, 0.1])}, np.random.default_rng(0)
    drawn, said = [], []
    monkeypatch.setattr(tracker_node, "draw_overlay", lambda image, *_, **__: drawn.append(1) or image)
    monkeypatch.setattr(tracker_node, "_MARKER_PERIOD", 0.0)
    monkeypatch.setattr(tracker._states, "publish", said.append)
    lens = scene.camera.intrinsics
    tracker._on_lens(lens_to_msg(lens, lens.width, lens.height))
    shown = 0

    def show() -> None:
        nonlocal shown
        stamp = Time(sec=shown // 30, nanosec=shown % 30 * FRAME)
        tracker._on_image(bgr_to_compressed(scene.render(balls, rng), 95, Header(stamp=stamp)))
        shown += 1

    for _ in range(18):
        show()
    assert said[-1].calibrated
    found = {b.id: b.position for b in said[-1].balls}
    assert set(found) == {0, 1}
    for ball_id, place in balls.items():
        assert found[ball_id] == pytest.approx(place, abs=2e-3)
    assert drawn == []

    viewer = rclpy.create_node("viewer")
    viewer.create_subscription(Image, "debug_image", lambda message: None, 2)
    end = time.monotonic() + 20
    while tracker._debug.get_subscription_count() == 0:
        assert time.monotonic() < end, "the viewer was not met"
        rclpy.spin_once(viewer, timeout_sec=0.05)
    show()
    assert drawn == [1]
    viewer.destroy_node()


def _packed(form: str, picture: np.ndarray) -> Any:
    """Return a picture (h, w, 3) BGR as a message in one of the forms that cameras send."""
    import cv2
    from sensor_msgs.msg import CompressedImage, Image

    height, width = picture.shape[:2]
    if form == "padded rgb8":
        rows = np.full((height, 3 * width + 6), 0xAB, np.uint8)
        rows[:, :-6] = picture[:, :, ::-1].reshape(height, -1)
        return Image(height=height, width=width, encoding="rgb8", step=3 * width + 6, data=rows.tobytes())
    if form == "png with alpha":
        alpha = cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA)
        return CompressedImage(format="rgba8; png compressed bgra8", data=cv2.imencode(".png", alpha)[1].tobytes())
    return CompressedImage(format=form, data=cv2.imencode(".jpg", picture)[1].tobytes())


@pytest.fixture(scope="module")
def green_pictures() -> tuple[Scene, list[np.ndarray]]:
    scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), cloth=(0.05, 0.38, 0.22), samples=2)
    rng = np.random.default_rng(0)
    return scene, [scene.render(TWO_AND_THREE, rng) for _ in range(14)]


@pytest.mark.parametrize("form", ["jpeg", "rgb8; jpeg compressed bgr8", "png with alpha", "padded rgb8"])
def test_i04_the_red_three_is_never_the_blue_two(green_pictures, form):
    from cue_core.ros.images import any_to_bgr

    scene, pictures = green_pictures
    pipeline = Pipeline(TrackerConfig(calibration_images=1), SMALL)
    for k, picture in enumerate(pictures):
        outcome = pipeline.process(any_to_bgr(_packed(form, picture)), k * FRAME, scene.camera.intrinsics)
    found = {ball.ball_id: ball.position for ball in outcome.balls}
    assert set(found) == {2, 3}
    for ball_id, place in TWO_AND_THREE.items():
        assert found[ball_id] == pytest.approx(place, abs=2e-3)


def test_unknown_transports_are_refused():
    with pytest.raises(UnknownNameError, match="known are compressed, raw"):
        TrackerConfig(transport="theora")
