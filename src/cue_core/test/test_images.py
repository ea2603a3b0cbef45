"""Images: padding, byte order, channel order (faults I01, I04, I05)."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage, Image

from cue_core import CueError
from cue_core.errors import UnknownNameError
from cue_core.ros import images


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (480, 638, 3), dtype=np.uint8)


def test_row_padding_is_honoured(picture: np.ndarray) -> None:
    padded = np.full((480, 1920), 0xAB, np.uint8)
    padded[:, : 638 * 3] = picture.reshape(480, -1)
    msg = Image(height=480, width=638, encoding="bgr8", step=1920, data=padded.tobytes())
    assert np.array_equal(images.image_to_bgr(msg), picture)


def test_pack_and_unpack(picture: np.ndarray) -> None:
    msg = images.array_to_image(picture, "bgr8")
    assert (msg.height, msg.width, msg.step) == (480, 638, 1914)
    assert np.array_equal(images.image_to_array(msg), picture)


def test_non_contiguous_arrays_pack(picture: np.ndarray) -> None:
    assert np.array_equal(images.image_to_array(images.array_to_image(picture[::2, ::-1], "bgr8")), picture[::2, ::-1])


@pytest.mark.parametrize(
    "encoding, order",
    [("bgr8", [0, 1, 2]), ("rgb8", [2, 1, 0]), ("bgra8", [0, 1, 2, 3]), ("rgba8", [2, 1, 0, 3])],
)
def test_red_stays_red_in_every_raw_form(encoding: str, order: list[int]) -> None:
    bgra = np.zeros((4, 6, 4), np.uint8)
    bgra[:] = (20, 30, 200, 255)
    msg = images.array_to_image(np.ascontiguousarray(bgra[:, :, order]), encoding)
    assert np.array_equal(images.image_to_bgr(msg), bgra[:, :, :3])


def red_three_and_blue_two() -> np.ndarray:
    picture = np.zeros((64, 128, 3), np.uint8)
    picture[:, :64] = (20, 20, 205)
    picture[:, 64:] = (140, 40, 20)
    return picture


@pytest.mark.parametrize(
    "suffix, text",
    [
        (".jpg", "jpeg"),
        (".jpg", "rgb8; jpeg compressed bgr8"),
        (".jpg", "bgr8; jpeg compressed bgr8"),
        (".png", "rgba8; png compressed"),
    ],
)
def test_red_stays_red_in_every_compressed_form(suffix: str, text: str) -> None:
    picture = red_three_and_blue_two()
    source = cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA) if suffix == ".png" else picture
    data = cv2.imencode(suffix, source)[1].tobytes()
    decoded = images.compressed_to_bgr(CompressedImage(format=text, data=data))
    assert decoded.shape == picture.shape
    assert np.abs(decoded[32, 20].astype(int) - picture[32, 20]).max() < 12
    assert np.abs(decoded[32, 100].astype(int) - picture[32, 100]).max() < 12


@pytest.mark.parametrize("big", [0, 1])
def test_sixteen_bit_byte_order(big: int) -> None:
    values = np.arange(12, dtype=np.uint16).reshape(3, 4) * 4099
    data = values.astype(">u2" if big else "<u2").tobytes()
    msg = Image(height=3, width=4, encoding="mono16", is_bigendian=big, step=8, data=data)
    unpacked = images.image_to_array(msg)
    assert unpacked.dtype == np.uint16 and unpacked.dtype.isnative
    assert np.array_equal(unpacked, values)


def test_a_broken_cv_bridge_is_explained_in_one_line() -> None:
    converter, reason = images.bridge()
    assert reason and "\n" not in reason
    assert ("numpy" in reason) == (converter is None)


def test_cv_bridge_gives_the_same_pixels(picture: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The converter that cv_bridge documents, played by a fake: the path through it changes nothing."""

    class Bridge:
        def imgmsg_to_cv2(self, msg: Image, desired_encoding: str) -> np.ndarray:
            assert desired_encoding == "passthrough"
            return np.frombuffer(msg.data, np.uint8).reshape(msg.height, msg.width, 3)

    msg = images.array_to_image(picture, "bgr8")
    plain = images.image_to_array(msg)
    monkeypatch.setattr(images, "bridge", lambda: (Bridge(), "fake"))
    assert np.array_equal(images.image_to_array(msg), plain)


def test_wrong_sizes_and_encodings_are_named(picture: np.ndarray) -> None:
    msg = images.array_to_image(picture, "bgr8")
    msg.step = 100
    with pytest.raises(CueError, match="step 100"):
        images.image_to_array(msg)
    msg.encoding = "yuv9"
    with pytest.raises(UnknownNameError, match=r"'yuv9'; known are .*bgr8"):
        images.image_to_array(msg)
    with pytest.raises(CueError, match="does not fit mono8"):
        images.array_to_image(picture, "mono8")
    with pytest.raises(CueError, match="cannot be decoded"):
        images.compressed_to_bgr(CompressedImage(format="jpeg", data=b"nothing"))
