"""The arm's joint states for the tracker, by the time of each image."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import JointState

from cue_core.ros import conversions as convert
from cue_core.ros.qos import STATES, STATES_LATCHED
from cue_perception.arm_mask import JointHistory

_PATIENCE = 0.2  # s, wall clock: how long an image waits for the joint state of its time, once


class ArmJoints:
    """Listens to ``joint_states``, in a callback group of its own: an image may wait for them."""

    def __init__(self, node: Node, joints: Sequence[str], waits: bool) -> None:
        """Listen for ``node``; ``waits``: the world sends them before the image, so an image may wait for its own."""
        self._history, self._waits, self._silent = JointHistory(joints), waits, False
        self._came = threading.Condition()
        quality = STATES_LATCHED if waits else STATES
        group = MutuallyExclusiveCallbackGroup()
        node.create_subscription(JointState, "joint_states", self._on_joints, quality, callback_group=group)

    def _on_joints(self, msg: JointState) -> None:
        with self._came:
            self._history.add(convert.stamp_to_nanoseconds(msg.header.stamp), msg.name, msg.position, msg.velocity)
            self._silent = False
            self._came.notify_all()

    def at(self, stamp: int) -> np.ndarray | None:
        """Return the angles (n,) [rad] at an image's stamp [ns]; None = not known.

        The simulated world sends them before the image, but on another topic: the image waits for them, so that one
        seed gives one session. An arm that has fallen silent is waited for once.
        """
        with self._came:
            if self._waits and not self._silent and self._history.period:
                self._silent = not self._came.wait_for(lambda: self._history.covers(stamp), _PATIENCE)
            return self._history.at(stamp)
