"""How far small errors that no parameter explains grow on their way to each sample.

Every contact multiplies what came before it. After a few, the difference between the recorded and the replayed shot
tells more about a tenth of a millimetre at the start than about the table. Such samples must count for little, by as
much as each shot says itself when it is replayed with errors of the size that remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_core.parameters import PARAMETERS
from cue_identify.observations import ShotData
from cue_identify.replay import Replayed, Replayer, Trial
from cue_identify.residuals import differences

_REPLAYS = 12  # of each shot; a covariance of two coordinates needs few
_TURN = math.radians(0.1)  # [rad] what the samples before the first contact leave open of the direction
_GAIN = 0.005  # [-] the same of the speed
_PLACE = 4e-4  # [m] of each ball before the shot: turns the line between two touching balls by half a degree
_MODEL = {
    "cushion_restitution": 0.015,  # no two cushions are alike
    "cushion_friction": 0.02,
    "ball_restitution": 0.01,
    "ball_friction": 0.01,
}
"""Standard deviations by which one contact may differ from what is true of all, in the parameters' units."""

_ALIKE = 4.0  # [-] samples that err together: what one contact did wrong shows in all that follow
_ROUND = 0.5  # [-] share of the scatter that counts in all directions: few replays do not know its shape
_LARGEST = 0.3  # [m] beyond, a sample says nothing anyway
_TOGETHER = 20.0  # [-] neighbouring samples that are one witness
_ALLOWED = 2.0  # [-] log-likelihood below the best: two standard deviations
_TAILS = 6.0  # [-] degrees of freedom of the residuals' distribution

LEVELS = np.r_[0.0, np.geomspace(1e-5, 1.0, 26)]
"""Shares of the scatter that may be added to the samples' covariances."""


def soften(replayer: Replayer, shots: Sequence[ShotData], trials: Sequence[Trial]) -> list[ShotData]:
    """Return the shots with each sample's covariance widened by the whole scatter of disturbed replays."""
    return [scattered.softened(1.0) for scattered in scatter(replayer, shots, trials)]


@dataclass(frozen=True)
class Scattered:
    """A shot and how far small errors grow on the way to its samples.

    Attributes:
        shot: as it was given.
        covariance: (m, 2, 2) of the scatter [m^2].
        replayed: without disturbance.
    """

    shot: ShotData
    covariance: np.ndarray
    replayed: Replayed

    def softened(self, level: float) -> ShotData:
        """Return the shot with ``level`` times the scatter added to the covariance of its samples."""
        return self.shot.widened(level * self.covariance)

    def misfits(self) -> np.ndarray:
        """Return (levels,) minus the log-likelihood of the residuals with each of :data:`LEVELS` of the scatter.

        Residuals have a Student distribution, since single samples may be off for any reason.
        """
        if self.replayed.fault:
            return np.zeros(len(LEVELS))
        x, y = differences(self.shot, self.replayed).T
        spread = self.shot.covariance + LEVELS[:, None, None, None] * self.covariance
        xx, xy, yy = spread[..., 0, 0], spread[..., 0, 1], spread[..., 1, 1]
        area = xx * yy - xy**2
        square = (yy * x**2 - 2 * xy * x * y + xx * y**2) / area
        return np.sum(0.5 * np.log(area) + 0.5 * (_TAILS + 2) * np.log1p(square / _TAILS), axis=1)


def scatter(replayer: Replayer, shots: Sequence[ShotData], trials: Sequence[Trial]) -> list[Scattered]:
    """Replay shots with small errors.

    Samples before the first contact do not scatter: there, the nuisances of a fit take up all that is disturbed here.
    The disturbances of a shot are the same at each call, or else two calls could not be compared.

    Args:
        replayer: runs the simulations.
        shots: to replay.
        trials: one per shot, the replay to disturb.
    """
    disturbed = [_disturbed(trial) for trial in trials]
    results = replayer.run([t for trial, others in zip(trials, disturbed, strict=True) for t in (trial, *others)])
    count = _REPLAYS + 1
    groups = [results[i * count : (i + 1) * count] for i in range(len(shots))]
    return [Scattered(shot, _scatter(shot, g[0], g[1:]), g[0]) for shot, g in zip(shots, groups, strict=True)]


def likely_levels(scattered: Sequence[Scattered], floor: float) -> tuple[float, np.ndarray]:
    """Return the highest level of the scatter that all residuals allow, and (shots,) levels for each.

    In a world that the twin copies exactly, no error remains but those that a fit has nuisances for, and samples count
    fully however chaotic. In a real one, every contact errs a little, and they count for less. A shot that needs more
    than the others, since its replay takes another way, gets it.

    Args:
        scattered: shots at their best replays.
        floor: least level; far from the optimum the residuals tell little.
    """
    misfits = np.array([one.misfits() for one in scattered]) / _TOGETHER
    total = misfits.sum(axis=0)
    allowed = np.flatnonzero(total <= total.min() + _ALLOWED)
    # Where all levels are alike, nothing grows: then none is needed.
    level = max(float(LEVELS[allowed[-1] if len(allowed) < len(LEVELS) else 0]), floor)
    return level, np.maximum(LEVELS[np.argmin(misfits, axis=1)], level)


def _disturbed(trial: Trial) -> list[Trial]:
    """Return the trial with errors drawn in pairs of opposite sign, so that their mean is the trial itself."""
    rng = np.random.default_rng([0xC4A05, trial.shot.record.index])
    movers = len(trial.shot.movers)
    size = np.r_[_TURN, _GAIN, np.full(2 * movers, _PLACE), [*_MODEL.values()]]
    half = size * rng.standard_normal((_REPLAYS // 2, len(size)))
    index = [list(PARAMETERS).index(name) for name in _MODEL]
    low = np.array([PARAMETERS[name].minimum for name in _MODEL])
    high = np.array([PARAMETERS[name].maximum for name in _MODEL])
    found = []
    for error in np.concatenate([half, -half]):
        values = trial.values.copy()
        values[index] = np.clip(values[index] + error[2 + 2 * movers :], low, high)
        offsets = error[2 : 2 + 2 * movers].reshape(-1, 2)
        found.append(
            replace(
                trial,
                values=values,
                turn=trial.turn + error[0],
                gain=trial.gain + error[1],
                offsets=offsets if trial.offsets is None else trial.offsets + offsets,
            )
        )
    return found


def _scatter(shot: ShotData, base: Replayed, others: Sequence[Replayed]) -> np.ndarray:
    """Return (m, 2, 2) covariances [m^2] of what the disturbed replays differ by."""
    whole = [o for o in others if not o.fault]
    if base.fault or not whole:
        return np.zeros((len(shot.observed), 2, 2))
    way = np.stack([o.position - base.position for o in whole])
    covariance = np.einsum("kmi,kmj->mij", way, way) / len(whole)
    level = 0.5 * np.trace(covariance, axis1=1, axis2=2)
    covariance = (1 - _ROUND) * covariance + _ROUND * level[:, None, None] * np.eye(2)
    covariance *= (_ALIKE * np.minimum(1.0, _LARGEST**2 / np.maximum(_ALIKE * level, 1e-12)))[:, None, None]
    first = shot.contacts[0] if len(shot.contacts) else np.inf
    covariance[shot.times[shot.time_index] <= first + 1e-9] = 0.0
    return covariance
