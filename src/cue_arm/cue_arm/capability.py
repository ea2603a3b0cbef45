"""How fast the arm can strike at one place in every direction, for many directions and speeds at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cue_arm.reach import LARGEST_STEP, SOLVED, Reach, distinct, turns_towards
from cue_arm.search import LEAST_SHARE
from cue_arm.settings import StrokeSettings
from cue_arm.stroke import PEAK, ramp, ramp_area, ramp_slope, tip_rotation

_BEHIND, _AHEAD = (0.08, 0.16, 0.26), (0.05, 0.15)  # m of travel at which joint solutions are looked for
_CRITICAL = np.array([0.2, 0.5, 0.8])  # shares of a ramp at which joints may be loaded most


@dataclass(frozen=True)
class Capability:
    """What the arm can do at one place of the cue ball.

    Attributes:
        fastest: (azimuths, rolls) of the tip at contact [m/s]; 0 = not at all.
        shares: (azimuths, rolls, speeds) of the usual tip acceleration that such a stroke takes.
    """

    fastest: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True)
class _Rows:
    """Joint solutions in all directions and rolls, a row each: the stroke that it belongs to, and where it ends.

    Attributes:
        stroke: (m,) index of azimuth and roll.
        rates: (m, k, n) coefficients of the joints' travel per tip travel, a polynomial of the tip's travel [rad/m].
        behind: (m,) how far behind the contact the row has solutions [m]; ``ahead`` likewise.
    """

    stroke: np.ndarray
    rates: np.ndarray
    behind: np.ndarray
    ahead: np.ndarray


def capability(reach: Reach, ball: np.ndarray, azimuths: np.ndarray, speeds: np.ndarray) -> Capability:
    """Return what the arm can do at a cue ball (2,) [m]; the cue's own contacts with rails and balls do not count.

    Args:
        reach: of the arm.
        ball: (2,) [m].
        azimuths: (a,) [rad].
        speeds: (s,) of the tip, increasing [m/s].
    """
    rolls = reach.search.rolls
    rotations = np.stack([tip_rotation(a, 0.0, r) for a in azimuths for r in rolls])
    radius = reach.table.ball_radius
    contacts = np.array([*ball, radius]) - radius * rotations[:, :, 0]
    rows = _solve(reach, contacts, rotations)
    fastest = np.zeros(len(rotations))
    shares = np.ones((len(rotations), len(speeds)))
    if len(rows.stroke):
        _judge(reach, rows, speeds, fastest, shares)
    shape = len(azimuths), len(rolls)
    return Capability(fastest.reshape(shape), shares.reshape(*shape, len(speeds)))


def _solve(reach: Reach, contacts: np.ndarray, rotations: np.ndarray) -> _Rows:
    chain, clearance, home = reach.chain, reach.clearance, reach.robot.home
    seeds = [reach.seeds(c, r) for c, r in zip(contacts, rotations, strict=True)]
    stroke = np.repeat(np.arange(len(seeds)), [len(s) for s in seeds])
    q, error = chain.solve(contacts[stroke], rotations[stroke], np.concatenate(seeds), iterations=9)
    kept = []
    for i in range(len(seeds)):
        mine = np.flatnonzero((stroke == i) & (error < SOLVED))
        if len(mine):
            kept.append(mine[distinct(q[mine], error[mine])])
    if not kept:
        return _no_rows(len(home))
    rows = np.concatenate(kept)
    stroke, q = stroke[rows], q[rows]
    q = q + turns_towards(q, home, chain.lower, chain.upper)
    clearance.place_balls({})
    good = np.flatnonzero(np.all((q >= chain.lower) & (q <= chain.upper), axis=1))
    good = good[[not clearance.arm_touches(row) for row in q[good]]]
    if not len(good):
        return _no_rows(len(home))
    return _extend(reach, stroke[good], q[good], contacts, rotations)


def _no_rows(joints: int) -> _Rows:
    return _Rows(np.zeros(0, int), np.zeros((0, 1, joints)), np.zeros(0), np.zeros(0))


def _extend(
    reach: Reach, stroke: np.ndarray, contact: np.ndarray, contacts: np.ndarray, rotations: np.ndarray
) -> _Rows:
    """Follow each solution along the stroke and above its ends, as far as it goes."""
    chain, hover = reach.chain, np.array([0.0, 0.0, reach.settings.hover])
    goal, turn = contacts[stroke], rotations[stroke]
    forward = turn[:, :, 0]

    def at(travel: float, start: np.ndarray, up: bool = False) -> tuple[np.ndarray, np.ndarray]:
        q, error = chain.solve(goal + travel * forward + (hover if up else 0.0), turn, start, iterations=7)
        near = np.abs(q - start).max(axis=1) < LARGEST_STEP
        inside = np.all((q >= chain.lower) & (q <= chain.upper), axis=1)
        return q, (error < SOLVED) & near & inside

    twist = np.concatenate([forward, np.zeros_like(forward)], axis=1)[:, :, None]

    def per_travel(q: np.ndarray) -> np.ndarray:
        jacobian = chain.jacobian(q)
        across = jacobian.transpose(0, 2, 1)
        return (across @ np.linalg.solve(jacobian @ across + 1e-9 * np.eye(6), twist))[..., 0]

    free = np.ones(len(stroke), bool)
    knots, slopes, ends = [0.0], [per_travel(contact)], []
    for sign, travels in ((-1.0, _BEHIND), (1.0, _AHEAD)):
        q, good, end = contact, free.copy(), np.zeros(len(stroke))
        for k, travel in enumerate(travels):
            ahead, solved = at(sign * travel, q)
            good &= solved
            q = np.where(good[:, None], ahead, q)
            end = np.where(good, travel, end)
            # Where there is no solution the former one stays: nothing asks for the polynomial there.
            knots.append(sign * travel)
            slopes.append(per_travel(q))
            if k == 0:
                free &= good & at(sign * travel, q, up=True)[1]
                for i in np.flatnonzero(free):
                    free[i] = not reach.clearance.arm_touches(q[i])
        ends.append(end)
    rates = np.linalg.inv(np.vander(knots, increasing=True)) @ np.stack(slopes, axis=1)
    return _Rows(stroke[free], rates[free], ends[0][free], ends[1][free])


def _judge(reach: Reach, rows: _Rows, speeds: np.ndarray, fastest: np.ndarray, shares: np.ndarray) -> None:
    """Fill in the fastest stroke and the share of acceleration of each stroke, over all its joint solutions."""
    excess = np.empty((len(rows.stroke), len(speeds)))
    taken = np.empty_like(excess)
    for k, speed in enumerate(speeds):
        taken[:, k], excess[:, k] = _load(reach, rows, float(speed))
    # Where the last possible speed lies between two of the grid, the excess tells.
    ok = np.cumprod(excess <= 0.0, axis=1).astype(bool)
    last = ok.sum(axis=1) - 1
    i = np.arange(len(last))
    following = np.minimum(last + 1, len(speeds) - 1)
    low, high = excess[i, np.maximum(last, 0)], excess[i, following]
    way = np.where(following > last, np.clip(-low / np.maximum(high - low, 1e-9), 0.0, 1.0), 0.0)
    most = speeds[np.maximum(last, 0)] + way * (speeds[following] - speeds[np.maximum(last, 0)])
    np.maximum.at(fastest, rows.stroke, np.where(last < 0, 0.0, most))
    best = np.zeros_like(shares)
    np.maximum.at(best, rows.stroke, np.where(ok, taken, 0.0))
    for k in range(1, len(speeds)):  # on the way to the fastest stroke, between two speeds of the grid
        best[:, k] = np.where(best[:, k] > 0.0, best[:, k], best[:, k - 1])
    shares[:] = np.where(best > 0.0, best, shares)


def _load(reach: Reach, rows: _Rows, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of acceleration (m,) that each row takes at a speed, and by how much it is too much (m,)."""
    share = np.ones(len(rows.stroke))
    for _ in range(3):
        rate, change, run_up, run_out = _peaks(rows, speed, share, reach.settings)
        load = (change / reach.acceleration).max(axis=1)
        share = np.where(load > 1.0, np.maximum(share * 0.95 / load, 0.5 * LEAST_SHARE), share)
    excess = np.maximum((rate / reach.velocity).max(axis=1) - 1.0, LEAST_SHARE / share - 1.0)
    return share, np.maximum.reduce([excess, (run_up - rows.behind) / 0.1, (run_out - rows.ahead) / 0.1])


def _peaks(
    rows: _Rows, speed: float, share: np.ndarray, settings: StrokeSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return largest joint speeds and accelerations (m, n) of strokes, and their ways before and past the contact (m,).

    The same critical times as in :meth:`cue_arm.reach.Reach.ways`, for a share (m,) of its own in each row.
    """
    steepest = PEAK * speed / share
    up = np.maximum(steepest / settings.tip_acceleration, settings.shortest_ramp)
    down = np.maximum(steepest / settings.tip_braking, settings.shortest_brake / share)
    run_up, run_out = 0.5 * speed * up + settings.lead, settings.through + 0.5 * speed * down
    x = _CRITICAL
    still = np.zeros((len(share), 1))
    travel = np.concatenate(
        [
            speed * up[:, None] * ramp_area(x) - run_up[:, None],
            still,
            settings.through + speed * down[:, None] * (x - ramp_area(x)),
        ],
        axis=1,
    )
    pace = speed * np.concatenate([ramp(x), [1.0], 1.0 - ramp(x)])
    push = speed * np.concatenate([ramp_slope(x) / up[:, None], still, -ramp_slope(x) / down[:, None]], axis=1)
    travel = np.clip(travel, -_BEHIND[-1], _AHEAD[-1])  # beyond its ends the row is refused anyway
    rate, slope = np.zeros((2, *travel.shape, rows.rates.shape[2]))
    for coefficient in rows.rates.transpose(1, 0, 2)[::-1, :, None]:  # Horner, with the derivative beside it
        slope = slope * travel[:, :, None] + rate
        rate = rate * travel[:, :, None] + coefficient
    change = rate * push[:, :, None] + slope * (pace**2)[None, :, None]
    return np.abs(rate * pace[:, None]).max(axis=1), np.abs(change).max(axis=1), run_up, run_out
