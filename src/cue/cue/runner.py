"""The embedded front end: starts a graph's processes under circus, for machines without ``ros2 launch``.

circus spawns, watches, signals and reaps. Its control sockets are ``inproc``: nobody outside can reach them. Each
process writes to its log file itself, so that nothing is lost when either side dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from circus.arbiter import Arbiter
from circus.watcher import Watcher
from tornado import gen
from tornado.ioloop import IOLoop

from cue.graph import Graph, Process
from cue.log_view import LogTail, terminal_printer
from cue.resources import executable
from cue_core.shared_memory import remove_orphans

CONFIGURATION_ERROR = 2
"""Exit code of a process that can never start as it is configured: starting it again is no use."""
STOP_GRACE = 3.0
"""How long a process may take to end after SIGTERM before it is killed [s]."""
CLIENT_GRACE = 1.2
"""The same for a process that the graph ends with; it is stopped before the others [s]."""
LONGEST_DELAY = 30.0
"""Upper end of the respawn back-off [s]."""
HEALTHY_AFTER = 60.0
"""A process that lived this long starts its back-off anew [s]."""
_CHECK_PERIOD = 0.1  # [s] between two looks at the processes and their logs


def command(process: Process) -> list[str]:
    """Return the command line of a process, with what launch_ros would give it.

    Raises:
        ResourceError: its executable is not installed.
    """
    line = [str(executable(process.package, process.executable)), *process.arguments]
    line += ["--ros-args", *process.extra_ros_arguments, "-r", f"__node:={process.name}"]
    line += ["-r", f"__ns:=/{process.namespace}"]
    for old, new in process.remappings:
        line += ["-r", f"{old}:={new}"]
    for path in process.parameter_files:
        line += ["--params-file", path]
    for name, value in process.parameters.items():
        line += ["-p", f"{name}:={json.dumps(value, ensure_ascii=False)}"]  # JSON is YAML: types stay what they are
    return line


def backoff(first: float, failures: int) -> float:
    """Return the delay before the next start after a number of deaths in a row [s]."""
    return min(first * 2.0 ** min(failures, 30), LONGEST_DELAY)


class _Supervised(Watcher):
    """A circus watcher of one process that waits longer each time before it respawns."""

    def __init__(self, process: Process, log: Path | None, on_end: Callable[[_Supervised, int], None]) -> None:
        self.process = process
        self.failures = 0
        self.not_before = 0.0
        self.started_at = 0.0
        self.pid = 0
        self._running: Any = None
        self._on_end = on_end
        hooks: dict[str, Any] = {"after_spawn": (self._after_spawn, True), "after_reap": (self._after_reap, True)}
        super().__init__(
            process.name,
            "/bin/sh",
            args=_redirected(command(process), log),
            env={**os.environ, **process.environment},
            working_dir=os.getcwd(),
            stop_signal=signal.SIGTERM,  # SIGINT while Python still imports would print a traceback
            graceful_timeout=CLIENT_GRACE if process.on_exit == "shutdown" else STOP_GRACE,
            respawn=True,
            singleton=True,
            hooks=hooks,
        )

    @gen.coroutine
    def spawn_processes(self) -> Any:
        """Spawn, unless the back-off has not passed."""
        if self._running is not None:  # it ended after circus had reaped, and circus let go of it without a word
            self._running.wait()
            self._after_reap(self._running.returncode())
        if time.monotonic() >= self.not_before:
            yield super().spawn_processes()

    def _after_spawn(self, pid: int, **_: Any) -> bool:
        self.pid = pid
        self._running = self.processes[pid]
        self.started_at = time.monotonic()
        return True

    def _after_reap(self, exit_code: int | None, **_: Any) -> None:
        self._running = None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what the process itself had started
        if self._status == "stopping":
            return
        now = time.monotonic()
        if now - self.started_at >= HEALTHY_AFTER:
            self.failures = 0
        self.not_before = now + backoff(self.process.respawn_delay, self.failures)
        self.failures += 1
        self._on_end(self, 1 if exit_code is None else exit_code)


def _redirected(line: list[str], log: Path | None) -> list[str]:
    """Return arguments of sh that replace it by a command which writes to a log and dies with this process."""
    setpriv = shutil.which("setpriv")
    if setpriv:  # from the first instant on; cue_core.ros.node asks for the same later
        line = [setpriv, "--pdeathsig", "TERM", "--", *line]
    if log is None:
        return ["-c", 'exec "$@"', "sh", *line]
    return ["-c", 'log=$1; shift; exec "$@" >>"$log" 2>&1', "sh", str(log), *line]


class Runner:
    """Runs a graph until it is done or told to stop."""

    def __init__(self, graph: Graph, show: Callable[[str, str, str], None] | None = None) -> None:
        """Take the graph and where lines for a person go (name, level, text)."""
        self._graph = graph
        self._show = show or terminal_printer([process.name for process in graph.processes])
        self._exit_code = 0
        self._signals = 0

    def run(self) -> int:
        """Start everything, wait, stop everything, and return the exit code.

        Raises:
            ResourceError: an executable is not installed.
            RunFolderError: the run folder cannot be written.
        """
        for process in self._graph.processes:
            executable(process.package, process.executable)
        self._graph.prepare()
        logging.getLogger("circus").setLevel(logging.CRITICAL)
        remove_orphans()
        try:
            return asyncio.run(self._run())
        finally:
            remove_orphans()

    async def _run(self) -> int:
        self._stop = asyncio.Event()
        logs = {p.name: self._log(p) for p in self._graph.processes}
        tails = {name: LogTail(path) for name, path in logs.items() if path}
        watchers = [_Supervised(p, logs[p.name], self._on_end) for p in self._graph.processes]
        # inproc names are per zmq context, and the context is this process's own.
        endpoints = (f"inproc://cue-{id(self)}-control", f"inproc://cue-{id(self)}-events")
        # No period of circus's own: its look at the processes and a stop at the same time would conflict.
        arbiter = Arbiter(watchers, *endpoints, check_delay=-1, loop=IOLoop.current())
        arbiter.ctrl.sys_hdl.stop()  # circus's signal handlers: a second Ctrl-C would confuse them
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, watchers)
        try:
            await arbiter.start()
            while not self._stop.is_set():
                await arbiter.manage_watchers()
                self._view(tails)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _CHECK_PERIOD)
        finally:
            # The client first, while its agent still lives: it cancels the session, so that the arm is held.
            for watcher in watchers:
                if watcher.process.on_exit == "shutdown":
                    await watcher.stop()
            await arbiter.stop()
            self._view(tails, final=True)
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[?25h")  # a progress display that was killed leaves the cursor hidden
        return self._exit_code

    def _log(self, process: Process) -> Path | None:
        """Return where a process writes; None = to this process's own output."""
        if process.output == "screen":
            return None
        return Path(self._graph.run_dir, "log", f"{process.name}.log") if self._graph.run_dir else Path(os.devnull)

    def _on_signal(self, watchers: list[_Supervised]) -> None:
        self._signals += 1
        self._stop.set()
        if self._signals > 1:  # asked twice: no more patience
            for watcher in (w for w in watchers if w.pid):  # 0, not started yet, would mean ourselves
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(watcher.pid, signal.SIGTERM)

    def _on_end(self, watcher: _Supervised, exit_code: int) -> None:
        process = watcher.process
        if process.on_exit == "shutdown":
            self._exit_code = exit_code if exit_code >= 0 else 128 - exit_code
            self._stop.set()
        elif exit_code == CONFIGURATION_ERROR:
            self._exit_code = CONFIGURATION_ERROR
            self._stop.set()
        elif process.respawn:
            delay = watcher.not_before - time.monotonic()
            self._show(process.name, "WARN", f"ended {_how(exit_code)}; starting it again in {delay:.1f} s")
        else:
            watcher.not_before = float("inf")
            if exit_code:
                self._show(process.name, "WARN", f"ended {_how(exit_code)}")

    def _view(self, tails: dict[str, LogTail], final: bool = False) -> None:
        for name, tail in tails.items():
            for level, text in tail.new_lines(final):
                self._show(name, level, text)


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    try:
        return f"by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"by signal {-exit_code}"


def describe(graph: Graph) -> str:
    """Return what would run, as a shell could start it, one process per paragraph."""
    import shlex

    paragraphs = []
    for process in graph.processes:
        words = [f"{key}={shlex.quote(value)}" for key, value in process.environment.items()]
        words += [shlex.quote(word) for word in command(process)]
        paragraphs.append(f"# {process.name}\n" + " ".join(words))
    return "\n\n".join(paragraphs)
