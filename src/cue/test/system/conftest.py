"""Real graphs, shared by the system's tests: each is started once and looked at by several tests."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from system_harness import ASKED, Session, wait_for

# One domain per launch. CUE_TEST_DOMAINS names the first of them where other graphs share the machine.
_FIRST_DOMAIN = int(os.environ.get("CUE_TEST_DOMAINS", "60"))
_DOMAINS = 20


@pytest.fixture(scope="session")
def domains() -> Iterator[int]:
    """Return domain ids, another one each time."""
    return itertools.cycle(range(_FIRST_DOMAIN, _FIRST_DOMAIN + _DOMAINS))


def _launcher(domains, tmp_path_factory):
    sessions: list[Session] = []

    def start(name: str = "session", domain: int | None = None, environment: dict[str, str] | None = None, **arguments):
        folder = tmp_path_factory.mktemp(name)
        session = Session(folder, next(domains) if domain is None else domain, arguments, **(environment or {}))
        sessions.append(session)
        return session

    try:
        yield start
    finally:
        for session in sessions:
            session.close()


@pytest.fixture
def launch(domains, tmp_path_factory):
    """Return a function that launches sessions; whatever is left of them is killed after the test."""
    yield from _launcher(domains, tmp_path_factory)


@pytest.fixture(scope="session")
def launch_for_session(domains, tmp_path_factory):
    """Return the same for sessions that several tests look at."""
    yield from _launcher(domains, tmp_path_factory)


@pytest.fixture(scope="session")
def alone(launch_for_session) -> Session:
    """Return a session that ran alone to its end."""
    session = launch_for_session("alone", fit_portable="true", record="topics", **ASKED)
    wait_for(lambda: session.node("tracker"), "the tracker's process", 30.0, session.describe)
    session.wait_striking()
    session.note_shared_memory()
    session.wait_end(360.0)
    return session
