"""The reference's event times against brute force, and its events against the geometry of the table."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim.geometry import nose_segments
from cue_sim.laws import Laws
from cue_sim.reference import EventKind, simulate
from cue_sim.reference.events import Surroundings, circle_entry, line_entry

TABLES = Path(__file__).parents[3] / "config" / "tables"
LAWS = Laws.from_parameters(nominal_values())


def lone(position, velocity, spin=(0, 0, 0)):
    arrays = [np.array([a], float) for a in (position, velocity, spin)]
    return SimpleNamespace(positions=arrays[0], velocities=arrays[1], spins=arrays[2], in_play=np.array([True]))


def place(curve, t):
    return curve[0] + (curve[1] + curve[2] * t) * t


def first_inside(gap, end, steps=20_000):
    """First time at which a gap is negative, by fine steps and then halving."""
    times = np.linspace(0, end, steps)
    inside = np.flatnonzero(gap(times) < 0)
    if not len(inside):
        return math.inf
    low, high = times[max(inside[0] - 1, 0)], times[inside[0]]
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if gap(np.array([middle]))[0] < 0 else (middle, high)
    return high


def test_meetings_of_curved_paths_against_fine_steps():
    rng = np.random.default_rng(4)
    reach, met = 0.15, 0
    for _ in range(150):
        curve = tuple(complex(*rng.normal(0, s, 2)) for s in (0.3, 0.5, 0.5))
        line = complex(*rng.normal(0, 0.3, 2))
        if abs(curve[0]) < 0.16:
            continue
        brute = first_inside(lambda t, c=curve: np.abs(place(c, t)) - reach, 2.0)
        assert circle_entry(curve, reach, 2.0) == pytest.approx(brute, abs=1e-12)
        met += brute < math.inf

        def capsule(t, curve=curve, line=line):
            share = np.clip((place(curve, t) * np.conj(line)).real / abs(line) ** 2, 0, 1)
            return np.abs(place(curve, t) - share * line) - reach

        if capsule(np.zeros(1))[0] < 0:
            continue
        seen_from_end = (curve[0] - line, *curve[1:])
        times = [circle_entry(curve, reach, 2.0), circle_entry(seen_from_end, reach, 2.0)]
        assert min(line_entry(curve, line, reach, 2.0), *times) == pytest.approx(first_inside(capsule, 2.0), abs=1e-12)
    assert met > 20


def test_a_grazing_meeting_is_found_and_a_near_miss_is_none():
    reach = 0.057
    for depth, found in ((1e-9, True), (1e-13, True), (-1e-13, False), (-1e-9, False)):
        curve = (complex(-0.3, reach - depth), 1 + 0j, 0j)
        assert math.isfinite(circle_entry(curve, reach, 1.0)) == found


@pytest.mark.parametrize("name", ["small", "7ft", "carom"])
def test_no_ball_is_ever_inside_a_nose_or_another_ball(name):
    """All gaps at fine steps over whole shots: a missed event would show as an overlap."""
    table = TableModel.load(TABLES / f"{name}.yaml")
    rng = np.random.default_rng(8)
    around = Surroundings(table, table.ball_radius)
    noses = [(complex(*a), complex(*b)) for _, a, b in nose_segments(table).values()]
    events = 0
    for _ in range(6):
        half = np.array([table.length, table.width]) / 2 - 1.5 * table.ball_radius
        grid = [[x, y] for x in (-0.6, -0.2, 0.2, 0.6) for y in (-0.6, 0.0, 0.6)]
        positions = np.array(grid)[rng.permutation(12)[:6]] * half + rng.uniform(-0.1, 0.1, (6, 2)) * half
        start = SimpleNamespace(
            positions=positions, velocities=np.zeros((6, 2)), spins=np.zeros((6, 3)), in_play=np.ones(6, bool)
        )
        start.velocities[0] = 2.5 * np.array([math.cos(a := rng.uniform(0, 6.28)), math.sin(a)])
        start.spins[0] = rng.normal(0, 40, 3)
        path = simulate(table, start, LAWS)
        events += len(path.events)
        fine = np.concatenate([np.arange(0, path.rest_time, 2e-3), [e.time for e in path.events]])
        at = path.positions(np.sort(fine))
        z = at[..., 0] + 1j * at[..., 1]
        pocketed = [np.isin(z[:, i], [complex(*p.position) for p in table.pockets]) for i in range(6)]
        for i in range(6):
            for j in range(i):
                gap = np.abs(z[:, i] - z[:, j]) - 2 * table.ball_radius
                assert gap[~pocketed[i] & ~pocketed[j]].min(initial=1.0) > -1e-12
            for a, b in noses:
                share = np.clip(((z[:, i] - a) * np.conj(b - a)).real / abs(b - a) ** 2, 0, 1)
                gap = np.abs(z[:, i] - a - share * (b - a)) - around.reach
                assert gap[~pocketed[i]].min(initial=1.0) > -1e-12
        for event in path.events:
            x = path.positions(np.array([event.time]))[0]
            if event.kind == EventKind.BALL_BALL:
                gap = np.hypot(*(x[event.ball] - x[event.other])) - 2 * table.ball_radius
                assert abs(gap) < 1e-12
    assert events > 20


@pytest.mark.parametrize("name", ["small", "7ft", "9ft", "snooker"])
def test_every_pocket_takes_a_ball_and_says_which(name):
    table = TableModel.load(TABLES / f"{name}.yaml")
    for k, pocket in enumerate(table.pockets):
        side = pocket.name.startswith("side")
        diagonal = pocket.position - 0.3 * table.width * np.sign(pocket.position)
        start = np.array([0.0, 0.3]) * pocket.position if side else diagonal
        aim = (pocket.position - start) / np.linalg.norm(pocket.position - start)
        path = simulate(table, lone(start, 1.5 * aim), LAWS)
        assert path.events[-1][1:] == (EventKind.POCKET, 0, k)
        assert path.rest_pocketed.all()
        np.testing.assert_array_equal(path.rest_positions[0], pocket.position)
        np.testing.assert_array_equal(path.positions(path.rest_time + 1)[0], pocket.position)


def test_a_slow_ball_falls_at_the_edge():
    """v (1 - g t^2 / 2R) = g t (1 + sin): the first term alone gives v / g."""
    table = TableModel.load(TABLES / "7ft.yaml")
    for pocket in table.pockets:
        way = -np.sign(pocket.position) / np.linalg.norm(np.sign(pocket.position))
        path = simulate(table, lone(pocket.position + (pocket.radius + 0.05) * way, -0.3 * way), LAWS)
        over = np.hypot(*(path.positions(np.arange(0, 2, 1e-4))[:, 0] - pocket.position).T)
        seconds = 1e-4 * ((over > 0) & (over < pocket.radius)).sum()
        assert 0.5 * 0.2 / LAWS.gravity < seconds < 0.3 / LAWS.gravity


def test_jaws_may_throw_a_fast_ball_out_again():
    table = TableModel.load(TABLES / "7ft.yaml")
    pocket = table.pockets[1]
    start = pocket.position - [0.2, 0.5]
    came_out = 0
    for turn in np.linspace(-0.13, -0.1, 13):
        angle = math.atan2(0.5, 0.2) + turn
        path = simulate(table, lone(start, 6 * np.array([math.cos(angle), math.sin(angle)])), LAWS)
        away = np.hypot(*(path.positions(np.arange(0, 0.3, 2e-4))[:, 0] - pocket.position).T)
        over = (away > 0) & (away < pocket.radius)
        came_out += over.any() and away[-1] > 2 * pocket.radius
    assert came_out > 0


def test_a_ball_that_stops_over_a_drop_falls():
    table = TableModel.load(TABLES / "9ft.yaml")
    pocket = table.pockets[1]
    edge = pocket.position - [0, pocket.radius]
    for speed in np.linspace(0.05, 0.1, 6):
        stop = 5 / 14 * speed**2 / (LAWS.rolling_friction * LAWS.gravity) + 12 / 49 * speed**2 / (
            LAWS.sliding_friction * LAWS.gravity
        )
        past = simulate(table, lone(edge - [0, stop - 1e-4], [0, speed]), LAWS)
        short = simulate(table, lone(edge - [0, stop + 1e-4], [0, speed]), LAWS)
        assert past.rest_pocketed[0] and not short.rest_pocketed[0]
        assert short.rest_positions[0] == pytest.approx(edge - [0, 1e-4], abs=1e-9)
