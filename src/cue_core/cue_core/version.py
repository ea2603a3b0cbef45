"""Which code made a result."""

from __future__ import annotations

import functools
import importlib.metadata
import subprocess
from pathlib import Path

_PACKAGE = "cue_core"
_TIMEOUT = 5.0  # [s]


@functools.cache
def code_version() -> str:
    """Return the version, with the commit where the code runs from a git work tree, e.g. ``0.1.0+g1a2b3c4d5e.changed``.

    ``.changed`` says that tracked files differ from the commit. Without git the version stands alone.
    """
    try:
        version = importlib.metadata.version(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    here = Path(__file__).resolve().parent
    commit = _git(here, "rev-parse", "--short=10", "HEAD")
    if not commit or not _git(here, "ls-files", Path(__file__).name):  # of another project that CUE lies in
        return version
    return f"{version}+g{commit}{'.changed' if _git(here, 'status', '--porcelain', '--untracked-files=no') else ''}"


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
