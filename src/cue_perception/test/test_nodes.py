"""Tracker and camera as processes: acknowledgements, latched table, records, kill and return (FAULTS R11, V14)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from cue_core.shot_log import ShotLog
from cue_perception.testing import SMALL, Scene, lens_640, look_at

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy")

DOMAIN = 62
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
FRAME = 33_333_333


def _stamp(nanoseconds: int) -> Any:
    from builtin_interfaces.msg import Time

    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def _start(node: str, folder: Path, *parameters: str) -> subprocess.Popen[str]:
    given = [part for p in parameters for part in ("-p", p)]
    with open(folder / f"{node}.log", "a") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPTS / node), "--ros-args", *given],
            cwd=folder,
            env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )


class _Client:
    """A camera and an arm that speak, and ears for everything the tracker says."""

    def __init__(self) -> None:
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.executors import SingleThreadedExecutor
        from sensor_msgs.msg import CameraInfo, CompressedImage, Image
        from tf2_msgs.msg import TFMessage

        from cue_core.ros.qos import IMAGES_LOCKSTEP, LATCHED, RECORDS, STATES_LATCHED
        from cue_msgs.msg import BallStateArray, ShotExecution, ShotRecord, TableInfo

        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=DOMAIN)
        self.node = rclpy.create_node("test_client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.heard: dict[str, list[Any]] = {}
        for topic, kind, qos in (
            ("ball_states", BallStateArray, STATES_LATCHED),
            ("table_info", TableInfo, LATCHED),
            ("shot_records", ShotRecord, RECORDS),
            ("tf_static", TFMessage, LATCHED),
            ("camera/image_raw", Image, IMAGES_LOCKSTEP),
            ("camera/image_raw/compressed", CompressedImage, IMAGES_LOCKSTEP),
            ("/diagnostics", DiagnosticArray, 10),
        ):
            self.heard[topic] = []
            self.node.create_subscription(kind, topic, self.heard[topic].append, qos)
        self.images = self.node.create_publisher(Image, "camera/image_raw", IMAGES_LOCKSTEP)
        self.infos = self.node.create_publisher(CameraInfo, "camera/camera_info", IMAGES_LOCKSTEP)
        self.executions = self.node.create_publisher(ShotExecution, "shot_execution", LATCHED)

    def spin_until(self, predicate: Callable[[], bool], timeout: float, what: str) -> None:
        end = time.monotonic() + timeout
        while not predicate():
            assert time.monotonic() < end, f"no {what} within {timeout} s"
            self.executor.spin_once(timeout_sec=0.05)

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.shutdown()


@pytest.fixture
def client() -> Iterator[_Client]:
    made = _Client()
    yield made
    made.close()


class _Table:
    """Images of a table, shown one by one, each waited for."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=2)
        self.balls = {0: np.array([-0.3, 0.0]), 1: np.array([0.2, 0.1]), 3: np.array([0.1, -0.15])}
        self.rng = np.random.default_rng(1)
        self.frame = 0
        self.alter = lambda picture: picture
        self.before = lambda stamp: None

    def publish(self, frame: int) -> None:
        from std_msgs.msg import Header

        from cue_core.ros.images import array_to_image
        from cue_perception.ros_messages_node import lens_to_msg

        header = Header(stamp=_stamp(frame * FRAME), frame_id="camera_optical_frame")
        lens = self.scene.camera.intrinsics
        info = lens_to_msg(lens, lens.width, lens.height)
        info.header = header
        self.client.infos.publish(info)
        self.before(frame * FRAME)
        picture = self.alter(self.scene.render(self.balls, self.rng))
        self.client.images.publish(array_to_image(picture, "bgr8", header))

    def answers(self, frame: int) -> list[Any]:
        from cue_core.ros.conversions import stamp_to_nanoseconds

        return [m for m in self.client.heard["ball_states"] if stamp_to_nanoseconds(m.header.stamp) == frame * FRAME]

    def show(self) -> Any:
        frame = self.frame
        self.frame += 1
        sent = -np.inf

        def answered() -> bool:  # sends again what is not answered, as the simulated world does
            nonlocal sent
            if not self.answers(frame) and time.monotonic() > sent + 2:
                sent = time.monotonic()
                self.publish(frame)
            return bool(self.answers(frame))

        self.client.spin_until(answered, 30, f"answer to image {frame}")
        return self.answers(frame)[-1]

    def settle(self) -> Any:
        for _ in range(60):
            answer = self.show()
            if answer.settled:
                return answer
        raise AssertionError(f"never settled: {answer}")


def test_tracker_process_acknowledges_records_and_survives_kills(client, tmp_path):
    from cue_msgs.msg import Shot, ShotExecution

    preset = tmp_path / "table.yaml"
    preset.write_text(yaml.safe_dump(SMALL.to_dict()))
    parameters = (f"table:={preset}", f"run_dir:={tmp_path}", "ball_ids:=[0, 1, 3]")
    table = _Table(client)
    process = _start("tracker", tmp_path, *parameters)
    try:
        client.spin_until(lambda: client.images.get_subscription_count() > 1, 30, "tracker")
        client.spin_until(lambda: client.infos.get_subscription_count() > 0, 10, "tracker")
        answer = table.settle()
        assert [b.id for b in answer.balls] == [0, 1, 3]
        assert answer.frame == table.frame
        client.spin_until(lambda: bool(client.heard["table_info"] and client.heard["tf_static"]), 5, "table")
        info = client.heard["table_info"][0]
        assert info.reprojection_rms < 0.5
        assert info.camera_pose.position.z == pytest.approx(1.15, abs=0.02)
        assert {t.child_frame_id for t in client.heard["tf_static"][0].transforms} == {"table", "camera_optical_frame"}
        assert (tmp_path / "table.png").stat().st_size > 1000

        # The same image again: acknowledged again, not looked at again.
        last = table.frame - 1
        count = len(table.answers(last))
        table.publish(last)
        client.spin_until(lambda: len(table.answers(last)) > count, 10, "second answer")
        assert table.answers(last)[-1].frame == answer.frame

        shot = Shot(id="one", speed=0.5, azimuth=0.0)
        started = ShotExecution(shot=shot, phase=ShotExecution.STARTED)
        started.header.stamp = _stamp(last * FRAME)
        client.executions.publish(started)
        client.spin_until(lambda: table.answers(last)[-1].open_shot_id == "one", 10, "open shot")
        begin = table.balls[0].copy()
        for k in range(1, 8):
            table.balls[0] = begin + np.array([0.01 * k, 0.0])
            table.show()
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process = _start("tracker", tmp_path, *parameters)
        table.balls[0] = begin + np.array([0.12, 0.0])
        client.spin_until(lambda: client.images.get_subscription_count() > 1, 30, "tracker again")
        client.spin_until(lambda: client.infos.get_subscription_count() > 0, 10, "tracker again")
        answer = table.settle()
        assert answer.frame < 30, "calibration and names come from the file"
        assert answer.open_shot_id == "one"
        finished = ShotExecution(shot=shot, phase=ShotExecution.FINISHED)
        finished.header.stamp = _stamp((table.frame - 1) * FRAME)
        client.executions.publish(finished)
        client.spin_until(lambda: bool(client.heard["shot_records"]), 10, "record")
        record = client.heard["shot_records"][0]
        assert (record.shot_id, record.index, list(record.flags)) == ("one", 0, ["incomplete"])
        assert [r.shot_id for r in ShotLog(tmp_path / "shots.jsonl").read()] == ["one"]

        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "Traceback" not in (tmp_path / "tracker.log").read_text()
    finally:
        process.kill()
        process.wait()


def test_moved_camera_is_told_on_diagnostics_and_calibrated_anew(client, tmp_path):
    # V10 through the process, with an arm that tells its joints.
    from diagnostic_msgs.msg import DiagnosticStatus
    from sensor_msgs.msg import JointState
    from std_srvs.srv import Trigger

    from cue_core.ros.qos import STATES_LATCHED

    preset, robot = tmp_path / "table.yaml", Path(__file__).resolve().parents[3] / "config" / "robots" / "ur5e.yaml"
    preset.write_text(yaml.safe_dump(SMALL.to_dict()))
    arm = yaml.safe_load(robot.read_text())
    joints = client.node.create_publisher(JointState, "joint_states", STATES_LATCHED)
    table = _Table(client)

    def tell_joints(until: int) -> None:
        for stamp in range(until - 40_000_000, until + 1, 8_000_000):
            message = JointState(name=[link["joint"] for link in arm["links"]], position=arm["home"])
            message.header.stamp = _stamp(max(stamp, 0))
            joints.publish(message)

    table.before = tell_joints

    def status(text: str) -> Any:
        found = [s for m in client.heard["/diagnostics"] for s in m.status if s.name == "/tracker"]
        return found[-1] if found and text in found[-1].message else None

    process = _start("tracker", tmp_path, f"table:={preset}", f"robot:={robot}", "ball_ids:=[0, 1, 3]")
    try:
        client.spin_until(lambda: client.images.get_subscription_count() > 1, 30, "tracker")
        client.spin_until(lambda: client.infos.get_subscription_count() > 0, 10, "tracker")
        table.settle()
        client.spin_until(lambda: status("ok") is not None, 5, "good health")
        assert "arm masked" in {v.key for v in status("ok").values}
        assert {v.value for v in status("ok").values if v.key == "arm masked"} == {"True"}
        turn = cv2.getRotationMatrix2D((319.5, 179.5), -0.4, 1.0)
        turn[:, 2] += 11, -6
        table.alter = lambda picture: cv2.warpAffine(picture, turn, (640, 360), borderMode=cv2.BORDER_REPLICATE)
        assert not [k for k in range(6) if table.show().settled], "images of a moved camera are not believed"
        assert not table.show().calibrated
        client.spin_until(lambda: status("moved") is not None, 5, "word of the moved camera")
        assert status("moved").level == DiagnosticStatus.ERROR
        assert "calibrat" in status("moved").message
        answer = table.settle()
        assert answer.calibrated
        client.spin_until(lambda: len(client.heard["table_info"]) == 2, 5, "new pose of the camera")
        client.spin_until(lambda: status("ok") is not None, 5, "good health again")
        for ball in answer.balls:
            assert list(ball.position) == pytest.approx(table.balls[ball.id], abs=1.5e-3)
        asked = client.node.create_client(Trigger, "recalibrate")
        client.spin_until(asked.service_is_ready, 10, "service recalibrate")
        reply = asked.call_async(Trigger.Request())
        client.spin_until(reply.done, 10, "reply")
        assert reply.result().success
        client.spin_until(lambda: not table.answers(table.frame - 1)[-1].settled, 5, "a wish for more images")
        places = {b.id: list(b.position) for b in table.settle().balls}
        client.spin_until(lambda: len(client.heard["table_info"]) == 3, 5, "the table, found anew")
        for ball_id, place in places.items():
            assert place == pytest.approx(table.balls[ball_id], abs=1.5e-3)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert (tmp_path / "tracker.log").read_text().count("the camera was moved") >= 1
    finally:
        process.kill()
        process.wait()


def test_tracker_without_a_table_file_says_so(tmp_path):
    process = _start("tracker", tmp_path, f"table:={tmp_path}/none.yaml")
    assert process.wait(30) == 2
    lines = (tmp_path / "tracker.log").read_text().strip().splitlines()
    assert lines == [f"error: {tmp_path}/none.yaml: no such file"]


def test_camera_waits_with_one_line_and_comes_by_itself(client, tmp_path):
    from cue_core.ros.images import any_to_bgr

    folder = tmp_path / "images"
    parameters = ("retry:=0.1", "longest_retry:=0.4", "fps:=20.0", "repeat:=true", "jpeg_quality:=90")
    process = _start("camera", tmp_path, f"source:={folder}", *parameters)
    try:
        log = tmp_path / "camera.log"
        client.spin_until(lambda: "waiting for camera" in log.read_text(), 30, "line")
        client.spin_until(lambda: client.node.count_publishers("camera/image_raw") > 1, 10, "camera")
        waited = time.monotonic() + 1.0
        client.spin_until(lambda: time.monotonic() > waited, 5, "pause")  # ten attempts
        draft = tmp_path / "draft"
        draft.mkdir()
        cv2.imwrite(str(draft / "a.png"), np.full((48, 64, 3), (10, 20, 200), np.uint8))
        draft.rename(folder)
        client.spin_until(lambda: bool(client.heard["camera/image_raw"]), 10, "image")
        client.spin_until(lambda: bool(client.heard["camera/image_raw/compressed"]), 10, "compressed image")
        image = client.heard["camera/image_raw"][0]
        assert (image.width, image.height, image.encoding) == (64, 48, "bgr8")
        assert list(image.data[:3]) == [10, 20, 200]
        packed = client.heard["camera/image_raw/compressed"][0]
        assert packed.format == "bgr8; jpeg compressed bgr8"
        assert any_to_bgr(packed)[20, 20].tolist() == pytest.approx([10, 20, 200], abs=4)
        assert log.read_text().count("waiting for camera") == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


def test_camera_keeps_the_pace_of_a_film_in_its_stamps(client, tmp_path):
    from cue_core.ros.conversions import stamp_to_nanoseconds

    lens = {"camera_matrix": {"data": [60, 0, 31.5, 0, 60, 23.5, 0, 0, 1]}, "image_width": 64, "image_height": 48}
    lens["distortion_coefficients"] = {"data": [0.1, 0, 0, 0, 0]}
    (tmp_path / "lens.yaml").write_text(yaml.safe_dump(lens))
    writer = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 50.0, (64, 48))
    for k in range(500):  # as long as it may take to be heard
        writer.write(np.full((48, 64, 3), k % 250, np.uint8))
    writer.release()
    process = _start("camera", tmp_path, f"source:={tmp_path}/a.avi", f"calibration:={tmp_path}/lens.yaml")
    try:
        images = client.heard["camera/image_raw"]
        client.spin_until(lambda: len(images) >= 20, 30, "images")
        steps = np.diff([stamp_to_nanoseconds(m.header.stamp) for m in images])
        assert np.median(steps) == pytest.approx(20e6, abs=2e6)
        assert np.abs(steps / 20e6 - np.round(steps / 20e6)).max() < 0.1
    finally:
        process.kill()
        process.wait()
