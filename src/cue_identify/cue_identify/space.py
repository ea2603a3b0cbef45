"""The unit box in which a fit searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, Parameter, check_names, nominal_values

_AT_BOUND = 0.01  # [-] of the range, as the message says


class EmptyRangeError(CueError):
    """A parameter whose bounds leave nothing to search."""

    def __init__(self, name: str, low: float, high: float) -> None:
        """Name the parameter and its bounds."""
        super().__init__(f"parameter {name} has bounds {low:g} to {high:g}, needs finite bounds with low < high")


@dataclass(frozen=True)
class Space:
    """Fitted parameters, each scaled so that its bounds are 0 and 1; the others are held.

    Attributes:
        names: of the d fitted parameters, in the order of the registry.
        base: (P,) values of all parameters; those not fitted keep them.
        low: (d,) bounds, in the parameters' units.
        high: (d,).
    """

    names: tuple[str, ...]
    base: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], base: np.ndarray, registry: Mapping[str, Parameter] = PARAMETERS) -> Space:
        """Take names and their bounds from the registry.

        Raises:
            UnknownNameError: no such parameter.
            EmptyRangeError: bounds that are not finite, equal, or exchanged.
        """
        chosen = set(check_names(names))
        ordered = tuple(name for name in registry if name in chosen)
        low = np.array([registry[name].minimum for name in ordered])
        high = np.array([registry[name].maximum for name in ordered])
        for name, a, b in zip(ordered, low, high, strict=True):
            if not (np.isfinite(a) and np.isfinite(b) and a < b):
                raise EmptyRangeError(name, a, b)
        return cls(ordered, np.array(base, dtype=float), low, high)

    @property
    def index(self) -> np.ndarray:
        """Return (d,) where the fitted parameters stand in a full vector."""
        order = list(PARAMETERS)
        return np.array([order.index(name) for name in self.names], dtype=int)

    @property
    def span(self) -> np.ndarray:
        """Return (d,) high minus low."""
        return self.high - self.low

    @property
    def prior_stddev(self) -> np.ndarray:
        """Return (d,) prior standard deviations around :attr:`nominal`, in unit coordinates."""
        return np.array([PARAMETERS[name].prior_stddev for name in self.names]) / self.span

    @property
    def nominal(self) -> np.ndarray:
        """Return the (d,) nominal values in unit coordinates."""
        return self.unit(nominal_values())

    def unit(self, values: np.ndarray) -> np.ndarray:
        """Return (d,) unit coordinates of a full vector (P,), moved into the box when outside."""
        return np.clip((values[self.index] - self.low) / self.span, 0.0, 1.0)

    def values(self, unit: np.ndarray) -> np.ndarray:
        """Return the full vector (P,) of unit coordinates (d,)."""
        full = self.base.copy()
        full[self.index] = np.clip(self.low + self.span * unit, self.low, self.high)
        return full

    def at_bound(self, unit: np.ndarray) -> np.ndarray:
        """Tell (d,) which coordinates lie within 1 % of the range from a bound."""
        return (unit <= _AT_BOUND) | (unit >= 1.0 - _AT_BOUND)
