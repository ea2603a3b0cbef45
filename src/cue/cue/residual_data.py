"""Where a twin errs: recorded shots replayed, and every observed sample with its error and its circumstances.

A replay starts from the balls at rest and from the measured stroke; direction and time of the stroke are taken from the
cue ball's way to its first contact, as a fit does, because no joint state shows how the tip met the ball.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cue.offline_inputs import Model
from cue.residual_local import Bend, Kink, bends, kinks
from cue_core.shots import ShotRecord
from cue_identify.observations import CUE_BALL, ShotData, observe, why_unusable
from cue_identify.replay import Replayed
from cue_identify.residuals import differences
from cue_identify.scoring import MOVED, rest_error
from cue_sim.kernel import Event, EventKind
from cue_sim.predict import for_balls, start_from
from cue_sim.twin import Trajectory, Twin

STRIKE, CUSHION, BALL, MISSED = 0, 1, 2, 3
KINDS = ("after the strike", "after a cushion", "after a ball", "not set off in the replay")
_SLOW = 0.03  # [m/s] below it, noise decides the direction of travel
_REACH = 2  # samples to either side that tell a velocity


@dataclass(frozen=True)
class Samples:
    """The m observed samples of balls seen to move.

    Attributes:
        shot: (m,) number of the shot.
        ball: (m,) id.
        time: (m,) since the strike [s].
        place: (m, 2) observed [m].
        error: (m, 2) predicted minus observed [m].
        speed: (m,) observed [m/s].
        along: (m,) the error's part along the observed direction of travel, + = predicted too far [m]; NaN where slow.
        across: (m,) its part to the left of it [m]; NaN where slow.
        contacts: (m,) contacts behind the ball's motion, by the replay: its own and those of balls that set it off.
        kind: (m,) of the last of them: STRIKE, CUSHION or BALL; MISSED = a ball that was seen to move, and that nothing
            in the replay has met yet.
        since: (m,) time since it [s].
    """

    shot: np.ndarray
    ball: np.ndarray
    time: np.ndarray
    place: np.ndarray
    error: np.ndarray
    speed: np.ndarray
    along: np.ndarray
    across: np.ndarray
    contacts: np.ndarray
    kind: np.ndarray
    since: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Return (m,) sizes of the error [m]."""
        return np.linalg.norm(self.error, axis=1)

    def only(self, kept: np.ndarray) -> Samples:
        """Return the samples of a mask (m,), or those at some places, in that order."""
        return Samples(*(getattr(self, f.name)[kept] for f in dataclasses.fields(self)))


@dataclass(frozen=True)
class ShotRow:
    """One replayed shot.

    Attributes:
        record: as observed.
        turn: of the cue ball's direction against the measured stroke's, as seen [rad].
        rest: mean rest error of the balls that moved, in this replay [m]; NaN = none moved.
        contacts: in the replay.
    """

    record: ShotRecord
    turn: float
    rest: float
    contacts: int


@dataclass(frozen=True)
class Residuals:
    """What a replay of shots left over.

    Attributes:
        samples: of all of them.
        shots: replayed.
        bends: of balls between contacts.
        kinks: of balls at contacts.
        excluded: why a shot was not replayed, by shot id.
    """

    samples: Samples
    shots: tuple[ShotRow, ...]
    bends: tuple[Bend, ...]
    kinks: tuple[Kink, ...]
    excluded: dict[str, str]


def replay(model: Model, records: Sequence[ShotRecord], tell: Callable[[int], None] = lambda done: None) -> Residuals:
    """Replay shots and take the samples' errors.

    Args:
        model: twin and estimate.
        records: as observed.
        tell: told after each shot how many are done.
    """
    found = _Found([], [], [], [])
    excluded: dict[str, str] = {}
    for done, record in enumerate(records, start=1):
        name = record.shot_id or f"record {record.index}"
        ids = tuple(ball.ball_id for ball in record.before if ball.in_play)
        reason = why_unusable(record, ids)
        if not reason:
            reason = _replay_one(model, record, ids, found)
        if reason:
            excluded[name] = reason
        tell(done)
    return Residuals(_joined(found.samples), tuple(found.shots), tuple(found.bends), tuple(found.kinks), excluded)


@dataclass
class _Found:
    samples: list[Samples]
    shots: list[ShotRow]
    bends: list[Bend]
    kinks: list[Kink]


def _replay_one(model: Model, record: ShotRecord, ids: tuple[int, ...], found: _Found) -> str:
    """Replay one shot; return why that was of no use, else empty."""
    twin = for_balls(model.twin, ids)
    shot = observe(record, _direction(model, record, ids))
    balls = [ball for ball in record.before if ball.in_play]
    stroke = dataclasses.replace(shot.stroke, azimuth=shot.stroke.azimuth + shot.turn)
    start = start_from(balls, stroke, model.estimate.values, twin.table, ids)
    path = twin.simulate(start, model.estimate.values, np.maximum(shot.times, 0.0))
    if path.fault:
        return f"the twin fails on it: {path.fault}"
    samples = _samples(shot, path, twin)
    found.samples.append(samples)
    for ball in np.unique(samples.ball):
        rows = samples.only(samples.ball == ball)
        rows = rows.only(np.argsort(rows.time, kind="stable"))
        own = [e.time for e in path.events if e.kind == EventKind.CUSHION and e.ball == ball]
        own += [e.time for e in path.events if e.kind == EventKind.BALL_BALL and ball in (e.ball, e.other)]
        found.bends.extend(bends(record.index, rows.time, rows.place, rows.error, own))
        found.kinks.extend(kinks(record.index, int(ball), rows.time, rows.place, rows.error, path.events, twin.table))
    contacts = path.contacts(EventKind.BALL_BALL) + path.contacts(EventKind.CUSHION)
    found.shots.append(ShotRow(record, shot.turn, rest_error(record, path, ids), contacts))
    return ""


def _direction(model: Model, record: ShotRecord, ids: tuple[int, ...]) -> float:
    """Return in which direction [rad] the twin sends the cue ball, within half a turn of the stroke's."""
    assert record.achieved is not None  # else it is not usable
    balls = [ball for ball in record.before if ball.in_play]
    start = start_from(balls, record.achieved, model.estimate.values, model.twin.table, ids)
    vx, vy = start.velocities[ids.index(CUE_BALL)]
    azimuth = record.achieved.azimuth
    return azimuth + math.remainder(math.atan2(vy, vx) - azimuth, 2 * math.pi)


def _samples(shot: ShotData, path: Trajectory, twin: Twin) -> Samples:
    order = {ball: k for k, ball in enumerate(twin.ball_ids)}
    columns = np.array([order[int(ball)] for ball in shot.ball_id])
    position = path.positions[shot.time_index, columns]
    error = differences(shot, Replayed(position, np.zeros_like(position)))
    time = shot.times[shot.time_index]
    velocity = _velocity(shot, time)
    speed = np.linalg.norm(velocity, axis=1)
    heading = np.where((speed > _SLOW)[:, None], velocity / np.maximum(speed, 1e-12)[:, None], np.nan)
    contacts, kind, since = _history(shot.ball_id, time, path.events)
    rest = np.array([next(b.position for b in shot.balls if b.ball_id == ball) for ball in shot.ball_id])
    gone = np.linalg.norm(shot.observed - rest, axis=1) > MOVED
    waits = (shot.ball_id != CUE_BALL) & (contacts == 0)
    kind[waits] = MISSED
    kept = np.isin(shot.ball_id, shot.movers) & (gone | ~waits)  # a ball that waits for its turn tells nothing
    every = Samples(
        shot=np.full(len(time), shot.record.index),
        ball=shot.ball_id,
        time=time,
        place=shot.observed,
        error=error,
        speed=speed,
        along=np.sum(error * heading, axis=1),
        across=error[:, 1] * heading[:, 0] - error[:, 0] * heading[:, 1],
        contacts=contacts,
        kind=kind,
        since=since,
    )
    return every.only(kept)


def _velocity(shot: ShotData, time: np.ndarray) -> np.ndarray:
    """Return (m, 2) observed velocities [m/s], over a few samples to either side; zero where there are too few."""
    found = np.zeros_like(shot.observed)
    for ball in np.unique(shot.ball_id):
        rows = np.flatnonzero(shot.ball_id == ball)
        rows = rows[np.argsort(time[rows], kind="stable")]
        if len(rows) < 2:
            continue
        place = np.arange(len(rows))
        low, high = rows[np.maximum(place - _REACH, 0)], rows[np.minimum(place + _REACH, len(rows) - 1)]
        span = np.maximum(time[high] - time[low], 1e-6)
        found[rows] = (shot.observed[high] - shot.observed[low]) / span[:, None]
    return found


def _history(balls: np.ndarray, time: np.ndarray, events: Sequence[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each sample, the contacts behind its ball's motion, the last one's kind, and the time since it."""
    depth: dict[int, int] = {}
    story: dict[int, list[tuple[float, int, int]]] = {int(ball): [(0.0, 0, STRIKE)] for ball in np.unique(balls)}
    for event in events:
        if event.kind not in (EventKind.CUSHION, EventKind.BALL_BALL):
            continue
        kind = CUSHION if event.kind == EventKind.CUSHION else BALL
        involved = (event.ball,) if kind == CUSHION else (event.ball, event.other)
        now = 1 + max(depth.get(ball, 0) for ball in involved)
        for ball in involved:
            depth[ball] = now
            story.setdefault(ball, [(0.0, 0, STRIKE)]).append((event.time, now, kind))
    contacts, kinds, since = np.zeros(len(time), int), np.zeros(len(time), int), np.zeros(len(time))
    for row, (ball, t) in enumerate(zip(balls, time, strict=True)):
        chapters = story[int(ball)]
        begun = max((k for k, chapter in enumerate(chapters) if chapter[0] <= t), default=0)
        since[row], contacts[row], kinds[row] = t - chapters[begun][0], chapters[begun][1], chapters[begun][2]
    return contacts, kinds, since


def _joined(parts: Sequence[Samples]) -> Samples:
    if not parts:
        none = np.zeros(0)
        pairs = np.zeros((0, 2))
        return Samples(none, none, none, pairs, pairs, none, none, none, none, none, none)
    return Samples(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in dataclasses.fields(Samples)))


@dataclass(frozen=True)
class Group:
    """Samples of one circumstance.

    Attributes:
        by: what they were sorted by: "contact", "kind", "speed", "place" or "time".
        name: for people.
        samples: count.
        tracks: count of balls in shots.
        median: size of the error [m].
        mean: [m].
        p90: 90 % are below [m].
        along: median along the direction of travel, + = predicted too far [m]; NaN = not known.
        across: median to its left [m]; NaN = not known.
    """

    by: str
    name: str
    samples: int
    tracks: int
    median: float
    mean: float
    p90: float
    along: float
    across: float


SPEEDS = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, math.inf)
TIMES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, math.inf)
MOST_CONTACTS = 5
"""More contacts than this are counted together."""


def groups(samples: Samples, size: tuple[float, float]) -> list[Group]:
    """Return the table of numbers.

    Args:
        samples: of all shots.
        size: length and width of the table [m].
    """
    found = []

    def add(by: str, name: str, kept: np.ndarray) -> None:
        if kept.any():
            found.append(_group(by, name, samples.only(kept)))

    add("all", "all samples", np.ones(len(samples.time), bool))
    for count in range(MOST_CONTACTS + 1):
        last = count == MOST_CONTACTS
        mask = samples.contacts >= count if last else samples.contacts == count
        add("contact", f"{count} or more contacts" if last else f"{count} contact{'' if count == 1 else 's'}", mask)
    for kind, name in enumerate(KINDS):
        add("kind", name, samples.kind == kind)
    for low, high in itertools.pairwise(SPEEDS):
        add("speed", _between(low, high, "m/s"), (samples.speed >= low) & (samples.speed < high))
    x, y = samples.place.T if len(samples.time) else np.zeros((2, 0))
    for column, side in enumerate(("left", "middle", "right")):
        for row, end in enumerate(("lower", "upper")):
            low = -size[0] / 2 + column * size[0] / 3
            inside = (x >= low if column else x < low + size[0] / 3) & (
                x < low + size[0] / 3 if column < 2 else x >= low
            )
            add("place", f"{end} {side} of the table", inside & ((y >= 0) == bool(row)))
    for low, high in itertools.pairwise(TIMES):
        add("time", _between(low, high, "s") + " after the strike", (samples.time >= low) & (samples.time < high))
    return found


def _between(low: float, high: float, unit: str) -> str:
    return f"above {low:g} {unit}" if math.isinf(high) else f"{low:g} to {high:g} {unit}"


def _group(by: str, name: str, samples: Samples) -> Group:
    size = samples.size
    along, across = samples.along, samples.across
    known = np.isfinite(along)
    return Group(
        by=by,
        name=name,
        samples=len(size),
        tracks=len(np.unique(samples.shot * 100 + samples.ball)),
        median=float(np.median(size)),
        mean=float(np.mean(size)),
        p90=float(np.quantile(size, 0.9)),
        along=float(np.median(along[known])) if known.any() else math.nan,
        across=float(np.median(across[known])) if known.any() else math.nan,
    )


def as_rows(found: Sequence[Group]) -> list[Mapping[str, object]]:
    """Return the groups as plain data in mm, for CSV and JSON."""

    def millimetres(value: float) -> float | None:
        return round(1000 * value, 3) if math.isfinite(value) else None

    return [
        {
            "by": g.by,
            "group": g.name,
            "samples": g.samples,
            "tracks": g.tracks,
            "median_mm": millimetres(g.median),
            "mean_mm": millimetres(g.mean),
            "p90_mm": millimetres(g.p90),
            "along_mm": millimetres(g.along),
            "across_mm": millimetres(g.across),
        }
        for g in found
    ]
