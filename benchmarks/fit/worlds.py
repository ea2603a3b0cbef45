"""Worlds that nobody has seen, the shots played on them, and held-out shots that only score.

A world is a twin of its own: other parameters, finer steps, and where asked for an effect that the fitter's twin
lacks. The fitter gets shot records and the table, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.parameters import PARAMETERS, check_names, default_fitted, nominal_values
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_identify.replay import Simulator, TwinSimulator
from cue_identify.scoring import MOVED
from cue_identify.synthetic import Noise, hidden_values, record_session
from cue_sim.path import Trajectory

ROOT = Path(__file__).resolve().parents[2]
BALLS = (0, 1, 3, 5, 6, 8)
SHOTS = 20
HELD_OUT = 40
"""Fresh shots from exact starts; as many make the mean of a heavy-tailed error repeatable."""
STEPS = {"largest_step": 0.05, "impact_step": 1e-6}
"""Of the worlds; the fitter's twin has its defaults, four and two times as long."""
NOISES = {
    "recovery": Noise(frame_rate=60.0, track=1e-3, rest=2e-4),
    "noisy": Noise(frame_rate=60.0, track=3e-3, rest=6e-4, lost=0.02),
}
_EXACT = Noise(frame_rate=60.0, track=1e-9, rest=1e-9, azimuth=1e-9, speed=1e-9, strike_time=1e-9)
_HORIZON = 60.0  # [s]


@dataclass(frozen=True)
class World:
    """One table's dynamics.

    Attributes:
        values: (P,) true parameters, in the order of ``PARAMETERS``.
        settings: of its twin beside them: steps, extras, masses.
    """

    values: np.ndarray
    settings: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, values: Mapping[str, float]) -> World:
        """Return the world with other values of some parameters.

        Raises:
            UnknownNameError: no such parameter.
        """
        new = self.values.copy()
        for name in check_names(values):
            new[list(PARAMETERS).index(name)] = values[name]
        return replace(self, values=new)

    def simulator(self) -> TwinSimulator:
        """Return a simulator that plays it."""
        return TwinSimulator(table(), BALLS, **{**STEPS, **self.settings})

    def shots(self, rng: np.random.Generator, count: int, noise: Noise) -> list[ShotRecord]:
        """Return the records of random shots."""
        return record_session(self.simulator(), table(), self.values, count, rng, noise)


def table() -> TableModel:
    """Return the small table."""
    return TableModel.load(ROOT / "config" / "tables" / "small.yaml")


def draw_world(seed: int, index: int, names: Sequence[str] = ()) -> World:
    """Return world ``index`` of a seed, whose parameters differ from the textbook's by 30 to 60 %.

    Args:
        seed: of everything.
        index: of the world.
        names: of the parameters that differ; empty = all that are fitted by default.
    """
    drawn = hidden_values(stream(seed, index, "world"))
    differ = np.isin(list(PARAMETERS), list(names or default_fitted()))
    return World(np.where(differ, drawn, nominal_values()))


def stream(seed: int, index: int, purpose: str) -> np.random.Generator:
    """Return a generator that no other world and purpose shares."""
    return np.random.default_rng([seed, index, *purpose.encode()])


class HeldOut:
    """Fresh shots of a world from exact starts, to score what a fit found.

    The score is against where the balls truly came to rest or vanished in a pocket: what a camera records of a ball
    that drops ends centimetres before that, which would give even the true parameters an error of half a centimetre.
    """

    def __init__(self, world: World, rng: np.random.Generator, count: int = HELD_OUT) -> None:
        """Play them."""
        player, self._judge = world.simulator(), TwinSimulator(table(), BALLS)
        records = record_session(player, table(), world.values, count, rng, _EXACT)
        self._balls = [tuple(b for b in record.before if b.in_play) for record in records]
        self._strokes = [record.achieved for record in records if record.achieved is not None]
        self._truth = self._play(player, world.values)

    def _play(self, simulator: Simulator, values: np.ndarray) -> list[Trajectory]:
        starts = [
            simulator.start(balls, stroke, values) for balls, stroke in zip(self._balls, self._strokes, strict=True)
        ]
        batch = np.tile(values, (len(starts), 1))
        return simulator.simulate(starts, batch, [np.zeros(0)] * len(starts), _HORIZON, 1)

    def errors(self, values: np.ndarray, simulator: Simulator | None = None) -> np.ndarray:
        """Return (shots,) mean distances [m] of rest positions over the balls that moved, truly or as predicted.

        NaN where none moved, infinite where the twin fails.

        Args:
            values: (P,) parameters to predict with.
            simulator: to predict with; None = the fitter's twin.
        """
        found = []
        paths = self._play(simulator or self._judge, values)
        for balls, truth, path in zip(self._balls, self._truth, paths, strict=True):
            start = np.array([b.position for b in balls])
            index = [BALLS.index(b.ball_id) for b in balls]
            rest, predicted = truth.rest_positions[index], path.rest_positions[index]
            moved = np.linalg.norm([rest - start, predicted - start], axis=2).max(axis=0) > MOVED
            distance = np.linalg.norm(predicted - rest, axis=1)[moved]
            found.append(np.inf if path.fault else distance.mean() if moved.any() else np.nan)
        return np.array(found)

    def error(self, values: np.ndarray, simulator: Simulator | None = None) -> float:
        """Return the mean of :meth:`errors` [m], shots in which nothing moves left out."""
        return float(np.nanmean(self.errors(values, simulator)))
