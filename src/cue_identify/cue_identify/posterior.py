"""How well the shots determine the parameters: Laplace's approximation at the optimum, scaled by how shots disagree.

Each shot i gives a gradient s_i and a Gauss-Newton matrix H_i by the parameters, its nuisances marginalised. With P the
precision of the prior and A = (P + sum H_i)^-1, Laplace's covariance A is right when the samples' covariances are. They
are not: the growth of small errors is guessed, and neighbouring samples err together. The shots tell, since each is
replayed with nuisances of its own and so is an independent witness: if the covariances are right, the gradients
scatter as much as the matrices say. Their ratio is the dispersion

    f = sum_i |u_i|^2 / sum_i trace(L_i),   u_i = (1 - L_i)^(-1/2) A^(1/2) s_i,   L_i = A^(1/2) H_i A^(1/2),

where (1 - L_i)^(-1/2) makes up for what each shot bent the optimum its own way (Bell and McCaffrey 2002, "CR2"; shots
as clusters). The posterior is that of the likelihood to the power 1/f (the magnitude adjustment of Pauli, Racugno and
Ventura 2011, which keeps the prior as it is); along single parameters it is stretched where the scatter along them says
so (the "sandwich" of White 1980), by as much as that many shots can be believed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_identify.polish import Linearised
from cue_identify.space import Space

_KNOWN = 0.5
"""A parameter is identifiable when the shots at least halve the standard deviation that bounds and prior give."""

_UNIFORM = 1.0 / np.sqrt(12.0)  # [-] standard deviation of a uniform distribution over the unit range
_CORRELATED = 0.9
_LEAST_DISPERSION = 0.05  # [-] the shots of a log are too few to show less
_LARGEST_LEVERAGE = 0.9  # [-] a shot that alone tells a parameter shows nothing of its own error there


@dataclass(frozen=True)
class Posterior:
    """Uncertainty of the d fitted parameters.

    Attributes:
        covariance: (d, d) in the parameters' units.
        identifiable: (d,) bool: the shots say something about it.
        at_bound: (d,) bool.
        pairs: names of parameters that the shots can hardly tell apart, with their correlation.
        dispersion: the likelihood counts for one over this much.
        information: (d, d) of the shots alone, dispersion included, in unit coordinates.
    """

    covariance: np.ndarray
    identifiable: np.ndarray
    at_bound: np.ndarray
    pairs: tuple[tuple[str, str, float], ...]
    dispersion: float
    information: np.ndarray


def laplace(lines: Linearised, space: Space, unit: np.ndarray) -> Posterior:
    """Return the posterior from the normal equations at the optimum ``unit`` (d,); see the module."""
    precision = np.diag(1.0 / space.prior_stddev**2)
    f = dispersion(lines, precision)
    information = lines.informations.sum(axis=0) / f
    covariance = np.linalg.inv(precision + information)
    stretch = _stretch(lines, precision, f)
    covariance = covariance * np.outer(stretch, stretch)
    # A search that was cut off has a way to go yet; the estimate is off by at least that.
    pull = lines.scores.sum(axis=0) / f + precision @ (unit - space.nominal)
    left = np.linalg.solve(precision + information, pull)
    covariance = covariance + np.outer(left, left)
    # No parameter is less known than uniformly between its bounds, or than by its prior.
    sigma = np.sqrt(np.diag(covariance))
    widest = widest_stddev(space)
    cap = np.minimum(1.0, widest / sigma)
    covariance = covariance * np.outer(cap, cap)
    sigma = np.minimum(sigma, widest)
    return Posterior(
        covariance=covariance * np.outer(space.span, space.span),
        identifiable=sigma < _KNOWN * widest,
        at_bound=space.at_bound(unit),
        pairs=correlated_pairs(covariance, space.names),
        dispersion=f,
        information=information,
    )


def widest_stddev(space: Space) -> np.ndarray:
    """Return the (d,) standard deviations that bounds and prior leave without any shot, in unit coordinates."""
    return np.minimum(space.prior_stddev, _UNIFORM)


def correlated_pairs(covariance: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, str, float], ...]:
    """Return the pairs of names (d,) whose correlation in ``covariance`` (d, d) is near one, with it."""
    sigma = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sigma, sigma)
    places = itertools.combinations(range(len(names)), 2)
    return tuple(
        (names[i], names[j], float(correlation[i, j])) for i, j in places if abs(correlation[i, j]) > _CORRELATED
    )


def dispersion(lines: Linearised, precision: np.ndarray) -> float:
    """Return how much the shots' gradients scatter, 1 = as their information says; see the module.

    Args:
        lines: at the optimum.
        precision: (d, d) of the prior.
    """
    scatter, leverage = _whitened_scores(lines, precision)
    told = np.trace(leverage, axis1=1, axis2=2)
    # One shot's worth of belief in the covariances as they are: that is what is left without any.
    one = max(float(np.sum(told**2) / np.sum(told)) if told.any() else 0.0, 1e-9)
    return max((float(np.sum(scatter**2)) + one) / (float(np.sum(told)) + one), _LEAST_DISPERSION)


def _whitened_scores(lines: Linearised, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return u_i (shots, d) and L_i (shots, d, d) of the module."""
    total = precision + lines.informations.sum(axis=0)
    root = _power(np.linalg.inv(total), 0.5)
    leverage = root @ lines.informations @ root
    scores = lines.scores @ root
    scatter = np.zeros_like(scores)
    for i, part in enumerate(leverage):
        values, axes = np.linalg.eigh(0.5 * (part + part.T))
        values = np.clip(values, 0.0, _LARGEST_LEVERAGE)
        scatter[i] = axes @ ((axes.T @ scores[i]) / np.sqrt(1.0 - values))
    return scatter, leverage


def _stretch(lines: Linearised, precision: np.ndarray, f: float) -> np.ndarray:
    """Return (d,) factors of at least 1 on the standard deviations.

    Along parameter j the n_j shots that matter scatter r_j times as much as all shots do along all parameters. With as
    many shots' worth of belief that r_j is 1, the variance grows by (n_j + n_j r_j) / 2 n_j, where that is more than 1.
    """
    scatter, leverage = _whitened_scores(lines, precision)
    total = precision + lines.informations.sum(axis=0)
    root = _power(np.linalg.inv(total), 0.5)
    axes = root / np.linalg.norm(root, axis=1, keepdims=True)  # row j: what parameter j is, in whitened coordinates
    along = np.sum((scatter @ axes.T) ** 2, axis=0)
    told = np.einsum("ja,iab,jb->j", axes, leverage, axes)
    ratio = (along + f) / (f * told + f)
    return np.sqrt(np.maximum(0.5 * (1.0 + ratio), 1.0))


def _power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """Return a power of a symmetric positive matrix (d, d)."""
    values, axes = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return (axes * np.maximum(values, 1e-300) ** exponent) @ axes.T
