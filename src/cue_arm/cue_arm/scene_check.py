"""Before the first stroke: do planner and envelope know of the table and of the cue at the flange?"""

from __future__ import annotations

import math

import numpy as np

from cue_arm.envelope import Envelope
from cue_arm.planner import ArmBackend
from cue_arm.rails import RAIL_ABOVE_NOSE
from cue_arm.stroke import tip_rotation
from cue_core.errors import CueError

_DEPTH = 0.02  # m: the tip is put this deep into the rail
_STARTS = 300
_SOLVED = 1e-4  # m + rad


class SceneError(CueError):
    """Table or cue is missing where collisions are looked for."""


def cue_in_the_rail(backend: ArmBackend) -> np.ndarray:
    """Return a configuration (n,) [rad] in which the cue is inside the rail before the arm.

    Raises:
        SceneError: the arm does not even reach there, so it stands in another place than its file says.
    """
    robot, table, chain = backend.reach.robot, backend.reach.table, backend.reach.chain
    base = robot.table_from_base(table)[:3, 3]
    side = math.copysign(1.0, base[1])
    top = RAIL_ABOVE_NOSE * table.nose_height
    rng = np.random.default_rng(5)
    # Not before the base's middle: too near for many an arm, and a side pocket's gap is no rail.
    along = base[0] + rng.choice([-1.0, 1.0], _STARTS) * rng.uniform(0.12, 0.45, _STARTS)
    across = np.full(_STARTS, side * (table.width / 2 + 0.5 * table.rail_width))
    places = np.column_stack([along, across, np.full(_STARTS, top - _DEPTH)])
    turns = rng.choice([0.0, math.pi, -side * math.pi / 2], _STARTS)
    rotations = np.stack([tip_rotation(turn, 0.0) for turn in turns])
    starts = rng.uniform(
        np.maximum(chain.lower, -math.pi), np.minimum(chain.upper, math.pi), (_STARTS, len(robot.home))
    )
    q, error = chain.solve(places, rotations, starts, iterations=40)
    inside = np.all((q >= chain.lower) & (q <= chain.upper), axis=1)
    good = np.flatnonzero((error < _SOLVED) & inside)
    if not len(good):
        raise SceneError(f"robot {robot.name} does not reach the rail that it stands at; is its base as its file says?")
    return np.asarray(q[good[0]])


def check_scene(backend: ArmBackend, envelope: Envelope) -> None:
    """Refuse to play where a cue inside a rail would not be noticed.

    Raises:
        SceneError: by whom it would not.
    """
    probe = cue_in_the_rail(backend)
    if not backend.touches(probe):
        raise SceneError("the planner's scene lacks the table or the cue: it takes a cue inside the rail for free")
    if not envelope.touches(probe):
        raise SceneError("the envelope lacks the table or the cue: it takes a cue inside the rail for free")
