"""Global search: CMA-ES over rollouts, in the unit box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_identify.replay import Budget


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        unit: (d,) best point sampled.
        cost: of it.
        mean: (d,) centre of the last distribution.
        reason: why it stopped.
        generations: run.
    """

    unit: np.ndarray
    cost: float
    mean: np.ndarray
    reason: str
    generations: int


def cma_search(
    cost: Callable[[Sequence[np.ndarray]], list[float]],
    start: np.ndarray,
    step: float | np.ndarray,
    generations: int,
    population: int,
    rng: np.random.Generator,
    budget: Budget,
) -> SearchResult:
    """Minimise with CMA-ES (Hansen, pycma) from ``start`` (d,) inside [0, 1]^d.

    pycma's own seeding is clock time for seed 0 and reseeds NumPy's global stream; here every number comes from
    ``rng``, and the global stream is left as it was found.

    Args:
        cost: costs of points (d,); infinite ones are ranked last.
        start: (d,), on or inside the bounds.
        step: initial standard deviation, in unit coordinates, one for all or (d,).
        generations: at most.
        population: points a generation.
        rng: the only source of chance.
        budget: told of the best cost.
    """
    if len(start) == 1:  # pycma does not work in one dimension: add one that nothing depends on
        step = np.resize(step, 2)
        padded = cma_search(
            lambda points: cost([p[:1] for p in points]), np.r_[start, 0.5], step, generations, population, rng, budget
        )
        return replace(padded, unit=padded.unit[:1], mean=padded.mean[:1])
    import cma  # slow to import, needed by a fit only

    state = np.random.get_state()  # pycma touches the global stream
    try:
        strategy = cma.CMAEvolutionStrategy(
            np.clip(start, 0.0, 1.0),
            float(np.max(step)),
            {
                "CMA_stds": np.resize(step, len(start)) / np.max(step),
                "bounds": [0.0, 1.0],
                "popsize": population,
                "maxiter": generations,
                "seed": math.nan,  # no seeding
                "randn": lambda *shape: rng.standard_normal(shape),
                "verbose": -9,
                "verb_log": 0,
                "tolfun": 1e-9,
                "tolx": 1e-5,
            },
        )
        best, best_cost = np.clip(start, 0.0, 1.0), math.inf
        while not strategy.stop():
            points = [np.clip(point, 0.0, 1.0) for point in strategy.ask()]
            costs = cost(points)
            strategy.tell(points, [c if math.isfinite(c) else 1e6 for c in costs])
            leader = int(np.argmin(costs))
            if costs[leader] < best_cost:
                best, best_cost = points[leader], costs[leader]
                budget.best_cost = min(budget.best_cost, best_cost)
        reason = ", ".join(strategy.stop()) or "none"
        return SearchResult(best, best_cost, np.clip(strategy.result.xfavorite, 0, 1), reason, strategy.countiter)
    finally:
        np.random.set_state(state)
