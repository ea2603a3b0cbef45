"""Recordings made up with known terms, in the format of the real one, to test whether a fit finds them again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.recording import MATCH_TABLE
from cue_sim.twin import Start

_COLOURS = ("white", "yellow", "red")
_FRAME = 0.02  # [s]: 50 Hz
_LONGEST = 20.0  # [s]
_STROKE = 0.1  # [s] after the recording begins
_KEPT = 0.015  # [m] of motion since the last sample that is kept


def record_shots(
    model: MatchModel, values: np.ndarray, count: int, rng: np.random.Generator, noise: float = 0.3e-3
) -> list[dict[str, Any]]:
    """Return shots as rows of a recording: white strikes yellow or red, rolling and with some side spin.

    Args:
        model: whose laws hold.
        values: (K,) of its terms: the truth.
        count: of shots.
        rng: of everything.
        noise: standard deviation of a position along an axis [m].
    """
    twin, centre = model.twin(values, (0, 1, 2))
    times = np.arange(0.0, _LONGEST, _FRAME)
    rows = []
    for number in range(count):
        start = _start(rng)
        path = twin.simulate(start, model.parameters(values), times, horizon=_LONGEST)
        centres = path.positions + centre + noise * rng.standard_normal(path.positions.shape)
        balls = {colour: _samples(times, centres[:, i]) for i, colour in enumerate(_COLOURS)}
        rows.append({"shotID": 1000 + 3 * number, "balls": balls})
    return rows


def write_recording(path: Path | str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a gzipped recording."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _start(rng: np.random.Generator) -> Start:
    """Return balls well apart, the white one on its way to another."""
    radius, half = MATCH_TABLE.ball_radius, np.array([MATCH_TABLE.length, MATCH_TABLE.width]) / 2
    while True:
        places = rng.uniform(-1, 1, (3, 2)) * (half - 4 * radius)
        target = int(rng.integers(1, 3))
        way = places[target] - places[0]
        distance = float(np.hypot(*way))
        aside = 2 * radius * rng.uniform(-0.8, 0.8)
        direction = np.arctan2(way[1], way[0]) + np.arcsin(aside / distance)
        ahead = np.array([np.cos(direction), np.sin(direction)])
        third = places[3 - target] - places[0]
        clear = abs(float(ahead[0] * third[1] - ahead[1] * third[0])) > 4 * radius
        if clear and distance > 0.5 and float(np.hypot(*(places[2] - places[1]))) > 0.4:
            break
    speed = rng.uniform(1.0, 3.5)
    velocities, spins = np.zeros((3, 2)), np.zeros((3, 3))
    velocities[0] = speed * ahead
    spins[0] = speed / radius * np.array([-ahead[1], ahead[0], rng.uniform(-0.5, 0.5)])
    return Start(places, velocities, spins, np.ones(3, bool))


def _samples(times: np.ndarray, centres: np.ndarray) -> dict[str, list[float]]:
    """Return the samples of one ball (T, 2) [m], table frame, that a recording keeps."""
    size, radius = np.array([MATCH_TABLE.length, MATCH_TABLE.width]), MATCH_TABLE.ball_radius
    corner = np.clip(centres + size / 2, radius, size - radius)
    kept = [0]
    for i in range(1, len(times) - 1):
        if np.hypot(*(corner[i] - corner[kept[-1]])) >= _KEPT:
            kept.append(i)
    kept.append(len(times) - 1)
    when = [0.0, *(times[kept[1:]] + _STROKE).tolist()]
    return {"t": when, "x": corner[kept, 0].tolist(), "y": corner[kept, 1].tolist()}
