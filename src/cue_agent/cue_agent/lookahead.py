r"""What remains to be done after a shot: its likely outcomes, and the best that can be played from each.

From a few members of a shot's ensemble, which stand for where the balls may lie after it, shots are proposed as for the
first, simulated once, and those of the largest promise are looked at with the covariance that is expected after the
first shot. With u the best of their worths within the limits of risk and p the share of the proposals that the arm can
play and that keep all balls on the table,

.. math:: V = \overline{u \, \min(1, p / p_0)} ,

the mean over the outcomes: a table on which little works teaches little, and the best of many proposals counts on being
among those that the arm really plays. One step of rollout (Bertsekas 2019, section 2.4), as in non-myopic design of
experiments (Gonzalez, Osborne & Lawrence 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cue_agent.candidates import Candidate, mixed
from cue_agent.hazard import in_mouth
from cue_agent.knowledge import Knowledge
from cue_agent.peers import CUE_BALL, Foresight, Prediction, Scene, Twin
from cue_agent.promise import Promise, features
from cue_agent.reach import Reach, SectorReach
from cue_agent.surprise import Surprise
from cue_agent.value import members, outcome, worth

DISCOUNT = 0.7
"""Gamma: a shot after the next is chosen with what was learnt meanwhile, so this one need not count on it."""
ENOUGH = 0.35
"""p_0: share of proposals that work on a table that is as playable as any."""


@dataclass(frozen=True)
class Thought:
    """How far to think ahead; counts of shots, never seconds.

    Attributes:
        outcomes: of the first shot.
        proposals: of the second shot in each.
        replies: of these, looked at with the ensemble.
    """

    outcomes: int = 2
    proposals: int = 40
    replies: int = 2


@dataclass(frozen=True)
class Future:
    """What remains after a shot.

    Attributes:
        value: V [nat].
        playable: p, mean over the outcomes.
    """

    value: float
    playable: float


def keeps_balls(scene: Scene, prediction: Prediction | None) -> bool:
    """Tell whether a predicted outcome keeps all balls, and the cue ball out of the pockets' mouths."""
    if prediction is None or np.any(prediction.pocket_probability > 0.5):
        return False
    rows = [n for n, i in enumerate(prediction.ball_ids) if i == CUE_BALL]
    return not any(in_mouth(scene.table, prediction.rest[n : n + 1])[0] for n in rows)


def future(
    scene: Scene,
    seen: Foresight,
    knowledge: Knowledge,
    promise: Promise,
    surprise: Surprise,
    twin: Twin,
    revision: int,
    speeds: tuple[float, float],
    reach: Reach,
    rng: np.random.Generator,
    limit: float,
    thought: Thought,
) -> Future:
    """Think one shot further.

    Args:
        scene: before the first shot.
        seen: what the first shot may do.
        knowledge: expected after it.
        promise: of shots, given that knowledge.
        surprise: of the shots played.
        twin: predicts.
        revision: of the estimate.
        speeds: slowest and fastest tip [m/s].
        reach: of the arm.
        rng: of the proposals.
        limit: largest probability of pocketing any ball.
        thought: how far.
    """
    values, shares = [], []
    for member in members(seen, thought.outcomes):
        after = outcome(scene, seen, member)
        proposed = mixed(after, thought.proposals, rng, speeds, SectorReach(reach))
        kept = _kept(twin, revision, after, proposed)
        share = len(kept) / thought.proposals
        shares.append(share)
        best = _best(twin, revision, after, kept, knowledge, promise, surprise, limit, thought.replies)
        values.append(best * min(1.0, share / ENOUGH))
    return Future(float(np.mean(values)), float(np.mean(shares))) if values else Future(0.0, 0.0)


def _kept(twin: Twin, revision: int, scene: Scene, proposed: Sequence[Candidate]) -> list[tuple[Candidate, Prediction]]:
    if not proposed:
        return []
    shots = [c.shot(f"next-{i}") for i, c in enumerate(proposed)]
    predictions = twin.predict(shots, scene.balls, revision=revision)
    pairs = zip(proposed, predictions, strict=True)
    return [(c, p) for c, p in pairs if p is not None and keeps_balls(scene, p)]


def _best(
    twin: Twin,
    revision: int,
    scene: Scene,
    kept: Sequence[tuple[Candidate, Prediction]],
    knowledge: Knowledge,
    promise: Promise,
    surprise: Surprise,
    limit: float,
    replies: int,
) -> float:
    """Return the largest worth [nat] of the most promising shots, 0 when none keeps the balls."""
    if not kept:
        return 0.0
    expected = promise(np.array([features(scene, c, p) for c, p in kept]))
    order = np.argsort(-expected, kind="stable")[:replies]
    shots = [kept[int(i)][0].shot(f"reply-{i}") for i in order]
    found = [0.0]
    for shot, seen in zip(shots, twin.look_ahead(shots, scene.balls, revision=revision), strict=True):
        if seen is not None and float(seen.pocketed.any(axis=1).mean()) <= limit:
            found.append(sum(worth(scene, shot.speed, seen, knowledge, surprise)))
    return max(found)
