"""The twin as a whole: repeatability, symmetry, convergence, pockets, faults."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import FileFormatError, OutOfRangeError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim.kernel import EventKind
from cue_sim.twin import Start, Twin

TABLES = Path(__file__).parents[3] / "config" / "tables"
SMALL = TableModel.load(TABLES / "small.yaml")
IDS = (0, 1, 3, 5, 6, 8)
R = SMALL.ball_radius


def random_start(rng, table=SMALL, balls=6, speed=(0.5, 2.0)):
    half = np.array([table.length, table.width]) / 2 - 1.5 * table.ball_radius
    while True:
        positions = rng.uniform(-half, half, (balls, 2))
        apart = [np.hypot(*(positions[i] - positions[j])) for i in range(balls) for j in range(i)]
        if min(apart, default=1.0) > 2.2 * table.ball_radius:
            break
    start = Start.at_rest(positions)
    angle, size = rng.uniform(0, 2 * math.pi), rng.uniform(*speed)
    start.velocities[0] = size * np.array([math.cos(angle), math.sin(angle)])
    start.spins[0] = rng.normal(0, 20, 3)
    return start


@pytest.fixture(scope="module")
def twin():
    return Twin(SMALL, IDS)


@pytest.fixture(scope="module")
def starts():
    rng = np.random.default_rng(5)
    return [random_start(rng) for _ in range(40)]


def test_m04_energy_never_rises_and_all_come_to_rest(twin, starts):
    """FAULTS M02, M04: the kernel checks the energy after every step and would report a gain."""
    paths = twin.simulate_batch(starts, nominal_values(), threads=1)
    assert [p.fault for p in paths] == [None] * len(starts)
    assert max(p.rest_time for p in paths) < 12
    assert sum(p.contacts(EventKind.BALL_BALL) for p in paths) > 20
    assert sum(p.contacts(EventKind.CUSHION) for p in paths) > 40
    # carrying on from rest moves nothing, however long
    path = paths[0]
    again = twin.simulate(Start.at_rest(path.rest_positions, ~path.rest_pocketed), None)
    assert again.rest_time == 0
    np.testing.assert_array_equal(again.rest_positions, path.rest_positions)


def test_an_impossible_restitution_is_reported(twin, starts):
    values = nominal_values()
    values[list(PARAMETERS).index("cushion_restitution")] = 1.6
    faults = {p.fault for p in twin.simulate_batch(starts[:10], values, threads=1)}
    assert "energy gain" in faults


def test_any_number_of_threads_gives_the_same_bits(twin, starts):
    vectors = nominal_values() * np.random.default_rng(1).uniform(0.9, 1.0, (len(starts), len(PARAMETERS)))
    times = np.arange(0, 5, 1 / 60)
    one = twin.simulate_batch(starts, vectors, times, threads=1)
    four = twin.simulate_batch(starts, vectors, times, threads=4)
    for a, b in zip(one, four, strict=True):
        assert a.positions.tobytes() == b.positions.tobytes()
        assert a.rest_positions.tobytes() == b.rest_positions.tobytes()
        assert a.events == b.events


def test_sampling_does_not_change_the_result(twin, starts):
    coarse = twin.simulate(starts[3], None, [0.0, 1.0])
    fine = twin.simulate(starts[3], None, np.arange(0, 10.001, 0.001))
    assert coarse.rest_positions.tobytes() == fine.rest_positions.tobytes()
    np.testing.assert_allclose(coarse.positions[1], fine.positions[1000], atol=1e-12)
    np.testing.assert_array_equal(fine.positions[0], starts[3].positions)
    np.testing.assert_array_equal(fine.positions[-1], fine.rest_positions)
    speed = np.hypot(*np.diff(fine.positions, axis=0).T).max() / 0.001
    assert speed < 2.5  # no jumps between samples


def test_finer_steps_change_little(twin, starts):
    """Four times smaller steps move rest positions by less than 0.2 mm in the median."""
    fine = Twin(SMALL, IDS, largest_step=twin.largest_step / 4, impact_step=twin.impact_step / 4)
    moved = [
        np.hypot(*(fine.simulate(s, None).rest_positions - twin.simulate(s, None).rest_positions).T).max()
        for s in starts
    ]
    assert np.median(moved) < 2e-5
    assert np.quantile(moved, 0.9) < 2e-4


@pytest.mark.parametrize("axis", [0, 1])
def test_b05_a_mirrored_shot_stays_mirrored(twin, starts, axis):
    """FAULTS B05: any asymmetry would be ours."""
    flip = np.ones(2)
    flip[axis] = -1
    # spin is an axial vector: components along the mirror's normal stay, others change sign
    turn = np.array([-1.0, -1.0, -1.0])
    turn[axis] = 1.0
    for start in starts[:8]:
        there = twin.simulate(start, None)
        mirrored = Start(start.positions * flip, start.velocities * flip, start.spins * turn, start.in_play)
        back = twin.simulate(mirrored, None)
        if there.contacts(EventKind.BALL_BALL) + there.contacts(EventKind.CUSHION) <= 6:
            np.testing.assert_allclose(back.rest_positions, there.rest_positions * flip, atol=1e-9)


@pytest.mark.parametrize("name", ["small", "7ft", "8ft", "9ft", "snooker"])
def test_every_pocket_takes_a_ball_and_says_which(name):
    table = TableModel.load(TABLES / f"{name}.yaml")
    twin = Twin(table, (0,))
    for k, pocket in enumerate(table.pockets):
        side = pocket.name.startswith("side")
        diagonal = pocket.position - 0.3 * table.width * np.sign(pocket.position)
        inside = np.array([0.0, 0.3 * pocket.position[1]]) if side else diagonal
        aim = (pocket.position - inside) / np.linalg.norm(pocket.position - inside)
        start = Start.at_rest(inside[None])
        start.velocities[0] = 1.5 * aim
        path = twin.simulate(start, None, [0.0, 5.0])
        assert path.events[-1][1:] == (EventKind.POCKET, 0, k), (name, pocket.name, path.events)
        assert path.rest_pocketed.all() and path.fault is None
        np.testing.assert_array_equal(path.rest_positions[0], pocket.position)
        np.testing.assert_array_equal(path.positions[-1, 0], pocket.position)
        assert path.pocketed[:, 0].tolist() == [False, True]


@pytest.mark.parametrize("step", [1.0, 0.2, 0.02, 1e-3])
def test_m03_break_speed_stays_on_the_table(step):
    """FAULTS M03: 12 m/s in all directions, at every allowed step; only pockets may take the ball."""
    table = TableModel.load(TABLES / "9ft.yaml")
    twin = Twin(table, (0, 1, 2), largest_step=step)
    rng = np.random.default_rng(2)
    for angle in np.linspace(0, 2 * math.pi, 24 if step > 1e-3 else 4, endpoint=False) + 0.01:
        start = Start.at_rest(rng.uniform(-0.5, 0.5, (3, 2)))
        start.velocities[0] = 12 * np.array([math.cos(angle), math.sin(angle)])
        path = twin.simulate(start, None, np.arange(0, 2, 0.01))
        assert path.fault is None
        live = ~path.pocketed
        inside = np.abs(path.positions) <= np.array([table.length, table.width]) / 2 + 0.12
        assert inside.all(axis=2)[live].all()


def test_a_ball_beyond_the_cushions_is_a_fault_not_a_pocket():
    import mujoco

    from cue_sim import kernel
    from cue_sim.kernel import Laws

    twin = Twin(SMALL, (0,))
    data = mujoco.MjData(twin.model)
    in_play = np.ones(1, np.int32)
    position = np.array([[0.3, SMALL.width / 2 + 0.2]])
    kernel.start(twin.model, data, twin.layout, position, np.array([[0.5, 0.0]]), np.zeros((1, 3)), in_play)
    outcome = kernel.advance(twin.model, data, twin.layout, Laws.from_parameters(nominal_values()), in_play, 1.0)
    assert outcome.fault == "escape"
    assert not outcome.events and in_play[0] == 1


def test_m08_a_diverging_sample_is_named_and_the_others_are_unharmed(twin, starts):
    """FAULTS M08: NaN in one of many parameter vectors."""
    vectors = np.tile(nominal_values(), (8, 1))
    vectors[3, list(PARAMETERS).index("cushion_friction")] = np.nan
    paths = twin.simulate_batch(starts[:8], vectors, [0.0, 1.0], threads=2)
    assert [p.fault for p in paths] == [None, None, None, "not finite"] + [None] * 4
    assert np.isnan(paths[3].positions).all() and np.isnan(paths[3].rest_positions).all()
    still = starts[0].positions.copy()
    still[2] = np.inf
    assert twin.simulate(Start.at_rest(still), None).fault == "not finite"


@pytest.mark.parametrize("overlap", [1e-4, 1e-3, 5e-3])
def test_b01_overlapping_balls_part_by_the_smallest_move_without_a_kick(overlap):
    """FAULTS B01."""
    twin = Twin(SMALL, (0, 1))
    path = twin.simulate(Start.at_rest(np.array([[0, 0], [2 * R - overlap, 0]])), None, [0.0, 1.0])
    assert path.rest_time == 0
    assert path.rest_positions[:, 0] == pytest.approx([-overlap / 2, 2 * R - overlap / 2], abs=1e-8)
    assert path.fault is None


def test_b01_a_ball_inside_a_cushion_steps_out():
    """FAULTS B01."""
    twin = Twin(SMALL, (0,))
    free = SMALL.width / 2 - SMALL.ball_stop
    for depth in (0.002, 0.004, 0.5 * R):
        path = twin.simulate(Start.at_rest(np.array([[0.2, free + depth]])), None)
        assert path.rest_positions[0] == pytest.approx([0.2, free], abs=1e-6)
        assert path.fault is None and path.rest_time == 0


@pytest.mark.parametrize("targets", [2, 3, 5])
def test_b04_a_blow_runs_through_frozen_balls(targets):
    """FAULTS B04: full on into a row of touching balls, as Hertzian contacts do it: the last one takes nearly all."""
    table = TableModel.load(TABLES / "9ft.yaml")
    radius = table.ball_radius
    twin = Twin(table, tuple(range(targets + 1)))
    start = Start.at_rest(np.array([[-0.01 - 2 * radius, 0], *([2 * k * radius, 0] for k in range(targets))]))
    start.velocities[0, 0] = 1.0
    values = nominal_values()
    values[list(PARAMETERS).index("ball_restitution")] = 1.0
    values[list(PARAMETERS).index("sliding_friction")] = 1e-4  # a slippery cloth keeps the speeds as they are
    path = twin.simulate(start, values, np.array([0.02, 0.03]))
    assert path.fault is None and path.steps < 2000
    speeds = np.diff(path.positions[:, :, 0], axis=0)[0] / 0.01
    # Hertz, two equal spheres struck by a third: -0.07, 0.08, 0.99 (Herrmann and Seitz, Am. J. Phys. 50, 1982)
    if targets == 2:
        assert speeds == pytest.approx([-0.07, 0.08, 0.99], abs=0.01)
    assert speeds[-1] > 0.95 and np.all(np.diff(speeds[1:]) > 0)
    assert np.abs(path.positions[..., 1]).max() < 1e-12


def test_b04_a_symmetric_split_stays_symmetric():
    """FAULTS B04: between two touching balls at once."""
    twin = Twin(SMALL, (0, 1, 3))
    start = Start.at_rest(np.array([[-0.3, 0], [0, R + 1e-9], [0, -R - 1e-9]]))
    start.velocities[0, 0] = 1.0
    path = twin.simulate(start, None, np.array([0.5]))
    assert path.fault is None
    x, y = path.positions[0, 1:].T
    assert x[0] == pytest.approx(x[1], abs=1e-9)
    assert y[0] == pytest.approx(-y[1], abs=1e-9)


def test_a_racked_break_is_finite():
    table = TableModel.load(TABLES / "9ft.yaml")
    radius = table.ball_radius
    rack = [[0.6 + row * math.sqrt(3) * radius, (2 * k - row) * radius] for row in range(5) for k in range(row + 1)]
    twin = Twin(table, tuple(range(16)))
    start = Start.at_rest(np.array([[-0.6, 0.01], *rack]))
    start.velocities[0, 0] = 9.0
    path = twin.simulate(start, None)
    assert path.fault is None and np.isfinite(path.rest_positions).all()
    assert path.steps < 20000
    moved = np.hypot(*(path.rest_positions - start.positions).T)
    assert (moved > 0.05).sum() >= 12


def test_stopping_at_a_contact(twin, starts):
    start = next(s for s in starts if len(twin.simulate(s, None).events) >= 4)
    times = np.arange(0, 5, 0.02)
    whole = twin.simulate(start, None, times)
    contacts = [e for e in whole.events if e.kind != EventKind.POCKET]
    part = twin.simulate(start, None, times, until_contact=2)
    assert [e for e in part.events if e.kind != EventKind.POCKET] == contacts[:2]
    assert part.stop_time == pytest.approx(contacts[1].time, abs=1e-4)
    before = times < contacts[1].time
    np.testing.assert_array_equal(part.positions[before], whole.positions[before])
    assert np.isnan(part.positions[times > part.stop_time]).all()
    assert math.isnan(part.rest_time)


def test_balls_not_in_play_take_no_part(twin, starts):
    start = starts[0]
    in_play = np.array([True, False, False, False, False, False])
    path = twin.simulate(Start(start.positions, start.velocities, start.spins, in_play), None, [0.0, 2.0])
    assert path.contacts(EventKind.BALL_BALL) == 0
    np.testing.assert_array_equal(path.positions[:, 1:], np.tile(start.positions[1:], (2, 1, 1)))
    alone = Twin(SMALL, (0,)).simulate(
        Start(start.positions[:1], start.velocities[:1], start.spins[:1], in_play[:1]), None
    )
    assert path.rest_positions[0] == pytest.approx(alone.rest_positions[0], abs=1e-9)


def test_wrong_input_is_refused_by_name(twin, starts):
    with pytest.raises(FileFormatError, match="does not fit 6 balls"):
        twin.simulate(Start.at_rest(np.zeros((2, 2))), None)
    with pytest.raises(FileFormatError, match="times"):
        twin.simulate(starts[0], None, [1.0, 0.5])
    with pytest.raises(FileFormatError, match="parameter vector"):
        twin.simulate(starts[0], np.zeros(3))
    with pytest.raises(FileFormatError, match="batch"):
        twin.simulate_batch(starts[:3], np.tile(nominal_values(), (2, 1)))
    with pytest.raises(OutOfRangeError, match="largest_step"):
        Twin(SMALL, IDS, largest_step=1.5)
    with pytest.raises(FileFormatError, match=r"name balls \[9\] that are not in the twin"):
        Twin(SMALL, IDS, radii={9: SMALL.ball_radius})
    for horizon in (-1.0, math.nan, math.inf):
        with pytest.raises(OutOfRangeError, match="horizon"):
            twin.simulate(starts[0], None, horizon=horizon)
    with pytest.raises(FileFormatError, match="lifts"):
        twin.simulate(replace(starts[0], lifts=np.ones(1)), None)


def test_a_pickled_twin_is_the_same_twin(twin, starts):
    other = pickle.loads(pickle.dumps(twin))
    assert (
        other.simulate(starts[1], None).rest_positions.tobytes()
        == twin.simulate(starts[1], None).rest_positions.tobytes()
    )


def test_any_parameters_within_bounds_are_sound():
    """Frozen rows, overlaps, tilt, speeds up to a break: no fault, whatever the parameters."""
    low = np.array([p.minimum for p in PARAMETERS.values()])
    high = np.array([p.maximum for p in PARAMETERS.values()])
    rng = np.random.default_rng(7)
    twin = Twin(SMALL, IDS)
    half = np.array([SMALL.length, SMALL.width]) / 2 - 1.2 * R
    for _ in range(60):
        positions = rng.uniform(-half, half, (6, 2))
        positions[1:4] = 0.5 * positions[1] + 2 * R * np.arange(3)[:, None] * [math.cos(1), math.sin(1)]
        start = Start.at_rest(positions)
        angle, size = rng.uniform(0, 2 * math.pi), rng.uniform(0.1, 4)
        start.velocities[0] = size * np.array([math.cos(angle), math.sin(angle)])
        start.spins[0] = rng.normal(0, 30, 3)
        path = twin.simulate(start, rng.uniform(low, high), horizon=20.0)
        assert path.fault is None
        assert path.steps < 5000


def test_a_ball_leans_on_a_cushion_of_a_steep_bed():
    values = nominal_values()
    values[list(PARAMETERS).index("tilt_y")] = 0.01
    values[list(PARAMETERS).index("rolling_friction")] = 0.004
    path = Twin(SMALL, (0,)).simulate(Start.at_rest(np.array([[0.2, 0.1]])), values)
    assert path.fault is None and np.isfinite(path.rest_time)
    assert path.rest_positions[0] == pytest.approx([0.2, SMALL.width / 2 - SMALL.ball_stop], abs=1e-4)
