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


def test_i01_row_padding_is_honoured(picture: np.ndarray) -> None:
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
        (".png", "png"),
        (".jpg", ""),
    ],
)
def test_i04_red_stays_red_in_every_compressed_form(suffix: str, text: str) -> None:
    picture = red_three_and_blue_two()
    source = cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA) if suffix == ".png" else picture
    data = cv2.imencode(suffix, source)[1].tobytes()
    decoded = images.compressed_to_bgr(CompressedImage(format=text, data=data))
    assert decoded.shape == picture.shape
    assert np.abs(decoded[32, 20].astype(int) - picture[32, 20]).max() < 12
    assert np.abs(decoded[32, 100].astype(int) - picture[32, 100]).max() < 12


def test_i04_a_codec_that_was_given_red_for_blue_is_turned_round() -> None:
    picture = red_three_and_blue_two()
    data = cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes()
    decoded = images.any_to_bgr(CompressedImage(format="rgb8; png compressed rgb8", data=data))
    assert np.array_equal(decoded, picture)


def test_compressed_images_of_our_own_come_back() -> None:
    picture = red_three_and_blue_two()
    msg = images.bgr_to_compressed(picture, 95)
    assert msg.format == "bgr8; jpeg compressed bgr8"
    assert np.abs(images.any_to_bgr(msg).astype(int) - picture)[:, 70:].max() < 12
    smaller = images.bgr_to_compressed(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), 20)
    assert len(smaller.data) < 64 * 64 * 3 / 2
    with pytest.raises(CueError, match="does not fit bgr8"):
        images.bgr_to_compressed(picture[:, :, 0], 95)


@pytest.mark.parametrize("order", ["rggb", "bggr", "gbrg", "grbg"])
def test_red_stays_red_behind_a_colour_filter(order: str) -> None:
    red = {"r": 210, "g": 40, "b": 20}
    cell = np.array([[red[order[0]], red[order[1]]], [red[order[2]], red[order[3]]]], np.uint8)
    msg = images.array_to_image(np.tile(cell, (8, 8)), f"bayer_{order}8")
    assert images.any_to_bgr(msg)[8, 8].tolist() == [20, 40, 210]


@pytest.mark.parametrize(("encoding", "luma"), [("yuv422", 1), ("yuv422_yuy2", 0)])
def test_red_stays_red_in_webcam_formats(encoding: str, luma: int) -> None:
    pair = np.zeros((2, 2), np.uint8)  # two pixels: luma each, and the two chromas that they share
    pair[:, luma], pair[0, 1 - luma], pair[1, 1 - luma] = 81, 90, 240  # red of BT.601
    blue, green, red = images.any_to_bgr(images.array_to_image(np.tile(pair, (4, 4, 1)), encoding))[1, 1].tolist()
    assert red > 240 and green < 10 and blue < 10


@pytest.mark.parametrize("big", [0, 1])
def test_i05_sixteen_bit_byte_order(big: int) -> None:
    values = np.arange(12, dtype=np.uint16).reshape(3, 4) * 4099
    data = values.astype(">u2" if big else "<u2").tobytes()
    msg = Image(height=3, width=4, encoding="mono16", is_bigendian=big, step=8, data=data)
    unpacked = images.image_to_array(msg)
    assert unpacked.dtype == np.uint16 and unpacked.dtype.isnative
    assert np.array_equal(unpacked, values)


def test_i05_a_broken_cv_bridge_is_explained_in_one_line() -> None:
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
