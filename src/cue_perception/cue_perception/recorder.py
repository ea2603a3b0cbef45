"""Shots: from the strike to the rest of all balls, tied to the command that caused it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from cue_core.balls import BallState, Visibility
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_perception.clock_offset import ClockOffset
from cue_perception.contacts import find_contacts
from cue_perception.strike import seen_strike_time, strike_time
from cue_perception.track import FULL, WINDOW, Sample, Track, plausible
from cue_perception.tracking import BallTracker

_MOVED = 0.003  # m
_LONGEST = 30.0  # s from the first motion until a shot is closed although something still seems to move
_WANDER = 0.003  # [m] between two looks at the same ball at rest
_FULL_PACE = 0.97  # of the planned one: less is a slowed robot
_AHEAD = 0.05  # s: a strike seen in full view this long before the arm's contact: the clocks do not agree
_BEFORE = 1.5  # s: measurements at rest older than this before the first motion are not used


class Phase(IntEnum):
    """Of a stroke; values equal the constants of ``cue_msgs/ShotExecution``."""

    STARTED = 0
    STRUCK = 1
    FINISHED = 2


@dataclass(frozen=True)
class Execution:
    """What the arm tells of a stroke.

    Attributes:
        shot: as commanded.
        phase: reached.
        time: when the phase began [s].
        stroke: as measured, from STRUCK on.
        error_code: 0 = none.
        pace: measured share of the planned pace; 0 = not measured.
    """

    shot: Shot
    phase: Phase
    time: float
    stroke: Stroke | None = None
    error_code: int = 0
    pace: float = 0.0


@dataclass
class _Open:
    """A shot being recorded."""

    shot: Shot | None
    since: float
    before: dict[int, BallState]
    flags: set[str] = field(default_factory=set)
    stroke: Stroke | None = None
    finished: float | None = None
    error_code: int = 0
    first_motion: float | None = None
    earliest: float = 0.0
    struck: bool = False


class ShotRecorder:
    """Watches the tracker and the arm, and gives one record per shot.

    A shot opens with the arm's STARTED, or with motion that nobody announced. It closes when the arm said FINISHED and
    every ball rests. What a record holds depends on stamps alone, never on when a message came.
    """

    def __init__(self, tracker: BallTracker, next_index: int = 0, done: Sequence[str] = ()) -> None:
        """Record what ``tracker`` sees; ``done``: ids of shots recorded in an earlier life."""
        self._tracker = tracker
        self.next_index = next_index
        self._done = set(done)
        self._open: _Open | None = None
        self._frame = 1 / 30
        self._quiet = -np.inf
        self.clock = ClockOffset()

    def note(self, flags: Iterable[str]) -> None:
        """Flag the open shot, if there is one, with what the self-check finds meanwhile."""
        if self._open is not None:
            self._open.flags.update(flags)

    @property
    def open_shot_id(self) -> str:
        """Return the id of the shot being recorded; empty = none, or motion without a command."""
        return self._open.shot.shot_id if self._open is not None and self._open.shot is not None else ""

    @property
    def recording(self) -> bool:
        """True while a shot is open."""
        return self._open is not None

    def needs_images(self) -> bool:
        """Tell whether more images are wanted: something moves, or an open shot has not been seen at rest yet."""
        return not self._tracker.at_rest()

    def on_execution(self, execution: Execution) -> ShotRecord | None:
        """Take news from the arm; returns a record when that closes one."""
        shot_id = execution.shot.shot_id
        if shot_id in self._done:
            return None
        if self._open is None or self.open_shot_id != shot_id:
            unannounced = self._open
            if unannounced is not None and unannounced.shot is not None:
                record = self._close({"superseded"})  # the arm went on without finishing it
                self._start(execution)
                return record
            self._start(execution)
            if unannounced is not None and self._open is not None:
                # The ball was seen rolling before the arm's message came.
                self._open.before = unannounced.before
                self._open.first_motion = unannounced.first_motion
                self._open.earliest = unannounced.earliest
                self._open.flags |= unannounced.flags
        current = self._open
        if current is None:
            return None
        if execution.stroke is not None:
            current.stroke = execution.stroke
        if execution.phase >= Phase.STRUCK and execution.stroke is not None:
            current.struck = True
        if 0.0 < execution.pace < _FULL_PACE:
            current.flags.add("slowed")
        if execution.phase == Phase.FINISHED:
            current.finished = execution.time
            current.error_code = execution.error_code
        return self._maybe_close()

    def _start(self, execution: Execution) -> None:
        before = {t.ball_id: self._before(t, execution.time) for t in self._tracker.tracks.values()}
        flags = set()
        if execution.phase > Phase.STARTED:
            flags.add("incomplete")  # the beginning was missed
        self._open = _Open(execution.shot, execution.time, before, flags)
        self._open.earliest = execution.time

    def resume(self, shot: Shot | None, before: Sequence[BallState], since: float) -> None:
        """Open again the shot that a crash cut."""
        self._open = _Open(shot, since, {b.ball_id: b for b in before}, {"incomplete"})
        self._open.earliest = since

    def open_shot(self) -> dict[str, Any] | None:
        """Return what :meth:`resume` needs, None = nothing is open."""
        if self._open is None:
            return None
        return {"shot": self._open.shot, "before": list(self._open.before.values()), "since": self._open.since}

    def on_frame(self, time: float, frame: float) -> ShotRecord | None:
        """Take note that the tracker has processed the image of ``time`` [s]; returns a record when that closes one."""
        if frame > 0:
            self._frame = min(frame, 0.2)
        moving = [t for t in self._tracker.active() if t.known and not t.still]
        if self._open is None:
            if not moving:
                return None
            before = {t.ball_id: self._before(t, time) for t in self._tracker.tracks.values()}
            self._open = _Open(None, time, before)
            self._open.earliest = max(time - 1.0, self._quiet)  # what moved before that belongs to the last record
        current = self._open
        if moving and current.first_motion is None:
            current.first_motion = time
            self._refresh_before(current, time)
        if current.first_motion is not None and time - current.first_motion > _LONGEST:
            return self._close({"never_rests"})
        return self._maybe_close()

    def _refresh_before(self, current: _Open, time: float) -> None:
        """Average each ball's place over its newest images at rest before the motion."""
        if "incomplete" in current.flags:
            return
        for track in self._tracker.tracks.values():
            seen, known = self._before(track, time), current.before.get(track.ball_id)
            # All balls were at rest when the stroke was announced. One that is elsewhere now was hidden by the arm when
            # it was struck, and rolls slowly: it never rested where it is.
            moved = known is not None and np.linalg.norm(seen.position - known.position) > _WANDER
            if current.shot is None or not moved:
                current.before[track.ball_id] = seen

    def _before(self, track: Track, time: float) -> BallState:
        state = track.state().at_rest() if track.active else track.state()
        if not track.active:
            return state
        position, covariance = track.rest_state(time - _BEFORE, time)
        return BallState(
            track.ball_id,
            position,
            covariance,
            colour=state.colour,
            visibility=state.visibility,
            identity_confidence=state.identity_confidence,
        )

    def _maybe_close(self) -> ShotRecord | None:
        current, now = self._open, self._tracker.time
        if current is None or now is None or not self._tracker.at_rest():
            return None
        if current.shot is not None:
            if current.finished is None or now < current.finished - 1e-9:
                return None
            return self._close(set())
        return self._close(set()) if current.first_motion is not None or "incomplete" in current.flags else None

    def abort(self, flag: str) -> ShotRecord | None:
        """Close the open shot at once, e.g. when time jumped back."""
        return self._close({flag}) if self._open is not None else None

    def _close(self, flags: set[str]) -> ShotRecord:
        current = self._open
        assert current is not None  # for the type checker: callers hold it
        self._open = None
        self._quiet = self._tracker.time if self._tracker.time is not None and self._tracker.at_rest() else -np.inf
        flags |= current.flags
        after = tuple(self._after(t) for _, t in sorted(self._tracker.tracks.items()))
        before = tuple(current.before[i] for i in sorted(current.before))
        moved = self._moved(current, after)
        striker = 0 if 0 in moved else min(moved, default=None, key=lambda i: self._first_moved(current, i))
        time, spread = self._strike(current, striker, flags)
        tracks = tuple(track for i in sorted(moved) if (track := self._track(current, i, time, after)) is not None)
        flags |= self._flags(current, after, moved)
        paths = {i: [s for s in self._samples(current, i) if s.time > time and s.time <= self._end(i)] for i in moved}
        rest = {i: (b.position, b.covariance) for i, b in current.before.items() if b.in_play}
        record = ShotRecord(
            shot_id=current.shot.shot_id if current.shot is not None else "",
            index=self.next_index,
            commanded=current.shot,
            achieved=current.stroke,
            strike_time=time,
            before=before,
            after=after,
            tracks=tracks,
            strike_time_stddev=spread,
            flags=tuple(sorted(flags)),
            contacts=find_contacts(paths, rest, time, striker, self._tracker.table),
        )
        self.next_index += 1
        if current.shot is not None:
            self._done.add(current.shot.shot_id)
        return record

    def _after(self, track: Track) -> BallState:
        state = track.state()
        if not track.active or not track.still:
            return state
        position, covariance = track.rest_state(track.still_since - WINDOW)
        return BallState(
            track.ball_id,
            position,
            covariance,
            colour=state.colour,
            visibility=state.visibility,
            identity_confidence=state.identity_confidence,
        )

    def _moved(self, current: _Open, after: Sequence[BallState]) -> set[int]:
        moved = set()
        for state in after:
            old = current.before.get(state.ball_id)
            if old is None or not old.in_play:
                continue
            if state.visibility == Visibility.POCKETED or np.linalg.norm(state.position - old.position) > _MOVED:
                moved.add(state.ball_id)
                continue
            far = [
                s
                for s in self._samples(current, state.ball_id)
                if s.support > FULL and np.linalg.norm(s.position - old.position) > _MOVED
            ]
            if len(far) >= 2:
                moved.add(state.ball_id)
        return moved

    def _samples(self, current: _Open, ball_id: int) -> list[Sample]:
        track = self._tracker.tracks.get(ball_id)
        return [s for s in track.history if s.time >= current.earliest - 1e-9] if track is not None else []

    def _first_moved(self, current: _Open, ball_id: int) -> float:
        rest = current.before[ball_id].position
        return next(
            (s.time for s in self._samples(current, ball_id) if np.linalg.norm(s.position - rest) > _MOVED), np.inf
        )

    def _strike(self, current: _Open, striker: int | None, flags: set[str]) -> tuple[float, float]:
        if striker is None or striker not in current.before:
            start = current.first_motion if current.first_motion is not None else current.since
            return start, self._frame
        old = current.before[striker]
        samples = self._samples(current, striker)
        contact = current.stroke.contact_time if current.stroke is not None and striker == 0 else None
        if not contact:
            return strike_time(old.position, old.covariance, samples, self._frame, None)
        seen, spread, clear = seen_strike_time(old.position, old.covariance, samples, self._frame)
        if clear and not flags & {"camera_moved", "incomplete"}:
            self.clock.add(seen, spread, contact)
        contact += self.clock.applied
        if clear and seen < contact - max(5 * spread, _AHEAD):
            flags.add("clock_doubtful")
        return strike_time(old.position, old.covariance, samples, self._frame, contact)

    def _track(self, current: _Open, ball_id: int, strike: float, after: Sequence[BallState]) -> BallTrack | None:
        samples = plausible([s for s in self._samples(current, ball_id) if strike < s.time <= self._end(ball_id)])
        if not samples:
            return None
        return BallTrack(
            ball_id,
            np.array([s.time - strike for s in samples]),
            np.array([s.position for s in samples]),
            np.array([s.covariance for s in samples]),
            pocketed=any(b.ball_id == ball_id and b.visibility == Visibility.POCKETED for b in after),
        )

    def _end(self, ball_id: int) -> float:
        """Return until when a ball moved [s]."""
        ball = self._tracker.tracks[ball_id]
        return ball.still_since + 1e-9 if ball.still else np.inf

    def _flags(self, current: _Open, after: Sequence[BallState], moved: set[int]) -> set[str]:
        flags = set()
        if current.shot is not None and 0 not in moved:
            flags.add("no_motion" if not moved else "cue_ball_still")
        if current.error_code and current.struck:
            flags.add("struck_then_aborted")
        elif current.error_code:
            flags.add("stroke_failed")
        for state in after:
            old = current.before.get(state.ball_id)
            if state.visibility == Visibility.LOST and old is not None and old.in_play:
                flags.add("ball_lost")
            if state.visibility == Visibility.OFF_TABLE and old is not None and old.in_play:
                flags.add("ball_off_table")
            track = self._tracker.tracks.get(state.ball_id)  # what it was called at first spoils no record
            if track is not None and track.confidence < 0.6 and state.ball_id in moved:
                flags.add("identity_doubtful")
            if state.visibility == Visibility.OCCLUDED and state.ball_id in moved:
                flags.add("occluded_end")
        if any(b.visibility == Visibility.OCCLUDED and b.ball_id in moved for b in current.before.values()):
            flags.add("occluded_start")
        return flags
