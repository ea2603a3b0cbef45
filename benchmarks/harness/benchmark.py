"""What a benchmark is: parts to run, and how their results become figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.parts import Part, Result

Results = Mapping[str, Result]
"""By part name; parts that ``--only`` left out and that were never run are absent."""


@dataclass(frozen=True)
class Options:
    """How a run was asked for.

    Attributes:
        seed: of everything random.
        quick: small counts, for a first look and for tests.
        root: of the source checkout.
        extra: options of this benchmark alone, by name.
    """

    seed: int = 0
    quick: bool = False
    root: Path = Path(".")
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One figure against its target.

    Attributes:
        key: of the JSON that it belongs to, ``"laws.stun"``.
        what: in words.
        value: measured; None = it could not be.
        unit: of value and target.
        target: None = no target, for information.
        sense: ``"<="`` or ``">="``: on which side of the target it should be.
        note: anything a reader should know; why there is no value.
    """

    key: str
    what: str
    value: float | None
    unit: str = ""
    target: float | None = None
    sense: str = "<="
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Tell whether the target is met; None = no target or no value."""
        if self.target is None or self.value is None:
            return None
        if math.isnan(self.value):
            return False
        return self.value <= self.target if self.sense == "<=" else self.value >= self.target

    @property
    def verdict(self) -> str:
        """Return one word for tables."""
        if self.value is None:
            return "not measured"
        return {True: "met", False: "missed", None: ""}[self.met]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the JSON."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Assembled:
    """Figures made of results: top-level keys of the JSON, and the rows of the table."""

    data: Mapping[str, Any]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark; ``benchmarks/NAME`` exports it as ``BENCHMARK``.

    Attributes:
        name: as in ``cue bench NAME``.
        title: of the page.
        about: one paragraph for the page.
        code: files and folders, relative to the checkout, whose change makes stored results invalid.
        parts: what to run.
        assemble: figures of the results.
        plot: writes the picture of the JSON data to a path.
        prepare: called before anything runs, for what cannot be a part.
        built: returns compiled files whose change makes stored results invalid too.
        sheets: makes further CSV files of the JSON data, rows by name; they go beside the others as ``F.NAME.csv``.
        chosen: tells which parts the options ask for. Others are not run, but count where they are done already.
    """

    name: str
    title: str
    about: str
    code: tuple[str, ...]
    parts: Callable[[Options], Sequence[Part]]
    assemble: Callable[[Options, Results], Assembled]
    plot: Callable[[Mapping[str, Any], Path], None]
    prepare: Callable[[Options, Callable[[str], None]], None] | None = None
    built: Callable[[], Sequence[Path]] = tuple
    sheets: Callable[[Mapping[str, Any]], Mapping[str, Sequence[Mapping[str, Any]]]] = lambda data: {}
    chosen: Callable[[Options, Part], bool] = lambda options, part: True
