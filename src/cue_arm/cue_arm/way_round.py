"""A way round what is in the way: joint space searched from both ends (OMPL's RRT-Connect), then drawn tight."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from ompl import base, geometric, util

_STEP = 0.03  # rad between configurations that are looked at
_RANGE = 0.7  # rad: longest branch of the tree
_ROOM = 2.2  # rad: no joint goes farther than this beyond both ends; a way round a table needs no more
_SEED = 1
_turn = threading.Lock()  # OMPL's seed is the process's

util.setLogLevel(util.LOG_NONE)


def way_round(
    start: np.ndarray,
    goal: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    free: Callable[[np.ndarray], bool],
    checks: int,
) -> list[np.ndarray] | None:
    """Return configurations (n,) [rad] from start to goal, joined by straight free lines, or None.

    The same question gets the same answer: the search is seeded anew each time, and ends by counting.

    Args:
        start: (n,) [rad], free.
        goal: (n,) [rad], free.
        lower: (n,) joint limits [rad].
        upper: likewise.
        free: tells whether a configuration touches nothing.
        checks: how many configurations may be looked at; twice as many with the tightening.
    """
    low = np.maximum(lower, np.minimum(start, goal) - _ROOM)
    high = np.minimum(upper, np.maximum(start, goal) + _ROOM)
    if np.any(start < low) or np.any(start > high) or np.any(goal < low) or np.any(goal > high):
        return None
    with _turn:
        rows = _search(start, goal, low, high, free, checks)
    return None if rows is None else _tighten(rows, free, checks)


def _search(
    start: np.ndarray,
    goal: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    free: Callable[[np.ndarray], bool],
    checks: int,
) -> list[np.ndarray] | None:
    util.RNG.setSeed(_SEED)
    joints, looked = len(start), 0
    bounds = base.RealVectorBounds(joints)
    for i in range(joints):
        bounds.setLow(i, float(low[i]))
        bounds.setHigh(i, float(high[i]))
    space = base.RealVectorStateSpace(joints)
    space.setBounds(bounds)
    information = base.SpaceInformation(space)

    def valid(state: base.State) -> bool:
        nonlocal looked
        looked += 1
        return looked <= checks and bool(free(np.array([state[i] for i in range(joints)])))

    information.setStateValidityChecker(valid)
    information.setStateValidityCheckingResolution(_STEP / space.getMaximumExtent())
    information.setup()
    first, last = space.allocState(), space.allocState()
    for i in range(joints):
        first[i], last[i] = float(start[i]), float(goal[i])
    problem = base.ProblemDefinition(information)
    problem.setStartAndGoalStates(first, last, 1e-9)
    planner = geometric.RRTConnect(information)
    planner.setRange(_RANGE)
    planner.setProblemDefinition(problem)
    planner.setup()
    planner.solve(base.PlannerTerminationCondition(lambda: looked >= checks))
    if not problem.hasExactSolution():
        return None
    path = problem.getSolutionPath()
    rows = [np.array([path.getState(k)[i] for i in range(joints)]) for k in range(path.getStateCount())]
    return [start, *rows[1:-1], goal]


def _tighten(rows: list[np.ndarray], free: Callable[[np.ndarray], bool], checks: int) -> list[np.ndarray]:
    """Return the way without needless corners: from each, straight to the farthest that can be seen."""
    looked = 0
    kept, at = [rows[0]], 0
    while at < len(rows) - 1:
        ahead = len(rows) - 1
        while ahead > at + 1 and looked < checks:
            line = _between(rows[at], rows[ahead])
            looked += len(line)
            if all(free(q) for q in line):
                break
            ahead -= 1
        else:
            ahead = at + 1
        kept.append(rows[ahead])
        at = ahead
    return kept


def _between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return configurations (m, n) [rad] inside the line from a to b, the middle first: that is where things are."""
    count = max(int(np.ceil(np.abs(b - a).max() / _STEP)), 2)
    shares = np.arange(1, count) / count
    order = np.argsort(np.abs(shares - 0.5), kind="stable")
    return a + shares[order, None] * (b - a)
