"""What the arm knows of the world right now, shared by the callbacks that learn it and the shot that waits for it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from cue_arm.errors import ArmError
from cue_arm.measure import JointRecord
from cue_core.arm_codes import ArmCode
from cue_core.balls import BallState, Motion, Visibility

_RECORDED = 16384  # joint states kept: over two minutes at 125 Hz
_RESET_BACK = 0.5  # s: a joint state this much older than the last means that the clock was set back
_STILL_JOINT = 0.02  # rad/s
_STILL_BALL = 0.01  # m/s
_SAME_JOINT = 0.01  # rad
_SAME_BALL = 0.002  # m


class Interrupt:
    """Why a running shot must end early; set once, from any thread."""

    def __init__(self, changed: threading.Condition) -> None:
        """Wake waiters of ``changed`` when set."""
        self._changed = changed
        self.reason: ArmError | None = None

    def set(self, code: ArmCode, text: str) -> None:
        """End the shot; the first reason counts."""
        with self._changed:
            self.reason = self.reason or ArmError(code, text)
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the reason if there is one.

        Raises:
            ArmError: CANCELED, PREEMPTED, STOPPED or TIME_RESET.
        """
        if self.reason is not None:
            raise self.reason


class Situation:
    """Newest ball states and a log of joint states. Thread-safe; waiting goes by wall time, as the clock may stand."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.changed = threading.Condition()
        self._balls: tuple[BallState, ...] | None = None
        self._seen = -math.inf
        self._joints: deque[tuple[float, np.ndarray, np.ndarray | None]] = deque(maxlen=_RECORDED)
        self.news = 0  # counts what arrived, so that silence can be noticed

    def add_balls(self, balls: tuple[BallState, ...] | None, stamp: float = math.inf) -> None:
        """Take the newest ball states and when they were seen [s]; None = the table is not known (any more)."""
        with self.changed:
            self._balls, self._seen = balls, stamp
            self.news += 1
            self.changed.notify_all()

    def add_joints(self, stamp: float, positions: np.ndarray, velocities: np.ndarray | None) -> bool:
        """Take a joint state (n,) [rad], (n,) [rad/s] of a time [s]; return True if the clock was set back.

        A short step back, as after a restart of the world from its last frame, replaces what came after it.
        """
        with self.changed:
            back = self._joints[-1][0] - stamp if self._joints else 0.0
            if back >= _RESET_BACK:
                self._joints.clear()
            while self._joints and self._joints[-1][0] >= stamp:
                self._joints.pop()
            self._joints.append((stamp, positions, velocities))
            self.news += 1
            self.changed.notify_all()
        return back >= _RESET_BACK

    def newest_joints(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return stamp [s], positions [rad] and velocities [rad/s] (n,), or None."""
        with self.changed:
            if not self._joints:
                return None
            stamp, position, velocity = self._joints[-1]
            if velocity is not None:
                return stamp, position, velocity
            if len(self._joints) < 2:
                return stamp, position, np.zeros_like(position)
            before, last, _ = self._joints[-2]
            return stamp, position, (position - last) / (stamp - before)

    def joints_since(self, stamp: float) -> JointRecord:
        """Return all joint states from a time on [s]."""
        with self.changed:
            rows = [row for row in self._joints if row[0] >= stamp]
        velocities = [row[2] for row in rows]
        known = [v for v in velocities if v is not None]
        return JointRecord(
            np.array([row[0] for row in rows]),
            np.array([row[1] for row in rows]),
            np.array(known) if len(known) == len(rows) else None,
        )

    def wait(self, ready: Callable[[], bool], timeout: float, interrupt: Interrupt | None = None) -> bool:
        """Wait until ``ready`` or the wall time is over; return whether it is ready.

        Raises:
            ArmError: the interrupt was set.
        """
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                if interrupt is not None:
                    interrupt.check()
                if ready():
                    return True
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(left)

    def at_rest(self, since: float | None = None) -> bool:
        """Tell whether the newest joint state, or every one since a time [s], is still."""
        newest = self.newest_joints()
        if newest is None or np.abs(newest[2]).max() >= _STILL_JOINT:
            return False
        if since is None:
            return True
        rows = self.joints_since(since).positions
        # None is left when the clock was set back meanwhile.
        return len(rows) == 0 or bool(np.ptp(rows, axis=0).max() < _STILL_JOINT * (newest[0] - since) + 1e-6)

    def same(self, joints: np.ndarray, balls: Mapping[int, np.ndarray]) -> bool:
        """Tell whether arm (n,) [rad] and balls on the table, (2,) by id [m], are still where they were."""
        newest = self.newest_joints()
        with self.changed:
            now = {ball.ball_id: ball.position for ball in self._balls or () if ball.in_play}
        return (
            newest is not None
            and bool(np.abs(newest[1] - joints).max() < _SAME_JOINT)
            and now.keys() == balls.keys()
            and all(np.abs(now[i] - balls[i]).max() < _SAME_BALL for i in balls)
        )

    def seen_since(self, stamp: float, ball_id: int) -> bool:
        """Tell whether a ball was seen at a time [s] or later, or is known to be gone."""
        with self.changed:
            here = [b for b in self._balls or () if b.ball_id == ball_id]
            visible = not here or here[0].visibility != Visibility.OCCLUDED
            return self._balls is not None and self._seen >= stamp and visible

    def stddev_of(self, ball_id: int) -> float:
        """Return the standard deviation of each coordinate of a ball's place [m], 0 where it is not known."""
        with self.changed:
            spread = [b.covariance for b in self._balls or () if b.ball_id == ball_id]
        return math.sqrt(max(float(np.trace(spread[0])) / 2, 0.0)) if spread else 0.0

    def balls_rest(self) -> bool:
        """Tell whether no ball on the table is seen to move."""
        with self.changed:
            return all(_rests(ball) for ball in self._balls or () if ball.in_play)

    def balls_on_table(self) -> dict[int, np.ndarray]:
        """Return the (2,) positions by id of the balls on the table as they were last seen [m]."""
        with self.changed:
            return {b.ball_id: np.array(b.position, float) for b in self._balls or () if b.in_play}

    def playable_balls(self, timeout: float, interrupt: Interrupt, target: int = 0) -> dict[int, np.ndarray]:
        """Return the (2,) positions by id of the balls on the table [m], all at rest and ``target`` among them.

        Raises:
            ArmError: NO_BALL and why, or the interrupt's reason.
        """
        if not self.wait(lambda: self._balls is not None, timeout, interrupt):
            raise ArmError(ArmCode.NO_BALL, "no ball_states, or the table is not known yet")
        balls = self._balls or ()
        on_table = [ball for ball in balls if ball.in_play]
        if not any(ball.ball_id == target for ball in on_table):
            seen = ", ".join(str(ball.ball_id) for ball in on_table) or "none"
            wanted = "cue ball (id 0)" if target == 0 else f"ball {target}"
            raise ArmError(ArmCode.NO_BALL, f"no {wanted} on the table; there are {seen}")
        for ball in on_table:
            name = "the cue ball" if ball.ball_id == 0 else f"ball {ball.ball_id}"
            speed = float(np.hypot(*ball.velocity))
            if not np.all(np.isfinite(ball.position)):
                raise ArmError(ArmCode.NO_BALL, f"{name} has no finite position")
            if not _rests(ball):
                raise ArmError(ArmCode.NO_BALL, f"{name} is not at rest ({ball.motion.name}, {speed:.3f} m/s)")
        return {ball.ball_id: np.array(ball.position, float) for ball in on_table}


def _rests(ball: BallState) -> bool:
    still = ball.motion in (Motion.STATIONARY, Motion.UNKNOWN)
    return still and float(np.hypot(*ball.velocity)) < _STILL_BALL
