"""The score: what truly happened on the simulated table, shot by shot, for judging and never for fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TrueFrame:
    """The balls at one camera frame.

    Attributes:
        frame: count.
        time: [s].
        positions: (n, 2) [m].
        pocketed: (n,) bool.
        moving: a ball moves.
    """

    frame: int
    time: float
    positions: np.ndarray
    pocketed: np.ndarray
    moving: bool


@dataclass
class ScoreKeeper:
    """Cuts the stream of true frames into shots: from the last rest before motion to the first rest after it."""

    ball_ids: tuple[int, ...]
    _rest: TrueFrame | None = None
    _shot: list[TrueFrame] = field(default_factory=list)
    _newest: int = -1

    def add(self, frame: TrueFrame) -> dict[str, Any] | None:
        """Take the next frame, repeated ones are ignored; return the shot that it closes, else None."""
        if frame.frame <= self._newest:
            return None
        self._newest = frame.frame
        if frame.moving or (self._rest is not None and self._differs(frame)):
            # a tap may begin and end between two frames: it still is a shot
            self._shot.append(frame)
        if frame.moving:
            return None
        before, self._rest = self._rest, frame
        shot, self._shot = self._shot, []
        if not shot or before is None:
            return None
        frames = [*shot, frame] if shot[-1] is not frame else shot
        return self._line(before, frames)

    def _differs(self, frame: TrueFrame) -> bool:
        return self._rest is not None and not (
            np.array_equal(frame.positions, self._rest.positions)
            and np.array_equal(frame.pocketed, self._rest.pocketed)
        )

    def _line(self, before: TrueFrame, frames: Sequence[TrueFrame]) -> dict[str, Any]:
        after = frames[-1]
        moved = np.any(after.positions != before.positions, axis=1) | (after.pocketed != before.pocketed)
        return {
            "format": "cue.truth",
            "version": 1,
            "begin_s": before.time,
            "end_s": after.time,
            "before": self._balls(before),
            "after": self._balls(after),
            "t": [f.time for f in frames],
            "tracks": [
                {
                    "id": self.ball_ids[i],
                    "x": [float(f.positions[i, 0]) for f in frames],
                    "y": [float(f.positions[i, 1]) for f in frames],
                    "pocketed": bool(after.pocketed[i]),
                }
                for i in np.flatnonzero(moved)
            ],
        }

    def _balls(self, frame: TrueFrame) -> list[dict[str, Any]]:
        return [
            {"id": ball_id, "position": frame.positions[i].tolist(), "pocketed": bool(frame.pocketed[i])}
            for i, ball_id in enumerate(self.ball_ids)
        ]
