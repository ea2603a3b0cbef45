"""The strike: from a stroke of the cue to the cue ball's motion just after it.

A rigid cue of great mass moves along its axis and meets the ball at a point ``a`` left and ``b`` above the centre (in
radii, seen along the stroke). The tip does not slip up to the miscue limit and gives an impulse J along the stroke; the
contact point's speed along it grows by J/m (1 + 5/2 (a^2 + b^2)), and tip restitution e asks that this be (1 + e) V:

    v = (1 + e) V / (1 + m/M + 5/2 (a^2 + b^2)),    w = 5/2 v/R (b left - a up)

(Alciatore, billiards.colostate.edu, TP A.30, with the cue's mass M taken as infinite: an arm holds it.) Side offset
also turns the ball away from the stroke, to the other side (squirt, TP A.31, m/m_e = ball / end mass):

    tan(squirt) = 5/2 a sqrt(1 - a^2) / (1 + m/m_e + 5/2 (1 - a^2))

An elevated cue gives the part of J in the table plane; the slate carries the rest, and the spin axis leans (masse). The
ball is squeezed out between the heavy cue and the slate: only its level motion makes way for the tip, so the 1 above
becomes cos^2(elevation), and struck at its centre it leaves with (1 + e) V / cos(elevation). A real cue gives way, and
the slate gives a share of the rest back, so that the ball jumps (:func:`lift` says how fast): the more the cue is
raised, the slower real balls are than this. Beyond ``LARGEST_ELEVATION`` a stroke is refused.
"""

from __future__ import annotations

import math

import numpy as np

from cue_core.checks import finite_in
from cue_core.parameters import PARAMETERS
from cue_core.shots import MISCUE_OFFSET, Shot, Stroke
from cue_core.table import TableModel
from cue_sim.laws import SLATE_RESTITUTION

END_MASS_RATIO = 20.0
"""Ball mass / effective end mass of the shaft: squirt below 2 degrees, as usual cues have (Alciatore TP A.31)."""
LARGEST_ELEVATION = 1.2
"""Of a cue whose stroke the model takes [rad]: there the ball leaves 2.8 times as fast as from a level one. It is the
most that an arm may be set to (``largest_elevation`` of ``cue_arm.settings``)."""
_TIP_RESTITUTION, _AZIMUTH_BIAS, _MASS_RATIO, _DIAMETER_RATIO = (
    list(PARAMETERS).index(name) for name in ("tip_restitution", "azimuth_bias", "mass_ratio_0", "diameter_ratio_0")
)


def strike(parameters: np.ndarray, table: TableModel, stroke: Stroke | Shot) -> tuple[np.ndarray, np.ndarray]:
    """Return the cue ball's velocity (2,) [m/s] and spin (3,) [rad/s], table axes, just after the tip has left it.

    Args:
        parameters: (P,) in the order of ``PARAMETERS``: tip restitution, azimuth bias, the cue ball's size and mass.
        table: whose ball radius counts.
        stroke: as measured, or as asked for; the tip's speed is taken along the cue's axis.

    Raises:
        OutOfRangeError: an offset beyond the miscue limit, a cue raised too far, or a speed that no cue has.
    """
    speed = stroke.tip_speed if isinstance(stroke, Stroke) else stroke.speed
    speed = finite_in("tip speed", speed, 0.0, 15.0, "m/s")
    azimuth = finite_in("azimuth", stroke.azimuth, -4 * math.pi, 4 * math.pi, "rad") + parameters[_AZIMUTH_BIAS]
    elevation = finite_in("elevation", stroke.elevation, 0.0, LARGEST_ELEVATION, "rad")
    a, b = stroke.side_offset, stroke.vertical_offset
    finite_in("tip offset", math.hypot(a, b), 0.0, 1.5 * MISCUE_OFFSET, "ball radii")

    forward = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    left = np.array([-forward[1], forward[0], 0.0])
    up = np.array([0.0, 0.0, 1.0])
    upright = math.cos(elevation) * up + math.sin(elevation) * forward  # normal to the cue, in its vertical plane

    impulse = _impulse(parameters, speed, elevation, a, b)
    spin = 2.5 * impulse / (table.ball_radius * parameters[_DIAMETER_RATIO]) * (b * left - a * upright)
    squirt = math.atan2(
        2.5 * a * math.sqrt(1 - a * a), 1 + END_MASS_RATIO * parameters[_MASS_RATIO] + 2.5 * (1 - a * a)
    )
    direction = math.cos(squirt) * forward - math.sin(squirt) * left
    return impulse * math.cos(elevation) * direction[:2], spin


def lift(parameters: np.ndarray, stroke: Stroke | Shot, slate_restitution: float = SLATE_RESTITUTION) -> float:
    """Return the upward speed [m/s] with which a stroke that :func:`strike` takes would make the cue ball jump.

    An elevated cue presses the ball into the slate, which gives back a share: e_slate J sin(elevation) / m.
    """
    speed = stroke.tip_speed if isinstance(stroke, Stroke) else stroke.speed
    impulse = _impulse(parameters, speed, stroke.elevation, stroke.side_offset, stroke.vertical_offset)
    return slate_restitution * impulse * math.sin(stroke.elevation)


def _impulse(parameters: np.ndarray, speed: float, elevation: float, side: float, vertical: float) -> float:
    """Return the impulse along the cue per mass of the ball [m/s]."""
    restitution = float(parameters[_TIP_RESTITUTION])
    # the slate holds the height, so only the level part of the impulse moves the ball
    return (1 + restitution) * speed / (math.cos(elevation) ** 2 + 2.5 * (side * side + vertical * vertical))
