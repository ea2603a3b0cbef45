"""The event-based engine ``pooltool-billiards``, in an environment and a process of its own, on the same shots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkError, UnavailableError
from benchmarks.twin.shots import ROOT, load_table, random_starts
from cue_core.parameters import PARAMETERS
from cue_core.table import TableModel
from cue_sim.twin import Start

FOLDER = ROOT / ".venv-bench"
REQUIREMENTS = ROOT / "benchmarks" / "requirements-pooltool.txt"
_PYTHON = FOLDER / "bin" / "python"
_DONE = FOLDER / "installed.txt"
"""Copy of the requirements that were installed: a set-up that was cut short leaves none."""


def version() -> str:
    """Return the version that is installed, as the requirements pin it; empty = none."""
    if not _DONE.is_file() or _DONE.read_bytes() != REQUIREMENTS.read_bytes():
        return ""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith("pooltool-billiards=="))


def install(write: Callable[[str], None]) -> None:
    """Make the environment, unless it is there already.

    Raises:
        BenchmarkError: it cannot be made.
    """
    if version():
        write(f"pooltool {version()} is installed already in {FOLDER.name}")
        return
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        raise BenchmarkError(f"pooltool needs Python 3.10 to 3.13, this is {sys.version_info[0]}.{sys.version_info[1]}")
    write(f"installing pooltool into {FOLDER.name} ...")
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = (
        [getattr(sys, "_base_executable", sys.executable), "-m", "venv", str(FOLDER)],
        # its pin of panda3d, which only draws, is a development build that the registry does not carry
        [*pip, "--no-deps", "-r", str(REQUIREMENTS)],
    )
    for words in steps:
        done = subprocess.run(words, env=_environment(None), capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise BenchmarkError(f"pooltool cannot be installed: {last}")
    _DONE.write_bytes(REQUIREMENTS.read_bytes())
    write("compiling it once ...")
    table = load_table("7ft")
    Session(table, random_starts([0], table, 6, 20)).close()


def _environment(home: str | None) -> dict[str, str]:
    """Return an environment without our packages; pooltool writes settings below the home folder: it gets another."""
    hidden = ("PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")
    names = {key: value for key, value in os.environ.items() if key not in hidden}
    return {**names, "HOME": home} if home else names


class Session:
    """A pooltool process that holds shots and plays them all when asked. Use as a context manager.

    Attributes:
        version: of pooltool.
        rest: per shot the (n, 2) rest positions in the table frame [m]; NaN where pocketed.
        refused: shots that pooltool ended in an error.
    """

    def __init__(self, table: TableModel, starts: Sequence[Start]) -> None:
        """Start the process and play every shot once, so that everything is compiled.

        Raises:
            UnavailableError: pooltool is not installed.
            BenchmarkError: its process failed.
        """
        if not version():
            raise UnavailableError("pooltool is not installed; 'cue bench twin --install-pooltool' does it")
        self._home = tempfile.TemporaryDirectory(prefix="cue-pooltool-")
        self._process = subprocess.Popen(
            [str(_PYTHON), "-I", str(Path(__file__).with_name("pooltool_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(self._home.name),
            text=True,
        )
        nominal = {name: parameter.nominal for name, parameter in PARAMETERS.items()}
        answer = self._ask({"table": table.to_dict(), "parameters": nominal, "shots": [_plain(s) for s in starts]})
        self.version = str(answer["version"])
        self.refused = {int(k) for k in answer["refused"]}
        self.rest = [np.array(rows, float) for rows in answer["rest"]]

    def _ask(self, question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None  # both are pipes
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty answer below says it
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise BenchmarkError(f"pooltool's process ended with exit code {self._process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self) -> float:
        """Play all shots and return the time it took [s], without the copying of their starts."""
        return float(self._ask("run")["seconds"])

    def pin(self, cpu: int) -> None:
        """Keep the process on one CPU from now on."""
        os.sched_setaffinity(self._process.pid, {cpu})

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()

    def __enter__(self) -> Session:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self.close()


def _plain(start: Start) -> dict[str, Any]:
    return {
        "positions": start.positions.tolist(),
        "velocity": start.velocities[0].tolist(),
        "spin": start.spins[0].tolist(),
    }
