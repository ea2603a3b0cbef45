"""Keeps every estimate of a session in ``estimates.jsonl``, so that a restart goes on where it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.errors import FileFormatError, OutOfRangeError, UnknownNameError
from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import append_line, read_lines
from cue_core.table import TableModel
from cue_core.version import code_version
from cue_identify.fit import FitOutcome
from cue_identify.replay import Progress

FILE_NAME = "estimates.jsonl"
_SAME_TABLE = 0.03  # [-] reconstructions of one table differ by less in size


class EstimateStore:
    """Numbers the estimates; knows the newest promoted one. Lines are only ever appended.

    Attributes:
        path: of the file; None = keeps nothing on disk.
        present: the newest promoted estimate; nominal when there is none.
        interim: where a fit stood that came to no end, None = none did since the newest estimate.
    """

    def __init__(self, run_dir: Path | str = "", name: str = FILE_NAME, table: TableModel | None = None) -> None:
        """Read what is there; an empty ``run_dir`` keeps nothing on disk.

        Args:
            run_dir: folder.
            name: of the file in it.
            table: that the estimates are of; kept beside each of them.

        Raises:
            FileFormatError: the file is damaged, or of another table; says which line.
        """
        self._table = table
        self.path = Path(run_dir) / name if run_dir else None
        self.present = ParameterEstimate.nominal()
        self.interim: ParameterEstimate | None = None
        self._promoted: dict[int, ParameterEstimate] = {0: self.present}
        self._revision = 0
        for number, line in enumerate(read_lines(self.path) if self.path else [], start=1):
            estimate = estimate_from_line(line, f"{self.path} line {number}", table)
            if line.get("interim"):
                self.interim = estimate
                continue
            self.interim = None
            self._revision = max(self._revision, estimate.revision)
            if line.get("promoted"):
                self.present = self._promoted[estimate.revision] = estimate

    def check_writable(self) -> None:
        """Find out before a fit whether its estimate can be kept.

        Raises:
            FileFormatError: the file cannot be written.
        """
        if not self.path:
            return
        try:
            with open(self.path, "ab"):
                pass
        except OSError as error:
            raise FileFormatError(self.path, f"cannot be written: {error.strerror}") from None

    def add(self, outcome: FitOutcome) -> ParameterEstimate:
        """Number an outcome's estimate, keep it durably, and return it.

        Raises:
            FileFormatError: the file cannot be written.
        """
        return self._keep(outcome.estimate, outcome.promoted, outcome.details())

    def keep_interim(self, progress: Progress, values: np.ndarray) -> None:
        """Keep how far a fit has got: parameters ``values`` (P,), not judged and without error bars.

        Raises:
            FileFormatError: the file cannot be written.
        """
        self.interim = replace(ParameterEstimate.nominal(), values=values)
        details = {
            "promoted": False,
            "interim": True,
            "stage": progress.stage,
            "cost": progress.best_cost if math.isfinite(progress.best_cost) else None,
            "evaluations": progress.evaluations,
        }
        self._append(self.interim, details)

    def roll_back(self, revision: int) -> ParameterEstimate:
        """Return to an earlier promoted estimate: it comes again under a new number, so that nothing is erased.

        Raises:
            UnknownNameError: no promoted estimate has this number; lists those that are.
            FileFormatError: the file cannot be written.
        """
        if revision not in self._promoted:
            raise UnknownNameError("promoted revision", revision, map(str, self._promoted))
        return self._keep(
            self._promoted[revision], True, {"promoted": True, "reason": f"rolled back to revision {revision}"}
        )

    def _keep(self, estimate: ParameterEstimate, promoted: bool, details: Mapping[str, Any]) -> ParameterEstimate:
        estimate = replace(estimate, revision=self._revision + 1)
        self._append(estimate, details)
        self._revision, self.interim = estimate.revision, None
        if promoted:
            self.present = self._promoted[estimate.revision] = estimate
        return estimate

    def _append(self, estimate: ParameterEstimate, details: Mapping[str, Any]) -> None:
        if self.path:
            written = datetime.now(timezone.utc).isoformat(timespec="seconds")
            append_line(
                self.path,
                {
                    **estimate.to_dict(),
                    **details,
                    **({} if self._table is None else {"table": self._table.to_dict()}),
                    "code_version": code_version(),
                    "written": written,
                },
            )


def estimate_from_line(line: Mapping[str, Any], where: object, table: TableModel | None = None) -> ParameterEstimate:
    """Return the estimate of one line.

    Args:
        line: plain data.
        where: for messages.
        table: that it should be of, where the line tells; None = any.

    Raises:
        FileFormatError: it is none, or of another table; says what it lacks.
    """
    if table is not None and "table" in line:
        refuse_other_size(TableModel.from_dict(line["table"]), table, where)
    try:
        return ParameterEstimate.from_dict(line)
    except (FileFormatError, OutOfRangeError) as error:
        raise FileFormatError(where, f"is no estimate: {error}") from None
    except UnknownNameError as error:
        raise FileFormatError(where, f"is no estimate of this version: {error}") from None
    except KeyError as error:
        raise FileFormatError(where, f"is no estimate: lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise FileFormatError(where, f"is no estimate: {error}") from None


def refuse_other_size(of: TableModel, table: TableModel | None, where: object) -> None:
    """Refuse an estimate of a table ``of`` another size, or with other balls, than the one that it is wanted for.

    Raises:
        FileFormatError: naming both.
    """
    if table is None:
        return
    sizes = np.array([[t.length, t.width, t.ball_radius] for t in (of, table)])
    if np.abs(sizes[0] / sizes[1] - 1.0).max() > _SAME_TABLE:
        given, asked = (f"{t.name!r} of {t.length:g} x {t.width:g} m" for t in (of, table))
        raise FileFormatError(where, f"is an estimate of table {given}, not of {asked}")
