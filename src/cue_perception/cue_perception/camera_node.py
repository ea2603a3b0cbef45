"""A real camera, a video file or a folder of images as a ROS node."""

from __future__ import annotations

import threading
import time

import numpy as np
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from cue_core.errors import CueError
from cue_core.ros.diagnostics import Health
from cue_core.ros.images import array_to_image, bgr_to_compressed
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import IMAGES_LOCKSTEP
from cue_perception.camera import Intrinsics
from cue_perception.errors import SourceError
from cue_perception.ros_messages_node import lens_to_msg
from cue_perception.sources import Backoff, Pace, Source, SourceConfig, opened


class CameraNode(Node):
    """Publishes ``camera/image_raw`` (and ``/compressed``) and ``camera/camera_info``; comes back when the camera does.

    Images are stamped with their exposure as far as the driver tells; those of files, evenly from the first one on.
    """

    def __init__(self) -> None:
        """Declare parameters, read the calibration, begin to read images."""
        super().__init__("camera")
        self._config = config = declare(self, SourceConfig)
        self._lens = Intrinsics.load(config.calibration) if config.calibration else None
        # Reliable: a best-effort subscriber still gets them, and a file loses none.
        self._images = self.create_publisher(Image, "camera/image_raw", IMAGES_LOCKSTEP)
        self._infos = self.create_publisher(CameraInfo, "camera/camera_info", IMAGES_LOCKSTEP)
        self._compressed = (
            self.create_publisher(CompressedImage, "camera/image_raw/compressed", IMAGES_LOCKSTEP)
            if config.jpeg_quality
            else None
        )
        self._backoff = Backoff(config.retry, config.longest_retry)
        self._health = Health(self)
        self._stop = threading.Event()
        self._waiting = False
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with opened(self._config) as source:
                    self._publish_all(source)
            except CueError as error:
                self._wait_for_camera(error)
            else:
                if not self._config.repeat:
                    self.get_logger().info(f"{self._config.source} has ended")
                    return

    def _wait_for_camera(self, error: CueError) -> None:
        """Say once that the camera is missing, and try again a little later."""
        self._health.error(str(error))
        if not self._waiting:
            self._waiting = True
            self.get_logger().warning(f"waiting for camera: {error}")
        self._stop.wait(self._backoff.next())

    def _publish_all(self, source: Source) -> None:
        pace, first = Pace(), True
        while not self._stop.is_set():
            image = source.read()
            if image is None:
                return
            if not source.live:
                self._stop.wait(pace.left(source.stamp))
            height, width = image.shape[:2]
            if self._lens is not None and (width, height) != (self._lens.width, self._lens.height):
                raise SourceError(
                    f"images are {width} x {height} px, the calibration is for {self._lens.width} x {self._lens.height}"
                )
            if first:  # only now is the camera known to work
                first = self._waiting = False
                self._backoff.succeeded()
                self._health.ok()
                self.get_logger().info(f"reading {self._config.source}: {width} x {height} px, {source.fps:.3g} fps")
            taken = source.stamp - self._config.latency if source.live else pace.due(source.stamp)
            self._publish(image, time.monotonic() - taken)

    def _publish(self, image: np.ndarray, age: float) -> None:
        """Publish an image taken ``age`` [s] ago, and its lens."""
        height, width = image.shape[:2]
        stamp = self.get_clock().now() - Duration(seconds=age)
        header = Header(stamp=stamp.to_msg(), frame_id=self._config.frame_id)
        info = lens_to_msg(self._lens, width, height)
        info.header = header
        self._infos.publish(info)
        self._images.publish(array_to_image(image, "bgr8", header))
        if self._compressed is not None and self._compressed.get_subscription_count():
            self._compressed.publish(bgr_to_compressed(image, self._config.jpeg_quality, header))
        self._health.tick("image", age)

    def destroy_node(self) -> None:
        """Let go of the camera first."""
        self._stop.set()
        self._thread.join(timeout=2.0)
        super().destroy_node()


def main() -> int:
    """Run the node."""
    return run_node(CameraNode, threads=1)
