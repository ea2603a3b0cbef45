"""Pockets: drop, capture, hang, rattle, and jaws as the specifications want them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_core.table import Pocket, TableModel
from cue_sim import reference
from cue_sim.geometry import climb_out, longest_visit, nose_segments
from cue_sim.kernel import EventKind
from cue_sim.laws import Laws
from cue_sim.twin import Start, Trajectory, Twin

TABLES = Path(__file__).parents[3] / "config" / "tables"
NAMES = ["small", "7ft", "8ft", "9ft", "snooker"]
WPA = ["7ft", "8ft", "9ft"]
BRAKING = 5 / 7 * 0.01 * 9.81
"""Deceleration of a rolling ball on the nominal cloth [m/s^2]."""
STEP = 2e-4
"""Between samples of balls over a drop [s]."""


@cache
def _twin(name: str) -> Twin:
    return Twin(TableModel.load(TABLES / f"{name}.yaml"), (0,))


def _inwards(pocket: Pocket) -> np.ndarray:
    """Return the unit vector (2,) from a pocket's mouth into the table."""
    side = pocket.name.startswith("side")
    way = -np.sign(pocket.position) * (np.array([0.0, 1.0]) if side else 1.0)
    return way / np.linalg.norm(way)


def _rolling(table: TableModel, place: np.ndarray, velocity: np.ndarray) -> Start:
    spin = np.array([[-velocity[1], velocity[0], 0.0]]) / table.ball_radius
    return Start(place[None].copy(), velocity[None].copy(), spin, np.array([True]))


def _one_of_each(table: TableModel) -> list[Pocket]:
    return [p for p in table.pockets if p.name in ("corner_ne", "side_s")]


@pytest.mark.parametrize("past, falls", [(-1e-3, False), (-1e-4, False), (1e-4, True), (2e-3, True)])
@pytest.mark.parametrize("name", NAMES)
def test_a_slow_ball_drops_when_its_centre_is_past_the_edge_and_hangs_before(
    name: str, past: float, falls: bool
) -> None:
    twin = _twin(name)
    for pocket in _one_of_each(twin.table):
        inwards, way = _inwards(pocket), 0.02
        place = pocket.position + (pocket.radius + way) * inwards
        path = twin.simulate(_rolling(twin.table, place, -math.sqrt(2 * BRAKING * (way + past)) * inwards), None)
        assert path.fault is None and np.isfinite(path.rest_time)
        assert path.rest_pocketed[0] == falls, pocket.name
        if not falls:  # it lies where it stopped, in play
            gap = np.linalg.norm(path.rest_positions[0] - pocket.position) - pocket.radius
            assert gap == pytest.approx(-past, abs=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_hanging_ball_stays_until_it_is_touched(name: str) -> None:
    table = _twin(name).table
    twin = Twin(table, (0, 5))
    for pocket in _one_of_each(table):
        inwards = _inwards(pocket)
        hanging = pocket.position + (pocket.radius + 1e-3) * inwards
        places = np.array([hanging + 0.15 * inwards, hanging])
        assert not twin.simulate(Start.at_rest(places), None).rest_pocketed.any()
        start = Start.at_rest(places)
        start.velocities[0] = -0.3 * inwards
        path = twin.simulate(start, None)
        assert path.rest_pocketed[1] and path.fault is None
        assert path.events[0].kind == EventKind.BALL_BALL


@pytest.mark.parametrize("name", NAMES)
def test_a_ball_down_the_middle_is_taken_at_any_speed(name: str) -> None:
    twin = _twin(name)
    for k, pocket in enumerate(twin.table.pockets):
        for speed in (0.3, 1.0, 3.0, 6.0, 10.0):
            place = pocket.position + (pocket.radius + 0.1) * _inwards(pocket)
            path = twin.simulate(_rolling(twin.table, place, -speed * _inwards(pocket)), None)
            assert [(e.kind, e.other) for e in path.events] == [(EventKind.POCKET, k)], (pocket.name, speed)
            assert path.fault is None


def _down_the_rail(twin: Twin, speed: float) -> list[Trajectory]:
    """Return what becomes of balls that roll along the north rail into the north-east pocket, off it by 0 to 1 R."""
    table, paths = twin.table, []
    for gap in np.linspace(0.02, 1.0, 25) * table.ball_radius:
        place = np.array([0.30 * table.length, table.width / 2 - table.ball_stop - gap])
        paths.append(twin.simulate(_rolling(table, place, np.array([speed, 0.0])), None))
    assert all(path.fault is None for path in paths)
    return paths


@pytest.mark.parametrize("name", NAMES)
def test_a_fast_ball_rattles_out_of_jaws_that_take_a_slow_one(name: str) -> None:
    twin = _twin(name)
    # the small table's shelf is short: it takes a harder blow
    slow, fast = _down_the_rail(twin, 0.8), _down_the_rail(twin, 8.0 if name == "small" else 5.0)
    rattled = 0
    for gentle, hard in zip(slow, fast, strict=True):
        jaws = [e.other for e in hard.events[:3] if e.kind == EventKind.CUSHION and e.time < 0.5]
        rattled += gentle.rest_pocketed[0] and not hard.rest_pocketed[0] and len(set(jaws)) > 1
    assert rattled >= 1
    assert sum(p.rest_pocketed[0] for p in slow) > sum(p.rest_pocketed[0] for p in fast)


def _taken_by_side(twin: Twin, angle: float, speed: float) -> float:
    """Return the width [m] over which balls that come at an angle [rad] to its axis enter the north side pocket."""
    table = twin.table
    way = np.array([math.sin(angle), math.cos(angle)])
    across = np.array([way[1], -way[0]])
    offsets = np.linspace(-0.5, 0.5, 41) * table.side_mouth
    taken = 0
    for offset in offsets:
        place = np.array([0.0, table.width / 2]) + offset * across - 0.3 * table.width * way
        if table.inside(place, 1e-4):
            taken += bool(twin.simulate(_rolling(table, place, speed * way), None, horizon=1.0).rest_pocketed[0])
    return taken * float(offsets[1] - offsets[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_side_pocket_refuses_steep_angles(name: str) -> None:
    twin = _twin(name)
    widths = [_taken_by_side(twin, math.radians(angle), 1.5) for angle in (0, 30, 50, 75)]
    assert widths[0] > 1.0 * twin.table.ball_radius
    assert widths[1] > widths[2] > widths[3]
    assert widths[3] < 0.2 * twin.table.ball_radius


@pytest.mark.parametrize("name", NAMES)
def test_facings_are_cut_as_the_wpa_wants_them_and_mouths_measured_tip_to_tip(name: str) -> None:
    table = _twin(name).table
    segments = nose_segments(table)
    tips: dict[str, list[np.ndarray]] = {"corner": [], "side": []}
    for cushion in table.cushions:
        _, start, end = segments[f"nose_{cushion.name}"]
        for which, at, other, tip in (("start", start, end, cushion.start), ("end", end, start, cushion.end)):
            _, root, tail = segments[f"jaw_{cushion.name}_{which}"]
            np.testing.assert_array_equal(root, at)  # one cap rounds both
            nose, facing = other - at, tail - root
            angle = math.degrees(math.acos(nose @ facing / np.linalg.norm(nose) / np.linalg.norm(facing)))
            side = abs(tip[0]) < 0.1 * table.length
            assert angle == pytest.approx(104 if side else 142, abs=1)
            tips["side" if side else "corner"].append(tip)
            # The rubber's surface of nose and facing meet in the tip from which the mouth is measured.
            for along in (nose, facing):
                normal = np.array([-along[1], along[0]]) / np.linalg.norm(along)
                rubber = 0.3 * table.ball_radius * math.cos(math.asin(table.nose_height / table.ball_radius - 1))
                assert abs((tip - root) @ normal) == pytest.approx(rubber, abs=1e-9)
    for kind, mouth in (("corner", table.corner_mouth), ("side", table.side_mouth)):
        for tip in tips[kind]:
            gaps = sorted(float(np.linalg.norm(tip - t)) for t in tips[kind])
            assert gaps[1] == pytest.approx(mouth)


@pytest.mark.parametrize("name", WPA)
def test_pool_presets_lie_within_the_wpa_specifications(name: str) -> None:
    table, inch = _twin(name).table, 0.0254
    assert 2 * table.ball_radius == pytest.approx(2.25 * inch, abs=1e-5)
    assert 0.156 <= table.ball_mass <= 0.170
    assert 0.625 <= table.nose_height / (2 * table.ball_radius) <= 0.645
    assert 4.5 * inch <= table.corner_mouth <= 4.625 * inch
    assert 5.0 * inch <= table.side_mouth <= 5.125 * inch
    assert 1.0 * inch <= table.corner_shelf <= 2.25 * inch
    assert 0.0 <= table.side_shelf <= 0.375 * inch
    assert 4.0 * inch <= table.rail_width <= 7.5 * inch
    assert table.length == pytest.approx(2 * table.width, abs=1e-9)


def _into_the_jaws(table: TableModel, count: int, seed: int) -> list[Start]:
    """Return balls that head for the tips of all jaws, from anywhere near, at 0.2-8 m/s, half of them with any spin."""
    generator = np.random.default_rng(seed)
    tips = [tip for cushion in table.cushions for tip in (cushion.start, cushion.end)]
    starts: list[Start] = []
    while len(starts) < count:
        tip = tips[len(starts) % len(tips)]
        angle = generator.uniform(0, 2 * math.pi)
        place = tip + generator.uniform(0.05, 0.6) * table.width * np.array([math.cos(angle), math.sin(angle)])
        if not table.inside(place, 1e-4):
            continue
        aim = tip + 0.7 * table.corner_mouth * generator.uniform(-1, 1, 2) - place
        velocity = math.exp(generator.uniform(math.log(0.2), math.log(8))) * aim / np.linalg.norm(aim)
        start = _rolling(table, place, velocity)
        if len(starts) % 2:
            start.spins[0] = generator.uniform(-1, 1, 3) * np.linalg.norm(velocity) / table.ball_radius
        starts.append(start)
    return starts


@pytest.mark.parametrize("name", NAMES)
def test_no_ball_escapes_or_sticks_in_the_jaws(name: str) -> None:
    """FAULTS M03: also with thousands of shots (measured once: 3,000 per table, no fault)."""
    twin = _twin(name)
    segments, reach = twin.layout.segments, twin.layout.reach[:, 0]
    line = segments[:, 2:] - segments[:, :2]
    paths = twin.simulate_batch(_into_the_jaws(twin.table, 250, 5), nominal_values())
    for path in paths:
        assert path.fault is None and np.isfinite(path.rest_time)
        if not path.rest_pocketed[0]:
            off = path.rest_positions[0] - segments[:, :2]
            share = np.clip(np.sum(off * line, axis=1) / np.sum(line**2, axis=1), 0, 1)
            assert (np.linalg.norm(off - share[:, None] * line, axis=1) - reach).min() > -2e-6
    assert 0.1 < np.mean([path.rest_pocketed[0] for path in paths]) < 0.9


def _visits(name: str) -> list[tuple[Trajectory, Pocket, int, int, np.ndarray, np.ndarray]]:
    """Return what hard shots at jaws do over drops: path, pocket, the samples inside, (T, 2) places and velocities."""
    twin, found = _twin(name), []
    times = np.arange(0.0, 1.0, STEP)
    for start in _into_the_jaws(twin.table, 600, 8):
        if np.linalg.norm(start.velocities[0]) < 2.5:
            continue
        path = twin.simulate(start, None, times, horizon=1.0)
        way, gone = path.positions[:, 0], path.pocketed[:, 0]
        for pocket in twin.table.pockets:
            over = (np.linalg.norm(way - pocket.position, axis=1) < pocket.radius) & ~gone
            edges = np.flatnonzero(np.diff(over.astype(int)))
            for enter, leave in zip(edges[::2], edges[1::2], strict=False):
                found.append((path, pocket, int(enter) + 1, int(leave), way, np.diff(way, axis=0) / STEP))
    return found


@pytest.mark.parametrize("name", ["small", "9ft"])
def test_a_ball_gets_out_of_a_drop_only_if_it_can_climb(name: str) -> None:
    """Every visit is timed on the sampled path: who leaves was quick enough and is slower for it, others were not."""
    radius = _twin(name).table.ball_radius
    left = taken = 0
    for path, pocket, enter, leave, way, velocity in _visits(name):
        if any(abs(e.time - leave * STEP) < 4 * STEP and e.kind == EventKind.CUSHION for e in path.events):
            continue  # what a jaw has just done to its speed is not sampled
        visit, speed = (leave + 1 - enter) * STEP, float(np.linalg.norm(velocity[leave - 1]))
        off = way[leave] - pocket.position
        outwards = float(velocity[leave - 1] @ off / np.linalg.norm(off))
        at_edge = np.linalg.norm(off) > pocket.radius - speed * STEP and outwards > 0
        if path.pocketed[leave + 1, 0]:
            taken += 1
            whole = np.linalg.norm(off) < max(pocket.radius - radius, 0.3 * pocket.radius) + speed * STEP + 1e-4
            beyond = off @ _inwards(pocket) < speed * STEP
            fallen = visit > longest_visit(speed, radius) - 2 * STEP
            assert whole or beyond or fallen or (at_edge and climb_out(outwards, visit + STEP, radius) is None)
        else:
            left += 1
            most, least = (climb_out(outwards, visit + more, radius) for more in (-STEP, STEP))
            after = way[leave + 1] - pocket.position
            new = float(velocity[leave + 2] @ after / np.linalg.norm(after))
            assert at_edge and most is not None
            assert (least[0] if least else 0.0) - 0.02 * speed < new < most[0] + 0.02 * speed
    assert left > 1 and taken > 20


@pytest.mark.parametrize("speed, hops", [(2.5, False), (4.0, True), (1.2, None)])
def test_a_ball_that_crosses_a_drop_climbs_out_by_the_law_and_its_hop_is_named(speed: float, hops: bool | None) -> None:
    """Over a drop so wide that no jaw is in the way; too slow a ball (None) is lost to it."""
    table = replace(_twin("9ft").table, corner_mouth=0.3, corner_shelf=0.0)
    pocket, inwards = table.pockets[0], _inwards(table.pockets[0])
    across = np.array([inwards[1], -inwards[0]])
    middle = pocket.radius - (0.005 if speed < 4 else 0.02)  # how near the hole's middle it comes
    half = math.sqrt(pocket.radius**2 - middle**2)
    place = pocket.position + middle * inwards - (half + 0.01) * across
    times = np.arange(0.0, (2 * half + 0.02) / speed + 0.02, 1e-5)
    path = Twin(table, (0,)).simulate(_rolling(table, place, speed * across), None, times, horizon=0.2)
    if hops is None:
        assert path.rest_pocketed[0] and path.events[0].kind == EventKind.POCKET
        return
    way = path.positions[:, 0]
    off = way - pocket.position
    distance = np.linalg.norm(off, axis=1)
    enter, leave = np.flatnonzero(np.diff((distance < pocket.radius).astype(int)))[:2]
    visit = 2 * half / float(np.linalg.norm(way[leave] - way[enter]) / (leave - enter) / 1e-5)
    out = [float((way[k + 1] - way[k]) @ off[k] / distance[k] / 1e-5) for k in (leave - 1, leave + 2)]
    climbed = climb_out(out[0], visit, table.ball_radius)
    assert climbed is not None
    assert out[1] == pytest.approx(climbed[0], rel=0.01)
    assert out[1] < 0.9 * out[0]
    assert (climbed[1] > 3e-3) == hops
    assert (path.events[0].kind == EventKind.AIRBORNE) == hops
    assert path.fault is None


@pytest.mark.parametrize("speed, time", [(1.0, 0.0), (0.5, 0.005), (1.5, 0.015), (3.0, 0.03), (8.0, 0.02)])
def test_climbing_out_of_a_drop_keeps_less_than_the_energy_before(speed: float, time: float) -> None:
    radius, gravity = 0.028575, 9.81
    climbed = climb_out(speed, time, radius)
    assert climbed is not None
    after, hop = climbed
    depth = gravity * time**2 / 2
    had = speed**2 / 2 + (gravity * time) ** 2 / 2 - gravity * depth
    has = after**2 / 2 + gravity * hop
    assert (has == pytest.approx(had)) if time == 0 else (has < had)
    assert hop >= 0 and (time < 0.02 or hop > 3e-3)
    limit = longest_visit(speed, radius)
    assert climb_out(speed, limit * (1 - 1e-9), radius) is not None
    assert climb_out(speed, limit * (1 + 1e-9), radius) is None


@pytest.mark.parametrize("name", ["small", "snooker"])
def test_jaws_and_drops_end_as_in_the_independent_reference(name: str) -> None:
    twin, laws, apart = _twin(name), Laws.from_parameters(nominal_values()), []
    for start in _into_the_jaws(twin.table, 40, 57):
        path, other = twin.simulate(start, None), reference.simulate(twin.table, start, laws, horizon=60.0)
        assert bool(path.rest_pocketed[0]) == bool(other.rest_pocketed[0])
        if not path.rest_pocketed[0]:
            apart.append(float(np.linalg.norm(path.rest_positions - other.rest_positions)))
    assert np.median(apart) < 1e-6 and np.percentile(apart, 90) < 1e-4


def test_time_to_fall_grows_with_speed_up_to_the_fall_itself() -> None:
    radius = 0.028575
    visits = [longest_visit(speed, radius) for speed in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0)]
    assert visits[0] == pytest.approx(0, abs=1e-9) and np.all(np.diff(visits) > 0)
    assert visits[-1] < math.sqrt(2 * radius / 9.81)
    for speed, visit in zip((0.1, 0.5, 1.0, 3.0, 10.0), visits[1:], strict=True):
        depth = 9.81 * visit**2 / 2
        lean = math.acos(1 - depth / radius)
        left = speed * math.cos(lean) - 9.81 * visit * math.sin(lean)
        assert left == pytest.approx(math.sqrt(2 * 9.81 * depth), rel=1e-6)


def test_a_rattle_does_not_depend_on_steps_or_on_the_side_it_happens_on() -> None:
    table = _twin("small").table
    fine = Twin(table, (0,), largest_step=0.01)
    starts = [s for s in _into_the_jaws(table, 120, 21) if np.linalg.norm(s.velocities[0]) > 2.0]
    for start in starts:
        whole, halved = (t.simulate(start, None) for t in (_twin("small"), fine))
        assert [e[1:] for e in whole.events[:4]] == [e[1:] for e in halved.events[:4]]
        mirror = np.array([-1.0, 1.0])
        mirrored = Start(mirror * start.positions, mirror * start.velocities, start.spins * [1, -1, -1], start.in_play)
        other = _twin("small").simulate(mirrored, None)
        assert other.rest_pocketed[0] == whole.rest_pocketed[0]
        if not whole.rest_pocketed[0]:
            np.testing.assert_allclose(mirror * other.rest_positions, whole.rest_positions, atol=1e-7)
