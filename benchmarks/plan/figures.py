"""Figures of the benchmark of planners, made of its sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import Assembled, Options, Results, Row
from benchmarks.harness.output import number
from benchmarks.plan.conditions import LAYOUTS, PHYSICS, SEEDS

LIMIT = 0.015
"""Mean held-out rest error at which a table counts as known [m]."""
OWN, BASELINE = "offline", "random"
AFTER = 10
"""Shots after which predicted regions are counted."""
BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
"""Of predicted pocket probabilities."""
_ALL = len(LAYOUTS) * len(PHYSICS) * len(SEEDS)

Session = Mapping[str, Any]


def assemble(options: Options, results: Results) -> Assembled:
    """Return the JSON keys that the issue of choosing shots names, and the table's rows."""
    sessions = _sessions(results)
    why = "; ".join(dict.fromkeys(r.problem for r in results.values() if r.problem)) or "not run"
    data: dict[str, Any] = {"detail": {"sessions": [_short(s) for s in sessions]}}
    rows: list[Row] = []
    by = {name: [s for s in sessions if s["planner"] == name] for name in dict.fromkeys(s["planner"] for s in sessions)}
    _ratio(by, why, data, rows)
    _endings(by, why, data, rows)
    _pockets(by, why, data, rows)
    _coverage(by, why, data, rows)
    _times(by, results, why, data, rows)
    return Assembled(data, rows)


def _sessions(results: Results) -> list[Session]:
    found = [(name, r.value) for name, r in results.items() if name.startswith("shots_ratio/") and r.value]
    return [value for _, value in sorted(found, key=lambda f: f[0])]


def _part(sessions: Sequence[Session]) -> str:
    return f"{len(sessions)} of {_ALL} sessions" + ("" if len(sessions) == _ALL else ": a part of the benchmark")


def shots_until(session: Session, limit: float = LIMIT) -> int:
    """Return after how many shots the error is first below ``limit``; the budget and one more where it never is."""
    return next((n for n, error in enumerate(session["rest_m"]) if n and error < limit), session["budget"] + 1)


def shots_to_stay(session: Session, limit: float = LIMIT) -> int:
    """Return after how many shots the error is below ``limit`` for the rest of the session."""
    errors = session["rest_m"]
    since = next((n for n in range(len(errors)) if all(e < limit for e in errors[n:])), len(errors))
    return max(since, 1) if since < len(errors) else session["budget"] + 1


def pairs(by: Mapping[str, Sequence[Session]], one: str, other: str) -> list[tuple[Session, Session]]:
    """Return the sessions of two planners in the conditions that both have played."""
    place = {_condition(s): s for s in by.get(other, ())}
    return [(s, place[_condition(s)]) for s in by.get(one, ()) if _condition(s) in place]


def _condition(session: Session) -> tuple[str, str, int]:
    return session["layout"], session["physics"], session["seed"]


def _ratio(by: Mapping[str, Sequence[Session]], why: str, data: dict[str, Any], rows: list[Row]) -> None:
    what = f"shots until the mean held-out rest error is below 1.5 cm, median: {OWN} over {BASELINE}"
    both = pairs(by, OWN, BASELINE)
    if both:
        own, base = ([shots_until(s) for s in side] for side in zip(*both, strict=True))
        data["shots_ratio"] = float(np.median(own) / np.median(base))
        stay = [float(np.median([shots_to_stay(s) for s in side])) for side in zip(*both, strict=True)]
        fewer, more = (
            sum(a < b for a, b in zip(own, base, strict=True)),
            sum(a > b for a, b in zip(own, base, strict=True)),
        )
        note = (
            f"{_part([a for a, _ in both])} each; fewer shots in {fewer}, more in {more}; until it stays below: "
            f"{number(stay[0])} over {number(stay[1])}"
        )
        rows.append(Row("shots_ratio", what, data["shots_ratio"], "", 0.6, note=note))
    else:
        data["shots_ratio"] = f"not measured: {why}"
        rows.append(Row("shots_ratio", what, None, target=0.6, note=why))
    data["shots"], data["final_m"] = {}, {}
    for name, sessions in by.items():
        counts = [shots_until(s) for s in sessions]
        never = sum(c > s["budget"] for c, s in zip(counts, sessions, strict=True))
        data["shots"][name] = float(np.median(counts))
        budget = sessions[0]["budget"]
        by_physics = "; ".join(
            f"{p} {number(float(np.median([c for c, s in zip(counts, sessions, strict=True) if s['physics'] == p])))}"
            for p in PHYSICS
            if any(s["physics"] == p for s in sessions)
        )
        note = f"{_part(sessions)}; {never} never get there and count as {budget + 1}; {by_physics}"
        rows.append(Row(f"shots.{name}", f"those shots, {name}: median", data["shots"][name], "shots", note=note))
        ends = [s["rest_m"][-1] for s in sessions]
        data["final_m"][name] = float(np.median(ends))
        note = f"before any shot {number(100 * float(np.median([s['rest_m'][0] for s in sessions])))} cm; "
        note += f"90 % of sessions within {number(100 * float(np.quantile(ends, 0.9)))} cm"
        rows.append(
            Row(f"final_m.{name}", f"error at the end, {name}: median", 100 * data["final_m"][name], "cm", note=note)
        )


def _endings(by: Mapping[str, Sequence[Session]], why: str, data: dict[str, Any], rows: list[Row]) -> None:
    what = f"sessions that end early because nothing is playable, {OWN}"
    if OWN in by:
        data["ended_early"] = sum(s["ended_early"] for s in by[OWN])
        rows.append(Row("ended_early", what, data["ended_early"], "sessions", 1.0, note=_ended(by[OWN])))
    else:
        data["ended_early"] = f"not measured: {why}"
        rows.append(Row("ended_early", what, None, "sessions", 1.0, note=why))
    for name in by:
        if name != OWN:
            count = sum(s["ended_early"] for s in by[name])
            rows.append(Row(f"ended.{name}", f"the same, {name}", count, "sessions", note=_ended(by[name])))
    broke = [
        f"{s['planner']}.{s['layout']}.{s['physics']}.{s['seed']}: {s['ended']}"
        for v in by.values()
        for s in v
        if s["broke"]
    ]
    if broke:
        data["broke"] = broke
        rows.append(
            Row("broke", "sessions that ended for another reason", len(broke), "sessions", 0.0, note="; ".join(broke))
        )


def _ended(sessions: Sequence[Session]) -> str:
    early = [f"{s['layout']}.{s['physics']}.{s['seed']} after {s['explored']}" for s in sessions if s["ended_early"]]
    return f"{_part(sessions)}" + (f"; {', '.join(early)}" if early else "")


def _strokes(sessions: Iterable[Session]) -> list[Mapping[str, Any]]:
    return [shot for s in sessions for shot in s["shots"]]


def _pockets(by: Mapping[str, Sequence[Session]], why: str, data: dict[str, Any], rows: list[Row]) -> None:
    names = [OWN, *(n for n in by if n != OWN)]
    for key, limit, what in (
        ("cue_pocketed", 3.0, "shots in which the cue ball was pocketed"),
        ("any_pocketed", 8.0, "shots in which any ball was pocketed"),
    ):
        for name in names:
            shots = _strokes(by.get(name, ()))
            lost = sum(0 in s["pocketed"] if key == "cue_pocketed" else bool(s["pocketed"]) for s in shots)
            label = f"{what}, {name}"
            if name == OWN:
                data[key] = lost / len(shots) if shots else f"not measured: {why}"
                note = f"{lost} of {len(shots)} shots in {_part(by[OWN])}" if shots else why
                rows.append(Row(key, label, 100 * lost / len(shots) if shots else None, "%", limit, note=note))
            else:
                data.setdefault("pocketed", {}).setdefault(name, {})[key] = lost / len(shots)
                rows.append(
                    Row(f"pocketed.{name}", label, 100 * lost / len(shots), "%", note=f"{lost} of {len(shots)}")
                )
    told = {
        "played": [p for shot in _strokes(by.get(OWN, ())) for p in shot["pockets"]],
        "typical": [p for s in by.get(OWN, ()) for p in s["typical_pockets"]],
    }
    data["brier"], data["detail"]["reliability"] = {}, {}
    words = {
        "played": "balls in the shots played, as predicted before each",
        "typical": "balls in typical shots from exact starts, as the last estimate predicts",
    }
    for kind, points in told.items():
        if not points:
            data["brier"] = f"not measured: {why}"
            rows.append(Row("brier", "Brier score of pocket probabilities", None, note=why))
            return
        data["brier"][kind] = brier(points)
        data["detail"]["reliability"][kind] = reliability(points)
        rate = float(np.mean([y for _, y in points]))
        note = f"{len(points)} balls, {number(100 * rate)} % pocketed: "
        note += f"saying so of each scores {number(rate * (1 - rate))}"
        rows.append(
            Row(f"brier.{kind}", f"Brier score of pocket probabilities: {words[kind]}", data["brier"][kind], note=note)
        )


def brier(points: Sequence[Sequence[float]]) -> float:
    """Return the mean square of probability less outcome over [probability, outcome] pairs."""
    values = np.array(points, float)
    return float(np.mean((values[:, 0] - values[:, 1]) ** 2))


def reliability(points: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Return for each bin of predicted probabilities their mean, the share that came true, and the count."""
    values = np.array(points, float)
    place = np.clip(np.searchsorted(BINS, values[:, 0], side="right") - 1, 0, len(BINS) - 2)
    return [
        {
            "predicted": float(values[rows, 0].mean()),
            "happened": float(values[rows, 1].mean()),
            "count": int(rows.sum()),
        }
        for rows in (place == k for k in range(len(BINS) - 1))
        if rows.any()
    ]


def _coverage(by: Mapping[str, Sequence[Session]], why: str, data: dict[str, Any], rows: list[Row]) -> None:
    what = f"outcomes of the next shot within 95 % regions, after {AFTER} shots, {OWN}"
    found = inside_after(by.get(OWN, ()))
    if not found:
        data["coverage95"] = f"not measured: {why if OWN not in by else 'no session is that long'}"
        rows.append(Row("coverage95", what, None, "%", 85.0, ">=", note=data["coverage95"].partition(": ")[2]))
        return
    share = float(np.mean(found))
    data["coverage95"] = share
    radii = [r for s in by[OWN] for shot in s["shots"][AFTER:] for r in shot["radius_m"]]
    early = [i for s in by[OWN] for shot in s["shots"][:AFTER] if shot["revision"] for i in shot["stated"]]
    twin = [i for s in by[OWN] for shot in s["shots"][AFTER:] for i in shot["inside"]]
    note = f"{len(found)} balls in {_part(by[OWN])}; radius of the twin's regions: median "
    note += f"{number(100 * float(np.median(radii)))} cm"
    if twin:
        note += f"; by the twin alone, not widened by what was seen, {number(100 * float(np.mean(twin)))} %"
    if early:
        note += f"; fitted, but before that {number(100 * float(np.mean(early)))} %"
    for name in by:
        if name != OWN and inside_after(by[name]):
            note += f"; {name} {number(100 * float(np.mean(inside_after(by[name]))))} %"
    rows.append(Row("coverage95", what, 100 * share, "%", 85.0, ">=", note))
    rows.append(Row("coverage95", what, 100 * share, "%", 99.0, "<=", note))


def inside_after(sessions: Iterable[Session]) -> list[int]:
    """Return for each ball in shots after the first :data:`AFTER` whether it was within its stated region."""
    return [i for s in sessions for shot in s["shots"][AFTER:] for i in shot["stated"]]


def _times(
    by: Mapping[str, Sequence[Session]], results: Results, why: str, data: dict[str, Any], rows: list[Row]
) -> None:
    what = "one decision of the offline planner with a fitted twin and six balls, two threads, median"
    runs = {n.split(".")[2]: r.value for n, r in sorted(results.items()) if n.startswith("decision_s/") and r.value}
    data["detail"]["decisions"] = runs
    walls = [s for run in runs.values() for s in run["wall_s"]]
    if walls:
        data["decision_s"] = float(np.median(walls))
        work = float(np.median([s for run in runs.values() for s in run["processor_s"]]))
        note = f"{len(walls)} decisions, longest {number(max(walls))} s; processor {number(work)} s"
        rows.append(Row("decision_s", what, data["decision_s"], "s", 8.0, note=note))
    else:
        reason = (
            "; ".join(r.problem for n, r in results.items() if n.startswith("decision_s/") and r.problem) or "not run"
        )
        data["decision_s"] = f"not measured: {reason}"
        rows.append(Row("decision_s", what, None, "s", 8.0, note=reason))
    data["session_s"] = {}
    for name, sessions in by.items():
        seconds = [s["session_s"] for s in sessions]
        data["session_s"][name] = float(np.mean(seconds))
        note = f"decisions {number(float(np.mean([sum(s['decision_s']) for s in sessions])))}, fits "
        note += f"{number(float(np.mean([sum(s['fit_s']) for s in sessions])))} s"
        rows.append(
            Row(
                f"session_s.{name}",
                f"processor time of a session, {name}: mean",
                data["session_s"][name],
                "s",
                note=note,
            )
        )


def _short(session: Session) -> dict[str, Any]:
    """Return what the picture and the sheets need of a session."""
    names = ("layout", "physics", "seed", "planner", "budget", "ended", "ended_early", "explored", "rest_m", "median_m")
    more = ("refused", "unusable", "session_s")
    shots = [
        {k: s[k] for k in ("role", "revision", "speed", "pocketed", "stated", "inside", "error_m")}
        for s in session["shots"]
    ]
    return {**{k: session[k] for k in (*names, *more)}, "shots_until": shots_until(session), "shots": shots}


def sheets(data: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return one row for each session, and one for each shot."""
    sessions = data["detail"]["sessions"]
    keys = ("layout", "physics", "seed", "planner")
    rows = [
        {
            **{k: s[k] for k in keys},
            **{
                k: s[k] for k in ("shots_until", "explored", "ended_early", "ended", "refused", "unusable", "session_s")
            },
            "unfitted_m": s["rest_m"][0],
            "final_m": s["rest_m"][-1],
        }
        for s in sessions
    ]
    curves = [
        {**{k: s[k] for k in keys}, "shots": n, "rest_m": e, "median_m": s["median_m"][n]}
        for s in sessions
        for n, e in enumerate(s["rest_m"])
    ]
    return {"sessions": rows, "curves": curves}
