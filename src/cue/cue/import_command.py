"""``cue import``: a recording made elsewhere becomes a shot log."""

from __future__ import annotations

from collections.abc import Callable

from cue.resources import config_file


def import_shots(source: str, out: str, table: str, write: Callable[[str], object]) -> int:
    """Append recorded shots to a shot log.

    Raises:
        CueError: a file is missing, malformed or cannot be written, or the log holds these shots already.
    """
    from cue_core.table import TableModel
    from cue_identify.real_shots.records import import_recording

    records = import_recording(source, out, TableModel.load(config_file("tables", table)))
    tracks = sum(len(record.tracks) for record in records)
    write(f"{out}: {len(records)} shots, {tracks} tracks; strokes unknown")
    return 0
