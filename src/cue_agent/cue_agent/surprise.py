r"""How far outcomes lay outside what was stated before the shot, and on which kinds of shots.

Before a stroke the twin states where each ball will rest: a mean :math:`\mu` and a covariance :math:`\Sigma` over
everything not known then (parameters, stroke, places). Afterwards, with the ball seen at rest at :math:`r`,

.. math:: z^2 = (r - \mu)^T (\Sigma + \sigma^2 I)^{-1} (r - \mu) ,

with the tracker's own :math:`\sigma`, is 2 on average where the statement was honest, and at most 5.99 in 95 % of cases
(:math:`\chi^2` with two degrees of freedom; Bar-Shalom, Li & Kirubarajan 2001, section 5.4, test filters alike).

A shot has traits: what it holds of rolling, cushions and ball contacts, whether it is slow or fast, and which parts of
the table its balls cross. The level of a trait is the mean of :math:`z^2 / 2` over the shots that had it, newer ones
counting more, with a prior belief worth :data:`PRIOR_SHOTS` shots of 1: a level above 1 says that the model lacks
something there, or is too sure of itself.

Until a fit mends it, statements are widened by what was learnt so: :math:`\Sigma` is the twin's covariance times the
:func:`dispersion` of its newest statements, where that is above 1 (as a least-squares fit scales its covariance with
its residuals). Levels are about the twin alone, without it; coverage is about what was stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cue_core.balls import BallState
from cue_core.shots import BallTrack, ShotRecord
from cue_core.table import TableModel

EVENTS = ("roll", "cushion", "ball")
SPEEDS = ("slow", "fast")
COLUMNS, ROWS = ("west", "middle", "east"), ("south", "north")
REGIONS = tuple(f"{column} {row}" for row in ROWS for column in COLUMNS)
"""A third of the table's length by half of its width each, from the corner of negative x and y on."""
TRAITS = (*EVENTS, *SPEEDS, *REGIONS)

PRIOR_SHOTS = 2.0
"""Shots of level 1 that the prior belief in a trait is worth."""
HALF_LIFE = 6.0
"""Shots after which one counts half: fits since then may have mended what it showed."""
DISPERSION_SHOTS = 8
"""Newest shots that tell how much too sure the twin is."""
DISPERSION_WORST = 9.0
"""Most that one shot's level counts for that: three standard deviations off."""
CHI2_95 = 5.991
"""Of two degrees of freedom."""
WORST = 100.0
"""Most that z^2 counts: beyond ten standard deviations an accident tells no more about a trait."""
RARE_POCKET = 0.05
"""A ball pocketed against a smaller stated probability lies outside its 95 % region."""
_SLOW, _FAST = 0.5, 1.0  # [m/s] up to the first a stroke is slow, from the second on fast
_FULL_WAY = 1.0  # [m] of path, all balls together, that make a trait's share whole
_MOVED = 3e-3  # [m]
_PIECE = 0.01  # [m] of path that is put into one region


class Foreseen(Protocol):
    """What :class:`cue_agent.peers.Prediction` and :class:`cue_agent.peers.Foresight` have in common."""

    @property
    def ball_ids(self) -> tuple[int, ...]:
        """Return the n balls in play."""

    @property
    def rest(self) -> np.ndarray:
        """Return (n, 2) mean rest positions [m]."""

    @property
    def rest_covariance(self) -> np.ndarray:
        """Return their (n, 2, 2) covariance [m^2]."""

    @property
    def pocket_probability(self) -> np.ndarray:
        """Return (n,) probabilities."""

    @property
    def tracks(self) -> tuple[BallTrack, ...]:
        """Return the mean tracks, empty where none were asked for."""

    @property
    def ball_contacts(self) -> int:
        """Return the count of ball-ball contacts."""

    @property
    def cushion_contacts(self) -> int:
        """Return the count of cushion contacts."""


def regions(table: TableModel, places: np.ndarray) -> np.ndarray:
    """Return (k,) which of :data:`REGIONS` each of (k, 2) places [m] belongs to; those outside go to the nearest."""
    column = np.clip((places[:, 0] / table.length + 0.5) * len(COLUMNS), 0, len(COLUMNS) - 1).astype(int)
    row = np.clip((places[:, 1] / table.width + 0.5) * len(ROWS), 0, len(ROWS) - 1).astype(int)
    return row * len(COLUMNS) + column


def _ways(foreseen: Foreseen, start: Sequence[BallState]) -> list[np.ndarray]:
    """Return the path (k, 2) of each ball that moves: its track, or the straight line where there is none."""
    at = {b.ball_id: b.position for b in start if b.in_play}
    tracks = {t.ball_id: t.position for t in foreseen.tracks if len(t.position) > 1}
    found = []
    for ball_id, rest in zip(foreseen.ball_ids, foreseen.rest, strict=True):
        if ball_id in at:
            way = tracks.get(ball_id, np.zeros((0, 2)))
            way = np.concatenate([at[ball_id][None], way, rest[None]])
            if np.linalg.norm(way - way[0], axis=1).max() > _MOVED:
                found.append(way)
    return found


def traits(table: TableModel, speed: float, foreseen: Foreseen, start: Sequence[BallState]) -> dict[str, float]:
    """Return how much of each of :data:`TRAITS` a shot holds, 0..1 each.

    A metre of path, two cushions and two ball contacts are the whole of ``roll``, ``cushion`` and ``ball``. What it
    holds of ``roll`` is divided among ``slow`` and ``fast`` by its speed, and among the regions by the path in each.

    Args:
        table: it is played on.
        speed: of the tip [m/s].
        foreseen: outcome; without tracks, ways are taken to be straight, and a cushion to cost half a width of path.
        start: balls before it.
    """
    found = dict.fromkeys(TRAITS, 0.0)
    straight, lengths = not foreseen.tracks, np.zeros(len(REGIONS))
    for way in _ways(foreseen, start):
        steps = np.linalg.norm(np.diff(way, axis=0), axis=1)
        along = np.concatenate([[0.0], np.cumsum(steps)])
        pieces = math.ceil(along[-1] / _PIECE)
        middles = (np.arange(pieces) + 0.5) * along[-1] / pieces
        places = np.stack([np.interp(middles, along, way[:, axis]) for axis in range(2)], -1)
        lengths += np.bincount(regions(table, places), minlength=len(REGIONS)) * along[-1] / pieces
    total = float(np.sum(lengths))
    path = total + (foreseen.cushion_contacts * table.width / 2 if straight else 0.0)
    roll = min(path / _FULL_WAY, 1.0)
    fast = float(np.clip((speed - _SLOW) / (_FAST - _SLOW), 0.0, 1.0))
    found.update(
        roll=roll,
        cushion=min(foreseen.cushion_contacts, 2) / 2,
        ball=min(foreseen.ball_contacts, 2) / 2,
        slow=roll * (1 - fast),
        fast=roll * fast,
    )
    if total > 0:
        found.update({name: roll * float(length) / total for name, length in zip(REGIONS, lengths, strict=True)})
    return found


@dataclass(frozen=True)
class Expectation:
    """What was stated before a shot; n balls in play.

    Attributes:
        ball_ids: the balls.
        rest: (n, 2) where they will rest [m].
        covariance: (n, 2, 2) of that, everything not known before the shot included, widened [m^2].
        pocket_probability: (n,) that each is pocketed.
        shares: of the traits.
        widened: by which factor.
    """

    ball_ids: tuple[int, ...]
    rest: np.ndarray
    covariance: np.ndarray
    pocket_probability: np.ndarray
    shares: Mapping[str, float]
    widened: float = 1.0

    @classmethod
    def of(
        cls, foreseen: Foreseen, table: TableModel, speed: float, start: Sequence[BallState], widened: float = 1.0
    ) -> Expectation:
        """Return what a prediction states; see :func:`dispersion` for ``widened``."""
        return cls(
            tuple(foreseen.ball_ids),
            np.asarray(foreseen.rest, float),
            np.asarray(foreseen.rest_covariance, float) * widened,
            np.asarray(foreseen.pocket_probability, float),
            traits(table, speed, foreseen, start),
            widened,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        triangle = [[float(c[0, 0]), float(c[0, 1]), float(c[1, 1])] for c in self.covariance]
        return {
            "ball_ids": list(self.ball_ids),
            "rest_m": [[round(float(v), 6) for v in r] for r in self.rest],
            "covariance_m2": [[float(f"{v:.4g}") for v in row] for row in triangle],
            "pocket_probability": [round(float(p), 4) for p in self.pocket_probability],
            "traits": {k: round(v, 4) for k, v in self.shares.items() if v},
            "widened": round(self.widened, 4),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Expectation:
        """Read back what :meth:`to_dict` wrote."""
        triangle = np.array(data["covariance_m2"], float).reshape(-1, 3)
        return cls(
            tuple(int(i) for i in data["ball_ids"]),
            np.array(data["rest_m"], float).reshape(-1, 2),
            triangle[:, [0, 1, 1, 2]].reshape(-1, 2, 2),
            np.array(data["pocket_probability"], float),
            {k: float(v) for k, v in data["traits"].items()},
            float(data.get("widened", 1.0)),
        )


@dataclass(frozen=True)
class Residual:
    """One shot held against what was stated before it.

    Attributes:
        shot_id: of the shot.
        shares: of its traits.
        z2: per ball that moved or was to move; at most :data:`WORST`.
        pocket: per ball in play, the stated probability and whether it was pocketed.
        widened: factor by which the twin's covariance was widened for the statement.
    """

    shot_id: str
    shares: Mapping[str, float]
    z2: Mapping[int, float]
    pocket: Mapping[int, tuple[float, bool]]
    widened: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal, without what the expectation beside it says."""
        return {
            "z2": {str(i): round(v, 4) for i, v in self.z2.items()},
            "pocket": {str(i): [round(p, 4), gone] for i, (p, gone) in self.pocket.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], shot_id: str, expected: Expectation) -> Residual:
        """Read back what :meth:`to_dict` wrote; ``expected`` is what it was written beside."""
        pocket = {int(i): (float(p), bool(gone)) for i, (p, gone) in data["pocket"].items()}
        z2 = {int(i): float(v) for i, v in data["z2"].items()}
        return cls(shot_id, expected.shares, z2, pocket, expected.widened)

    @property
    def level(self) -> float:
        """Return the mean of z^2 per degree of freedom, as the twin alone states it; NaN when no ball counts."""
        return self.widened * float(np.mean(list(self.z2.values()))) / 2 if self.z2 else math.nan

    @property
    def inside(self) -> int:
        """Return how many balls came to rest within their 95 % regions."""
        return sum(v <= CHI2_95 for v in self.z2.values())


def residual(record: ShotRecord, expected: Expectation, sigma: float) -> Residual:
    """Hold a record against what was stated; ``sigma`` [m] is what the tracker errs in a place at rest.

    A ball counts where it moved or was to move. One that was pocketed has no place: it counts, as far outside, where
    this was stated to be rare.
    """
    before = {b.ball_id: b.position for b in record.before if b.in_play}
    after = {b.ball_id: b for b in record.after}
    z2: dict[int, float] = {}
    pocket: dict[int, tuple[float, bool]] = {}
    rows = zip(expected.ball_ids, expected.rest, expected.covariance, expected.pocket_probability, strict=True)
    for ball_id, rest, covariance, probability in rows:
        if ball_id not in before or ball_id not in after:
            continue
        seen = after[ball_id]
        pocket[ball_id] = float(probability), not seen.in_play
        if not seen.in_play:
            if probability < RARE_POCKET:
                z2[ball_id] = WORST
            continue
        ways = [np.linalg.norm(place - before[ball_id]) for place in (rest, seen.position)]
        if max(ways) > _MOVED:
            off = seen.position - rest
            value = float(off @ np.linalg.solve(covariance + sigma**2 * np.eye(2), off))
            z2[ball_id] = min(value, WORST) if math.isfinite(value) else WORST
    return Residual(record.shot_id, expected.shares, z2, pocket, expected.widened)


class Surprise:
    """What the residuals of a session say about the traits of shots."""

    def __init__(self, residuals: Sequence[Residual] = ()) -> None:
        """Take residuals in the order in which the shots were played."""
        self.residuals = tuple(r for r in residuals if r.z2)

    def _weights(self, trait: str) -> np.ndarray:
        newest = len(self.residuals) - 1
        ages = newest - np.arange(len(self.residuals))
        return np.array([r.shares.get(trait, 0.0) for r in self.residuals]) * 0.5 ** (ages / HALF_LIFE)

    def level(self, trait: str) -> float:
        """Return the mean z^2 per degree of freedom of shots with a trait; 1 = as stated."""
        weights = self._weights(trait)
        levels = np.array([r.level for r in self.residuals])
        return float((PRIOR_SHOTS + np.sum(weights * levels)) / (PRIOR_SHOTS + np.sum(weights)))

    def count(self, trait: str) -> float:
        """Return how many shots with a trait were seen, in whole shares, old ones as much as new ones."""
        return float(sum(r.shares.get(trait, 0.0) for r in self.residuals))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return level and count per trait, for the journal."""
        return {t: {"level": round(self.level(t), 3), "count": round(self.count(t), 2)} for t in TRAITS}


def dispersion(residuals: Sequence[Residual]) -> float:
    """Return by which factor covariances should be widened for the twin to be honest, at least 1.

    The mean level of the newest :data:`DISPERSION_SHOTS`, with a prior belief worth :data:`PRIOR_SHOTS` shots of 1.
    """
    levels = [min(r.level, DISPERSION_WORST) for r in residuals if r.z2][-DISPERSION_SHOTS:]
    return max((PRIOR_SHOTS + sum(levels)) / (PRIOR_SHOTS + len(levels)), 1.0)


def likely(residuals: Sequence[Residual]) -> bool:
    """Tell whether outcomes together lie where 95 % of those that are as stated do.

    Their sum of z^2 is held against chi^2 by the approximation of Wilson & Hilferty (1931). False without any.
    """
    balls = sum(len(r.z2) for r in residuals)
    if not balls:
        return False
    spread = 2 / (9 * 2 * balls)
    return sum(sum(r.z2.values()) for r in residuals) <= 2 * balls * (1 - spread + 1.645 * math.sqrt(spread)) ** 3


def coverage95(residuals: Sequence[Residual]) -> float:
    """Return the share of balls that came to rest within their 95 % regions; NaN without any."""
    total = sum(len(r.z2) for r in residuals)
    return sum(r.inside for r in residuals) / total if total else math.nan


def brier(residuals: Sequence[Residual]) -> float:
    """Return the mean square error of the stated pocket probabilities (Brier 1950); NaN without any."""
    errors = [(p - float(gone)) ** 2 for r in residuals for p, gone in r.pocket.values()]
    return float(np.mean(errors)) if errors else math.nan
