"""Stamps that repeat, go back or jump (FAULTS V14)."""

from __future__ import annotations

import numpy as np

from cue_perception.stamps import StampGuard, Verdict

FRAME = 33_333_333


def _accepted(stamps: list[int]) -> tuple[list[int], StampGuard]:
    guard = StampGuard()
    return [s for s in stamps if guard.judge(s) in (Verdict.NEW, Verdict.RESET)], guard


def test_swapped_neighbours_are_dropped_and_counted():
    rng = np.random.default_rng(1)
    stamps = [k * FRAME for k in range(400)]
    for k in rng.choice(np.arange(1, 199), 10, replace=False) * 2:
        stamps[k], stamps[k + 1] = stamps[k + 1], stamps[k]
    accepted, guard = _accepted(stamps)
    assert np.all(np.diff(accepted) > 0)
    assert guard.counts[Verdict.OUT_OF_ORDER] == 10
    assert len(accepted) == 390


def test_block_that_jumps_four_seconds_and_returns_is_dropped():
    stamps = [k * FRAME for k in range(100)]
    for k in range(50, 54):
        stamps[k] += 4_000_000_000
    accepted, guard = _accepted(stamps)
    assert np.all(np.diff(accepted) > 0)
    assert guard.counts[Verdict.JUMP] == 4
    assert len(accepted) == 96


def test_lasting_jumps_are_believed():
    there = [k * FRAME for k in range(30)] + [4_000_000_000 + k * FRAME for k in range(30)]
    accepted, _ = _accepted(there)
    assert accepted[-1] == there[-1]
    back = [5_000_000_000 + k * FRAME for k in range(30)] + [k * FRAME for k in range(30)]
    accepted, guard = _accepted(back)
    assert guard.counts[Verdict.RESET] == 1
    assert accepted[-1] == back[-1]


def test_repeats_are_recognised():
    guard = StampGuard()
    assert [guard.judge(s) for s in (0, FRAME, FRAME, 0)] == [
        Verdict.NEW,
        Verdict.NEW,
        Verdict.DUPLICATE,
        Verdict.DUPLICATE,
    ]


def test_clock_that_waits_may_step():
    guard = StampGuard()
    guard.judge(0, waits=True)
    assert guard.judge(10_000_000_000, waits=True) == Verdict.NEW
