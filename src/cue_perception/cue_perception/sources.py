"""Where real images come from: a camera device, a stream, a video file, a folder of images."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from cue_core.settings import check_settings, setting
from cue_perception.errors import SourceError

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
# OpenCV and FFmpeg say more than once, and in their own words, what is told here in one line. FFmpeg reads this when it
# is first used, for whatever it may be.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
_OLDEST = 1.0  # s: a driver's stamp further back than this is of another clock


@dataclass(frozen=True)
class SourceConfig:
    """Parameters of the camera node."""

    source: str = setting("0", "V4L2 index or device path, GStreamer pipeline, URL, video file, or folder of images")
    calibration: str = setting("", "path of the lens calibration (camera_info YAML); empty = lens unknown")
    frame_id: str = setting("camera_optical_frame", "frame of the images")
    width: int = setting(0, "wanted from a device; 0 = its own", "px", 0, 16384)
    height: int = setting(0, "wanted from a device; 0 = its own", "px", 0, 16384)
    fps: float = setting(0.0, "wanted from a device, pace of files; 0 = the device's or file's own", "1/s", 0.0, 1000.0)
    fourcc: str = setting("", "pixel format wanted from a device, e.g. MJPG or YUYV; empty = its own")
    latency: float = setting(0.0, "from the middle of the exposure to the driver's stamp; taken off stamps", "s", 0, 1)
    repeat: bool = setting(False, "start files again at their end")
    retry: float = setting(1.0, "before the first new attempt to open the source; doubles", "s", 0.05, 60.0)
    longest_retry: float = setting(8.0, "between attempts to open the source at most", "s", 0.05, 600.0)
    jpeg_quality: int = setting(0, "also publish image_raw/compressed with this quality; 0 = not", "1", 0, 100)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OutOfRangeError: naming the field and its range.
            SourceError: the pixel format has no four letters.
        """
        check_settings(self)
        if self.fourcc and len(self.fourcc) != 4:
            raise SourceError(f"fourcc is {self.fourcc!r}, needs four characters such as MJPG, or none")


class Source(Protocol):
    """Gives images one by one."""

    live: bool
    """True: images come at their own pace and the newest matters."""
    fps: float
    """Pace [1/s]; 0 = unknown."""
    count: int
    """Images in all; 0 = unknown."""
    stamp: float
    """Of the newest image: on the clock of ``time.monotonic`` if live, else since the beginning of the file [s]."""

    def read(self) -> np.ndarray | None:
        """Return the next BGR image (h, w, 3) uint8; None at the end of a file.

        Raises:
            SourceError: the device is gone, or a file is broken.
        """

    def close(self) -> None:
        """Let go of the device or file."""


class CaptureSource:
    """A device, stream or video file, through OpenCV."""

    def __init__(self, name: str, config: SourceConfig) -> None:
        """Open it.

        Raises:
            SourceError: it cannot be opened.
        """
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        self.live = not Path(name).is_file()
        self._name = name
        self._capture = _capture(name)
        if not self._capture.isOpened():
            raise SourceError(f"{name} cannot be opened as a {'camera' if self.live else 'video'}")
        if self.live:
            self._ask(config)
        self.fps = config.fps or float(self._capture.get(cv2.CAP_PROP_FPS) or 0.0)
        self.count = 0 if self.live else max(int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
        self.stamp = 0.0
        self._paced = config.fps > 0
        self._read = 0

    def _ask(self, config: SourceConfig) -> None:
        """Ask the device for what is wanted, the pixel format first: it decides which sizes there are."""
        if config.fourcc:
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*config.fourcc))
        for key, value in (
            (cv2.CAP_PROP_FRAME_WIDTH, config.width),
            (cv2.CAP_PROP_FRAME_HEIGHT, config.height),
            (cv2.CAP_PROP_FPS, config.fps),
            (cv2.CAP_PROP_BUFFERSIZE, 2),  # old images are of no use
        ):
            if value:
                self._capture.set(key, value)

    def read(self) -> np.ndarray | None:
        """Return the next image; None at the end of a file.

        Raises:
            SourceError: the device is gone.
        """
        found, image = self._capture.grab(), None
        now = time.monotonic()  # before the image is decoded
        if found:
            found, image = self._capture.retrieve()
        if not found or image is None:
            if self.live:
                raise SourceError(f"{self._name} gives no more images")
            return None
        told = float(self._capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000
        if self.live:  # V4L2 drivers stamp with the monotonic clock
            self.stamp = told if 0 <= now - told < _OLDEST else now
        else:  # the film's own stamps: telephones do not keep a steady pace
            even = self._read / self.fps if self.fps > 0 else 0.0
            usable = np.isfinite(told) and not self._paced and (self._read == 0 or told > self.stamp)
            self.stamp = told if usable else even if even > self.stamp or self._read == 0 else self.stamp + 1e-3
        self._read += 1
        return image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)

    def close(self) -> None:
        """Let go of it."""
        self._capture.release()


def _capture(name: str) -> cv2.VideoCapture:
    """Open what a name means: number, pipeline, address or path.

    Raises:
        SourceError: it is not there, or OpenCV here cannot open its kind.
    """
    if name.isdigit():
        if not Path(f"/dev/video{name}").exists():
            raise SourceError(f"camera {name}: /dev/video{name} is not there")
        return cv2.VideoCapture(int(name))
    if " ! " in name:
        if cv2.CAP_GSTREAMER not in cv2.videoio_registry.getBackends():
            raise SourceError(
                f"{name!r} is a GStreamer pipeline, and OpenCV {cv2.__version__} here is built without GStreamer"
                " (its wheels are; the distribution's python3-opencv is not): give a device or address instead"
            )
        return cv2.VideoCapture(name, cv2.CAP_GSTREAMER)
    if "://" not in name and not Path(name).exists():
        raise SourceError(f"{name} is not there")
    return cv2.VideoCapture(name)


class FolderSource:
    """The images of a folder, in the order of their names; numbers count as numbers (``9.png`` before ``10.png``)."""

    live = False

    def __init__(self, folder: Path, config: SourceConfig) -> None:
        """List them.

        Raises:
            SourceError: there are none.
        """
        self.files = sorted((p for p in folder.iterdir() if p.suffix.lower() in PICTURES), key=_natural)
        if not self.files:
            raise SourceError(f"{folder} holds no images ({', '.join(PICTURES)})")
        self.fps = config.fps or 30.0
        self.count = len(self.files)
        self.stamp = 0.0
        self._next = 0

    def read(self) -> np.ndarray | None:
        """Return the next image; None at the end.

        Raises:
            SourceError: a file is no image.
        """
        if self._next == self.count:
            return None
        path = self.files[self._next]
        self.stamp = self._next / self.fps
        self._next += 1
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise SourceError(f"{path} is no image")
        return image

    def close(self) -> None:
        """Nothing is held."""


def _natural(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Return a key that sorts runs of digits by their value."""
    parts: list[tuple[int, str]] = []
    digits = word = ""
    for letter in path.stem + "\0":
        if letter.isdecimal() and letter.isascii():
            if word:
                parts.append((-1, word))
                word = ""
            digits += letter
        else:
            if digits:
                parts.append((int(digits), ""))
                digits = ""
            word += letter
    return [*parts, (-1, word)], path.name


def open_source(config: SourceConfig) -> Source:
    """Open what the configuration names.

    Raises:
        SourceError: it is not there or cannot be opened.
    """
    if not config.source:
        raise SourceError("no source: give a camera index, device, video file or folder of images")
    path = Path(config.source).expanduser()
    if path.is_dir():
        return FolderSource(path, config)
    return CaptureSource(str(path) if path.exists() else config.source, config)


@contextmanager
def opened(config: SourceConfig) -> Iterator[Source]:
    """Open a source and let go of it whatever happens.

    Raises:
        SourceError: it cannot be opened.
    """
    source = open_source(config)
    try:
        yield source
    finally:
        source.close()


class Pace:
    """Keeps files at their own speed."""

    def __init__(self) -> None:
        """Start the clock."""
        self._start = self._origin = time.monotonic()

    def left(self, stamp: float) -> float:
        """Return how long to wait [s] until the image of ``stamp`` [s] is due; a late one delays all that follow."""
        late = time.monotonic() - self._start - stamp
        self._start += max(late, 0.0)
        return max(-late, 0.0)

    def due(self, stamp: float) -> float:
        """Return the time [s] of the image of ``stamp`` [s] on the clock of ``time.monotonic``.

        Late images do not count here: what moves in them must not seem to have slowed down.
        """
        return self._origin + stamp


class Backoff:
    """Waits ever longer between attempts, until one succeeds."""

    def __init__(self, first: float, longest: float) -> None:
        """Take the first and the longest wait [s]."""
        self._first, self._longest = first, max(first, longest)
        self._wait = first

    def next(self) -> float:
        """Return how long to wait now [s]."""
        wait = self._wait
        self._wait = min(2 * wait, self._longest)
        return wait

    def succeeded(self) -> None:
        """Begin again with the first wait."""
        self._wait = self._first
