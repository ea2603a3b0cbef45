"""Parameters from a dataclass, health, and the life cycle of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String

from cue_core import CueError
from cue_core.ros.diagnostics import Health
from cue_core.ros.params import declare, setting
from cue_core.ros.qos import LATCHED, STATES


@dataclass(frozen=True)
class Config:
    rate: float = setting(30.0, "frames", unit="1/s", low=1.0, high=200.0)
    depth: int = setting(2, "pipeline depth", low=1, high=8)
    name: str = setting("small", "table")
    live: bool = setting(False, "no lockstep")


@pytest.fixture
def context() -> Iterator[None]:
    os.environ["ROS_DOMAIN_ID"] = "21"
    with rclpy.init():
        yield


def node_with(**values: object) -> Node:
    return Node("probe", parameter_overrides=[Parameter(k, value=v) for k, v in values.items()])


@pytest.mark.ros
def test_parameters_take_defaults_and_overrides(context: None) -> None:
    node = node_with(rate=60, live=True)
    assert declare(node, Config) == Config(rate=60.0, live=True)
    descriptor = node.describe_parameter("rate")
    assert descriptor.floating_point_range[0].to_value == 200.0
    assert "[1/s]" in descriptor.description


@pytest.mark.ros
@pytest.mark.parametrize(
    "values, problem",
    [
        ({"rate": 999.0}, "rate is 999.0, needs a float from 1.0 to 200.0"),
        ({"depth": "two"}, "depth is 'two', needs a int from 1 to 8"),
    ],
)
def test_bad_parameters_are_named(context: None, values: dict[str, object], problem: str) -> None:
    with pytest.raises(CueError, match=problem):
        declare(node_with(**values), Config)


@pytest.mark.ros
def test_health_tells_rates_times_and_the_last_error(context: None) -> None:
    health = Health(node_with())
    for milliseconds in (1, 2, 30):
        health.tick("image", milliseconds * 1e-3)
    health.set("frame", 3)
    health.error("no image for 5 s")
    status = health.status()
    values = {v.key: v.value for v in status.values}
    assert status.level == DiagnosticStatus.ERROR and status.message == "no image for 5 s"
    assert values["image time median [ms]"] == "2.0" and values["frame"] == "3"
    assert float(values["memory [MB]"]) > 1 and float(values["cpu [%]"]) >= 0
    health.error("no image for 5 s")
    health.ok()
    status = health.status()
    values = {v.key: v.value for v in status.values}
    assert status.level == DiagnosticStatus.OK
    assert (values["problems"], values["last problem"]) == ("1", "no image for 5 s")


PROGRAM = """
import sys
from rclpy.node import Node
from cue_core import CueError
from cue_core.ros.node import run_node

def build():
    if sys.argv[1] == 'bad':
        raise CueError('table is round, needs to be rectangular')
    node = Node('probe')
    print('up', flush=True)
    return node

sys.exit(run_node(build))
"""


@pytest.mark.ros
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_gives_exit_code_zero_and_no_traceback(stop: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "good"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(stop)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.ros
def test_a_known_error_is_one_line_and_exit_code_two() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "bad"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.strip() == "error: table is round, needs to be rectangular"


@pytest.mark.ros
def test_a_node_dies_with_its_launcher() -> None:
    """The child asks the kernel for a signal at its parent's death: kill -9 of the launcher leaves nothing."""
    parent = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', {PROGRAM!r}, 'good'], env={{**os.environ, 'CUE_EXIT_WITH_PARENT': '1'}})
print(child.pid, flush=True)
child.wait()
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        assert process.stdout.readline() == "up\n"
        process.kill()
        assert process.stdout.read() == ""  # the pipe closes only when the child is gone too


WAITING = """
import sys
from rclpy.node import Node
from rclpy.parameter import Parameter
from cue_core.ros.node import run_node

sys.exit(run_node(lambda: Node('probe', parameter_overrides=[Parameter('use_sim_time', value=True)])))
"""


@pytest.mark.ros
def test_m14_a_missing_clock_is_named_within_five_seconds() -> None:
    environment = {**os.environ, "ROS_DOMAIN_ID": "22"}
    words = [sys.executable, "-c", WAITING, "--ros-args", "-r", "/clock:=/north/clock"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        silence = threading.Timer(30.0, process.kill)  # a node that says nothing would be waited for, for ever
        silence.start()
        begin = time.monotonic()
        line = process.stderr.readline()
        waited = time.monotonic() - begin
        silence.cancel()
        process.terminate()
    assert "no time on /north/clock" in line and "is the world running?" in line
    assert waited < 8.0  # 5 s and the start of a process on a busy machine


@pytest.mark.ros
def test_a_mismatch_of_qos_is_logged_by_topic_and_policy(context: None, capfd: pytest.CaptureFixture[str]) -> None:
    """Rclpy tells of it by default; what matters is that no node of ours loses that (fault R04)."""
    publisher = Node("offers_volatile")
    publisher.create_publisher(String, "parameter_estimate", STATES)
    subscriber = Node("wants_latched")
    subscriber.create_subscription(String, "parameter_estimate", lambda _: None, LATCHED)
    executor = SingleThreadedExecutor()
    for node in (publisher, subscriber):
        executor.add_node(node)
    seen = ""
    end = time.monotonic() + 20
    while "incompatible QoS" not in seen and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
        seen += capfd.readouterr().err
    assert "parameter_estimate" in seen and "DURABILITY" in seen, f"expected a warning, saw {seen!r}"
