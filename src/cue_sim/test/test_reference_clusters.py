"""FAULTS B04: a blow through balls that touch beforehand, or nearly do."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim.laws import Laws
from cue_sim.reference import EventKind, simulate
from cue_sim.reference.clusters import blow, squeeze
from cue_sim.reference.impacts import Body, ball_on_ball

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "9ft.yaml")
R, M = TABLE.ball_radius, TABLE.ball_mass
LAWS = Laws.from_parameters(nominal_values())
IDEAL = replace(LAWS, ball_restitution=1.0, ball_friction=0.0)
AHEAD = np.array([1.0, 0.0, 0.0])


def ball(velocity=(0, 0), spin=(0, 0, 0), mass=M):
    return Body(R, mass, np.array([*velocity, 0.0], float), np.array(spin, float))


def row(count, laws):
    balls = [ball((1, 0)), *(ball() for _ in range(count - 1))]
    return blow(balls, [(k, k + 1, AHEAD) for k in range(count - 1)], laws)[0]


def start(positions, velocity=(0.0, 0.0), spin=(0.0, 0.0, 0.0)):
    n = len(positions)
    out = SimpleNamespace(
        positions=np.array(positions, float),
        velocities=np.zeros((n, 2)),
        spins=np.zeros((n, 3)),
        in_play=np.ones(n, bool),
    )
    out.velocities[0], out.spins[0] = velocity, spin
    return out


def kinetic(balls):
    return sum(0.5 * b.mass * b.velocity @ b.velocity + 0.5 * b.inertia * b.spin @ b.spin for b in balls)


@pytest.mark.parametrize("e", [0.8, 0.95, 1.0])
@pytest.mark.parametrize("cut_deg", [0, 40])
@pytest.mark.parametrize(("spin", "off"), [((0, 0, 30), 1e-4), ((10, -20, 30), 9e-3)])
def test_one_pair_is_the_two_body_law(e, cut_deg, spin, off):
    """Where the slip turns during the contact, the two-body law, which keeps its first direction, is a little off."""
    cut = math.radians(cut_deg)
    normal = np.array([math.cos(cut), math.sin(cut), 0.0])
    first, second = ball((1.3, 0), spin), ball()
    laws = replace(LAWS, ball_restitution=e)
    (a, b), pushed, _ = blow([first, second], [(0, 1, normal)], laws)
    push = ball_on_ball(first, second, normal, laws)
    assert pushed == [True]
    np.testing.assert_allclose(a.velocity, first.struck(R * normal, -push).velocity, atol=off)
    np.testing.assert_allclose(b.velocity, second.struck(-R * normal, push).velocity, atol=off)
    np.testing.assert_allclose(b.spin, second.struck(-R * normal, push).spin, atol=off / R)


def test_b04_three_in_line_leave_as_hertz_has_it():
    """-0.07, 0.08, 0.99 (Herrmann and Seitz, Am. J. Phys. 50, 1982); two-body impacts in any order give 0, 0, 1."""
    speeds = [b.velocity[0] for b in row(3, IDEAL)]
    assert speeds == pytest.approx([-0.071, 0.076, 0.995], abs=0.001)
    assert sum(speeds) == pytest.approx(1, abs=1e-9)
    assert kinetic(row(3, IDEAL)) == pytest.approx(0.5 * M, rel=1e-6)


def test_b04_a_longer_row_and_less_restitution():
    longer = [b.velocity[0] for b in row(6, IDEAL)]
    assert longer[-1] > 0.98 and all(a < b for a, b in pairwise(longer))
    duller = [b.velocity[0] for b in row(3, replace(IDEAL, ball_restitution=0.9))]
    assert sum(duller) == pytest.approx(1, abs=1e-9)
    assert duller[-1] < 0.95 and sum(v * v for v in duller) < 0.95


def test_b04_a_gap_leads_continuously_from_touching_to_one_after_the_other():
    """Beyond 1.5 greatest squeezes the first contact is open before the second meets."""
    unit = squeeze(ball((1, 0)), ball(), 1.0)
    balls, contacts = [ball((1, 0)), ball(), ball()], [(0, 1, AHEAD), (1, 2, AHEAD)]
    speeds = []
    for gap in np.linspace(0, 1.6, 33) * unit:
        through = blow(balls, contacts, IDEAL, [0.0, gap])
        speeds.append([b.velocity[0] for b in through.bodies])
        assert sum(speeds[-1]) == pytest.approx(1, abs=1e-9)
        assert kinetic(through.bodies) == pytest.approx(0.5 * M, rel=3e-6)
    assert through.reached == [True, False]
    np.testing.assert_allclose(speeds[0], [-0.071, 0.076, 0.995], atol=0.001)
    np.testing.assert_allclose(speeds[-2], speeds[-3], atol=0.002)
    reached = np.array(speeds[:29])
    np.testing.assert_allclose(reached[-1], [0, 0, 1], atol=0.002)
    assert np.abs(np.diff(reached, axis=0)).max() < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_momentum_stays_and_energy_falls_in_any_cluster(seed):
    rng = np.random.default_rng(seed)
    places = np.array([[0, 0], [2, 0], [1, math.sqrt(3)], [3, math.sqrt(3)], [-1, math.sqrt(3)]])
    pairs = [(i, j) for j in range(5) for i in range(j) if abs(np.hypot(*(places[i] - places[j])) - 2) < 1e-9]
    contacts = [(i, j, np.array([*(places[j] - places[i]) / 2, 0.0])) for i, j in pairs]
    balls = [ball(rng.normal(0, 0.01, 2), rng.normal(0, 30, 3), rng.uniform(0.15, 0.18)) for _ in places]
    balls[4] = ball((1.0, -1.2), rng.normal(0, 30, 3))
    after, *_ = blow(balls, contacts, LAWS)
    momentum = [sum(b.mass * b.velocity for b in group) for group in (balls, after)]
    np.testing.assert_allclose(momentum[1], momentum[0], atol=1e-12)
    assert kinetic(after) < kinetic(balls)
    for i, j, normal in contacts:
        assert (after[j].velocity - after[i].velocity) @ normal > -1e-3


def test_b04_two_frozen_balls_hit_head_on():
    """The cue ball full into a frozen pair, on a table: no energy from nowhere, the far ball takes nearly all."""
    laws = replace(IDEAL, sliding_friction=1e-4)
    path = simulate(TABLE, start([[-0.3, 0], [0, 0], [2 * R, 0]], (1, 0)), laws, horizon=0.5)
    assert [tuple(e)[1:] for e in path.events[:2]] == [(EventKind.BALL_BALL, 0, 1), (EventKind.BALL_BALL, 1, 2)]
    assert path.velocities(0.4)[:, 0] == pytest.approx([-0.071, 0.076, 0.995], abs=0.002)


def test_b04_a_split_of_two_touching_balls_is_symmetric():
    path = simulate(TABLE, start([[-0.3, 0], [0, R], [0, -R]], (1, 0)), LAWS)
    x, y = path.positions(1.0)[1:].T
    assert len(path.events) >= 2 and path.events[0].time == path.events[1].time
    assert x[0] == pytest.approx(x[1], abs=1e-9) and y[0] == pytest.approx(-y[1], abs=1e-9)
    assert abs(path.positions(1.0)[0, 1]) < 1e-9


def test_b04_a_ball_frozen_to_a_cushion_is_struck_then_rebounds():
    """The balls part before the rubber answers: ball-ball, cushion, and ball-ball again, all at one time."""
    north = TABLE.width / 2 - TABLE.ball_stop
    path = simulate(TABLE, start([[0.5, north - 2 * R - 0.2], [0.5, north]], (0, 1)), LAWS)
    first = [e for e in path.events if e.time < path.events[0].time + 1e-3]
    assert [e.kind for e in first[:3]] == [EventKind.BALL_BALL, EventKind.CUSHION, EventKind.BALL_BALL]
    assert first[2].time == pytest.approx(first[0].time, abs=1e-9)
    assert path.velocities(first[-1].time + 1e-6)[0, 1] < 0
    assert path.positions(first[-1].time + 0.3)[1, 1] <= north + 1e-12


def test_b04_frozen_balls_that_are_not_struck_stay():
    path = simulate(TABLE, start([[-0.5, 0.3], [0, 0], [2 * R, 0], [R, math.sqrt(3) * R]], (0.3, 0)), LAWS)
    np.testing.assert_array_equal(path.rest_positions[1:], [[0, 0], [2 * R, 0], [R, math.sqrt(3) * R]])


def test_b04_a_rack_breaks_in_finite_time_and_symmetrically():
    rack = [[0.6 + k * math.sqrt(3) * R, (2 * i - k) * R] for k in range(5) for i in range(k + 1)]
    path = simulate(TABLE, start([[-0.6, 0.0], *rack], (4, 0)), LAWS, horizon=0.5)
    after = path.positions(path.events[0].time + 0.02)
    upper, lower = after[after[:, 1] > 1e-6], after[after[:, 1] < -1e-6]
    order = np.lexsort(np.round(upper, 6).T), np.lexsort(np.round(lower * [1, -1], 6).T)
    np.testing.assert_allclose(upper[order[0]], lower[order[1]] * [1, -1], atol=1e-7)
    speeds = np.hypot(*path.velocities(path.events[0].time + 1e-6).T)
    assert (speeds > 0.02).sum() >= 14 and speeds.max() < 4
