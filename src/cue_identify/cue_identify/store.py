"""Keeps every estimate of a session in ``estimates.jsonl``, so that a restart goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import append_line, read_lines
from cue_identify.fit import FitOutcome

FILE_NAME = "estimates.jsonl"


class EstimateStore:
    """Numbers the estimates; knows the newest promoted one.

    Attributes:
        present: the newest promoted estimate; nominal when there is none.
    """

    def __init__(self, run_dir: Path | str = "") -> None:
        """Read what is there; an empty ``run_dir`` keeps nothing on disk.

        Raises:
            FileFormatError: the file is damaged.
        """
        self._path = Path(run_dir) / FILE_NAME if run_dir else None
        self._revision = 0
        self.present = ParameterEstimate.nominal()
        for line in read_lines(self._path) if self._path else []:
            estimate = ParameterEstimate.from_dict(line)
            self._revision = max(self._revision, estimate.revision)
            if line.get("promoted"):
                self.present = estimate

    def add(self, outcome: FitOutcome) -> ParameterEstimate:
        """Number an outcome's estimate, keep it durably, and return it.

        Raises:
            FileFormatError: the file cannot be written.
        """
        estimate = replace(outcome.estimate, revision=self._revision + 1)
        if self._path:
            append_line(self._path, {**estimate.to_dict(), **outcome.details()})
        self._revision = estimate.revision
        if outcome.promoted:
            self.present = estimate
        return estimate
