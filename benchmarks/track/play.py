"""The tracker in front of a sequence, and a usual recipe beside it."""

from __future__ import annotations

import time
from typing import Any

import cv2
import numpy as np

from benchmarks.track.scoring import Reported, pair, score_events, score_images
from benchmarks.track.sequences import Sequence, sequence
from cue_core.shots import ShotRecord
from cue_perception.pipeline import Pipeline, TrackerConfig


def accuracy(seed: int, index: int, frames: int = 0) -> dict[str, Any]:
    """Track one world and score it."""
    seen = sequence(seed, index, frames=frames)
    said, records, _ = track(seen)
    truth = seen.scene.truth
    images = score_images(truth, said, seen.table.ball_radius)
    last = next((s for s in reversed(said) if s is not None), None)
    names: dict[int, int] = {}
    if last is not None:  # the tracker's names by where its balls are: a wrong name is not a wrong time
        for report, places in zip(said, truth.position, strict=True):
            if report is not None:
                states = list(report.states)
                found = pair(np.array([b.position for b in states]).reshape(-1, 2), places, seen.table.ball_radius)
                for a, b in found:
                    names.setdefault(states[a].ball_id, int(truth.ids[b]))
    strikes = [(r.strike_time, r.strike_time_stddev) for r in records]
    events = [
        (r.strike_time + c.time, c.time_stddev, int(c.kind), c.ball_id, c.other_id) for r in records for c in r.contacts
    ]
    scene = seen.scene
    return {
        **images,
        "events": score_events(truth, names, strikes, events),
        "flags": [list(r.flags) for r in records],
        "records": len(records),
        "table": scene.world.table.name,
        "count": len(truth.ids),
        "exposure": scene.world.camera.exposure,
        "noise": scene.noise,
        "ids": truth.ids.tolist(),
    }


def track(
    seen: Sequence, clock: bool = False
) -> tuple[list[Reported | None], list[ShotRecord], dict[str, list[float]]]:
    """Return what the tracker said to every image, its shot records, and what the images cost [s]."""
    pipeline = Pipeline(TrackerConfig(), seen.table)
    said: list[Reported | None] = []
    records = []
    cost: dict[str, list[float]] = {"cpu": [], "wall": []}
    for stamp, image in zip(seen.scene.truth.time, seen.images(), strict=False):
        wall, cpu = time.perf_counter(), time.process_time()
        out = pipeline.process(image, round(stamp * 1e9), seen.lens)
        if clock and out.balls:
            cost["cpu"].append(time.process_time() - cpu)
            cost["wall"].append(time.perf_counter() - wall)
        if out.record is not None:
            records.append(out.record)
        found = out.detections
        said.append(
            Reported(
                out.balls,
                np.array([d.position for d in found]).reshape(-1, 2),
                np.array([d.covariance for d in found]).reshape(-1, 2, 2),
            )
            if out.balls
            else None
        )
    last = pipeline.recorder.abort("cut")
    if last is not None:
        records.append(last)
    return said, records, cost


def speed(seed: int, index: int, width: int, height: int, frames: int = 0) -> dict[str, Any]:
    """Clock the tracker on one world."""
    seen = sequence(seed, index, width, height, frames)
    _, _, cost = track(seen, clock=True)
    return {"balls": len(seen.scene.truth.ids), "ms": {k: [round(1e3 * v, 3) for v in t] for k, t in cost.items()}}


def hough(seed: int, index: int, width: int, height: int, frames: int = 0) -> dict[str, Any]:
    """Clock and score the usual recipe: grey, median, Hough circles of about the right radius, cloth colour left out.

    It is told where the table is (the true noses) and how large a ball looks, which users set by hand.
    """
    cv2.setNumThreads(1)
    seen = sequence(seed, index, width, height, frames)
    truth, camera, radius = seen.scene.truth, seen.scene.world.camera, seen.table.ball_radius
    table = seen.table
    x, y = table.length / 2, table.width / 2
    noses = camera.project(np.array([[-x, -y, 0.0], [x, -y, 0.0], [x, y, 0.0], [-x, y, 0.0]]))
    mask = np.zeros((height, width), np.uint8)
    cv2.fillConvexPoly(mask, np.round(noses).astype(np.int32), 255)
    ends = camera.project(np.array([[-radius, 0, radius], [radius, 0, radius]]))
    pixels = float(np.linalg.norm(ends[1] - ends[0]) / 2)
    missed = false = ball_frames = 0
    errors, cpu, wall = [], [], []
    for frame, image in enumerate(seen.images()):
        before_wall, before = time.perf_counter(), time.process_time()
        grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), 5)
        circles = cv2.HoughCircles(
            grey,
            cv2.HOUGH_GRADIENT,
            1,
            1.6 * pixels,
            param1=100,
            param2=14,
            minRadius=int(0.75 * pixels),
            maxRadius=int(1.3 * pixels) + 1,
        )
        cpu.append(1e3 * (time.process_time() - before))
        wall.append(1e3 * (time.perf_counter() - before_wall))
        centres = np.zeros((0, 2)) if circles is None else circles.reshape(-1, 3)[:, :2].astype(float)
        inside = [mask[int(np.clip(v, 0, height - 1)), int(np.clip(u, 0, width - 1))] > 0 for u, v in centres]
        centres = centres[np.array(inside, bool)] if len(centres) else centres
        playing = np.flatnonzero(truth.in_play[frame])
        places = truth.position[frame, playing]
        where = camera.project(np.column_stack([places, np.full(len(places), radius)]))
        pairs = pair(centres, where, pixels)
        ball_frames += len(playing)
        missed += len(playing) - len(pairs)
        false += len(centres) - len(pairs)
        errors += [float(np.linalg.norm(centres[a] - where[b])) / pixels * radius for a, b in pairs]
    return {
        "missed": missed,
        "false": false,
        "ball_frames": ball_frames,
        "errors": [round(e, 6) for e in errors[::7]],
        "ms": {"cpu": [round(v, 3) for v in cpu], "wall": [round(v, 3) for v in wall]},
    }


def memory(seed: int, index: int, images: int) -> dict[str, Any]:
    """Show one sequence again and again and watch this process's memory [MiB]."""
    seen = sequence(seed, index)
    pipeline = Pipeline(TrackerConfig(), seen.table)
    shown, sizes = 0, []
    while shown < images:
        for image in seen.images(seed=shown):
            pipeline.process(image, round(shown * 1e9 / 60), seen.lens)
            if shown % 250 == 0:
                sizes.append([shown, resident()])
            shown += 1
            if shown >= images:
                break
    return {"images": shown, "mib": sizes}


def resident() -> float:
    """Return the memory that this process holds [MiB]."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20
