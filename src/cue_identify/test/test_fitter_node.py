"""The fitter node over ROS: every error code, cancel, pre-emption, a clock set back, a restart."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus  # noqa: E402
from rclpy.action import ActionClient  # noqa: E402
from rclpy.executors import MultiThreadedExecutor  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402

import cue_identify.fitter_node as fitter_node  # noqa: E402
from cue_core.parameters import PARAMETERS, nominal_values  # noqa: E402
from cue_core.ros import conversions as convert  # noqa: E402
from cue_core.ros.qos import LATCHED, RECORDS  # noqa: E402
from cue_core.shot_log import ShotLog  # noqa: E402
from cue_core.table import TableModel  # noqa: E402
from cue_identify.errors import FitCode  # noqa: E402
from cue_msgs import msg as msgs  # noqa: E402
from cue_msgs.action import IdentifyParameters  # noqa: E402
from cue_msgs.srv import RollBack  # noqa: E402

pytestmark = pytest.mark.ros
DOMAIN = 71
TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "small.yaml")
STRAIGHT = ["sliding_friction", "rolling_friction", "tip_restitution"]
HIDDEN = nominal_values()
HIDDEN[list(PARAMETERS).index("tip_restitution")] = 0.55
HIDDEN[list(PARAMETERS).index("rolling_friction")] = 0.006
Result = IdentifyParameters.Result


class Graph:
    """The node, a peer that plays its partners, and an executor in a thread."""

    def __init__(self, run_dir: Path, sim_time: bool = False) -> None:
        arguments = ["-p", f"run_dir:={run_dir}", "-p", "threads:=1", "-p", "table_timeout:=0.2"]
        arguments += ["-p", "use_sim_time:=true"] if sim_time else []
        rclpy.init(args=["--ros-args", *arguments], domain_id=DOMAIN)
        self.node = fitter_node.FitterNode()
        self.peer = rclpy.create_node("peer", parameter_overrides=[], use_global_arguments=False)
        self.executor = MultiThreadedExecutor(6)
        self.executor.add_node(self.node)
        self.executor.add_node(self.peer)
        self.thread = threading.Thread(target=self.executor.spin, daemon=True)
        self.thread.start()
        self.estimates: list[msgs.ParameterEstimate] = []
        self.feedback: list[IdentifyParameters.Feedback] = []
        self.peer.create_subscription(msgs.ParameterEstimate, "parameter_estimate", self.estimates.append, LATCHED)
        self.table = self.peer.create_publisher(msgs.TableInfo, "table_info", LATCHED)
        self.records = self.peer.create_publisher(msgs.ShotRecord, "shot_records", RECORDS)
        self.clock = self.peer.create_publisher(Clock, "/clock", 10)
        self.client = ActionClient(self.peer, IdentifyParameters, "identify_parameters")
        assert self.client.wait_for_server(20.0), "no action server within 20 s"

    def now(self):
        return self.peer.get_clock().now().to_msg()

    def until(self, done, what: str, seconds: float = 20.0):
        """Wait for a condition that other threads bring about."""
        tick, deadline = threading.Event(), time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
            tick.wait(0.005)

    def known(self, records=()) -> None:
        self.table.publish(convert.table_to_msg(TABLE, self.now()))
        for record in records:
            self.records.publish(convert.record_to_msg(record, self.now()))
        self.until(lambda: self.node._table is not None, "the table")
        self.until(lambda: len(self.node._records) >= len(records), "the records")

    def send(self, **fields):
        future = self.client.send_goal_async(
            IdentifyParameters.Goal(**fields), feedback_callback=lambda m: self.feedback.append(m.feedback)
        )
        self.until(future.done, "the answer to the goal")
        return future.result()

    def result(self, handle):
        future = handle.get_result_async()
        self.until(future.done, "the result")
        return future.result().status, future.result().result

    def stop(self) -> None:
        rclpy.shutdown()
        self.executor.shutdown(timeout_sec=5.0)
        self.thread.join(5.0)
        self.node.destroy_node()
        self.peer.destroy_node()


@pytest.fixture
def start(tmp_path, monkeypatch, fake_simulator):
    """Return a function that starts the node; the simulator is the fake, by default."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    graphs = []

    def go(simulator=None, run_dir=tmp_path, **more) -> Graph:
        monkeypatch.setattr(fitter_node, "TwinSimulator", lambda table, ids: simulator or fake_simulator())
        graphs.append(Graph(run_dir, **more))
        return graphs[-1]

    yield go
    if graphs and rclpy.ok():
        graphs[-1].stop()


@pytest.fixture
def slow_simulator(fake_simulator):
    class Slow(fake_simulator):
        def simulate(self, *arguments):
            threading.Event().wait(0.05)
            return super().simulate(*arguments)

    return Slow()


@pytest.fixture
def records(fake_simulator, make_straight_records):
    return make_straight_records(fake_simulator(), HIDDEN, 5)


def test_each_error_code(start, records, fake_simulator):
    simulator = fake_simulator()
    graph = start(simulator)

    def code(**fields):
        status, result = graph.result(graph.send(**fields))
        assert status == GoalStatus.STATUS_ABORTED and result.error_msg and not result.promoted
        assert result.estimate.revision == 0  # the present one
        return result.error_code

    assert code() == Result.INVALID_GOAL  # no table yet
    graph.known()
    assert code() == Result.NO_SHOTS
    graph.known(records)
    assert code(shot_ids=["nobody"]) == Result.UNKNOWN_SHOT
    assert code(parameters=["slime"]) == Result.UNKNOWN_PARAMETER
    assert code(terms=["slime"]) == Result.UNKNOWN_PARAMETER
    assert code(terms=["auto", "tilt"]) == Result.INVALID_GOAL
    assert code(shot_ids=["shot-1"], held_out_shot_ids=["shot-1"]) == Result.INVALID_GOAL
    assert code(parameters=["cushion_friction"]) == Result.NO_INFORMATION
    simulator.faulty = lambda values: "not finite"
    assert code() == Result.TWIN_FAULT
    assert {f.name: f.value for f in FitCode} == {name: getattr(Result, name) for name in FitCode.__members__}
    assert [e.revision for e in graph.estimates] == [0]  # nothing was published but the nominal one


def test_a_fit_is_promoted_kept_and_restored(start, records, tmp_path):
    log = ShotLog(tmp_path / "shots.jsonl")
    for record in records[:3]:
        log.append(record)
    graph = start()
    graph.until(lambda: graph.estimates, "the nominal estimate")
    graph.known(records)  # the first three come twice
    status, result = graph.result(graph.send(parameters=STRAIGHT, seed=1))
    assert status == GoalStatus.STATUS_SUCCEEDED and result.error_code == 0, result.error_msg
    assert result.promoted and "nominal" in result.reason and result.estimate.revision == 1
    assert sorted(result.estimate.shot_ids) == [r.shot_id for r in records]
    graph.until(lambda: [e.revision for e in graph.estimates] == [0, 1], "the promoted estimate")
    assert graph.feedback and graph.feedback[-1].stage and graph.feedback[-1].evaluations > 0
    assert all(np.isfinite(f.evaluations_per_second) for f in graph.feedback)
    values = {p.name: p.value for p in result.estimate.parameters}
    assert values["tip_restitution"] == pytest.approx(0.55, abs=0.01)
    line = json.loads((tmp_path / "estimates.jsonl").read_text().splitlines()[-1])
    assert line["promoted"] and line["seed"] == 1 and line["evaluations"] > 0 and line["reason"] == result.reason
    graph.stop()

    again = start()
    again.until(lambda: [e.revision for e in again.estimates] == [1], "the restored estimate")
    np.testing.assert_allclose([p.value for p in again.estimates[0].parameters], list(values.values()))
    again.known()
    assert len(again.node._records) == 3  # the log's
    # The log has gained a record that was published while nobody listened.
    log.append(replace(records[3]))
    status, result = again.result(again.send(parameters=STRAIGHT, shot_ids=["shot-0", "shot-3"]))
    assert status == GoalStatus.STATUS_SUCCEEDED and result.estimate.revision == 2


def test_s03_earlier_parameters_are_kept_and_come_back(start, records, tmp_path):
    graph = start()
    graph.known(records)
    _, result = graph.result(graph.send(parameters=STRAIGHT, seed=1, evaluations=300))
    assert result.promoted
    asked = graph.peer.create_client(RollBack, "roll_back")
    graph.until(asked.service_is_ready, "the service")

    def answer(revision):
        future = asked.call_async(RollBack.Request(revision=revision))
        graph.until(future.done, "the answer")
        return future.result()

    back = answer(0)
    assert back.error_code == RollBack.Response.NONE and back.estimate.revision == 2
    graph.until(lambda: [e.revision for e in graph.estimates][-1:] == [2], "the nominal estimate again")
    nominal = dict(zip(PARAMETERS, nominal_values(), strict=True))
    assert all(p.value == nominal[p.name] for p in back.estimate.parameters)
    unknown = answer(7)
    assert unknown.error_code == RollBack.Response.UNKNOWN_REVISION and "0, 1, 2" in unknown.error_msg
    assert unknown.estimate.revision == 2, "what is in use stays"
    forth = answer(1)
    assert [p.value for p in forth.estimate.parameters] == [p.value for p in result.estimate.parameters]
    lines = [json.loads(line) for line in (tmp_path / "estimates.jsonl").read_text().splitlines()]
    assert [line["revision"] for line in lines] == [1, 2, 3] and "rolled back" in lines[-1]["reason"]


def test_terms_are_fitted_beside_named_parameters(start, records, tmp_path):
    graph = start()
    graph.known(records)
    status, result = graph.result(graph.send(terms=["cloth"], parameters=["tip_restitution"], seed=1))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_msg
    fitted = {p.name for p in result.estimate.parameters if not p.frozen}
    assert {"tip_restitution", "sliding_friction", "rolling_friction"} <= fitted and "tilt_x" not in fitted


def test_a_damaged_line_of_the_log_keeps_no_other_from_being_fitted(start, records, tmp_path):
    log = ShotLog(tmp_path / "shots.jsonl")
    for record in records:
        log.append(record)
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(lines[0] + b"rubbish\n" + b"".join(lines[1:]))
    graph = start()
    graph.known()
    status, result = graph.result(graph.send(parameters=STRAIGHT))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_msg
    assert sorted(result.estimate.shot_ids) == [r.shot_id for r in records]


def test_a_cancel_is_served_at_once(start, records, slow_simulator):
    graph = start(slow_simulator)
    graph.known(records)
    handle = graph.send()
    graph.until(lambda: graph.feedback, "progress")
    asked = time.monotonic()
    answer = handle.cancel_goal_async()
    graph.until(answer.done, "the cancel answer")
    accepted = time.monotonic() - asked
    status, result = graph.result(handle)
    ended = time.monotonic() - asked
    assert answer.result().goals_canceling
    assert status == GoalStatus.STATUS_CANCELED and result.error_code == Result.CANCELED
    assert "simulated shots" in result.error_msg
    assert accepted < 0.5 and ended < 2.0  # on a busy machine; 0.1 and 0.3 s on an idle one


def test_a_newer_goal_takes_the_place_of_the_older(start, records, slow_simulator):
    graph = start(slow_simulator)
    graph.known(records)
    first = graph.send()
    graph.until(lambda: graph.feedback, "progress")
    second = graph.send(parameters=["slime"])
    status, result = graph.result(first)
    assert status == GoalStatus.STATUS_ABORTED and result.error_code == Result.PREEMPTED
    assert graph.result(second)[1].error_code == Result.UNKNOWN_PARAMETER


def test_a_clock_set_back_ends_the_goal_and_the_next_one_runs(start, records, slow_simulator):
    graph = start(slow_simulator, sim_time=True)
    graph.known(records)

    def tell(seconds):
        graph.clock.publish(Clock(clock=convert.seconds_to_stamp(seconds)))
        graph.until(lambda: graph.node.get_clock().now().nanoseconds == int(seconds * 1e9), "the clock")

    graph.until(lambda: graph.clock.get_subscription_count() >= 1, "a subscriber of the clock")
    tell(10.0)
    handle = graph.send()
    graph.until(lambda: graph.feedback, "progress")
    tell(5.0)
    status, result = graph.result(handle)
    assert status == GoalStatus.STATUS_ABORTED and result.error_code == Result.TIME_RESET
    assert graph.result(graph.send(parameters=["slime"]))[1].error_code == Result.UNKNOWN_PARAMETER
