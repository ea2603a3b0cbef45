"""May the arm move? A latched stop that survives restarts, and watchdogs on what the arm hears."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from cue_arm.errors import ArmError
from cue_core.arm_codes import ArmCode
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically

STOP_FILE = "arm_stop.json"


class Guard:
    """The latch: once stopped, whatever the reason, nothing moves until somebody enables the arm. Thread-safe."""

    def __init__(self, run_dir: str = "", enabled: bool = True) -> None:
        """Begin as told, or stopped if an earlier process was.

        Args:
            run_dir: keeps the latch; empty = it is forgotten with the process.
            enabled: False = somebody must enable the arm first.

        Raises:
            FileFormatError: the folder cannot be made.
        """
        self._lock = threading.Lock()
        self._path = Path(run_dir) / STOP_FILE if run_dir else None
        self._reason = "" if enabled else "the arm is disabled"
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileFormatError(self._path.parent, f"cannot be made: {error.strerror}") from None
            self._reason = self._read() or self._reason

    @property
    def reason(self) -> str:
        """Return why the arm is stopped; empty = it may move."""
        with self._lock:
            return self._reason

    def stop(self, reason: str) -> None:
        """Stop until enabled; the first reason is kept."""
        with self._lock:
            self._reason = self._reason or reason
            self._write()

    def enable(self) -> None:
        """Let the arm move again."""
        with self._lock:
            self._reason = ""
            self._write()

    def check(self) -> None:
        """Raise if the arm is stopped.

        Raises:
            ArmError: STOPPED, and why.
        """
        reason = self.reason
        if reason:
            raise ArmError(ArmCode.STOPPED, f"{reason}; call arm/enable with true to go on")

    def _read(self) -> str:
        assert self._path is not None
        try:
            return str(json.loads(self._path.read_bytes())["reason"])
        except FileNotFoundError:
            return ""
        except (OSError, ValueError, KeyError, TypeError):
            return f"{self._path} cannot be read, so it is not known whether the arm was stopped"

    def _write(self) -> None:
        """Keep the latch; a stop that cannot be kept is a stop all the same."""
        if self._path is None:
            return
        try:
            write_atomically(self._path, json.dumps({"reason": self._reason}) + "\n")
        except FileFormatError:
            self._reason = self._reason or f"{self._path} cannot be written"


class Watchdog:
    """Ages of what the arm must hear while it moves, in the robot's time [s]. Thread-safe."""

    def __init__(self, joints: float, camera: float) -> None:
        """Allow joint states and ball states to be this old [s]."""
        self._allowed = {"joint_states": joints, "ball_states": camera}
        self._codes = {"joint_states": ArmCode.CONTROLLER, "ball_states": ArmCode.NO_BALL}
        self._heard: dict[str, float] = {}
        self._lock = threading.Lock()

    def heard(self, what: str, now: float) -> None:
        """Note that ``joint_states`` or ``ball_states`` came."""
        with self._lock:
            self._heard[what] = now

    def stale(self, now: float) -> ArmError | None:
        """Return which of the two has been silent too long, or None; what never came is somebody else's to tell."""
        with self._lock:
            for what, allowed in self._allowed.items():
                age = now - self._heard.get(what, now)
                if age > allowed:
                    who = "the robot's driver" if what == "joint_states" else "the camera or the tracker"
                    text = f"{what} are {age:.2f} s old, allowed is {allowed:g} s: {who} has fallen silent"
                    return ArmError(self._codes[what], text)
        return None
