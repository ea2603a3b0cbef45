"""A cheap stand-in for the worth of a shot: which kinds turned out to teach, and to be safe.

A mean simulation costs a hundredth of a look at the ensemble. The worths of the shots looked at first are a ridge
regression (Hoerl & Kennard 1970) on what mean simulations say; it picks those to be looked at next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_agent.candidates import Candidate
from cue_agent.peers import CUE_BALL, Prediction, Scene
from cue_agent.value import MOVED, travel

_RIDGE = 3.0


def features(scene: Scene, candidate: Candidate, prediction: Prediction) -> np.ndarray:
    """Return the (k,) features of a shot: speed, spin, contacts, what moves, how far, and where to."""
    way = travel(scene, prediction)
    moved = way > MOVED
    rows = [n for n, i in enumerate(prediction.ball_ids) if i == CUE_BALL]
    cue = float(way[rows[0]]) if rows else 0.0
    balls, cushions = min(prediction.ball_contacts, 4), min(prediction.cushion_contacts, 5)
    east, north = np.cos(candidate.azimuth), np.sin(candidate.azimuth)
    speed = np.log(candidate.speed)
    rest = prediction.rest[rows[0]] if rows else np.zeros(2)
    half = np.array([scene.table.length, scene.table.width]) / 2
    pockets = [float(np.linalg.norm(rest - p.position)) for p in scene.table.pockets]
    return np.array(
        [
            speed,
            speed**2,
            balls,
            float(balls > 0),
            float(balls > 1),
            cushions,
            float(cushions > 0),
            float(cushions > 1),
            balls * cushions,
            speed * float(balls > 0),
            speed * float(cushions > 0),
            float(moved.sum()),
            cue,
            float(way.sum()),
            abs(east * north),
            abs(candidate.side_offset),
            candidate.vertical_offset,
            min(float(np.min(half - np.abs(rest))), 0.1),
            min([0.2, *pockets]),
        ]
    )


@dataclass(frozen=True)
class Promise:
    """The regression.

    Attributes:
        middle: (k,) of the features.
        scale: (k,) of them.
        weights: (k,) [nat].
        level: mean gain [nat].
        explained: share of the gains' variance that it explains, R^2, on the shots it was made from.
    """

    middle: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    level: float
    explained: float

    @classmethod
    def of(cls, rows: np.ndarray, gains: Sequence[float]) -> Promise:
        """Fit it to (n, k) features and their n gains [nat], n > 0."""
        y = np.asarray(gains, float)
        middle, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
        x = (rows - middle) / scale
        level = float(y.mean())
        weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ (y - level))
        total = float(np.sum((y - level) ** 2))
        left = float(np.sum((y - level - x @ weights) ** 2))
        return cls(middle, scale, weights, level, 1.0 - left / total if total > 0 else 0.0)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the (n,) worths [nat] expected of (n, k) features."""
        # Beyond what was seen a line leads astray.
        return self.level + np.clip((rows - self.middle) / self.scale, -2.5, 2.5) @ self.weights
