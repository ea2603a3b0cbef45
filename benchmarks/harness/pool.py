"""Worker processes that run parts; they end with this process, however it ends."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.harness.parts import Part, Result, UnavailableError
from cue_core.errors import CueError

_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
# A numerical library's own threads would blur times.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def serve(descriptor: int, parent: int) -> None:
    """Run the parts that come down a pipe until it closes; called in a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        return
    pipe = Connection(descriptor)
    while True:
        try:
            part: Part = pipe.recv()
        except EOFError:
            return
        pipe.send(run_part(part))


def run_part(part: Part) -> Result:
    """Run one part here and return what became of it."""
    began = time.perf_counter()
    value: Any = None
    problem, failed = "", False
    try:
        value = part.resolve()(**part.arguments)
    except UnavailableError as error:
        problem = str(error)
    except CueError as error:
        problem, failed = str(error), True
    except Exception as error:  # a fault of the part must not end the others
        traceback.print_exc()
        problem, failed = f"{type(error).__name__}: {error}", True
    return Result(value, " ".join(problem.split()), failed, time.perf_counter() - began)


class _Worker:
    """A process that runs :func:`serve`; a fresh interpreter, whatever this one was started as."""

    def __init__(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        code = f"from benchmarks.harness.pool import serve; serve({theirs.fileno()}, {os.getpid()})"
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        theirs.close()
        self.part: Part | None = None

    def give(self, part: Part) -> None:
        self.part = part
        self.pipe.send(part)

    def take(self) -> Result:
        try:
            result: Result = self.pipe.recv()
            self.part = None
        except (EOFError, OSError):
            self.end()
            return Result(None, f"its process ended with exit code {self.process.returncode}", True)
        return result

    def end(self) -> None:
        self.pipe.close()  # an idle worker ends by that
        if self.part is not None:
            self.process.kill()
        self.process.wait()


def run_parts(
    parts: Sequence[Part],
    workers: int,
    started: Callable[[Part], None],
    finished: Callable[[Part, Result], None],
) -> None:
    """Run parts in processes, those marked ``alone`` one after the other at the end.

    Args:
        parts: results must not depend on their order.
        workers: processes at a time.
        started: called when a part begins.
        finished: called with its result; a part whose process dies has failed, the others go on.
    """
    beside = [part for part in parts if not part.alone]
    alone = [part for part in parts if part.alone]
    for waiting, count in ((beside, workers), (alone, 1)):
        _run(waiting, min(count, len(waiting)), started, finished)


def _run(
    waiting: list[Part],
    count: int,
    started: Callable[[Part], None],
    finished: Callable[[Part, Result], None],
) -> None:
    idle: list[_Worker] = []
    busy: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < count:
                worker = idle.pop() if idle else _Worker()
                busy.append(worker)
                part = waiting.pop(0)
                started(part)
                worker.give(part)
            ready = wait([worker.pipe for worker in busy])
            for worker in [w for w in busy if w.pipe in ready]:
                busy.remove(worker)
                part_done = worker.part
                result = worker.take()
                if worker.process.poll() is None:
                    idle.append(worker)
                if part_done is not None:
                    finished(part_done, result)
    finally:
        for worker in [*idle, *busy]:
            worker.end()
