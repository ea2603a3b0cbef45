"""The registry of terms: every effect on the balls' motion that a fit may vary, each in a file of its own.

>>> find("nap").names
('nap_x2', 'nap_y2')
>>> write(values, knobs)  # (B, P) parameters of B samples -> what the twin lets be set

A new term is one file with a ``TERM`` and one line in ``TERMS``. Its parameters are then known everywhere by name; a
generic test asks that it moves a trajectory and that it can be found again from a few shots.
"""

from __future__ import annotations

import numpy as np

from cue_core.errors import UnknownNameError
from cue_core.terms import (
    azimuth_bias,
    ball_diameter,
    ball_friction_speed,
    ball_mass,
    balls,
    cloth,
    cloth_field,
    cushion_friction,
    cushion_slope,
    cushions,
    latency,
    nap,
    noses,
    per_cushion,
    rolling_slope,
    strike,
    tilt,
)
from cue_core.terms.base import Parameter, Term
from cue_core.terms.knobs import BALLS, CUSHIONS, FIELD, SHAPES, Knobs

__all__ = ["BALLS", "CUSHIONS", "FIELD", "SHAPES", "TERMS", "Knobs", "Parameter", "Term", "find", "places", "write"]

TERMS: tuple[Term, ...] = (
    cloth.TERM,
    balls.TERM,
    cushions.TERM,
    cushion_slope.TERM,
    cushion_friction.TERM,
    strike.TERM,
    tilt.TERM,
    nap.TERM,
    rolling_slope.TERM,
    ball_friction_speed.TERM,
    per_cushion.TERM,
    noses.TERM,
    ball_mass.TERM,
    ball_diameter.TERM,
    cloth_field.TERM,
    azimuth_bias.TERM,
    latency.TERM,
)
"""All terms. The order is part of the interface: parameter vectors follow it."""

_BY_NAME = {term.name: term for term in TERMS}
_STARTS = np.cumsum([0, *(len(term.parameters) for term in TERMS)])
_NOMINAL = np.array([p.nominal for term in TERMS for p in term.parameters])


def find(name: str) -> Term:
    """Return a term by name.

    Raises:
        UnknownNameError: there is none; lists those there are.
    """
    if name not in _BY_NAME:
        raise UnknownNameError("term", name, _BY_NAME)
    return _BY_NAME[name]


def places(name: str) -> slice:
    """Return where a term's parameters stand in a vector.

    Raises:
        UnknownNameError: there is no such term.
    """
    k = TERMS.index(find(name))
    return slice(int(_STARTS[k]), int(_STARTS[k + 1]))


def write(values: np.ndarray, knobs: Knobs) -> None:
    """Let every term write its parameters into the knobs, which hold the nominal values to begin with.

    Terms that are nominal in all samples are left out: they would change nothing.

    Args:
        values: (B, P) in the order of :data:`TERMS`.
        knobs: of the B samples.
    """
    differs = np.logical_or.reduceat((values != _NOMINAL).any(axis=0), _STARTS[:-1])
    for k in np.flatnonzero(differs):
        TERMS[k].write(values[:, _STARTS[k] : _STARTS[k + 1]], knobs)
