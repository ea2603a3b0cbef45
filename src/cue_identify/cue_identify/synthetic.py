"""Recorded shots made up with known parameters, to test whether a fit finds them again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cue_core.balls import BallState, Motion, Visibility
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_core.table import TableModel
from cue_identify.replay import Simulator

_HORIZON = 15.0  # [s]
_STILL_FRAMES = 5  # after rest, as a tracker needs to be sure
_PERFECT = ("ball_restitution", "cushion_restitution", "tip_restitution")


@dataclass(frozen=True)
class Noise:
    """How well a synthetic camera and arm measure.

    Attributes:
        frame_rate: of the camera [1/s].
        track: standard deviation of a position in one image, along an axis [m].
        rest: of a resting ball's position, averaged over images [m].
        azimuth: of the cue ball's direction against the stroke's, unseen by the arm [rad].
        speed: relative, of the tip's speed.
        strike_time: of the record's strike time [s].
        lost: share of the samples that never arrive.
    """

    frame_rate: float = 30.0
    track: float = 7e-4
    rest: float = 2e-4
    azimuth: float = math.radians(0.1)
    speed: float = 0.003
    strike_time: float = 3e-3
    lost: float = 0.0


def hidden_values(rng: np.random.Generator, low: float = 0.3, high: float = 0.6) -> np.ndarray:
    """Return (P,) parameters whose fitted ones differ from the nominal by 30-60 %.

    Restitutions lose that share of the way to their lower bound; what is zero by nature moves by that share of two of
    its prior's standard deviations.
    """
    values = nominal_values()
    for i, p in enumerate(PARAMETERS.values()):
        if not p.fitted:
            continue
        share = rng.uniform(low, high)
        if p.name in _PERFECT:
            values[i] = p.nominal - share * (p.nominal - p.minimum)
            continue
        size = abs(p.nominal) if p.nominal else 2 * p.prior_stddev
        side = rng.choice([-1.0, 1.0])
        margin = 0.02 * (p.maximum - p.minimum)
        moved = [p.nominal + s * share * size for s in (side, -side)]
        inside = [m for m in moved if p.minimum + margin <= m <= p.maximum - margin]
        values[i] = inside[0] if inside else np.clip(moved[0], p.minimum + margin, p.maximum - margin)
    return values


def scattered_balls(rng: np.random.Generator, table: TableModel, ball_ids: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return (2,) rest positions [m] of balls that touch neither each other nor a cushion."""
    half = np.array([table.length / 2, table.width / 2])
    places: list[np.ndarray] = []
    while len(places) < len(ball_ids):
        place = rng.uniform(-half, half)
        clear = all(np.linalg.norm(place - other) > 2.5 * table.ball_radius for other in places)
        if clear and table.inside(place, 0.01):
            places.append(place)
    return dict(zip(ball_ids, places, strict=True))


def record_shot(
    simulator: Simulator,
    values: np.ndarray,
    balls: Mapping[int, np.ndarray],
    shot: Shot,
    index: int,
    rng: np.random.Generator,
    noise: Noise,
) -> tuple[ShotRecord, dict[int, np.ndarray]]:
    """Play one shot with parameters ``values`` (P,); return its record and the balls still on the table."""
    covariance = np.eye(2) * noise.rest**2

    def seen(ball_id: int, place: np.ndarray, gone: bool = False) -> BallState:
        where = place + noise.rest * rng.standard_normal(2)
        motion, visibility = (Motion.POCKETED, Visibility.POCKETED) if gone else (Motion.STATIONARY, Visibility.VISIBLE)
        return BallState(ball_id, where, covariance, motion=motion, visibility=visibility)

    real = Stroke(
        shot.speed * (1 + noise.speed * rng.standard_normal()), shot.azimuth + noise.azimuth * rng.standard_normal()
    )
    times = np.arange(0.0, _HORIZON, 1 / noise.frame_rate) + rng.uniform(0, 1 / noise.frame_rate)
    start = simulator.start([BallState(i, p) for i, p in balls.items()], real, values)
    path = simulator.simulate([start], values[None], [times], _HORIZON, 1)[0]
    late = noise.strike_time * rng.standard_normal()
    tracks, after, left = [], [], {}
    for ball_id, place in balls.items():
        column = simulator.ball_ids.index(ball_id)
        way, rest = path.positions[:, column], path.rest_positions[column]
        gone = bool(path.pocketed[-1, column])
        after.append(seen(ball_id, rest, gone))
        if not gone:
            left[ball_id] = rest
        if np.linalg.norm(way - place, axis=1).max() < 2e-3:
            continue
        travelling = np.flatnonzero(np.linalg.norm(way - rest, axis=1) > 1e-4)
        count = int(travelling[-1]) + 1 if len(travelling) else 1
        count = min(count + (0 if gone else _STILL_FRAMES), len(times))
        spread = np.tile(np.eye(2) * noise.track**2, (count, 1, 1))
        position = way[:count] + noise.track * rng.standard_normal((count, 2))
        kept = rng.random(count) >= noise.lost if noise.lost else np.ones(count, bool)
        tracks.append(BallTrack(ball_id, times[:count][kept] - late, position[kept], spread[kept], gone))
    achieved = Stroke(shot.speed, shot.azimuth, noise.speed * shot.speed, noise.azimuth)
    before = tuple(seen(i, p) for i, p in balls.items())
    record = ShotRecord(
        shot.shot_id, index, shot, achieved, 100.0 * index, before, tuple(after), tuple(tracks), noise.strike_time
    )
    return record, left


def record_session(
    simulator: Simulator,
    table: TableModel,
    values: np.ndarray,
    count: int,
    rng: np.random.Generator,
    noise: Noise | None = None,
    speeds: tuple[float, float] = (0.5, 1.5),
    aimed: float = 0.8,
) -> list[ShotRecord]:
    """Play ``count`` shots, mostly at a ball, nothing reset between them while the cue ball and two others are left.

    Args:
        simulator: plays them.
        table: geometry.
        values: (P,) true parameters.
        count: of shots.
        rng: of places, shots and noise.
        noise: of the measurements.
        speeds: of the tip, smallest and largest [m/s].
        aimed: share of the shots that go at a ball.
    """
    noise = noise or Noise()
    balls = scattered_balls(rng, table, simulator.ball_ids)
    records: list[ShotRecord] = []
    for index in range(count):
        if 0 not in balls or len(balls) < min(3, len(simulator.ball_ids)):
            balls = scattered_balls(rng, table, simulator.ball_ids)
        azimuth = rng.uniform(-math.pi, math.pi)
        others = [ball for ball in balls if ball != 0]
        if others and rng.random() < aimed:
            way = balls[int(rng.choice(others))] - balls[0]
            offset = rng.uniform(-0.7, 0.7) * 2 * table.ball_radius / np.linalg.norm(way)
            azimuth = math.atan2(way[1], way[0]) + math.asin(float(np.clip(offset, -1, 1)))
        shot = Shot(f"shot-{index}", float(rng.uniform(*speeds)), azimuth)
        record, balls = record_shot(simulator, values, balls, shot, index, rng, noise)
        records.append(record)
    return records
