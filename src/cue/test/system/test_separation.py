"""Nothing but the world, the camera and the score can know the truth: what the sources say.

``test_graphs.py`` looks at running graphs.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
PACKAGES = ("cue", "cue_core", "cue_perception", "cue_sim", "cue_identify", "cue_agent", "cue_arm")
WORLD_FILES = "cue_sim.world_config"
MAY_READ_WORLD_FILES = {"cue_sim/world", "cue_sim/camera_sim"}
MAY_KNOW_THE_TRUTH = {"cue_sim.world_node", "cue_sim.camera_sim_node", "cue_sim.score_node"}


def executables() -> list[str]:
    """Return package/name of everything that a graph may start, and of the command for people."""
    return sorted(f"{p}/{f.name}" for p in PACKAGES for f in (SOURCE / p / "scripts").glob("*") if f.is_file())


def file_of(module: str) -> Path | None:
    """Return the source of one of our modules, None of another's."""
    package, *rest = module.split(".")
    if package not in PACKAGES:
        return None
    base = SOURCE / package / package / Path(*rest)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def imports(path: Path) -> frozenset[str]:
    """Return our modules that a file imports anywhere, also within functions, with the packages they lie in."""
    names: set[str] = set()
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            names.update(alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom) and item.module:
            names.add(item.module)
            names.update(f"{item.module}.{alias.name}" for alias in item.names)
    parts = {".".join(name.split(".")[:n]) for name in names for n in range(1, name.count(".") + 2)}
    return frozenset(name for name in parts if file_of(name))


def reachable(path: Path) -> set[str]:
    """Return all our modules that running a file can import."""
    found: set[str] = set()
    todo = set(imports(path))
    while todo:
        module = todo.pop()
        found.add(module)
        source = file_of(module)
        assert source is not None
        todo |= imports(source) - found
    return found


def test_there_is_something_to_check():
    names = set(executables())
    assert {"cue_sim/world", "cue_sim/camera_sim", "cue_sim/score", "cue_agent/agent", "cue/cue"} <= names
    assert file_of(WORLD_FILES)


@pytest.mark.parametrize("name", executables())
def test_only_world_and_camera_can_read_a_world_file(name):
    package, program = name.split("/")
    modules = reachable(SOURCE / package / "scripts" / program)
    assert modules, "it imports nothing of ours"
    assert (WORLD_FILES in modules) == (name in MAY_READ_WORLD_FILES), f"{name} imports {sorted(modules)}"


def test_only_world_camera_and_score_name_the_truth():
    named = set()
    for package in PACKAGES:
        for path in (SOURCE / package / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "ground_truth" in text or "WorldState" in text:
                named.add(".".join((package, *path.relative_to(SOURCE / package / package).with_suffix("").parts)))
    assert named == MAY_KNOW_THE_TRUTH
