"""Files that other processes may read at any moment."""

from __future__ import annotations

import os
from pathlib import Path

from cue_core.errors import FileFormatError


def write_atomically(path: Path | str, content: str | bytes) -> None:
    """Replace a file in one move, so that a reader sees the old one or the new one, never half of it.

    Not even a power cut leaves it empty: the content is on the disk before the move.

    Raises:
        FileFormatError: it cannot be written.
    """
    path = Path(path)
    draft = path.with_name(f"{path.name}.tmp")  # one name: a kill in between leaves no more than this
    try:
        with open(draft, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise FileFormatError(path, f"cannot be written: {error.strerror}") from None
