"""Segments that nobody holds go, those of living processes stay."""

import fcntl
import mmap
import os

import pytest

from cue_core.shared_memory import remove_orphans


@pytest.mark.parametrize("stem", ["fastdds_0123456789abcdef", "fastrtps_port7411"])
def test_only_what_nobody_holds_is_removed(tmp_path, stem):
    for name in (stem, f"{stem}_el", f"sem.{stem}_mutex", "fastdds_other", "unrelated"):
        (tmp_path / name).touch()
    assert remove_orphans(tmp_path) == 0  # its owner may be about to lock it
    os.utime(tmp_path / f"{stem}_el", (0, 0))
    with (tmp_path / f"{stem}_el").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert remove_orphans(tmp_path) == 0
        assert (tmp_path / stem).exists()
    assert remove_orphans(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fastdds_other", "unrelated"]


def test_a_system_without_shared_memory_has_none_to_remove(tmp_path):
    assert remove_orphans(tmp_path / "none") == 0


def test_a_segment_without_a_lock_goes_unless_it_is_mapped(tmp_path):
    segment = tmp_path / "fastdds_port7411"
    segment.write_bytes(b"x" * 4096)
    assert remove_orphans(tmp_path) == 0  # somebody may be about to lock it
    os.utime(segment, (0, 0))
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert remove_orphans(tmp_path) == 0
    assert remove_orphans(tmp_path) == 1
    assert not segment.exists()
