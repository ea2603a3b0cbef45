r"""What a shot is worth: information, misfit, novelty, against chaos and risk.

For a candidate shot :math:`a` the twin gives the mean rest positions :math:`r_i` of the balls that move, their
covariance :math:`\Sigma_i` over the posterior ensemble, and the probability that each is pocketed. Four copies with the
stroke's speed and azimuth one standard deviation :math:`s` off give the spread that strokes alone cause,

.. math:: C_i = \tfrac12 \sum_{s} (\Delta_{i,+s}\Delta_{i,+s}^T + \Delta_{i,-s}\Delta_{i,-s}^T) ,

and, with the tracker's :math:`\sigma`, the utility in nats is

.. math::
    U(a) = \sum_i \tfrac12 \log\det\left(I + \Sigma_i (\sigma^2 I + C_i)^{-1}\right)
         + q(a) \sum_k f_k(a) \left[ \log(1 + m_k / m_0) + \frac{1}{1 + n_k} \right]
         - P_{any}(a) .

The first sum is the expected information about the parameters in a linear Gaussian model of each ball (Lindley 1956;
Chaloner & Verdinelli 1995, section 2). It saturates where outcomes scatter because of the stroke, so chaotic shots are
worth little. Balls are taken as independent, so shots that move several count somewhat too much. In the second sum
:math:`k` runs over rolling, cushion and ball contacts; :math:`f_k` is how much of it the shot holds (1 = a metre of
rolling, two cushions, two ball contacts), :math:`m_k` the error per metre of path that the fitted twin leaves after
such events in the recorded shots (:math:`m_0` = 2 %), :math:`n_k` the number of stretches seen. The
factor :math:`q = 1 / (1 + (s / s_0)^2)`, with the rms scatter :math:`s` of :math:`C` and :math:`s_0` = 0.1 m, keeps
chaos from passing for a lesson here too.

Risks are limits, not prices: P(cue ball pocketed or left in a pocket's mouth), P(any ball pocketed) and P(cue ball left
where hardly any stroke is playable), each over ensemble, copies and further copies (:func:`worries`) together. Only a
cue ball near a cushion, from which the next shot is a poor one, has a price: :data:`RAIL_PRICE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_agent.hazard import RAIL_MARGIN, rest_hazards
from cue_agent.misfit import KINDS, Misfit
from cue_agent.peers import CUE_BALL, Prediction, Scene
from cue_agent.reach import Reach, remains_playable
from cue_core.balls import Visibility
from cue_core.shots import Shot

MISFIT_SCALE = 0.02
"""Error per metre of path that counts as one unit of misfit [m/m]."""
SCATTER_SCALE = 0.10
"""Scatter of rest positions that halves the worth of misfit and novelty [m]."""
MOVED = 0.003
"""[m]"""
_WORRIES = tuple((v, a) for v in (-2, 0, 1, 2) for a in (-2, -1, 1, 2))
"""Errors of speed and azimuth [standard deviations]."""
RAIL_PRICE = 2.0
"""Of leaving the cue ball near a cushion for sure [nat]."""


@dataclass(frozen=True)
class Value:
    """A candidate's numbers, as they go to the journal.

    Attributes:
        utility: U, see the module [nat].
        information: its first sum [nat].
        misfit: the misfit part of the second [nat].
        novelty: the rest of it [nat].
        pocket_cue: probability that the cue ball is pocketed.
        pocket_any: that any ball is.
        mouth: that the cue ball is left in a pocket's mouth, where no stroke reaches it.
        stuck: that the cue ball is left hardly playable.
        rail: that the cue ball is left near a cushion.
        scatter: of rest positions, from errors of the stroke alone, rms over the balls that move [m].
        ball_contacts: predicted count.
        cushion_contacts: predicted count.
    """

    utility: float
    information: float
    misfit: float
    novelty: float
    pocket_cue: float
    pocket_any: float
    mouth: float
    stuck: float
    rail: float
    scatter: float
    ball_contacts: int
    cushion_contacts: int


def copies(shot: Shot, speed_stddev: float, azimuth_stddev: float) -> list[Shot]:
    """Return the shot with its speed (relative) and azimuth [rad] one standard deviation off, in pairs."""
    return [
        replace(shot, shot_id=f"{shot.shot_id}:{i}", **changed)
        for i, changed in enumerate(
            (
                {"speed": shot.speed * (1 + speed_stddev)},
                {"speed": shot.speed * (1 - speed_stddev)},
                {"azimuth": shot.azimuth + azimuth_stddev},
                {"azimuth": shot.azimuth - azimuth_stddev},
            )
        )
    ]


def worries(shot: Shot, speed_stddev: float, azimuth_stddev: float) -> list[Shot]:
    """Return further copies, up to two standard deviations off in both at once: where a shot may end at worst."""
    found = []
    for i, (speed, azimuth) in enumerate(_WORRIES):
        factor = math.exp(speed * speed_stddev)  # stays positive however large the error
        shifted = shot.azimuth + azimuth * azimuth_stddev
        found.append(replace(shot, shot_id=f"{shot.shot_id}:w{i}", speed=shot.speed * factor, azimuth=shifted))
    return found


def travel(scene: Scene, prediction: Prediction) -> np.ndarray:
    """Return (n,) how far from where it lay each ball comes to rest [m]; 0 for one that is not in play."""
    start = {b.ball_id: b.position for b in scene.balls if b.in_play}
    pairs = zip(prediction.ball_ids, prediction.rest, strict=True)
    return np.array([float(np.linalg.norm(rest - start[i])) if i in start else 0.0 for i, rest in pairs])


def chaos(prediction: Prediction, perturbed: Sequence[Prediction]) -> np.ndarray:
    """Return the (n, 2, 2) covariance [m^2] of rest positions that the stroke's own errors cause."""
    total = np.zeros((len(prediction.ball_ids), 2, 2))
    for other in perturbed:
        off = other.rest - prediction.rest
        total += 0.5 * np.einsum("ni,nj->nij", off, off)
    return total


def information(spread: np.ndarray, scatter: np.ndarray, sigma: float) -> float:
    """Return the expected information [nat].

    Args:
        spread: (n, 2, 2) covariance of the outcome over the posterior [m^2].
        scatter: (n, 2, 2) covariance for known parameters [m^2].
        sigma: of the measurement [m].
    """
    noise = scatter + sigma**2 * np.eye(2)
    ratio = np.eye(2) + np.linalg.solve(noise, spread)
    return float(0.5 * np.sum(np.log(np.maximum(np.linalg.det(ratio), 1.0)))) if len(spread) else 0.0


def shares(scene: Scene, prediction: Prediction) -> dict[str, float]:
    """Return f_k: how much of each kind the shot holds, each 0..1."""
    way = float(np.sum(travel(scene, prediction)))
    way += prediction.cushion_contacts * scene.table.width / 2  # a ball that comes back has gone further
    return {
        "roll": min(way, 1.0),
        "cushion": min(prediction.cushion_contacts, 2) / 2,
        "ball": min(prediction.ball_contacts, 2) / 2,
    }


def pocketed(predictions: Sequence[tuple[Prediction, float]]) -> tuple[float, float]:
    """Return P(cue ball pocketed), P(any ball pocketed) over weighted predictions of the same shot."""
    total = sum(w for _, w in predictions)
    cue = other = 0.0
    for prediction, weight in predictions:
        p = np.clip(prediction.pocket_probability, 0.0, 1.0)
        cue += weight * sum(float(v) for i, v in zip(prediction.ball_ids, p, strict=True) if i == CUE_BALL)
        other += weight * (1.0 - float(np.prod(1.0 - p)))
    return cue / total, other / total


def scene_after(scene: Scene, prediction: Prediction) -> Scene:
    """Return the scene as predicted at rest; balls that are pocketed rather than not are gone."""
    rest = {i: (prediction.rest[n], prediction.pocket_probability[n]) for n, i in enumerate(prediction.ball_ids)}
    balls = []
    for ball in scene.balls:
        if ball.ball_id in rest and ball.in_play:
            position, gone = rest[ball.ball_id]
            visibility = Visibility.POCKETED if gone > 0.5 else ball.visibility
            ball = replace(ball, position=position, visibility=visibility)
        balls.append(ball)
    return Scene(scene.table, tuple(balls))


def stuck(scene: Scene, outcomes: Sequence[Prediction], reach: Reach, min_playable: float) -> float:
    """Return the share of outcomes that leave fewer than ``min_playable`` of all directions playable."""
    after = [scene_after(scene, o) for o in outcomes]
    return sum(not (_in_the_open(s) or remains_playable(s, reach, min_playable)) for s in after) / len(outcomes)


def _in_the_open(scene: Scene) -> bool:
    """Tell whether the cue ball is clear of cushions and balls, so that the arm need not be asked."""
    ball = scene.cue_ball
    if ball is None or not scene.table.inside(ball.position, RAIL_MARGIN):
        return False
    room = 4 * scene.table.ball_radius
    return all(float(np.linalg.norm(b.position - ball.position)) > room for b in scene.object_balls)


def evaluate(
    scene: Scene,
    prediction: Prediction,
    perturbed: Sequence[Prediction],
    worst: Sequence[Prediction],
    ensemble: int,
    misfits: Mapping[str, Misfit],
    sigma: float,
    rest_stddev: float,
    reach: Reach,
    min_playable: float,
) -> Value:
    """Return a candidate's numbers.

    Args:
        scene: before the shot.
        prediction: over the ensemble.
        perturbed: of the four :func:`copies`, mean parameters.
        worst: of the :func:`worries`, mean parameters; they count for risks alone.
        ensemble: samples behind ``prediction``, 0 = the mean only.
        misfits: of the recorded shots.
        sigma: of an observed rest position [m].
        rest_stddev: of a predicted rest position beyond the ensemble's [m].
        reach: of the arm.
        min_playable: share of directions.
    """
    moves = travel(scene, prediction) > MOVED
    scatter = chaos(prediction, perturbed)[moves]
    gain = information(prediction.rest_covariance[moves], scatter, sigma)
    part = shares(scene, prediction)
    rms = math.sqrt(float(np.mean(np.trace(scatter, axis1=1, axis2=2)))) if len(scatter) else 0.0
    quiet = 1.0 / (1.0 + (rms / SCATTER_SCALE) ** 2)
    lack = quiet * sum(part[k] * math.log1p(misfits[k].growth / MISFIT_SCALE) for k in KINDS)
    novelty = quiet * sum(part[k] / (1 + misfits[k].stretches) for k in KINDS)
    outcomes = [prediction, *perturbed, *worst]
    cue, any_ball = pocketed([(prediction, max(ensemble, 1)), *((p, 1.0) for p in outcomes[1:])])
    mouth, rail = rest_hazards(scene.table, outcomes, rest_stddev)
    return Value(
        utility=gain + lack + novelty - any_ball - RAIL_PRICE * rail,
        information=gain,
        misfit=lack,
        novelty=novelty,
        pocket_cue=cue,
        pocket_any=any_ball,
        mouth=mouth,
        rail=rail,
        stuck=stuck(scene, [prediction, *perturbed], reach, min_playable) if any_ball < 0.5 else 1.0,
        scatter=rms,
        ball_contacts=prediction.ball_contacts,
        cushion_contacts=prediction.cushion_contacts,
    )
