"""Where real images come from: a camera device, a video file, a folder of images."""

from __future__ import annotations

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

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


@dataclass(frozen=True)
class SourceConfig:
    """Parameters of the camera node."""

    source: str = setting("0", "V4L2 index or device path, GStreamer pipeline, video file, or folder of images")
    calibration: str = setting("", "path of the lens calibration (camera_info YAML); empty = lens unknown")
    frame_id: str = setting("camera_optical_frame", "frame of the images")
    width: int = setting(0, "wanted from a device; 0 = its own", "px", 0, 16384)
    height: int = setting(0, "wanted from a device; 0 = its own", "px", 0, 16384)
    fps: float = setting(0.0, "wanted from a device, pace of files; 0 = the device's or file's own", "1/s", 0.0, 1000.0)
    repeat: bool = setting(False, "start files again at their end")
    retry: float = setting(1.0, "between attempts to open the source", "s", 0.05, 60.0)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OutOfRangeError: naming the field and its range.
        """
        check_settings(self)


class Source(Protocol):
    """Gives images one by one."""

    live: bool
    """True: images come at their own pace and the newest matters."""
    fps: float
    """Pace [1/s]; 0 = unknown."""

    def read(self) -> np.ndarray | None:
        """Return the next BGR image (h, w, 3) uint8; None at the end of a file.

        Raises:
            SourceError: the device is gone.
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
        self.live = not Path(name).is_file()
        if name.isdigit():
            device: int | str = int(name)
            if not Path(f"/dev/video{name}").exists():
                raise SourceError(f"camera {name}: /dev/video{name} is not there")
        else:
            device = name
            if name.startswith("/") and not Path(name).exists():
                raise SourceError(f"{name} is not there")
        self._capture = cv2.VideoCapture(device)
        if not self._capture.isOpened():
            raise SourceError(f"{name} cannot be opened as a camera or video")
        if self.live:
            for key, value in (
                (cv2.CAP_PROP_FRAME_WIDTH, config.width),
                (cv2.CAP_PROP_FRAME_HEIGHT, config.height),
                (cv2.CAP_PROP_FPS, config.fps),
            ):
                if value:
                    self._capture.set(key, value)
        self._name = name
        self.fps = config.fps or float(self._capture.get(cv2.CAP_PROP_FPS) or 0.0)

    def read(self) -> np.ndarray | None:
        """Return the next image; None at the end of a file."""
        found, image = self._capture.read()
        if found and image is not None:
            return image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
        if self.live:
            raise SourceError(f"{self._name} gives no more images")
        return None

    def close(self) -> None:
        """Let go of it."""
        self._capture.release()


class FolderSource:
    """The images of a folder, in the order of their names."""

    live = False

    def __init__(self, folder: Path, config: SourceConfig) -> None:
        """List them.

        Raises:
            SourceError: there are none.
        """
        self._files = iter(sorted(p for p in folder.iterdir() if p.suffix.lower() in _PICTURES))
        self._first = next(self._files, None)
        if self._first is None:
            raise SourceError(f"{folder} holds no images ({', '.join(_PICTURES)})")
        self.fps = config.fps or 30.0

    def read(self) -> np.ndarray | None:
        """Return the next image; None at the end.

        Raises:
            SourceError: a file is no image.
        """
        path = self._first or next(self._files, None)
        self._first = None
        if path is None:
            return None
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise SourceError(f"{path} is no image")
        return image

    def close(self) -> None:
        """Nothing is held."""


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

    def __init__(self, fps: float) -> None:
        """Take the pace [1/s]; 0 = as fast as can be."""
        self._period = 1.0 / fps if fps > 0 else 0.0
        self._next = time.monotonic()

    def left(self) -> float:
        """Return how long to wait for the next image [s]; each call takes one step."""
        self._next = max(self._next + self._period, time.monotonic() - self._period)
        return max(self._next - time.monotonic(), 0.0)
