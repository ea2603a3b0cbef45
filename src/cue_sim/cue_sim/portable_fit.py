"""Find the portable copy's contact parameters that make it behave most like the exact twin, and say how alike it is.

Three parts of the copy are fitted one after the other, each to what it alone decides, so that nothing chaotic comes in:
the cloth to balls that roll and slide freely, the cushions to single rebounds, the balls to single collisions. Rebounds
and collisions are compared in the velocity with which each ball rolls on, and in its upright spin. How far the copy is
from the twin is then measured on whole shots that the fit has not seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.errors import CueError
from cue_core.parameters import ParameterEstimate
from cue_core.table import TableModel
from cue_sim.export import load_balls, load_twin
from cue_sim.path import Start
from cue_sim.portable import PortableParameters, save_portable
from cue_sim.portable_measure import CLASSES, SHOTS, Difference, Progress, measure
from cue_sim.portable_play import Cancelled, ExactImpacts, PortableCancelledError, PortableTable
from cue_sim.portable_probes import collisions, random_start, rebounds
from cue_sim.twin import Twin

_LONGEST_ROLL = 4.0  # s
_CLOTH_PRIOR = 0.2  # m: what leaving the twin's own coefficients by a factor of e costs; slides say little of it
_ROLLS, _IMPACTS = 16, 80  # probes of the cloth, and of the cushions and the balls each
_CLOTH_EVALUATIONS, _IMPACT_EVALUATIONS, _POPULATION = 5, 96, 8
_ROLLING_SCALE, _SPIN_SCALE = 0.02, 0.05  # m/s: errors well below count by their square, well above hardly more
_BOUNDS = {
    "cushion_restitution": (0.2, 1.2),
    "cushion_friction": (0.0, 0.8),
    "cushion_grip": (0.2, 2.0),
    "ball_restitution": (0.5, 1.1),
    "ball_friction": (0.0, 0.5),
    "ball_grip": (0.05, 1.5),
}


@dataclass(frozen=True)
class PortableFit:
    """A fitted portable copy.

    Attributes:
        parameters: of its contacts.
        difference: to the twin by class (:data:`CLASSES`), on shots that the fit has not seen; a class that hardly
            occurs on the table is left out.
        seed: of all probes.
        evaluations: how many parameter sets were tried.
        revision: of the twin's estimate.
    """

    parameters: PortableParameters
    difference: Mapping[str, Difference]
    seed: int
    evaluations: int
    revision: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: the statement in ``twin.xml``."""
        return {
            "parameters": asdict(self.parameters),
            "difference": {name: row.to_dict() for name, row in self.difference.items()},
            "seed": self.seed,
            "evaluations": self.evaluations,
            "revision": self.revision,
        }


def fit_portable(
    twin: Twin,
    estimate: ParameterEstimate,
    *,
    seed: int = 0,
    shots: int = SHOTS,
    effort: float = 1.0,
    threads: int | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> PortableFit:
    """Fit the portable copy to the twin and measure how far it remains from it.

    It costs about 35 s of one core with 6 balls. The result depends on the seed, and not on ``threads``.

    Args:
        twin: to be like.
        estimate: of its parameters.
        seed: of all probes.
        shots: of each class, to measure the difference on.
        effort: share of the usual evaluations and probes; less is quicker and worse.
        threads: None = one per core.
        progress: told the share done, 0..1, and what comes next.
        cancelled: asked often.

    Raises:
        PortableCancelledError: ``cancelled`` said so.
        CueError: the twin cannot be simulated.
    """
    fit = _Fitter(twin, estimate, seed, effort, threads, progress or (lambda share, text: None), cancelled)
    parameters = fit.run()
    difference = measure(
        twin, estimate, parameters, seed=seed, shots=shots, threads=threads, progress=progress, cancelled=cancelled
    )
    if progress is not None:
        progress(1.0, "done")
    return PortableFit(parameters, difference, seed, fit.evaluations, estimate.revision)


def fit_files(
    folder: Path | str,
    *,
    seed: int = 0,
    shots: int = SHOTS,
    effort: float = 1.0,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> PortableFit:
    """Fit the portable copy to a run folder's ``twin.json`` and replace its ``twin.xml``; see :func:`fit_portable`.

    Raises:
        PortableCancelledError: ``cancelled`` said so; the old file stays.
        CueError: the twin is missing or malformed, or the copy cannot be written.
    """
    folder = Path(folder)
    twin, estimate = load_twin(folder / "twin.json")
    fit = fit_portable(twin, estimate, seed=seed, shots=shots, effort=effort, progress=progress, cancelled=cancelled)
    save_portable(
        folder / "twin.xml",
        twin.table,
        twin.ball_ids,
        estimate,
        load_balls(folder / "twin.json"),
        parameters=fit.parameters,
        statement=fit.to_dict(),
        radii=twin.radii,
        masses=twin.masses,
    )
    return fit


def benchmark(seed: int = 0, shots: int = 200, threads: int | None = None) -> dict[str, Any]:
    """Fit the portable copy of a calibrated table and measure it: the small table with 6 balls.

    "Calibrated" means parameters that differ from the nominal ones by 10 % at random.

    Args:
        seed: of everything.
        shots: to measure on, all classes together.
        threads: None = one per core.

    Returns:
        ``median_mm`` and ``p90_mm`` by class, and the fit's own statement.
    """
    from cue_sim.config_files import config_file

    generator = np.random.default_rng([seed, 9])
    nominal = ParameterEstimate.nominal()
    values = nominal.values * (1 + 0.1 * generator.uniform(-1, 1, len(nominal.values)))
    twin = Twin(TableModel.load(config_file("tables", "small")), range(6))
    estimate = dataclasses.replace(nominal, values=values, revision=1)
    fit = fit_portable(twin, estimate, seed=seed, shots=max(shots // len(CLASSES), 1), threads=threads)
    rows = fit.to_dict()["difference"]
    return {
        "median_mm": {name: row["median_mm"] for name, row in rows.items()},
        "p90_mm": {name: row["p90_mm"] for name, row in rows.items()},
        "fit": fit.to_dict(),
    }


class _Fitter:
    """One fit; see :func:`fit_portable`."""

    def __init__(
        self,
        twin: Twin,
        estimate: ParameterEstimate,
        seed: int,
        effort: float,
        threads: int | None,
        progress: Progress,
        cancelled: Cancelled | None,
    ) -> None:
        if not 0 < effort <= 10:
            raise CueError(f"effort of a portable fit is {effort}; allowed is above 0, at most 10")
        self._estimate, self._seed, self._effort, self._threads = estimate, seed, effort, threads
        self._tell, self._cancelled = progress, cancelled
        self._twins = {count: _with_balls(twin, count) for count in (1, 2)}
        self.evaluations = 0

    def run(self) -> PortableParameters:
        parameters = PortableParameters.unfitted(self._estimate)
        self._tell(0.0, "fitting the cloth")
        parameters = self._fit_cloth(parameters)
        self._tell(0.15, "fitting the cushions")
        table, count = self._twins[1].table, self._count(_IMPACTS, 16)
        starts = rebounds(table, np.random.default_rng([self._seed, 1, 0]), count)
        parameters = self._fit_impacts(parameters, "cushion", starts)
        self._tell(0.35, "fitting the balls")
        starts = collisions(table, np.random.default_rng([self._seed, 1, 1]), count)
        return self._fit_impacts(parameters, "ball", starts)

    def _count(self, usual: int, least: int) -> int:
        return max(round(usual * self._effort), least)

    def _fit_cloth(self, parameters: PortableParameters) -> PortableParameters:
        from scipy.optimize import least_squares

        names = ("sliding_friction", "rolling_friction")
        starts, times, exact = self._rolls()

        def residuals(factors: np.ndarray) -> np.ndarray:
            self.evaluations += 1
            tried = _scaled(parameters, names, factors)
            copy = PortableTable(self._twins[1], self._estimate, tried)
            paths = copy.follow(starts, times, self._threads, self._cancelled)
            errors = [(one - other).ravel() for one, other in zip(paths, exact, strict=True)]
            return np.concatenate([*errors, _CLOTH_PRIOR * (factors - 1)])

        found = least_squares(
            residuals,
            np.ones(len(names)),
            bounds=(0.3, 2.0),
            diff_step=0.02,
            loss="soft_l1",
            f_scale=0.003,
            max_nfev=self._count(_CLOTH_EVALUATIONS, 3),
        )
        return _scaled(parameters, names, found.x)

    def _fit_impacts(self, parameters: PortableParameters, part: str, starts: Sequence[Start]) -> PortableParameters:
        import cma

        names = [name for name in _BOUNDS if name.startswith(part)]
        low, high = np.array([_BOUNDS[name] for name in names]).T
        twin = self._twins[len(starts[0].positions)]
        exact = ExactImpacts(twin, self._estimate).impacts(starts)

        def made(unit: np.ndarray) -> PortableParameters:
            values = low + np.clip(unit, 0, 1) * (high - low)
            return dataclasses.replace(parameters, **dict(zip(names, map(float, values), strict=True)))

        def cost(unit: np.ndarray) -> float:
            self.evaluations += 1
            copy = PortableTable(twin, self._estimate, made(unit))
            error = copy.impacts(starts, self._threads, self._cancelled) - exact
            roll, spin = np.linalg.norm(error[..., :2], axis=2), np.abs(error[..., 2])
            worst = np.log1p((roll.max(axis=1) / _ROLLING_SCALE) ** 2)
            return float(np.mean(worst + 0.3 * np.log1p((spin.max(axis=1) / _SPIN_SCALE) ** 2)))

        first = (np.array([getattr(parameters, name) for name in names]) - low) / (high - low)
        first = np.clip(first, 0.02, 0.98)
        budget = self._count(_IMPACT_EVALUATIONS, 2 * _POPULATION)
        search = cma.CMAEvolutionStrategy(
            first,
            0.08,  # of the bounds' width: the twin's own coefficients are near
            {
                "bounds": [0, 1],
                "seed": 1 + self._seed,  # cma takes 0 for "from the clock"
                "verbose": -9,
                "popsize": _POPULATION,
                "maxfevals": budget,
            },
        )
        best, least = first, cost(first)
        while not search.stop():
            units = search.ask()
            costs = [cost(unit) for unit in units]
            search.tell(units, costs)
            if min(costs) < least:
                best, least = units[int(np.argmin(costs))], min(costs)
        return made(best)

    def _rolls(self) -> tuple[list[Start], list[np.ndarray], list[np.ndarray]]:
        """Return one ball's free paths up to just before its first contact: starts, times [s], the twin's positions."""
        generator, twin = np.random.default_rng([self._seed, 0]), self._twins[1]
        table, wanted = twin.table, self._count(_ROLLS, 4)
        starts: list[Start] = []
        times: list[np.ndarray] = []
        exact: list[np.ndarray] = []
        while len(starts) < wanted:
            if self._cancelled is not None and self._cancelled():
                raise PortableCancelledError()
            start = random_start(table, len(twin.ball_ids), generator)
            if len(starts) % 2:  # it slips as a ball does that has rolled into a cushion
                start.velocities[0] *= generator.uniform(0.1, 1.0)
                start.spins[0] *= generator.uniform(0.0, 5.0)
            else:  # it rolls
                start.velocities[0] *= generator.uniform(0.05, 0.4)
                x, y = start.velocities[0] / table.ball_radius
                start.spins[0, :2] = -y, x
            end = twin.simulate(start, self._estimate.values, until_contact=1).stop_time
            end = min(end, _LONGEST_ROLL)
            if end * np.linalg.norm(start.velocities[0]) < 0.2 * table.width:
                continue  # too short a way to tell anything
            at = np.array([0.4, 0.7, 0.98]) * end
            starts.append(start)
            times.append(at)
            exact.append(twin.simulate(start, self._estimate.values, at).positions)
        return starts, times, exact


def _with_balls(twin: Twin, count: int) -> Twin:
    """Return a twin of the same table with balls of the table's own size, as probes."""
    return Twin(
        twin.table,
        range(count),
        largest_step=twin.largest_step,
        impact_step=twin.impact_step,
        extras=twin.extras,
    )


def _scaled(parameters: PortableParameters, names: Sequence[str], factors: np.ndarray) -> PortableParameters:
    changed = {name: float(f) * getattr(parameters, name) for name, f in zip(names, factors, strict=True)}
    return dataclasses.replace(parameters, **changed)
