"""``cue track VIDEO``: the tracker over a film, with progress, and what came of it."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cue.resources import config_file
from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_perception.camera import Intrinsics
from cue_perception.offline import BALLS, FILM, SHOTS, summary, track_film
from cue_perception.pipeline import TrackerConfig
from cue_perception.sources import SourceConfig, opened


def track_video(options: argparse.Namespace) -> int:
    """Track a video or a folder of images; return the exit code.

    Raises:
        CueError: no such file, no video, no table in it, or nowhere to write.
    """
    if not options.table:
        raise CueError("a video needs --table: the name of a table in config/tables, or the path of a table file")
    if not math.isfinite(options.fps) or options.fps < 0:
        raise CueError(f"--fps is {options.fps}, needs a number of 0 or more")
    table = TableModel.load(config_file("tables", options.table))
    lens = Intrinsics.load(options.camera) if options.camera else None
    source_path = Path(options.source).expanduser()
    quiet = options.json == "-"
    console = Console(stderr=quiet)
    with opened(SourceConfig(source=options.source, fps=options.fps)) as source:
        if source.live:
            raise CueError(f"{options.source} is no video file or folder of images")
        folder = Path(options.out).expanduser() if options.out else Path(f"{source_path.stem}-tracked")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileFormatError(folder, f"cannot be made: {error.strerror}") from None
        config = TrackerConfig(lockstep=False, half_turn=options.half_turn)
        with _bar(console) as bar:
            task = bar.add_task(source_path.name, total=source.count or None)
            result = track_film(
                source,
                table,
                lens,
                folder,
                config,
                film=not options.no_video,
                progress=lambda done: bar.update(task, completed=done),
            )
    told = {"source": str(options.source), **summary(result, table)}
    if quiet:
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    elif options.json:
        write_atomically(Path(options.json), json.dumps(told, indent=1) + "\n")
    say = console.out
    known = f"table {table.name} known from image {result.calibrated_at} on"
    say(f"{result.images} images, {known}, nose edges within {result.rms:.2f} px")
    if lens is None:
        say("lens estimated from the table, without distortion: give --camera FILE for positions to the millimetre")
    left_out = result.images - result.counts.get("new", 0) - result.counts.get("reset", 0)
    if left_out:
        say(f"{left_out} images left out: their stamps repeat, go back, or jump by over a second; --fps sets even ones")
    for record in result.records:
        say(_about(record))
    files = [SHOTS, BALLS] + ([FILM] if result.film == FILM else [])
    say(f"{folder}: {', '.join(files)}")
    if result.film and result.film != FILM:
        say(result.film)
    return 0


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("images"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _about(record: ShotRecord) -> str:
    moved = ", ".join(str(i) for i in record.moved_ball_ids())
    flags = f"; {', '.join(record.flags)}" if record.flags else ""
    return f"shot {record.index} at {record.strike_time:.3f} s: ball {moved or 'none'} moved{flags}"
