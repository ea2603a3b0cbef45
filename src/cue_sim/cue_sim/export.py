"""The exact twin on disk: ``twin.json`` reloads to the same trajectories, to the last bits in the same MuJoCo version.

Its copy for other tools is :mod:`cue_sim.portable`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import BallState
from cue_core.checks import only_keys
from cue_core.errors import FileFormatError, OutOfRangeError
from cue_core.files import write_atomically
from cue_core.parameters import ParameterEstimate
from cue_core.table import TableModel
from cue_sim.correction import Correction
from cue_sim.laws import EXTRAS
from cue_sim.laws.library import ABI
from cue_sim.twin import Twin

FORMAT = "cue-twin"
VERSION = 1
_POLICY = "event-aligned"
_STEPS = ("policy", "largest_s", "impact_s")
_KEYS = {
    "format",
    "version",
    "table",
    "balls",
    "estimate",
    "steps",
    "laws_beyond_parameters",
    "mujoco",
    "kernel",
    "positions_m",
}


def twin_to_dict(twin: Twin, estimate: ParameterEstimate, balls: Sequence[BallState] = ()) -> dict[str, Any]:
    """Return everything that a trajectory depends on, and where the parameters come from, as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "mujoco": mujoco.mj_versionString(),
        "kernel": ABI,
        "table": twin.table.to_dict(),
        "balls": [
            {"id": ball, "radius_m": float(radius), "mass_kg": float(mass)}
            for ball, radius, mass in zip(twin.ball_ids, twin.layout.radius, twin.layout.mass, strict=True)
        ],
        "positions_m": {str(b.ball_id): [float(v) for v in b.position] for b in balls if b.in_play},
        "estimate": estimate.to_dict(),
        "steps": {"policy": _POLICY, "largest_s": twin.largest_step, "impact_s": twin.impact_step},
        "laws_beyond_parameters": {k: list(v) if isinstance(v, tuple) else v for k, v in twin.extras.items()},
        **({} if twin.correction is None else {"correction": twin.correction.to_dict()}),
    }


def twin_from_dict(data: Mapping[str, Any], where: object = "twin") -> tuple[Twin, ParameterEstimate]:
    """Read back what :func:`twin_to_dict` wrote.

    Raises:
        FileFormatError: another format, version or MuJoCo, a missing or malformed field.
        CueError: a value out of range.
    """
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FileFormatError(
            where, f"is format {data.get('format')!r} version {data.get('version')!r}, needs {FORMAT!r} {VERSION}"
        )
    only_keys(where, {k: v for k, v in data.items() if k != "correction"}, _KEYS)
    try:
        if data["mujoco"] != mujoco.mj_versionString():
            raise FileFormatError(
                where,
                f"was made with MuJoCo {data['mujoco']}, this is {mujoco.mj_versionString()}: results would differ",
            )
        only_keys(f"{where}: steps", data["steps"], _STEPS, _STEPS)
        if data["steps"]["policy"] != _POLICY:
            raise FileFormatError(where, f"has step policy {data['steps']['policy']!r}, this twin has {_POLICY!r} only")
        only_keys(f"{where}: laws_beyond_parameters", data["laws_beyond_parameters"], EXTRAS)
        extras = {k: tuple(v) if isinstance(v, list) else v for k, v in data["laws_beyond_parameters"].items()}
        twin = Twin(
            TableModel.from_dict(data["table"]),
            [int(b["id"]) for b in data["balls"]],
            radii={int(b["id"]): float(b["radius_m"]) for b in data["balls"]},
            masses={int(b["id"]): float(b["mass_kg"]) for b in data["balls"]},
            largest_step=float(data["steps"]["largest_s"]),
            impact_step=float(data["steps"]["impact_s"]),
            extras=extras,
            correction=Correction.from_dict(data["correction"]) if "correction" in data else None,
        )
        return twin, ParameterEstimate.from_dict(data["estimate"])
    except OutOfRangeError as error:
        raise FileFormatError(where, f"malformed twin: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(where, f"malformed twin: {type(error).__name__} {error}") from None


def save_twin(path: Path | str, twin: Twin, estimate: ParameterEstimate, balls: Sequence[BallState] = ()) -> None:
    """Write ``twin.json``.

    Raises:
        FileFormatError: it cannot be written.
    """
    write_atomically(path, json.dumps(twin_to_dict(twin, estimate, balls), indent=1) + "\n")


def load_twin(path: Path | str) -> tuple[Twin, ParameterEstimate]:
    """Read ``twin.json``.

    Raises:
        FileFormatError: it is missing or malformed.
    """
    return twin_from_dict(_read(path), path)


def load_balls(path: Path | str) -> tuple[BallState, ...]:
    """Return the balls in play when ``twin.json`` was written, where they lay.

    Raises:
        FileFormatError: it is missing or malformed.
    """
    try:
        return tuple(BallState(int(b), _place(p)) for b, p in _read(path)["positions_m"].items())
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise FileFormatError(path, f"malformed positions: {type(error).__name__} {error}") from None


def _place(values: Sequence[float]) -> np.ndarray:
    place = np.array(values, float)
    if place.shape != (2,) or not np.isfinite(place).all():
        raise ValueError(f"{values} are not two finite coordinates")
    return place


def _read(path: Path | str) -> dict[str, Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(path, f"is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise FileFormatError(path, "holds no JSON object")
    return data
