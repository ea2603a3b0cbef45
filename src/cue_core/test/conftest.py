"""Shared builders of test data."""

from __future__ import annotations

import numpy as np
import pytest

from cue_core import BallState, BallTrack, Shot, ShotRecord, Stroke, TableModel, Visibility


@pytest.fixture
def table() -> TableModel:
    return TableModel(
        name="test",
        length=1.06,
        width=0.53,
        ball_radius=0.01905,
        ball_mass=0.049,
        nose_height=0.0242,
        corner_mouth=0.074,
        side_mouth=0.080,
        corner_shelf=0.012,
        side_shelf=0.004,
        rail_width=0.09,
    )


@pytest.fixture
def record() -> ShotRecord:
    rng = np.random.default_rng(3)

    def ball(ball_id: int, **changes: object) -> BallState:
        spread = rng.normal(size=(2, 2))
        return BallState(
            ball_id,
            rng.normal(size=2),
            covariance=spread @ spread.T,
            velocity=rng.normal(size=2),
            velocity_covariance=spread.T @ spread,
            colour="white",
            identity_confidence=0.75,
            **changes,  # type: ignore[arg-type]
        )

    time = np.arange(5) / 30.0
    covariance = np.broadcast_to(np.array([[1e-6, 2e-7], [2e-7, 3e-6]]), (5, 2, 2))
    return ShotRecord(
        shot_id="shot-3",
        index=3,
        commanded=Shot("shot-3", 0.8, -1.2, 0.05, 0.1, -0.2),
        achieved=Stroke(0.79, -1.21, 0.01, 0.002, 0.05, 0.11, -0.19, 12.345678901),
        strike_time=12.3456,
        before=(ball(0), ball(3)),
        after=(ball(0), ball(3, visibility=Visibility.POCKETED)),
        tracks=(BallTrack(3, time, rng.normal(size=(5, 2)), covariance, pocketed=True),),
        strike_time_stddev=0.001,
        flags=("ball_lost",),
    )
