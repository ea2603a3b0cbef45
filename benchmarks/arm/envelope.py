"""Hostile trajectories against the envelope."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.arm.draws import draws, robot, table
from cue_arm.envelope import Envelope, EnvelopeError, EnvelopeSettings
from cue_arm.errors import ArmError
from cue_arm.hostile import Hostile, Monitor
from cue_arm.planner import MinkBackend, StrokeRequest
from cue_arm.trajectory import JointTrajectory

_HONEST = 8
_SAMPLES = 120  # moments of a trajectory that the monitor looks at


def attack(seed: int, block: int, count: int) -> dict[str, Any]:
    """Offer trajectories to the envelope; what it lets pass is looked at by the monitor."""
    arm, where = robot(), table()
    envelope, monitor = Envelope(arm, where), Monitor(arm, where, EnvelopeSettings())
    rng = np.random.default_rng([seed, block, 3])
    make = Hostile(arm, _honest(seed, block), rng)
    limits: Counter[str] = Counter()
    escapes: list[str] = []
    crashes: list[str] = []
    for _ in range(count):
        trajectory = make()
        try:
            envelope.check(trajectory, arm.home if rng.random() < 0.5 else None)
        except EnvelopeError as error:
            limits[error.limit] += 1
            continue
        except Exception as error:  # that is what is looked for
            crashes.append(f"{type(error).__name__}: {error}")
            continue
        limits["passed"] += 1
        escapes += monitor.escapes(trajectory, rng, _SAMPLES)
    return {"count": count, "limits": dict(limits), "escapes": escapes[:20], "crashes": crashes[:20]}


def _honest(seed: int, block: int) -> list[JointTrajectory]:
    backend, made = MinkBackend(robot(), table()), []
    for draw in islice(draws(table(), seed, 200 + block), 40):
        try:
            request = StrokeRequest(draw.shot, draw.places[0], draw.others, backend.robot.home)
            made.append(backend.plan(request).trajectory)
        except ArmError:
            continue
        if len(made) == _HONEST:
            break
    return made
