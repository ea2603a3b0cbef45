"""Where the configuration files lie, in a source checkout and installed."""

from __future__ import annotations

import os
from pathlib import Path

from cue_core.errors import FileFormatError, UnknownNameError


def config_file(kind: str, name: str) -> Path:
    """Return the path of a configuration file given by path, or by name within ``config/<kind>``.

    Raises:
        UnknownNameError: no such name; lists those there are.
        FileFormatError: no such path, or no configuration folder is found.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise FileFormatError(path, "no such file")
        return path
    places = [Path(root) / "config" for root in [os.environ.get("CUE_ROOT", "")] if root]
    places += [Path(p) / "share/cue/config" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
    places.append(Path(__file__).resolve().parents[3] / "config")
    known: set[str] = set()
    for place in places:
        path = place / kind / f"{name}.yaml"
        if path.is_file():
            return path
        known.update(p.stem for p in (place / kind).glob("*.yaml"))
    raise UnknownNameError(f"file in config/{kind}", name, known)
