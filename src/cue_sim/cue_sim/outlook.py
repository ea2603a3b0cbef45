r"""What a planned shot may do, and what seeing it would teach.

One designed ensemble answers both. Everything that is not known before the shot, the d fitted parameters and the q
nuisances (the stroke's azimuth and speed, the places of the balls), is disturbed at once, in units of its standard
deviations: the rows of an orthogonal design :math:`Z` (h x n, n = d + q, :math:`Z^T Z = h I`) and their negatives, 2h
simulated shots. With :math:`y_\pm` the sampled positions of the balls that move, stacked, the odd and even parts

.. math:: o_i = (y_{+i} - y_{-i}) / 2, \qquad e_i = (y_{+i} + y_{-i}) / 2

give the statistical linearisation :math:`J = Z^T o / h` (Lefebvre, Bruyninckx & De Schutter 2002), and what no line
explains: the rows :math:`o - Z J` and :math:`e - \bar e`, over their degrees of freedom. These residuals are the chaos
of the shot; stacked below the nuisances' rows of :math:`J` they form :math:`B`, and the information about the
parameters, in units of their standard deviations, is

.. math:: M = J_\theta (R + B^T B)^{-1} J_\theta^T ,

with :math:`R` the tracker's own noise: nuisances are marginalised as the fit does it, and where small errors swamp the
outcome nothing is left to learn. Of the stroke's errors the arm measures most; for where the balls go they count whole,
for what is learnt only as far as it does not see them. And a table may have more terms than were fitted: with even odds
of a plain one, each of C terms has probability 1 / (2 C) (Scott & Berger 2010), so that its parameters have
:math:`1 / \sqrt{2 C}` of their priors' standard deviation. A few random mixtures stand for them all, as nuisances. The
expected gain of a linear Gaussian model is :math:`\tfrac12 \log\det(I + M)` (Lindley 1956; Chaloner & Verdinelli 1995,
section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.settings import check_settings, setting
from cue_core.shots import Shot
from cue_core.terms import TERMS
from cue_sim.kernel import EventKind
from cue_sim.path import Trajectory
from cue_sim.predict import CUE_BALL, TwinFaultError, possible, rest_fault, start_from
from cue_sim.twin import Start, Twin

_SAMPLES = 24
_SPARE = 8  # rows of the design beyond its columns: what is left tells of chaos
_MIXTURES = 6  # of what is not fitted: all of it would be most of the ensemble
_OUTSIDE = ("azimuth_bias", "latency")  # terms of arm and camera, not of the table
_TERMS_STDDEV = np.array([p.prior_stddev for p in PARAMETERS.values()]) * np.isin(
    list(PARAMETERS), [name for term in TERMS if term.name not in _OUTSIDE for name in term.names]
)
_MOVED = 3e-3  # [m] a ball that may move by more than this is measured
_AFTER_REST = 0.5  # [s] from where all balls rest in the mean to the last sample


@dataclass(frozen=True)
class Unknowns:
    """Standard deviations of what is not known before a shot, and of how it will be seen."""

    azimuth: float = setting(0.003, "of a stroke's direction, unseen by the arm", "rad", 0.0, 0.2)
    speed: float = setting(0.01, "of a stroke's speed, relative, unseen by the arm", "1", 0.0, 0.5)
    played_azimuth: float = setting(0.001, "of a stroke's direction against the one asked for, seen", "rad", 0.0, 0.2)
    played_speed: float = setting(0.005, "of a stroke's speed, relative to the one asked for, seen", "1", 0.0, 0.5)
    place: float = setting(5e-4, "of a resting ball's position along an axis", "m", 0.0, 0.05)
    track: float = setting(1e-3, "of a position in one image along an axis", "m", 1e-5, 0.05)
    bias: float = setting(3e-4, "the same, of what does not average over images", "m", 1e-6, 0.05)
    frame_rate: float = setting(30.0, "of the camera", "1/s", 1.0, 1000.0)
    alike: float = setting(4.0, "images whose errors go together", "1", 1.0, 1000.0)
    strange: float = setting(
        0.25, "of terms that are not fitted, in shares of their priors' standard deviations", "1", 0.0, 3.0
    )

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            OutOfRangeError: naming it.
        """
        check_settings(self)


@dataclass(frozen=True)
class Outlook:
    """What a shot may do and teach; n balls in the twin's order, d fitted parameters.

    Attributes:
        shot_id: of the shot.
        mean: trajectory for the estimate's values and the stroke as asked, sampled at ``mean.times``.
        rest_mean: (n, 2) over the ensemble [m].
        rest_covariance: (n, 2, 2) over everything unknown [m^2].
        pocket_probability: (n,) share of the ensemble.
        rests: (2h, n, 2) where the balls come to rest in each member [m].
        pocketed: (2h, n) bool.
        names: of the d parameters.
        information: (d, d) about them, in their units; nuisances and chaos marginalised.
        sensitivity: (d, d), in their units: with a covariance C of the parameters, trace(C @ sensitivity) is the mean
            square of the rest error that it causes, over the balls that move [m^2].
        scatter: rms over the balls that move of the rest positions' spread for known parameters and a stroke measured
            by the arm [m].
        faults: members that failed and take no part.
    """

    shot_id: str
    mean: Trajectory
    rest_mean: np.ndarray
    rest_covariance: np.ndarray
    pocket_probability: np.ndarray
    rests: np.ndarray
    pocketed: np.ndarray
    names: tuple[str, ...]
    information: np.ndarray
    sensitivity: np.ndarray
    scatter: float
    faults: int

    @property
    def contacts(self) -> tuple[int, int]:
        """Return the numbers of ball-ball and cushion contacts in the mean."""
        return self.mean.contacts(EventKind.BALL_BALL), self.mean.contacts(EventKind.CUSHION)


def spread_of(estimate: ParameterEstimate) -> tuple[np.ndarray, np.ndarray]:
    """Return (d,) places in a parameter vector of what is fitted, and their (d, d) covariance.

    Before any fit they are the default ones, as uncertain as their priors.
    """
    if estimate.revision == 0:
        chosen = np.array([i for i, p in enumerate(PARAMETERS.values()) if p.fitted])
        stddev = np.array([p.prior_stddev for p in PARAMETERS.values() if p.fitted])
        return chosen, np.diag(stddev**2)
    chosen = np.flatnonzero(~estimate.frozen)
    covariance = estimate.covariance[np.ix_(chosen, chosen)]
    return chosen, (covariance + covariance.T) / 2


def outlooks(
    twin: Twin,
    balls: Sequence[BallState],
    shots: Sequence[Shot],
    estimate: ParameterEstimate,
    unknowns: Unknowns | None = None,
    threads: int | None = None,
) -> list[Outlook | None]:
    """Look ahead at shots that each start from the same balls at rest; None for one that the twin cannot simulate.

    The design is the same for all shots with as many moving balls, so that their figures differ by the shots alone.

    Args:
        twin: of the table, with at least the balls in play.
        balls: at rest before the shot.
        shots: planned.
        estimate: whose values and covariance count.
        unknowns: beside the parameters.
        threads: None = one per core; the result does not depend on it.

    Raises:
        FileFormatError: the balls do not fit the twin.
        OutOfRangeError: a stroke that no cue can make.
    """
    unknowns = unknowns or Unknowns()
    values = estimate.values
    bases = [start_from(balls, shot, values, twin.table, twin.ball_ids) for shot in shots]
    rows = np.tile(values, (len(shots), 1)) if shots else np.zeros((0, len(values)))
    means = twin.simulate_batch(bases, rows, threads=threads) if shots else []
    plans = [
        None if rest_fault(mean) else _Plan(twin, balls, shot, base, mean, estimate, unknowns)
        for shot, base, mean in zip(shots, bases, means, strict=True)
    ]
    live = [plan for plan in plans if plan is not None]
    if not live:
        return [None] * len(shots)
    starts = [start for plan in live for start in plan.starts]
    vectors = np.concatenate([plan.vectors for plan in live])
    times = [plan.times for plan in live for _ in plan.starts]
    paths = iter(twin.simulate_batch(starts, vectors, times, threads=threads))
    found: list[Outlook | None] = []
    for plan in plans:
        found.append(None if plan is None else plan.read([next(paths) for _ in plan.starts]))
    return found


def outlook(
    twin: Twin,
    balls: Sequence[BallState],
    shot: Shot,
    estimate: ParameterEstimate,
    unknowns: Unknowns | None = None,
    threads: int | None = 1,
) -> Outlook:
    """Look ahead at one shot; see :func:`outlooks`.

    Raises:
        TwinFaultError: the twin cannot simulate it.
    """
    (found,) = outlooks(twin, balls, [shot], estimate, unknowns, threads)
    if found is None:
        raise TwinFaultError("the mean of the shot", shot.shot_id or "the shot")
    return found


def _design(columns: int) -> np.ndarray:
    """Return (h, columns) Z with Z^T Z = h I, the same at every call."""
    rows = columns + _SPARE
    drawn = np.random.default_rng([0xDE51, columns]).standard_normal((rows, columns))
    basis, triangle = np.linalg.qr(drawn)
    return np.sqrt(rows) * basis * np.sign(np.diag(triangle))  # the signs of a QR are the library's whim


def _share(part: float, rest: float) -> float:
    whole = float(np.hypot(part, rest))
    return part / whole if whole else 0.0


def _strange(chosen: np.ndarray) -> np.ndarray:
    """Return (mixtures, P) deviations of the terms' parameters but for the ``chosen`` ones, the same at every call."""
    stddev = _TERMS_STDDEV.copy()
    stddev[chosen] = 0.0
    drawn = np.random.default_rng(0xDE51).standard_normal((_MIXTURES, len(PARAMETERS)))
    return drawn * stddev / np.sqrt(_MIXTURES)


class _Plan:
    """The ensemble of one shot: member 0 is the mean, then h rows of the design, then their negatives."""

    def __init__(
        self,
        twin: Twin,
        balls: Sequence[BallState],
        shot: Shot,
        base: Start,
        mean: Trajectory,
        estimate: ParameterEstimate,
        unknowns: Unknowns,
    ) -> None:
        self.shot, self.twin, self.unknowns = shot, twin, unknowns
        order = twin.ball_ids
        way = np.linalg.norm(mean.rest_positions - base.positions, axis=1)
        moving = [k for k in range(len(order)) if base.in_play[k] and (way[k] > _MOVED or mean.rest_pocketed[k])]
        self.moving = sorted({*moving, order.index(CUE_BALL)})
        chosen, covariance = spread_of(estimate)
        variance, axes = np.linalg.eigh(covariance)
        # the sign of an eigenvector is the library's whim
        axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(len(axes))] < 0, -1.0, 1.0)
        self.root = axes * np.sqrt(np.maximum(variance, 0.0))  # (d, d): parameters = root @ z
        self.names = tuple(name for i, name in enumerate(PARAMETERS) if i in set(chosen.tolist()))
        self.d = len(chosen)
        self.design = _design(self.d + 2 + 2 * len(self.moving) + (_MIXTURES if unknowns.strange else 0))
        z = np.concatenate([np.zeros((1, self.design.shape[1])), self.design, -self.design])
        vectors = np.tile(estimate.values, (len(z), 1))
        vectors[:, chosen] += z[:, : self.d] @ self.root.T
        if unknowns.strange:
            vectors += unknowns.strange * z[:, -_MIXTURES:] @ _strange(chosen)
        self.vectors = np.concatenate([estimate.values[None], possible(vectors[1:])])
        self.starts = [self._start(balls, base, row, vector) for row, vector in zip(z, self.vectors, strict=True)]
        end = float(mean.rest_time) + _AFTER_REST
        self.times = np.linspace(end / _SAMPLES, end, _SAMPLES)

    def _start(self, balls: Sequence[BallState], base: Start, z: np.ndarray, vector: np.ndarray) -> Start:
        unknowns, d = self.unknowns, self.d
        turn = np.hypot(unknowns.azimuth, unknowns.played_azimuth) * z[d]
        gain = np.hypot(unknowns.speed, unknowns.played_speed) * z[d + 1]
        shot = replace(self.shot, azimuth=self.shot.azimuth + turn, speed=self.shot.speed * float(np.exp(gain)))
        start = start_from(balls, shot, vector, self.twin.table, self.twin.ball_ids)
        positions = start.positions.copy()
        positions[self.moving] += unknowns.place * z[d + 2 :][: 2 * len(self.moving)].reshape(-1, 2)
        return replace(start, positions=positions)

    def read(self, paths: Sequence[Trajectory]) -> Outlook | None:
        """Return the outlook from the simulated members; None where too many failed."""
        h, unknowns = len(self.design), self.unknowns
        mean, plus, minus = paths[0], paths[1 : h + 1], paths[h + 1 :]
        whole = np.array([rest_fault(p) is None and rest_fault(m) is None for p, m in zip(plus, minus, strict=True)])
        if rest_fault(mean) is not None or 2 * int(whole.sum()) <= self.design.shape[1]:
            return None
        kept = np.flatnonzero(whole)
        z = self.design[kept]
        above, below = [plus[int(i)] for i in kept], [minus[int(i)] for i in kept]
        rests = np.array([p.rest_positions for p in (*above, *below)])
        pocketed = np.array([p.rest_pocketed for p in (*above, *below)])
        members = rests - rests.mean(axis=0)
        covariance = np.einsum("bni,bnj->nij", members, members) / (len(members) - 1)

        moving, places = self.moving, np.array([p.positions[:, self.moving] for p in (*above, *below)])
        measured = np.concatenate([places.reshape(len(places), -1), rests[:, moving].reshape(len(rests), -1)], axis=1)
        odd = 0.5 * (measured[: len(kept)] - measured[len(kept) :])
        even = 0.5 * (measured[: len(kept)] + measured[len(kept) :])
        slope, *_ = np.linalg.lstsq(z, odd, rcond=None)  # (n, m)
        spare = max(len(kept) - z.shape[1], 1)
        bent = (even - even.mean(axis=0)) / np.sqrt(max(len(kept) - 1, 1))
        unseen = np.ones(len(slope) - self.d)
        unseen[0] = _share(unknowns.azimuth, unknowns.played_azimuth)
        unseen[1] = _share(unknowns.speed, unknowns.played_speed)
        noise = np.concatenate([unseen[:, None] * slope[self.d :], (odd - z @ slope) / np.sqrt(spare), bent])  # B
        images = max(float(self.times[0]) * unknowns.frame_rate / unknowns.alike, 1.0)
        sigma = np.full(measured.shape[1], np.hypot(unknowns.track / np.sqrt(images), unknowns.bias))
        sigma[-2 * len(moving) :] = np.hypot(unknowns.track / np.sqrt(10 * images), unknowns.bias)  # seen at leisure
        whitened = self._information(slope[: self.d] / sigma, noise / sigma)
        unroot = np.linalg.pinv(self.root)
        at_rest = slice(measured.shape[1] - 2 * len(moving), None)
        taught, known = slope[: self.d, at_rest], noise[:, at_rest]
        return Outlook(
            shot_id=self.shot.shot_id,
            mean=mean,
            rest_mean=rests.mean(axis=0),
            rest_covariance=covariance,
            pocket_probability=pocketed.mean(axis=0),
            rests=rests,
            pocketed=pocketed,
            names=self.names,
            information=unroot.T @ whitened @ unroot,
            sensitivity=unroot.T @ (taught @ taught.T / len(moving)) @ unroot,
            scatter=float(np.sqrt(np.sum(known**2) / len(moving))),
            faults=2 * (h - len(kept)),
        )

    @staticmethod
    def _information(slope: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return J (I + B^T B)^-1 J^T by Woodbury's identity, J (d, m) and B (q, m) in units of the noise."""
        inner = np.eye(len(noise)) + noise @ noise.T
        cross = noise @ slope.T
        found = slope @ slope.T - cross.T @ np.linalg.solve(inner, cross)
        return (found + found.T) / 2
