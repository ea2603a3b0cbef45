"""``cue calibrate-camera``: print a board, show it to the camera, get a calibration."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from cue_core.errors import CueError
from cue_core.files import write_atomically
from cue_perception.board_print import print_board
from cue_perception.board_views import HITS, Collector
from cue_perception.boards import Board, parse_squares
from cue_perception.camera import Intrinsics
from cue_perception.lens_fit import PARAMETERS, LensFit, LensFitError, fit_lens, lens_yaml
from cue_perception.sources import FolderSource, Source, SourceConfig, opened

_LOOKS = 400  # images of a film that are looked at, at most
_REFRESH = 0.1  # s


def calibrate_camera(options: argparse.Namespace, console: Console | None = None) -> int:
    """Print the board, or collect views and write the calibration; return the exit code.

    Raises:
        CueError: wrong options, a source that cannot be read, or views that do not determine the lens.
    """
    console = console or Console()
    columns, rows = parse_squares(options.squares) if options.squares else (11, 8)
    board = Board(options.board, columns, rows, options.square / 1000)
    if options.print_board:
        print_board(board, options.print_board, options.paper)
        console.out(f"{options.print_board}: {board.describe()}. Print it at 100 %, and measure a square.")
        if not options.source:
            return 0
    if not options.source:
        raise CueError("give --source 0, a video file or a folder of images, or --print-board FILE")
    if not options.out:
        raise CueError("give --out FILE for the calibration")
    if not Path(options.out).expanduser().absolute().parent.is_dir():
        raise CueError(f"the folder of {options.out} does not exist")
    with opened(SourceConfig(source=options.source)) as source:
        collector = Collector(board, max(options.views, 1), live=source.live)
        refused = collect(source, collector, console)
    wants = collector.missing()
    if wants:
        reasons = "; ".join(f"{count} x {why}" for why, count in sorted(refused.items(), key=lambda r: -r[1])[:3])
        raise LensFitError(
            f"{len(collector.views)} views of {board.describe()} do not suffice; still needed: {'; '.join(wants)}"
            + (f" (pictures left out: {reasons})" if reasons else "")
        )
    fit = fit_lens(board, [v.corners for v in collector.views], collector.size, options.rational)
    write_atomically(Path(options.out).expanduser(), lens_yaml(fit, options.name, board))
    _tell(fit, collector, options.out, console)
    return 0


def collect(source: Source, collector: Collector, console: Console) -> dict[str, int]:
    """Show the source's images to the collector until all is there; return why images were left out, and how many.

    A camera is watched until nothing is missing, or until Ctrl-C; files are read to their end.

    Raises:
        SourceError: the source breaks off.
    """
    stride = max(source.count // _LOOKS, 1) if not isinstance(source, FolderSource) else 1
    refused: dict[str, int] = {}
    why, number, shown = "", -1, 0.0
    with Live(console=console, transient=True, refresh_per_second=10, auto_refresh=False) as live:
        try:
            while (image := source.read()) is not None:
                number += 1
                if number % stride:
                    continue
                name = source.files[number].name if isinstance(source, FolderSource) else f"image {number}"
                why = collector.offer(image, name)
                if why:
                    kind = why.split(" (")[0]
                    refused[kind] = refused.get(kind, 0) + 1
                if console.is_terminal and time.monotonic() - shown > _REFRESH:
                    shown = time.monotonic()
                    live.update(picture(collector, why, source.live), refresh=True)
                if source.live and not collector.missing() and len(collector.views) >= collector.wanted:
                    break
        except KeyboardInterrupt:
            console.print("stopped; fitting what is there")
    return refused


def picture(collector: Collector, why: str, live: bool) -> RenderableType:
    """Return what the terminal shows while views are collected: covered regions, count, sharpness, what to do."""
    grid = Text()
    for row in collector.hits():
        grid.append("  ")
        for hits in row:
            grid.append("██ " if hits >= HITS else "▒▒ " if hits else "·· ", "green" if hits >= HITS else "yellow")
        grid.append("\n")
    state = Text(f"{len(collector.views)} of {collector.wanted} views kept, {collector.seen} images seen")
    if collector.views:
        state.append(f", edges {collector.views[-1].blur:.1f} px wide (at most {collector.blur_limit:.1f})")
    lines: list[RenderableType] = [Text("regions of the image that have seen the board:"), grid, state]
    lines.append(Text(f"now: {why}" if why else "now: kept", "yellow" if why else "green"))
    wants = collector.missing()
    lines += [Text(f"needed: {want}", "bold") for want in wants]
    if live:
        lines.append(Text("Ctrl-C: fit what is there" if wants else "nothing is missing; Ctrl-C: fit now", "dim"))
    return Group(*lines)


def _tell(fit: LensFit, collector: Collector, out: str, console: Console) -> None:
    lens = fit.lens
    numbers = [lens.matrix[0, 0], lens.matrix[1, 1], lens.matrix[0, 2], lens.matrix[1, 2], *lens.distortion]
    values = dict(zip(PARAMETERS, numbers, strict=False))

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    say(f"lens of {lens.width} x {lens.height} px images, from {len(fit.used)} views:")
    for name, value in values.items():
        if name in fit.stddev:
            digits = 2 if name[0] in "fc" else 5
            say(f"  {name} {value:>12.{digits}f} +- {fit.stddev[name]:.{digits}f}{' px' if digits == 2 else ''}")
    for index, reason in sorted(fit.rejected.items()):
        say(f"  left out {collector.views[index].name}: {reason}")
    say(f"corners miss by {fit.rms:.3f} px rms; in {fit.held_out} views kept out of the fit, {fit.held_out_rms:.3f} px")
    covered = int(collector.covered().sum())
    say(f"{covered} of {collector.covered().size} regions of the image covered")
    Intrinsics.load(Path(out).expanduser())  # what was written can be read
    say(out)
