"""One session on one hidden table, and what its estimates, predictions and choices were worth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.plan.conditions import BALLS, JUDGES, Condition, HeldOut
from benchmarks.plan.peers import Recorder, make_peers
from cue_agent import AgentConfig, Code, Journal, Session, make_planner
from cue_agent.journal import EXPLORE, SessionState
from cue_agent.planners import Choice, Context, Planner
from cue_agent.session import Goal
from cue_core.parameters import ParameterEstimate
from cue_identify.scoring import MOVED
from cue_sim.predict import rest_fault, sample_parameters, start_from
from cue_sim.twin import Twin

SHOTS = 14
"""That may explore in one session."""
EVALUATIONS = 12000
"""Simulated shots of one fit, a fifth of the fitter's own budget: refits begin where the last one ended."""
CHI2_95 = 5.991
"""95 % of a chi-squared variable with two degrees of freedom lie below it."""
_POCKETED_95 = 0.05
_DRAWS = 32
_FEW: dict[str, Any] = {"candidates": 8, "shortlist": 3, "drawn": 4, "finalists": 0, "goal_shots": 2}
"""Of a quick run."""


@dataclass
class Clocked:
    """A planner with a clock.

    Attributes:
        planner: that decides.
        wall, processor: seconds of each decision.
        fitted: whether it was made with a fitted twin.
    """

    planner: Planner
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    fitted: list[bool] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the planner's name."""
        return self.planner.name

    def choose(self, context: Context) -> Choice:
        """Return what the planner says."""
        wall, processor = time.perf_counter(), time.process_time()
        choice = self.planner.choose(context)
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)
        self.fitted.append(context.revision > 0)
        return choice


def settings(seed: int, shots: int, evaluations: int, **more: Any) -> AgentConfig:
    """Return the agent's settings: all shots but one explore, each is fitted at once, and nothing ends exploration."""
    return AgentConfig(
        seed=seed,
        shots=shots + 1,
        held_out_shots=1,
        reserve_shots=0,
        spare_shots=0,
        worth=0.0,
        first_fit=2,
        fit_every=1,
        max_held_back=0,
        fit_evaluations=evaluations,
        **more,
    )


def play(
    layout: str,
    physics: str,
    seed: int,
    planner: str,
    shots: int = SHOTS,
    evaluations: int = EVALUATIONS,
    judges: int = JUDGES,
    quick: bool = False,
    real: bool = True,
    robot: str = "ur5e",
) -> dict[str, Any]:
    """Play a session and score it.

    Args:
        layout: of the condition.
        physics: of the condition.
        seed: of the table's draws, the noise and the agent.
        planner: name.
        shots: that may explore.
        evaluations: simulated shots of a fit.
        judges: held-out shots.
        quick: propose and examine few shots.
        real: fit the records; otherwise the estimates are made up, see :mod:`cue_agent.rehearsal`.
        robot: whose reach counts; empty = the geometric rule.
    """
    condition = Condition(layout, physics, seed)
    began = time.process_time()
    peers = make_peers(condition.world(), robot, real)
    clocked = Clocked(make_planner(planner))
    config = settings(seed, shots, evaluations, **(_FEW if quick else {}))
    journal = Journal("")
    session = Session(config, peers, clocked, journal, lambda _table: peers.reach)
    result = session.run(Goal("explain this table"))
    played = time.process_time() - began
    assert journal.state is not None
    held_out = condition.held_out(judges)
    told = score(journal.state, peers, held_out, shots)
    return {
        **asdict(condition),
        "planner": planner,
        "budget": shots,
        "code": int(result.code),
        "ended": journal.state.stopped[1] if journal.state.stopped else result.message,
        "ended_early": told["explored"] < shots and (bool(journal.state.unplayable) or result.code == Code.UNPLAYABLE),
        "broke": told["explored"] < shots and result.code not in (Code.NONE, Code.UNPLAYABLE),
        **told,
        "decision_s": [round(s, 3) for s in clocked.processor],
        "fit_s": [round(s, 3) for s in peers.fit_seconds],
        "session_s": round(played, 2),
        "score_s": round(time.process_time() - began - played, 2),
    }


def score(state: SessionState, peers: Recorder, held_out: HeldOut, budget: int) -> dict[str, Any]:
    """Return what a session was worth: errors after each shot, and each shot's prediction against its outcome."""
    used = state.used()
    explored = [a for a in used if a.role == EXPLORE]
    later = [a.revision for a in used[1:]] + [state.revision]
    revisions = [0, *later[: len(explored)]] if used else [0]
    errors = {r: held_out.errors(peers.estimate(r)) for r in sorted(set(revisions))}
    return {
        "explored": len(explored),
        "revisions": revisions,
        "rest_m": [float(errors[r].mean()) for r in revisions],
        "median_m": [float(np.median(errors[r])) for r in revisions],
        "each_m": {str(r): [round(float(e), 5) for e in v] for r, v in errors.items()},
        "fits": [{"promoted": f.promoted, "shots": len(f.shot_ids), "message": f.message} for f in state.fits],
        "refused": len(state.attempts) - len(used),
        "unusable": sum(not a.usable for a in explored),
        "shots": [
            {
                "role": a.role,
                "revision": a.revision,
                "speed": a.shot.speed,
                "stated": [] if a.residual is None else [int(z2 <= CHI2_95) for z2 in a.residual.z2.values()],
                **outcome(peers, a.shot.shot_id, a.revision),
            }
            for a in used
            if a.shot.shot_id in peers.played
        ],
        "typical_pockets": pockets(peers.estimate(state.revision), held_out),
    }


def outcome(peers: Recorder, shot_id: str, revision: int) -> dict[str, Any]:
    """Return where the balls of one shot came to rest in the terms of what the twin alone predicted before it.

    ``z2`` has the squared deviation of each ball that moved, in its predicted covariance, and whether it counts as
    inside: within the 95 % ellipse over the members of the ensemble in which the ball stays on the table. A ball that
    was pocketed is inside where that had a probability of 5 % or more. ``pockets`` has the predicted probability for
    each ball that was in play, and whether it was pocketed.
    """
    shot = peers.played[shot_id]
    told: dict[str, Any] = {
        "pocketed": [b for b in shot.before if b in shot.pocketed],
        "z2": [],
        "inside": [],
        "radius_m": [],
        "pockets": [],
        "error_m": None,
    }
    ahead = peers.foresee(shot, revision)
    if ahead is None:
        return told
    off = []
    for n, ball in enumerate(ahead.ball_ids):
        if ball not in shot.before:
            continue
        gone, chance = ball in shot.pocketed, float(ahead.pocket_probability[n])
        told["pockets"].append([round(chance, 4), int(gone)])
        stays = ahead.rests[~ahead.pocketed[:, n], n]
        moved = gone or np.linalg.norm(shot.after[ball] - shot.before[ball]) > MOVED
        if not (moved or np.linalg.norm(ahead.rest[n] - shot.before[ball]) > MOVED):
            continue
        off.append(float(np.linalg.norm(ahead.rest[n] - shot.after[ball])))
        if gone:
            told["inside"].append(int(chance >= _POCKETED_95))
            continue
        if len(stays) < 3:
            told["inside"].append(0)
            continue
        covariance = np.cov(stays.T) + peers.errors.seen**2 * np.eye(2)
        away = shot.after[ball] - stays.mean(axis=0)
        z2 = float(away @ np.linalg.solve(covariance, away))
        told["z2"].append(round(z2, 3))
        told["inside"].append(int(z2 <= CHI2_95))
        told["radius_m"].append(round(float(np.sqrt(CHI2_95) * np.linalg.det(covariance) ** 0.25), 5))
    told["error_m"] = float(np.mean(off)) if off else None
    return told


def pockets(estimate: ParameterEstimate, held_out: HeldOut) -> list[list[float]]:
    """Return [probability, pocketed] of each ball in typical shots, over draws of an estimate's posterior.

    From exact starts with exact strokes: what is not known is the parameters alone.
    """
    twin = Twin(held_out.table, BALLS)
    draws = sample_parameters(estimate, _DRAWS, np.random.default_rng(0))
    found = []
    for balls, shot, gone in held_out.drawn[: 2 * len(held_out.shots)]:
        starts = [start_from(balls, shot, values, held_out.table, BALLS) for values in draws]
        paths = [p for p in twin.simulate_batch(starts, draws, threads=1) if not rest_fault(p)]
        share = np.mean([p.rest_pocketed for p in paths], axis=0) if paths else np.zeros(len(BALLS))
        found += [[round(float(share[BALLS.index(b.ball_id)]), 4), int(gone[BALLS.index(b.ball_id)])] for b in balls]
    return found


def decide(physics: str, seed: int, threads: int = 2, shots: int = 8, quick: bool = False) -> dict[str, Any]:
    """Clock the decisions of the offline planner with a fitted twin and six balls, nothing else running."""
    condition = Condition("spread", physics, seed)
    peers = make_peers(condition.world(), "" if quick else "ur5e", False, threads)
    clocked = Clocked(make_planner("offline"))
    config = settings(seed, 4 if quick else shots, 0, **(_FEW if quick else {}))
    session = Session(config, peers, clocked, Journal(""), lambda _table: peers.reach)
    session.run(Goal("explain this table"))
    return {"wall_s": chosen(clocked.wall, clocked.fitted), "processor_s": chosen(clocked.processor, clocked.fitted)}


def chosen(seconds: Sequence[float], fitted: Sequence[bool]) -> list[float]:
    """Return the times of decisions made with a fitted twin."""
    return [round(s, 3) for s, yes in zip(seconds, fitted, strict=True) if yes]
