"""What survives a kill of the tracker: ``run_dir/tracker.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.errors import CueError, FileFormatError
from cue_core.shot_log import record_from_dict, record_to_dict
from cue_core.shots import ShotRecord
from cue_perception.camera import Camera
from cue_perception.reconstruct import Reconstruction

_FORMAT, _VERSION = "cue-tracker", 1


@dataclass(frozen=True)
class SavedState:
    """State of a tracker.

    Attributes:
        reconstruction: camera pose; None = not calibrated yet.
        balls: names, places and colours, as the ball tracker lists them.
        next_index: of the next shot record.
        open_shot: what was known of a shot being recorded: command, balls before, ``strike_time`` = when it was opened.
        clock: differences between camera and arm with their standard deviations, one per strike [s].
    """

    reconstruction: Reconstruction | None
    balls: Sequence[Mapping[str, Any]]
    next_index: int
    open_shot: ShotRecord | None
    clock: Sequence[tuple[float, float]] = ()

    def write(self, path: Path | str) -> None:
        """Write atomically.

        Raises:
            FileFormatError: the file cannot be written.
        """
        found = self.reconstruction
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "camera": None
            if found is None
            else {
                **found.camera.to_dict(),
                "covariance": found.covariance.tolist(),
                "rms": found.rms,
                "edges": found.edges,
                "cloth": found.cloth.tolist(),
            },
            "balls": list(self.balls),
            "next_index": self.next_index,
            "clock": [list(strike) for strike in self.clock],
            "open_shot": None if self.open_shot is None else record_to_dict(self.open_shot),
        }
        path = Path(path)
        draft = path.with_name(path.name + ".tmp")
        try:
            draft.write_text(json.dumps(data), encoding="utf-8")
            os.replace(draft, path)
        except OSError as error:
            raise FileFormatError(path, f"cannot be written: {error.strerror}") from None

    @classmethod
    def read(cls, path: Path | str) -> SavedState | None:
        """Read back; None when there is no such file.

        Raises:
            FileFormatError: the file is not what :meth:`write` wrote.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileFormatError(path, f"cannot be read: {error}") from None
        if not isinstance(data, dict) or data.get("format") != _FORMAT or data.get("version") != _VERSION:
            raise FileFormatError(path, f"is no {_FORMAT} file of version {_VERSION}")
        try:
            camera = data["camera"]
            found = None
            if camera is not None:
                found = Reconstruction(
                    Camera.from_dict(camera),
                    np.array(camera["covariance"], float).reshape(6, 6),
                    float(camera["rms"]),
                    int(camera["edges"]),
                    np.array(camera["cloth"], float),
                )
            pending = None if data["open_shot"] is None else record_from_dict(data["open_shot"], path)
            clock = [(float(d), float(s)) for d, s in data.get("clock", [])]
            return cls(found, list(data["balls"]), int(data["next_index"]), pending, clock)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"malformed: {type(error).__name__} {error}") from None
        except CueError as error:
            raise FileFormatError(path, str(error)) from None
