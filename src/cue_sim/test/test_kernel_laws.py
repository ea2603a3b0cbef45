"""The laws of cloth, ball-ball impact and cushion against closed forms written here once more, on their own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from cue_core.errors import OutOfRangeError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim import kernel
from cue_sim.kernel import Laws, Layout
from cue_sim.model import build_spec
from cue_sim.twin import Start, Twin

TABLES = Path(__file__).parents[3] / "config" / "tables"
TABLE = TableModel.load(TABLES / "9ft.yaml")
R = TABLE.ball_radius
G = 9.81
NOMINAL = Laws.from_parameters(nominal_values())


def vector(**changes: float) -> np.ndarray:
    values = nominal_values()
    for name, value in changes.items():
        values[list(PARAMETERS).index(name)] = value
    return values


class Bench:
    """A model whose balls can be set and read directly."""

    def __init__(self, table: TableModel, balls: int, **build: object) -> None:
        ids = tuple(range(balls))
        self.model = build_spec(table, ids, visual=False, **build).compile()
        self.data = mujoco.MjData(self.model)
        self.layout = Layout.of(self.model, table, ids)
        self.in_play = np.ones(balls, np.int32)

    def run(self, position, velocity, spin, laws=NOMINAL, until=10.0, **options):
        arrays = [np.array(a, float) for a in (position, velocity, spin)]
        kernel.start(self.model, self.data, self.layout, *arrays, self.in_play)
        outcome = kernel.advance(
            self.model, self.data, self.layout, laws, self.in_play, until, check_energy=True, **options
        )
        assert outcome.fault is None
        return self.layout.velocities(self.data), self.layout.spins(self.data), outcome


def lone_ball(position, velocity, spin):
    start = Start(*(np.array([a], float) for a in (position, velocity, spin)), np.array([True]))
    return Twin(TABLE, (0,)).simulate(start, None)


@pytest.mark.parametrize("speed", [0.2, 1.0, 1.8])
def test_a_ball_without_spin_slides_then_rolls_at_five_sevenths(speed):
    bench = Bench(TABLE, 1)
    sliding = 2 * speed / (7 * 0.2 * G)
    velocity, spin, _ = bench.run([[-1.0, 0]], [[speed, 0]], [[0, 0, 0]], until=sliding)
    assert velocity[0] == pytest.approx([5 / 7 * speed, 0], abs=1e-9)
    assert spin[0] == pytest.approx([0, 5 / 7 * speed / R, 0], abs=1e-6)
    assert bench.layout.positions(bench.data)[0, 0] == pytest.approx(-1 + 12 * speed**2 / (49 * 0.2 * G), abs=1e-9)


def test_stopping_distance_and_exact_rest():
    """FAULTS M01, M04: rolling friction stops the ball where it should, and then nothing moves at all."""
    speed, rolling = 0.5, 0.010
    slid = 12 * speed**2 / (49 * 0.2 * G)
    rolled = (5 / 7 * speed) ** 2 / (2 * 5 / 7 * rolling * G)
    path = Twin(TABLE, (0,)).simulate(
        Start(*(np.array(a) for a in ([[-1.0, 0]], [[speed, 0]], [[0, 0, 0]], [True]))), None
    )
    assert path.rest_positions[0] == pytest.approx([-1 + slid + rolled, 0], abs=1e-8)
    when = 2 * speed / (7 * 0.2 * G) + 5 / 7 * speed / (5 / 7 * rolling * G)
    assert path.rest_time == pytest.approx(when, abs=0.03)  # found at the end of a step


def test_a_cloth_that_stops_nothing_is_refused():
    with pytest.raises(OutOfRangeError, match="rolling_friction"):
        Laws.from_parameters(vector(rolling_friction=0.0))
    with pytest.raises(OutOfRangeError, match="sliding_friction"):
        Laws.from_parameters(vector(sliding_friction=-0.2))


def test_upright_spin_decays_on_its_own():
    bench = Bench(TABLE, 1)
    _, spin, _ = bench.run([[0, 0]], [[0, 0]], [[0, 0, -30.0]], until=1.0)
    assert spin[0] == pytest.approx([0, 0, -20.0], abs=1e-9)
    assert bench.layout.positions(bench.data)[0] == pytest.approx([0, 0], abs=1e-12)


def test_draw_comes_back():
    path = Twin(TABLE, (0,)).simulate(
        Start(*(np.array(a) for a in ([[0.0, 0]], [[0.5, 0]], [[0, -60.0, 0]], [True]))), None
    )
    after_slip = 5 / 7 * 0.5 - 2 / 7 * R * 60
    assert after_slip < 0
    assert path.rest_positions[0, 0] < -0.02


def test_rolling_on_a_slope():
    bench = Bench(TABLE, 1)
    laws = Laws.from_parameters(vector(tilt_y=0.01, rolling_friction=0.004))
    velocity, _, _ = bench.run([[0, -0.3]], [[0, 0.1]], [[-0.1 / R, 0, 0]], laws, until=0.5)
    assert velocity[0] == pytest.approx([0, 0.1 + 5 / 7 * G * (0.01 - 0.004) * 0.5], abs=1e-6)


def impulse_on_second(n, v, w, e, mu, inverse_mass, upright):
    """Impulse [kg m/s] on body 2 of two spheres of radius R; v, w relative velocity and the sum of spins."""
    approach = -v @ n
    slip = v - (v @ n) * n - np.cross(w, R * n)
    normal = (1 + e) * approach / inverse_mass
    flat = np.array([-n[1], n[0], 0]) / math.hypot(n[0], n[1])
    up = np.cross(n, flat)
    push = np.array([slip @ flat / (3.5 * inverse_mass), slip @ up / (upright * inverse_mass)])
    if np.hypot(*push) > mu * normal:
        push = mu * normal * np.array([slip @ flat, slip @ up]) / np.linalg.norm(slip)
    return normal * n - push[0] * flat - push[1] * up


@pytest.mark.parametrize("mu", [0.0, 0.06, 0.25])
@pytest.mark.parametrize("cut_deg", [0, 20, 45, 70])
@pytest.mark.parametrize("spin", [(0, 0, 0), (0, 30, 0), (20, -40, 50)])
def test_ball_ball_impact(mu, cut_deg, spin):
    bench = Bench(TABLE, 2, masses={1: 0.16})
    cut = math.radians(cut_deg)
    n = np.array([math.cos(cut), math.sin(cut), 0.0])
    first = np.array([-0.2, 0.1])
    v0, w0 = np.array([1.3, 0, 0]), np.array(spin, float)
    m1, m2 = bench.layout.mass
    laws = Laws.from_parameters(vector(ball_friction=mu, ball_restitution=0.93))
    velocity, spins, outcome = bench.run(
        [first, first + (2 * R + 1e-8) * n[:2]], [v0[:2], [0, 0]], [w0, [0, 0, 0]], laws, contact_limit=1
    )
    assert sum(event.kind == kernel.EventKind.BALL_BALL for event in outcome.events) == 1
    # at the contact the velocity of 2 over 1 is -v0 - (w0 R) x n
    push = impulse_on_second(n, -v0, w0, 0.93, mu, 1 / m1 + 1 / m2, 2.5)
    assert velocity[0] == pytest.approx((v0 - push / m1)[:2], abs=1e-6)
    assert velocity[1] == pytest.approx(push[:2] / m2, abs=1e-6)
    for mass, got, before, side in ((m1, spins[0], w0, 1.0), (m2, spins[1], np.zeros(3), -1.0)):
        change = np.cross(side * R * n, -side * push) / (0.4 * mass * R**2)
        assert got == pytest.approx(before + change, abs=1e-3)


def test_stun_leaves_at_right_angles():
    bench = Bench(TABLE, 2)
    cut = math.radians(30)
    laws = Laws.from_parameters(vector(ball_friction=0.0, ball_restitution=1.0))
    velocity, _, _ = bench.run(
        [[0, 0], [2 * R * math.cos(cut), 2 * R * math.sin(cut)]],
        [[1, 0], [0, 0]],
        np.zeros((2, 3)),
        laws,
        contact_limit=1,
    )
    assert velocity[0] @ velocity[1] == pytest.approx(0, abs=1e-6)


def test_throw_turns_the_object_ball():
    """A stun shot at 30 degrees throws the object ball towards the cue ball's direction by atan(mu)-like angles."""
    bench = Bench(TABLE, 2)
    cut = math.radians(30)
    velocity, spins, _ = bench.run(
        [[0, 0], [2 * R * math.cos(cut), 2 * R * math.sin(cut)]], [[1, 0], [0, 0]], np.zeros((2, 3)), contact_limit=1
    )
    angle = math.degrees(math.atan2(velocity[1, 1], velocity[1, 0]))
    assert angle == pytest.approx(30 - math.degrees(math.atan(0.06)), abs=0.01)
    # side spin of -2.5 mu (1+e)/2 v cos / R: PHYSICS kw = 2.5 mu
    assert spins[1, 2] == pytest.approx(2.5 * 0.06 * 0.975 * math.cos(cut) / R * 1.0, rel=1e-3)


def cushion_reference(v, w, m, e1, slope, mu, theta):
    """Impulse at the nose (north cushion) as in a rigid 3-D sphere; the slate takes the vertical part."""
    n = np.array([0, math.cos(theta), math.sin(theta)])  # into the rubber
    approach = v @ n
    e = e1 + slope * (v[1] - 1)
    slip = v + np.cross(w, R * n) - approach * n
    speed = np.linalg.norm(slip)
    normal = m * (1 + e) * approach
    friction = min(2 / 7 * m * speed, mu * normal)
    push = -normal * n - friction * slip / max(speed, 1e-15)
    v_after = v + np.array([push[0], push[1], 0]) / m
    return v_after, w + np.cross(R * n, push) / (0.4 * m * R**2)


@pytest.mark.parametrize("v", [(0.0, 1.0), (0.8, 0.5), (-1.5, 0.3), (0.2, 2.5)])
@pytest.mark.parametrize("rolling", [0.0, 1.0])
@pytest.mark.parametrize("side", [0.0, 40.0, -40.0])
def test_cushion_impact(v, rolling, side):
    bench = Bench(TABLE, 1)
    velocity = np.array([*v, 0.0])
    spin = np.array([-v[1] * rolling / R, v[0] * rolling / R, side])
    laws = Laws.from_parameters(vector(cushion_restitution_slope=-0.05))
    start = [0.5, TABLE.width / 2 - TABLE.ball_stop - 1e-8]
    got_v, got_w, outcome = bench.run([start], [velocity[:2]], [spin], laws, contact_limit=1)
    theta = math.asin((TABLE.nose_height - R) / R)
    want_v, want_w = cushion_reference(velocity, spin, TABLE.ball_mass, 0.85, -0.05, 0.2, theta)
    assert got_v[0] == pytest.approx(want_v[:2], abs=1e-6)
    assert got_w[0] == pytest.approx(want_w, abs=1e-3)
    assert outcome.events[0].other == [c.name for c in TABLE.cushions].index("north_east")


def test_side_spin_opens_the_rebound_the_right_way():
    """FAULTS B05: with the ball running at 45 degrees north-east, running side (clockwise) opens the angle."""
    bench = Bench(TABLE, 1)
    start = [[0.5, TABLE.width / 2 - TABLE.ball_stop - 1e-8]]
    angles = []
    for side in (-40.0, 0.0, 40.0):
        velocity, _, _ = bench.run(start, [[1, 1]], [[-1 / R, 1 / R, side]], contact_limit=1)
        angles.append(velocity[0, 0])
    # the nose is to the north: a ball spinning anticlockwise (+) is pushed east by its friction there
    assert angles[0] < angles[1] < angles[2]


def test_restitution_falls_with_speed():
    """FAULTS B06: the slope of restitution is a parameter, so it need not hide in friction."""
    bench = Bench(TABLE, 1)
    ratios = []
    for speed in (0.5, 1.0, 2.0, 4.0):
        laws = Laws.from_parameters(vector(cushion_restitution_slope=-0.05, cushion_friction=0.0))
        start = [[0.5, TABLE.width / 2 - TABLE.ball_stop - 1e-8]]
        velocity, _, _ = bench.run(start, [[0, speed]], np.zeros((1, 3)), laws, contact_limit=1)
        ratios.append(-velocity[0, 1] / speed)
    cosine2 = (TABLE.ball_stop / R) ** 2
    assert ratios == pytest.approx([(1.85 - 0.05 * (s - 1)) * cosine2 - 1 for s in (0.5, 1, 2, 4)], abs=1e-5)


def test_hidden_effects_act():
    bench = Bench(TABLE, 1)
    start = [[0.5, TABLE.width / 2 - TABLE.ball_stop - 1e-8]]
    north_east = [c.name for c in TABLE.cushions].index("north_east")
    offset = tuple(-0.1 if k == north_east else 0.0 for k in range(6))
    plain, _, _ = bench.run(start, [[0, 1]], np.zeros((1, 3)), contact_limit=1)
    dull, _, _ = bench.run(start, [[0, 1]], np.zeros((1, 3)), replace(NOMINAL, cushion_offset=offset), contact_limit=1)
    assert abs(dull[0, 1]) < abs(plain[0, 1]) - 0.05
    far = {}
    for nap in (0.0, 0.2):
        far[nap] = []
        for direction in ([0.3, 0], [0, 0.3]):
            bench.run(
                [[0, -0.2]], [direction], [[-direction[1] / R, direction[0] / R, 0]], replace(NOMINAL, nap_x2=nap)
            )
            far[nap].append(np.linalg.norm(bench.layout.positions(bench.data)[0] - [0, -0.2]))
    assert far[0.2][0] == pytest.approx(far[0.0][0] / 1.2, rel=1e-6)
    assert far[0.2][1] == pytest.approx(far[0.0][1] / 0.8, rel=1e-6)


def test_ball_friction_may_fall_with_slip():
    bench = Bench(TABLE, 2)
    cut = math.radians(45)
    place = [[0, 0], [2 * R * math.cos(cut), 2 * R * math.sin(cut)]]
    laws = replace(NOMINAL, ball_friction=0.118, ball_friction_floor=0.00995, ball_friction_decay=1.088)
    for speed in (0.5, 3.0):
        velocity, _, _ = bench.run(place, [[speed, 0], [0, 0]], np.zeros((2, 3)), laws, contact_limit=1)
        mu = 0.00995 + 0.10805 * math.exp(-1.088 * speed * math.sin(cut))  # Alciatore TP A.14
        thrown = cut - math.atan2(velocity[1, 1], velocity[1, 0])
        assert math.tan(thrown) == pytest.approx(mu, rel=1e-3)


@pytest.mark.parametrize("cut_deg", [0, 30, 60])
def test_the_cluster_law_of_one_pair_is_the_two_body_law(cut_deg):
    """A third ball touches the cue ball from behind: it makes a cluster of the pair, and feels nothing."""
    bench, cluster = Bench(TABLE, 2), Bench(TABLE, 3)
    cut = math.radians(cut_deg)
    places = [[0, 0], [2 * R * math.cos(cut), 2 * R * math.sin(cut)], [-2 * R, 0]]
    speeds, spins = [[1.3, 0], [0, 0], [0, 0]], [[10, -20, 30], [0, 0, 0], [0, 0, 0]]
    alone = bench.run(places[:2], speeds[:2], spins[:2], contact_limit=1)
    # the third ball's contact is there but opens
    together = cluster.run(places, speeds, spins, contact_limit=1)
    np.testing.assert_allclose(together[0][:2], alone[0], atol=3e-3)
    np.testing.assert_allclose(together[1][:2], alone[1], atol=0.3)  # of some 30 rad/s
    np.testing.assert_allclose(together[0][2], [0, 0], atol=1e-6)
