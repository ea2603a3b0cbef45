"""The doctor: one line per check, what to do, and which of domain, multicast or localhost-only keeps nodes apart."""

import os
import socket
import threading

import pytest

from cue.arguments import ArgumentError
from cue.discovery import Setting, answer, check_here, check_peer, compare, exchange
from cue.doctor import CHECKS, Finding, run_checks


def test_one_line_per_check_and_what_to_do():
    checks = {
        "good": lambda: Finding(True, "all is well", "never said"),
        "bad": lambda: Finding(False, "no GL", "install it"),
        "broken": lambda: 1 // 0,
    }
    lines: list[str] = []
    assert run_checks(lines.append, checks=checks) == 1
    assert [line.split()[0] for line in lines] == ["ok", "WRONG", "WRONG"]
    assert lines[1].endswith("no GL; install it")
    assert "never said" not in lines[0]
    assert run_checks(lines.append, only=["good"], checks=checks) == 0


def test_an_unknown_check_is_refused_with_the_known_ones():
    with pytest.raises(ArgumentError, match="unknown check gpu; known are python, packages"):
        run_checks(print, only=["gpu"])


@pytest.mark.parametrize("name", ["python", "packages", "clock", "folders", "disk"])
def test_a_check_passes_on_a_machine_that_runs_the_tests(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CHECKS[name]().ok


def test_no_ros_is_said_with_what_to_do(monkeypatch):
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    finding = CHECKS["ros"]()
    assert not finding.ok
    assert "source env.sh" in finding.advice


def test_no_gl_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr("cue.doctor._run_python", lambda code, environment=None: "no EGL device")
    finding = CHECKS["gl"]()
    assert (finding.ok, finding.text) == (False, "MuJoCo cannot render: no EGL device")
    assert "libosmesa6" in finding.advice


def test_a_gl_that_would_work_is_named(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    works = {"MUJOCO_GL": "osmesa"}
    monkeypatch.setattr(
        "cue.doctor._run_python",
        lambda code, environment=None: "" if environment and environment["MUJOCO_GL"] == works["MUJOCO_GL"] else "x",
    )
    assert CHECKS["gl"]().advice == "set MUJOCO_GL=osmesa"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"ROS_DOMAIN_ID": "900"}, "domain: ROS_DOMAIN_ID is '900', allowed is 0 to 232"),
        ({"ROS_DOMAIN_ID": "x"}, "domain"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}, "forbids"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "MOON"}, "allowed is SUBNET"),
    ],
)
def test_a_setting_with_which_no_node_is_found_is_named_at_once(environment, says):
    assert says in check_here(environment)


@pytest.mark.parametrize(
    ("passes", "echo", "says"),
    [
        ([True], True, ""),
        ([False], False, "multicast: 239.255.0.1 does not come back"),
        ([False, True], True, "multicast: nodes find each other only with"),
        ([False, False, True], True, "domain: nothing passes on domain 7"),
        ([False, False, False], True, "UDP on the loopback"),
    ],
)
def test_what_keeps_two_processes_apart_is_found_by_trying(passes, echo, says, monkeypatch):
    outcomes = iter(passes)
    monkeypatch.setattr("cue.discovery.exchange", lambda environment, seconds: next(outcomes))
    monkeypatch.setattr("cue.discovery.multicast_passes", lambda: echo)
    found = check_here({"ROS_DOMAIN_ID": "7"})
    assert says in found and bool(says) == bool(found)
    assert next(outcomes, None) is None


@pytest.mark.parametrize(
    ("here", "there", "multicast", "says"),
    [
        (Setting(), Setting(), True, ""),
        (Setting(), Setting(domain="5"), True, "domain: ROS_DOMAIN_ID is 0 here and 5 on robot"),
        (Setting(reach="LOCALHOST"), Setting(), True, "localhost-only: here"),
        (Setting(), Setting(localhost_only=True), True, "localhost-only: on robot"),
        (Setting(), Setting(), False, "multicast: blocked"),
        (Setting(peers="a"), Setting(peers="b"), False, ""),
        (Setting(rmw="rmw_zenoh_cpp"), Setting(), True, "rmw_zenoh_cpp here and the default on robot"),
        (Setting(), Setting(reach="OFF"), True, "on robot ROS_AUTOMATIC"),
    ],
)
def test_two_machines_settings_are_compared(here, there, multicast, says):
    found = compare(here, there, "robot", multicast)
    assert says in found and bool(says) == bool(found)


def test_another_machine_is_asked_over_the_network():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    other = threading.Thread(target=answer, args=({"ROS_DOMAIN_ID": "5"}, 5.0, port), daemon=True)
    other.start()
    found = next(
        found
        for found in (check_peer("127.0.0.1", {}, 1.0, port) for _ in range(5))
        if "does not answer" not in found
    )  # fmt: skip
    assert "domain: ROS_DOMAIN_ID is 0 here and 5 on 127.0.0.1" in found


def test_a_machine_that_does_not_answer_is_said():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert "does not answer on UDP port" in check_peer("127.0.0.1", {}, 0.2, silent.getsockname()[1])


@pytest.mark.ros
def test_a_message_passes_between_two_processes():
    environment = {**os.environ, "ROS_DOMAIN_ID": "39", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    assert exchange(environment, 15.0)
