"""Node ``camera`` in simulation: renders what a lens above the table sees, in the place of a real camera's driver."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from cue_core.errors import CueError
from cue_core.ros.conversions import wxyz_from_xyzw
from cue_core.ros.diagnostics import Health
from cue_core.ros.images import array_to_image
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import IMAGES_LIVE, IMAGES_LOCKSTEP, STATES
from cue_core.settings import setting
from cue_msgs.msg import WorldState
from cue_sim.camera import BallPose, SimulatedCamera
from cue_sim.lens import CameraConfig
from cue_sim.world_config import WorldChoice

_START_PATIENCE = 60.0  # s for OpenGL to come up on a busy machine


@dataclass(frozen=True)
class CameraSimConfig(WorldChoice):
    """Settings of the node."""

    lockstep: bool = setting(True, "render every frame; off: the newest only, and late by the camera's latency")
    frame_id: str = setting("camera_optical_frame", "frame of the images: z forward, x right, y down")


def camera_info(camera: CameraConfig, header: Header) -> CameraInfo:
    """Return the true intrinsics and distortion."""
    matrix = camera.matrix
    return CameraInfo(
        header=header,
        width=camera.width,
        height=camera.height,
        distortion_model="plumb_bob",
        d=[*camera.distortion.tolist(), 0.0],
        k=matrix.ravel(),
        r=np.eye(3).ravel(),
        p=np.column_stack([matrix, np.zeros(3)]).ravel(),
    )


def balls_from_msg(msg: WorldState) -> dict[int, BallPose]:
    """Convert the balls of a world's state."""
    return {
        ball.id: BallPose(
            np.array(ball.position), wxyz_from_xyzw(ball.orientation), np.array(ball.velocity), ball.pocketed
        )
        for ball in msg.balls
    }


class CameraSimNode(Node):
    """Subscribes to the ground truth, publishes images; all rendering in one thread, since OpenGL wants that."""

    def __init__(self) -> None:
        """Build the scene and wait until the first picture could be drawn.

        Raises:
            CueError: a file is wrong, or there is no OpenGL.
        """
        super().__init__("camera")
        self._thread: threading.Thread | None = None
        self._settings = declare(self, CameraSimConfig)
        s = self._settings
        self._world = s.load()
        self._health = Health(self)
        qos = IMAGES_LOCKSTEP if s.lockstep else IMAGES_LIVE
        self._image_publisher = self.create_publisher(Image, "camera/image_raw", qos)
        self._info_publisher = self.create_publisher(CameraInfo, "camera/camera_info", qos)
        self._states: queue.Queue[WorldState | None] = queue.Queue()
        self._stop = threading.Event()
        self._last: tuple[int, Image, CameraInfo] | None = None
        self._viewers = 0
        started: queue.Queue[CueError | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, args=(started,), name="camera", daemon=True)
        self._thread.start()
        try:
            problem = started.get(timeout=_START_PATIENCE)
        except queue.Empty:
            problem = CueError(f"OpenGL did not come up within {_START_PATIENCE:.0f} s")
        if problem:
            raise problem
        group = ReentrantCallbackGroup()
        self.create_subscription(WorldState, "ground_truth/state", self._states.put, STATES, callback_group=group)
        wall = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(0.5, self._look_for_viewers, callback_group=group, clock=wall)

    def destroy_node(self) -> None:
        """Stop rendering first; it may not have begun."""
        if self._thread:
            self._stop.set()
            self._states.put(None)
            self._thread.join(timeout=1.0)
        super().destroy_node()

    def _work(self, started: queue.Queue[CueError | None]) -> None:
        try:
            camera = SimulatedCamera(self._world)
        except CueError as error:
            started.put(error)
            return
        started.put(None)
        while not self._stop.is_set():
            msg = self._states.get()
            while not self._settings.lockstep and not self._states.empty():
                msg = self._states.get()  # a live camera never lags behind
            if msg is None or self._stop.is_set():
                break
            try:
                self._show(camera, msg)
            except Exception:
                if self.context.ok():
                    raise
        camera.close()

    def _show(self, camera: SimulatedCamera, msg: WorldState) -> None:
        began = time.monotonic()
        if self._last and self._last[0] == msg.frame:
            self._publish()
            return
        joints = dict(zip(msg.joint_names, msg.joint_positions, strict=True))
        picture = camera.picture(msg.frame, balls_from_msg(msg), joints)
        header = Header(stamp=msg.header.stamp, frame_id=self._settings.frame_id)
        self._last = (msg.frame, array_to_image(picture, "bgr8", header), camera_info(self._world.camera, header))
        spent = time.monotonic() - began
        if not self._settings.lockstep:
            self._stop.wait(max(self._world.camera.latency - spent, 0.0))
        self._publish()
        self._health.tick("image", spent)

    def _publish(self) -> None:
        if self._last:
            _, image, info = self._last
            self._info_publisher.publish(info)
            self._image_publisher.publish(image)

    def _look_for_viewers(self) -> None:
        """Show the newest picture to somebody who came while the clock stands."""
        count = self._image_publisher.get_subscription_count() + self._info_publisher.get_subscription_count()
        if count > self._viewers:
            self._publish()
        self._viewers = count


def main() -> int:
    """Run the node."""
    return run_node(CameraSimNode, threads=2)
