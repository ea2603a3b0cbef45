"""Where installed things lie: executables, launch files, configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cue_core.errors import CueError


class ResourceError(CueError):
    """Something that should be installed, or that was named, is not there."""


def prefixes() -> Iterator[Path]:
    """Yield the install prefixes, nearest overlay first."""
    for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if entry:
            yield Path(entry)


def executable(package: str, name: str) -> Path:
    """Return the path of a package's executable.

    Raises:
        ResourceError: the environment is not active, or nothing of that name is installed.
    """
    for prefix in prefixes():
        path = prefix / "lib" / package / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    if not os.environ.get("AMENT_PREFIX_PATH"):
        raise ResourceError("no ROS environment is active; run 'source env.sh' in CUE's folder first")
    raise ResourceError(f"package {package} has no executable {name}; run 'make setup' in CUE's folder")


def share() -> Path:
    """Return the folder that holds the installed ``launch`` and ``config``.

    Raises:
        ResourceError: CUE is not installed here.
    """
    for prefix in prefixes():
        path = prefix / "share" / "cue"
        if (path / "launch").is_dir():
            return path
    raise ResourceError("CUE is not installed here; run 'make setup' in its folder, then 'source env.sh'")


def config_file(kind: str, name: str) -> Path:
    """Return a YAML file of ``config/KIND`` by its name, or the file that ``name`` is the path of.

    Raises:
        ResourceError: neither is there; lists the names that are.
    """
    if name.endswith((".yaml", ".yml")) or os.sep in name:
        path = Path(name).expanduser().absolute()
        if path.is_file():
            return path
        raise ResourceError(f"{kind.rstrip('s')} file {path} does not exist")
    folder = share() / "config" / kind
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        raise ResourceError(f"unknown {kind.rstrip('s')} {name!r}; known are {', '.join(known) or 'none'}")
    return path


def node_defaults(name: str) -> tuple[str, ...]:
    """Return the parameter file of a node in ``config/``, if it has one."""
    path = share() / "config" / f"{name}.yaml"
    return (str(path),) if path.is_file() else ()


def launch_file(name: str) -> Path:
    """Return a launch file by its path or by the name it is installed under.

    Raises:
        ResourceError: it is neither; lists the installed ones.
    """
    if os.sep in name or Path(name).is_file():
        path = Path(name).expanduser().absolute()
        if path.is_file():
            return path
        raise ResourceError(f"launch file {path} does not exist")
    folder = share() / "launch"
    for candidate in (folder / name, folder / f"{name}.launch.py"):
        if candidate.is_file():
            return candidate
    known = ", ".join(sorted(file.name for file in folder.glob("*.launch.py"))) or "none"
    raise ResourceError(f"unknown launch file {name!r}; known are {known}")
