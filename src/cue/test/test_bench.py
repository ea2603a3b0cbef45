"""The harness of ``cue bench``: files, resuming, broken parts, kills; with small parts of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import Assembled, Benchmark, BenchmarkError, Options, Part, Row  # noqa: E402
from benchmarks.harness.output import markdown, number  # noqa: E402
from benchmarks.harness.run import run  # noqa: E402
from cue.cli import main  # noqa: E402

PARTS = """
import os, time
from benchmarks.harness import UnavailableError

def square(x, log):
    with open(log, "a") as file:
        file.write(f"{x}\\n")
    return x * x

def when(log):
    begin = time.monotonic()
    while time.monotonic() < begin + 0.05:
        pass
    return [begin, time.monotonic(), os.getpid()]

def absent():
    raise UnavailableError("no such thing here")

def wrong():
    raise ZeroDivisionError("by zero")

def dies():
    os._exit(7)

def waits(log, gate):
    square(0, log)
    while not os.path.exists(gate):
        time.sleep(0.01)
    return 1
"""


def make(parts, target=100.0):
    """Return a benchmark whose figure is the sum of all results."""

    def assemble(options, results):
        values = [r.value for r in results.values() if isinstance(r.value, int)]
        note = "; ".join(r.problem for r in results.values() if r.problem)
        row = Row("total", "sum of squares", float(sum(values)) if values else None, "m", target, note=note)
        return Assembled({"total": row.value}, [row])

    return Benchmark(
        name="tiny",
        title="Tiny",
        about="A small one.",
        code=("benchmarks/harness/parts.py",),
        parts=lambda options: [Part(p.name, p.function, {**p.arguments}, p.alone, p.also) for p in parts],
        assemble=assemble,
        plot=lambda data, path: path.write_bytes(b"png"),
    )


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "small_parts.py").write_text(PARTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return "small_parts"


def play(benchmark, target, **how):
    with open(os.devnull, "w") as nowhere:
        return run(benchmark, Options(root=ROOT), target, console=Console(file=nowhere), **how)


def squares(module, log, count):
    return [Part(f"square/{x}", f"{module}:square", {"x": x, "log": str(log)}) for x in range(count)]


def test_a_run_writes_table_json_csv_picture_and_page(module, tmp_path):
    log, target = tmp_path / "log", tmp_path / "out" / "tiny.json"
    assert play(make(squares(module, log, 4), target=1.0), target, workers=2) == 0  # a missed target is no failure
    data = json.loads(target.read_text())
    assert data["total"] == 14 and data["rows"][0]["verdict"] == "missed"
    assert data["environment"]["cores"] >= 1 and data["environment"]["commit"]
    assert target.with_suffix(".csv").read_text().startswith("key,what,value,unit,target,sense,note,verdict\ntotal,")
    page = target.with_suffix(".html").read_text()
    assert "data:image/png;base64," in page and "missed" in page and "http" not in page
    assert str(tmp_path) not in target.read_text() + page
    assert "| `total` | sum of squares | 14 m | ≤ 1 | missed |" in markdown(data["rows"])


def test_what_is_done_is_not_done_again(module, tmp_path):
    log, target = tmp_path / "log", tmp_path / "tiny.json"
    parts = squares(module, log, 3)
    play(make(parts), target)
    play(make(parts), target)
    assert sorted(log.read_text().split()) == ["0", "1", "2"]
    with target.with_suffix(".parts.jsonl").open("a") as file:
        file.write('{"part": "square/3", "finger')  # a kill cut this line short
    parts = [*squares(module, log, 4)[1:], Part("square/0", f"{module}:square", {"x": 9, "log": str(log)})]
    play(make(parts), target)
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "9"]
    assert json.loads(target.read_text())["total"] == 1 + 4 + 9 + 81
    play(make(parts), target, fresh=True)
    assert len(log.read_text().split()) == 9
    play(make(parts), target, fresh=True, only=["square"])
    with pytest.raises(BenchmarkError, match="unknown figure 'cube'; known are square"):
        play(make(parts), target, only=["cube"])


def test_a_broken_part_is_named_and_the_others_go_on(module, tmp_path):
    log, target = tmp_path / "log", tmp_path / "tiny.json"
    broken = [
        Part("a/absent", f"{module}:absent"),
        Part("b/wrong", f"{module}:wrong"),
        Part("c/dies", f"{module}:dies"),
        Part("d/nowhere", f"{module}:nothing"),
    ]
    assert play(make([*broken, *squares(module, log, 3)]), target, workers=1) == 1
    data = json.loads(target.read_text())
    assert data["total"] == 5
    problems = {p["part"]: (p["problem"], p["failed"]) for p in data["parts"]}
    assert problems["a/absent"] == ("no such thing here", False)
    assert problems["b/wrong"] == ("ZeroDivisionError: by zero", True)
    assert problems["c/dies"] == ("its process ended with exit code 7", True)
    assert "AttributeError" in problems["d/nowhere"][0]
    # what is not there may be there the next time, and is no failure by itself
    assert play(make([broken[0], *squares(module, log, 3)]), target) == 0
    assert len(log.read_text().split()) == 3


def test_timed_parts_run_alone_and_the_others_beside_each_other(module, tmp_path):
    log = {"log": str(tmp_path / "log")}
    parts = [Part(f"when/{k}", f"{module}:when", log, alone=k >= 4) for k in range(7)]
    spans = {}
    benchmark = make(parts)
    kept = benchmark.assemble

    def assemble(options, results):
        spans.update({name: r.value for name, r in results.items()})
        return kept(options, results)

    play(Benchmark(**{**benchmark.__dict__, "assemble": assemble}), tmp_path / "tiny.json", workers=2)
    assert len({spans[f"when/{k}"][2] for k in range(4)}) == 2
    for k in range(4, 7):
        begin, end, _ = spans[f"when/{k}"]
        assert all(b >= end or e <= begin for name, (b, e, _) in spans.items() if name != f"when/{k}")


RUN = """
import sys
from pathlib import Path
sys.path[:0] = [{root!r}, {here!r}]
import test_bench as t
from benchmarks.harness import Part
parts = [*t.squares("small_parts", {log!r}, 2), Part("wait/0", "small_parts:waits", dict(log={log!r}, gate={gate!r}))]
sys.exit(t.play(t.make(parts), Path({target!r}), workers=1))
"""


def wait_for(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.01)


def descendants(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_cut_short_leaves_no_process_and_goes_on_later(module, tmp_path, blow):
    log, gate, target = tmp_path / "log", tmp_path / "gate", tmp_path / "tiny.json"
    code = RUN.format(root=str(ROOT), here=str(Path(__file__).parent), log=str(log), gate=str(gate), target=str(target))
    first = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored where the tests run in the background
    )
    wait_for(lambda: log.exists() and len(log.read_text().split()) == 3, "the part that waits")
    workers = descendants(first.pid)
    assert len(workers) == 1
    os.killpg(first.pid, blow) if blow == signal.SIGINT else first.send_signal(blow)
    assert first.wait(60) == (130 if blow == signal.SIGINT else -signal.SIGKILL)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), "its worker to end")
    assert not target.exists()
    gate.touch()
    again = subprocess.run([sys.executable, "-c", code], check=False)
    assert again.returncode == 0
    assert json.loads(target.read_text())["total"] == 2
    assert sorted(log.read_text().split()) == ["0", "0", "0", "1"]  # only what waited began twice


def test_two_runs_cannot_write_the_same_files(module, tmp_path):
    from benchmarks.harness.parts import Store

    first = Store(tmp_path / "tiny.parts.jsonl", {}, fresh=False)
    with pytest.raises(BenchmarkError, match=r"another run is writing .*tiny\.json"):
        play(make([]), tmp_path / "tiny.json")
    first.close()
    assert play(make([]), tmp_path / "tiny.json") == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bench"], "required: name"),
        (["bench", "moon"], "unknown benchmark 'moon'; known are"),
        (["bench", "twin", "--only", "moon"], "unknown figure 'moon'; known are energy_gain, escapes,"),
        (["bench", "twin", "--json", "x.txt"], "should end in .json"),
        (["bench", "twin", "--seed", "-1"], "must be 0 or more, got -1"),
        (["bench", "twin", "--real-shots", "/no/shots"], "--real-shots /no/shots does not exist"),
        (["bench", "twin", "--quik"], "unrecognised argument --quik"),
        (["bench", "twin", "--only", "mirror_mm", "--json", "/proc/no/x.json"], "cannot be written"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(words, says, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


def test_without_the_sources_it_says_so(monkeypatch, tmp_path, capsys):
    import cue.bench

    monkeypatch.setenv("CUE_ROOT", str(tmp_path))
    monkeypatch.setattr(cue.bench, "__file__", str(tmp_path / "lib" / "bench.py"))
    assert main(["bench", "twin"]) == 2
    assert "benchmarks run from CUE's source checkout" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (2.0, "2"), (1.2345, "1.23"), (123.4, "123"), (1e-6, "1.00e-06"), (0.00123, "0.00123")],
)
def test_numbers_as_people_write_them(value, text):
    assert number(value) == text
