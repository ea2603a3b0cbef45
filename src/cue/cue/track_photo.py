"""``cue track IMAGE``: table and balls of one picture."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cue.resources import config_file, share
from cue_core.checks import finite_in
from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_core.table import TableModel

_SMALLEST = 32  # [px] of a picture in which anything could be seen


def track_photo(options: argparse.Namespace) -> int:
    """Examine a picture, tell what it shows, and write JSON and overlay as asked; return the exit code.

    Raises:
        CueError: the file is no picture, or shows no table.
    """
    import cv2

    from cue_perception.camera import Intrinsics
    from cue_perception.photo_overlay import draw_photo
    from cue_perception.photo_result import examine

    if not Path(options.source).expanduser().is_file():  # OpenCV would warn in words of its own
        raise FileFormatError(options.source, "does not exist, or is no file")
    image = cv2.imread(str(Path(options.source).expanduser()))
    if image is None:
        raise FileFormatError(options.source, "is no picture that can be read")
    if min(image.shape[:2]) < _SMALLEST:
        size = f"{image.shape[1]} x {image.shape[0]}"
        raise FileFormatError(options.source, f"has {size} pixels, needs at least {_SMALLEST} either way")
    for name, high in (("ball_diameter", 0.1), ("marker_side", 0.5)):
        if getattr(options, name) is not None:
            finite_in(name, getattr(options, name), 0.01, high, "m")
    table = TableModel.load(config_file("tables", options.table)) if options.table else None
    lens = Intrinsics.load(options.camera) if options.camera else None
    result = examine(
        image,
        table,
        lens,
        _presets(),
        options.ball_diameter,
        options.marker_side,
        options.marker_family,
        options.half_turn,
    )
    told: dict[str, Any] = {"source": str(options.source), "preset": options.table or None, **result.to_dict()}
    score = None
    if options.twin:
        from cue_perception.verify import verify

        score = verify(result, image)
        told["verification"] = score.to_dict()
        _save(options.twin, score.picture)
    quiet = options.json == "-"
    if quiet:
        print(json.dumps(told, indent=1))
    elif options.json:
        write_atomically(Path(options.json), json.dumps(told, indent=1) + "\n")
    picture = options.picture or (str(Path(options.out) / "overlay.png") if options.out else "")
    if picture:
        _save(picture, draw_photo(image, result))
    stream = sys.stderr if quiet else sys.stdout
    size = "" if result.scale.known else "guessed "
    print(
        f"{len(result.balls)} balls; table {size}{result.table.length:.3f} x {result.table.width:.3f} m"
        f" ({result.scale.source}), nose edges within {result.reading.view.rms:.2f} px",
        file=stream,
    )
    for ball in result.balls:
        x, y = ball.pixel
        print(
            f"  ({x:7.1f}, {y:7.1f}) px  ({ball.position[0]:+.4f}, {ball.position[1]:+.4f}) m  {ball.kind.name}"
            f" ({ball.kind.confidence:.0%}), a ball: {ball.confidence:.0%}",
            file=stream,
        )
    if score is not None:
        print(
            f"twin over the picture: edges {score.edge_rms:.2f} px rms, silhouettes {score.silhouette_iou:.2f},"
            f" cloth {score.cloth_iou:.2f}, SSIM {score.ssim:.2f}, mean Lab dE {score.mean_lab_de:.1f}",
            file=stream,
        )
    for warning in result.warnings:
        print(f"note: {warning}", file=stream)
    return 0


def _save(path: str, picture: np.ndarray) -> None:
    import cv2

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        written = cv2.imwrite(path, picture)
    except cv2.error:
        written = False
    if not written:
        raise CueError(f"cannot write {path}: the name must end like a picture's, e.g. .png")


def _presets() -> list[TableModel]:
    return [TableModel.load(path) for path in sorted((share() / "config" / "tables").glob("*.yaml"))]
