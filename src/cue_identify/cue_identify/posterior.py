"""How well the shots determine the parameters: Laplace's approximation at the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_identify.observations import ShotData
from cue_identify.polish import Linearised
from cue_identify.space import Space

_KNOWN = 0.5
"""A parameter is identifiable when the shots at least halve the standard deviation that bounds and prior give."""

_UNIFORM = 1.0 / np.sqrt(12.0)  # [-] standard deviation of a uniform distribution over the unit range
_CORRELATED = 0.9


@dataclass(frozen=True)
class Posterior:
    """Uncertainty of the d fitted parameters.

    Attributes:
        covariance: (d, d) in the parameters' units.
        identifiable: (d,) bool: the shots say something about it.
        at_bound: (d,) bool.
        pairs: names of parameters that the shots can hardly tell apart, with their correlation.
    """

    covariance: np.ndarray
    identifiable: np.ndarray
    at_bound: np.ndarray
    pairs: tuple[tuple[str, str, float], ...]


def laplace(lines: Linearised, shots: Sequence[ShotData], space: Space, unit: np.ndarray) -> Posterior:
    """Return the posterior from the normal equations at the optimum.

    The nuisances are marginalised (they stand in the matrix). The covariance is scaled by the residuals that were
    really left, and by how alike neighbouring ones are: a smooth misfit of a hundred samples is not a hundred
    independent witnesses. How far the single shots pull a parameter in opposite directions is added (the "sandwich" of
    White 1980, shots as clusters): it shows what their noise does not explain.
    """
    d = len(space.names)
    bread = np.linalg.inv(lines.hessian)[:d, :d]
    covariance = bread * _inflation(lines, shots)
    if len(shots) > 1:
        pulls = lines.scores @ bread
        disagreement = np.sum((pulls - pulls.mean(axis=0)) ** 2, axis=0) * len(shots) / (len(shots) - 1)
        stretch = np.sqrt(1.0 + disagreement / np.diag(covariance))
        covariance = covariance * np.outer(stretch, stretch)
    # No parameter is less known than uniformly between its bounds, or than by its prior.
    sigma = np.sqrt(np.diag(covariance))
    widest = np.minimum(space.prior_stddev, _UNIFORM)
    cap = np.minimum(1.0, widest / sigma)
    covariance = covariance * np.outer(cap, cap)
    sigma = np.minimum(sigma, widest)
    correlation = covariance / np.outer(sigma, sigma)
    pairs = tuple(
        (space.names[i], space.names[j], float(correlation[i, j]))
        for i in range(d)
        for j in range(i + 1, d)
        if abs(correlation[i, j]) > _CORRELATED
    )
    return Posterior(
        covariance=covariance * np.outer(space.span, space.span),
        identifiable=sigma < _KNOWN * widest,
        at_bound=space.at_bound(unit),
        pairs=pairs,
    )


def _inflation(lines: Linearised, shots: Sequence[ShotData]) -> float:
    """Return the factor on the covariance: residual variance times correlation time, at least 1."""
    weighted = [r * np.sqrt(w)[:, None] for r, w in zip(lines.residuals, lines.weights, strict=True)]
    every = np.concatenate(weighted)
    variance = float(np.sum(every**2) / max(2 * len(every), 1))
    product, square = 0.0, 0.0
    for shot, r in zip(shots, weighted, strict=True):
        for ball in np.unique(shot.ball_id):
            track = r[shot.ball_id == ball]
            product += float(np.sum(track[1:] * track[:-1]))
            square += float(np.sum(track[1:] ** 2))
    rho = float(np.clip(product / square if square > 0 else 0.0, 0.0, 0.95))
    return max(variance * (1 + rho) / (1 - rho), 1.0)
