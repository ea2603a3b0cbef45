"""Figures of the benchmark of identification, made of the results of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.fit.race import METHODS, TARGET
from benchmarks.fit.structure import EFFECTS, PLAIN, is_hit
from benchmarks.fit.worlds import SHOTS
from benchmarks.harness import Assembled, Options, Results, Row
from benchmarks.harness.output import number

_NAMES = {"cma": "CMA-ES on whole shots (pycma)", "sysid": "least squares on whole shots (mujoco.sysid)"}
_WITHIN = 3.0
_FASTER = 10.0


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue of identification names, and the table's rows."""
    data: dict[str, Any] = {"detail": {}}
    rows: list[Row] = []
    for add in (_recovery, _noisy, _times, _races, _terms, _residual):
        add(_Results(results, options), data, rows)
    return Assembled(data, rows)


class _Results:
    """Results by key, and why there are none."""

    def __init__(self, results: Results, options: Options) -> None:
        self._results, self._options = results, options

    def of(self, key: str) -> dict[str, Any]:
        return {
            name.partition("/")[2]: r.value for name, r in sorted(self._results.items()) if r.value and _is(name, key)
        }

    def why(self, key: str) -> str:
        problems = [r.problem for name, r in self._results.items() if _is(name, key) and r.problem]
        return "; ".join(dict.fromkeys(problems)) or (
            "left out of this quick run" if self._options.quick else "not run"
        )


def _is(name: str, key: str) -> bool:
    return name.partition("/")[0] == key


def _missing(key: str, what: str, why: str, data: dict[str, Any], rows: list[Row]) -> None:
    group, _, name = key.partition(".")
    if name:
        data.setdefault(group, {})[name] = f"not measured: {why}"
    else:
        data[group] = f"not measured: {why}"
    rows.append(Row(key, what, None, note=why))


def _recovery(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    worlds = results.of("recovery")
    data["detail"]["recovery"] = worlds
    shots = next((w["shots"] for w in worlds.values()), SHOTS)
    what = f"error of predicted rest places after a fit of {shots} shots seen to 1 mm"
    if not worlds:
        return _missing("recovery.rest_mean_m", what, results.why("recovery"), data, rows)
    found = list(worlds.values())
    rest = float(np.mean([w["rest_m"] for w in found]))
    unfitted = float(np.mean([w["unfitted_m"] for w in found]))
    z = np.array([p["z"] for w in found for p in w["parameters"].values()])
    wall = max(w["wall_s"] for w in found)
    data["recovery"] = {
        "rest_mean_m": rest,
        "reduction": 1 - rest / unfitted,
        "coverage": float(np.mean(np.abs(z) <= _WITHIN)),
        "wall_s": wall,
        "rest_median_m": float(np.median([w["rest_median_m"] for w in found])),
        "unfitted_mean_m": unfitted,
    }
    each = _list([1e3 * w["rest_m"] for w in found])
    note = f"mean of {len(found)} tables: {each}; median shot {number(1e3 * data['recovery']['rest_median_m'])} mm"
    rows.append(Row("recovery.rest_mean_m", what, 1e3 * rest, "mm", 5.0, note=note))
    share = 100 * data["recovery"]["reduction"]
    note = f"which is {number(1e3 * unfitted)} mm"
    rows.append(
        Row(
            "recovery.reduction",
            "by so much that is below the error of the textbook's values",
            share,
            "%",
            97.0,
            ">=",
            note,
        )
    )
    note = (
        f"{len(z)} parameters of {len(found)} tables; 68 % within {np.quantile(np.abs(z), 0.683):.2f} (1 if the error "
        f"bars are right), largest {np.abs(z).max():.1f}"
    )
    covered = 100 * data["recovery"]["coverage"]
    rows.append(
        Row(
            "recovery.coverage",
            "parameters whose truth is within 3 of their stated deviations",
            covered,
            "%",
            90.0,
            ">=",
            note,
        )
    )
    note = f"each: {_list([w['wall_s'] for w in found])}; processor {_list([w['cpu_s'] for w in found])} s; "
    note += f"{_list([w['simulations'] for w in found])} simulated shots"
    rows.append(Row("recovery.wall_s", "the longest of those fits, with 2 threads", wall, "s", 90.0, note=note))
    return None


def _noisy(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    worlds = results.of("noisy")
    data["detail"]["noisy"] = worlds
    what = "the same tables seen to 3 mm, 2 % of the samples lost"
    if not worlds:
        return _missing("noisy.rest_mean_m", what, results.why("noisy"), data, rows)
    found = list(worlds.values())
    rest = float(np.mean([w["rest_m"] for w in found]))
    z = np.array([p["z"] for w in found for p in w["parameters"].values()])
    data["noisy"] = {"rest_mean_m": rest, "coverage": float(np.mean(np.abs(z) <= _WITHIN))}
    note = f"{_list([1e3 * w['rest_m'] for w in found])}; parameters within 3 deviations: "
    note += f"{number(100 * data['noisy']['coverage'])} %; longest fit {number(max(w['wall_s'] for w in found))} s"
    rows.append(Row("noisy.rest_mean_m", what, 1e3 * rest, "mm", 15.0, note=note))
    return None


def _times(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    refits, cancels = results.of("refit_s"), results.of("cancel_s")
    data["detail"].update(refit=refits, cancel=cancels)
    what = "fit again after one more shot (20 after 19), longest"
    if refits:
        found = list(refits.values())
        data["refit_s"] = max(w["wall_s"] for w in found)
        note = (
            f"each: {_list([w['wall_s'] for w in found])}; error before {_list([1e3 * w['before_m'] for w in found])}"
        )
        note += f", after {_list([1e3 * w['after_m'] for w in found])} mm"
        rows.append(Row("refit_s", what, data["refit_s"], "s", 10.0, note=note))
    else:
        _missing("refit_s", what, results.why("refit_s"), data, rows)
    what = "from the wish to cancel a fit to its end, longest"
    if cancels:
        seconds = [s for w in cancels.values() for s in w["seconds"]]
        moments = _list([m for w in cancels.values() for m in w["moments_s"]])
        data["cancel_s"] = max(seconds)
        rows.append(Row("cancel_s", what, data["cancel_s"], "s", 0.2, note=f"asked {moments} s after the start"))
    else:
        _missing("cancel_s", what, results.why("cancel_s"), data, rows)


def _races(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    worlds = results.of("speedup_vs_cma")
    data["detail"]["race"] = worlds
    own = [w["cue"]["reached_s"] for w in worlds.values()]
    if worlds:
        reached = [t for t in own if t is not None]
        value = float(np.median(reached)) if reached else None
        data["reach_s"] = value if value is not None else "not measured: no fit got there"
        first = _each([w["cue"]["first_s"] for w in worlds.values()])
        note = f"from then on it stays below: {_each(own)} s, first reached after {first} s"
        rows.append(Row("reach_s", f"CUE's time to an error of {1e2 * TARGET:g} cm, median", value, "s", note=note))
    for method in METHODS:
        key, what = f"speedup_vs_{method}", f"times faster to an error of 1 cm than {_NAMES[method]}"
        found = [(w["cue"]["reached_s"], w[method], w["limit_s"]) for w in worlds.values() if "points" in w[method]]
        if not found:
            problems = dict.fromkeys(w[method]["problem"] for w in worlds.values() if "problem" in w[method])
            _missing(key, what, "; ".join(problems) or results.why("speedup_vs_cma"), data, rows)
            continue
        ratios, never = speedups([(mine, other["reached_s"], limit) for mine, other, limit in found])
        ends = [1e3 * other["points"][-1][2] for _, other, _ in found]
        note = f"each table: {', '.join(ratios_text(ratios, never))}; it ends at {_list(ends)} mm"
        if any(never):
            limits = _list([limit for _, _, limit in found])
            note += f"; ≥: it had {limits} s and did not get there, so this is a lower bound"
        value = decided(ratios, never)
        data[key] = value if value is not None else f"not decided: {note}"
        rows.append(Row(key, what, value, "times", _FASTER, ">=", note))


def decided(ratios: Sequence[float | None], never: Sequence[bool]) -> float | None:
    """Return the median; None where nobody got there, or where the others had too little time to lose by the target."""
    known = [(r, lower) for r, lower in zip(ratios, never, strict=True) if r is not None]
    value = float(np.median([r for r, _ in known])) if known else 0.0
    return None if not known or (value < _FASTER and any(lower for _, lower in known)) else value


def speedups(
    races: Sequence[tuple[float | None, float | None, float]],
) -> tuple[list[float | None], list[bool]]:
    """Return how many times faster CUE was in each race, and whether that is a lower bound.

    Args:
        races: CUE's time, the other's [s], None = never; and the time that the other had.

    Returns:
        Zero where only the other got there, None where neither did.
    """
    ratios: list[float | None] = []
    for mine, other, limit in races:
        if mine is None:
            ratios.append(None if other is None else 0.0)
        else:
            ratios.append((other if other is not None else limit) / mine)
    return ratios, [mine is not None and other is None for mine, other, _ in races]


def ratios_text(ratios: Sequence[float | None], never: Sequence[bool]) -> list[str]:
    """Return ratios for people; those that are lower bounds say so."""
    return [
        "neither" if r is None else f"{'≥ ' if lower else ''}{number(r)}"
        for r, lower in zip(ratios, never, strict=True)
    ]


def _terms(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    runs = list(results.of("terms").values())
    data["detail"]["terms"] = results.of("terms")
    special = [run for run in runs if run["effect"] != PLAIN]
    plain = [run for run in runs if run["effect"] == PLAIN]
    what = "tables with one unusual effect on which selection adds the right term"
    if special:
        rate = float(np.mean([is_hit(run) for run in special]))
        data.setdefault("terms", {})["hit_rate"] = rate
        by = []
        for effect, term in EFFECTS.items():
            own = [run for run in special if run["effect"] == effect]
            if own:
                by.append(f"{term} {sum(map(is_hit, own))}/{len(own)}")
        beside = sum(is_hit(run) and len(run["chosen"]) > 1 for run in special)
        note = f"{', '.join(by)}; with another term beside it {beside}"
        rows.append(Row("terms.hit_rate", what, 100 * rate, "%", 80.0, ">=", note))
    else:
        _missing("terms.hit_rate", what, results.why("terms"), data, rows)
    what = "usual tables on which it adds a term"
    if plain:
        rate = float(np.mean([not is_hit(run) for run in plain]))
        data.setdefault("terms", {})["false_rate"] = rate
        added = ", ".join(term for run in plain for term in run["chosen"]) or "none"
        rows.append(Row("terms.false_rate", what, 100 * rate, "%", 20.0, note=f"{len(plain)} tables; added: {added}"))
    else:
        _missing("terms.false_rate", what, results.why("terms"), data, rows)


def _residual(results: _Results, data: dict[str, Any], rows: list[Row]) -> None:
    runs = results.of("residual")
    data["detail"]["residual"] = runs
    parts: Sequence[tuple[str, str, str, str, float, Callable[[Mapping[str, Any]], float]]] = (
        ("gain", "uneven", "error that a learned correction takes away on an uneven cloth", ">=", 40.0, _gain),
        ("harm", "plain", "change of the error by it on an even one, largest", "<=", 5.0, lambda r: abs(_gain(r))),
    )
    for name, kind, what, sense, target, figure in parts:
        own = [run for world, run in runs.items() if world.startswith(kind)]
        if not own:
            _missing(f"residual.{name}", what, results.why("residual"), data, rows)
            continue
        values = [figure(run) for run in own]
        value = float(np.mean(values)) if name == "gain" else max(values)
        data.setdefault("residual", {})[name] = value
        note = f"each {_list([100 * v for v in values])} %; from {_list([1e3 * r['without_m'] for r in own])} to "
        note += f"{_list([1e3 * r['with_m'] for r in own])} mm"
        rows.append(Row(f"residual.{name}", what, 100 * value, "%", target, sense, note))


def _gain(run: Mapping[str, Any]) -> float:
    return 1 - run["with_m"] / run["without_m"]


def _list(values: Sequence[float]) -> str:
    return ", ".join(number(v) for v in values)


def _each(values: Sequence[float | None]) -> str:
    return ", ".join("never" if v is None else number(v) for v in values)


def sheet_of_curves(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the curves of the races as rows of a CSV file."""
    return [
        {"table": name, "method": method, "seconds": t, "simulations": int(n), "held_out_error_m": error}
        for name, world in data["detail"]["race"].items()
        for method in ("cue", *METHODS)
        for t, n, error in world[method].get("points", ())
    ]
