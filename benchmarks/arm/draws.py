"""Random shots, as everything else of the benchmark takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.robot import RobotConfig
from cue_sim.world_config import lay_out

ROOT = Path(__file__).resolve().parents[2]
BALLS = (0, 1, 3, 5, 6, 8)
SPEEDS = (0.1, 1.25)
"""Of the tip [m/s]: a ball leaves the cue at up to 1.6 times that, so at up to 2 m/s."""


@dataclass(frozen=True)
class Draw:
    """A shot at balls that lie anywhere.

    Attributes:
        shot: asked for.
        places: (2,) positions by id [m], the cue ball's (0) among them.
    """

    shot: Shot
    places: dict[int, np.ndarray]

    @property
    def others(self) -> dict[int, np.ndarray]:
        """Return the places of all balls but the cue ball."""
        return {i: p for i, p in self.places.items() if i != 0}


def robot() -> RobotConfig:
    """Return the arm that is measured."""
    return RobotConfig.load(ROOT / "config/robots/ur5e.yaml")


def table() -> TableModel:
    """Return the table that it stands beside."""
    return TableModel.load(ROOT / "config/tables/small.yaml")


def anywhere(where: TableModel, rng: np.random.Generator) -> np.ndarray:
    """Return a place of a ball (2,) [m], up to the cushions."""
    half = np.array([where.length, where.width]) / 2 - where.ball_stop
    return rng.uniform(-half, half)


def draws(where: TableModel, *key: int) -> Iterator[Draw]:
    """Yield shots without end; the same for the same key. None is left out for being hard."""
    index = 0
    while True:
        rng = np.random.default_rng([*key, index])
        index += 1
        places = lay_out(where, len(BALLS), rng, 0.005, spread=False)
        while np.linalg.norm(places[1:] - (ball := anywhere(where, rng)), axis=1).min() < 2 * where.ball_radius + 1e-3:
            pass
        places[0] = ball
        shot = Shot(
            f"shot{index}",
            speed=float(rng.uniform(*SPEEDS)),
            azimuth=float(rng.uniform(-np.pi, np.pi)),
            side_offset=float(rng.uniform(-0.3, 0.3)),
            vertical_offset=float(rng.uniform(-0.1, 0.3)),
        )
        yield Draw(shot, dict(zip(BALLS, places, strict=True)))
