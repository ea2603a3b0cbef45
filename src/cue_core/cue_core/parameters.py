"""Dynamics parameters of the twin, and estimates of them. What they are: :mod:`cue_core.terms`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.terms import TERMS, Parameter

__all__ = [
    "PARAMETERS",
    "Parameter",
    "ParameterEstimate",
    "check_names",
    "default_fitted",
    "nominal_values",
]


PARAMETERS: Mapping[str, Parameter] = MappingProxyType({p.name: p for term in TERMS for p in term.parameters})
"""All parameters of the twin by name, in the order of parameter vectors."""
_NOMINAL = np.array([p.nominal for p in PARAMETERS.values()])
_USUAL = np.array([p.fitted for p in PARAMETERS.values()])


def nominal_values() -> np.ndarray:
    """Return the (P,) nominal value of every parameter, in the order of :data:`PARAMETERS`, in their units."""
    return _NOMINAL.copy()


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
        correction: learned beside the terms, as plain data (``cue_sim.correction``); None = none.
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
    correction: Mapping[str, Any] | None = None

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

    @property
    def listed(self) -> tuple[str, ...]:
        """Return the names that files, messages and reports show: fitted, usually fitted, or not nominal."""
        shown = _USUAL | ~self.frozen | (self.values != _NOMINAL) | np.any(self.covariance != 0, axis=1)
        return tuple(name for name, show in zip(PARAMETERS, shown, strict=True) if show)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``estimates.jsonl``: those listed, and the covariance of the fitted."""
        place = {name: i for i, name in enumerate(PARAMETERS)}
        shown = [(place[name], name, PARAMETERS[name]) for name in self.listed]
        spread = np.flatnonzero(~self.frozen | np.any(self.covariance != 0, axis=1))
        names = list(PARAMETERS)
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
                for i, name, p in shown
            },
            "covariance_of": [names[i] for i in spread],
            "covariance": self.covariance[np.ix_(spread, spread)].tolist(),
            "train_error_m": self.train_error,
            "held_out_error_m": self.held_out_error,
            "largest_step_s": self.largest_step,
            "data_hash": self.data_hash,
            "shot_ids": list(self.shot_ids),
            **({} if self.correction is None else {"correction": dict(self.correction)}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParameterEstimate:
        """Read back what :meth:`to_dict` wrote, now or in an earlier version.

        Parameters that are not in the data are nominal and frozen. Without ``covariance_of`` the covariance is that of
        the data's parameters, in their order.

        Raises:
            UnknownNameError: it has a parameter that is none.
            OutOfRangeError: a value is beyond its parameter's bounds.
            FileFormatError: the covariance does not fit its parameters.
        """
        rows: Mapping[str, Mapping[str, Any]] = data["parameters"]
        for name in check_names(rows):
            p = PARAMETERS[name]
            finite_in(name, rows[name]["value"], p.minimum, p.maximum, p.unit)
        of = check_names(data.get("covariance_of", rows))
        covariance = np.array(data["covariance"], dtype=float).reshape(-1)
        if len(covariance) != len(of) ** 2:
            raise FileFormatError(
                "estimate", f"has a covariance of {len(covariance)} numbers, {len(of)} parameters need {len(of) ** 2}"
            )
        return cls.of_rows(
            rows,
            of,
            covariance.reshape(len(of), len(of)),
            revision=int(data["revision"]),
            train_error=float(data["train_error_m"]),
            held_out_error=float(data["held_out_error_m"]),
            largest_step=float(data["largest_step_s"]),
            data_hash=str(data["data_hash"]),
            shot_ids=tuple(data["shot_ids"]),
            correction=data.get("correction"),
        )

    @classmethod
    def of_rows(
        cls, rows: Mapping[str, Mapping[str, Any]], of: Sequence[str], covariance: np.ndarray, **rest: Any
    ) -> ParameterEstimate:
        """Return an estimate of which some parameters are given; the others are nominal and frozen.

        Args:
            rows: ``value``, ``frozen``, ``at_bound``, ``identifiable`` of each parameter given, by name.
            of: names of the k parameters in the covariance.
            covariance: (k, k) in their units.
            rest: fields of the estimate beyond.
        """
        place = {name: i for i, name in enumerate(PARAMETERS)}
        values, count = nominal_values(), len(PARAMETERS)
        flags = {
            "frozen": np.ones(count, bool),
            "at_bound": np.zeros(count, bool),
            "identifiable": np.zeros(count, bool),
        }
        for name, row in rows.items():
            values[place[name]] = float(row["value"])
            for key, flag in flags.items():
                flag[place[name]] = bool(row[key])
        whole, index = np.zeros((count, count)), [place[name] for name in of]
        whole[np.ix_(index, index)] = covariance
        return cls(
            values=values,
            covariance=whole,
            frozen=flags["frozen"],
            at_bound=flags["at_bound"],
            identifiable=flags["identifiable"],
            **rest,
        )
