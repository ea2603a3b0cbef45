"""The twin node over ROS: answers, error codes, exported files, restored estimates."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy")

from rclpy.executors import MultiThreadedExecutor  # noqa: E402

from cue_core.balls import BallState  # noqa: E402
from cue_core.parameters import PARAMETERS, ParameterEstimate  # noqa: E402
from cue_core.ros import conversions as convert  # noqa: E402
from cue_core.ros.qos import LATCHED, STATES_LATCHED  # noqa: E402
from cue_core.shot_log import append_line  # noqa: E402
from cue_core.shots import Shot  # noqa: E402
from cue_core.table import TableModel  # noqa: E402
from cue_msgs import msg as msgs  # noqa: E402
from cue_msgs.srv import PredictShots  # noqa: E402
from cue_sim.outlook import outlook  # noqa: E402
from cue_sim.twin import Twin  # noqa: E402
from cue_sim.twin_node import TwinNode  # noqa: E402

DOMAIN = 42
TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "small.yaml")
BALLS = (BallState(0, np.array([-0.3, 0.0])), BallState(1, np.array([0.1, 0.01])))
ESTIMATE = replace(
    ParameterEstimate.nominal(),
    revision=1,
    covariance=np.diag((0.03 * ParameterEstimate.nominal().values) ** 2),
)


class Graph:
    """The node, a peer that plays all its partners, and an executor."""

    def __init__(self, run_dir: Path) -> None:
        self.context = rclpy.Context()
        rclpy.init(args=["--ros-args", "-p", f"run_dir:={run_dir}"], context=self.context, domain_id=DOMAIN)
        default = rclpy.utilities.get_default_context
        rclpy.utilities.g_default_context = self.context
        self.node = TwinNode()
        rclpy.utilities.get_default_context = default
        self.peer = rclpy.create_node("peer", context=self.context)
        self.executor = MultiThreadedExecutor(4, context=self.context)
        self.executor.add_node(self.node)
        self.executor.add_node(self.peer)
        self.table = self.peer.create_publisher(msgs.TableInfo, "table_info", LATCHED)
        self.balls = self.peer.create_publisher(msgs.BallStateArray, "ball_states", STATES_LATCHED)
        self.estimate = self.peer.create_publisher(msgs.ParameterEstimate, "parameter_estimate", LATCHED)
        self.client = self.peer.create_client(PredictShots, "predict_shots")

    def spin_until(self, done, what: str, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
            self.executor.spin_once(timeout_sec=0.05)

    def ask(self, **fields) -> PredictShots.Response:
        self.spin_until(self.client.service_is_ready, "the service")
        future = self.client.call_async(PredictShots.Request(**fields))
        self.spin_until(future.done, "an answer")
        return future.result()

    def stop(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.peer.destroy_node()
        self.context.shutdown()


def shot(**changes):
    return convert.shot_to_msg(Shot("s1", 0.9, 0.02, **changes))


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    graph = Graph(tmp_path)
    yield graph
    graph.stop()


def publish_table(graph: Graph) -> None:
    now = graph.peer.get_clock().now().to_msg()
    graph.table.publish(convert.table_to_msg(TABLE, now))
    states = [convert.ball_to_msg(b) for b in BALLS]
    graph.balls.publish(msgs.BallStateArray(header=convert.table_header(now), balls=states, calibrated=True))


def test_questions_and_refusals(graph, tmp_path):
    response = graph.ask(shots=[shot()])
    assert response.error_code == PredictShots.Response.NO_TABLE

    publish_table(graph)
    graph.spin_until(lambda: (tmp_path / "twin.xml").exists(), "the first export")
    response = graph.ask(shots=[shot(), shot(side_offset=0.3)], times=[0.0, 0.5, 1.0])
    assert (response.error_code, response.error_msg, response.revision) == (0, "", 0)
    first, second = response.predictions
    assert list(first.ball_ids) == [0, 1] and first.contacts[0] >= 1
    assert len(first.tracks[0].x) == 3 and first.tracks[0].x[0] == pytest.approx(-0.3)
    assert first.rest_x != second.rest_x
    assert not first.fault and not first.outlook and not response.parameters

    response = graph.ask(shots=[shot()], revision=5)
    assert response.error_code == PredictShots.Response.UNKNOWN_REVISION and "5" in response.error_msg
    response = graph.ask(shots=[msgs.Shot(id="bad", speed=-3.0)])
    assert response.error_code == PredictShots.Response.INVALID_SHOT and "speed" in response.error_msg

    graph.estimate.publish(convert.estimate_to_msg(ESTIMATE, graph.peer.get_clock().now().to_msg()))
    graph.spin_until(lambda: '"revision": 1' in (tmp_path / "twin.json").read_text(), "the export of the estimate")
    latest = PredictShots.Request.REVISION_LATEST
    response = graph.ask(shots=[shot()], revision=latest, ensemble=16)
    assert (response.error_code, response.revision) == (0, 1)
    (prediction,) = response.predictions
    assert prediction.rest_xx[0] > 0
    assert graph.ask(shots=[shot()], revision=latest, ensemble=16).predictions[0] == prediction
    assert graph.ask(shots=[shot()], revision=0).revision == 0

    wild = replace(ESTIMATE, revision=2, values=np.where(ESTIMATE.values == 0.85, 1.6, ESTIMATE.values))
    graph.estimate.publish(convert.estimate_to_msg(wild, graph.peer.get_clock().now().to_msg()))
    graph.spin_until(lambda: '"revision": 2' in (tmp_path / "twin.json").read_text(), "the export of the estimate")
    hard = [convert.shot_to_msg(Shot("hard", 1.0, math.pi)), convert.shot_to_msg(Shot("soft", 0.15, 0.3))]
    response = graph.ask(shots=hard, revision=latest)
    assert response.error_code == PredictShots.Response.NONE
    bad, good = response.predictions
    assert "energy gain" in bad.fault and "hard" in bad.fault and not bad.ball_ids
    assert not good.fault and list(good.ball_ids) == [0, 1], "one bad shot spoils no other"


def test_outlooks_say_what_shots_would_teach(graph):
    publish_table(graph)
    chosen = np.isin(list(PARAMETERS), ("rolling_friction", "cushion_restitution"))
    known = replace(ESTIMATE, covariance=ESTIMATE.covariance * np.outer(chosen, chosen), frozen=~chosen)
    graph.estimate.publish(convert.estimate_to_msg(known, graph.peer.get_clock().now().to_msg()))
    graph.spin_until(lambda: graph.node._core.latest.revision == 1, "the estimate")
    graph.spin_until(lambda: len(graph.node._core.balls) == 2, "the balls")
    elsewhere = [convert.ball_to_msg(BallState(0, np.array([0.2, 0.1])))]
    response = graph.ask(shots=[shot()], balls=elsewhere, revision=1, outlook=True)
    assert (response.error_code, response.error_msg, response.revision) == (0, "", 1)
    assert list(response.parameters) == ["rolling_friction", "cushion_restitution"]
    twin = Twin(TABLE, (0,))
    want = outlook(twin, [convert.ball_from_msg(b) for b in elsewhere], convert.shot_from_msg(shot()), known)
    (prediction,) = response.predictions
    (got,) = prediction.outlook
    np.testing.assert_array_equal(np.reshape(got.information, (2, 2)), want.information)
    np.testing.assert_array_equal(np.reshape(got.sensitivity, (2, 2)), want.sensitivity)
    np.testing.assert_array_equal(np.stack([got.rests_x, got.rests_y], -1).reshape(want.rests.shape), want.rests)
    np.testing.assert_allclose(np.reshape(response.covariance, (2, 2)), known.covariance[np.ix_(chosen, chosen)])
    assert got.scatter == want.scatter and len(prediction.tracks[0].x) == len(want.mean.times)
    assert list(prediction.contacts) == list(want.contacts)


def test_a_restarted_node_knows_the_promoted_estimates(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    append_line(tmp_path / "estimates.jsonl", {**replace(ESTIMATE, revision=6).to_dict(), "promoted": True})
    graph = Graph(tmp_path)
    try:
        publish_table(graph)
        graph.spin_until(lambda: (tmp_path / "twin.json").exists(), "the export")
        response = graph.ask(shots=[shot()], revision=PredictShots.Request.REVISION_LATEST)
        assert (response.error_code, response.revision) == (0, 6)
    finally:
        graph.stop()


def test_a_shot_in_progress_is_shown_as_ghosts(graph):
    from visualization_msgs.msg import Marker, MarkerArray

    seen: list[Marker] = []
    graph.peer.create_subscription(MarkerArray, "markers", lambda m: seen.extend(m.markers), LATCHED)
    execution = graph.peer.create_publisher(msgs.ShotExecution, "shot_execution", LATCHED)
    publish_table(graph)
    graph.spin_until(lambda: any(m.ns == "balls" for m in seen), "markers of balls")
    assert {m.ns for m in seen} >= {"cloth", "noses", "pockets", "balls"}
    execution.publish(msgs.ShotExecution(shot=shot(), phase=msgs.ShotExecution.STARTED))
    graph.spin_until(lambda: any(m.ns == "ghosts" and m.action == Marker.ADD for m in seen), "ghosts")
