"""What the twin is asked by the agent's end of ROS, and its answers there and back again."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from cue_agent import AgentConfig, Code, SessionEndedError
from cue_agent.agent_peers_node import RosPeers
from cue_agent.fake_graph_node import predicted
from cue_agent.peers import Foresight
from cue_agent.testing import FakePeers
from cue_core.balls import Visibility
from cue_core.shots import Shot
from cue_msgs.srv import PredictShots

SHOTS = [Shot(f"s{i}", 0.3 + 0.05 * i, 0.4 * i) for i in range(10)]


class Twin:
    """The fakes' twin behind messages; says what it was asked."""

    def __init__(self) -> None:
        self.fakes, self.asked = FakePeers(), []
        node = SimpleNamespace(watch=None, config=AgentConfig(), health=SimpleNamespace(tick=lambda *_: None))
        node.predict_client, node.time_reset = None, ""
        self.goal = SimpleNamespace(is_cancel_requested=False)
        self.peers = RosPeers(node, self.goal)
        self.peers._calls = SimpleNamespace(service=self.serve)

    def serve(self, _client, request):
        self.asked.append([s.id for s in request.shots])
        return predicted(self.fakes, request, PredictShots.Response())


def test_foresight_is_the_same_behind_messages():
    twin = Twin()
    gone = replace(twin.fakes.balls[2], visibility=Visibility.POCKETED)
    balls = (*twin.fakes.balls[:2], gone, *twin.fakes.balls[3:])
    found, want = twin.peers.look_ahead(SHOTS, balls), twin.fakes.look_ahead(SHOTS, balls)
    assert [i for ids in twin.asked for i in ids] == [s.shot_id for s in SHOTS] and max(map(len, twin.asked)) < len(
        SHOTS
    )
    for one, other in zip(found, want, strict=True):
        assert isinstance(one, Foresight) and one.ball_ids == other.ball_ids and len(one.ball_ids) == 5
        for name in set(vars(other)) - {"tracks", "shot_id", "names"}:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), err_msg=name)
        assert (one.shot_id, one.names) == (other.shot_id, other.names)


def test_a_shot_that_the_twin_cannot_simulate_spoils_no_other():
    twin = Twin()
    real = twin.fakes.predict
    twin.fakes.predict = lambda shots, balls, **asked: [
        None if s.shot_id == "s4" else p for s, p in zip(shots, real(shots, balls, **asked), strict=True)
    ]
    found = twin.peers.predict(SHOTS, twin.fakes.balls, ensemble=31)
    assert [p is None for p in found] == [s.shot_id == "s4" for s in SHOTS]
    assert max(map(len, twin.asked)) == 4


def test_a_question_ends_when_the_session_is_cancelled():
    twin = Twin()
    serve = twin.peers._calls.service

    def cancelled_meanwhile(client, request):
        twin.goal.is_cancel_requested = len(twin.asked) == 1
        return serve(client, request)

    twin.peers._calls.service = cancelled_meanwhile
    with pytest.raises(SessionEndedError) as caught:
        twin.peers.look_ahead(SHOTS, twin.fakes.balls)
    assert caught.value.code == Code.CANCELED and len(twin.asked) == 2
