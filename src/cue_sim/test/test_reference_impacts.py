"""The reference's impacts: what every impact keeps, and the known angles of billiards."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_sim.laws import Laws
from cue_sim.reference.impacts import SLOW, Body, ball_on_ball, ball_on_nose, rebound
from cue_sim.reference.motion import Cloth, Phase

R, M = 0.028575, 0.17
LAWS = Laws.from_parameters(nominal_values())
IDEAL = replace(LAWS, ball_restitution=1.0, ball_friction=0.0)
LEVEL = np.array([1.0, 1.0, 0.0])


def ball(velocity=(0, 0), spin=(0, 0, 0), mass=M, radius=R):
    return Body(radius, mass, np.array([*velocity, 0.0], float), np.array(spin, float))


def collide(first, second, cut, laws=LAWS):
    normal = np.array([math.cos(cut), math.sin(cut), 0.0])
    push = ball_on_ball(first, second, normal, laws)
    return first.struck(first.radius * normal, -push), second.struck(-second.radius * normal, push)


def energy(body):
    return 0.5 * body.mass * body.velocity @ body.velocity + 0.5 * body.inertia * body.spin @ body.spin


def after_sliding(body):
    """Velocity of a ball once it rolls."""
    piece = Cloth(LAWS).piece(body.state(0j), R, 0.0)
    assert piece.phase == Phase.SLIDING
    return piece.end.velocity


@pytest.mark.parametrize("seed", range(20))
def test_momentum_stays_and_energy_falls(seed):
    rng = np.random.default_rng(seed)
    first = ball(rng.normal(size=2), rng.normal(0, 40, 3))
    second = ball(rng.normal(size=2), rng.normal(0, 40, 3), mass=0.15)
    cut = math.atan2(*(first.velocity - second.velocity)[1::-1]) + rng.uniform(-1.4, 1.4)
    a, b = collide(first, second, cut, replace(LAWS, ball_friction=rng.uniform(0, 0.3)))
    before = first.mass * first.velocity + second.mass * second.velocity
    np.testing.assert_allclose((a.mass * a.velocity + b.mass * b.velocity), before, atol=1e-15)
    # both balls' friction acts at one point on spheres of one size: their spins change alike, up to their inertia
    np.testing.assert_allclose(a.inertia * (a.spin - first.spin), b.inertia * (b.spin - second.spin), atol=1e-15)
    assert energy(a) + energy(b) <= (energy(first) + energy(second)) * (1 + 1e-12)


def test_a_head_on_hit_passes_the_speed_on():
    a, b = collide(ball((2, 0)), ball(), 0.0, replace(LAWS, ball_restitution=0.9))
    assert a.velocity[0] == pytest.approx(0.1) and b.velocity[0] == pytest.approx(1.9)


@pytest.mark.parametrize("cut_deg", [10, 30, 60])
def test_stun_leaves_at_right_angles(cut_deg):
    a, b = collide(ball((1.5, 0)), ball(), math.radians(cut_deg), IDEAL)
    assert a.velocity @ b.velocity == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("cut_deg", [15, 25, 30, 40])
def test_natural_roll_leaves_near_thirty_degrees(cut_deg):
    """A rolling cue ball ends at tan = sin cos / (sin^2 + 2/5) from its line (Alciatore, TP 3.3): 33.7 half-ball."""
    cut = math.radians(cut_deg)
    rolling = ball((1, 0), (0, 1 / R, 0))
    final = after_sliding(collide(rolling, ball(), cut, IDEAL)[0])
    turn = -math.degrees(math.atan2(final.imag, final.real))
    want = math.degrees(math.atan2(math.sin(cut) * math.cos(cut), math.sin(cut) ** 2 + 0.4))
    assert turn == pytest.approx(want, abs=1e-9)
    assert 25 < turn < 34
    with_friction = after_sliding(collide(rolling, ball(), cut)[0])
    assert -math.degrees(math.atan2(with_friction.imag, with_friction.real)) == pytest.approx(want, abs=4)


@pytest.mark.parametrize("cut_deg", [30, 45, 70])
def test_throw(cut_deg):
    """While the balls slip on each other the object ball turns by atan(mu) and takes 5/2 mu of its speed as spin."""
    cut = math.radians(cut_deg)
    _, b = collide(ball((1, 0)), ball(), cut)
    speed = 0.5 * 1.95 * math.cos(cut)
    assert cut - math.atan2(b.velocity[1], b.velocity[0]) == pytest.approx(math.atan(0.06), rel=1e-12)
    assert b.spin[2] == pytest.approx(2.5 * 0.06 * speed / R, rel=1e-12)


def test_a_thin_stun_hit_at_small_angle_does_not_slip_through():
    """Where friction can stop the slip it does, and no more: 1/7 of the slip goes over."""
    cut = math.radians(5)
    a, b = collide(ball((1, 0)), ball(), cut, replace(LAWS, ball_friction=0.5))
    across = np.array([-math.sin(cut), math.cos(cut), 0.0])
    assert b.velocity @ across == pytest.approx(-math.sin(cut) / 7, rel=1e-12)
    normal = np.array([math.cos(cut), math.sin(cut), 0.0])
    slip = b.point_velocity(-R * normal) - a.point_velocity(R * normal)
    assert slip @ across == pytest.approx(0, abs=1e-12)


def test_side_spin_throws_and_friction_may_fall_with_slip():
    falling = replace(LAWS, ball_friction=0.118, ball_friction_floor=0.00995, ball_friction_decay=1.088)
    for side in (20.0, 60.0):
        _, b = collide(ball((1, 0), (0, 0, side)), ball(), 0.0, falling)
        mu = 0.00995 + 0.10805 * math.exp(-1.088 * side * R)
        assert math.atan2(b.velocity[1], b.velocity[0]) == pytest.approx(math.atan(mu), rel=1e-9)


NOSE = np.array([0.0, math.sqrt(1 - 0.27**2), 0.27])


@pytest.mark.parametrize("seed", range(20))
def test_a_cushion_takes_energy(seed):
    rng = np.random.default_rng(seed)
    coming = ball((rng.normal(), rng.uniform(0.1, 3)), rng.normal(0, 40, 3))
    leaving = coming.struck(R * NOSE, ball_on_nose(coming, NOSE, 0, LAWS))
    assert leaving.velocity[1] < 0
    assert energy(leaving) <= energy(coming)


def test_a_frictionless_cushion_in_closed_form():
    laws = replace(LAWS, cushion_friction=0.0, cushion_restitution_slope=-0.05, cushion_offset=(0, 0.1, 0, 0, 0, 0))
    for speed in (0.5, 1.0, 4.0):
        coming = ball((0.7, speed), (0, 0, 20))
        leaving = coming.struck(R * NOSE, ball_on_nose(coming, NOSE, 1, laws))
        e = 0.85 + 0.1 - 0.05 * (speed - 1)
        assert leaving.velocity[1] == pytest.approx(speed - (1 + e) * speed * NOSE[1] ** 2)
        assert leaving.velocity[0] == 0.7
        np.testing.assert_allclose(leaving.spin, coming.spin, atol=1e-12)


def test_running_side_opens_the_angle_and_mirrors():
    turned = []
    for side in (-40.0, 0.0, 40.0):
        coming = ball((1, 1), (-1 / R, 1 / R, side))
        leaving = coming.struck(R * NOSE, ball_on_nose(coming, NOSE, 0, LAWS))
        mirrored = ball((-1, 1), (-1 / R, -1 / R, -side))
        other = mirrored.struck(R * NOSE, ball_on_nose(mirrored, NOSE, 0, LAWS))
        np.testing.assert_allclose(other.velocity, leaving.velocity * [-1, 1, 1], atol=1e-15)
        turned.append(leaving.velocity[0])
    assert turned[0] < turned[1] < turned[2]


def test_pressed_bodies_hop_without_loss_and_none_sticks():
    assert rebound(1.0, 0.9) == 0.9
    assert rebound(SLOW / 2, 0.9) == 0.45 * SLOW
    assert rebound(SLOW / 2, 0.9, hops=True) == SLOW / 2
    assert 0 < rebound(0.0, 0.9, hops=True) < SLOW
