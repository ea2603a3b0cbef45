"""Devices, video files and folders as cameras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from cue_core.errors import CueError, FileFormatError
from cue_perception import sources
from cue_perception.camera import Intrinsics
from cue_perception.errors import SourceError
from cue_perception.sources import Backoff, Pace, SourceConfig, open_source, opened


def _pictures(count: int) -> list[np.ndarray]:
    return [np.full((48, 64, 3), 20 * k + 10, np.uint8) for k in range(count)]


def write_folder(folder: Path, count: int = 4) -> Path:
    folder.mkdir()
    for k, picture in enumerate(_pictures(count)):
        cv2.imwrite(str(folder / f"{k:03d}.png"), picture)
    (folder / "notes.txt").write_text("no image")
    return folder


def write_video(path: Path, count: int = 5, fps: float = 25.0) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), fps, (64, 48))
    assert writer.isOpened()
    for picture in _pictures(count):
        writer.write(picture)
    writer.release()
    return path


def test_folder_gives_its_images_in_order(tmp_path):
    with opened(SourceConfig(source=str(write_folder(tmp_path / "images")), fps=10.0)) as source:
        seen = []
        while (image := source.read()) is not None:
            seen.append((round(float(image.mean())), source.stamp))
    assert [mean for mean, _ in seen] == [10, 30, 50, 70]
    assert [stamp for _, stamp in seen] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert source.count == 4
    assert not source.live


def test_numbers_in_names_count_as_numbers(tmp_path):
    for name in ("shot10.png", "shot9.png", "shot 1.png", "Shot2b.png", "10.png", "9.png"):
        cv2.imwrite(str(tmp_path / name), np.zeros((8, 8, 3), np.uint8))
    with opened(SourceConfig(source=str(tmp_path))) as source:
        order = [p.stem for p in source.files]
    assert order.index("9") < order.index("10")
    assert order.index("shot9") < order.index("shot10")


def test_video_gives_its_images_pace_and_stamps(tmp_path):
    with opened(SourceConfig(source=str(write_video(tmp_path / "shot.avi")))) as source:
        assert source.fps == pytest.approx(25.0)
        assert source.count == 5
        images, stamps = [], []
        while (image := source.read()) is not None:
            images.append(image)
            stamps.append(source.stamp)
    assert len(images) == 5
    assert images[3].mean() == pytest.approx(70, abs=3)
    assert stamps == pytest.approx(np.arange(5) / 25, abs=1e-3)


def test_a_pace_that_is_given_counts_more_than_the_films(tmp_path):
    with opened(SourceConfig(source=str(write_video(tmp_path / "slow.avi")), fps=240.0)) as source:
        for _ in range(3):
            source.read()
        assert source.stamp == pytest.approx(2 / 240)


class _Device:
    """What V4L2 shows of itself through OpenCV: an unsteady film, or a camera that is pulled out."""

    def __init__(self, stamps: list[float], images: list[np.ndarray]) -> None:
        self.stamps, self.images = stamps, images
        self.set_to: list[tuple[int, float]] = []
        self.at = -1

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def set(self, key: int, value: float) -> bool:
        self.set_to.append((key, value))
        return True

    def get(self, key: int) -> float:
        return 1000 * self.stamps[self.at] if key == cv2.CAP_PROP_POS_MSEC else 0.0

    def grab(self) -> bool:
        self.at += 1
        return self.at < len(self.images)

    def retrieve(self) -> tuple[bool, Any]:
        return True, self.images[self.at]

    def release(self) -> None:
        pass


def test_camera_is_stamped_by_its_driver_and_missed_when_pulled_out(monkeypatch):
    # Given: a driver that stamps 30 ms before the image arrives, then an unusable stamp; grey and colour images.
    grey, colour = np.full((4, 6), 90, np.uint8), np.full((4, 6, 3), 50, np.uint8)
    device = _Device([99.97, 5.0, 99.99], [grey, colour])
    monkeypatch.setattr(sources, "_capture", lambda name: device)
    monkeypatch.setattr(sources.time, "monotonic", lambda: 100.0)
    source = open_source(SourceConfig(source="7", fourcc="MJPG", width=1280, fps=60.0))
    assert source.live
    assert device.set_to[0] == (cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*"MJPG")), "decides which sizes there are"
    assert (cv2.CAP_PROP_FRAME_WIDTH, 1280) in device.set_to
    image = source.read()
    assert image.shape == (4, 6, 3) and source.stamp == pytest.approx(99.97)
    source.read()
    assert source.stamp == 100.0, "of another clock: when it came is the best that is known"
    with pytest.raises(SourceError, match="7 gives no more images"):
        source.read()


def test_waits_grow_until_the_camera_is_back():
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.succeeded()
    assert backoff.next() == 0.5


def test_late_images_keep_their_stamps(monkeypatch):
    now = 50.0
    monkeypatch.setattr(sources.time, "monotonic", lambda: now)
    pace = Pace()
    assert pace.left(0.1) == pytest.approx(0.1)
    now = 50.5
    assert pace.left(0.1) == 0.0
    assert pace.left(0.2) == pytest.approx(0.1), "no rush to catch up"
    assert pace.due(0.2) - pace.due(0.1) == pytest.approx(0.1)
    assert pace.due(0.1) == pytest.approx(50.1)


@pytest.mark.parametrize("name", ["", "/dev/video77", "77", "/no/such/file.mp4", "no_such.mp4"])
def test_what_is_not_there_is_said_in_one_line(name, capfd):
    with pytest.raises(SourceError) as caught:
        open_source(SourceConfig(source=name))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_file_that_is_no_video_is_said_in_one_line(tmp_path, capfd):
    path = tmp_path / "shot.mp4"
    path.write_text("no video")
    with pytest.raises(SourceError, match=r"shot\.mp4 cannot be opened as a video"):
        open_source(SourceConfig(source=str(path)))
    assert capfd.readouterr().err == "", "OpenCV and FFmpeg keep quiet"


def test_pipelines_need_gstreamer(monkeypatch):
    monkeypatch.setattr(cv2.videoio_registry, "getBackends", lambda: [cv2.CAP_FFMPEG])
    with pytest.raises(SourceError, match="is built without GStreamer"):
        open_source(SourceConfig(source="videotestsrc ! appsink"))


def test_pixel_formats_have_four_letters():
    with pytest.raises(SourceError, match="'MJPEG', needs four characters"):
        SourceConfig(fourcc="MJPEG")


def test_empty_folder_and_broken_image(tmp_path):
    with pytest.raises(SourceError, match="holds no images"):
        open_source(SourceConfig(source=str(tmp_path)))
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(SourceError, match=r"a\.png is no image"), opened(SourceConfig(source=str(tmp_path))) as source:
        source.read()


_FILE = (
    "image_width: 64\nimage_height: 48\ncamera_name: a\n"
    "camera_matrix: {{rows: 3, cols: 3, data: [{fx}, 0, {cx}, 0, 61, 23.5, 0, 0, 1]}}\n"
    "distortion_model: {model}\ndistortion_coefficients: {{rows: 1, cols: 5, data: {d}}}\n"
)
_GOOD = {"fx": 60, "cx": 31.5, "model": "plumb_bob", "d": [0.1, 0, 0, 0, 0]}


def test_calibration_file(tmp_path):
    path = tmp_path / "camera.yaml"
    path.write_text(_FILE.format(**_GOOD))
    lens = Intrinsics.load(path)
    assert (lens.width, lens.height) == (64, 48)
    assert lens.matrix[1, 1] == 61
    pixels = np.array([[3.0, 4.0], [60.0, 40.0]])
    assert lens.distort(lens.undistort(pixels)) == pytest.approx(pixels, abs=1e-7)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "equidistant"}, "distortion_model is 'equidistant', known are plumb_bob, rational_polynomial"),
        ({"d": [0.1, 0, 0]}, "3 distortion coefficients, plumb_bob has 4 or 5"),
        ({"d": [".nan", 0, 0, 0, 0]}, "are not all finite"),
        ({"fx": 0}, "focal length fx"),
        ({"cx": 640}, "optical centre"),
        ({"model": "rational_polynomial"}, "5 distortion coefficients, rational_polynomial has 8"),
    ],
)
def test_wrong_calibrations_are_refused(tmp_path, change, says):
    path = tmp_path / "camera.yaml"
    path.write_text(_FILE.format(**{**_GOOD, **change}).replace("'", ""))
    with pytest.raises(CueError, match=says):
        Intrinsics.load(path)


def test_what_is_no_calibration_is_refused(tmp_path):
    path = tmp_path / "camera.yaml"
    path.write_text("image_width: 64\n")
    with pytest.raises(FileFormatError, match="no camera calibration"):
        Intrinsics.load(path)
