"""Tools without a model: arguments are checked before anything moves, code is shut in, notes can be read back."""

import json
import math
import re

import numpy as np
import pytest

from cue_agent.config import AgentConfig
from cue_agent.journal import Journal
from cue_agent.llm.anthropic_provider import AnthropicProvider
from cue_agent.llm.config import LlmConfig
from cue_agent.llm.context import Window, tokens_of
from cue_agent.llm.fields import ArgumentError, Many, Number, Record, Text, Whole
from cue_agent.llm.limits import Ledger, Usage
from cue_agent.llm.pilot import ModelPilot
from cue_agent.llm.registry import Picture, Registry, Reply, Tool
from cue_agent.llm.skills import Skills
from cue_agent.llm.transcript import Transcript
from cue_agent.llm.workbench import Workbench
from cue_agent.planners import make_planner
from cue_agent.reach import GeometricReach
from cue_agent.session import Goal, Session
from cue_agent.testing import FakePeers
from cue_core.balls import BallState
from cue_core.errors import CueError

SMALL = {"candidates": 4, "shortlist": 1, "drawn": 2, "finalists": 0, "goal_shots": 1}


@pytest.fixture
def desk():
    """A session that was begun, with its tools, and nobody who calls them."""
    peers = FakePeers()
    config = AgentConfig(planner="llm", **SMALL)
    session = Session(config, peers, make_planner("llm"), Journal(""), GeometricReach)
    session._open(Goal("explain", 8, 2))
    work, registry = ModelPilot(LlmConfig(), AnthropicProvider({})).desk(session)
    return peers, work, registry


WRONG = (
    None,
    True,
    [],
    {},
    "",
    "ninety",
    -3,
    40.0,
    1e308,
    10**400,
    float("nan"),
    float("inf"),
    "\0",
    "x" * 50_000,
    [[1]],
    {"speed": 1},
    "\ud800",
    -1,
    "s1",
    "c0x",
)


def sound(tool, rng):
    """Return arguments that are allowed, by the tool's own schema."""

    def of(schema):
        kind = schema["type"]
        if kind == "number":
            return float(rng.uniform(schema["minimum"], schema["maximum"]))
        if kind == "integer":
            return int(rng.integers(schema["minimum"], schema["maximum"] + 1))
        if kind == "boolean":
            return bool(rng.integers(2))
        if kind == "array":
            return [of(schema["items"]) for _ in range(max(schema.get("minItems", 0), 1))]
        if kind == "object":
            return {name: of(item) for name, item in schema["properties"].items()}
        return (
            schema["enum"][0]
            if "enum" in schema
            else {"s": "s001", "c": "c1", "[": "abc"}.get(schema.get("pattern", " ")[4:5], "a text that is long enough")
        )

    return of(tool.record.schema())


def spoilt(tool, rng):
    """Return arguments that differ from allowed ones in one place, or a call of nothing that there is."""
    arguments = sound(tool, rng)
    kind = rng.integers(4)
    if kind == 0 or not arguments:
        return tool.name, {**arguments, f"more{rng.integers(9)}": 1}
    name = str(rng.choice(sorted(arguments)))
    if kind == 1 and name not in tool.optional:
        return tool.name, {k: v for k, v in arguments.items() if k != name}
    if kind == 2 and rng.integers(4) == 0:
        return tool.name, [arguments, None, "text", 7][rng.integers(1, 4)]
    schema = tool.record.schema()["properties"][name]
    wrong = [w for w in WRONG if _refused(schema, w)]
    return tool.name, {**arguments, name: wrong[rng.integers(len(wrong))]}


def _refused(schema, value):
    """Tell, by the schema alone, whether a value is wrong: what this asks is independent of the code that checks."""
    kind = schema["type"]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("number", "integer"):
        right = is_number and schema["minimum"] <= value <= schema["maximum"]
        return not (right and (kind == "number" or isinstance(value, int)))
    if kind == "boolean":
        return not isinstance(value, bool)
    if kind == "string":
        if not isinstance(value, str) or "\0" in value or value == "\ud800":
            return True
        if "enum" in schema:
            return value not in schema["enum"]
        return not schema.get("minLength", 0) <= len(value) <= schema["maxLength"] or (
            "pattern" in schema and not re.fullmatch(schema["pattern"], value)
        )
    return not isinstance(value, list) or len(value) > 0 or schema.get("minItems", 0) > 0


def test_a_thousand_malformed_calls_are_refused_before_anything_moves(desk):
    peers, work, registry = desk
    rng = np.random.default_rng(9)
    tools = list(registry.tools.values())
    peers.hook = lambda call: pytest.fail(f"{call} was called")
    for n in range(1000):
        tool = tools[n % len(tools)]
        name, arguments = spoilt(tool, rng)
        if n % 50 == 0:
            name = name + "2"
        reply = registry.call(name, arguments)
        assert reply.failed and reply.limit in ("arguments", "tools"), (name, arguments)
        assert "allowed is" in reply.data["error"] or "known are" in reply.data["error"]
    assert peers.struck == [] and peers.fits == [] and work.state.attempts == []
    assert len([x for x in work.transcript.lines if x["event"] == "refused"]) == 1000
    peers.hook = lambda _call: None
    assert not registry.call("look", {}).failed, "the same desk works"


def test_schemas_say_what_is_checked(desk):
    _, _, registry = desk
    for definition in registry.definitions():
        schema = definition["input_schema"]
        assert schema["additionalProperties"] is False and definition["description"]
        assert set(schema["required"]) <= set(schema["properties"])
        json.dumps(definition, allow_nan=False)
    speed = registry.tools["execute_shot"].record.schema()["properties"]["speed"]
    assert (speed["minimum"], speed["maximum"]) == (0.3, 1.2)
    moving = [t.name for t in registry.tools.values() if t.moves]
    assert moving == ["execute_shot"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (Number("n", 0, 1, "m"), "0.5", "a number from 0 to 1 m"),
        (Number("n", 0, 1), math.nan, "a number from 0 to 1"),
        (Whole("n", 1, 3), 2.0, "a whole number from 1 to 3"),
        (Text("t", 3), "long", "a text of 0 to 3 characters"),
        (Text("t", 9, 1, "[a-z]+"), "A", "like"),
        (Many("m", Whole("n", 1, 3), 2), [1, 4], r"x\[1\] is 4"),
        (Record({"a": Whole("n", 1, 3)}), {"b": 1}, "x.b is 1"),
    ],
)
def test_fields_convert_nothing(field, value, said):
    with pytest.raises(ArgumentError, match=said):
        field.check("x", value)


def test_risky_and_unreachable_strokes_are_refused_by_the_name_of_the_limit(desk):
    peers, _, registry = desk
    peers.balls = (BallState(0, np.array([0.3, 0.1])), BallState(1, np.array([-0.4, -0.2])))
    corner = math.atan2(peers.table.width / 2 - 0.1, peers.table.length / 2 - 0.3)
    reply = registry.call("execute_shot", {"reason": "pot it", "speed": 0.8, "azimuth": corner})
    assert reply.limit == "risk" and "cue ball lost 100% (allowed" in reply.data["error"]
    peers.balls = (BallState(0, np.array([0.0, 0.0])), BallState(1, np.array([-0.05, 0.0])))
    reply = registry.call("execute_shot", {"reason": "through a ball", "speed": 0.4, "azimuth": 0.3})
    assert reply.limit == "reach" and peers.struck == []


def test_candidates_are_of_their_moment(desk):
    peers, work, registry = desk
    ranked = registry.call("rank_shots", {"count": 3})
    name = ranked.data["candidates"][0]["candidate"]
    first = registry.call("execute_shot", {"reason": "the best", "candidate": name})
    assert not first.failed and len(peers.struck) == 1 and first.pictures[0].png.startswith(b"\x89PNG")
    again = registry.call("execute_shot", {"reason": "the best", "candidate": name})
    assert again.failed and len(peers.struck) == 1
    assert work.state.attempts[0].gain == pytest.approx(ranked.data["candidates"][0]["gain_nat"], rel=1e-6)


def test_fits_name_what_they_take_and_how_many_are_left(desk):
    peers, work, registry = desk
    assert "no usable shot" in registry.call("fit", {"reason": "too early"}).data["error"]
    assert (
        "no estimate was promoted"
        in registry.call("finish", {"verdict": "all is well", "confidence": 1.0}).data["error"]
    )
    for azimuth in (2.634, 0.9):
        registry.call("execute_shot", {"reason": "roll", "speed": 0.4, "azimuth": azimuth})
    fit = registry.call("fit", {"reason": "two shots", "parameters": ["rolling_friction"], "terms": "usual"})
    assert fit.data["promoted"] and peers.fits[0].parameters == ("rolling_friction",)
    assert peers.fits[0].shot_ids == ("s001", "s002")
    assert registry.call("fit", {"reason": "drop", "drop": ["s001"]}).limit == "dropped_share"
    assert (
        "allowed is each of s001, s002 once" in registry.call("fit", {"reason": "drop", "drop": ["s009"]}).data["error"]
    )
    rows = registry.call("residuals", {}).data["shots"]
    assert [row["shot"] for row in rows] == ["s001", "s002"] and all(r["now_cm"] < r["unfitted_cm"] for r in rows)
    assert registry.call("list_terms", {}).data["revision"] == 1
    back = registry.call("roll_back", {"revision": 1, "reason": "no earlier one"})
    assert back.failed and work.state.rolled_back == []


def test_a_ledger_counts_money_by_kind_of_token():
    ledger = Ledger(LlmConfig(money=1.0))
    ledger.add(Usage(read=100_000, written=20_000, cache_written=20_000, cache_read=500_000))
    assert ledger.money == pytest.approx(0.4 + 0.4 + 0.1 + 0.1)
    with pytest.raises(CueError, match="refused by limit money"):
        ledger.check()


def test_a_transcript_is_read_back_with_pictures_and_missing_results(tmp_path):
    written = Transcript(str(tmp_path), 1, secrets=("hush",))
    written.said("begin, hush")
    calls = [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in ("a", "b")]
    written.heard(calls, "tool_use", Usage(written=5))
    written.result("a", "look", Reply({"x_m": 0.123456789, "unknown": math.nan}, (Picture(b"\x89PNG", "a scene"),)))
    read = Transcript(str(tmp_path), 1)
    assert read.exchanges() == written.exchanges() and Transcript(str(tmp_path), 2).lines == []
    (said,), (_, results) = read.exchanges()
    assert said["content"][0]["text"] == "begin, [secret]"
    first, second = results["content"]
    assert json.loads(first["content"][0]["text"]) == {"x_m": 0.12346, "unknown": None}
    assert first["content"][2]["source"]["media_type"] == "image/png"
    assert second["is_error"] and second["tool_use_id"] == "b"


def test_what_is_sent_of_a_long_conversation_keeps_calls_and_results_together():
    def part(n):
        call = {"type": "tool_use", "id": str(n), "name": "look", "input": {}}
        text = {"type": "text", "text": "x" * 700}
        result = {"type": "tool_result", "tool_use_id": str(n), "content": [text, {"type": "image", "source": {}}]}
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        return [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]

    parts = [[{"role": "user", "content": [{"type": "text", "text": "the task"}]}], *(part(n) for n in range(20))]
    whole = Window(10**6, 100)
    whole.fit(parts, lambda: "in short: much")
    sent = whole.messages(parts)
    assert len(sent) == 41 and sent[1]["content"][0]["type"] == "thinking"

    window, cuts = Window(8000, 2), []
    for n in range(1, 21):
        window.fit(parts[: n + 1], lambda: "in short: much")
        sent = window.messages(parts[: n + 1])
        cuts.append((window.cut, window.faded))
        assert tokens_of(sent) <= 8000 and [m["role"] for m in sent] == ["user", "assistant"] * (len(sent) // 2) + [
            "user"
        ]
        assert sent[0]["content"][0]["text"] == "the task"
        pictures = [i for m in sent for b in m["content"] for i in b.get("content", []) if i["type"] == "image"]
        assert min(n, 2) <= len(pictures) <= 4 or window.cut
    assert len(set(cuts)) < 14, "requests in a row begin alike"
    assert sent[0]["content"][1]["text"] == "in short: much"
    for asked, answered in zip(sent[1::2], sent[2::2], strict=True):
        assert [b["id"] for b in asked["content"]] == [b["tool_use_id"] for b in answered["content"]]


def test_errors_of_ours_pass_through_a_registry():
    def broken():
        raise ZeroDivisionError

    registry = Registry()
    registry.add([Tool("broken", "breaks", {}, broken)])
    with pytest.raises(ZeroDivisionError):
        registry.call("broken", {})
    with pytest.raises(CueError, match="is a tool broken"):
        registry.add([Tool("broken", "again", {}, broken)])


CODE = """
import json, os, socket, subprocess, sys
import numpy as np, cv2
def tried(act):
    try:
        act()
        return "done"
    except Exception as error:
        return type(error).__name__
cv2.imwrite("out.png", np.zeros((4, 4, 3), np.uint8))
print(json.dumps({
    "shots": json.load(open("/bench/stage/shots.json")),
    "net": tried(lambda: socket.create_connection(("127.0.0.1", 22), 1)),
    "files": tried(lambda: open(sys.argv[0] if False else "/etc/passwd").read()),
    "write": tried(lambda: open("/bench/stage/x", "w")),
    "memory": tried(lambda: bytearray(3 << 30)),
    "disk": tried(lambda: [open(f"f{n}", "wb").write(b"0" * (1 << 20)) for n in range(40)]),
    "keys": [k for k in os.environ if "KEY" in k],
}))
"""


def test_code_is_shut_in(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    bench = Workbench(seconds=20.0, memory=1024, disk=8, files={"shots.json": "[1, 2]"})
    problem = bench.problem()
    if problem:  # then nothing is run at all, and it says why in one line
        with pytest.raises(CueError, match="the workbench is closed"):
            bench.run(CODE)
        assert "\n" not in problem
        return
    run = bench.run(CODE)
    assert run.code == 0, run.text
    told = json.loads(run.text)
    assert told["shots"] == [1, 2] and told["keys"] == []
    assert "done" not in (told["net"], told["files"], told["write"], told["memory"], told["disk"]), told
    assert [name for name, _ in run.pictures] == ["out.png"]
    late = Workbench(seconds=0.5, _problem="").run("while True: pass")
    assert late.code in (124, 137, 152)


def test_a_workbench_without_isolation_stays_closed(monkeypatch):
    monkeypatch.setattr("cue_agent.llm.workbench._which", lambda name: None if name == "unshare" else name)
    bench = Workbench()
    with pytest.raises(CueError, match="closed: isolation needs unshare"):
        bench.run("print(1)")


def test_skills_are_kept_with_their_check(tmp_path):
    bench = Workbench(seconds=20.0)
    if bench.problem():
        pytest.skip(bench.problem())
    skills = Skills(str(tmp_path), bench)
    check = "from skills import sums\nassert sums.add(1, 2) == 3\n"
    with pytest.raises(CueError, match="did not pass its check"):
        skills.save("sums", "adds", "def add(a, b):\n    return a - b\n", check)
    assert skills.save("sums", "adds", "def add(a, b):\n    return a + b\n", check).version == 1
    later = Skills(str(tmp_path), bench)
    assert [(s["name"], s["loaded"]) for s in later.listed()] == [("sums", True)]
    assert bench.run("from skills import sums; print(sums.add(2, 2))", later.modules()).text == "4\n"
