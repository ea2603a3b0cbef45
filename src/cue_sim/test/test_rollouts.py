"""Batches: threads, progress, cancellation, bad samples; and what all shots keep: energy, the table, exactness."""

from __future__ import annotations

import math
import os
import threading

import mujoco
import numpy as np
import pytest

from cue_core.errors import OutOfRangeError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim import kernel, reference
from cue_sim.config_files import config_file
from cue_sim.kernel import EventKind, Layout
from cue_sim.laws import Laws
from cue_sim.model import CONTACT_MARGIN, build_spec
from cue_sim.rollouts import EVENT_CAPACITY, RolloutsCancelledError
from cue_sim.twin import Start, Twin

SMALL = TableModel.load(config_file("tables", "small"))
SEVEN = TableModel.load(config_file("tables", "7ft"))
NINE = TableModel.load(config_file("tables", "9ft"))


def vector(**changes):
    values = nominal_values()
    for name, value in changes.items():
        values[list(PARAMETERS).index(name)] = value
    return values


def random_start(rng, table, balls=6, speed=(0.5, 4.0)):
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


def random_starts(seed, count, table=SEVEN, **options):
    rng = np.random.default_rng(seed)
    return [random_start(rng, table, **options) for _ in range(count)]


@pytest.fixture(scope="module")
def twin():
    return Twin(SEVEN, range(6))


@pytest.fixture(scope="module")
def starts():
    return random_starts(11, 40)


def same(a, b):
    return (
        a.positions.tobytes() == b.positions.tobytes()
        and a.rest_positions.tobytes() == b.rest_positions.tobytes()
        and (a.events, a.fault, a.steps) == (b.events, b.fault, b.steps)
    )


# --- threads, progress, cancellation ---


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_shots_times_parameters_give_the_same_bits_for_any_number_of_threads(twin, starts, threads):
    rng = np.random.default_rng(0)
    sets = nominal_values() * rng.uniform(0.9, 1.0, (5, len(PARAMETERS)))
    sets[2, 0] = np.nan
    jobs, vectors = starts[:20] * len(sets), np.repeat(sets, 20, axis=0)
    times = [np.arange(0, rng.uniform(0, 4), 0.05) for _ in jobs]
    limits = [None if k % 3 else 2 for k in range(len(jobs))]
    one = twin.simulate_batch(jobs, vectors, times, limits, threads=1)
    many = twin.simulate_batch(jobs, vectors, times, limits, threads=threads)
    assert all(same(a, b) for a, b in zip(one, many, strict=True))
    alone = [twin.simulate(jobs[k], vectors[k], times[k], limits[k]) for k in (0, 19, 21, 99)]
    assert all(same(a, one[k]) for a, k in zip(alone, (0, 19, 21, 99), strict=True))


def test_a_batch_may_be_empty_or_longer_than_a_round(twin, starts):
    assert twin.simulate_batch([], nominal_values()) == []
    assert twin.simulate_batch([], np.empty((0, len(PARAMETERS)))) == []
    many = twin.simulate_batch([starts[k % 3] for k in range(1030)], nominal_values(), threads=2, until_contact=1)
    assert len(many) == 1030
    assert all(same(path, many[k % 3]) for k, path in enumerate(many))


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_told_in_the_calling_thread(twin, starts, threads):
    told, here = [], threading.get_ident()

    def progress(done, total):
        assert threading.get_ident() == here
        told.append((done, total))

    paths = twin.simulate_batch(starts * 20, nominal_values(), threads=threads, progress=progress)
    assert len(paths) == 20 * len(starts)
    assert told[-1] == (len(paths), len(paths))
    assert told == sorted(told)
    assert same(paths[3], twin.simulate(starts[3], None))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cancelled_batch_raises_and_says_how_far_it_got(twin, starts, threads):
    seen = []
    with pytest.raises(RolloutsCancelledError, match="cancelled after") as caught:
        twin.simulate_batch(
            starts * 200,
            nominal_values(),
            threads=threads,
            progress=lambda done, total: seen.append(done),
            cancelled=lambda: bool(seen and seen[-1] > 0),
        )
    assert 0 < caught.value.done < caught.value.total == 200 * len(starts)
    # the twin is as good as new
    assert same(twin.simulate(starts[0], None), twin.simulate_batch(starts[:1], nominal_values(), threads=2)[0])


def test_cancelling_does_not_wait_for_the_shot():
    """A shot of 20,000 steps and more ends within a few of them."""
    slow = Twin(SEVEN, range(6), largest_step=1e-4)
    event = threading.Event()
    event.set()
    with pytest.raises(RolloutsCancelledError) as caught:
        slow.simulate_batch(random_starts(0, 2, speed=(3, 4)), nominal_values(), threads=2, cancelled=event)
    assert caught.value.done == 0


def test_a_failing_callback_ends_the_batch(twin, starts):
    def progress(done, total):
        raise RuntimeError("window closed")

    with pytest.raises(RuntimeError, match="window closed"):
        twin.simulate_batch(starts * 50, nominal_values(), threads=2, progress=progress)
    assert threading.active_count() < 20


# --- bad samples ---


def test_m08_bad_samples_are_marked_and_the_others_unharmed(twin, starts):
    bad = {
        1: (vector(cushion_friction=np.nan), "not finite"),
        2: (vector(rolling_friction=-0.01), "bad parameters: rolling_friction"),
        3: (vector(sliding_friction=1e9), "bad parameters: sliding_friction"),
        4: (vector(ball_restitution=-3.0), "bad parameters: ball_restitution"),
        5: (vector(cushion_friction=1e12), "bad parameters: cushion_friction"),
        6: (vector(spinning_deceleration=np.inf), "not finite"),
        7: (vector(cushion_restitution=9.0), "energy gain"),
    }
    jobs, vectors = starts[:10], np.tile(nominal_values(), (10, 1))
    for job, (values, _) in bad.items():
        vectors[job] = values
    times = np.arange(0, 12, 0.5)
    paths = twin.simulate_batch(jobs, vectors, times, threads=2)
    good = twin.simulate_batch(jobs, nominal_values(), times, threads=1)
    for job, path in enumerate(paths):
        if job not in bad:
            assert path.fault is None and same(path, good[job])
            continue
        assert path.fault is not None and path.fault.startswith(bad[job][1]), (job, path.fault)
        # never "did not move"
        assert np.isnan(path.positions[-1]).all() and np.isnan(path.rest_time)
    with pytest.raises(OutOfRangeError, match="rolling_friction"):
        twin.simulate(starts[0], bad[2][0])


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda s: s.positions.__setitem__((2, 0), np.nan), "not finite"),
        (lambda s: s.spins.__setitem__((0, 1), np.inf), "not finite"),
        (lambda s: s.velocities.__setitem__((0, 0), 1e6), "bad start"),
        (lambda s: s.spins.__setitem__((0, 2), -1e8), "bad start"),
        (lambda s: s.positions.__setitem__((3, 1), 1e5), "bad start"),
        (lambda s: s.positions.__setitem__((3, 0), SEVEN.length / 2 + 5 * SEVEN.ball_radius), "bad start"),
        (lambda s: (s.positions.__setitem__(0, (0.2, SEVEN.width)), s.velocities.__setitem__(0, (1, 9))), "escape"),
    ],
)
def test_m08_a_bad_start_is_a_fault(change, fault):
    start = random_starts(4, 1)[0]
    change(start)
    alone = Start(start.positions[:1], start.velocities[:1], start.spins[:1], start.in_play[:1])
    if fault == "escape":
        # the start is set back on the table, so that the ball must be thrown off it: no cushion that could be crossed
        data = mujoco.MjData(model := build_spec(SEVEN, (0,), visual=False).compile())
        layout, in_play = Layout.of(model, SEVEN, (0,)), np.ones(1, np.int32)
        kernel.start(model, data, layout, alone.positions, alone.velocities, alone.spins, in_play)
        outcome = kernel.advance(model, data, layout, Laws.from_parameters(nominal_values()), in_play, 1.0)
        assert outcome.fault == "escape"
        return
    path = Twin(SEVEN, range(6)).simulate(start, None, [0.0, 1.0])
    assert path.fault == fault and path.steps == 0
    assert np.isnan(path.positions).all() and np.isnan(path.rest_positions).all()


@pytest.mark.parametrize(
    "spoil, fault",
    [
        (lambda data, joint: data.qvel.__setitem__(joint.dofadr[0], 1e11), "MuJoCo: bad velocity"),
        (lambda data, joint: data.qpos.__setitem__(joint.qposadr[0], np.nan), "MuJoCo: bad position"),
        (lambda data, joint: data.qfrc_applied.__setitem__(joint.dofadr[0], 1e20), "MuJoCo: bad acceleration"),
    ],
)
def test_m08_mujocos_own_warnings_are_faults(tmp_path, monkeypatch, spoil, fault):
    """Auto-reset is off and the warning counters are read: something else in the model breaks down."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it stands
    spec = build_spec(SMALL, (0,), visual=False)
    body = spec.worldbody.add_body(name="other", pos=[3, 0, 0])
    body.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
    body.add_geom(size=[0.1, 0, 0], contype=0, conaffinity=0)
    model = spec.compile()
    data, layout, in_play = mujoco.MjData(model), Layout.of(model, SMALL, (0,)), np.ones(1, np.int32)
    kernel.start(model, data, layout, np.zeros((1, 2)), np.array([[0.5, 0.0]]), np.zeros((1, 3)), in_play)
    spoil(data, model.joint("slide"))
    outcome = kernel.advance(model, data, layout, Laws.from_parameters(nominal_values()), in_play, 1.0)
    assert outcome.fault == fault


def test_m08_too_many_steps_is_a_fault():
    model = build_spec(SMALL, (0,), visual=False).compile()
    data, layout, in_play = mujoco.MjData(model), Layout.of(model, SMALL, (0,)), np.ones(1, np.int32)
    kernel.start(model, data, layout, np.zeros((1, 2)), np.array([[1.0, 0.3]]), np.zeros((1, 3)), in_play)
    laws = Laws.from_parameters(nominal_values())
    outcome = kernel.advance(model, data, layout, laws, in_play, 20.0, 0.01, step_limit=7)
    assert outcome.fault == "too many steps" and outcome.steps == 7


def test_m08_every_status_of_the_kernel_has_a_name():
    assert [kernel.fault(status) for status in range(4)] == [None] * 4
    assert len({kernel.fault(status) for status in range(-7, 0)}) == 7
    assert all(str(kernel.fault(-10 - int(w))).startswith("MuJoCo: ") for w in range(7))


# --- what every shot keeps ---


def rack(table, rng, spread=0.0):
    r = table.ball_radius
    x = table.length / 4
    balls = [[x + row * math.sqrt(3) * r, (2 * k - row) * r] for row in range(5) for k in range(row + 1)]
    positions = np.array([[-x, rng.uniform(-0.2, 0.2)], *balls])
    positions[1:] += rng.normal(0, spread, (15, 2))
    start = Start.at_rest(positions)
    towards = positions[1] + [0, rng.normal(0, 0.01)] - positions[0]
    start.velocities[0] = 8.0 * towards / np.linalg.norm(towards)
    return start


def test_m02_energy_never_rises_in_1000_shots_and_100_breaks(twin):
    rng = np.random.default_rng(3)
    breaks = Twin(NINE, range(16)).simulate_batch(
        [rack(NINE, rng, spread=2e-5 * (k % 2)) for k in range(100)], nominal_values(), threads=1
    )
    shots = twin.simulate_batch(random_starts(5, 1000), nominal_values(), threads=1)
    assert {p.fault for p in (*breaks, *shots)} == {None}
    assert max(p.energy_gain for p in (*breaks, *shots)) <= 1e-6
    assert all(np.isfinite(p.rest_time) for p in (*breaks, *shots))
    assert max(len(p.events) for p in breaks) < EVENT_CAPACITY / 4
    # the measure works: an impossible cushion gains
    values = vector(cushion_restitution=1.5)
    assert max(p.energy_gain for p in twin.simulate_batch(random_starts(5, 20), values, threads=1)) > 0.01


def test_no_ball_leaves_the_table_unannounced(twin):
    half = np.array([SEVEN.length, SEVEN.width]) / 2
    reach = half + max(p.radius for p in SEVEN.pockets) + 0.1
    for path in twin.simulate_batch(random_starts(8, 100), nominal_values(), np.arange(0, 10, 0.05), threads=1):
        live = ~path.pocketed
        assert (np.abs(path.positions) <= reach).all(axis=2)[live].all()
        assert {e.ball for e in path.events if e.kind == EventKind.POCKET} == set(np.flatnonzero(path.rest_pocketed))
        assert (np.abs(path.rest_positions) <= half)[~path.rest_pocketed].all()


@pytest.mark.parametrize("tilt", [0.0, 0.001])
def test_steps_of_any_size_lead_to_the_same_rest(tilt):
    """Without tilt every phase is in closed form and every event is met exactly, so the step changes nothing."""
    values, shots = vector(tilt_x=tilt, tilt_y=-tilt / 2), random_starts(21, 40)
    rest = {
        step: np.array(
            [p.rest_positions for p in Twin(SEVEN, range(6), largest_step=step).simulate_batch(shots, values)]
        )
        for step in (1.0, 0.2, 0.1, 0.02)
    }
    for coarse, fine in ((1.0, 0.02), (0.2, 0.1), (0.2, 0.02)):
        moved = np.hypot(*np.moveaxis(rest[coarse] - rest[fine], -1, 0)).max(axis=1)
        assert np.median(moved) < (1e-7 if tilt == 0 else 1e-6 if coarse < 1 else 1e-4)


@pytest.mark.parametrize("law", ["coulomb", "mathavan2010", "han2005", "stronge"])
def test_the_step_does_not_matter_for_any_cushion_law(law):
    shots = random_starts(22, 12)
    coarse, fine = (
        Twin(SEVEN, range(6), largest_step=step, extras={"cushion_law": law}).simulate_batch(shots, nominal_values())
        for step in (0.2, 0.02)
    )
    moved = [np.hypot(*(a.rest_positions - b.rest_positions).T).max() for a, b in zip(coarse, fine, strict=True)]
    assert np.median(moved) < 1e-6
    assert {p.fault for p in coarse} == {None} and max(p.energy_gain for p in coarse) < 1e-6


def test_rest_agrees_with_the_event_driven_reference(twin):
    """0.2 mm is asked for; both are exact, so that nanometres are left up to four contacts."""
    laws, checked = Laws.from_parameters(nominal_values()), 0
    for start in random_starts(31, 30):
        path = twin.simulate(start, None)
        contacts = path.contacts(EventKind.BALL_BALL) + path.contacts(EventKind.CUSHION)
        other = reference.simulate(SEVEN, start, laws)
        away = np.hypot(*(path.rest_positions - other.rest_positions).T).max()
        assert contacts > 4 or away < 2e-6, (contacts, away)
        checked += contacts <= 4
    assert checked >= 8


def test_balls_of_unequal_size_meet_where_the_spheres_do():
    """On one plane spheres of R1 and R2 touch 2 sqrt(R1 R2) apart in plan view; the reference knows no other."""
    radii = {b: r * SEVEN.ball_radius for b, r in enumerate((0.95, 1.0, 1.03, 1.0, 0.97, 1.0))}
    twin, laws, apart = Twin(SEVEN, range(6), radii=radii), Laws.from_parameters(nominal_values()), []
    for start in random_starts(33, 20):
        path = twin.simulate(start, None)
        other = reference.simulate(SEVEN, start, laws, radii=radii)
        apart.append(np.hypot(*(path.rest_positions - other.rest_positions).T).max())
    assert np.median(apart) < 2e-6


def test_m04_every_ball_is_exactly_at_rest_when_rest_is_told(twin, starts):
    """Nothing hums on: velocities and rolling spins are zero to the last bit at the rest time, and not just before."""
    for start in starts[:10]:
        path = twin.simulate(start, None)
        model, data = twin.model, mujoco.MjData(twin.model)
        in_play = start.in_play.astype(np.int32)
        kernel.start(model, data, twin.layout, start.positions, start.velocities, start.spins, in_play)
        laws = Laws.from_parameters(nominal_values())
        kernel.advance(model, data, twin.layout, laws, in_play, path.rest_time - 1e-3)
        assert twin.layout.moving(data, in_play).any()
        kernel.advance(model, data, twin.layout, laws, in_play, path.rest_time + 1e-3)
        assert not twin.layout.moving(data, in_play).any()
        assert not twin.layout.velocities(data)[in_play == 1].any()


def test_m04_beds_steeper_than_their_cloth_hold_are_sound():
    """Within the parameters' bounds a tilt may exceed the rolling friction: no fault, and what rests rests."""
    rng, faults, rested = np.random.default_rng(2), set(), 0
    steep = Twin(SMALL, range(4))
    for start in random_starts(6, 40, SMALL, balls=4, speed=(0.2, 2)):
        friction = rng.uniform(0.003, 0.008)
        angle, tilt = rng.uniform(0, 2 * math.pi), friction * rng.uniform(1.05, 1.3)
        values = vector(rolling_friction=friction, tilt_x=tilt * math.cos(angle), tilt_y=tilt * math.sin(angle))
        path = steep.simulate(start, values, horizon=15.0)
        faults.add(path.fault)
        rested += np.isfinite(path.rest_time)
        assert path.steps < 20_000
    assert faults == {None} and rested > 0


def test_m04_a_ball_that_leans_on_a_cushion_is_held_by_the_cloth_along_it():
    """The cushion carries the slope across it; along it the cloth holds 0.003 with 0.004, and lets 0.006 roll off."""
    for along, holds in ((0.003, True), (0.006, False)):
        values = vector(rolling_friction=0.004, tilt_x=along, tilt_y=0.01)
        start = Start.at_rest(np.array([[0.1, SMALL.width / 2 - SMALL.ball_stop]]))
        path = Twin(SMALL, (0,)).simulate(start, values, [0.0, 1.0], horizon=1.0)
        rolled = 0.0 if holds else 0.5 * 5 / 7 * 9.81 * (along - 0.004)
        assert path.positions[1, 0] - path.positions[0, 0] == pytest.approx([rolled, 0], abs=3e-5)
        assert np.isfinite(path.rest_time) == holds


# --- B01: overlaps, and one-ball tables ---


def test_b01_one_ball_is_a_table_too():
    alone = Twin(SMALL, (0,))
    start = Start.at_rest(np.zeros((1, 2)))
    start.velocities[0] = (1.2, 0.5)
    path = alone.simulate_batch([start] * 3, nominal_values(), [0.0, 1.0], threads=2)[2]
    assert path.fault is None and path.contacts(EventKind.BALL_BALL) == 0 and path.contacts(EventKind.CUSHION) > 0
    assert np.isfinite(path.rest_time)


def test_b01_overlaps_of_moving_balls_part_without_a_kick():
    """The struck ball overlaps its neighbour by 2 mm: it leaves with the stroke's energy, and no more."""
    twin = Twin(SMALL, (0, 1))
    r = SMALL.ball_radius
    start = Start.at_rest(np.array([[0.0, 0.0], [2 * r - 2e-3, 0.0]]))
    start.velocities[0] = (-0.2, 0.0)
    path = twin.simulate(start, None, [0.0, 0.05])
    assert path.fault is None and path.energy_gain == 0
    assert path.positions[0, :, 0] == pytest.approx([-1e-3, 2 * r - 1e-3], abs=1e-8)
    assert path.rest_positions[1] == pytest.approx(path.positions[0, 1], abs=1e-9)


def test_the_margin_is_the_kernels():
    """``CUE_MARGIN`` tells from which gap on MuJoCo has a contact."""
    header = os.path.join(os.path.dirname(__file__), "..", "native", "cue_kernel.h")
    with open(header, encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("#define CUE_MARGIN"))
    assert float(line.split()[2]) == CONTACT_MARGIN


def test_the_clock_tells_where_the_time_goes(twin, starts):
    spent = twin.clock_steps(starts, nominal_values())
    assert 0 < spent.mujoco < spent.total
    assert spent.steps == sum(p.steps for p in twin.simulate_batch(starts, nominal_values(), threads=1))
