"""Parts of a benchmark, and the file in which finished ones are kept so that a run can be resumed."""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically


class BenchmarkError(CueError):
    """A benchmark cannot run as it was asked to."""


class UnavailableError(CueError):
    """What a part measures is not there (a package, a data file, a second core); the message says what and why."""


@dataclass(frozen=True)
class Part:
    """One piece of work whose result does not depend on any other.

    Attributes:
        name: unique within the benchmark, ``"key/what"``.
        function: ``"package.module:function"``, called in a worker process with the arguments.
        arguments: JSON data; all that the result depends on besides the code.
        alone: it takes times, so nothing else may run beside it.
        also: further keys of the JSON that are made of it, besides the one that its name begins with.
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False
    also: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of the JSON by which ``--only`` chooses it."""
        return frozenset({self.name.partition("/")[0], *self.also})

    def fingerprint(self, code: str) -> str:
        """Return a hash of what the result depends on; ``code`` is that of the code."""
        content = json.dumps([code, self.name, self.function, dict(self.arguments)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def resolve(self) -> Callable[..., Any]:
        """Import the function."""
        module, _, name = self.function.partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function


@dataclass(frozen=True)
class Result:
    """What became of a part.

    Attributes:
        value: JSON data; None where there is none.
        problem: why there is no value; empty = there is.
        failed: the problem is an error, not something that is not there.
        seconds: it took.
    """

    value: Any = None
    problem: str = ""
    failed: bool = False
    seconds: float = 0.0


class Store:
    """Finished parts in a JSON Lines file; a line that a kill cut short is ignored. Open for one run at a time."""

    def __init__(self, path: Path, wanted: Mapping[str, str], *, fresh: bool) -> None:
        """Open the file and keep the lines that are still valid.

        Args:
            path: of the file; made when missing.
            wanted: fingerprint by part name.
            fresh: forget what is there.

        Raises:
            BenchmarkError: another run uses it.
            FileFormatError: it cannot be written.
        """
        self._path = path
        self._fingerprints = dict(wanted)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = open(path.with_name(path.name + ".lock"), "a")  # noqa: SIM115  # held until close()
        except OSError as error:
            raise FileFormatError(path, f"cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BenchmarkError(f"another run is writing {path.with_suffix('').with_suffix('.json')}") from None
        self.results: dict[str, Result] = {}
        lines = [] if fresh or not path.exists() else path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if self._take(line)]
        write_atomically(path, "".join(f"{line}\n" for line in kept))

    def _take(self, line: str) -> bool:
        try:
            entry = json.loads(line)
            valid = self._fingerprints.get(entry["part"]) == entry["fingerprint"]
        except (ValueError, KeyError, TypeError):
            return False
        if valid:
            self.results[entry["part"]] = Result(entry["value"], seconds=entry["seconds"])
        return valid

    def add(self, name: str, result: Result, *, lasting: bool = True) -> None:
        """Take a result, and keep it for later runs if it has a value and is ``lasting``."""
        self.results[name] = result
        if result.problem or not lasting:
            return
        entry = {
            "part": name,
            "fingerprint": self._fingerprints[name],
            "seconds": round(result.seconds, 3),
            "value": result.value,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Let other runs use the file."""
        self._lock.close()


def hash_files(paths: Iterable[Path]) -> str:
    """Return a hash of the content of files and of the sources below folders.

    Raises:
        FileFormatError: one is not there.
    """
    digest = hashlib.sha256()
    for path in paths:
        if not path.exists():
            raise FileFormatError(path, "is not there, but the benchmark's results depend on it")
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        for file in files:
            if "__pycache__" not in file.parts and "test" not in file.parts:
                digest.update(f"{file.relative_to(path) if path.is_dir() else file.name}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
