r"""After physics: a small correction learned from what no parameter explains, for the twin to carry.

Three families of bumps (:mod:`cue_sim.correction`) are on offer: rolling friction by place, direction and speed;
cushions and balls by approach and slip. Their places are taken from the shots' own replays, spread out so that no two
are alike (farthest first; Gonzalez 1985); beyond them the correction fades to nothing.

Each family's function has a Gaussian process as its prior (Rasmussen & Williams 2006, section 8.3.1: subset of
regressors): with :math:`K = L L^T` the bumps' values at each other's places and :math:`\sigma` the size expected, the
weights are :math:`w = \sigma L^{-T} u` with :math:`u` independent and normal. So :math:`u` are unknowns like any
parameter, fitted together with the parameters and the nuisances through whole rollouts, and a family must pass the same
gate as a term (:mod:`cue_identify.selection`): gain on shots left out, by more than a standard error and chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS
from cue_core.shots import Stroke
from cue_core.table import TableModel
from cue_identify.observations import ShotData
from cue_identify.polish import Point
from cue_identify.replay import Budget, Replayer, TwinSimulator
from cue_identify.selection import Selector, Step
from cue_identify.space import Space
from cue_sim.correction import Basis, Correction
from cue_sim.kernel import EventKind

FAMILIES = ("rolling", "cushion", "ball")
_SIZE = {"rolling": (0.3,), "cushion": (0.04, 0.15), "ball": (0.03, 0.2)}
"""Standard deviation expected of each function: the factors' logarithm, or relative changes of impulses."""
_MOST = {"rolling": 36, "cushion": 6, "ball": 6}
"""Bumps of each function at most: what some twenty shots can tell."""
_APART = 0.8  # [-] widths between bumps; nearer ones say the same
_PLACE = 0.16  # [-] of the table's length: width of a bump on the bed
_TURN, _SPEED = 1.5, 1.0  # widths along cosine and sine, and along speed [m/s]
_IMPACT = (0.5, 0.5)  # [m/s] widths along approach and slip
_SLOWEST = 0.02  # [m/s] slower balls are taken to rest
_BEFORE = 1e-3  # [s] before an impact, where velocities are read
_LIMIT = 5.0  # [standard deviations] bounds of u
_FEWEST = 15  # [-] shots: fewer see most places once, and nothing tells what they share from chance
_NUGGET = 1e-3  # [-] on K, so that like places do not need huge weights


@dataclass(frozen=True)
class Learned:
    """What was learned.

    Attributes:
        correction: None = nothing that shots left out confirm.
        point: parameters, and nuisances of the shots, fitted together with it.
        steps: how it came to that.
    """

    correction: Correction | None
    point: Point
    steps: tuple[Step, ...]


def learn(
    simulator: TwinSimulator,
    shots: Sequence[ShotData],
    point: Point,
    space: Space,
    scale: float,
    budget: Budget,
    threads: int = 0,
) -> Learned:
    """Learn a correction from shots that the parameters explain as well as they can.

    Args:
        simulator: of the table's twin, without a correction.
        shots: fitted.
        point: optimum of the parameters.
        space: of the parameters.
        scale: robust scale [m].
        budget: of simulated shots; tells the progress.
        threads: of the simulations; no influence on the result.
    """
    if len(shots) < _FEWEST:
        words = f"correction refused: {len(shots)} shots explained, needs {_FEWEST}"
        return Learned(None, point, (Step("correction", "refused", float("nan"), float("nan"), words),))
    table = simulator.twin.table
    budget.stage = "correction: places"
    bases = _impact_places(simulator, shots, point, space)
    bases["rolling"] = _rolling_places(Replayer(simulator, budget, threads), shots, point, space, table)
    offered = Correction(**bases, weights=np.zeros(sum(len(_SIZE[f]) * len(bases[f]) for f in FAMILIES)))
    selector = Selector(Replayer(_Weighted(simulator, offered), budget, threads), shots, scale)
    plain = _BumpSpace.around(space, offered, ())
    model = selector.fit(plain, point)
    chosen: tuple[str, ...] = ()
    steps: list[Step] = []
    while True:
        rivals = [family for family in FAMILIES if family not in chosen and len(getattr(offered, family))]
        best = None
        for family in rivals:
            budget.stage = f"correction: {family}"
            wider = _BumpSpace.around(model.space, offered, (*chosen, family))
            larger = selector.fit(wider, Point(wider.joined(model.space, model.point.unit), model.point.nuisance))
            gain, margin = selector.compare(larger, model, len(FAMILIES))
            steps.append(Step.of(f"correction of {family}", "refused", gain, margin))
            if gain > margin and (best is None or gain - margin > best[0]):
                best = (gain - margin, family, larger, len(steps) - 1)
        if best is None:
            break
        _, family, model, k = best
        steps[k] = Step.of(steps[k].term, "added", steps[k].gain, steps[k].margin)
        chosen = (*chosen, family)
    found = None
    if chosen:
        weights = model.space.values(model.point.unit)[len(PARAMETERS) :]
        found = _only(replace(offered, weights=weights), chosen)
    return Learned(found, replace(model.point, unit=model.point.unit[: len(space.names)]), tuple(steps))


class _Weighted(TwinSimulator):
    """The twin with bumps, whose weights stand behind the parameters in each vector."""

    def __init__(self, simulator: TwinSimulator, offered: Correction) -> None:
        super().__init__(simulator.twin.table, simulator.ball_ids, **simulator.settings, correction=offered)

    def start(self, balls: Sequence[BallState], stroke: Stroke, values: np.ndarray) -> Any:
        return super().start(balls, stroke, values[: len(PARAMETERS)])

    def simulate(
        self, starts: Sequence[Any], values: np.ndarray, times: Sequence[np.ndarray], horizon: float, threads: int
    ) -> list[Any]:
        count = len(PARAMETERS)
        return self.twin.simulate_batch(
            list(starts),
            values[:, :count],
            list(times),
            horizon=horizon,
            threads=threads,
            weights=np.ascontiguousarray(values[:, count:]),
        )


@dataclass(frozen=True)
class _BumpSpace(Space):
    """Parameters, then the u of the families fitted; vectors are (P + W,), the weights last.

    Attributes:
        offered: all bumps.
        families: fitted.
    """

    offered: Correction
    families: tuple[str, ...]

    @classmethod
    def around(cls, space: Space, offered: Correction, families: tuple[str, ...]) -> _BumpSpace:
        """Return the space of the parameters of ``space``, with these families."""
        known = [k for k, name in enumerate(space.names) if name in PARAMETERS]
        count = sum(len(_SIZE[f]) * len(getattr(offered, f)) for f in families)
        names = tuple(space.names[k] for k in known) + tuple(f"u{k}" for k in range(count))
        low = np.r_[space.low[known], np.full(count, -_LIMIT)]
        high = np.r_[space.high[known], np.full(count, _LIMIT)]
        base = np.r_[space.base[: len(PARAMETERS)], np.zeros(offered.size)]
        return cls(names, base, low, high, offered, families)

    def joined(self, other: Space, unit: np.ndarray) -> np.ndarray:
        """Return the unit coordinates of a point of a space with fewer families; those that it lacks are zero."""
        found = self.nominal
        found[: len(unit)] = unit  # families come in the order in which they were added
        return found

    @cached_property
    def _parameters(self) -> int:
        return sum(name in PARAMETERS for name in self.names)

    @cached_property
    def _mixing(self) -> np.ndarray:
        """(W, count) from u to weights."""
        rows = {}
        first = 0
        for family in FAMILIES:
            for k in range(len(_SIZE[family])):
                rows[family, k] = slice(first, first + len(getattr(self.offered, family)))
                first = rows[family, k].stop
        mixing = np.zeros((self.offered.size, len(self.names) - self._parameters))
        column = 0
        for family in self.families:
            basis: Basis = getattr(self.offered, family)
            kernel = basis(basis.centres) + _NUGGET * np.eye(len(basis))
            root = np.linalg.inv(np.linalg.cholesky(kernel)).T
            for k, size in enumerate(_SIZE[family]):
                mixing[rows[family, k], column : column + len(basis)] = size * root
                column += len(basis)
        return mixing

    @cached_property
    def _places(self) -> np.ndarray:
        order = list(PARAMETERS)
        return np.array([order.index(name) for name in self.names[: self._parameters]], dtype=int)

    @property
    def prior_stddev(self) -> np.ndarray:
        known = [PARAMETERS[name].prior_stddev if name in PARAMETERS else 1.0 for name in self.names]
        return np.array(known) / self.span

    @property
    def nominal(self) -> np.ndarray:
        nominal = np.array([PARAMETERS[name].nominal if name in PARAMETERS else 0.0 for name in self.names])
        return (nominal - self.low) / self.span

    def values(self, unit: np.ndarray) -> np.ndarray:
        inside = np.clip(self.low + self.span * unit, self.low, self.high)
        full = self.base.copy()
        full[self._places] = inside[: self._parameters]
        full[len(PARAMETERS) :] = self._mixing @ inside[self._parameters :]
        return full


def _only(correction: Correction, families: Sequence[str]) -> Correction:
    """Return the correction without the families that were not chosen."""
    kept, weights, first = {}, [], 0
    for family in FAMILIES:
        count = len(_SIZE[family]) * len(getattr(correction, family))
        if family in families:
            kept[family] = getattr(correction, family)
            weights.append(correction.weights[first : first + count])
        first += count
    return Correction(**kept, weights=np.concatenate(weights))


def _rolling_places(
    replayer: Replayer, shots: Sequence[ShotData], point: Point, space: Space, table: TableModel
) -> Basis:
    """Return bumps where balls were seen to travel."""
    seen = []
    for shot, replayed in zip(shots, replayer.run(point.trials(space, shots)), strict=True):
        speed = np.linalg.norm(replayed.velocity, axis=1)
        rows = (speed > _SLOWEST) & (not replayed.fault)
        towards = replayed.velocity[rows] / speed[rows, None]
        seen.append(np.column_stack([shot.observed[rows], towards, speed[rows]]))
    width = _PLACE * table.length
    widths = np.array([width, width, _TURN, _TURN, _SPEED])
    return Basis(_spread_out(np.concatenate(seen), widths, _MOST["rolling"]), widths)


def _impact_places(simulator: TwinSimulator, shots: Sequence[ShotData], point: Point, space: Space) -> dict[str, Basis]:
    """Return bumps at the impacts' approach and slip, as the centres' velocities just before tell them."""
    twin = simulator.twin
    found: dict[str, list[tuple[float, float]]] = {"cushion": [], "ball": []}
    for trial in point.trials(space, shots):
        stroke = trial.shot.stroke
        turned = replace(stroke, azimuth=stroke.azimuth + trial.turn, tip_speed=stroke.tip_speed * (1 + trial.gain))
        start = simulator.start(trial.shot.balls, turned, trial.values)
        events = [e for e in twin.simulate(start, trial.values).events if e.time > 2 * _BEFORE]
        if not events:
            continue
        times = np.unique(np.concatenate([(e.time - 2 * _BEFORE, e.time - _BEFORE) for e in events]))
        path = twin.simulate(start, trial.values, times)
        for event in events:
            row = (
                int(np.searchsorted(times, event.time - 2 * _BEFORE)),
                int(np.searchsorted(times, event.time - _BEFORE)),
            )
            velocity = (path.positions[row[1]] - path.positions[row[0]]) / _BEFORE
            ball = twin.index(event.ball)
            if event.kind == EventKind.BALL_BALL:
                other = twin.index(event.other)
                normal = path.positions[row[1], other] - path.positions[row[1], ball]
                off, family = velocity[ball] - velocity[other], "ball"
            elif event.kind == EventKind.CUSHION:
                normal, off, family = _outward(path.positions[row[1], ball], twin.table), velocity[ball], "cushion"
            else:
                continue
            normal = normal / np.linalg.norm(normal)
            approach = float(off @ normal)
            if approach > _SLOWEST:
                found[family].append((approach, float(np.linalg.norm(off - approach * normal))))
    widths = np.array(_IMPACT)
    return {
        family: Basis(_spread_out(np.array(seen).reshape(-1, 2), widths, _MOST[family]), widths)
        for family, seen in found.items()
    }


def _outward(position: np.ndarray, table: TableModel) -> np.ndarray:
    """Return the (2,) direction of the nose line nearest to a position (2,)."""
    room = np.array([table.length / 2, table.width / 2]) - np.abs(position)
    axis = int(np.argmin(room))
    return np.eye(2)[axis] * np.sign(position[axis])


def _spread_out(places: np.ndarray, widths: np.ndarray, most: int) -> np.ndarray:
    """Return up to ``most`` of the places (K, D), each the farthest from those before, none nearer than some widths."""
    if not len(places) or not most:
        return places[:0]
    scaled = places / widths
    chosen = [int(np.argmin(np.linalg.norm(scaled - scaled.mean(axis=0), axis=1)))]
    nearest = np.linalg.norm(scaled - scaled[chosen[0]], axis=1)
    while len(chosen) < most and nearest.max() > _APART:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(scaled - scaled[chosen[-1]], axis=1))
    return places[chosen]
