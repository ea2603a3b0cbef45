"""Laws of two balls by name; the default, Coulomb friction, is :func:`.impacts.ball_on_ball`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cue_core.errors import UnknownNameError
from cue_sim.laws import Laws
from cue_sim.reference.impacts import Body, ball_on_ball
from cue_sim.reference.integrated import pair_mathavan2014

PairLaw = Callable[[Body, Body, np.ndarray, Laws], tuple[Body, Body]]
"""Two balls, (3,) normal from the first's centre to the second's, coefficients: the balls afterwards."""


def pair_coulomb(first: Body, second: Body, normal: np.ndarray, laws: Laws) -> tuple[Body, Body]:
    """Restitution and Coulomb friction between the balls."""
    impulse = ball_on_ball(first, second, normal, laws)
    return first.struck(first.radius * normal, -impulse), second.struck(-second.radius * normal, impulse)


BALL_LAWS: dict[str, PairLaw] = {"coulomb": pair_coulomb, "mathavan2014": pair_mathavan2014}


def pair_law(name: str) -> PairLaw:
    """Return a law of two balls by name.

    Raises:
        UnknownNameError: the reference has none of that name.
    """
    if name not in BALL_LAWS:
        raise UnknownNameError("ball law of the reference", name, BALL_LAWS)
    return BALL_LAWS[name]
