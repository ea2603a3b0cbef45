"""Images between messages and arrays, with the same results with and without cv_bridge.

cv_bridge unpacks little-endian images where it imports; its prebuilt versions fail on NumPy 2, and its big-endian
path calls a method that NumPy 2 removed, so numpy does the work everywhere else. Row padding, byte order and channel
order are honoured in both.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from cue_core.errors import CueError, UnknownNameError

# encoding: (numpy kind, channels)
_ENCODINGS: dict[str, tuple[str, int]] = {
    "mono8": ("u1", 1),
    "8UC1": ("u1", 1),
    "mono16": ("u2", 1),
    "16UC1": ("u2", 1),
    "32FC1": ("f4", 1),
    "bgr8": ("u1", 3),
    "8UC3": ("u1", 3),
    "rgb8": ("u1", 3),
    "bgra8": ("u1", 4),
    "rgba8": ("u1", 4),
    "bayer_rggb8": ("u1", 1),
    "bayer_bggr8": ("u1", 1),
    "bayer_gbrg8": ("u1", 1),
    "bayer_grbg8": ("u1", 1),
    "yuv422": ("u1", 2),
    "yuv422_yuy2": ("u1", 2),
}
_TO_BGR = {
    "bayer_rggb8": "COLOR_BayerRGGB2BGR",
    "bayer_bggr8": "COLOR_BayerBGGR2BGR",
    "bayer_gbrg8": "COLOR_BayerGBRG2BGR",
    "bayer_grbg8": "COLOR_BayerGRBG2BGR",
    "yuv422": "COLOR_YUV2BGR_UYVY",
    "yuv422_yuy2": "COLOR_YUV2BGR_YUY2",
}


@functools.cache
def bridge() -> tuple[Any, str]:
    """Return cv_bridge's converter, or None, and one line that says which is used and why."""
    try:
        from cv_bridge import CvBridge
    except (ImportError, AttributeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"images convert through numpy: cv_bridge does not import ({reason[0]})"
    return CvBridge(), "images convert through cv_bridge"


def image_to_array(msg: Image) -> np.ndarray:
    """Return the pixels in the image's own encoding.

    Returns:
        (height, width) or (height, width, channels), native byte order, a copy that may be written to.

    Raises:
        UnknownNameError: the encoding is not supported.
        CueError: step or data do not fit width and height.
    """
    if msg.encoding not in _ENCODINGS:
        raise UnknownNameError("image encoding", msg.encoding, _ENCODINGS)
    kind, channels = _ENCODINGS[msg.encoding]
    dtype = np.dtype((">" if msg.is_bigendian else "<") + kind)
    row = msg.width * channels * dtype.itemsize
    if msg.step < row or len(msg.data) < msg.step * msg.height:
        raise CueError(
            f"image {msg.width}x{msg.height} {msg.encoding} has step {msg.step} and {len(msg.data)} bytes, "
            f"needs a step of at least {row} and step x height bytes"
        )
    converter, _ = bridge()
    if converter is not None and not msg.is_bigendian:
        return np.array(converter.imgmsg_to_cv2(msg, "passthrough"))
    rows = np.frombuffer(msg.data, np.uint8, msg.step * msg.height).reshape(msg.height, msg.step)
    pixels = np.ascontiguousarray(rows[:, :row]).view(dtype).astype(dtype.newbyteorder("="), copy=False)
    return pixels if channels == 1 else pixels.reshape(msg.height, msg.width, channels)


def image_to_bgr(msg: Image) -> np.ndarray:
    """Return the pixels as (height, width, 3) uint8 in BGR order.

    Raises:
        UnknownNameError: the encoding is not supported.
        CueError: it is not an 8-bit image, or its sizes do not fit.
    """
    pixels = image_to_array(msg)
    if pixels.dtype != np.uint8:
        raise CueError(f"image encoding {msg.encoding} has no 8-bit colours; give bgr8, rgb8, bgra8, rgba8 or mono8")
    if msg.encoding in _TO_BGR:
        import cv2

        return np.asarray(cv2.cvtColor(pixels, getattr(cv2, _TO_BGR[msg.encoding])))
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    colours = pixels[:, :, :3]
    return np.ascontiguousarray(colours[:, :, ::-1] if msg.encoding.startswith("rgb") else colours)


def array_to_image(array: np.ndarray, encoding: str, header: Header | None = None) -> Image:
    """Pack pixels that are in ``encoding`` already.

    Args:
        array: (height, width) or (height, width, channels).
        encoding: as in sensor_msgs, e.g. ``"bgr8"``.
        header: stamp and frame.

    Raises:
        UnknownNameError: the encoding is not supported.
        CueError: the array does not fit the encoding.
    """
    if encoding not in _ENCODINGS:
        raise UnknownNameError("image encoding", encoding, _ENCODINGS)
    kind, channels = _ENCODINGS[encoding]
    shape_fits = array.ndim == 2 if channels == 1 else array.ndim == 3 and array.shape[2] == channels
    if array.dtype != np.dtype(kind) or not shape_fits:
        raise CueError(f"array {array.shape} {array.dtype} does not fit {encoding} ({channels} channels of {kind})")
    msg = Image()
    if header is not None:
        msg.header = header
    msg.height, msg.width = array.shape[:2]
    msg.encoding = encoding
    msg.is_bigendian = 0
    msg.step = array.shape[1] * channels * array.itemsize
    # An array.array of bytes is the message's own storage: anything else is copied element by element.
    msg._data.frombytes(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return msg


def compressed_to_bgr(msg: CompressedImage) -> np.ndarray:
    """Decode a JPEG or PNG to (height, width, 3) uint8 in BGR order.

    The codec's own colour order decides. ``format`` (``"jpeg"``, ``"rgb8; jpeg compressed bgr8"``, ...) tells what the
    image was before, which does not matter, and after "compressed" what order the codec was given: only ``rgb8`` and
    ``rgb16`` there, where red was given for blue, turn the colours round, as image_transport does. Alpha is dropped.

    Raises:
        CueError: the bytes are no image.
    """
    import cv2

    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(msg.data, np.uint8), flags) if len(msg.data) else None
    if pixels is None:
        raise CueError(f"compressed image of format {msg.format!r} with {len(msg.data)} bytes cannot be decoded")
    swapped = msg.format.partition("compressed")[2].strip().startswith("rgb")
    return np.ascontiguousarray(pixels[:, :, ::-1]) if swapped else np.asarray(pixels)


def any_to_bgr(msg: Image | CompressedImage) -> np.ndarray:
    """Return the pixels of a raw or compressed image as (height, width, 3) uint8 in BGR order.

    Raises:
        CueError: it cannot be decoded.
    """
    return compressed_to_bgr(msg) if isinstance(msg, CompressedImage) else image_to_bgr(msg)


def bgr_to_compressed(array: np.ndarray, quality: int, header: Header | None = None) -> CompressedImage:
    """Pack BGR pixels (height, width, 3) uint8 as JPEG, named as image_transport names it.

    Args:
        array: pixels.
        quality: 1..100.
        header: stamp and frame.

    Raises:
        CueError: they cannot be encoded.
    """
    import cv2

    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise CueError(f"array {array.shape} {array.dtype} does not fit bgr8 (3 channels of u1)")
    done, data = cv2.imencode(".jpg", array, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise CueError(f"image {array.shape[1]}x{array.shape[0]} cannot be encoded as JPEG")
    msg = CompressedImage(format="bgr8; jpeg compressed bgr8")
    if header is not None:
        msg.header = header
    msg._data.frombytes(data.tobytes())
    return msg
