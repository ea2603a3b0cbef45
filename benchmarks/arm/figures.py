"""Figures of the benchmark of the arm, made of the results of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.arm.plan import DENSER
from benchmarks.arm.strokes import SETTLED
from benchmarks.harness import Assembled, Options, Results, Row

LIMITS = {
    "planned": 0.97,
    "plan_ms_median": 150.0,
    "plan_ms_p95": 600.0,
    "speed_rms": 0.02,
    "azimuth_rms_rad": float(np.radians(0.3)),
    "offset_rms_m": 0.5e-3,
    "double_hits": 0,
    "map_agreement": 0.98,
    "envelope_escapes": 0,
    "push_p90_m": 5e-3,
}
"""Targets, by the keys of the JSON."""


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue of the arm names, and the table's rows."""
    data: dict[str, Any] = {}
    rows: list[Row] = []
    detail: dict[str, Any] = {}

    def values(key: str) -> list[Any]:
        return [r.value for name, r in sorted(results.items()) if name.startswith(f"{key}/") and r.value]

    _planned(values("planned"), data, rows, detail)
    _clock(values("plan_ms_median"), data, rows, detail)
    _strokes(values("speed_rms"), data, rows, detail)
    _map(values("map_agreement"), data, rows, detail)
    _envelope(values("envelope_escapes"), data, rows, detail)
    _pushes(values("push_p90_m"), data, rows, detail)
    problems = "; ".join(dict.fromkeys(r.problem for r in results.values() if r.problem)) or "not run"
    for key in LIMITS:
        data.setdefault(key, f"not measured: {problems}")
    data["detail"] = detail
    return Assembled(data, rows)


def _planned(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    if not parts:
        return
    shots, planned, feasible = (sum(p[k] for p in parts) for k in ("shots", "planned", "feasible"))
    data["planned"] = planned / max(feasible, 1)
    why: Counter[str] = Counter()
    for part in parts:
        why.update({k: n for k, n in part["reasons"].items() if k})
    detail["refused"] = dict(why.most_common(12))
    detail["missed"] = [m for p in parts for m in p["missed"]]
    rows.append(
        Row(
            "planned",
            f"planned, of what a {DENSER} times denser search finds",
            100 * data["planned"],
            "%",
            100 * LIMITS["planned"],
            ">=",
            f"{planned} of {feasible}; of all {shots} random shots {100 * planned / shots:.1f} %",
        )
    )


def _clock(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    if not parts:
        return
    cpu = np.array([v for p in parts for v in p["cpu_ms"]])
    wall = np.array([v for p in parts for v in p["wall_ms"]])
    planned = np.array([v for p in parts for v in p["planned"]], bool)
    detail["plan_ms"] = cpu.tolist()
    for key, share, what in (("plan_ms_median", 0.5, "median"), ("plan_ms_p95", 0.95, "95 %")):
        data[key] = float(np.quantile(cpu, share))
        own = np.quantile(cpu[planned], share) if planned.any() else float("nan")
        note = f"CPU time of {len(cpu)} requests; of those planned {own:.0f}, longest {cpu.max():.0f}; "
        note += f"by the wall clock {np.quantile(wall, share):.0f}"
        rows.append(Row(key, f"planning on one core, {what}", data[key], "ms", LIMITS[key], note=note))


def _strokes(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    if not parts:
        return
    settled = np.concatenate([np.array(p["rows"][SETTLED:], float).reshape(-1, 4) for p in parts])
    early = np.concatenate([np.array(p["rows"][:SETTLED], float).reshape(-1, 4) for p in parts])
    count = sum(len(p["rows"]) for p in parts)
    detail["strokes"] = [
        {"stiffness": p["stiffness"], "friction": p["friction"], "rows": p["rows"], "failed": p["failed"]}
        for p in parts
    ]

    def rms(columns: np.ndarray) -> float:
        return float(np.sqrt(np.mean(np.sum(columns**2, axis=1)))) if len(columns) else float("nan")

    arms = f"{len(parts)} arms, {len(settled)} strokes after the first {SETTLED} of each"
    for key, which, scale, unit, what in (
        ("speed_rms", [0], 100.0, "%", "tip speed at the contact off the asked one, rms"),
        ("azimuth_rms_rad", [1], 180 / np.pi, "deg", "azimuth at the contact, rms"),
        ("offset_rms_m", [2, 3], 1e3, "mm", "where the tip meets the ball, rms"),
    ):
        data[key] = rms(settled[:, which])
        note = f"{arms}; in the first {SETTLED} {scale * rms(early[:, which]):.2g}, largest later "
        note += f"{scale * np.linalg.norm(settled[:, which], axis=1).max(initial=0.0):.2g}"
        rows.append(Row(key, what, scale * data[key], unit, scale * LIMITS[key], note=note))
    data["double_hits"] = sum(p["double_hits"] for p in parts)
    drawn = sum(p["drawn"] for p in parts)
    failed = [f for p in parts for f in p["failed"]]
    note = f"{count} strokes of {drawn} random shots; not played to the end {len(failed)}"
    rows.append(Row("double_hits", "strokes that met the ball again", data["double_hits"], "", 0, note=note))
    touched = [t for p in parts for t in p["touched"]]
    data["touched"] = len(touched)
    rows.append(
        Row(
            "touched",
            "contacts of arm or cue with anything but the cue ball",
            len(touched),
            "",
            0,
            note=", ".join(dict.fromkeys(touched)) or f"{count} strokes watched by the simulation",
        )
    )


def _map(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    if not parts:
        return
    part = parts[0]
    counts = part["counts"]
    data["map_agreement"] = counts.get("agreed", 0) / part["samples"]
    detail["map"] = {k: part[k] for k in ("x", "y", "playable")}
    rows.append(
        Row(
            "map_agreement",
            "the reachability map says what planning finds",
            100 * data["map_agreement"],
            "%",
            100 * LIMITS["map_agreement"],
            ">=",
            f"{part['samples']} strokes at 0.1 to 1.5 m/s, {counts.get('playable', 0)} playable; map too bold "
            f"{counts.get('map too bold', 0)}, too shy {counts.get('map too shy', 0)}; {part['lookup_us']:.0f} us a "
            f"question, {part['build_s']:.0f} s to build",
        )
    )


def _envelope(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    if not parts:
        return
    count = sum(p["count"] for p in parts)
    limits: Counter[str] = Counter()
    for part in parts:
        limits.update(part["limits"])
    wrong = [e for p in parts for e in (*p["escapes"], *p["crashes"])]
    data["envelope_escapes"] = len(wrong)
    detail["envelope"] = {"limits": dict(limits), "wrong": wrong[:20]}
    note = f"{count} trajectories, {limits['passed']} passed; refused for {len(limits) - 1} limits"
    if wrong:
        note += f"; {wrong[0]}"
    rows.append(
        Row("envelope_escapes", "hostile trajectories that left the envelope or broke it", len(wrong), "", 0, note=note)
    )


def _pushes(parts: list[Any], data: dict[str, Any], rows: list[Row], detail: dict[str, Any]) -> None:
    ends = np.array([v for p in parts for v in p["ends"]])
    if not len(ends):
        return
    data["push_p90_m"] = float(np.quantile(ends, 0.9))
    detail["push_ends_m"] = ends.tolist()
    refused = sum(len(p["refused"]) for p in parts)
    strokes = [s for p in parts for s in p["strokes"]]
    said = [s for p in parts for s in p["said"]]
    rows.append(
        Row(
            "push_p90_m",
            "pushed balls off their goals, 90 %",
            1e3 * data["push_p90_m"],
            "mm",
            1e3 * LIMITS["push_p90_m"],
            note=f"{len(ends)} pushes of 10 to 30 cm in {np.mean(strokes):.1f} strokes each, median "
            f"{1e3 * np.median(ends):.2g}, largest {1e3 * ends.max():.2g} mm; {refused} more refused before the arm "
            f"moved; given up {len(said)}",
        )
    )


def detail_of(data: Mapping[str, Any], name: str) -> Any:
    """Return a detail of the JSON for the picture, None where it was not measured."""
    return data.get("detail", {}).get(name)
