"""Life and death of a graph under the embedded runner: no process, no traceback, no shared memory stays behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from cue.runner import LONGEST_DELAY, backoff

PACKAGE = Path(__file__).resolve().parents[1]

# Stand-ins. Each leaves a line per start in `starts.NAME`, so that restarts can be counted.
PREAMBLE = """
import os, signal, sys, time
name = next(word for word in sys.argv if word.startswith("__node:=")).removeprefix("__node:=")
with open("starts." + name, "a") as file:
    file.write(str(os.getpid()) + chr(10))
"""
POLITE = (
    PREAMBLE
    + """
def end(*_):
    sys.exit(0)
signal.signal(signal.SIGINT, end); signal.signal(signal.SIGTERM, end)
sys.stderr.write("[INFO] [1.0] [polite]: here" + chr(10))
sys.stderr.write("[WARN] [1.0] [polite]: mind this" + chr(10)); sys.stderr.flush()
while True:
    signal.pause()
"""
)
DEAF = (
    PREAMBLE
    + """
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""
)
PARENT = (
    PREAMBLE
    + """
import subprocess
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    signal.pause()
"""
)
LAUNCH_FILE = """
from cue.graph import Graph, Process, Recipe
PROCESSES = {processes!r}
def build(values):
    return Graph("test", {run_dir!r}, tuple(Process("fake", n, n, **more) for n, more in PROCESSES.items()))
GRAPH = Recipe("test", "A test.", (), build)
"""


def wait_for(condition, what: str, seconds: float = 10.0):
    """Return the first true value of a condition."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        select_nothing(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def select_nothing(seconds: float) -> None:
    import select

    select.select([], [], [], seconds)


class Launched:
    """A launcher that runs a graph of stand-ins."""

    def __init__(self, folder: Path, process: subprocess.Popen) -> None:
        self.folder, self.process = folder, process

    def starts(self, name: str) -> list[int]:
        path = self.folder / f"starts.{name}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def wait_start(self, name: str, count: int = 1, seconds: float = 10.0) -> int:
        return wait_for(
            lambda: len(self.starts(name)) >= count and self.starts(name), f"start {count} of {name}", seconds
        )[-1]

    def finish(self, seconds: float = 5.0) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def leftovers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == str(self.folder) and process.pid != os.getpid():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


@pytest.fixture
def start(prefix, tmp_path):
    """Return a function that launches stand-ins: name -> (program, keywords of its Process)."""
    launched = []

    def launch(**programs) -> Launched:
        folder = tmp_path / "work"
        folder.mkdir()
        for name, (text, _) in programs.items():
            prefix.program("fake", name, text)
        file = folder / "test.launch.py"
        processes = {name: keywords for name, (_, keywords) in programs.items()}
        file.write_text(textwrap.dedent(LAUNCH_FILE).format(processes=processes, run_dir=str(folder / "run")))
        path = os.pathsep.join([str(PACKAGE), str(PACKAGE.parent / "cue_core"), os.environ.get("PYTHONPATH", "")])
        code = "import sys; from cue.cli import main; sys.exit(main(sys.argv[1:]))"
        process = subprocess.Popen(
            [sys.executable, "-c", code, "launch", str(file)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        launched.append(Launched(folder, process))
        return launched[-1]

    yield launch
    for one in launched:
        one.process.kill()
        one.process.communicate()
        for process in one.leftovers():
            process.kill()


CLIENT = {"respawn": False, "output": "screen", "on_exit": "shutdown"}


@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM]], ids=["INT", "INT-INT", "TERM"]
)
def test_a_stop_signal_ends_everything_cleanly(start, signals):
    launched = start(a=(POLITE, {}), b=(POLITE, {}))
    launched.wait_start("a")
    launched.wait_start("b")
    for number in signals:
        launched.process.send_signal(number)
    code, _, err = launched.finish()
    assert code == 0
    assert "Traceback" not in err and "rror" not in err
    assert launched.leftovers() == []
    assert [len(launched.starts(name)) for name in "ab"] == [1, 1]


def test_a_process_that_does_not_listen_is_killed_in_time(start):
    launched = start(deaf=(DEAF, {}), polite=(POLITE, {}))
    launched.wait_start("deaf")
    launched.process.send_signal(signal.SIGINT)
    assert launched.finish(5.0)[0] == 0
    assert launched.leftovers() == []


def test_the_client_ends_before_the_others(start):
    note = "open('ends', 'a').write(name + chr(10)); sys.exit(0)"
    polite = POLITE.replace("sys.exit(0)", note)
    launched = start(a=(polite, {}), client=(polite, CLIENT), deaf=(DEAF, CLIENT))
    for name in ("a", "client", "deaf"):
        launched.wait_start(name)
    launched.process.send_signal(signal.SIGINT)
    assert launched.finish(5.0)[0] == 0
    assert (launched.folder / "ends").read_text().split() == ["client", "a"]
    assert launched.leftovers() == []


def test_the_processes_die_with_a_launcher_that_is_killed(start):
    launched = start(a=(POLITE, {}), b=(POLITE, {}))
    launched.wait_start("a")
    launched.wait_start("b")
    launched.process.kill()
    launched.process.wait()
    wait_for(lambda: not launched.leftovers(), "the processes to end", 5.0)


def test_a_killed_process_comes_back_later_each_time(start):
    launched = start(a=(POLITE, {"respawn_delay": 0.2}), b=(POLITE, {}))
    times = []
    for count in (1, 2, 3):
        pid = launched.wait_start("a", count)
        times.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)
    launched.wait_start("a", 4)
    times.append(time.monotonic())
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert [gap >= delay for gap, delay in zip(gaps, (0.2, 0.4, 0.8), strict=True)] == [True] * 3
    launched.process.send_signal(signal.SIGINT)
    code, _, err = launched.finish()
    assert code == 0
    assert err.count("warn: ended by SIGKILL; starting it again in") == 3
    assert len(launched.starts("b")) == 1


def test_back_off_grows_to_an_end():
    assert [backoff(1.0, n) for n in (0, 1, 2, 3)] == [1.0, 2.0, 4.0, 8.0]
    assert backoff(1.0, 1000) == LONGEST_DELAY


def test_what_a_killed_process_had_started_is_gone_before_it_comes_back(start):
    launched = start(a=(PARENT, {"respawn_delay": 0.1}))
    first = launched.wait_start("a")
    wait_for(lambda: psutil.Process(first).children(), "its child")
    (child,) = psutil.Process(first).children()
    os.kill(first, signal.SIGKILL)
    launched.wait_start("a", 2)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    launched.process.send_signal(signal.SIGTERM)
    assert launched.finish()[0] == 0
    assert launched.leftovers() == []


@pytest.mark.parametrize("code", [0, 3])
def test_the_graph_ends_with_its_client_and_takes_its_exit_code(start, code):
    client = PREAMBLE + f"time.sleep(0.3); print('a summary'); sys.exit({code})"
    launched = start(a=(POLITE, {}), client=(client, CLIENT))
    found, out, err = launched.finish(10.0)
    assert found == code
    assert "a summary\n" in out
    assert "Traceback" not in err
    assert launched.leftovers() == []


def test_a_process_that_cannot_start_as_configured_ends_the_graph_with_its_line(start):
    broken = PREAMBLE + "sys.stderr.write('error: world.yaml: lacks cloth' + chr(10)); sys.exit(2)"
    launched = start(a=(POLITE, {}), broken=(broken, {}))
    code, _, err = launched.finish(10.0)
    assert code == 2
    assert "error: world.yaml: lacks cloth" in err
    assert len(launched.starts("broken")) == 1
    assert launched.leftovers() == []


def test_logs_hold_everything_and_the_terminal_shows_what_matters(start):
    launched = start(a=(POLITE, {}))
    launched.wait_start("a")
    log = launched.folder / "run" / "log" / "a.log"
    wait_for(lambda: log.exists() and "mind this" in log.read_text(), "the log")
    launched.process.send_signal(signal.SIGINT)
    _, out, err = launched.finish()
    assert "here" in log.read_text()
    assert "a | warn: mind this" in err
    assert "here" not in out + err


def test_an_executable_that_is_not_installed_is_named_before_anything_starts(start, tmp_path):
    launched = start(a=(POLITE, {}), ghost=("", {}))
    launched.process.kill()
    launched.process.wait()
    (tmp_path / "prefix" / "lib" / "fake" / "ghost").unlink()
    from cue.launch_command import launch
    from cue.resources import ResourceError

    with pytest.raises(ResourceError, match="package fake has no executable ghost; run 'make setup'"):
        launch(str(launched.folder / "test.launch.py"), [])
    assert sys.modules  # nothing was started: the processes of the first launch have gone with it
    wait_for(lambda: not launched.leftovers(), "the first launch to end", 5.0)
