"""Images get through whole: Fast DDS's own shared memory is smaller than one of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy")
pytestmark = pytest.mark.ros

SETTINGS = Path(__file__).resolve().parents[3] / "config" / "fastdds.xml"
DOMAIN = 48
COUNT = 8
CAMERA = f"""
import time, rclpy
from sensor_msgs.msg import Image
from cue_core.ros.qos import IMAGES_LOCKSTEP
rclpy.init()
node = rclpy.create_node("camera")
images = node.create_publisher(Image, "camera/image_raw", IMAGES_LOCKSTEP)
while not images.get_subscription_count():
    time.sleep(0.01)
time.sleep(0.5)  # the other side has to find this one, too, before something is sent that is sent once
for number in range({COUNT}):
    images.publish(Image(width=1280, height=720, step=3840, data=bytes([number]) * 2764800))
while images.get_subscription_count():
    time.sleep(0.01)
"""


def test_images_that_are_sent_once_arrive_all():
    from sensor_msgs.msg import Image

    from cue.ros_topics_node import wanted
    from cue.topics import topic
    from cue_core.ros.polling import Ears

    context = rclpy.Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    node = rclpy.create_node("viewer", context=context)
    ears = Ears(node)
    ears.listen(Image, "camera/image_raw", wanted(topic("camera/image_raw"), live=True), raw=True)
    own = {"ROS_DOMAIN_ID": str(DOMAIN), "FASTDDS_DEFAULT_PROFILES_FILE": str(SETTINGS)}
    camera = subprocess.Popen([sys.executable, "-c", CAMERA], env={**os.environ, **own})
    pause, end, seen = threading.Event(), time.monotonic() + 20.0, []
    try:
        while len(seen) < COUNT and time.monotonic() < end:
            seen += [bytes(heard.message)[-2764800:] for heard in ears.take()]
            pause.wait(0.02)
    finally:
        node.destroy_node()
        context.shutdown()
        camera.kill()
        camera.wait()
    assert [data[0] for data in seen] == list(range(COUNT))
    assert all(data == bytes([number]) * len(data) for number, data in enumerate(seen))
