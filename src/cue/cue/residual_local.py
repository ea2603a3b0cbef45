"""Where errors arise, rather than where they have got to: between contacts, and at each contact.

An error of position tells little once it is there: it grows by itself, and the next contact multiplies it. So a ball's
error over time, observed minus replayed, is looked at in pieces. Its bend between two contacts is an acceleration that
the table has and the twin lacks: cloth, tilt, nap. Its kink at a contact is a velocity that the contact gave and the
twin's did not. Pieces are used only while replay and observation are so close that both balls do the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cue_core.table import TableModel
from cue_sim.kernel import Event, EventKind

_CLOSE = 0.012  # [m] between replay and observation, for them to do the same
_LONGEST = 0.8  # [s] of a bend: a ball should stay in one part of the table
_SHORTEST = 0.3  # [s] less of it and noise decides
_SIDE = 0.25  # [s] on either side of a kink
_GUARD = 0.02  # [s] around a contact: the observed one is not at the same instant
_FEWEST = 6  # samples
_MOVING = 0.05  # [m/s]
_DRIFT = 0.05  # [m/s] between replay and observation before a contact; more is another contact
_NOISY = 0.01  # [m] rms of what a bend leaves: a contact that the replay did not have


@dataclass(frozen=True)
class Bend:
    """A ball between two contacts.

    Attributes:
        shot: number.
        place: (2,) in its middle [m].
        speed: observed there [m/s].
        missing: (2,) acceleration of the table beyond the twin's [m/s^2].
        along: its part along the way [m/s^2].
        stddev: of one component, from what the fit leaves [m/s^2].
    """

    shot: int
    place: np.ndarray
    speed: float
    missing: np.ndarray
    along: float
    stddev: float


@dataclass(frozen=True)
class Kink:
    """A ball at a cushion, or set off by another ball.

    Attributes:
        shot: number.
        name: of the cushion, or "ball".
        place: (2,) of the ball [m].
        speed: observed: towards the cushion, or with which the ball set off [m/s].
        outward: outgoing speed beyond the twin's, off the cushion, or along the way of the ball set off [m/s].
        sideways: the same along the cushion, or to the left of the way [m/s].
    """

    shot: int
    name: str
    place: np.ndarray
    speed: float
    outward: float
    sideways: float


def bends(shot: int, time: np.ndarray, place: np.ndarray, error: np.ndarray, contacts: Iterable[float]) -> list[Bend]:
    """Return the bends of one ball.

    Args:
        shot: number.
        time: (n,) increasing [s].
        place: (n, 2) observed [m].
        error: (n, 2) predicted minus observed [m].
        contacts: times of the ball's contacts in the replay [s].
    """
    found = []
    edges = sorted({float(time[0]), *contacts, float(time[-1])}) if len(time) else []
    for begin, end in itertools.pairwise(edges):
        count = max(1, math.ceil((end - begin) / _LONGEST))
        for part in range(count):
            low, high = (begin + (end - begin) * k / count for k in (part, part + 1))
            rows = np.flatnonzero((time > low + _GUARD) & (time < high - _GUARD))
            if len(rows) >= 2 * _FEWEST and np.ptp(time[rows]) >= _SHORTEST:
                bend = _bend(shot, time[rows], place[rows], error[rows])
                if bend is not None:
                    found.append(bend)
    return found


def _bend(shot: int, time: np.ndarray, place: np.ndarray, error: np.ndarray) -> Bend | None:
    if np.linalg.norm(error, axis=1).max() > _CLOSE:
        return None
    middle = 0.5 * (time[0] + time[-1])
    t = time - middle
    design = np.stack([np.ones_like(t), t, 0.5 * t**2], -1)
    way = np.linalg.lstsq(design, place, rcond=None)[0]
    speed = float(np.linalg.norm(way[1]))
    # slow at an end: it may have come to rest there
    ends = [float(np.linalg.norm(way[1] + way[2] * at)) for at in (t[0], t[-1])]
    stopping = any(float((way[1] + way[2] * at) @ way[1]) <= 0 for at in (t[0], t[-1]))
    if min(speed, *ends) < _MOVING or stopping:
        return None
    inverse = np.linalg.inv(design.T @ design)
    bent = inverse @ design.T @ error
    rms = math.sqrt(float(np.sum((error - design @ bent) ** 2)) / max(2 * len(t) - 6, 1))
    if rms > _NOISY:
        return None
    missing = -bent[2]
    along = float(missing @ way[1]) / speed
    return Bend(shot, way[0], speed, missing, along, rms * math.sqrt(float(inverse[2, 2])))


def kinks(
    shot: int,
    ball: int,
    time: np.ndarray,
    place: np.ndarray,
    error: np.ndarray,
    events: Sequence[Event],
    table: TableModel,
) -> list[Kink]:
    """Return the kinks of one ball; see :func:`bends` for the arguments.

    A ball that another one sets off is told only at its first contact: of two balls in motion, what one got depends on
    the other's errors.
    """
    own = [e for e in events if ball in _involved(e)]
    found = []
    for place_in_story, event in enumerate(own):
        before = own[place_in_story - 1].time if place_in_story else 0.0
        after = own[place_in_story + 1].time if place_in_story + 1 < len(own) else math.inf
        out = (time > event.time + _GUARD) & (time < min(event.time + _SIDE, after - _GUARD))
        into = (time < event.time - _GUARD) & (time > max(event.time - _SIDE, before + _GUARD))
        if event.kind == EventKind.CUSHION:
            kink = _rebound(shot, event, into, out, time, place, error, table)
        elif place_in_story == 0 and ball != 0:
            kink = _set_off(shot, event, out, time, place, error)
        else:
            continue
        if kink is not None:
            found.append(kink)
    return found


def _involved(event: Event) -> tuple[int, ...]:
    if event.kind == EventKind.BALL_BALL:
        return event.ball, event.other
    return (event.ball,) if event.kind == EventKind.CUSHION else ()


def _rebound(
    shot: int,
    event: Event,
    into: np.ndarray,
    out: np.ndarray,
    time: np.ndarray,
    place: np.ndarray,
    error: np.ndarray,
    table: TableModel,
) -> Kink | None:
    if min(into.sum(), out.sum()) < _FEWEST or np.linalg.norm(error[into], axis=1).max() > _CLOSE:
        return None
    cushion = table.cushions[event.other]
    normal = cushion.normal
    tangent = np.array([-normal[1], normal[0]])
    arriving = _slope(time[into], place[into])
    drift = _slope(time[into], error[into])
    speed = -float(arriving @ normal)
    if speed < _MOVING or np.linalg.norm(drift) > _DRIFT:
        return None
    kick = drift - _slope(time[out], error[out])
    where = place[into][-1]
    return Kink(shot, cushion.name, where, speed, float(kick @ normal), float(kick @ tangent))


def _set_off(
    shot: int, event: Event, out: np.ndarray, time: np.ndarray, place: np.ndarray, error: np.ndarray
) -> Kink | None:
    if out.sum() < _FEWEST or np.linalg.norm(error[out][0]) > _CLOSE:
        return None
    leaving = _slope(time[out], place[out])
    speed = float(np.linalg.norm(leaving))
    if speed < _MOVING:
        return None
    kick = -_slope(time[out], error[out])
    way = leaving / speed
    return Kink(shot, "ball", place[out][0], speed, float(kick @ way), float(kick[1] * way[0] - kick[0] * way[1]))


def _slope(time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the (2,) velocity of values (n, 2) over times (n,)."""
    t = time - time.mean()
    return np.asarray(t @ (values - values.mean(axis=0)) / float(t @ t))


@dataclass(frozen=True)
class ContactRow:
    """Kinks of one kind.

    Attributes:
        name: of the cushion; "all cushions"; or "balls set off".
        count: of them.
        outward: median of outgoing speed beyond the twin's, as a share of the speed [-].
        outward_stddev: of this median [-].
        sideways: likewise [-].
        sideways_stddev: [-].
    """

    name: str
    count: int
    outward: float
    outward_stddev: float
    sideways: float
    sideways_stddev: float


def contact_rows(found: Sequence[Kink]) -> list[ContactRow]:
    """Return the kinks by cushion, and of balls set off."""
    cushions = [kink for kink in found if kink.name != "ball"]
    parts = [("balls set off", [kink for kink in found if kink.name == "ball"]), ("all cushions", cushions)]
    parts += [(name, [k for k in cushions if k.name == name]) for name in sorted({k.name for k in cushions})]
    return [_contact_row(name, part) for name, part in parts if part]


def _contact_row(name: str, part: Sequence[Kink]) -> ContactRow:
    outward = np.array([kink.outward / kink.speed for kink in part])
    sideways = np.array([kink.sideways / kink.speed for kink in part])
    return ContactRow(
        name, len(part), float(np.median(outward)), _spread(outward), float(np.median(sideways)), _spread(sideways)
    )


def _spread(values: np.ndarray) -> float:
    """Return the standard deviation of the median of values (n,), from their middle half; NaN for less than three."""
    if len(values) < 3:
        return math.nan
    first, third = np.quantile(values, [0.25, 0.75])
    return float(1.2533 * (third - first) / 1.349 / math.sqrt(len(values)))
