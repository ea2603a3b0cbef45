"""A prefix of stand-in packages, so that the graph's tests need neither nodes nor a build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cue.graph import REAL_TABLE, RVIZ, SIM_WORLD

ROOT = Path(__file__).resolve().parents[3]


class Prefix:
    """An install prefix in a temporary folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        share = path / "share" / "cue"
        share.mkdir(parents=True)
        (share / "launch").symlink_to(ROOT / "launch")
        for kind, name in (("tables", "small"), ("worlds", "hidden"), ("robots", "ur5e")):
            (share / "config" / kind).mkdir(parents=True)
            (share / "config" / kind / f"{name}.yaml").write_text("{}\n")
        (share / "config" / "rviz").symlink_to(ROOT / "config" / "rviz")
        (share / "config" / "tracker.yaml").write_text("/**:\n  ros__parameters: {}\n")

    def program(self, package: str, name: str, text: str) -> None:
        """Install a Python program as a package's executable."""
        path = self.path / "lib" / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable} -S\n{text}")
        path.chmod(0o755)
        marker = self.path / "share" / "ament_index" / "resource_index" / "packages" / package
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Return a prefix that is the only one; every executable of every graph is in it and does nothing."""
    prefix = Prefix(tmp_path / "prefix")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix.path))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.chdir(tmp_path)
    for recipe in (SIM_WORLD, REAL_TABLE, RVIZ):
        given = {} if recipe is RVIZ else {"headless": "false"}
        for process in recipe.graph(given).processes:
            prefix.program(process.package, process.executable, "")
    return prefix
