"""Starts real graphs, looks at them from outside, and leaves nothing of them behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

MARK = "CUE_TEST_SYSTEM"
ASKED = {"seed": 1, "shots": 4, "held_out_shots": 1}
"""The shortest session that fits and judges."""
NODES = ("world", "camera_sim", "score", "tracker", "twin", "fitter", "arm", "agent")
ALARMS = re.compile(r"Traceback \(most recent call last\)|terminate called|Segmentation fault|core dumped")
_SEGMENT = re.compile(r"/dev/shm/\S*fast\S+")
_TAIL = 15  # lines of each log in a failed test's message

T = TypeVar("T")


def pause(seconds: float = 0.05) -> None:
    """Wait between two looks at a condition."""
    select.select([], [], [], seconds)


def wait_for(condition: Callable[[], T], what: str, seconds: float, seen: Callable[[], object] = lambda: "") -> T:
    """Return the first true value of a condition; the failure says what was awaited and what was there."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what}; saw: {seen()}")
        pause()


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a JSON Lines file that may be written at this moment."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def cue_command() -> str:
    """Return the path of the installed ``cue``."""
    found = shutil.which("cue")
    assert found, "the command cue is not installed: run make setup and source env.sh"
    return found


class Session:
    """One launcher, in a session of its own, with all that it starts."""

    def __init__(self, folder: Path, domain: int, arguments: dict[str, object], **environment: str) -> None:
        """Launch ``sim_world.launch.py`` with the given arguments and ``run_dir`` below ``folder``.

        Unless asked for, the portable twin is not fitted: that loads the machine long after the session is over.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.run_dir = Path(str(arguments.get("run_dir", folder / "run")))
        self.domain = domain
        self.mark = uuid.uuid4().hex
        asked = {"run_dir": self.run_dir, "fit_portable": "false"}
        words = [f"{name}:={value}" for name, value in {**asked, **arguments}.items()]
        self.began = time.monotonic()
        self.segments: set[str] = set()
        self._output = folder / "terminal.txt"
        with self._output.open("wb") as output:
            self.launcher = subprocess.Popen(
                [cue_command(), "launch", "sim_world.launch.py", *words],
                cwd=folder,
                env={**os.environ, "ROS_DOMAIN_ID": str(domain), MARK: self.mark, "COLUMNS": "200", **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # What there is ------------------------------------------------------------------------------------------------

    @property
    def terminal(self) -> str:
        """Return what a person would have seen."""
        return self._output.read_text(errors="replace")

    def log(self, name: str) -> str:
        """Return the log of a node, empty if there is none."""
        path = self.run_dir / "log" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a JSON Lines file of the run folder."""
        return json_lines(self.run_dir / name)

    def processes(self) -> list[psutil.Process]:
        """Return the launcher's processes and what they started, whoever their parent is now."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def node(self, name: str) -> psutil.Process | None:
        """Return the process of a node, None while there is none."""
        for process in self.processes():
            try:
                words = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            if f"__node:={name}" in words and "sh" not in Path(words[0]).name:
                return process
        return None

    def note_shared_memory(self) -> set[str]:
        """Remember the shared-memory files that the processes have mapped by now."""
        for process in self.processes():
            try:
                text = Path(f"/proc/{process.pid}/maps").read_text()
            except OSError:
                continue
            self.segments.update(name for name in _SEGMENT.findall(text) if "(deleted)" not in name)
        return self.segments

    def describe(self) -> str:
        """Return the ends of the terminal and of every log, for a failed test's message."""
        parts = [f"launcher's exit code: {self.launcher.poll()} after {time.monotonic() - self.began:.0f} s"]
        texts = {"terminal": self.terminal}
        texts.update({path.name: path.read_text(errors="replace") for path in sorted(self.run_dir.glob("log/*.log"))})
        for name in ("agent.jsonl", "arm_ledger.jsonl"):
            texts[name] = "\n".join(json.dumps(line)[:300] for line in self.lines(name))
        for name, text in texts.items():
            parts.append(f"--- {name}\n" + "\n".join(text.splitlines()[-_TAIL:]))
        return "\n".join(parts)

    # What happens -------------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], T], what: str, seconds: float) -> T:
        """Wait for a condition; fail early when the launcher has ended."""

        def look() -> T | None:
            ended = self.launcher.poll() is not None
            value = condition()
            if ended and not value:
                raise AssertionError(f"the session ended before {what}\n{self.describe()}")
            return value

        value = wait_for(look, what, seconds, self.describe)
        assert value is not None
        return value

    def wait_striking(self, seconds: float = 120.0) -> str:
        """Wait until a stroke is under way and return the shot's id."""
        return self.wait_for(self.open_stroke, "a stroke", seconds)

    def open_stroke(self) -> str:
        """Return the id of the shot whose stroke is under way, else an empty text."""
        events = self.lines("arm_ledger.jsonl")
        return events[-1]["shot"]["shot_id"] if events and events[-1]["event"] == "started" else ""

    def wait_fitting(self, seconds: float = 120.0) -> None:
        """Wait until a fit computes."""

        def fitting() -> bool:
            decisions = [line for line in self.lines("agent.jsonl") if line.get("what") == "fit"]
            if not decisions or decisions[-1]["event"] != "decision":
                return False
            fitter = self.node("fitter")
            return fitter is not None and busy(fitter)

        self.wait_for(fitting, "a fit that computes", seconds)

    def wait_end(self, seconds: float) -> int:
        """Wait for the launcher's end and return its exit code."""
        self.wait_ended(seconds)
        return self.launcher.returncode

    def wait_ended(self, seconds: float) -> None:
        """Wait until the launcher and all its processes are gone."""

        def gone() -> bool:
            return self.launcher.poll() is not None and not self.processes()

        def left() -> str:
            names = [" ".join(p.cmdline()[:8]) for p in self.processes()]
            return f"processes left: {names}\n{self.describe()}"

        wait_for(gone, "the end of all processes", seconds, left)

    def signal(self, number: int) -> None:
        """Send a signal to the launcher alone."""
        self.launcher.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT as a terminal does on Ctrl-C: to the foreground process group."""
        os.killpg(self.launcher.pid, signal.SIGINT)

    def close(self) -> None:
        """Kill whatever is left."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.launcher.wait()
        wait_for(lambda: not self.processes(), "killed processes to end", 10.0)

    # What must hold -----------------------------------------------------------------------------------------------

    def assert_quiet(self) -> None:
        """No traceback anywhere, and no shared memory left behind."""
        texts = {"terminal": self.terminal}
        texts.update({path.name: path.read_text(errors="replace") for path in self.run_dir.glob("log/*.log")})
        loud = [name for name, text in texts.items() if ALARMS.search(text)]
        assert not loud, f"alarms in {loud}\n{self.describe()}"
        left = sorted(name for name in self.segments if Path(name).exists() and not is_held(name))
        assert not left, f"shared memory left behind: {left}"


def busy(process: psutil.Process, share: float = 0.5, seconds: float = 0.4) -> bool:
    """Tell whether a process computes for a share of a core."""
    try:
        before = process.cpu_times()
        pause(seconds)
        after = process.cpu_times()
    except psutil.NoSuchProcess:
        return False
    return (after.user + after.system - before.user - before.system) > share * seconds


def is_held(segment: str) -> bool:
    """Tell whether a living process has a segment of DDS; ports are shared with whatever else runs here."""
    for lock in (Path(f"{segment}_el"), Path(f"{segment}_sl")):
        with contextlib.suppress(FileNotFoundError), lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


class Load:
    """Processes that only keep cores busy."""

    def __init__(self, count: int) -> None:
        """Start them."""
        self._processes = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]

    def __enter__(self) -> Load:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for process in self._processes:
            process.kill()
            process.wait()


class Observer:
    """A ROS node in this process, beside a running graph, in a context of its own."""

    def __init__(self, domain: int, name: str = "observer", namespace: str = "") -> None:
        """Join the domain."""
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node

        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.node = Node(name, context=self.context, namespace=f"/{namespace}")
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._executor.spin, daemon=True)
        self._thread.start()

    def __enter__(self) -> Observer:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the domain."""
        self._executor.shutdown(timeout_sec=2.0)
        self._thread.join(timeout=2.0)
        self.node.destroy_node()
        self.context.try_shutdown()

    def subscribers(self, topic: str) -> set[str]:
        """Return the full names of the nodes that subscribe to a topic."""
        return {full_name(info) for info in self.node.get_subscriptions_info_by_topic(topic)}

    def publishers(self, topic: str) -> set[str]:
        """Return the full names of the nodes that publish a topic."""
        return {full_name(info) for info in self.node.get_publishers_info_by_topic(topic)}

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return {name for name, _ in self.node.get_topic_names_and_types()}

    def collect(self, message: type, topic: str, profile: Any) -> list[tuple[float, Any]]:
        """Subscribe, and return the list into which (arrival time, message) go."""
        arrived: list[tuple[float, Any]] = []
        self.node.create_subscription(message, topic, lambda m: arrived.append((time.monotonic(), m)), profile)
        return arrived


def full_name(info: Any) -> str:
    """Return /namespace/name of an endpoint."""
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}"


def copy_run(source: Path, target: Path, names: Iterable[str]) -> Path:
    """Copy some files of a run folder into a new one."""
    target.mkdir(parents=True)
    for name in names:
        if (source / name).exists():
            shutil.copy2(source / name, target / name)
    return target


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Write a JSON Lines file."""
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
