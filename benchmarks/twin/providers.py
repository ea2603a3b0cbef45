"""Figures that other packages measure: the portable export against the twin, and real shots for each cushion law."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import UnavailableError
from cue_sim.laws import available


def _function(module: str) -> Callable[..., Mapping[str, Any]]:
    """Return the function ``benchmark`` of a module."""
    try:
        found: Callable[..., Mapping[str, Any]] = importlib.import_module(module).benchmark
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UnavailableError(f"{module} is not there") from None
    except AttributeError:
        raise UnavailableError(f"{module} has no benchmark()") from None
    return found


def cushion_laws() -> tuple[str, ...]:
    """Return the names of the cushion laws that there are, the default first."""
    return ("coulomb", *(name for name in available("cushion") if name != "coulomb"))


def real_shots(path: str, cushion_law: str, seed: int, content: str) -> dict[str, Any]:
    """Fit a cushion law to one half of recorded shots and score the other, both ways.

    Args:
        path: of the shots.
        cushion_law: its name.
        seed: of the fit.
        content: hash of the file; empty = it is not there.

    Returns:
        What the provider says, with ``median_mm``, the mean of the two medians.

    Raises:
        UnavailableError: no shots, or nothing that scores them.
    """
    if not content:
        raise UnavailableError(f"no real shots at {_shown(path)}; --real-shots FILE names them")
    scores: dict[str, Any] = dict(
        _function("cue_identify.real_shots")(path, cushion_law=cushion_law, seed=seed, threads=1)
    )
    return _plain(scores)


def _shown(path: str) -> str:
    """Return the end of a path, without what comes before the last four names."""
    return "/".join(Path(path).parts[-4:])


def portable(seed: int, shots: int) -> dict[str, Any]:
    """Compare the portable export, fitted to a calibrated twin, with that twin over random shots.

    Returns:
        ``median_mm`` by contact class.

    Raises:
        UnavailableError: this version has no fitted portable export.
    """
    result: dict[str, Any] = _plain(dict(_function("cue_sim.portable_fit")(seed=seed, shots=shots)))
    return result


def _plain(value: Any) -> Any:
    """Return JSON data: numpy's numbers and arrays become Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
