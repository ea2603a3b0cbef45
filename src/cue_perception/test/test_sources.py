"""Video files and folders as cameras."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from cue_core.errors import FileFormatError
from cue_perception.camera import Intrinsics
from cue_perception.errors import SourceError
from cue_perception.sources import SourceConfig, open_source, opened


def _pictures(count: int) -> list[np.ndarray]:
    return [np.full((48, 64, 3), 20 * k + 10, np.uint8) for k in range(count)]


def write_folder(folder: Path, count: int = 4) -> Path:
    folder.mkdir()
    for k, picture in enumerate(_pictures(count)):
        cv2.imwrite(str(folder / f"{k:03d}.png"), picture)
    (folder / "notes.txt").write_text("no image")
    return folder


def test_folder_gives_its_images_in_order(tmp_path):
    with opened(SourceConfig(source=str(write_folder(tmp_path / "images")))) as source:
        means = []
        while (image := source.read()) is not None:
            means.append(round(float(image.mean())))
    assert means == [10, 30, 50, 70]
    assert not source.live


def test_video_gives_its_images_and_pace(tmp_path):
    path = tmp_path / "shot.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25.0, (64, 48))
    assert writer.isOpened()
    for picture in _pictures(5):
        writer.write(picture)
    writer.release()
    with opened(SourceConfig(source=str(path))) as source:
        assert source.fps == pytest.approx(25.0)
        images = []
        while (image := source.read()) is not None:
            images.append(image)
    assert len(images) == 5
    assert images[3].mean() == pytest.approx(70, abs=3)


@pytest.mark.parametrize("name", ["", "/dev/video77", "77", "/no/such/file.mp4"])
def test_what_is_not_there_is_said_in_one_line(name):
    with pytest.raises(SourceError) as caught:
        open_source(SourceConfig(source=name))
    assert "\n" not in str(caught.value)


def test_empty_folder_and_broken_image(tmp_path):
    with pytest.raises(SourceError, match="holds no images"):
        open_source(SourceConfig(source=str(tmp_path)))
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(SourceError, match=r"a\.png is no image"), opened(SourceConfig(source=str(tmp_path))) as source:
        source.read()


def test_calibration_file(tmp_path):
    path = tmp_path / "camera.yaml"
    path.write_text(
        "image_width: 64\nimage_height: 48\n"
        "camera_matrix: {rows: 3, cols: 3, data: [60, 0, 31.5, 0, 61, 23.5, 0, 0, 1]}\n"
        "distortion_model: plumb_bob\ndistortion_coefficients: {rows: 1, cols: 5, data: [0.1, 0, 0, 0, 0]}\n"
    )
    lens = Intrinsics.load(path)
    assert (lens.width, lens.height) == (64, 48)
    assert lens.matrix[1, 1] == 61
    pixels = np.array([[3.0, 4.0], [60.0, 40.0]])
    assert lens.distort(lens.undistort(pixels)) == pytest.approx(pixels, abs=1e-7)
    path.write_text("image_width: 64\n")
    with pytest.raises(FileFormatError, match="no camera calibration"):
        Intrinsics.load(path)
