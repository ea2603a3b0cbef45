"""Each node is killed once in the midst of one session: it comes back, and no shot is lost or struck twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from system_harness import NODES, Session

pytestmark = [pytest.mark.ros, pytest.mark.timeout(400)]

ASKED = {"seed": 3, "shots": 6, "held_out_shots": 2}
ONE_TOUCH = 0.5  # [s] within which touches of the tip belong to one stroke


@dataclass
class Death:
    """One node's death and return."""

    node: str
    moment: str
    killed: int
    returned: int


def strokes_begun(session: Session) -> int:
    return sum(1 for line in session.lines("arm_ledger.jsonl") if line["event"] == "started")


def records(session: Session) -> int:
    return len(session.lines("shots.jsonl"))


def during_stroke(number: int) -> Callable[[Session], bool]:
    """Return a condition: the given stroke, counted from 1, or a later one is under way."""
    return lambda s: strokes_begun(s) >= number and bool(s.open_stroke())


def after_record(number: int) -> Callable[[Session], bool]:
    """Return a condition: so many shots have been recorded, so the agent chooses the next one or fits."""
    return lambda s: records(s) >= number


def during_fit(session: Session) -> bool:
    decisions = [line for line in session.lines("agent.jsonl") if line.get("what") == "fit"]
    return bool(decisions) and decisions[-1]["event"] == "decision"


PLAN: list[tuple[str, str, Callable[[Session], bool]]] = [
    ("camera_sim", "first stroke", during_stroke(1)),
    ("twin", "choice of the second shot", after_record(1)),
    ("tracker", "second stroke", during_stroke(2)),
    ("arm", "third stroke", during_stroke(3)),
    ("fitter", "a fit", during_fit),
    ("score", "between", lambda s: True),
    ("world", "a later stroke", during_stroke(4)),
    ("agent", "a later stroke", during_stroke(5)),
]


@pytest.fixture(scope="module")
def killed(launch_for_session) -> tuple[Session, list[Death]]:
    """Return a session in which every node was killed once, and how."""
    session = launch_for_session("killed", **ASKED)
    deaths = []
    for node, moment, condition in PLAN:
        session.wait_for(lambda condition=condition: condition(session), f"{moment}, to kill {node}", 150.0)
        process = session.wait_for(lambda node=node: session.node(node), f"{node} to run", 30.0)
        process.kill()
        old = process.pid

        def back(node: str = node, old: int = old):
            now = session.node(node)
            return now if now is not None and now.pid != old else None

        new = session.wait_for(back, f"{node} to come back", 40.0)
        deaths.append(Death(node, moment, old, new.pid))
    session.note_shared_memory()
    session.wait_end(240.0)
    return session, deaths


def test_every_node_came_back(killed):
    session, deaths = killed
    assert {death.node for death in deaths} == set(NODES)
    assert session.terminal.count("ended by SIGKILL") == len(NODES), session.describe()


def test_the_session_completes(killed):
    session, _ = killed
    assert session.launcher.returncode == 0, session.describe()
    session.assert_quiet()
    agent = session.lines("agent.jsonl")
    assert [line["event"] for line in agent].count("session") == 1, "it was resumed, not begun anew"


def test_no_finished_shot_is_lost(killed):
    session, _ = killed
    shots = session.lines("shots.jsonl")
    assert [line["index"] for line in shots] == list(range(len(shots)))
    recorded = [line["shot_id"] for line in shots]
    assert len(set(recorded)) == len(recorded), recorded
    struck = {e["shot_id"] for e in session.lines("arm_ledger.jsonl") if e["event"] == "finished" and e["struck"]}
    assert struck <= set(recorded)
    observed = {
        line["shot_id"]
        for line in session.lines("agent.jsonl")
        if line["event"] == "outcome" and line.get("what") == "shot" and line["status"] == "observed"
    }
    assert observed <= set(recorded)


def test_no_shot_is_struck_twice(killed):
    session, _ = killed
    started = [e["shot"]["shot_id"] for e in session.lines("arm_ledger.jsonl") if e["event"] == "started"]
    assert len(set(started)) == len(started), started
    touches = [float(t) for t in re.findall(r"([\d.]+) s: strike:", session.log("world"))]
    strikes = [t for n, t in enumerate(touches) if n == 0 or t - touches[n - 1] > ONE_TOUCH]
    assert len(strikes) <= len(started), f"touches at {touches}, strokes {started}"
    scored = [line["shot_id"] for line in session.lines("score.jsonl")]
    assert len(set(scored)) == len(scored), scored


def test_the_clock_never_went_back(killed):
    session, _ = killed
    times = [line["strike_time"] for line in session.lines("shots.jsonl")]
    assert times == sorted(times)
