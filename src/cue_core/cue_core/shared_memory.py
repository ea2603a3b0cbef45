"""Shared memory that killed ROS processes leave behind.

Fast DDS keeps its segments in ``/dev/shm``; each living owner holds a lock on the ``_el`` or ``_sl`` file beside one.
A process that is killed cannot remove them. What nobody holds is removed here, as ``fastdds shm clean`` does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
_LONGEST_TURN = 1.5  # [s] to wait for the others that end at this moment
_BEING_MAPPED = 0.1  # [s] likewise of a segment that nobody has mapped
_BEING_MADE = 0.5  # [s] a lock file this young may belong to a process that is about to lock it
# Fast DDS 2 (ROS 2 up to Jazzy) named them fastrtps, 3 names them fastdds.
_STEM = r"(?P<stem>fast(?:rtps|dds)_(?:[0-9a-f]{16}|port\d+))"
_LOCK = re.compile(_STEM + "_[es]l")
_SEGMENT = re.compile(_STEM)


_turns: list[int] = []  # the descriptor whose lock is this process's turn to end


def _is_held(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDONLY)
    try:
        if time.time() - os.fstat(handle).st_mtime < _BEING_MADE:
            return True
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _mapped(folder: Path, but: int) -> set[str]:
    """Return the names of the files of a folder that processes have mapped, but for the one of a number."""
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        if maps.parent.name == str(but):
            continue
        with contextlib.suppress(OSError):
            found.update(re.findall(rf"{re.escape(str(folder))}/(\S+)", maps.read_text(errors="replace")))
    return found


def _without_lock(names: list[str]) -> set[str]:
    """Return the segments without a lock file: a sender makes such a one for a dead reader."""
    stems = {m["stem"] for m in map(_LOCK.fullmatch, names) if m}
    return {name for name in names if _SEGMENT.fullmatch(name) and name not in stems}


def _unlocked(folder: Path, names: list[str], but: int) -> set[str]:
    """Return the segments without a lock file that nobody has mapped, nor is about to."""
    alone = _without_lock(names)
    for name in list(alone):
        try:
            if time.time() - (folder / name).stat().st_mtime < _BEING_MAPPED:
                alone.discard(name)
        except OSError:
            alone.discard(name)
    return alone - _mapped(folder, but) if alone else alone


def remove_orphans(folder: Path = FOLDER, but: int = 0) -> int:
    """Remove the segments that no living process holds, but for the one of a number, and return how many."""
    held: dict[str, bool] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        match = _LOCK.fullmatch(name)
        if match:
            stem = match["stem"]
            try:
                held[stem] = held.get(stem, False) or _is_held(folder / name)
            except OSError:  # gone meanwhile, or another user's
                held[stem] = True
    orphans = [stem for stem, is_held in held.items() if not is_held] + sorted(_unlocked(folder, names, but))
    for stem in orphans:
        for name in (stem, f"{stem}_el", f"{stem}_sl", f"sem.{stem}_mutex"):
            with contextlib.suppress(OSError):
                (folder / name).unlink(missing_ok=True)
    return len(orphans)


def abandon(folder: Path = FOLDER) -> None:
    """Let go of this process's own segments and remove them; it must end right after, without returning to DDS."""
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = Path(os.readlink(link))
            if target.parent == folder and _LOCK.fullmatch(target.name):
                os.close(int(link.name))
    leave(folder)


def leave(folder: Path = FOLDER) -> None:
    """Remove what no other process uses, as the last act of this one.

    Processes that end together take turns. A turn lasts until its process is gone, as the kernel unmaps memory before
    it closes files. So the last one finds that nobody else has anything mapped.
    """
    with contextlib.suppress(OSError):
        if not _turns:
            _turns.append(os.open(folder, os.O_RDONLY))  # stays open
        handle, end = _turns[0], time.monotonic() + _LONGEST_TURN
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
        remove_orphans(folder, but=os.getpid())
        if _without_lock(os.listdir(folder)):  # made while this process said good-bye, so too young to be judged
            time.sleep(_BEING_MAPPED)
            remove_orphans(folder, but=os.getpid())
