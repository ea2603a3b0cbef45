"""What the offline commands are given: a table, an estimate, a twin, shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cue.resources import config_file
from cue_core.errors import CueError, FileFormatError, UnknownNameError
from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import LogContents, read_lines
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_identify.offline import ball_ids_of, read_shots, refuse_other_table
from cue_identify.store import estimate_from_line, refuse_other_size
from cue_sim.correction import Correction
from cue_sim.export import load_twin
from cue_sim.twin import Twin

_WIDE = 160  # columns where there is no terminal

TWIN = "twin.json"
ESTIMATES = "estimates.jsonl"
FITTED = "fit.jsonl"
"""What ``cue fit`` writes beside a log."""
SHOTS = "shots.jsonl"


@dataclass(frozen=True)
class Model:
    """A twin with its estimate.

    Attributes:
        twin: with its own balls.
        estimate: of its parameters.
        told: where both come from.
    """

    twin: Twin
    estimate: ParameterEstimate
    told: str


def consoles() -> tuple[Console, Console]:
    """Return where results go (standard output) and where all else goes (standard error)."""
    return _console(), _console(stderr=True)


def _console(**options: bool) -> Console:
    console = Console(highlight=False, **options)  # type: ignore[arg-type]
    if not console.is_terminal:
        console.width = _WIDE
    return console


def find_table(name: str, folder: Path) -> TableModel:
    """Return a table by its name in ``config/tables`` or path; empty = that of the ``twin.json`` in a folder.

    Raises:
        CueError: there is none, or the folder's ``twin.json`` is of a table of another size.
    """
    beside = folder / TWIN
    if name:
        table = TableModel.load(config_file("tables", name))
        if beside.is_file():
            refuse_other_size(load_twin(beside)[0].table, table, beside)
        return table
    if not beside.is_file():
        raise CueError(f"which table? Give --table NAME|FILE; there is no {beside} either, which would tell")
    return load_twin(beside)[0].table


def read_estimate(path: Path | str, revision: int | None = None, table: TableModel | None = None) -> ParameterEstimate:
    """Return an estimate out of a ``twin.json``, an ``estimates.jsonl``, or the folder of a run.

    Args:
        path: of the file or folder.
        revision: of an estimate in a ``.jsonl``; None = the newest promoted one, else the newest.
        table: that it should be of.

    Raises:
        FileFormatError: the file is missing, holds no estimate, or one of another table.
        UnknownNameError: no such revision; lists those there are.
    """
    path = Path(path)
    if path.is_dir():
        path = path / ESTIMATES if (path / ESTIMATES).is_file() else path / TWIN
    if not path.is_file():
        raise FileFormatError(path, "no such file")
    if path.suffix == ".json":
        twin, estimate = load_twin(path)
        refuse_other_size(twin.table, table, path)
        if revision not in (None, estimate.revision):
            raise UnknownNameError("revision", revision, [str(estimate.revision)])
        return estimate
    lines = [
        (
            estimate_from_line(line, f"{path} line {number}", table),
            bool(line.get("promoted")),
            bool(line.get("interim")),
        )
        for number, line in enumerate(read_lines(path), start=1)
    ]
    if not lines:
        raise FileFormatError(path, "holds no estimate")
    if revision is not None:
        found = {e.revision: e for e, _, interim in lines if not interim}
        if revision not in found:
            raise UnknownNameError("revision", revision, map(str, found))
        return found[revision]
    for wanted in (lambda line: line[1], lambda line: not line[2], lambda line: True):
        if kept := [line[0] for line in lines if wanted(line)]:
            return kept[-1]
    raise AssertionError("unreachable: the last choice takes any line")


def read_model(source: Path, table: str, estimate: str, revision: int | None, records: Sequence[ShotRecord]) -> Model:
    """Return the twin to judge shots with.

    Args:
        source: run folder or shot log.
        table: as told on the command line; empty = that of the twin found.
        estimate: likewise; empty = that of the ``twin.json`` in the run or beside the log.
        revision: of the estimate.
        records: the twin has the balls in them.

    Raises:
        CueError: something is missing or malformed.
    """
    folder = source if source.is_dir() else source.parent
    known: Twin | None = None
    if not table and (folder / TWIN).is_file():
        known, own = load_twin(folder / TWIN)
        refuse_other_table(records, known.table, source)
        if not estimate and revision is None:
            return Model(known, own, f"{folder / TWIN}, revision {own.revision}")
    beside = next((folder / name for name in (ESTIMATES, FITTED) if (folder / name).is_file()), None)
    if not estimate and beside is None:
        raise CueError(
            f"which estimate? Give --estimate FILE; there is no {folder / TWIN}, {ESTIMATES} or {FITTED} beside it"
        )
    origin = Path(estimate) if estimate else beside or folder
    if known is None and not table and origin.suffix == ".json" and origin.is_file():
        known = load_twin(origin)[0]
    twin = known or Twin(find_table(table, folder), ball_ids_of(records))
    chosen = read_estimate(origin, revision, twin.table)
    refuse_other_table(records, twin.table, source)
    return Model(carrying(twin, chosen), chosen, f"{origin}, revision {chosen.revision}")


def carrying(twin: Twin, estimate: ParameterEstimate) -> Twin:
    """Return the same twin with what the estimate's fit has learned beside the laws, and nothing else learned.

    Raises:
        FileFormatError: the estimate's correction is none.
    """
    learned = None if estimate.correction is None else Correction.from_dict(estimate.correction)
    if learned is None and twin.correction is None:
        return twin
    return Twin(
        twin.table,
        twin.ball_ids,
        radii=twin.radii,
        masses=twin.masses,
        largest_step=twin.largest_step,
        impact_step=twin.impact_step,
        extras=twin.extras,
        correction=learned,
    )


def read_source(source: Path, skip_bad: bool = False) -> LogContents:
    """Return the shots of a run folder or a log.

    Raises:
        FileFormatError: missing or malformed.
    """
    if source.is_dir() and not (source / SHOTS).is_file():
        raise FileFormatError(source / SHOTS, "no such file; is this the folder of a run?")
    return read_shots(source / SHOTS if source.is_dir() else source, skip_bad)


def choose_shots(records: Sequence[ShotRecord], wanted: Sequence[str], where: object) -> list[ShotRecord]:
    """Return shots by id or by number, from 0; all when none is named.

    Raises:
        FileFormatError: no such shot; lists those there are.
    """
    if not wanted:
        return list(records)
    by_id = {record.shot_id: record for record in records if record.shot_id}
    by_number = {str(record.index): record for record in records}
    chosen = []
    for word in wanted:
        record = by_id.get(word, by_number.get(word))
        if record is None:
            known = ", ".join(f"{r.index} ({r.shot_id})" if r.shot_id else str(r.index) for r in records[:20])
            more = f" and {len(records) - 20} more" if len(records) > 20 else ""
            raise FileFormatError(where, f"has no shot {word}; it has {known}{more}")
        chosen.append(record)
    return chosen
