"""A fake simulator, and shots played with it: one cue ball that slides, then rolls, on a table without cushions."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS
from cue_core.shots import Shot
from cue_identify.synthetic import Noise, record_shot

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

G = 9.81


@dataclass
class FakeStart:
    positions: np.ndarray
    velocities: np.ndarray


@dataclass
class FakePath:
    positions: np.ndarray
    pocketed: np.ndarray
    rest_positions: np.ndarray
    fault: str | None = None


class FakeSimulator:
    """Closed form; ``faulty(values)`` tells which samples fail, ``deaf`` makes it ignore all parameters."""

    largest_step = 0.0

    def __init__(self, ball_ids=(0, 1), faulty=lambda values: None, deaf=False):
        self.ball_ids, self.faulty, self.deaf = tuple(ball_ids), faulty, deaf
        self.order = list(PARAMETERS)
        self.simulated = 0
        self.doubts = {}

    def of(self, values, name):
        return PARAMETERS[name].nominal if self.deaf else values[self.order.index(name)]

    def start(self, balls, stroke, values):
        positions = np.full((len(self.ball_ids), 2), 5.0)
        for ball in balls:
            positions[self.ball_ids.index(ball.ball_id)] = ball.position
        velocities = np.zeros_like(positions)
        speed = stroke.tip_speed * (1 + self.of(values, "tip_restitution"))
        velocities[self.ball_ids.index(0)] = speed * np.array([np.cos(stroke.azimuth), np.sin(stroke.azimuth)])
        return FakeStart(positions, velocities)

    def idle(self, names):
        return ()

    def why_doubtful(self, record):
        return self.doubts.get(record.shot_id, "")

    def simulate(self, starts, values, times, horizon, threads):
        self.simulated += len(starts)
        return [self._one(s, v, np.asarray(t)) for s, v, t in zip(starts, values, times, strict=True)]

    def _one(self, start, values, times):
        cue = self.ball_ids.index(0)
        v0 = np.linalg.norm(start.velocities[cue])
        along = start.velocities[cue] / v0
        slide = self.of(values, "sliding_friction") * G
        roll = 5 / 7 * self.of(values, "rolling_friction") * G
        t1 = 2 * v0 / (7 * slide)
        x1, v1 = v0 * t1 - slide * t1**2 / 2, 5 / 7 * v0
        after = np.clip(times - t1, 0, v1 / roll)
        reach = np.where(times < t1, v0 * times - slide * times**2 / 2, x1 + v1 * after - roll * after**2 / 2)
        positions = np.repeat(start.positions[None], len(times), axis=0)
        positions[:, cue] += reach[:, None] * along
        rest = start.positions.copy()
        rest[cue] += (x1 + v1**2 / (2 * roll)) * along
        return FakePath(positions, np.zeros(positions.shape[:2], bool), rest, self.faulty(values))


def straight_records(simulator, values, count=4, seed=0):
    rng = np.random.default_rng(seed)
    records = []
    for index in range(count):
        balls = {0: rng.uniform(-0.2, 0.2, 2)}
        shot = Shot(f"shot-{index}", float(rng.uniform(0.4, 1.2)), float(rng.uniform(-3, 3)))
        records.append(record_shot(simulator, values, balls, shot, index, rng, Noise())[0])
    return records


@pytest.fixture
def fake_simulator():
    return FakeSimulator


@pytest.fixture
def make_straight_records():
    return straight_records


@pytest.fixture
def resting_ball():
    return lambda ball_id, x, y, **more: BallState(ball_id, np.array([x, y], float), np.eye(2) * 1e-8, **more)
