"""Contacts in a shot, from the balls' paths: where one breaks, two smooth stretches meet, and something was there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cue_core.shots import Contact, ContactKind
from cue_core.table import TableModel
from cue_perception.smooth import Stretch, fit_stretch
from cue_perception.track import FULL, Sample

_NEWEST = 9  # measurements on either side of a break that tell of it
_FEWEST = 3
_GATE = 22.0  # squared sigmas: the path is broken where two measurements in a row are that far off
_LEAST_TURN = 0.03  # m/s: less is no contact
_TOUCH = 0.012  # m: two balls, or ball and nose, are that near when they touch, but for error
_APART = 0.25  # of the ball's way in an image: the same
_VAGUE = 0.02  # s: a break less certain than that is left out
_SAME = 0.030  # s: two balls' breaks so near to each other are one contact


class Break(NamedTuple):
    """Where a ball's path breaks.

    Attributes:
        ball_id: of the ball.
        time: [s].
        variance: of the time [s^2].
        position: (2,) [m].
        before: (2,) velocity [m/s].
        after: (2,) [m/s].
    """

    ball_id: int
    time: float
    variance: float
    position: np.ndarray
    before: np.ndarray
    after: np.ndarray


def find_contacts(
    samples: Mapping[int, Sequence[Sample]],
    rest: Mapping[int, tuple[np.ndarray, np.ndarray]],
    strike: float,
    striker: int | None,
    table: TableModel,
) -> tuple[Contact, ...]:
    """Return the contacts of one shot.

    Args:
        samples: of the balls that moved, each oldest first, from before the strike on.
        rest: position (2,) [m] and covariance (2, 2) [m^2] of every ball before the shot.
        strike: time of the strike [s].
        striker: ball that was struck.
        table: geometry.
    """
    breaks: list[Break] = []
    paths: dict[int, list[Stretch]] = {}
    for ball_id, measured in samples.items():
        found, stretches = path_breaks(ball_id, list(measured), rest.get(ball_id), strike)
        paths[ball_id] = stretches
        breaks += [b for b in found if ball_id != striker or b.time > strike + 0.004 or np.any(b.before)]
    breaks.sort(key=lambda b: b.time)
    used: set[int] = set()
    contacts = []
    for k, one in enumerate(breaks):
        if k in used:
            continue
        contact = _at_cushion(one, table, strike)
        if contact is None or not np.any(one.before):
            partner = _partner(k, breaks, used, table)
            if partner is not None:
                used.add(partner)
                contact = _of_two(one, breaks[partner], strike)
            elif contact is None:
                contact = _with_calm(one, rest, paths, table, strike)
        if contact is not None:
            contacts.append(contact)
    return tuple(sorted(contacts, key=lambda c: c.time))


def path_breaks(
    ball_id: int, measured: list[Sample], rest: tuple[np.ndarray, np.ndarray] | None, strike: float
) -> tuple[list[Break], list[Stretch]]:
    """Return where a ball's path breaks, and its smooth stretches in between."""
    clear = [s for s in measured if s.support > FULL]
    time = np.array([s.time for s in clear])
    position = np.array([s.position for s in clear]).reshape(-1, 2)
    covariance = np.array([s.covariance for s in clear]).reshape(-1, 2, 2)
    ends = _segments(time, position, covariance)
    breaks: list[Break] = []
    stretches: list[Stretch] = []
    for k, (begin, end) in enumerate(ends):
        head = slice(begin, min(end, begin + _NEWEST))
        after = fit_stretch(time[head], position[head], covariance[head], float(time[begin]))
        stretches.append(after)
        if k == 0:
            if rest is None or time[begin] < strike - 0.02:
                continue
            still = np.zeros((6, 6))
            still[:2, :2] = rest[1]
            before = Stretch(float(time[begin]), np.stack([rest[0], np.zeros(2), np.zeros(2)]), still, 0.0, 1.0)
            last = float(time[begin]) - 0.1
        else:
            previous, stop = ends[k - 1]
            tail = slice(max(previous, stop - _NEWEST), stop)
            before = fit_stretch(time[tail], position[tail], covariance[tail], float(time[stop - 1]))
            last = float(time[stop - 1])
        broken = _meet(ball_id, before, after, last, float(time[begin]))
        if broken is not None:
            breaks.append(broken)
    return breaks, stretches


def _segments(time: np.ndarray, position: np.ndarray, covariance: np.ndarray) -> list[tuple[int, int]]:
    """Return (begin, end) of the runs of measurements that one acceleration explains."""
    found: list[tuple[int, int]] = []
    begin, count = 0, len(time)
    while begin + _FEWEST <= count:
        end = begin + _FEWEST
        if (
            not fit_stretch(time[begin:end], position[begin:end], covariance[begin:end], float(time[end - 1])).likely
            and begin + _FEWEST < count
        ):
            begin += 1  # a contact lies within, or the blur of one
            continue
        while end < count:
            part = slice(max(begin, end - 12), end)
            stretch = fit_stretch(time[part], position[part], covariance[part], float(time[end - 1]))
            if _far(stretch, end, time, position, covariance) and (
                end + 1 >= count or _far(stretch, end + 1, time, position, covariance)
            ):
                break
            end += 1
        found.append((begin, end))
        begin = end
    return found


def _far(stretch: Stretch, k: int, time: np.ndarray, position: np.ndarray, covariance: np.ndarray) -> bool:
    expected, _, spread = stretch.at(float(time[k]))
    offset = position[k] - expected
    return bool(offset @ np.linalg.solve(spread + covariance[k], offset) > _GATE)


def _meet(ball_id: int, before: Stretch, after: Stretch, last: float, first: float) -> Break | None:
    """Return where two stretches come nearest between the last measurement of one and the first of the other."""
    moment = 0.5 * (last + first)
    for _ in range(6):
        (a, va, sa), (b, vb, sb) = before.at(moment), after.at(moment)
        turn = vb - va
        weight = np.linalg.inv(sa + sb + 1e-10 * np.eye(2))
        stiffness = float(turn @ weight @ turn)
        if stiffness <= 0:
            return None
        moment += float(np.clip(-(turn @ weight @ (b - a)) / stiffness, -0.05, 0.05))
        moment = float(np.clip(moment, last - 0.01, first + 0.01))
    if 1 / stiffness > _VAGUE**2:
        return None
    if np.linalg.norm(turn) < max(_LEAST_TURN, 4.0 * math.sqrt(max(float(np.trace(sa + sb)), 0.0))):
        return None
    return Break(ball_id, moment, 1 / stiffness + 1e-7, 0.5 * (a + b), va, vb)


def _reach(*velocities: np.ndarray) -> float:
    """Return how far off a contact may seem to be [m], given the velocities [m/s] around it."""
    return _TOUCH + _APART / 60 * max(float(np.linalg.norm(v)) for v in velocities)


def _at_cushion(broken: Break, table: TableModel, strike: float) -> Contact | None:
    half = np.array([table.length, table.width]) / 2 - table.ball_stop
    for axis in (0, 1):
        side = math.copysign(1.0, broken.position[axis])
        near = abs(side * broken.position[axis] - half[axis]) < _reach(broken.before, broken.after)
        if near and side * broken.before[axis] > 0 and side * broken.after[axis] < 0.5 * side * broken.before[axis]:
            return Contact(
                broken.time - strike,
                math.sqrt(broken.variance),
                ContactKind.CUSHION,
                broken.ball_id,
                -1,
                broken.position,
            )
    return None


def _partner(k: int, breaks: Sequence[Break], used: set[int], table: TableModel) -> int | None:
    """Return the break of another ball that is the other half of this one."""
    one, best, least = breaks[k], None, math.inf
    for j, other in enumerate(breaks):
        if j <= k or j in used or other.ball_id == one.ball_id:
            continue
        late = abs(other.time - one.time)
        gap = abs(float(np.linalg.norm(other.position - one.position)) - 2 * table.ball_radius)
        allowed = _SAME + 3 * math.sqrt(one.variance + other.variance)
        if late < min(allowed, 0.08) and gap < _reach(one.before, one.after, other.before, other.after):
            cost = late / allowed + gap / _TOUCH
            if cost < least:
                best, least = j, cost
    return best


def _of_two(one: Break, other: Break, strike: float) -> Contact:
    weights = np.array([1 / one.variance, 1 / other.variance])
    moment = float(weights @ [one.time, other.time] / weights.sum())
    fast, slow = (one, other) if np.linalg.norm(one.before) >= np.linalg.norm(other.before) else (other, one)
    spread = math.sqrt(1 / weights.sum())
    return Contact(moment - strike, spread, ContactKind.BALL, fast.ball_id, slow.ball_id, fast.position)


def _with_calm(
    one: Break,
    rest: Mapping[int, tuple[np.ndarray, np.ndarray]],
    paths: Mapping[int, Sequence[Stretch]],
    table: TableModel,
    strike: float,
) -> Contact | None:
    """Return a contact with a ball whose own path shows no break: it lay still, or was hardly touched."""
    nearest, least = -1, math.inf
    for ball_id in rest:
        if ball_id == one.ball_id:
            continue
        earlier = [s for s in paths.get(ball_id, ()) if s.time <= one.time + 0.02]
        place = earlier[-1].at(one.time)[0] if earlier else rest[ball_id][0]
        gap = abs(float(np.linalg.norm(place - one.position)) - 2 * table.ball_radius)
        if gap < least:
            nearest, least = ball_id, gap
    if nearest < 0 or least > _reach(one.before, one.after):
        return None
    return Contact(one.time - strike, math.sqrt(one.variance), ContactKind.BALL, one.ball_id, nearest, one.position)
