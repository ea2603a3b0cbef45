"""``cue track``: one picture, or a video or folder of images."""

from __future__ import annotations

import argparse
from pathlib import Path

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")


def track(options: argparse.Namespace) -> int:
    """Find what a picture shows, or follow the balls through a video or folder; return the exit code.

    Raises:
        CueError: there is no such file, it cannot be read, or it shows no table.
    """
    if Path(options.source).suffix.lower() in _PICTURES and not Path(options.source).is_dir():
        from cue.track_photo import track_photo

        return track_photo(options)
    from cue.track_video import track_video

    return track_video(options)
