"""Dynamics parameters of the twin, and estimates of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from cue_core.errors import FileFormatError, UnknownNameError


@dataclass(frozen=True)
class Parameter:
    """One dynamics parameter.

    Attributes:
        name: key.
        unit: SI unit, ``"1"`` = dimensionless.
        nominal: textbook value, the unfitted twin.
        minimum: lower bound of the search.
        maximum: upper bound of the search.
        description: what it is.
        source: where nominal and bounds come from.
        fitted: part of the default set that is fitted.
    """

    name: str
    unit: str
    nominal: float
    minimum: float
    maximum: float
    description: str
    source: str
    fitted: bool = True

    def __post_init__(self) -> None:
        """Refuse bounds that leave nothing to search.

        Raises:
            FileFormatError: naming the parameter.
        """
        if not self.minimum < self.maximum or not self.minimum <= self.nominal <= self.maximum:
            raise FileFormatError(
                f"parameter {self.name}",
                f"needs minimum < maximum with the nominal between, got {self.minimum} {self.nominal} {self.maximum}",
            )


_ALCIATORE = "Alciatore, billiards.colostate.edu"

# The order is part of the interface: parameter vectors follow it.
_DEFINITIONS = (
    Parameter("sliding_friction", "1", 0.20, 0.05, 0.50, "ball on cloth, sliding", _ALCIATORE),
    Parameter("rolling_friction", "1", 0.010, 0.002, 0.030, "rolling deceleration / g times 7/5", _ALCIATORE),
    Parameter(
        "spinning_deceleration",
        "rad/s^2",
        10.0,
        2.0,
        40.0,
        "decay of spin about the vertical",
        _ALCIATORE,
        False,
    ),
    Parameter("ball_restitution", "1", 0.95, 0.70, 1.00, "between balls", _ALCIATORE),
    Parameter("ball_friction", "1", 0.06, 0.0, 0.25, "between balls", "Alciatore TP A-14"),
    Parameter(
        "cushion_restitution",
        "1",
        0.85,
        0.40,
        1.00,
        "along the contact normal at the nose, at 1 m/s",
        "Mathavan 2010; " + _ALCIATORE,
    ),
    Parameter(
        "cushion_restitution_slope",
        "s/m",
        0.0,
        -0.25,
        0.10,
        "change of it per m/s of normal speed",
        _ALCIATORE,
    ),
    Parameter("cushion_friction", "1", 0.20, 0.0, 0.50, "ball on cushion nose", "Mathavan 2010"),
    Parameter("tip_restitution", "1", 0.73, 0.30, 1.00, "between tip and cue ball", _ALCIATORE),
    Parameter(
        "tilt_x",
        "rad",
        0.0,
        -0.01,
        0.01,
        "slope of the bed: positive accelerates a ball along +x",
        "a table is levelled with a spirit level of about 1 mm/m",
    ),
    Parameter(
        "tilt_y",
        "rad",
        0.0,
        -0.01,
        0.01,
        "slope of the bed: positive accelerates a ball along +y",
        "a table is levelled with a spirit level of about 1 mm/m",
    ),
)

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({p.name: p for p in _DEFINITIONS})
"""All parameters of the twin by name, in the order of parameter vectors."""


def nominal_values() -> np.ndarray:
    """Return the (P,) nominal value of every parameter, in the order of :data:`PARAMETERS`, in their units."""
    return np.array([p.nominal for p in PARAMETERS.values()])


def default_fitted() -> tuple[str, ...]:
    """Return the names that are fitted unless asked otherwise."""
    return tuple(p.name for p in PARAMETERS.values() if p.fitted)


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names if all are parameters.

    Raises:
        UnknownNameError: one is not; lists the valid ones.
    """
    names = tuple(names)
    for name in names:
        if name not in PARAMETERS:
            raise UnknownNameError("parameter", name, PARAMETERS)
    return names


@dataclass(frozen=True)
class ParameterEstimate:
    """An estimate of all parameters, in the order of :data:`PARAMETERS` (P of them).

    Attributes:
        revision: 0 = nominal.
        values: (P,) in the parameters' units.
        covariance: (P, P) in their units; zero for frozen ones.
        frozen: (P,) bool, not fitted.
        at_bound: (P,) bool.
        identifiable: (P,) bool.
        train_error: mean rest-position error over the shots fitted [m].
        held_out_error: the same over held-out shots, NaN = none [m].
        largest_step: of the twin that was fitted [s].
        data_hash: of the shots used.
        shot_ids: shots used.
    """

    revision: int
    values: np.ndarray
    covariance: np.ndarray
    frozen: np.ndarray
    at_bound: np.ndarray
    identifiable: np.ndarray
    train_error: float = float("nan")
    held_out_error: float = float("nan")
    largest_step: float = 0.0
    data_hash: str = ""
    shot_ids: tuple[str, ...] = field(default=())

    @classmethod
    def nominal(cls) -> ParameterEstimate:
        """Return revision 0: textbook values, nothing fitted."""
        count = len(PARAMETERS)
        no = np.zeros(count, bool)
        return cls(0, nominal_values(), np.zeros((count, count)), ~no, no, no)

    @property
    def stddevs(self) -> np.ndarray:
        """Return the (P,) standard deviations; zero for frozen ones."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``estimates.jsonl``."""
        return {
            "revision": self.revision,
            "parameters": {
                name: {
                    "unit": p.unit,
                    "value": float(self.values[i]),
                    "stddev": float(self.stddevs[i]),
                    "minimum": p.minimum,
                    "maximum": p.maximum,
                    "frozen": bool(self.frozen[i]),
                    "at_bound": bool(self.at_bound[i]),
                    "identifiable": bool(self.identifiable[i]),
                }
                for i, (name, p) in enumerate(PARAMETERS.items())
            },
            "covariance": self.covariance.tolist(),
            "train_error_m": self.train_error,
            "held_out_error_m": self.held_out_error,
            "largest_step_s": self.largest_step,
            "data_hash": self.data_hash,
            "shot_ids": list(self.shot_ids),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParameterEstimate:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            FileFormatError: a parameter is missing.
        """
        rows = data["parameters"]
        missing = sorted(set(PARAMETERS) - set(rows))
        if missing:
            raise FileFormatError("estimate", f"lacks parameter {', '.join(missing)}")

        def column(key: str, kind: type) -> np.ndarray:
            return np.array([rows[name][key] for name in PARAMETERS], dtype=kind)

        return cls(
            revision=int(data["revision"]),
            values=column("value", float),
            covariance=np.array(data["covariance"], dtype=float),
            frozen=column("frozen", bool),
            at_bound=column("at_bound", bool),
            identifiable=column("identifiable", bool),
            train_error=float(data["train_error_m"]),
            held_out_error=float(data["held_out_error_m"]),
            largest_step=float(data["largest_step_s"]),
            data_hash=str(data["data_hash"]),
            shot_ids=tuple(data["shot_ids"]),
        )
