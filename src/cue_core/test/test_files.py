"""Files are replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from cue_core.errors import FileFormatError
from cue_core.files import write_atomically


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, "old")
    write_atomically(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    write_atomically(path, "grün\n")
    assert path.read_text(encoding="utf-8") == "grün\n"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"state\.json: cannot be written: No such file"):
        write_atomically(tmp_path / "nowhere" / "state.json", "x")
