r"""What a shot is worth: gain towards the goal, surprise and novelty, less what it may cost.

For a shot the twin says its information :math:`M`, the scatter :math:`s` of its outcome for known parameters, and the
outcomes of an ensemble over everything unknown (:mod:`cue_sim.outlook`). With :math:`q = 1 / (1 + (s / s_0)^2)`,
:math:`s_0` = 5 cm, and :math:`q'` the same with 20 cm, the utility in nats is

.. math::
    U = g(q' M) + q \sum_k f_k \left[ w_s \log^+ l_k + \frac{w_n}{1 + n_k} \right] - \text{price} + \gamma V .

g is the expected gain (:mod:`cue_core.information`) towards predicting the table's typical shots
(:mod:`cue_agent.knowledge`). In the sum k runs over the traits of shots (:mod:`cue_agent.surprise`), :math:`f_k` is how
much of a trait the shot holds, :math:`l_k` by how much outcomes with it lay further off than their stated uncertainty,
:math:`n_k` how often it was seen: where the model is wrong its covariance knows nothing of it. Events, speeds and
regions share the sum evenly. Contacts within a frozen cluster are a known error of the model: shots that stir one are
worth :data:`FROZEN_WORTH` of the rest. V is the value of the shot after it (:mod:`cue_agent.lookahead`).

What is lost with a ball is the gain still to come. Of L shots left, each as informative as a usual one of gain g, a
linear Gaussian model of one parameter expects

.. math:: F = \tfrac12 \log\left(1 + L (e^{2 g} - 1)\right) ,

as information adds up. Without the cue ball, in a pocket or its mouth, all of F is lost and with it the held-out shots
(:data:`SESSION`); without one of b object balls its share F / (b + 1); a cue ball left hardly playable delays. Beside
their price, risks have limits (:func:`safe`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from cue_agent.config import AgentConfig
from cue_agent.hazard import RAIL_MARGIN, in_mouth, rest_hazards
from cue_agent.knowledge import Knowledge, lesson, quiet
from cue_agent.peers import CUE_BALL, Foresight, Prediction, Scene
from cue_agent.reach import FROZEN_GAP, Reach, remains_playable
from cue_agent.surprise import EVENTS, REGIONS, SPEEDS, Surprise, traits
from cue_core.balls import Visibility

MOVED = 0.003
"""[m]"""
SURPRISE_WORTH = 0.5
"""w_s: of one unit of log level in a trait that fills the shot [nat]."""
NOVELTY_WORTH = 0.1
"""w_n: of a trait that was never seen [nat]."""
FROZEN_WORTH = 0.25
SESSION = 1.0
"""Worth of the shots that judge the result [nat]."""
RAIL_PRICE = 0.3
"""Of leaving the cue ball near a cushion for sure [nat]."""
STUCK_PRICE = 0.5
"""Of leaving it hardly playable for sure, as a share of what is still to come."""
_GROUPS = (EVENTS, SPEEDS, REGIONS)
_LOOKED_AT = 6  # members of an ensemble, of which the arm is asked


@dataclass(frozen=True)
class Value:
    """A candidate's numbers, as they go to the journal.

    Attributes:
        utility: U, see the module [nat].
        gain: g towards the goal [nat].
        surprise: the part of recent surprises [nat].
        novelty: the part of traits not seen [nat].
        future: gamma V, 0 where it was not looked at [nat].
        price: of its risks [nat].
        pocket_cue: probability that the cue ball is pocketed.
        pocket_any: that any ball is.
        mouth: that the cue ball is left in a pocket's mouth, where no stroke reaches it.
        stuck: that the cue ball is left hardly playable.
        rail: that the cue ball is left near a cushion.
        scatter: of rest positions for known parameters, rms over the balls that move [m].
        ball_contacts: predicted count.
        cushion_contacts: predicted count.
    """

    utility: float
    gain: float
    surprise: float
    novelty: float
    future: float
    price: float
    pocket_cue: float
    pocket_any: float
    mouth: float
    stuck: float
    rail: float
    scatter: float
    ball_contacts: int
    cushion_contacts: int


def safe(value: Value, config: AgentConfig, slack: float = 1.0) -> bool:
    """Tell whether a shot's risks are within the limits, widened by ``slack``."""
    return (
        value.pocket_cue + value.mouth <= slack * config.max_cue_pocket
        and value.pocket_any <= slack * config.max_any_pocket
        and value.stuck <= slack * config.max_stuck
    )


def travel(scene: Scene, prediction: Prediction) -> np.ndarray:
    """Return (n,) how far from where it lay each ball comes to rest [m]; 0 for one that is not in play."""
    start = {b.ball_id: b.position for b in scene.balls if b.in_play}
    pairs = zip(prediction.ball_ids, prediction.rest, strict=True)
    return np.array([float(np.linalg.norm(rest - start[i])) if i in start else 0.0 for i, rest in pairs])


def stirs_cluster(scene: Scene, prediction: Prediction) -> bool:
    """Tell whether a shot moves balls that touch each other before it."""
    moved = {i for i, way in zip(prediction.ball_ids, travel(scene, prediction), strict=True) if way > MOVED}
    near = 2 * scene.table.ball_radius + FROZEN_GAP
    return any(
        float(np.linalg.norm(a.position - b.position)) < near and {a.ball_id, b.ball_id} & moved
        for a, b in combinations((b for b in scene.balls if b.in_play), 2)
    )


def to_come(gain: float, shots_left: int) -> float:
    """Return F, the gain [nat] still expected from ``shots_left`` shots like one of ``gain``."""
    return 0.5 * math.log1p(max(shots_left, 0) * math.expm1(2 * gain))


def worth(
    scene: Scene, speed: float, seen: Foresight, knowledge: Knowledge, surprise: Surprise
) -> tuple[float, float, float]:
    """Return gain, surprise and novelty of a shot [nat]; risks are not looked at.

    Args:
        scene: before it.
        speed: of the tip [m/s].
        seen: what it may do and teach.
        knowledge: before it.
        surprise: of the shots played.
    """
    factor = FROZEN_WORTH if stirs_cluster(scene, seen) else 1.0
    shares = traits(scene.table, speed, seen, scene.balls)
    weight = factor * quiet(seen.scatter) / len(_GROUPS)
    lack = sum(shares[k] * max(math.log(surprise.level(k)), 0.0) for group in _GROUPS for k in group)
    fresh = sum(shares[k] / (1 + surprise.count(k)) for group in _GROUPS for k in group)
    gain = knowledge.gain(factor * lesson(seen))
    return gain, SURPRISE_WORTH * weight * lack, NOVELTY_WORTH * weight * fresh


def outcome(scene: Scene, seen: Foresight, member: int) -> Scene:
    """Return the scene as one member of the ensemble leaves it."""
    rows = {i: n for n, i in enumerate(seen.ball_ids)}
    balls = []
    for ball in scene.balls:
        if ball.ball_id in rows and ball.in_play:
            row = rows[ball.ball_id]
            gone = bool(seen.pocketed[member, row])
            visibility = Visibility.POCKETED if gone else ball.visibility
            ball = replace(ball, position=seen.rests[member, row], visibility=visibility)
        balls.append(ball)
    return Scene(scene.table, tuple(balls))


def members(seen: Foresight, count: int) -> list[int]:
    """Return ``count`` members that stand for the outcomes in which the cue ball stays, evenly along their spread."""
    if CUE_BALL not in seen.ball_ids:
        return []
    row = seen.ball_ids.index(CUE_BALL)
    kept = np.flatnonzero(~seen.pocketed[:, row])
    if not len(kept):
        return []
    rests = seen.rests[kept, row]
    off = rests - rests.mean(axis=0)
    longest = np.linalg.eigh(off.T @ off)[1][:, -1]
    order = kept[np.argsort(off @ longest, kind="stable")]
    places = (np.arange(count) + 0.5) * len(order) / count
    return list(dict.fromkeys(int(order[int(p)]) for p in places))


def evaluate(
    scene: Scene,
    speed: float,
    seen: Foresight,
    parts: tuple[float, float, float],
    still: float,
    rest_stddev: float,
    reach: Reach,
    min_playable: float,
) -> Value:
    """Return a candidate's numbers; what may follow is not looked at.

    Args:
        scene: before the shot.
        speed: of the tip [m/s].
        seen: what it may do.
        parts: gain, surprise and novelty, see :func:`worth`.
        still: gain that is still to come, see :func:`to_come` [nat].
        rest_stddev: of a predicted rest position beyond the ensemble's [m].
        reach: of the arm.
        min_playable: share of directions without which a cue ball is stuck.
    """
    gone = seen.pocketed
    cue = gone[:, seen.ball_ids.index(CUE_BALL)] if CUE_BALL in seen.ball_ids else np.ones(len(gone), bool)
    others = [n for n, i in enumerate(seen.ball_ids) if i != CUE_BALL]
    pocket_cue, pocket_any = float(cue.mean()), float(gone.any(axis=1).mean())
    lost = float(gone[:, others].sum(axis=1).mean()) if others else 0.0
    mouth = rail = 0.0
    if CUE_BALL in seen.ball_ids:
        rests = seen.rests[:, seen.ball_ids.index(CUE_BALL)]
        mouth, rail = rest_hazards(scene.table, rests, cue, rest_stddev)
    stuck = _stuck(scene, seen, reach, min_playable) if pocket_any < 0.5 else 1.0
    gain, lack, fresh = parts
    price = (pocket_cue + mouth) * (still + SESSION) + lost * still / (len(others) + 1)
    price += stuck * STUCK_PRICE * still + rail * RAIL_PRICE
    return Value(
        utility=gain + lack + fresh - price,
        gain=gain,
        surprise=lack,
        novelty=fresh,
        future=0.0,
        price=price,
        pocket_cue=pocket_cue,
        pocket_any=pocket_any,
        mouth=mouth,
        stuck=stuck,
        rail=rail,
        scatter=seen.scatter,
        ball_contacts=seen.ball_contacts,
        cushion_contacts=seen.cushion_contacts,
    )


def _stuck(scene: Scene, seen: Foresight, reach: Reach, min_playable: float) -> float:
    """Return the share of outcomes that leave fewer than ``min_playable`` of all directions playable."""
    found = [outcome(scene, seen, m) for m in members(seen, _LOOKED_AT)]
    found = [s for s in found if s.cue_ball is not None and not in_mouth(s.table, s.cue_ball.position[None])[0]]
    return sum(not (_in_the_open(s) or remains_playable(s, reach, min_playable)) for s in found) / max(len(found), 1)


def _in_the_open(scene: Scene) -> bool:
    """Tell whether the cue ball is clear of cushions and balls, so that the arm need not be asked."""
    ball = scene.cue_ball
    if ball is None or not scene.table.inside(ball.position, RAIL_MARGIN):
        return False
    room = 4 * scene.table.ball_radius
    return all(float(np.linalg.norm(b.position - ball.position)) > room for b in scene.object_balls)
