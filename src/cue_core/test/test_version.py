"""What a result says of the code that made it."""

from __future__ import annotations

import subprocess

import cue_core.version as version


def test_the_version_tells_the_commit_where_there_is_one() -> None:
    told = version.code_version()
    assert told.split("+")[0] not in ("", "unknown")
    assert "+" not in told or told.split("+g")[1].split(".")[0].isalnum()


def test_without_git_the_version_stands_alone(monkeypatch) -> None:
    def missing(*words, **more):
        raise FileNotFoundError(words)

    monkeypatch.setattr(subprocess, "run", missing)
    assert "+" not in version.code_version.__wrapped__()
