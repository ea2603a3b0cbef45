"""What is planned, how long it takes, and whether the map of what the arm can reach says the same."""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.arm.draws import Draw, anywhere, draws, robot, table
from cue_arm.errors import ArmError
from cue_arm.planner import MinkBackend, StrokeRequest
from cue_arm.reach_map import Grid, ReachMap
from cue_arm.search import Search
from cue_core.shots import Shot


def _refusal(backend: MinkBackend, draw: Draw) -> str:
    """Return why a shot is not planned, as numbers differ from shot to shot without them; empty = it is planned."""
    try:
        backend.plan(StrokeRequest(draw.shot, draw.places[0], draw.others, backend.robot.home))
    except ArmError as error:
        return re.sub(r"-?\d[\d.]*", "#", str(error))
    return ""


def compare(seed: int, block: int, shots: int, denser: int) -> dict[str, Any]:
    """Plan shots as usual and with a denser search."""
    usual = MinkBackend(robot(), table())
    dense = MinkBackend(robot(), table(), search=Search().denser(denser))
    planned = feasible = 0
    reasons: Counter[str] = Counter()
    missed = []
    for draw in islice(draws(table(), seed, block), shots):
        refused = _refusal(usual, draw)
        found = not refused or not _refusal(dense, draw)
        planned += not refused
        feasible += found
        reasons[refused] += bool(refused)
        if found and refused:
            missed.append(f"{draw.shot.shot_id}: {refused}")
    return {"shots": shots, "planned": planned, "feasible": feasible, "missed": missed, "reasons": dict(reasons)}


def clock(seed: int, shots: int) -> dict[str, Any]:
    """Take the time of every request, refused ones too; the arm is at home, as it is between strokes."""
    backend = MinkBackend(robot(), table())
    first = next(draws(table(), seed, 1000))
    _refusal(backend, first)
    cpu, wall, planned = [], [], []
    for draw in islice(draws(table(), seed, 1001), shots):
        begin, began = time.process_time(), time.perf_counter()
        planned.append(not _refusal(backend, draw))
        cpu.append(1e3 * (time.process_time() - begin))
        wall.append(1e3 * (time.perf_counter() - began))
    return {"cpu_ms": cpu, "wall_ms": wall, "planned": planned}


def agreement(seed: int, samples: int, quick: bool) -> dict[str, Any]:
    """Build the map and ask it and the planner about strokes at a cue ball alone on the table."""
    backend, where = MinkBackend(robot(), table()), table()
    begin = time.process_time()
    known = ReachMap.build(backend.reach, Grid(spacing=0.2, azimuths=16) if quick else Grid())
    built = time.process_time() - begin
    rng = np.random.default_rng([seed, 77])
    counts, spent = Counter[str](), []
    for _ in range(samples):
        ball, azimuth, speed = anywhere(where, rng), float(rng.uniform(-np.pi, np.pi)), float(rng.uniform(0.1, 1.5))
        begin = time.process_time()
        said = known.reachable(ball, azimuth, speed)[0]
        spent.append(1e6 * (time.process_time() - begin))
        refused = _refusal(backend, Draw(Shot("s", speed, azimuth), {0: ball}))
        counts["agreed" if said != bool(refused) else "map too bold" if said else "map too shy"] += 1
        counts["playable"] += not refused
    return {
        "samples": samples,
        "counts": dict(counts),
        "lookup_us": float(np.median(spent)),
        "build_s": built,
        "x": known.x.tolist(),
        "y": known.y.tolist(),
        "playable": np.round(known.share_playable(), 3).tolist(),
    }
