"""Figures of the benchmark of real shots, made of the results of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Assembled, Options, Result, Results, Row
from benchmarks.real.plan import LAW

LIMITS = {"median_mm": 75.0, "mode_b_mm": 45.0}
SHOWN = (0.25, 0.5, 0.75)
"""Tracks whose paths are kept for the picture: those at these shares of all, in the order of their errors."""
_FIGURES = (
    ("median_mm", "scored", "median_mm", "tracks never seen: mean error of a track, median"),
    ("mode_b_mm", "mode_b", "median_mm", "watched until 0.4 s after the first rebound: the same of what follows"),
    ("mean_mm", "scored", "mean_mm", "tracks never seen: mean error of a track, mean"),
    ("mode_b_mean_mm", "mode_b", "mean_mm", "watched until 0.4 s after the first rebound: mean"),
    ("last_mm", "scored", "last_median_mm", "error at a track's last sample, median"),
    ("fitted_mm", "known", "median_mm", "the shots that were fitted themselves, median"),
)
_BASELINES = (
    ("unfitted", "the twin with usual values, nothing fitted, median"),
    ("mirror", "a ball that slows down steadily and leaves cushions as light does, median"),
)


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue names, and the table's rows; each figure is the mean of both halves."""
    own = results.get(f"median_mm/{LAW}", Result(problem="not run"))
    rows: list[Row] = []
    data: dict[str, Any] = {}
    halves = [] if own.problem else own.value["halves"]
    for key, part, figure, what in _FIGURES:
        value = _mean(halves, part, figure)
        data[key] = value if value is not None else f"not measured: {own.problem}"
        note = _note(halves, part, figure, own.problem)
        if value is not None and key in LIMITS:
            low, high = own.value[f"{key.removesuffix('_mm')}_95_mm"]
            note += f", 95 % within {low:.0f} and {high:.0f} mm"
        rows.append(Row(key, what, value, "mm", LIMITS.get(key), note=note))
    data["baselines"] = {name: _mean(halves, name, "median_mm") for name, _ in _BASELINES}
    for name, what in _BASELINES:
        note = _note(halves, name, "median_mm", own.problem)
        rows.append(Row(f"baselines.{name}", what, data["baselines"][name], "mm", note=note))
    data["by_rebounds"] = _by_rebounds(halves)
    for count, value in data["by_rebounds"].items():
        what = f"samples after {count} {'rebound' if count == '1' else 'rebounds'}: median over tracks"
        note = f"{value['tracks']} tracks; watched: " + _text(value["mode_b_mm"])
        rows.append(Row(f"by_rebounds.{count}", what, value["median_mm"], "mm", note=note))
    data["laws"], data["detail"] = {}, {}
    for name, result in sorted(results.items()):
        law = name.partition("/")[2]
        data["laws"][law] = (
            f"not measured: {result.problem}"
            if result.problem
            else {key: result.value[key] for key in ("median_mm", "mode_b_mm", "medians_mm", "mode_b_medians_mm")}
        )
        if not result.problem:
            data["detail"][law] = _without_paths(result.value)
        if law != LAW:
            value = None if result.problem else result.value["median_mm"]
            note = result.problem or f"for information; watched: {result.value['mode_b_mm']:.0f} mm"
            rows.append(Row(f"laws.{law}", f"cushion law {law} instead of {LAW}, median", value, "mm", note=note))
    data["examples"] = _examples(halves)
    return Assembled(data, rows)


def _examples(halves: list[Mapping[str, Any]]) -> dict[str, Any]:
    order = sorted((track for half in halves for track in half["tracks"]), key=lambda track: track["mean_mm"])
    return {str(share): order[min(int(share * len(order)), len(order) - 1)] for share in SHOWN if order}


def _without_paths(value: Mapping[str, Any]) -> dict[str, Any]:
    dropped = ("seen", "predicted")
    return {
        **value,
        "halves": [
            {**half, "tracks": [{k: v for k, v in track.items() if k not in dropped} for track in half["tracks"]]}
            for half in value["halves"]
        ],
    }


def _mean(halves: list[Mapping[str, Any]], part: str, figure: str) -> float | None:
    return float(np.mean([half[part][figure] for half in halves])) if halves else None


def _note(halves: list[Mapping[str, Any]], part: str, figure: str, problem: str) -> str:
    if not halves:
        return problem
    first, second = (half[part] for half in halves)
    return f"halves {first[figure]:.0f} and {second[figure]:.0f} mm, {first['tracks']} and {second['tracks']} tracks"


def _by_rebounds(halves: list[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return medians of both halves by rebounds so far, weighted by their tracks."""
    out: dict[str, dict[str, Any]] = {}
    for count in sorted({count for half in halves for count in half["scored"]["by_rebounds"]}):
        found = [half["scored"]["by_rebounds"][count] for half in halves if count in half["scored"]["by_rebounds"]]
        watched = [half["mode_b"]["by_rebounds"][count] for half in halves if count in half["mode_b"]["by_rebounds"]]
        out[count] = {
            "tracks": sum(entry["tracks"] for entry in found),
            "median_mm": _weighted(found),
            "mode_b_mm": _weighted(watched) if watched else None,
        }
    return out


def _weighted(entries: list[Mapping[str, Any]]) -> float:
    weights = [entry["tracks"] for entry in entries]
    return float(np.average([entry["median_mm"] for entry in entries], weights=weights))


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.0f} mm"
