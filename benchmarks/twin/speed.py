"""What a shot costs: on one core, against MuJoCo's own part of it, against pooltool, and on two cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.harness import UnavailableError
from benchmarks.twin import pooltool
from benchmarks.twin.shots import ball_ids, contact_class, contacts, load_table, random_starts
from cue_core.parameters import nominal_values
from cue_sim.twin import Twin

TABLE = "7ft"
BALL_COUNTS = (2, 6, 10, 16)
MS = 1000.0


@contextmanager
def one_core() -> Iterator[int]:
    """Keep this process, and those it starts, on one CPU; yield its number."""
    before = os.sched_getaffinity(0)
    cpu = max(before)
    os.sched_setaffinity(0, {cpu})
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, before)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ms_per_shot(balls: int, count: int, repeats: int, seed: int) -> dict[str, Any]:
    """Time a batch of random shots on the 7-foot table on one core, alternating with the same batch clocked inside.

    Returns:
        ``ms``: per repeat the time of a shot, whole call; ``mj_step_ms``: of that, what its own ``mj_step1`` and
        ``mj_step2`` took in the clocked call, ``clocked_ms`` the whole of it (both empty where the twin has no clock);
        ``steps``, ``motion_s``: means over the shots.
    """
    twin = Twin(load_table(TABLE), ball_ids(balls))
    starts = random_starts([seed, balls, 21], twin.table, balls, count)
    values = nominal_values()
    clock = getattr(twin, "clock_steps", None)
    out: dict[str, Any] = {"ms": [], "mj_step_ms": [], "clocked_ms": []}
    with one_core():
        paths = twin.simulate_batch(starts, values, threads=1)  # warms the caches too
        for _ in range(repeats):
            out["ms"].append(MS / count * _seconds(lambda: twin.simulate_batch(starts, values, threads=1)))
            if clock is not None:
                times = clock(starts, values)
                out["mj_step_ms"].append(MS / count * float(times.mujoco))
                out["clocked_ms"].append(MS / count * float(times.total))
    out["steps"] = float(np.mean([path.steps for path in paths]))
    out["motion_s"] = float(np.mean([path.stop_time for path in paths]))
    return out


def vs_pooltool(balls: int, count: int, repeats: int, seed: int) -> dict[str, Any]:
    """Time the same shots with the twin and with pooltool, by turns, on the same core.

    Returns:
        ``ms`` and ``pooltool_ms`` per repeat; ``rest_mm``: by contact class the median over shots of the largest
        difference between the rest positions [mm]; ``version`` of pooltool; ``refused``: shots that it ended in error.

    Raises:
        UnavailableError: pooltool is not installed.
    """
    twin = Twin(load_table(TABLE), ball_ids(balls))
    starts = random_starts([seed, balls, 21], twin.table, balls, count)
    values = nominal_values()
    with pooltool.Session(twin.table, starts) as session, one_core() as cpu:
        session.pin(cpu)
        played = [k for k in range(count) if k not in session.refused]
        chosen = [starts[k] for k in played]
        paths = twin.simulate_batch(chosen, values, threads=1)
        ours, theirs = [], []
        for _ in range(repeats):
            ours.append(MS / len(played) * _seconds(lambda: twin.simulate_batch(chosen, values, threads=1)))
            theirs.append(MS / len(played) * session.run())
        rest: dict[str, list[float]] = {}
        for path, theirs_at in zip(paths, (session.rest[k] for k in played), strict=True):
            label = contact_class(contacts(path))
            if label is not None:
                both = ~(path.rest_pocketed | np.isnan(theirs_at[:, 0]))
                apart = np.linalg.norm(path.rest_positions - theirs_at, axis=1)[both]
                rest.setdefault(label, []).append(1000 * float(apart.max(initial=0.0)))
        return {
            "ms": ours,
            "pooltool_ms": theirs,
            "rest_mm": {label: float(np.median(values_)) for label, values_ in sorted(rest.items())},
            "version": session.version,
            "refused": len(session.refused),
        }


def scaling_2(count: int, repeats: int, seed: int) -> dict[str, Any]:
    """Time a batch with one and with two threads, by turns.

    Returns:
        ``one_s`` and ``two_s`` per repeat.

    Raises:
        UnavailableError: there is only one core.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise UnavailableError("needs two cores")
    twin = Twin(load_table(TABLE), ball_ids(6))
    starts = random_starts([seed, 6, 22], twin.table, 6, count)
    values = nominal_values()
    out: dict[str, list[float]] = {"one_s": [], "two_s": []}
    twin.simulate_batch(starts[:20], values, threads=2)
    for _ in range(repeats):
        for name, threads in (("one_s", 1), ("two_s", 2)):
            out[name].append(_seconds(lambda n=threads: twin.simulate_batch(starts, values, threads=n)))  # type: ignore[misc]
    return out


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the ratio of the least of times taken by turns: what else the machine did can only have added to them."""
    return min(above) / min(below)
