"""Start-up probe: does the twin use every parameter that a fit is about to vary?

A parameter that the model ignores costs a fit its meaning without a sound: the optimiser sees no gradient and returns
whatever it drew. One shot for each parameter tells, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, check_names, nominal_values
from cue_core.shots import Stroke
from cue_core.table import TableModel
from cue_sim.predict import TwinFaultError, start_from
from cue_sim.twin import Twin

_NUDGE = 0.01  # of a parameter's range


def unused_parameters(
    table: TableModel, names: Sequence[str], extras: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return those parameters whose nudge leaves a lively shot exactly as it is: no fit could learn of them.

    The probe strikes a cue ball with side spin into a ball, and both into cushions.

    Args:
        table: geometry.
        names: parameters to try.
        extras: of the twin (see :class:`cue_sim.twin.Twin`): some laws leave parameters of others unused.

    Raises:
        UnknownNameError: a name is not a parameter.
        TwinFaultError: the probe itself cannot be simulated.
    """
    wanted = set(check_names(names))
    twin = Twin(table, (0, 1), extras=extras)
    balls = [
        BallState(0, np.array([-0.25 * table.length, 0.0])),
        BallState(1, np.array([0.05 * table.length, 0.5 * table.ball_radius])),
    ]
    stroke = Stroke(tip_speed=1.1 * np.sqrt(table.length), azimuth=0.0, side_offset=0.2, vertical_offset=0.1)
    vectors, tried = [nominal_values()], []
    for k, (name, parameter) in enumerate(PARAMETERS.items()):
        if name in wanted:
            nudged = nominal_values()
            step = _NUDGE * (parameter.maximum - parameter.minimum)
            nudged[k] += step if nudged[k] + step <= parameter.maximum else -step
            vectors.append(nudged)
            tried.append(name)
    starts = [start_from(balls, stroke, values, table) for values in vectors]
    reference, *paths = twin.simulate_batch(starts, np.array(vectors), threads=1)
    for path, name in zip((reference, *paths), ("nominal parameters", *tried), strict=True):
        if path.fault is not None:
            raise TwinFaultError(path.fault, f"the start-up probe of {name}")
    return tuple(
        name
        for name, path in zip(tried, paths, strict=True)
        if np.array_equal(path.rest_positions, reference.rest_positions)
    )
