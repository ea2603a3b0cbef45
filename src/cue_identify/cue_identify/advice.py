"""What the shots tell of each parameter, in words, and which further shot would tell what they do not.

Shots of a few simple kinds, from where the balls lie now, are looked at ahead (:mod:`cue_sim.outlook`): the information
of each says by how much it would narrow a parameter before anybody plays it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cue_core.balls import BallState
from cue_core.information import after
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shots import Shot
from cue_core.terms import TERMS
from cue_identify.observations import CUE_BALL
from cue_identify.posterior import Posterior, widest_stddev
from cue_identify.space import Space

if TYPE_CHECKING:
    from cue_sim.twin import Twin

_SOFT, _HARD = 0.35, 1.2  # [m/s] of the tip
_WAYS = ((0.0, "an end cushion"), (90.0, "a side cushion"), (180.0, "an end cushion"), (270.0, "a side cushion"))
_HITS = ((0.0, _SOFT, "soft full"), (0.0, _HARD, "hard full"), (0.5, _HARD, "half-ball"), (0.85, _HARD, "thin"))
_NEAREST = 2  # object balls that are tried: the others would say the same at a worse angle
_WORTH = 0.75  # [-] a shot that leaves more of a standard deviation is not worth naming


@dataclass(frozen=True)
class Advice:
    """A further shot for one parameter.

    Attributes:
        shot: to play, from where the balls lie.
        words: what kind of shot that is.
        left: share of the parameter's standard deviation that it is expected to leave.
    """

    shot: Shot
    words: str
    left: float


def advise(
    twin: Twin,
    balls: Sequence[BallState],
    estimate: ParameterEstimate,
    threads: int | None = 1,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Advice]:
    """Return for each fitted parameter that is not identifiable the shot that would narrow it most, if any does.

    Args:
        twin: of the table, with at least the balls in play.
        balls: where they lie now.
        estimate: whose values, covariance and verdicts count.
        threads: None = one per core; the result does not depend on it.
        check: called between the shots; raises when nobody wants to know any more.
    """
    from cue_sim.outlook import outlooks, spread_of

    lying = [ball for ball in balls if ball.in_play]
    wanted = [name for i, name in enumerate(PARAMETERS) if not estimate.frozen[i] and not estimate.identifiable[i]]
    if not wanted or not any(ball.ball_id == CUE_BALL for ball in lying):
        return {}
    known = replace(estimate, revision=max(estimate.revision, 1))  # its covariance counts, not that before any fit
    chosen, covariance = spread_of(known)
    names = [list(PARAMETERS)[i] for i in chosen]
    own = {ball for term in TERMS if term.belongs == "ball" for ball, name in enumerate(term.names) if name in wanted}
    kinds = _kinds(lying, twin.table.ball_radius, own)
    now = np.sqrt(np.diag(covariance))
    best: dict[str, Advice] = {}
    for kind in kinds:
        check()
        (seen,) = outlooks(twin, lying, [kind[0]], known, threads=threads)
        if seen is None:
            continue
        left = np.sqrt(np.maximum(np.diag(after(seen.information, covariance)), 0.0)) / np.maximum(now, 1e-300)
        for name in wanted:
            share = float(left[names.index(name)])
            if share < min(_WORTH, best[name].left if name in best else 1.0):
                best[name] = Advice(*kind, share)
    return best


def _kinds(balls: Sequence[BallState], radius: float, own: Collection[int]) -> list[tuple[Shot, str]]:
    """Return simple shots with what to call them: at cushions, and hits on the nearest balls and those of ``own``."""
    cue = next(ball.position for ball in balls if ball.ball_id == CUE_BALL)
    found: list[tuple[Shot, str]] = []

    def add(speed: float, azimuth: float, words: str) -> None:
        turned = math.remainder(azimuth, math.tau)
        asked = f"{words} (azimuth {math.degrees(turned):.0f} degrees, {speed:g} m/s)"
        found.append((Shot(f"advice-{len(found)}", speed, turned), asked))

    for degrees, cushion in _WAYS:
        add(_SOFT, math.radians(degrees), f"a slow shot towards {cushion}")
        add(_HARD, math.radians(degrees), f"a hard shot straight at {cushion}")
        add(_HARD, math.radians(degrees + 40.0), f"a hard shot at {cushion}, slanting")
    ways = [(float(np.linalg.norm(ball.position - cue)), ball) for ball in balls if ball.ball_id != CUE_BALL]
    clear = sorted((entry for entry in ways if entry[0] > 2 * radius), key=lambda entry: (entry[0], entry[1].ball_id))
    for k, (reach, ball) in enumerate(clear):
        if k >= _NEAREST and ball.ball_id not in own:
            continue
        way = ball.position - cue
        for aside, speed, name in _HITS:
            turn = math.asin(min(aside * 2 * radius / reach, 1.0))
            add(speed, math.atan2(way[1], way[0]) + turn, f"a {name} hit on ball {ball.ball_id}")
    return found


def verdicts(
    space: Space, unit: np.ndarray, posterior: Posterior, advice: Mapping[str, Advice] | None = None
) -> tuple[str, ...]:
    """Return one sentence for each of the d parameters: identified, at its bound, or not identifiable and what to do.

    Args:
        space: of the parameters.
        unit: (d,) the estimate.
        posterior: its uncertainty.
        advice: further shots by parameter.
    """
    advice = advice or {}
    sigma = np.sqrt(np.diag(posterior.covariance))
    values = space.low + space.span * unit
    partners: dict[str, list[str]] = {}
    for a, b, _ in posterior.pairs:
        partners.setdefault(a, []).append(b)
        partners.setdefault(b, []).append(a)
    share = sigma / (widest_stddev(space) * space.span)
    found = []
    for j, name in enumerate(space.names):
        measure = _measure(values[j], sigma[j], PARAMETERS[name].unit)
        if posterior.at_bound[j]:
            side, bound = ("lower", space.low[j]) if unit[j] < 0.5 else ("upper", space.high[j])
            text = f"at its {side} bound {bound:g}: the true value may lie beyond"
        elif posterior.identifiable[j]:
            text = f"identified: {measure}"
        else:
            text = f"not identifiable from these shots: {measure}, {100 * share[j]:.0f} % of what is known without any"
            if name in advice:
                told = advice[name]
                text += f"; {told.words} would leave {100 * told.left:.0f} % of that"
        if name in partners:
            text += f"; hardly told apart from {', '.join(partners[name])}"
        found.append(f"{name} {text}")
    return tuple(found)


def _measure(value: float, sigma: float, unit: str) -> str:
    return f"{value:.4g} +- {sigma:.2g}" + ("" if unit == "1" else f" {unit}")
