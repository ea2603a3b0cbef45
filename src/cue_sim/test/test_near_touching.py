"""FAULTS B04: balls that nearly touch. What a blow does to them changes continuously with the gap."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim import reference
from cue_sim.laws import Laws
from cue_sim.pictures import rack
from cue_sim.twin import Start, Twin

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "9ft.yaml")
R = TABLE.ball_radius
SPEED = 4.0
SQUEEZE = 4.0e-4
"""By how much two balls that meet at 4 m/s are squeezed [m]; the gaps go from a ten-thousandth of it to twice of it."""
GAPS = np.concatenate([[0.0], np.geomspace(1e-4, 2, 50)]) * SQUEEZE


def parameters(**changes):
    values = nominal_values()
    for name, value in changes.items():
        values[list(PARAMETERS).index(name)] = value
    return values


IDEAL = parameters(ball_restitution=1.0, ball_friction=0.0)


def struck(places, speed=SPEED):
    """The first ball comes along x and is a millimetre from the second."""
    start = Start.at_rest(np.array([[places[0][0] - 2 * R - 1e-3, places[0][1]], *places], float))
    start.velocities[0, 0] = speed
    return start


def speeds_after(twin, starts, values):
    """Velocities a few milliseconds after the blow, (B, balls, 2) as shares of the speed."""
    paths = twin.simulate_batch(starts, values, [0.004, 0.006], threads=1, horizon=0.01)
    assert {path.fault for path in paths} == {None}
    return np.array([(path.positions[1] - path.positions[0]) / 0.002 for path in paths]) / SPEED


def row(gap):
    return struck([[0, 0], [2 * R + gap, 0]])


def pair_at(gap, angle):
    return struck([[0, 0], [(2 * R + gap) * math.cos(angle), (2 * R + gap) * math.sin(angle)]])


def nearly_touching(rng):
    """Five balls in a lump with gaps of nanometres to a millimetre."""
    places = [np.zeros(2)]
    while len(places) < 5:
        angle = rng.uniform(-1.5, 1.5)
        reach = 2 * R + SQUEEZE * 10 ** rng.uniform(-5, 0.4)
        new = places[rng.integers(len(places))] + reach * np.array([math.cos(angle), math.sin(angle)])
        if min(np.hypot(*(new - place)) for place in places) > 2 * R:
            places.append(new)
    start = struck(places)
    start.positions[0, 1] += rng.uniform(-1, 1) * R
    start.positions[0, 0] += 2 * R - math.sqrt(4 * R**2 - start.positions[0, 1] ** 2)
    start.spins[0] = rng.normal(0, 20, 3)
    return start


@pytest.fixture(scope="module")
def three():
    return Twin(TABLE, (0, 1, 2))


def test_b04_three_in_line_go_continuously_from_touching_to_one_after_the_other(three):
    after = speeds_after(three, [row(gap) for gap in GAPS], IDEAL)[..., 0]
    np.testing.assert_allclose(after[0], [-0.071, 0.076, 0.995], atol=0.004)
    np.testing.assert_allclose(after[-1], [0, 0, 1], atol=0.004)
    assert np.abs(np.diff(after, axis=0)).max() < 0.012
    assert np.all(np.diff(after[:, 0]) > -1e-3) and np.all(np.diff(after[:, 1]) < 1e-3)


@pytest.mark.parametrize("angle", [math.pi / 6, math.pi / 4])
def test_b04_two_balls_struck_aslant_go_continuously(three, angle):
    after = speeds_after(three, [pair_at(gap, angle) for gap in GAPS], nominal_values())
    assert np.abs(np.diff(after, axis=0)).max() < 0.012
    assert np.abs(after[0] - after[-1]).max() > 0.02  # the gap does matter


def test_b04_a_neighbour_that_the_blow_does_not_reach_changes_nothing(three):
    """Within the neighbourhood, but aside: the pair keeps its law to the bit."""
    near, far = pair_at(0.2e-3, math.pi / 2), pair_at(0.2, math.pi / 2)
    (a, b) = (three.simulate(start, None, [0.01], horizon=0.02).positions[0, :2] for start in (near, far))
    np.testing.assert_array_equal(a, b)


def test_b04_momentum_stays_and_energy_never_rises_with_gaps():
    twin, rng = Twin(TABLE, tuple(range(6))), np.random.default_rng(2)
    starts = [nearly_touching(rng) for _ in range(40)]
    paths = twin.simulate_batch(starts, nominal_values(), threads=1)
    assert {path.fault for path in paths} == {None}
    assert max(path.energy_gain for path in paths) < 1e-9
    after = speeds_after(twin, starts, parameters(sliding_friction=0.05, rolling_friction=0.002))
    np.testing.assert_allclose(after.sum(1), np.tile([1.0, 0.0], (40, 1)), atol=0.005)
    again = twin.simulate_batch(starts, nominal_values(), threads=2)
    assert [p.rest_positions.tobytes() for p in again] == [p.rest_positions.tobytes() for p in paths]


def test_b04_the_reference_agrees_on_balls_that_nearly_touch():
    twin, rng = Twin(TABLE, tuple(range(6))), np.random.default_rng(4)
    laws = Laws.from_parameters(nominal_values())
    for start in [nearly_touching(rng) for _ in range(8)]:
        path = twin.simulate(start, None, [0.05], horizon=0.06)
        exact = reference.simulate(TABLE, start, laws, horizon=0.06)
        np.testing.assert_allclose(path.positions[0], exact.positions(0.05), atol=2e-4)


@pytest.mark.parametrize("gap", [0.0, 1e-5, 1e-4])
def test_b04_a_break_of_a_loose_rack_spreads_and_stays_symmetric(gap):
    twin = Twin(TABLE, tuple(range(16)))
    balls = rack(TABLE, gap=gap)
    start = Start.at_rest(np.vstack([[balls[0, 0] - 0.3, 0.0], balls]))
    start.velocities[0, 0] = 8.0
    path = twin.simulate(start, None, [0.05, 0.051], horizon=0.06)
    assert path.fault is None
    velocity = np.diff(path.positions, axis=0)[0] / 1e-3
    mirrored = np.hypot(*(path.positions[0][:, None] * [1, -1] - path.positions[0][None]).T).argmin(1)
    assert sorted(mirrored) == list(range(16))
    np.testing.assert_allclose(velocity[mirrored], velocity * [1, -1], atol=1e-3)
    # impacts one after the other would send the two far corners off and leave the rest
    assert (np.hypot(*velocity.T) > 0.3).sum() >= 12
