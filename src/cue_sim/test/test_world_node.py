"""The world and the simulated camera as processes: the robot driver's action, lockstep, errors on one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cue_sim.config_files import config_file
from cue_sim.robot import RobotConfig

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy")

DOMAIN = 57
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
ROBOT = RobotConfig.load(config_file("robots", "ur5e"))


def _start(node: str, folder: Path, *parameters: str, **environment: str) -> subprocess.Popen[str]:
    given = [part for p in parameters for part in ("-p", p)]
    return subprocess.Popen(
        [sys.executable, str(SCRIPTS / node), "--ros-args", *given],
        cwd=folder,
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class _Client:
    """A tracker that settles everything, and an arm's action client."""

    def __init__(self) -> None:
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionClient
        from rclpy.executors import SingleThreadedExecutor
        from sensor_msgs.msg import CameraInfo, Image, JointState

        from cue_core.ros.qos import IMAGES_LOCKSTEP, STATES, STATES_LATCHED
        from cue_msgs.msg import BallStateArray, WorldState

        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=DOMAIN)
        self.node = rclpy.create_node("test_client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.frames: list[Any] = []
        self.joints: list[Any] = []
        self.images: list[Any] = []
        self.infos: list[Any] = []
        self._acknowledge = self.node.create_publisher(BallStateArray, "ball_states", STATES_LATCHED)
        self.node.create_subscription(WorldState, "ground_truth/state", self._on_state, STATES)
        self.node.create_subscription(JointState, "joint_states", self.joints.append, STATES_LATCHED)
        self.node.create_subscription(Image, "camera/image_raw", self.images.append, IMAGES_LOCKSTEP)
        self.node.create_subscription(CameraInfo, "camera/camera_info", self.infos.append, IMAGES_LOCKSTEP)
        self.action = ActionClient(self.node, FollowJointTrajectory, "follow_joint_trajectory")

    def _on_state(self, msg: Any) -> None:
        from cue_msgs.msg import BallStateArray

        self.frames.append(msg)
        self._acknowledge.publish(BallStateArray(header=msg.header, calibrated=True, settled=True))

    def until(self, done: Callable[[], bool], what: str, timeout: float = 15.0) -> None:
        end = time.monotonic() + timeout
        while not done():
            assert time.monotonic() < end, f"no {what} within {timeout} s; {len(self.frames)} frames seen"
            self.executor.spin_once(timeout_sec=0.05)

    def drain(self) -> None:
        """Take in what is still on its way."""
        seen, end = -1, time.monotonic()
        while time.monotonic() < end or seen != len(self.frames) + len(self.joints):
            if seen != len(self.frames) + len(self.joints):
                seen, end = len(self.frames) + len(self.joints), time.monotonic() + 0.5
            self.executor.spin_once(timeout_sec=0.05)

    def wait(self, future: Any, what: str) -> Any:
        self.until(future.done, what)
        return future.result()

    def goal(self, move: float, duration: float, names: list[str] | None = None) -> Any:
        from builtin_interfaces.msg import Duration
        from control_msgs.action import FollowJointTrajectory
        from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

        names = names or list(ROBOT.joint_names)
        positions = dict(zip(ROBOT.joint_names, ROBOT.home, strict=True))
        positions["shoulder_pan_joint"] += move
        point = JointTrajectoryPoint(
            positions=[positions.get(name, 0.0) for name in names],
            velocities=[0.0] * len(names),
            time_from_start=Duration(sec=int(duration), nanosec=int(duration % 1 * 1e9)),
        )
        return FollowJointTrajectory.Goal(trajectory=JointTrajectory(joint_names=names, points=[point]))

    def send(self, *args: Any) -> Any:
        return self.wait(self.action.send_goal_async(self.goal(*args)), "answer to a goal")

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def client() -> Iterator[_Client]:
    client = _Client()
    yield client
    client.close()


@pytest.fixture
def world(tmp_path: Path, client: _Client) -> Iterator[subprocess.Popen[str]]:
    process = _start("world", tmp_path, "world:=nominal")
    client.until(client.action.server_is_ready, "action server")
    client.until(lambda: len(client.frames) >= 3, "frames")
    yield process
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 0, output
    assert "Traceback" not in output, output
    assert list(tmp_path.iterdir()) == []  # no log file or other litter where it was started


def test_goals_succeed_are_refused_cancelled_and_replaced(world: subprocess.Popen[str], client: _Client) -> None:
    from action_msgs.msg import GoalStatus

    assert not client.send(0.1, 1.0, ["a", "b"]).accepted  # wrong joints

    handle = client.send(0.1, 0.4)
    result = client.wait(handle.get_result_async(), "result")
    assert (result.status, result.result.error_code) == (GoalStatus.STATUS_SUCCEEDED, 0), result.result.error_string
    end = client.frames[-1].header.stamp
    client.until(lambda: any(j.header.stamp == end for j in client.joints), "joint state at the result's time")
    assert client.joints[-1].position[0] == pytest.approx(ROBOT.home[0] + 0.1, abs=0.01)

    result = client.wait(client.send(2.9, 0.2).get_result_async(), "result")  # 14 rad/s
    assert result.status == GoalStatus.STATUS_ABORTED
    assert "velocity" in result.result.error_string

    handle = client.send(1.0, 3.0)
    seen = len(client.frames)
    client.until(lambda: len(client.frames) > seen + 6, "frames of the motion")
    assert client.wait(handle.cancel_goal_async(), "answer to the cancellation").goals_canceling
    result = client.wait(handle.get_result_async(), "result of the cancelled goal")
    assert result.status == GoalStatus.STATUS_CANCELED
    assert "canceled after" in result.result.error_string

    first = client.send(0.5, 3.0)
    seen = len(client.frames)
    client.until(lambda: len(client.frames) > seen + 3, "frames of the motion")
    second = client.send(0.0, 1.0)
    result = client.wait(first.get_result_async(), "result of the replaced goal")
    assert result.status == GoalStatus.STATUS_ABORTED
    assert "newer goal" in result.result.error_string
    assert client.wait(second.get_result_async(), "result").status == GoalStatus.STATUS_SUCCEEDED


def test_the_clock_stands_while_nothing_is_wanted(world: subprocess.Popen[str], client: _Client) -> None:
    client.until(lambda: client.frames[-1].frame == 3, "third frame")
    end = time.monotonic() + 1.0
    with pytest.raises(AssertionError, match="no such thing"):
        client.until(lambda: client.frames[-1].frame > 3, "such thing", timeout=1.0)
    assert time.monotonic() >= end


def test_a_killed_world_comes_back_where_it_was(client: _Client, tmp_path: Path) -> None:
    process = _start("world", tmp_path, "world:=nominal", f"run_dir:={tmp_path}")
    try:
        client.until(client.action.server_is_ready, "action server")
        client.send(0.3, 1.0)
        client.until(lambda: bool(client.frames) and client.frames[-1].frame > 10, "motion")
        process.kill()
        process.communicate()
        client.drain()
        last, seen = client.frames[-1].frame, len(client.frames)
        process = _start("world", tmp_path, "world:=nominal", f"run_dir:={tmp_path}")
        client.until(lambda: len(client.frames) > seen, "frame of the restarted world", 30)
        assert client.frames[seen].frame >= last
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 0, output


def test_the_camera_shows_each_frame_once_with_its_stamp_and_calibration(
    world: subprocess.Popen[str], client: _Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("camera")
    camera = _start("camera_sim", folder, "world:=nominal")
    try:

        def shown() -> bool:
            if not client.images or not client.infos:
                return False
            stamps = [msgs[-1].header.stamp for msgs in (client.images, client.infos, client.frames)]
            return stamps[0] == stamps[1] == stamps[2]

        client.until(lambda: shown() or camera.poll() is not None, "image of the newest frame", 40)
        if camera.poll() is not None:
            pytest.skip(camera.communicate()[0])
        image, info = client.images[-1], client.infos[-1]
        assert (image.width, image.height, image.encoding) == (640, 360, "bgr8")
        assert image.header.frame_id == "camera_optical_frame"
        assert list(info.k) == [542.0, 0.0, 319.5, 0.0, 542.0, 179.5, 0.0, 0.0, 1.0]
        assert info.distortion_model == "plumb_bob" and len(info.d) == 5
    finally:
        camera.send_signal(signal.SIGTERM)
        output, _ = camera.communicate(timeout=10)
    assert camera.returncode == 0, output
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("node", "parameters", "says"),
    [
        ("world", ["world:=/nowhere/world.yaml"], "error: /nowhere/world.yaml: no such file"),
        ("world", ["seed:=-1"], "parameter seed is -1"),
        ("camera_sim", ["world:=moon"], "unknown file in config/worlds 'moon'"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(
    tmp_path: Path, node: str, parameters: list[str], says: str
) -> None:
    process = _start(node, tmp_path, *parameters)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2, output
    assert says in output
    assert "Traceback" not in output


def test_without_opengl_the_camera_says_so_and_ends(tmp_path: Path) -> None:
    process = _start("camera_sim", tmp_path, MUJOCO_GL="osmesa", PYOPENGL_PLATFORM="osmesa")
    output, _ = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("OSMesa is installed here")
    assert process.returncode == 2, output
    assert "error: no OpenGL without a display (osmesa:" in output
