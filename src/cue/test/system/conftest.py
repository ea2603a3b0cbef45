"""Real graphs, shared by the system's tests: each is started once and looked at by several tests."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from system_harness import Session

# One domain per launch. CUE_TEST_DOMAINS names the first of them where other graphs share the machine.
_FIRST_DOMAIN = int(os.environ.get("CUE_TEST_DOMAINS", "60"))
_DOMAINS = 20


@pytest.fixture(scope="session")
def domains() -> Iterator[int]:
    """Return domain ids, another one each time."""
    return itertools.cycle(range(_FIRST_DOMAIN, _FIRST_DOMAIN + _DOMAINS))


@pytest.fixture(scope="module")
def launch(domains, tmp_path_factory):
    """Return a function that launches sessions; whatever is left of them is killed after the module."""
    sessions: list[Session] = []

    def start(name: str = "session", domain: int | None = None, environment: dict[str, str] | None = None, **arguments):
        folder = tmp_path_factory.mktemp(name)
        session = Session(folder, next(domains) if domain is None else domain, arguments, **(environment or {}))
        sessions.append(session)
        return session

    yield start
    for session in sessions:
        session.close()
