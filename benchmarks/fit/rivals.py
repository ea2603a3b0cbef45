"""The usual ways to identify parameters from whole shots, with the twin, the shots and the start that CUE has.

CMA-ES is pycma's, in the unit box, with restarts of growing populations. Least squares is ``mujoco.sysid.optimize``
with its ``Parameter`` and ``ParameterDict``, each residual a batch of the twin, started again from other places when it
has converged. Both are scored by the parameters with the lowest cost that they have met.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
from typing import Any

import numpy as np

from benchmarks.fit.whole import TimeIsUpError, WholeShots
from benchmarks.harness import UnavailableError

CLIP = 0.05
"""Distances beyond count as this much [m]: after a wrong turn, how wrong says nothing."""
SIGMA = 1e-3
"""Of a sample, for least squares [m]."""
_STEP = 0.5  # first standard deviation of CMA-ES, of the shots' prior


def race_cma(shots: WholeShots, rng: np.random.Generator) -> dict[str, Any]:
    """Minimise the mean clipped distance of whole shots by CMA-ES until the time is up.

    The first run starts at the textbook's values. When one stops by itself, the next begins at a random place with
    twice the population ("IPOP", Auger and Hansen 2005).
    """
    import cma

    span, start = shots.high - shots.low, (shots.nominal - shots.low) / (shots.high - shots.low)
    spread = shots.scale / span
    population, runs, reasons = 4 + math.floor(3 * math.log(len(start))), 0, []
    state = np.random.get_state()  # pycma touches the global stream
    try:
        while True:
            here = start if not runs else np.clip(start + spread * rng.standard_normal(len(start)), 0.02, 0.98)
            strategy = cma.CMAEvolutionStrategy(
                here,
                _STEP,
                {
                    "CMA_stds": spread,
                    "bounds": [0.0, 1.0],
                    "popsize": population * 2**runs,
                    "seed": math.nan,  # no seeding: zero would be the clock
                    "randn": lambda *shape: rng.standard_normal(shape),
                    "verbose": -9,
                    "verb_log": 0,
                },
            )
            while not strategy.stop():
                points = [np.clip(p, 0.0, 1.0) for p in strategy.ask()]
                found = shots.low + span * np.array(points)
                costs = shots.costs(shots.residuals(found), CLIP)
                strategy.tell(points, costs.tolist())
                leader = int(np.argmin(costs))
                shots.tell(found[leader], float(costs[leader]))
            reasons.append(", ".join(strategy.stop()))
            runs += 1
    except TimeIsUpError:
        return {"runs": runs + 1, "stops": reasons}
    finally:
        np.random.set_state(state)


def race_sysid(shots: WholeShots, rng: np.random.Generator) -> dict[str, Any]:
    """Minimise whole shots by ``mujoco.sysid`` until the time is up.

    Starts alternate between its two kinds of backend: MuJoCo's least squares with scaling by the Jacobian, and
    ``scipy_parallel_fd`` with the loss ``soft_l1``. The first two start at the textbook's values, later ones at random.

    Raises:
        UnavailableError: this MuJoCo has none, or it lacks a package.
    """
    sysid = _sysid()
    runs = 0

    def residual(x: np.ndarray, params: Any) -> tuple[list[np.ndarray], list[Any], list[Any]]:
        params.update_from_vector(x[:, 0] if x.ndim > 1 else x)
        found = shots.residuals(np.atleast_2d(x.T))
        for point, cost in zip(np.atleast_2d(x.T), shots.costs(found, CLIP), strict=True):
            shots.tell(point, float(cost))
        flat = found.reshape(len(found), -1).T / SIGMA
        return [flat if x.ndim > 1 else flat[:, 0]], [], []

    try:
        while True:
            away = np.zeros(len(shots.nominal)) if runs < 2 else shots.scale * rng.standard_normal(len(shots.nominal))
            params = sysid.ParameterDict()
            for name, nominal, low, high in zip(shots.names, shots.nominal, shots.low, shots.high, strict=True):
                params.add(sysid.Parameter(name, nominal, low, high))
            params.update_from_vector(np.clip(shots.nominal + away, shots.low, shots.high))
            params.move_off_bounds()
            with contextlib.redirect_stdout(io.StringIO()):
                if runs % 2 == 0:
                    sysid.optimize(params, residual, optimizer="mujoco", verbose=False, x_scale="jac")
                else:
                    sysid.optimize(
                        params, residual, optimizer="scipy_parallel_fd", verbose=False, x_scale="jac", loss="soft_l1"
                    )
            runs += 1
    except TimeIsUpError:
        return {"runs": runs + 1}


def _sysid() -> Any:
    try:
        sysid = importlib.import_module("mujoco.sysid")  # a typed import would make mypy look into all of mujoco
    except ImportError:
        raise UnavailableError("this MuJoCo has no mujoco.sysid; MuJoCo 4 has") from None
    if not hasattr(sysid, "optimize"):
        raise UnavailableError("mujoco.sysid lacks a package it needs (absl-py, colorama, tabulate); run 'make setup'")
    return sysid
