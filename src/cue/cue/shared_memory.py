"""Shared memory that killed ROS processes leave behind.

Fast DDS keeps ``/dev/shm/fastrtps_*`` segments; each living owner holds a lock on the ``_el`` file beside its segment.
A process that is killed cannot remove them. This removes what nobody holds, as ``fastdds shm clean`` does.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

_LOCK = re.compile(r"(?P<stem>fastrtps_(?:[0-9a-f]{16}|port\d+))_[es]l")


def _is_held(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def remove_orphans(folder: Path = Path("/dev/shm")) -> int:
    """Remove the segments that no living process holds, and return how many."""
    removed = 0
    held: dict[str, bool] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        match = _LOCK.fullmatch(name)
        if match:
            try:
                held[match["stem"]] = held.get(match["stem"], False) or _is_held(folder / name)
            except OSError:  # gone meanwhile, or another user's
                held[match["stem"]] = True
    for stem in (stem for stem, is_held in held.items() if not is_held):
        removed += 1
        for name in (stem, f"{stem}_el", f"{stem}_sl", f"sem.{stem}_mutex"):
            try:
                (folder / name).unlink(missing_ok=True)
            except OSError:
                continue
    return removed
