"""Figures of the benchmark of the tracker, made of the results of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Assembled, Options, Results, Row
from benchmarks.harness.output import number
from benchmarks.track.scoring import AT_REST, MOVING, VELOCITY_FROM, inside_95

_LIMITS = {
    "still_median_m": 0.5e-3,
    "still_p95_m": 1.5e-3,
    "moving_median_m": 1e-3,
    "moving_p95_m": 4e-3,
    "velocity_error": 0.02,
    "event_time_median_s": 4e-3,
    "swaps": 0,
    "missed": 1e-3,
    "false": 1e-3,
    "p95_ms_720": 10.0,
    "p95_ms_1080": 20.0,
}
_COVERAGE = (0.90, 0.98)
_SETTLED = 0.1
"""A velocity is settled so long after a contact [s]."""


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue of the tracker names, and the table's rows."""
    worlds = {name: r.value for name, r in sorted(results.items()) if name.startswith("still_median_m/") and r.value}
    problems = "; ".join(dict.fromkeys(r.problem for r in results.values() if r.problem)) or "not run"
    data: dict[str, Any] = {}
    rows: list[Row] = []
    if worlds:
        _accuracy(list(worlds.values()), data, rows)
        _events(list(worlds.values()), data, rows)
    for key in _LIMITS:
        if key not in data and not key.startswith("p95"):
            data[key] = f"not measured: {problems}"
    _speed(results, data, rows, options)
    _memory(results, data, rows)
    data["detail"] = {"worlds": {name.partition("/")[2]: _of_world(value) for name, value in worlds.items()}}
    return Assembled(data, rows)


def _columns(worlds: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    keys = worlds[0]["balls"]
    return {key: np.array([np.nan if v is None else v for w in worlds for v in w["balls"][key]], float) for key in keys}


def _quantile(values: np.ndarray, share: float) -> float | None:
    values = values[np.isfinite(values)]
    return float(np.quantile(values, share)) if len(values) else None


def _accuracy(worlds: list[dict[str, Any]], data: dict[str, Any], rows: list[Row]) -> None:
    c = _columns(worlds)
    still, moving = c["speed"] < AT_REST, c["speed"] > MOVING
    for name, which in (("still", still), ("moving", moving)):
        for key, share, text in ((f"{name}_median_m", 0.5, "median"), (f"{name}_p95_m", 0.95, "95 %")):
            value, raw = _quantile(c["error"][which], share), _quantile(c["raw_error"][which], share)
            data[key] = value
            note = f"{int(which.sum())} ball-images; raw measurements {number(None if raw is None else 1e3 * raw)} mm"
            scaled = None if value is None else 1e3 * value
            rows.append(Row(key, f"{name} balls, {text}", scaled, "mm", 1e3 * _LIMITS[key], note=note))
    fast = c["speed"] > VELOCITY_FROM
    relative = c["velocity_error"] / np.maximum(c["speed"], 1e-9)
    data["velocity_error"] = _quantile(relative[fast], 0.5)
    calm = fast & (c["since_contact"] > _SETTLED)
    rows.append(
        Row(
            "velocity_error",
            f"velocity of balls faster than {VELOCITY_FROM} m/s, median, right after contacts too",
            _percent(data["velocity_error"]),
            "%",
            100 * _LIMITS["velocity_error"],
            note=(
                f"from {_SETTLED} s after a contact {number(_percent(_quantile(relative[calm], 0.5)))} %, "
                f"95 % of them within {number(_percent(_quantile(relative[calm], 0.95)))} %"
            ),
        )
    )
    total = sum(w["ball_frames"] for w in worlds)
    late = [w["late_frames"] for w in worlds]
    for key, what in (("missed", "balls in play that no visible ball of the tracker is at"), ("false", "invented")):
        count = sum(w[key] for w in worlds)
        data[key] = count / max(total, 1)
        raw = sum(w[f"raw_{key}"] for w in worlds)
        rows.append(
            Row(
                key,
                f"{what}, share of ball-images",
                100 * data[key],
                "%",
                100 * _LIMITS[key],
                note=f"{count} of {total}; single measurements {100 * raw / max(total, 1):.3g} %; "
                f"ready after {min(late)} to {max(late)} images",
            )
        )
    data["swaps"] = sum(w["swaps"] for w in worlds)
    alike, misnamed = sum(w["swaps_alike"] for w in worlds), sum(w["misnamed"] for w in worlds)
    rows.append(
        Row(
            "swaps",
            "balls of different colour that traded names",
            data["swaps"],
            "",
            0,
            note=f"of like colour (a stripe and its solid) {alike}; named wrongly from the start: "
            f"{100 * misnamed / max(total, 1):.2g} % of ball-images",
        )
    )
    covered = {
        "all": inside_95(c["d2"]).mean(),
        "still": inside_95(c["d2"][still]).mean(),
        "moving": inside_95(c["d2"][moving]).mean() if moving.any() else np.nan,
        "raw": inside_95(c["raw_d2"][np.isfinite(c["raw_d2"])]).mean(),
        "velocity": inside_95(c["velocity_d2"][moving]).mean() if moving.any() else np.nan,
    }
    data["coverage95"] = float(covered["all"])
    note = ", ".join(f"{k} {100 * v:.1f} %" for k, v in covered.items() if k != "all")
    for limit, sense in zip(_COVERAGE, (">=", "<="), strict=True):
        rows.append(
            Row("coverage95", "truths in 95 % ellipses", 100 * data["coverage95"], "%", 100 * limit, sense, note)
        )


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _events(worlds: list[dict[str, Any]], data: dict[str, Any], rows: list[Row]) -> None:
    events = [w["events"] for w in worlds]
    strikes = np.array([s for e in events for s in e["strikes"]], float).reshape(-1, 2)
    contacts = np.array([k for e in events for k in e["contacts"]], float).reshape(-1, 3)
    times = np.abs(np.concatenate([strikes[:, 0], contacts[:, 1]]))
    spreads = np.concatenate([strikes[:, 1], contacts[:, 2]])
    data["event_time_median_s"] = _quantile(times, 0.5)
    wanted = sum(e["strikes_true"] for e in events)
    unseen, invented = sum(len(e["unseen"]) for e in events), sum(len(e["invented"]) for e in events)
    parts = {
        "strikes": np.abs(strikes[:, 0]),
        "ball contacts": np.abs(contacts[contacts[:, 0] == 1, 1]),
        "cushions": np.abs(contacts[contacts[:, 0] == 2, 1]),
    }
    medians = ", ".join(f"{k} {number(_scale(_quantile(v, 0.5)))} ms ({len(v)})" for k, v in parts.items())
    honest = float(np.mean(times <= 1.96 * spreads)) if len(times) else float("nan")
    rows.append(
        Row(
            "event_time_median_s",
            "times of strikes and contacts, median",
            _scale(data["event_time_median_s"]),
            "ms",
            4.0,
            note=f"{medians}; 95 % within {number(_scale(_quantile(times, 0.95)))} ms; strikes seen {len(strikes)} of "
            f"{wanted}, contacts {len(contacts)} of {len(contacts) + unseen}, invented {invented}; "
            f"{100 * honest:.0f} % within 1.96 stated sigma",
        )
    )


def _scale(value: float | None) -> float | None:
    return None if value is None else 1e3 * value


def _speed(results: Results, data: dict[str, Any], rows: list[Row], options: Options) -> None:
    for label, size in (("720", "1280x720"), ("1080", "1920x1080")):
        key = f"p95_ms_{label}"
        parts = [r.value for name, r in results.items() if name.startswith(f"{key}/") and r.value]
        cpu = [v for p in parts for v in p["ms"]["cpu"]]
        wall = [v for p in parts for v in p["ms"]["wall"]]
        value = float(np.quantile(cpu, 0.95)) if cpu else None
        why = "left out of this quick run" if options.quick else "not run"
        data[key] = value if value is not None else f"not measured: {why}"
        note = (
            f"CPU time of {len(cpu)} images, median {np.median(cpu):.2f}; by the wall clock 95 % "
            f"{np.quantile(wall, 0.95):.2f}"
            if cpu
            else why
        )
        rows.append(Row(key, f"95 % of {size} images, one core", value, "ms", _LIMITS[key], note=note))
        usual = [r.value for name, r in results.items() if name.startswith(f"hough/{label}/") and r.value]
        if usual:
            spent = [v for p in usual for v in p["ms"]["cpu"]]
            total = sum(p["ball_frames"] for p in usual)
            errors = np.array([e for p in usual for e in p["errors"]])
            hough = {
                "p95_ms": float(np.quantile(spent, 0.95)),
                "missed": sum(p["missed"] for p in usual) / max(total, 1),
                "false": sum(p["false"] for p in usual) / max(total, 1),
                "median_m": _quantile(errors, 0.5),
            }
            data.setdefault("hough", {})[label] = hough
            rows.append(
                Row(
                    "hough",
                    f"the same by Hough circles, {size}",
                    hough["p95_ms"],
                    "ms",
                    note=f"misses {100 * hough['missed']:.2g} %, invents {100 * hough['false']:.2g} % of ball-images, "
                    f"median {number(_scale(hough['median_m']))} mm; no names, no velocities",
                )
            )


def _memory(results: Results, data: dict[str, Any], rows: list[Row]) -> None:
    result = next((r for name, r in results.items() if name.startswith("memory/")), None)
    if result is None or not result.value:
        data["memory"] = "not measured: left out"
        return
    points = np.array(result.value["mib"], float)
    half = points[len(points) // 2 :]
    slope = float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * 1000
    data["memory"] = {"images": result.value["images"], "mib_per_1000_images": slope, "last_mib": float(points[-1, 1])}
    rows.append(
        Row(
            "memory",
            "growth over the second half of the images shown",
            slope,
            "MiB/1000",
            0.05,
            note=f"{result.value['images']} images, one sequence again and again; {points[0, 1]:.0f} MiB at the start, "
            f"{points[-1, 1]:.0f} at the end; half an hour would be 108,000",
        )
    )


def _of_world(world: Mapping[str, Any]) -> dict[str, Any]:
    c = _columns([dict(world)])
    still, moving = c["speed"] < AT_REST, c["speed"] > MOVING
    return {
        "table": world["table"],
        "balls": world["count"],
        "exposure_ms": 1e3 * world["exposure"],
        "noise": world["noise"],
        "still_mm": [_scale(_quantile(c["error"][still], s)) for s in (0.5, 0.95)],
        "moving_mm": [_scale(_quantile(c["error"][moving], s)) for s in (0.5, 0.95)],
        "coverage": float(inside_95(c["d2"]).mean()) if len(c["d2"]) else None,
        **{key: world[key] for key in ("missed", "false", "swaps", "misnamed", "ball_frames", "late_frames", "flags")},
        "hard": world["hard"][:40],
        "events": world["events"],
    }
