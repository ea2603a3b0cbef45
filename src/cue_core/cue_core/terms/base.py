"""What a term is: an effect on how the balls move, its parameters, and how they reach the twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from cue_core.errors import FileFormatError
from cue_core.terms.knobs import Knobs


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
        prior_stddev: standard deviation, in its unit, of what is known beforehand around ``nominal``; not given = a
            quarter of the range. Priors decide what the shots leave open.
        scale: a change, in its unit, that shows in a shot, for the first steps of a search; not given =
            ``prior_stddev``.
    """

    name: str
    unit: str
    nominal: float
    minimum: float
    maximum: float
    description: str
    source: str
    fitted: bool = True
    prior_stddev: float = math.nan
    scale: float = math.nan

    def __post_init__(self) -> None:
        """Refuse bounds that leave nothing to search, and fill in what is not given.

        Raises:
            FileFormatError: naming the parameter.
        """
        if not self.minimum < self.maximum or not self.minimum <= self.nominal <= self.maximum:
            raise FileFormatError(
                f"parameter {self.name}",
                f"needs minimum < maximum with the nominal between, got {self.minimum} {self.nominal} {self.maximum}",
            )
        if math.isnan(self.prior_stddev):
            object.__setattr__(self, "prior_stddev", 0.25 * (self.maximum - self.minimum))
        if math.isnan(self.scale):
            object.__setattr__(self, "scale", self.prior_stddev)
        if not (self.prior_stddev > 0 and self.scale > 0):
            raise FileFormatError(f"parameter {self.name}", "needs prior_stddev and scale above 0")


Write = Callable[[np.ndarray, Knobs], None]


@dataclass(frozen=True)
class Term:
    """An effect with a few parameters; at their nominal values it changes nothing.

    Attributes:
        name: key.
        description: in one line.
        parameters: in the order of vectors.
        write: takes the term's parameters (B, k), and sets or adds to the knobs of those B samples in place.
        belongs: "ball" = parameter i is that of ball i; "cushion" = that of cushion i, in the order of
            ``table.cushions``; else empty.
        reference: parameters of a ``belongs`` term that serve as the measure of the others, by place: fitted along with
            the others they would only scale all alike.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    write: Write
    belongs: str = ""
    reference: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the parameters' names."""
        return tuple(p.name for p in self.parameters)

    def acting(self, ball_ids: Iterable[int], cushions: int) -> tuple[str, ...]:
        """Return the names that are worth fitting on a table: its own balls and cushions, without the reference.

        Args:
            ball_ids: of the balls there.
            cushions: how many the table has, 6 or, without pockets, 4.
        """
        if not self.belongs:
            return self.names
        present = set(ball_ids) if self.belongs == "ball" else set(range(cushions))
        return tuple(name for i, name in enumerate(self.names) if i in present and i not in self.reference)
