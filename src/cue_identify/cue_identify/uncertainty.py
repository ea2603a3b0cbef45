"""Two checks of the error bars that need no formula: fits to resampled shots, and the profile of the objective.

Both are slow, and meant for offline use: ``laplace`` in :mod:`cue_identify.posterior` says the same in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cue_identify.observations import ShotData
from cue_identify.polish import Point, Polish
from cue_identify.replay import Replayer
from cue_identify.space import Space

_ITERATIONS = 5  # from the optimum of all shots, that of a resample is near
_EXACTLY, _TO_THE_END = 1e-4, 12  # log-likelihood, iterations: a profile is made of small differences


def bootstrap(
    replayer: Replayer,
    shots: Sequence[ShotData],
    point: Point,
    space: Space,
    scale: float,
    draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return (draws, d) optima, in unit coordinates, each fitted to as many shots drawn with replacement.

    Shots are drawn, not samples: those of one shot err together (Efron and Tibshirani 1993, chapter 8).

    Args:
        replayer: runs the simulations.
        shots: fitted.
        point: their optimum, where each fit starts.
        space: of the parameters.
        scale: robust scale of the fit [m].
        draws: how many.
        rng: draws.
    """
    active = np.ones(len(point.unit), bool)
    found = []
    for _ in range(draws):
        chosen = rng.integers(0, len(shots), len(shots)).tolist()
        drawn = [shots[i] for i in chosen]
        polish = Polish(replayer, drawn, space, scale, space.nominal, places=True)
        start = Point(point.unit, tuple(point.nuisance[i] for i in chosen))
        found.append(polish.run(start, active, _ITERATIONS)[0].unit)
    return np.array(found)


def profile(
    replayer: Replayer,
    shots: Sequence[ShotData],
    point: Point,
    space: Space,
    scale: float,
    name: str,
    values: Sequence[float],
) -> np.ndarray:
    """Return (k,) how much the objective rises when one parameter is held at each of ``values``, the others fitted.

    At k Laplace standard deviations from the optimum it rises by k^2 / 2 when the objective is as round as Laplace
    supposes (Venzon and Moolgavkar 1988), times the dispersion.

    Args:
        replayer: runs the simulations.
        shots: fitted.
        point: their optimum.
        space: of the parameters.
        scale: robust scale of the fit [m].
        name: of the parameter held.
        values: (k,), in unit coordinates.
    """
    j = space.names.index(name)
    polish = Polish(replayer, shots, space, scale, space.nominal, places=True)
    active = np.arange(len(point.unit)) != j
    everything = np.ones(len(point.unit), bool)
    found, lowest, _ = polish.run(point, everything, _TO_THE_END, _EXACTLY)
    rises = []
    for value in values:
        unit = found.unit.copy()
        unit[j] = value
        rises.append(polish.run(replace(found, unit=unit), active, _TO_THE_END, _EXACTLY)[1] - lowest)
    return np.array(rises)
