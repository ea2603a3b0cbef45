"""The arm's own record of strokes, so that no shot is ever struck twice, whatever process dies when."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cue_core.arm_codes import ArmCode
from cue_core.errors import FileFormatError
from cue_core.shot_log import append_line, read_lines
from cue_core.shots import Shot, Stroke

LEDGER_FILE = "arm_ledger.jsonl"
PUSHES_FILE = "arm_pushes.jsonl"


@dataclass(frozen=True)
class LedgerEntry:
    """One shot whose motion was sent to the arm.

    Attributes:
        shot: as commanded.
        finished: False while it runs, or when the process died meanwhile.
        struck: the tip met the ball; None = nobody knows.
        stroke: as measured, None where nothing was.
        code: how it ended; ``text`` says more.
        pace: measured share of the planned pace; 0 = not measured.
    """

    shot: Shot
    finished: bool = False
    struck: bool | None = None
    stroke: Stroke | None = None
    code: ArmCode = ArmCode.NONE
    text: str = ""
    pace: float = 0.0

    @property
    def blocks(self) -> bool:
        """True when the id must not be played again: it was struck, or may have been."""
        return self.struck is not False


class Ledger:
    """Entries by shot id, kept in a file where there is a folder for it. Thread-safe."""

    def __init__(self, run_dir: str = "") -> None:
        """Read what an earlier process wrote.

        Raises:
            FileFormatError: the file is damaged before its last line, or the folder cannot be made.
        """
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._entries: dict[str, LedgerEntry] = {}
        if run_dir:
            folder = Path(run_dir)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileFormatError(folder, f"cannot be made: {error.strerror}") from None
            self._path = folder / LEDGER_FILE
            for number, data in enumerate(read_lines(self._path), start=1):
                self._take(data, f"{self._path} line {number}")

    def find(self, shot_id: str) -> LedgerEntry | None:
        """Return the entry of a shot that must not be played again, or None."""
        with self._lock:
            entry = self._entries.get(shot_id)
        return entry if entry is not None and entry.blocks else None

    @property
    def last(self) -> LedgerEntry | None:
        """Return the newest entry."""
        with self._lock:
            return next(reversed(self._entries.values()), None)

    def start(self, shot: Shot) -> None:
        """Write that a shot is about to be played; must come before the arm moves.

        Raises:
            FileFormatError: the file cannot be written; then nothing may move.
        """
        with self._lock:
            self._write({"event": "started", "shot": asdict(shot)})
            self._entries.pop(shot.shot_id, None)
            self._entries[shot.shot_id] = LedgerEntry(shot)

    def finish(
        self,
        shot_id: str,
        struck: bool | None,
        stroke: Stroke | None,
        code: ArmCode,
        text: str,
        pace: float = 0.0,
    ) -> LedgerEntry:
        """Write how a started shot ended, and return its entry.

        Raises:
            FileFormatError: the file cannot be written.
        """
        with self._lock:
            entry = replace(
                self._entries[shot_id],
                finished=True,
                struck=struck,
                stroke=stroke,
                code=code,
                text=text,
                pace=pace,
            )
            self._entries[shot_id] = entry
            self._write(
                {
                    "event": "finished",
                    "shot_id": shot_id,
                    "struck": struck,
                    "stroke": None if stroke is None else asdict(stroke),
                    "error_code": int(code),
                    "error_msg": text,
                    "pace": pace,
                }
            )
        return entry

    def _write(self, data: Mapping[str, Any]) -> None:
        if self._path is not None:
            append_line(self._path, data)

    def _take(self, data: Mapping[str, Any], where: str) -> None:
        try:
            if data["event"] == "started":
                shot = Shot(**data["shot"])
                self._entries.pop(shot.shot_id, None)
                self._entries[shot.shot_id] = LedgerEntry(shot)
            else:
                self._entries[data["shot_id"]] = replace(
                    self._entries[data["shot_id"]],
                    finished=True,
                    struck=data["struck"],
                    stroke=None if data["stroke"] is None else Stroke(**data["stroke"]),
                    code=ArmCode(data["error_code"]),
                    text=data["error_msg"],
                    pace=float(data.get("pace", 0.0)),
                )
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(where, f"malformed: {type(error).__name__} {error}") from None


class PushLedger:
    """Ids of pushes that were begun, kept in a file where there is a folder for it. Thread-safe."""

    def __init__(self, run_dir: str = "") -> None:
        """Read what an earlier process wrote.

        Raises:
            FileFormatError: the file is damaged before its last line.
        """
        self._lock = threading.Lock()
        self._path = Path(run_dir) / PUSHES_FILE if run_dir else None
        self._ids: set[str] = set()
        if self._path is not None:
            self._ids = {str(row.get("push_id")) for row in read_lines(self._path)}

    def known(self, push_id: str) -> bool:
        """Tell whether a push was begun before."""
        with self._lock:
            return push_id in self._ids

    def start(self, push_id: str) -> None:
        """Write that a push is about to begin; must come before the arm moves. Later strokes of it change nothing.

        Raises:
            FileFormatError: the file cannot be written; then nothing may move.
        """
        with self._lock:
            if push_id in self._ids:
                return
            if self._path is not None:
                append_line(self._path, {"push_id": push_id})
            self._ids.add(push_id)
