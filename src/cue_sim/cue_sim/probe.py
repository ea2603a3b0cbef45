"""Start-up probe: does the twin use every parameter that a fit is about to vary?

A parameter that the model ignores costs a fit its meaning without a sound: the optimiser sees no gradient and returns
whatever it drew. One shot for each parameter tells, in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, check_names, nominal_values
from cue_core.shots import Stroke
from cue_core.table import TableModel
from cue_core.terms import TERMS
from cue_sim.predict import TwinFaultError, start_from
from cue_sim.twin import Twin

_NUDGE = 0.01  # of a parameter's range
_TIMES = np.array([0.2, 0.4, 0.7, 1.0, 1.5, 2.2])  # s: what a camera sees on the way, on the largest table too


def unused_parameters(
    table: TableModel, names: Sequence[str], extras: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return those parameters whose nudge leaves a lively shot exactly as it is: no fit could learn of them.

    The probe strikes a cue ball with side spin into a ball, and both into cushions. For a parameter of a ball that is
    the ball struck, for one of a cushion a lone cue ball goes there.

    Args:
        table: geometry.
        names: parameters to try.
        extras: of the twin (see :class:`cue_sim.twin.Twin`): some laws leave parameters of others unused.

    Raises:
        UnknownNameError: a name is not a parameter.
        TwinFaultError: the probe itself cannot be simulated.
    """
    wanted = set(check_names(names))
    of = {name: (term.belongs, i) for term in TERMS if term.belongs for i, name in enumerate(term.names)}
    tried = tuple(name for name in PARAMETERS if name in wanted)
    struck = [max(of[name][1], 1) if name in of and of[name][0] == "ball" else 1 for name in tried]
    twin = Twin(table, sorted({0, 1, *struck}), extras=extras)
    starts, vectors = [], []
    for name, ball in zip(tried, struck, strict=True):
        belongs, place = of.get(name, ("", 0))
        for values in (nominal_values(), _nudged(name)):
            if belongs == "cushion" and place < len(table.cushions):
                balls, stroke = _at_cushion(table, place)
            else:
                balls, stroke = _at_ball(table, ball)
            starts.append(start_from(balls, stroke, values, table, twin.ball_ids))
            vectors.append(values)
    paths = twin.simulate_batch(starts, np.array(vectors).reshape(-1, len(PARAMETERS)), times=_TIMES, threads=1)
    pairs = list(zip(paths[::2], paths[1::2], strict=True))
    for (path, nudged), name in zip(pairs, tried, strict=True):
        for played, what in ((path, "nominal parameters"), (nudged, name)):
            if played.fault is not None:
                raise TwinFaultError(played.fault, f"the start-up probe of {what}")
    return tuple(
        name
        for name, (path, nudged) in zip(tried, pairs, strict=True)
        if np.array_equal(path.rest_positions, nudged.rest_positions)
        and np.array_equal(path.positions, nudged.positions)
    )


def _nudged(name: str) -> np.ndarray:
    values, parameter = nominal_values(), PARAMETERS[name]
    place, step = list(PARAMETERS).index(name), _NUDGE * (parameter.maximum - parameter.minimum)
    values[place] += step if values[place] + step <= parameter.maximum else -step
    return values


def _at_ball(table: TableModel, ball: int) -> tuple[list[BallState], Stroke]:
    balls = [
        BallState(0, np.array([-0.25 * table.length, 0.0])),
        BallState(ball, np.array([0.05 * table.length, 0.5 * table.ball_radius])),
    ]
    speed = 1.1 * math.sqrt(table.length)
    return balls, Stroke(tip_speed=speed, azimuth=0.0, side_offset=0.2, vertical_offset=0.1)


def _at_cushion(table: TableModel, index: int) -> tuple[list[BallState], Stroke]:
    cushion = table.cushions[index]
    middle = 0.5 * (cushion.start + cushion.end)
    place = middle + 0.3 * table.width * cushion.normal
    azimuth = math.atan2(-cushion.normal[1], -cushion.normal[0]) + 0.2
    return [BallState(0, place)], Stroke(0.6, azimuth, side_offset=0.2, vertical_offset=0.1)
