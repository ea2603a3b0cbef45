"""Figures of the benchmark of the twin, made of the results of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Assembled, Options, Result, Results, Row
from benchmarks.harness.output import number
from benchmarks.twin.laws import LIMITS
from benchmarks.twin.plan import TABLES
from benchmarks.twin.shots import CLASSES
from benchmarks.twin.speed import BALL_COUNTS, ratio

MIRROR_CONTACTS = 6
"""Mirror images are compared up to so many contacts: each one multiplies rounding errors about tenfold."""
_PORTABLE_LIMIT = {"1": 30.0}
_REAL_LIMIT = 85.0
_MS_LIMITS = {6: 2.0, 16: 4.5}


class _Figures:
    """Collects JSON keys and rows; what is not there says why."""

    def __init__(self, results: Results, absent: str) -> None:
        self.results = results
        self.absent = absent
        self.data: dict[str, Any] = {}
        self.detail: dict[str, Any] = {}
        self.rows: list[Row] = []

    def problem(self, name: str) -> str:
        return self.results.get(name, Result(problem=self.absent)).problem

    def value(self, name: str) -> Any:
        return None if self.problem(name) else self.results[name].value

    def put(
        self,
        path: tuple[str, ...],
        part: str,
        figure: Callable[[Any], float],
        what: str,
        unit: str = "",
        target: float | None = None,
        sense: str = "<=",
        note: Callable[[Any], str] = lambda value: "",
    ) -> None:
        """Add one figure of one part, at a path of JSON keys."""
        value = self.value(part)
        number = None if value is None else float(figure(value))
        text = note(value) if value is not None else self.problem(part)
        where = self.data
        for key in path[:-1]:
            where = where.setdefault(key, {})
        where[path[-1]] = number if number is not None else f"not measured: {text}"
        self.rows.append(Row(".".join(path), what, number, unit, target, sense, text))

    def merged(self, prefix: str) -> tuple[list[Any], str]:
        """Return the values of all parts whose name begins so, and what kept the others from having one."""
        names = [name for name in self.results if name.startswith(prefix)]
        values = [self.value(name) for name in names]
        problems = [self.problem(name) for name in names if self.problem(name)] or ([] if names else [self.absent])
        return [value for value in values if value is not None], "; ".join(dict.fromkeys(problems))


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue of the twin names, and the table's rows."""
    out = _Figures(results, "left out of this quick run" if options.quick else "not run")
    _accuracy(out)
    _laws(out)
    _soundness(out)
    _speed(out)
    _providers(out)
    return Assembled({**out.data, "detail": out.detail}, out.rows)


def _contacts(label: str) -> str:
    return "1 contact" if label == "1" else f"{label} contacts"


def _accuracy(out: _Figures) -> None:
    for table in TABLES:
        for label in CLASSES:
            part = f"vs_reference_mm/{table}/{label}"
            out.put(
                ("vs_reference_mm", table, label),
                part,
                lambda v: np.median(v["mm"]),
                f"off the reference: {table} table, {_contacts(label)}",
                "mm",
                0.2,
                note=lambda v: (
                    (f"{len(v['refused'])} shots that the reference refused left out; " if v["refused"] else "")
                    + f"{len(v['mm'])} shots, 90 % below {np.quantile(v['mm'], 0.9):.3g} mm, "
                    f"same number of contacts in {100 * np.mean(v['same_contacts']):.0f} %"
                ),
            )
            if (value := out.value(part)) is not None:
                out.detail[part] = value
    for table in TABLES:
        for label in CLASSES:
            part = f"step_halving_mm/{table}/{label}"
            out.put(
                ("step_halving_mm", table, label),
                part,
                lambda v: np.median(v["mm"]),
                f"half the step: {table} table, {_contacts(label)}",
                "mm",
                0.1,
                note=lambda v: f"90 % below {np.quantile(v['mm'], 0.9):.3g} mm",
            )
            if (value := out.value(part)) is not None:
                out.detail[part] = value


def _laws(out: _Figures) -> None:
    for name, (limit, unit, what) in LIMITS.items():
        part = f"laws/{name}"
        out.put(("laws", name), part, lambda v: v["error"], what, unit, limit)
        row = out.rows[-1]
        out.data["laws"][name] = (
            {"error": row.value, "unit": unit, "limit": limit, "met": row.met}
            if row.value is not None
            else out.data["laws"][name]
        )


def _soundness(out: _Figures) -> None:
    shots = [value for table in TABLES for value in out.merged(f"energy_gain/{table}/")[0]]
    breaks, _ = out.merged("energy_gain/breaks/")
    _, problem = out.merged("energy_gain/")
    everything = [*shots, *breaks]
    rises = [[r for value in values for r in value["rise"]] for values in (shots, breaks)]
    seen = max((r for group in rises for r in group), default=None)
    own = max((value["kernel_rise"] for value in everything), default=0.0)
    worst = None if seen is None else max(seen, own)
    counts = (
        f"{len(rises[0])} shots and {len(rises[1])} breaks of a rack of 15 at 8 m/s; {number(seen)} in speeds and "
        f"spins read after every contact and every 0.1 s, {number(own)} in the kernel's own account"
    )
    out.data["energy_gain"] = worst if worst is not None else f"not measured: {problem}"
    out.rows.append(
        Row(
            "energy_gain", "largest relative rise of energy", worst, "", 1e-6, note=problem if worst is None else counts
        )
    )
    faults = [fault for value in everything for fault in value["faults"]]
    escapes = sum(value["off_table"] for value in everything) if everything else None
    named = ", ".join(f"{faults.count(fault)} x {fault}" for fault in sorted(set(faults))) or "none"
    out.data["escapes"] = escapes if escapes is not None else f"not measured: {problem}"
    hops = sum(value["airborne"] for value in everything)
    note = (
        problem
        if escapes is None
        else f"the kernel named faults: {named}; balls that would have hopped: in {hops} shots"
    )
    out.rows.append(Row("escapes", "balls off the table that nothing announced", escapes, "", 0, note=note))
    out.detail["faults"] = faults

    images, problem = out.merged("mirror_mm/")
    pairs = [(mm, n) for value in images for mm, n in zip(value["mm"], value["contacts"], strict=True)]
    near = [mm for mm, n in pairs if n <= MIRROR_CONTACTS]
    largest = max(near, default=None)
    out.data["mirror_mm"] = largest if largest is not None else f"not measured: {problem}"
    note = (
        problem
        if largest is None
        else (
            f"{len(near)} shots of up to {MIRROR_CONTACTS} contacts; all {len(pairs)}: "
            f"median {np.median([mm for mm, _ in pairs]):.1e}, largest {max(mm for mm, _ in pairs):.1e} mm"
        )
    )
    out.rows.append(Row("mirror_mm", "mirrored shots, largest difference", largest, "mm", 1e-3, note=note))


def _speed(out: _Figures) -> None:
    for balls in BALL_COUNTS:
        part = f"ms_per_shot/{balls}"
        out.put(
            ("ms_per_shot", str(balls)),
            part,
            lambda v: min(v["ms"]),
            f"{balls} balls, 7-foot table, one core",
            "ms",
            _MS_LIMITS.get(balls),
            note=lambda v: (
                f"least of {len(v['ms'])}, median {np.median(v['ms']):.2f}; "
                f"{v['motion_s']:.1f} s of motion in {v['steps']:.0f} steps"
            ),
        )
        if (value := out.value(part)) is not None:
            out.detail[part] = value
    main = out.value("ms_per_shot/6")
    if main is not None and not main["mj_step_ms"]:
        note = "the twin has no clock around its steps (Twin.clock_steps)"
        out.data["vs_mj_step"] = f"not measured: {note}"
        out.rows.append(Row("vs_mj_step", "6 balls: cost over its own mj_step calls", None, "", 1.5, note=note))
    else:
        out.put(
            ("vs_mj_step",),
            "ms_per_shot/6",
            lambda v: float(np.divide(*_fastest(v))),
            "6 balls: cost over its own mj_step calls",
            "times",
            1.5,
            note=lambda v: "{:.3f} ms, of which mj_step {:.3f} ms".format(*_fastest(v)),
        )
    for balls in (6, *(b for b in BALL_COUNTS if b != 6)):
        part = f"vs_pooltool/{balls}"
        value = out.value(part)
        if balls == 6:
            out.put(
                ("vs_pooltool",),
                part,
                lambda v: ratio(v["pooltool_ms"], v["ms"]),
                "6 balls: times faster than pooltool",
                "times",
                2.0,
                ">=",
                _pooltool_note,
            )
        elif value is not None:
            faster = ratio(value["pooltool_ms"], value["ms"])
            out.rows.append(
                Row(
                    "vs_pooltool",
                    f"{balls} balls: the same, for information",
                    faster,
                    "times",
                    note=_pooltool_note(value),
                )
            )
        if value is not None:
            out.detail[part] = value
    out.put(
        ("scaling_2",),
        "scaling_2/6",
        lambda v: ratio(v["one_s"], v["two_s"]),
        "throughput of two threads over one",
        "times",
        1.8,
        ">=",
        lambda v: f"{min(v['one_s']):.3f} s and {min(v['two_s']):.3f} s for one batch",
    )
    if (value := out.value("scaling_2/6")) is not None:
        out.detail["scaling_2"] = value


def _fastest(value: Mapping[str, Any]) -> tuple[float, float]:
    """Return the cost [ms] of a clocked shot and of its steps in the repeat that was disturbed least."""
    return min(zip(value["clocked_ms"], value["mj_step_ms"], strict=True))


def _pooltool_note(value: Mapping[str, Any]) -> str:
    apart = ", ".join(f"{label}: {mm:.0f}" for label, mm in value["rest_mm"].items())
    refused = f"; {value['refused']} shots it ended in error left out" if value["refused"] else ""
    return (
        f"pooltool {value['version']} {min(value['pooltool_ms']):.2f} ms, twin {min(value['ms']):.2f} ms; "
        f"median rest difference by contacts [mm] {apart} (its impacts are other models){refused}"
    )


def _providers(out: _Figures) -> None:
    for label in CLASSES:
        out.put(
            ("portable_mm", label),
            "portable_mm/calibrated",
            lambda v, c=label: v["median_mm"][c],  # type: ignore[misc]
            f"portable export off the twin: {_contacts(label)}",
            "mm",
            _PORTABLE_LIMIT.get(label),
            note=lambda v, c=label: f"90 % below {v['p90_mm'][c]:.3g} mm",  # type: ignore[misc]
        )
    if (value := out.value("portable_mm/calibrated")) is not None:
        out.detail["portable_mm"] = value
    laws = {name.partition("/")[2] for name in out.results if name.startswith("real_median_mm/")}
    for law in ("coulomb", *sorted(laws - {"coulomb"})):
        out.put(
            ("real_median_mm", law),
            f"real_median_mm/{law}",
            lambda v: v["median_mm"],
            f"real shots, both halves: cushion law {law}",
            "mm",
            _REAL_LIMIT,
            note=_real_note,
        )
        if (value := out.value(f"real_median_mm/{law}")) is not None:
            out.detail.setdefault("real_median_mm", {})[law] = value


def _real_note(value: Mapping[str, Any]) -> str:
    halves = " and ".join(f"{mm:.0f}" for mm in value.get("medians_mm", ()))
    return f"halves {halves} mm, {value.get('tracks', '?')} tracks" if halves else ""
