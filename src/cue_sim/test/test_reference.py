"""The reference as a whole: what every shot keeps, and the twin beside it."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import FileFormatError
from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim.geometry import nose_segments
from cue_sim.laws import Laws
from cue_sim.reference import EventKind, Phase, simulate
from cue_sim.twin import Start, Twin

TABLES = Path(__file__).parents[3] / "config" / "tables"
SMALL = TableModel.load(TABLES / "small.yaml")
LAWS = Laws.from_parameters(nominal_values())
R = SMALL.ball_radius


def random_start(rng, table=SMALL, balls=6, speed=(0.5, 2.5)):
    half = np.array([table.length, table.width]) / 2 - 1.5 * table.ball_radius
    while True:
        positions = rng.uniform(-half, half, (balls, 2))
        apart = [np.hypot(*(positions[i] - positions[j])) for i in range(balls) for j in range(i)]
        if min(apart, default=1.0) > 2.2 * table.ball_radius:
            break
    start = Start.at_rest(positions)
    angle, size = rng.uniform(0, 2 * math.pi), rng.uniform(*speed)
    start.velocities[0] = size * np.array([math.cos(angle), math.sin(angle)])
    start.spins[0] = rng.normal(0, 0.4, 3) / table.ball_radius
    return start


def energies(path, times, laws, table=SMALL):
    """Energy per mass of all balls at each time [m^2/s^2]."""
    v, w, x = path.velocities(times), path.spins(times), path.positions(times)
    moving = 0.5 * np.sum(v**2, axis=(1, 2)) + 0.2 * table.ball_radius**2 * np.sum(w**2, axis=(1, 2))
    return moving - laws.gravity * np.sum(x @ np.array([laws.tilt_x, laws.tilt_y]), axis=1)


def test_it_needs_no_mujoco():
    code = "import sys; sys.modules['mujoco'] = None; import cue_sim.reference, cue_sim.laws, cue_sim.geometry"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("extras", [{}, {"nap_x2": 0.1, "rolling_slope": 0.2}, {"cushion_restitution": 1.0}])
def test_energy_never_rises(extras):
    rng = np.random.default_rng(5)
    laws = replace(LAWS, **extras)
    for _ in range(25):
        path = simulate(SMALL, random_start(rng), laws)
        times = np.unique([p.start for pieces in path.pieces for p in pieces] + [e.time for e in path.events])
        had = energies(path, np.append(times, path.rest_time), laws)
        assert np.all(np.diff(had) <= 1e-9 * had[0])
        assert had[-1] == 0


def test_all_come_to_rest_and_stay():
    rng = np.random.default_rng(6)
    for _ in range(10):
        path = simulate(SMALL, random_start(rng), LAWS)
        assert 0 < path.rest_time < 15
        live = ~path.rest_pocketed
        np.testing.assert_array_equal(path.positions(path.rest_time + 1.0)[live], path.rest_positions[live])
        assert not path.velocities(path.rest_time + 1e-9).any()
        assert all(path.phases(i)[-1][1] == Phase.REST for i in np.flatnonzero(live))
        again = simulate(SMALL, Start.at_rest(path.rest_positions, live), LAWS)
        assert again.rest_time == 0 and not again.events


@pytest.mark.parametrize("axis", [0, 1])
def test_mirrored_shots_stay_mirrored(axis):
    rng = np.random.default_rng(7)
    flip = np.ones(2)
    flip[axis] = -1
    turn = -np.ones(3)
    turn[axis] = 1
    for _ in range(8):
        start = random_start(rng)
        there = simulate(SMALL, start, LAWS)
        back = simulate(
            SMALL, Start(start.positions * flip, start.velocities * flip, start.spins * turn, start.in_play), LAWS
        )
        if len(there.events) <= 6:
            np.testing.assert_allclose(back.rest_positions, there.rest_positions * flip, atol=1e-10)
            times = [e.time for e in there.events]
            np.testing.assert_allclose([e.time for e in back.events], times, atol=1e-10)


def test_numbering_does_not_matter():
    rng = np.random.default_rng(9)
    for _ in range(6):
        start, order = random_start(rng), rng.permutation(6)
        there = simulate(SMALL, start, LAWS)
        other = simulate(
            SMALL, Start(start.positions[order], start.velocities[order], start.spins[order], start.in_play), LAWS
        )
        np.testing.assert_allclose(other.rest_positions, there.rest_positions[order], atol=1e-9)


def test_positions_are_continuous_and_velocities_are_their_slope():
    path = simulate(SMALL, random_start(np.random.default_rng(11)), LAWS)
    times = np.linspace(0, path.rest_time, 4001)
    moved = np.diff(path.positions(times), axis=0)
    steps = np.hypot(moved[..., 0], moved[..., 1])[:, ~path.rest_pocketed]
    assert steps.max() < 3.0 * np.diff(times)[0]
    middle = 0.5 * (times[1:] + times[:-1])
    quiet = np.array([all(not a <= e.time <= b for e in path.events) for a, b in pairwise(times)])
    error = moved / np.diff(times)[0] - path.velocities(middle)
    assert np.median(np.abs(error[quiet])) < 1e-9


@pytest.mark.parametrize("name", ["small", "7ft"])
def test_the_twin_agrees(name):
    """Rest positions of 36 random shots by contacts: 1, 2, 3-4, 5 and more; jaws and pockets included."""
    table = TableModel.load(TABLES / f"{name}.yaml")
    twin = Twin(table, range(6))
    rng = np.random.default_rng(13)
    apart, pocketed = defaultdict(list), 0
    for _ in range(36):
        start = random_start(rng, table)
        path, other = simulate(table, start, LAWS), twin.simulate(start, None)
        contacts = sum(e.kind != EventKind.POCKET for e in path.events)
        pocketed += path.rest_pocketed.any()
        group = ("0", "1", "2", "3-4", "3-4")[contacts] if contacts < 5 else "5+"
        apart[group].append(np.hypot(*(path.rest_positions - other.rest_positions).T).max())
        if contacts <= 2:
            assert [e[1:] for e in path.events] == [e[1:] for e in other.events if e.kind <= EventKind.POCKET]
            times = [[e.time for e in p.events if e.kind <= EventKind.POCKET] for p in (path, other)]
            np.testing.assert_allclose(times[0], times[1], atol=1e-4)
    assert pocketed > 0 and set(apart) >= {"1", "2", "3-4", "5+"}
    for group, values in apart.items():
        assert np.median(values) < 1e-5, (group, values)


def test_shots_into_the_jaws_agree_with_the_twin():
    twin = Twin(SMALL, (0,))
    rng = np.random.default_rng(17)
    apart, rattled = [], 0
    for _ in range(40):
        pocket = SMALL.pockets[rng.integers(6)].position
        place = rng.uniform(-0.3, 0.3, 2) * [SMALL.length, SMALL.width]
        aim = pocket + rng.normal(0, 0.02, 2) - place
        start = Start.at_rest(place[None])
        start.velocities[0] = rng.uniform(0.4, 2.5) * aim / np.linalg.norm(aim)
        path, other = simulate(SMALL, start, LAWS), twin.simulate(start, None)
        rattled += len(path.events) > 1
        apart.append(np.linalg.norm(path.rest_positions - other.rest_positions))
    assert rattled > 15
    assert np.median(apart) < 1e-5 and np.mean(np.array(apart) < 1e-3) > 0.85


@pytest.mark.parametrize("offset", [0.0, 0.01])
def test_b04_a_rack_breaks_as_in_the_twin(offset):
    """Both resolve the frozen rack as Hertzian contacts, integrated in different ways."""
    table = TableModel.load(TABLES / "9ft.yaml")
    radius = table.ball_radius
    rack = [[0.6 + k * math.sqrt(3) * radius, (2 * i - k) * radius] for k in range(5) for i in range(k + 1)]
    start = Start.at_rest(np.array([[-0.6, offset], *rack]))
    start.velocities[0, 0] = 9.0
    path = simulate(table, start, LAWS, horizon=0.2)
    time = path.events[0].time + 0.01
    other = Twin(table, range(16)).simulate(start, None, [time])
    moved = np.hypot(*(path.positions(time) - start.positions)[1:].T)
    apart = np.hypot(*(path.positions(time) - other.positions[0]).T)
    assert moved.max() > 0.03 and apart.max() < 1e-4


def test_balls_of_unequal_size_and_mass_agree_with_the_twin():
    """Their contact normal leans, and in plan view they touch at 2 sqrt(R1 R2)."""
    sizes = {"radii": {0: 0.95 * R, 2: 1.03 * R}, "masses": {0: 0.04, 3: 0.055}}
    twin = Twin(SMALL, range(6), **sizes)
    rng = np.random.default_rng(3)
    hits, apart = 0, []
    for _ in range(30):
        start = random_start(rng)
        path, other = simulate(SMALL, start, LAWS, **sizes), twin.simulate(start, None)
        hits += sum(e.kind == EventKind.BALL_BALL for e in path.events)
        apart.append(np.hypot(*(path.rest_positions - other.rest_positions).T).max())
    assert hits > 15 and max(apart) < 1e-4


def test_a_slow_thin_hit_agrees_with_the_twin():
    """The balls part slowly and slide on: the twin's next step, long as it is, must not press them together again."""
    twin = Twin(SMALL, (0, 1))
    for offset in np.linspace(0.3, 0.995, 12):
        start = Start.at_rest(np.array([[-0.1, 0.0], [0.0, 2 * R * offset]]))
        start.velocities[0, 0], start.spins[0, 1] = 0.15, 0.15 / R
        path, other = simulate(SMALL, start, LAWS), twin.simulate(start, None)
        assert [e.kind for e in path.events] == [EventKind.BALL_BALL]
        np.testing.assert_allclose(other.rest_positions, path.rest_positions, rtol=0, atol=1e-7)


def test_a_nose_hit_beside_a_jaw_agrees_with_the_twin():
    """Within the contact margin of both: the nearer one is met, whichever closes faster."""
    twin = Twin(SMALL, (0,))
    rubber = next(start for name, start, _ in nose_segments(SMALL).values() if name == "south_east")
    for beside in np.linspace(-1e-4, 2e-4, 31):
        start = Start.at_rest(np.array([[rubber[0] + beside + 0.05, rubber[1] + 0.15]]))
        contact = np.array([rubber[0] + beside, -SMALL.width / 2 + SMALL.ball_stop])
        start.velocities[0] = 5 * (contact - start.positions[0])
        start.spins[0] = -start.velocities[0, 1] / R, start.velocities[0, 0] / R, 0.0
        path, other = simulate(SMALL, start, LAWS, horizon=0.5), twin.simulate(start, None, [0.5])
        assert [e.kind for e in path.events] == [EventKind.CUSHION]
        np.testing.assert_allclose(other.positions[0], path.positions(0.5), rtol=0, atol=1e-6)


def test_masses_radii_and_ids_are_per_ball():
    start = Start.at_rest(np.array([[-0.3, 0.0], [0.0, 0.0]]))
    start.velocities[0, 0] = 1.0
    path = simulate(SMALL, start, LAWS, radii={7: 0.9 * R}, masses={7: 0.03}, ball_ids=(2, 7))
    hit = path.events[0]
    assert hit[1:] == (EventKind.BALL_BALL, 2, 7)
    gap = path.positions(hit.time)[1, 0] - path.positions(hit.time)[0, 0]
    assert gap == pytest.approx(2 * R * math.sqrt(0.9), abs=1e-12)  # two spheres on one plane
    v = path.velocities(hit.time)
    assert v[1, 0] > 1.0 * path.velocities(hit.time - 1e-9)[0, 0]  # the lighter one runs ahead


def test_balls_not_in_play_take_no_part():
    start = random_start(np.random.default_rng(1))
    start = replace(start, in_play=np.array([True, False, False, False, False, False]))
    path = simulate(SMALL, start, LAWS)
    assert all(e.kind != EventKind.BALL_BALL for e in path.events)
    np.testing.assert_array_equal(path.rest_positions[1:], start.positions[1:])
    assert path.rest_pocketed[1:].all()


def test_the_horizon_ends_a_shot_on_the_way():
    start = Start.at_rest(np.array([[0.0, 0.0]]))
    start.velocities[0, 0] = 0.3
    path = simulate(SMALL, start, LAWS, horizon=0.2)
    assert math.isnan(path.rest_time)
    np.testing.assert_allclose(path.rest_positions, path.positions(0.2), atol=1e-12)
    start.velocities[0, 0], start.spins[0, 2] = 0.0, 100.0
    assert simulate(SMALL, start, LAWS, horizon=0.2).rest_time == 0  # it spins on, but travels nowhere


def test_a_ball_pressed_against_another_by_its_spin_does_not_hang():
    """Topspin drives the cue ball into a ball at the cushion: the micro-collisions are many, but they end."""
    north = SMALL.width / 2 - SMALL.ball_stop
    start = Start.at_rest(np.array([[0.2, north - 2 * R - 1e-4], [0.2, north]]))
    start.spins[0, 0] = -60.0
    path = simulate(SMALL, start, LAWS)
    assert np.isfinite(path.rest_time)
    assert 1 < len(path.events) < 100 < len(path.pieces[0])  # the hops are no events
    assert np.all(path.rest_positions[:, 1] <= north + 1e-9)


def test_wrong_input_is_refused_by_name():
    with pytest.raises(FileFormatError, match="2 balls"):
        simulate(SMALL, Start(np.zeros((2, 2)), np.zeros((1, 2)), np.zeros((2, 3)), np.ones(2, bool)), LAWS)
    with pytest.raises(FileFormatError, match=r"balls 0 and 1 overlap by 0\.001"):
        simulate(SMALL, Start.at_rest(np.array([[0.0, 0.0], [2 * R - 1e-3, 0.0]])), LAWS)
    with pytest.raises(FileFormatError, match=r"ball 0 is 0\.002 m inside cushion 3"):
        simulate(SMALL, Start.at_rest(np.array([[0.2, SMALL.width / 2 - SMALL.ball_stop + 0.002]])), LAWS)
    with pytest.raises(FileFormatError, match="not finite"):
        simulate(SMALL, Start.at_rest(np.array([[0.2, math.nan]])), LAWS)
    with pytest.raises(FileFormatError, match=r"ball 0 behind the cushions, at \(5\+0j\)"):
        simulate(SMALL, Start.at_rest(np.array([[5.0, 0.0]])), LAWS)
    path = simulate(SMALL, Start.at_rest(np.array([[0.2, 0.0]])), LAWS)
    for time in (-1.0, math.nan):
        with pytest.raises(FileFormatError, match="times"):
            path.positions(time)
