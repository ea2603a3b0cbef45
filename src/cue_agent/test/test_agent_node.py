"""The agent node over ROS, with fakes of all other nodes in this process."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cue_agent.peers import ArmResult, Code, StrikeStatus
from cue_agent.testing import FakePeers, MisledPeers
from cue_core.arm_codes import ArmCode

rclpy = pytest.importorskip("rclpy")
from action_msgs.msg import GoalStatus  # noqa: E402
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor  # noqa: E402
from std_srvs.srv import SetBool  # noqa: E402

from cue_agent import peers as peers_module  # noqa: E402
from cue_agent.agent_node import AgentNode  # noqa: E402
from cue_agent.fake_graph_node import FakeGraphNode  # noqa: E402
from cue_agent.llm.rules import RulePlayer  # noqa: E402
from cue_agent.llm.scripted_server import ScriptedServer  # noqa: E402
from cue_core.errors import CueError  # noqa: E402
from cue_msgs.action import Calibrate, ExecuteShot, IdentifyParameters  # noqa: E402

pytestmark = pytest.mark.ros
QUICK = {
    "candidates": 8,
    "shortlist": 3,
    "drawn": 4,
    "finalists": 0,
    "goal_shots": 2,
    "quiet_timeout": 0.5,
    "answer_timeout": 1.0,
    "peer_timeout": 5.0,
    "worth": 0.0,
}
_domains = itertools.cycle(range(80, 90))


def spin_until(predicate: Callable[[], object], seconds: float, what: str) -> object:
    """Wait for a predicate; the nodes spin in a thread of their own."""
    end = time.monotonic() + seconds
    tick = threading.Event()
    while not (value := predicate()):
        assert time.monotonic() < end, f"waited {seconds} s for: {what}"
        tick.wait(0.01)
    return value


class Graph:
    """The agent node, the fakes, and a client, in one process."""

    def __init__(self, run_dir: Path, domain: int, peers: FakePeers, parameters: dict[str, object]) -> None:
        values = {"run_dir": str(run_dir), **QUICK, **parameters}
        arguments = ["--ros-args", *(a for k, v in values.items() for a in ("-p", f"{k}:={v}"))]
        rclpy.init(args=arguments, domain_id=domain)
        self.domain = domain
        self.executor = MultiThreadedExecutor(num_threads=12)
        self.fake = FakeGraphNode(peers, run_dir)
        self.executor.add_node(self.fake)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self.executor.spin()

    def start_agent(self) -> AgentNode:
        agent = AgentNode()
        self.executor.add_node(agent)
        assert self.fake.client.wait_for_server(10.0)
        return agent

    def send(self, **goal: object):
        handle = self.fake.client.send_goal_async(Calibrate.Goal(**goal))
        spin_until(handle.done, 20, "acceptance of the goal")
        return handle.result(), handle.result().get_result_async()

    def send_until(self, seen: Callable[[], object], **goal: object) -> None:
        """Send a goal to a process that has just started, again while discovery loses it."""
        assert self.fake.client.wait_for_server(20.0)
        end = time.monotonic() + 30
        while not seen():
            assert time.monotonic() < end, "the goal was never taken"
            self.fake.client.send_goal_async(Calibrate.Goal(**goal))
            with contextlib.suppress(AssertionError):
                spin_until(seen, 5, "effect of the goal")

    def result(self, future, seconds: float = 30.0):
        spin_until(future.done, seconds, "result of calibrate")
        return future.result()

    def close(self) -> None:
        self.fake.hold.clear()
        rclpy.shutdown()
        self._thread.join(timeout=5)
        self.executor.shutdown(timeout_sec=1)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Callable[..., Graph]]:
    made: list[Graph] = []

    def make(peers: FakePeers | None = None, agent: bool = True, **parameters: object) -> Graph:
        made.append(Graph(tmp_path, next(_domains), peers or FakePeers(), parameters))
        if agent:
            made[0].start_agent()
        return made[0]

    yield make
    for each in made:
        each.close()


def test_constants_equal_those_of_the_actions():
    for enum, message in ((Code, Calibrate.Result), (ArmCode, ExecuteShot.Result)):
        names = {n for n in dir(message) if n.isupper() and not n.startswith("SLOT")}
        assert {e.name: e.value for e in enum} == {n: getattr(message, n) for n in names}
    assert peers_module.FIT_TIME_RESET == IdentifyParameters.Result.TIME_RESET
    assert {s.value for s in StrikeStatus} >= {"observed", "not_observed", "aborted", "halted"}


def test_whole_session_that_starts_late(graph, tmp_path):
    g = graph(agent=False)  # table and balls are published before the agent exists, and never again
    g.start_agent()
    _, future = g.send(instruction="explain it", shots=6, held_out_shots=2)
    answer = g.result(future)
    result = answer.result
    assert answer.status == GoalStatus.STATUS_SUCCEEDED and result.error_code == Code.NONE, result.error_msg
    assert result.shots_used == 6 and len(g.fake.peers.struck) == 6 and result.revision == 1
    assert result.calibrated_rest_error < 0.4 * result.unfitted_rest_error
    assert result.run_directory == str(tmp_path) and "held-out error" in result.summary
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["shots_used"] == 6 and summary["instruction"] == "explain it"
    phases = {s.phase for s in g.fake.statuses}
    assert phases >= {"reconstruct", "strike", "fit", "validate", "stopped"}
    _, again = g.send(shots=2, held_out_shots=5)
    assert g.result(again).result.error_code == Code.INVALID_GOAL


def test_a_language_model_explores_and_a_person_approves(graph, tmp_path, monkeypatch):
    with ScriptedServer(RulePlayer(workbench=False)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        g = graph(planner="llm", **{"llm.approval": "first", "llm.approval_timeout": 60.0})
        approve = g.fake.create_client(SetBool, "approve_shot")
        assert approve.wait_for_service(10.0)

        def answer():
            future = approve.call_async(SetBool.Request(data=True))
            spin_until(future.done, 10, "answer of approve_shot")
            return future.result().success

        assert not answer(), "nothing waits for approval yet"
        _, future = g.send(instruction="explain it", shots=3, held_out_shots=1)
        spin_until(answer, 30, "a stroke that waits for approval")
        result = g.result(future).result
        assert result.error_code == Code.NONE, result.error_msg
    assert server.faulty == [] and set(server.keys) == {"sk-planted"}
    assert json.loads((tmp_path / "summary.json").read_text())["taken_over_by_offline"] == ""
    assert len(g.fake.peers.struck) == 3


@pytest.mark.parametrize("call", ["strike", "fit"])
def test_cancel_is_accepted_at_once_and_ends_the_child(graph, call):
    g = graph()
    g.fake.hold = {call}
    handle, future = g.send(shots=6, held_out_shots=2)
    spin_until(lambda: call in g.fake.entered, 20, f"the {call} to begin")
    begin = time.monotonic()
    cancel = handle.cancel_goal_async()
    spin_until(cancel.done, 5, "acceptance of the cancel")
    assert cancel.result().goals_canceling and time.monotonic() - begin < 0.5  # 0.1 s on an idle machine
    answer = g.result(future, 10)
    assert answer.status == GoalStatus.STATUS_CANCELED and answer.result.error_code == Code.CANCELED
    assert g.fake.ended == [call], "the child goal was cancelled and awaited"
    assert answer.result.shots_used == (0 if call == "strike" else 3)


def test_no_decision_blocks_a_cancel(graph):
    g = graph()
    g.fake.hold = {"predict"}
    handle, future = g.send()
    spin_until(lambda: "predict" in g.fake.entered, 20, "the choice of the first shot to begin")
    begin = time.monotonic()
    handle.cancel_goal_async()
    answer = g.result(future, 10)
    g.fake.hold.clear()
    assert answer.result.error_code == Code.CANCELED and answer.result.shots_used == 0
    assert time.monotonic() - begin < 1.0  # 0.1 s on an idle machine


def test_judgements_are_told_and_reach_fitter_and_tracker(graph, tmp_path):
    settings = {"first_fit": 2, "max_place_stddev": 1e-6, "hold_gain": 99.0, "max_held_back": 1, "terms_from": 3}
    g = graph(MisledPeers(), **settings)
    _, future = g.send(shots=9, held_out_shots=1)
    assert g.result(future, 60).result.error_code == Code.NONE
    assert g.fake.peers.refined == 1 and g.fake.peers.rolled_back
    told = [json.loads(s.decision) for s in g.fake.statuses if s.decision]
    assert {t["action"] for t in told} >= {"fit", "shoot", "roll_back", "refine_perception", "stop"}
    assert all(t["reason"] and isinstance(t["numbers"], dict) for t in told)


def test_second_goal_is_busy(graph):
    g = graph()
    g.fake.hold = {"strike"}
    _, first = g.send(shots=4, held_out_shots=1)
    spin_until(lambda: "strike" in g.fake.entered, 20, "the stroke to begin")
    _, second = g.send()
    answer = g.result(second, 5)
    assert answer.status == GoalStatus.STATUS_ABORTED and answer.result.error_code == Code.BUSY
    g.fake.hold.clear()
    assert g.result(first).result.error_code == Code.NONE


def test_fitter_that_died_in_a_fit_is_asked_again(graph):
    g = graph()
    g.fake.hold = {"fit"}
    _, future = g.send(shots=4, held_out_shots=1)
    spin_until(lambda: "fit" in g.fake.entered, 20, "the fit to begin")
    g.fake.restart_fitter()
    spin_until(lambda: g.fake.entered.count("fit") == 2, 10, "the fit to be asked for again")
    g.fake.hold.clear()
    assert g.result(future).result.error_code == Code.NONE


def test_peer_that_stays_away_ends_the_session_with_one_line(graph):
    g = graph(peer_timeout=1.0)
    g.fake.arm.destroy()
    spin_until(lambda: g.fake.count_services("execute_shot/_action/send_goal") == 0, 10, "the arm to be gone")
    _, future = g.send()
    result = g.result(future).result
    assert result.error_code == Code.ARM_FAILED and "execute_shot did not answer" in result.error_msg


def test_no_table(graph):
    g = graph(agent=False, peer_timeout=1.0)
    g.fake.destroy_publisher(g.fake.balls_out)
    g.fake.destroy_publisher(g.fake.table_out)
    g.start_agent()
    _, future = g.send()
    result = g.result(future).result
    assert result.error_code == Code.NO_TABLE and "no table" in result.error_msg


def test_clock_that_jumps_back(graph):
    g = graph()
    g.fake.hold = {"strike"}
    _, future = g.send()
    spin_until(lambda: "strike" in g.fake.entered, 20, "the stroke to begin")
    g.fake.clock_s = 0.0
    g.fake.images(1)
    result = g.result(future, 10).result
    assert result.error_code == Code.TIME_RESET and "clock jumped by -" in result.error_msg
    g.fake.hold.clear()
    g.fake.images(4)
    _, again = g.send(shots=4, held_out_shots=1)
    assert g.result(again).result.error_code == Code.NONE  # the next goal runs


def test_unseen_strokes_stop(graph):
    peers = FakePeers()
    seen = lambda shot: ArmResult(ArmCode.NONE, "", True)  # noqa: E731  # success, but nothing happened
    peers.faults["strike"] = [seen, seen]
    g = graph(peers)
    _, future = g.send()
    result = g.result(future).result
    assert result.error_code == Code.NOT_OBSERVED and result.shots_used == 2


def _agent_process(tmp_path: Path, domain: int) -> subprocess.Popen:
    script = Path(__file__).resolve().parents[1] / "scripts" / "agent"
    values = {"run_dir": str(tmp_path), **QUICK}
    arguments = [a for k, v in values.items() for a in ("-p", f"{k}:={v}")]
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    return subprocess.Popen([sys.executable, str(script), "--ros-args", *arguments], env=environment)


@pytest.mark.parametrize("finishes", ["while the agent is dead", "after the agent is back"])
def test_kill_during_a_stroke_never_strikes_twice(graph, tmp_path, finishes):
    g = graph(agent=False)
    g.fake.hold = {"strike"}
    first = _agent_process(tmp_path, g.domain)
    try:
        g.send_until(lambda: "strike" in g.fake.entered, shots=4, held_out_shots=1)
    finally:
        first.kill()
        first.wait()
    if finishes == "while the agent is dead":
        g.fake.hold.clear()
        spin_until(lambda: len(g.fake.peers.struck) == 1, 5, "the stroke to finish")
    g.fake.statuses.clear()
    second = _agent_process(tmp_path, g.domain)
    try:
        g.send_until(lambda: any(s.phase == "strike" for s in g.fake.statuses), shots=4, held_out_shots=1)
        g.fake.hold.clear()
        spin_until(lambda: g.fake.statuses[-1].phase == "stopped", 30, "the end of the session")
        summary = json.loads((tmp_path / "summary.json").read_text())
        assert summary["error_code"] == Code.NONE, summary["stopped_because"]
        assert summary["shots_used"] == 4 == len(g.fake.peers.struck)
        assert g.fake.entered.count("strike") == 4
        second.send_signal(signal.SIGINT)
        assert second.wait(10) == 0
    finally:
        second.kill()
        second.wait()


def test_an_unknown_planner_is_refused():
    rclpy.init(args=["--ros-args", "-p", "planner:=best"], domain_id=80)
    try:
        with pytest.raises(CueError, match="planner is 'best'; available are offline"):
            AgentNode()
    finally:
        rclpy.shutdown()
