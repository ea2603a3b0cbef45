"""Each law between balls against something written independently of it, and what all of them must obey."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cue_core.parameters import nominal_values
from cue_sim import laws
from cue_sim.laws import BallImpact, BallOutcome, Laws

R, M = 0.028575, 0.17
NOMINAL = Laws.from_parameters(nominal_values())
NAMES = laws.available("ball")


def play(
    name: str, velocity: object, spin: object, using: Laws = NOMINAL, mass: float = M, **own: float
) -> BallOutcome:
    """What law ``name`` makes of impacts; ``spin`` is the surface speed R w [m/s], here and in the result."""
    chosen = replace(using, ball_law=name, ball_parameters=own)
    impact = BallImpact(np.array(velocity, float), np.array(spin, float) / R, (R, R), (M, mass))
    after = laws.find("ball", name)(impact, chosen)
    return replace(after, spin=after.spin * R)


def states(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two balls on their way to each other, or (half of them) one that meets a resting ball."""
    rng = np.random.default_rng(seed)
    velocity, spin = rng.uniform(-3, 3, (count, 2, 2)), rng.normal(0, 2, (count, 2, 3))
    velocity[:, 0, 1] = rng.uniform(0.02, 4, count)
    velocity[:, 1, 1] *= -np.sign(velocity[:, 1, 1])
    velocity[::2, 1], spin[::2, 1] = 0, 0
    spin[::4, 0] = np.column_stack([-velocity[::4, 0, 1], velocity[::4, 0, 0], 0 * velocity[::4, 0, 0]])
    return velocity, spin


def energy(velocity: np.ndarray, spin: np.ndarray, mass: float = M) -> np.ndarray:
    each = 0.5 * (velocity**2).sum(-1) + 0.2 * (spin**2).sum(-1)
    return each @ [M, mass]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mass", [M, 0.6 * M])
def test_no_law_makes_energy_and_momentum_is_kept(name: str, mass: float) -> None:
    velocity, spin = states(2000)
    for friction in (0.0, 0.06, 0.25):
        using = replace(NOMINAL, ball_friction=friction, ball_restitution=1.0)
        after = play(name, velocity, spin, using, mass)
        gain = energy(after.velocity, after.spin, mass) / energy(velocity, spin, mass) - 1
        assert gain.max() < 1e-12
        push = np.einsum("b,ibk->ik", [M, mass], after.velocity - velocity) - after.slate.sum(axis=1)[:, :2]
        np.testing.assert_allclose(push, 0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_b05_mirror_images_agree(name: str) -> None:
    velocity, spin = states(500)
    left, right = play(name, velocity, spin), play(name, velocity * [-1, 1], spin * [1, -1, -1])
    np.testing.assert_array_equal(left.velocity * [-1, 1], right.velocity)
    np.testing.assert_array_equal(left.spin * [1, -1, -1], right.spin)


@pytest.mark.parametrize("name", NAMES)
def test_without_friction_the_normal_speeds_are_newtons(name: str) -> None:
    velocity, spin = states(200)
    own = {"slate_friction": 0.0} if name == "mathavan2014" else {}
    after = play(name, velocity, spin, replace(NOMINAL, ball_friction=0.0), **own)
    mean, half = velocity[..., 1].mean(axis=1), (velocity[:, 0, 1] - velocity[:, 1, 1]) / 2
    np.testing.assert_allclose(after.velocity[..., 1], np.stack([mean - 0.95 * half, mean + 0.95 * half], -1))
    np.testing.assert_allclose(after.velocity[..., 0], velocity[..., 0])
    np.testing.assert_allclose(after.spin, spin)


@pytest.mark.parametrize("name", NAMES)
def test_friction_may_fall_with_slip(name: str) -> None:
    """Alciatore TP A.14: mu = 0.00995 + 0.108 exp(-1.088 v) at the slip v; level, so the slate has no part."""
    using = replace(NOMINAL, ball_friction=0.118, ball_friction_floor=0.00995, ball_friction_decay=1.088)
    slip = np.array([0.5, 1.0, 3.0])
    velocity = np.zeros((3, 2, 2))
    velocity[:, 0] = np.column_stack([slip, np.full(3, 0.02)])  # so gently that the slip hardly changes
    after = play(name, velocity, np.zeros((3, 2, 3)), using)
    mu = after.contact[:, 0] / after.contact[:, 1]
    np.testing.assert_allclose(mu, 0.00995 + 0.10805 * np.exp(-1.088 * slip), rtol=5e-3)


def test_throw_of_a_stun_shot_is_the_coefficient_of_friction() -> None:
    for name in NAMES:
        after = play(name, [[[0.8, 1.0], [0.0, 0.0]]], np.zeros((1, 2, 3)))
        assert after.velocity[0, 1, 0] / after.velocity[0, 1, 1] == pytest.approx(0.06, rel=1e-9)


def mathavan(velocity: np.ndarray, spin: np.ndarray, e: float, mu: float, mu_slate: float) -> np.ndarray:
    """Two equal balls: the equations of motion over the normal impulse per mass, friction smoothed out.

    Returns vx0 vy0 wx0 wy0 wz0 and the same of ball 1, spins times R.
    """

    def unit(x: float, y: float) -> np.ndarray:
        return np.array([x, y]) / math.sqrt(x * x + y * y + 1e-12)

    def rates(_: float, y: np.ndarray) -> list[float]:
        ax, ay, awx, awy, awz, bx, by, bwx, bwy, bwz, _work = y
        # surfaces at the contact: ball 0's front moves with (vx - wz, wx upward), ball 1's back with (vx + wz, -wx)
        f = -mu * unit(bx + bwz - ax + awz, -bwx - awx)  # on ball 1: to the right, up
        ga = -mu_slate * max(0.0, f[1]) * unit(ax - awy, ay + awx)
        gb = -mu_slate * max(0.0, -f[1]) * unit(bx - bwy, by + bwx)
        first = [-f[0] + ga[0], -1 + ga[1], 2.5 * (-f[1] + ga[1]), -2.5 * ga[0], 2.5 * f[0]]
        second = [f[0] + gb[0], 1 + gb[1], 2.5 * (-f[1] + gb[1]), -2.5 * gb[0], 2.5 * f[0]]
        return [*first, *second, abs(ay - by)]

    def until(event: Callable[[float, np.ndarray], float], y: list[float] | np.ndarray) -> np.ndarray:
        event.terminal = True  # type: ignore[attr-defined]
        done = solve_ivp(rates, (0, 50), y, events=event, method="LSODA", rtol=1e-8, atol=1e-10)
        assert done.status == 1
        return done.y[:, -1]

    squeezed = until(lambda _, y: y[1] - y[6], [*velocity[0], *spin[0], *velocity[1], *spin[1], 0.0])
    return until(lambda _, y: y[10] - (1 + e * e) * squeezed[10], squeezed)[:10]


def test_mathavan_agrees_with_his_equations_solved_otherwise() -> None:
    velocity, spin = states(24, seed=3)
    using = replace(NOMINAL, ball_restitution=0.89, ball_friction=0.05)  # his own values
    after = play("mathavan2014", velocity, spin, using)
    for i in range(len(velocity)):
        got = np.concatenate([[*after.velocity[i, b], *after.spin[i, b]] for b in range(2)])
        want = mathavan(velocity[i], spin[i], 0.89, 0.05, 0.21)
        size = np.abs(velocity[i]).max()
        np.testing.assert_allclose(got, want, atol=5e-4 * size)


def test_mathavan_lets_the_slate_hold_the_ball_that_is_pressed_down() -> None:
    """A rolling cue ball climbs the other one, which is pressed down and leaves rolling a little less than it would."""
    plain, slated = (
        play(name, [[[0, 2.0], [0, 0]]], [[[-2.0, 0, 0], [0, 0, 0]]]) for name in ("coulomb", "mathavan2014")
    )
    assert slated.contact[0, 2] < 0  # on ball 1: down
    assert slated.slate[0, 1, 2] == pytest.approx(-slated.contact[0, 2])
    assert np.all(slated.slate[0, 0] == 0)
    assert slated.velocity[0, 1, 1] < plain.velocity[0, 1, 1]


@pytest.mark.parametrize(
    ("speed", "topspin", "cut_deg", "published"),
    [
        (1.539, 58.63, 33.83, (0.914, 0.831, 31.93, 32.20)),
        (1.032, 39.31, 26.36, (0.520, 0.599, 32.45, 25.07)),
        (1.364, 51.96, 40.52, (0.917, 0.676, 29.91, 38.62)),
        (1.731, 65.94, 46.50, (1.280, 0.780, 27.32, 44.38)),
        (0.942, 35.89, 18.05, (0.383, 0.579, 29.47, 17.15)),
    ],
)
def test_mathavan_gives_his_tables(speed: float, topspin: float, cut_deg: float, published: tuple[float, ...]) -> None:
    """Tables 1 and 2 of the paper: speeds of both balls once they roll [m/s], and their angles to the shot [deg]."""
    radius, mass, cut = 0.02625, 0.1406, math.radians(cut_deg)
    heading = np.array([math.sin(cut), math.cos(cut)])
    velocity, spin = np.zeros((2, 2)), np.zeros((2, 3))
    velocity[0], spin[0, :2] = speed * heading, topspin * np.array([-heading[1], heading[0]])
    own = {"slate_friction": 0.21}
    using = replace(NOMINAL, ball_law="mathavan2014", ball_parameters=own, ball_restitution=0.89, ball_friction=0.05)
    after = laws.find("ball", "mathavan2014")(BallImpact(velocity, spin, (radius, radius), (mass, mass)), using)
    slip = after.velocity + radius * np.stack([-after.spin[:, 1], after.spin[:, 0]], -1)
    rolling = after.velocity - 2 / 7 * slip
    speeds = np.linalg.norm(rolling, axis=1)
    angles = np.degrees(np.arccos(rolling @ heading / speeds))
    np.testing.assert_allclose([*speeds, *angles], published, rtol=1e-2)
