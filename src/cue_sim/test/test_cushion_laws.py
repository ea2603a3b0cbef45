"""Each cushion law against something written independently of it, and what all of them must obey."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim import kernel, laws
from cue_sim.geometry import contact_tilt
from cue_sim.laws import CushionImpact, CushionOutcome, Laws
from cue_sim.model import build_spec

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "9ft.yaml")
R, M, TILT = TABLE.ball_radius, TABLE.ball_mass, contact_tilt(TABLE)
C, S = math.cos(TILT), math.sin(TILT)
NOMINAL = Laws.from_parameters(nominal_values())
NAMES = laws.available("cushion")


def play(name: str, velocity: object, spin: object, using: Laws = NOMINAL, **own: float) -> CushionOutcome:
    """What law ``name`` makes of impacts; ``spin`` is the surface speed R w [m/s], here and in the result."""
    chosen = replace(using, cushion_law=name, cushion_parameters=own)
    impact = CushionImpact(np.array(velocity, float), np.array(spin, float) / R, R, M, TILT)
    after = laws.find("cushion", name)(impact, chosen)
    return replace(after, spin=after.spin * R)


def states(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Incoming velocities and surface speeds of spin: a third rolls, some of those with side spin."""
    rng = np.random.default_rng(seed)
    velocity = np.column_stack([rng.uniform(-3, 3, count), rng.uniform(0.03, 4, count)])
    spin = rng.normal(0, 2, (count, 3))
    rolling = slice(0, count // 3)
    spin[rolling, 0], spin[rolling, 1] = -velocity[rolling, 1], velocity[rolling, 0]
    spin[: count // 6, 2] = 0
    return velocity, spin


def energy(velocity: np.ndarray, spin: np.ndarray) -> np.ndarray:
    return 0.5 * (velocity**2).sum(-1) + 0.2 * (spin**2).sum(-1)


# What all laws obey ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_no_law_makes_energy(name: str) -> None:
    velocity, spin = states(3000)
    for friction in (0.0, 0.2, 0.5):
        for restitution in (0.5, 1.0):
            using = replace(NOMINAL, cushion_restitution=restitution, cushion_friction=friction)
            after = play(name, velocity, spin, using)
            gain = energy(after.velocity, after.spin) / energy(velocity, spin) - 1
            assert gain.max() < 1e-12, (friction, restitution)
            assert np.all(after.velocity[:, 1] < 1e-12)  # no ball goes on into the cushion


@pytest.mark.parametrize("name", [name for name in NAMES if laws.find("cushion", name).parameters])
def test_no_value_of_a_laws_own_parameters_makes_energy_or_nonsense(name: str) -> None:
    velocity, spin = states(500)
    rng, parameters = np.random.default_rng(6), laws.find("cushion", name).parameters.values()
    for draw in range(8):
        share = rng.integers(0, 2, len(parameters)) if draw < 4 else rng.uniform(size=len(parameters))  # corners first
        own = {p.name: p.minimum + float(s) * (p.maximum - p.minimum) for p, s in zip(parameters, share, strict=True)}
        after = play(name, velocity, spin, replace(NOMINAL, cushion_restitution=1.0), **own)
        assert np.isfinite(after.velocity).all() and np.isfinite(after.spin).all(), own
        assert np.all(energy(after.velocity, after.spin) <= energy(velocity, spin) * (1 + 1e-12)), own
        assert np.all(-(after.nose @ [0, C, S]) > 0), own


@pytest.mark.parametrize("name", NAMES)
def test_b05_mirror_images_agree(name: str) -> None:
    velocity, spin = states(500)
    left, right = play(name, velocity, spin), play(name, velocity * [-1, 1], spin * [1, -1, -1])
    np.testing.assert_array_equal(left.velocity * [-1, 1], right.velocity)
    np.testing.assert_array_equal(left.spin * [1, -1, -1], right.spin)


@pytest.mark.parametrize("name", NAMES)
def test_b05_running_side_opens_the_rebound(name: str) -> None:
    """A ball that runs to the right at 45 degrees; seen from above, anticlockwise spin runs with it at the nose."""
    sides = np.array([-1.0, 0.0, 1.0])
    spin = np.column_stack([np.full(3, -1.0), np.full(3, 1.0), sides])
    after = play(name, np.ones((3, 2)), spin)
    assert np.all(np.diff(after.velocity[:, 0]) > 0.01)


@pytest.mark.parametrize("name", NAMES)
def test_friction_stays_within_its_cone_and_the_slate_only_pushes(name: str) -> None:
    velocity, spin = states(1000)
    after = play(name, velocity, spin)
    normal = -(after.nose @ [0, C, S])
    across = after.nose + normal[:, None] * [0, C, S]
    limit = 0.2 if name != "han2005" else 0.2 * 0.471 / (0.471 - 0.241 * math.pi / 4)
    assert np.all(np.linalg.norm(across, axis=1) <= limit * normal * (1 + 1e-9))
    assert np.all(after.slate[:, 2] >= 0)
    np.testing.assert_allclose(after.slate[:, 2], np.maximum(0, -after.nose[:, 2]))


@pytest.mark.parametrize("name", NAMES)
def test_without_friction_only_the_normal_speed_changes(name: str) -> None:
    velocity, spin = states(200)
    using = replace(NOMINAL, cushion_friction=0.0)
    own = {"slate_friction": 0.0} if name == "mathavan2010" else {}
    if name == "han2005":
        own = {"restitution_linear": 0.0, "restitution_quadratic": 0.0}
    after = play(name, velocity, spin, using, **own)
    np.testing.assert_allclose(after.velocity[:, 0], velocity[:, 0])
    np.testing.assert_allclose(after.spin, spin)
    # held by nose and slate at once the ball returns e of its speed; free at the nose it gives part to the slate
    kept = -0.85 if name == "mathavan2010" else 1 - 1.85 * C**2
    np.testing.assert_allclose(after.velocity[:, 1], kept * velocity[:, 1])


@pytest.mark.parametrize("name", NAMES)
def test_a_ball_that_does_not_approach_is_left_alone(name: str) -> None:
    after = play(name, [[1.0, 0.0], [1.0, -0.5]], np.ones((2, 3)))
    np.testing.assert_array_equal(after.velocity, [[1.0, 0.0], [1.0, -0.5]])
    np.testing.assert_array_equal(after.nose, np.zeros((2, 3)))


@pytest.mark.parametrize("name", NAMES)
def test_b06_restitution_falls_with_speed_by_the_slope_asked_for(name: str) -> None:
    """Rebounds at 0.5, 1, 2, 4 m/s without friction give e(v) back, and its slope to 0.1 %."""
    speeds = np.array([0.5, 1.0, 2.0, 4.0])
    using = replace(NOMINAL, cushion_friction=0.0, cushion_restitution=0.8, cushion_restitution_slope=-0.06)
    own = {"slate_friction": 0.0} if name == "mathavan2010" else {}
    if name == "han2005":
        own = {"restitution_linear": 0.0, "restitution_quadratic": 0.0}
    after = play(name, np.column_stack([0 * speeds, speeds]), np.zeros((4, 3)), using, **own)
    ratio = -after.velocity[:, 1] / speeds
    e = ratio if name == "mathavan2010" else (1 + ratio) / C**2 - 1
    slope, at_rest = np.polyfit(speeds, e, 1)
    assert slope == pytest.approx(-0.06, rel=1e-3)
    assert at_rest == pytest.approx(0.86, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_falling_restitution_is_not_carried_beyond_one_nor_to_nothing(name: str) -> None:
    own = {"slate_friction": 0.0} if name == "mathavan2010" else {}
    if name == "han2005":
        own = {"restitution_linear": 0.0, "restitution_quadratic": 0.0}
    using = replace(NOMINAL, cushion_friction=0.0, cushion_restitution=0.9, cushion_restitution_slope=-0.25)
    after = play(name, [[0, 0.02], [0, 9.0]], np.zeros((2, 3)), using, **own)
    ratio = -after.velocity[:, 1] / [0.02, 9.0]
    e = ratio if name == "mathavan2010" else (1 + ratio) / C**2 - 1
    np.testing.assert_allclose(e, [1.0, 0.05], rtol=1e-6)


class Bench:
    """One ball in a model."""

    def __init__(self) -> None:
        self.model = build_spec(TABLE, (0,), visual=False).compile()
        self.data = mujoco.MjData(self.model)
        self.layout = kernel.Layout.of(self.model, TABLE, (0,))

    def meet(self, velocity: np.ndarray, spin: np.ndarray, using: Laws) -> tuple[np.ndarray, np.ndarray]:
        """Let the ball touch the north cushion; return velocity and R w just after, in the law's axes (the table's)."""
        place = np.array([[0.5, TABLE.width / 2 - TABLE.ball_stop]])
        playing = np.ones(1, np.int32)
        kernel.start(self.model, self.data, self.layout, place, velocity[None].copy(), spin[None] / R, playing)
        outcome = kernel.advance(self.model, self.data, self.layout, using, playing, 1.0, contact_limit=1)
        assert outcome.fault is None and outcome.events[0].kind == kernel.EventKind.CUSHION
        return self.layout.velocities(self.data)[0], self.layout.spins(self.data)[0] * R


@pytest.mark.parametrize("name", NAMES)
def test_mujoco_delivers_the_law(name: str) -> None:
    """Nose and slate impulses arrive through the solver to 1e-9 m/s: nothing is lost in between."""
    bench, using = Bench(), replace(NOMINAL, cushion_law=name, cushion_restitution_slope=-0.03)
    velocity, spin = states(45, seed=1)
    after = play(name, velocity, spin, using)
    for i in range(len(velocity)):
        got_velocity, got_spin = bench.meet(velocity[i], spin[i], using)
        np.testing.assert_allclose(got_velocity, after.velocity[i], atol=1e-9)
        np.testing.assert_allclose(got_spin, after.spin[i], atol=1e-9)


# Han ------------------------------------------------------------------------------------------------------------------


def test_han_without_his_shapes_is_the_plain_impact() -> None:
    velocity, spin = states(300)
    flat = {"restitution_linear": 0.0, "restitution_quadratic": 0.0, "friction_linear": 0.0}
    han, plain = play("han2005", velocity, spin, **flat), play("coulomb", velocity, spin)
    np.testing.assert_allclose(han.velocity, plain.velocity, atol=1e-13)
    np.testing.assert_allclose(han.spin, plain.spin, atol=1e-13)


def test_han_follows_his_measurements() -> None:
    """Eq. 26 head on; eq. 27 for a ball that slips all through; his own values with e = 0.603 and mu at 45 degrees."""
    middle = 0.471 - 0.241 * math.pi / 4
    using = replace(NOMINAL, cushion_restitution=0.39 + 0.257 - 0.044, cushion_friction=middle)
    speeds = np.array([0.3, 1.0, 2.0, 2.9])
    after = play("han2005", np.column_stack([0 * speeds, speeds]), np.zeros((4, 3)), replace(using, cushion_friction=0))
    e = (1 - after.velocity[:, 1] / speeds) / C**2 - 1
    np.testing.assert_allclose(e, 0.39 + 0.257 * speeds - 0.044 * speeds**2, rtol=1e-12)
    beyond = play("han2005", [[0, 6.0]], np.zeros((1, 3)), replace(using, cushion_friction=0))
    assert (1 - beyond.velocity[0, 1] / 6) / C**2 - 1 == pytest.approx(0.39 + 0.257**2 / (4 * 0.044))
    angle = np.array([0.2, 0.8, 1.3])
    velocity = np.column_stack([np.sin(angle), np.cos(angle)])
    slipping = play("han2005", velocity, np.tile([0, 0, -30.0], (3, 1)), using)
    normal = -(slipping.nose @ [0, C, S])
    across = np.linalg.norm(slipping.nose + normal[:, None] * [0, C, S], axis=1)
    np.testing.assert_allclose(across / normal, 0.471 - 0.241 * angle, rtol=1e-9)


# Mathavan -------------------------------------------------------------------------------------------------------------


def mathavan(velocity: np.ndarray, spin: np.ndarray, e: float, mu: float, mu_slate: float) -> np.ndarray:
    """Velocity and R w after the impact: the paper's equations of motion by an adaptive solver, friction smoothed."""

    def unit(x: float, y: float) -> np.ndarray:
        return np.array([x, y]) / math.sqrt(x * x + y * y + 1e-12)

    def rates(_: float, y: np.ndarray) -> list[float]:
        vx, vy, wx, wy, wz, _work = y
        i = unit(vx + wy * S - wz * C, -vy * S + wx)
        c = unit(vx - wy, vy + wx)
        press = max(0.0, S + mu * i[1] * C)
        return [
            -(mu * i[0] + mu_slate * c[0] * press),
            -(C - mu * S * i[1] + mu_slate * c[1] * press),
            -2.5 * (mu * i[1] + mu_slate * c[1] * press),
            -2.5 * (mu * i[0] * S - mu_slate * c[0] * press),
            2.5 * mu * i[0] * C,
            abs(vy) * C,
        ]

    def until(event: Callable[[float, np.ndarray], float], y: list[float] | np.ndarray) -> np.ndarray:
        event.terminal = True  # type: ignore[attr-defined]
        done = solve_ivp(rates, (0, 20 * velocity[1]), y, events=event, method="LSODA", rtol=1e-8, atol=1e-10)
        assert done.status == 1
        return done.y[:, -1]

    squeezed = until(lambda _, y: y[1], [*velocity, *spin, 0.0])
    return until(lambda _, y: y[5] - (1 + e * e) * squeezed[5], squeezed)[:5]


def test_mathavan_agrees_with_his_equations_solved_otherwise() -> None:
    velocity, spin = states(36, seed=2)
    using = replace(NOMINAL, cushion_restitution=0.98, cushion_friction=0.14)  # his own values
    after = play("mathavan2010", velocity, spin, using)
    got = np.hstack([after.velocity, after.spin])
    for i in range(len(velocity)):
        want = mathavan(velocity[i], spin[i], 0.98, 0.14, 0.212)
        size = math.hypot(*velocity[i], *(0.4 * spin[i]))
        np.testing.assert_allclose(got[i], want, atol=1e-3 * size)


@pytest.mark.parametrize("backspin", [4.0, 8.0])
def test_mathavan_head_on_with_much_backspin_is_in_closed_form(backspin: float) -> None:
    """Both contacts slip one way all through, so forces are constant: the ball returns e of its speed."""
    speed, e, mu, mu_slate = 1.0, 0.9, 0.14, 0.2
    using = replace(NOMINAL, cushion_restitution=e, cushion_friction=mu)
    after = play("mathavan2010", [[0, speed]], [[backspin, 0, 0]], using, slate_friction=mu_slate)
    press = S + mu * C
    impulse = (1 + e) * speed / (C - mu * S + mu_slate * press)
    assert after.velocity[0] == pytest.approx([0, -e * speed], abs=1e-9)
    assert after.spin[0] == pytest.approx([backspin - 2.5 * (mu + mu_slate * press) * impulse, 0, 0], abs=1e-9)
    assert after.slate[0] / M == pytest.approx([0, -mu_slate * press * impulse, press * impulse], abs=1e-9)


def test_mathavan_with_his_own_values_rebounds_as_measured() -> None:
    """A ball that rolls head on, and rolls again, keeps 0.54-0.60 of its speed on the recorded carom table.

    Here with his snooker ball and nose (h = 1.4 R), e = 0.98, mu = 0.14 at the nose and 0.212 at the slate.
    """
    own = {"slate_friction": 0.212}
    using = replace(
        NOMINAL, cushion_law="mathavan2010", cushion_parameters=own, cushion_restitution=0.98, cushion_friction=0.14
    )
    law, radius = laws.find("cushion", "mathavan2010"), 0.02625
    for speed in (0.5, 1.0, 2.0):
        before = CushionImpact(
            np.array([0.0, speed]), np.array([-speed / radius, 0, 0]), radius, 0.1406, math.asin(0.4)
        )
        after = law(before, using)
        rolling = -(5 / 7 * after.velocity[1] - 2 / 7 * radius * after.spin[0])
        assert 0.54 < rolling / speed < 0.60


def test_mathavan_without_friction_and_with_e_one_keeps_the_energy() -> None:
    velocity, spin = states(200)
    using = replace(NOMINAL, cushion_restitution=1.0, cushion_friction=0.0)
    after = play("mathavan2010", velocity, spin, using, slate_friction=0.0)
    np.testing.assert_allclose(energy(after.velocity, after.spin), energy(velocity, spin), rtol=1e-12)


# Stronge --------------------------------------------------------------------------------------------------------------


def compliant(slip: np.ndarray, mu: float, e: float, ratio: float, steps: int = 30_000) -> np.ndarray:
    """Slip after the impact, both over the approach: small explicit steps of a spring in line with a slider."""
    total, quarter = (1 + e) * math.pi / 2, math.pi / 2
    dt = total / steps
    v, stretch = slip.copy(), np.zeros_like(slip)
    for t in (np.arange(steps) + 0.5) * dt:
        normal = math.sin(t) if t < quarter else math.cos((t - quarter) / e)
        reach = mu * ratio * normal
        stretch = np.clip(stretch + v * dt, -reach, reach)
        v = v - 3.5 * stretch / ratio * dt
    return v


@pytest.mark.parametrize(("e", "mu", "ratio"), [(0.8, 0.25, 1.21), (0.6, 0.5, 1.5), (1.0, 0.15, 0.9)])
def test_stronge_agrees_with_a_spring_stepped_otherwise(e: float, mu: float, ratio: float) -> None:
    using = replace(NOMINAL, cushion_restitution=e, cushion_friction=mu)
    slips = np.linspace(0.02, 6 * mu, 30)  # from sticking to slipping all through
    # a level ball with side spin only: slip along x is -C wz
    after = play(
        "stronge",
        np.tile([0.0, 1 / C], (30, 1)),
        np.column_stack([np.full(30, S / C), 0 * slips, -slips / C]),
        using,
        compliance_ratio=ratio,
    )
    impulse = after.nose[:, 0] / M
    np.testing.assert_allclose(slips + 3.5 * impulse, compliant(slips, mu, e, ratio), atol=3e-4)


def test_stronge_turns_a_moderate_slip_round_and_lets_a_fast_one_slide() -> None:
    came = np.array([0.4, 0.6, 0.8, 5.0])
    velocity, spin = np.tile([0.0, 1 / C], (4, 1)), np.column_stack([np.full(4, S / C), 0 * came, -came / C])
    soft, hard = play("stronge", velocity, spin), play("coulomb", velocity, spin)
    went = soft.velocity[:, 0] + soft.spin[:, 1] * S - soft.spin[:, 2] * C
    assert np.all(went[:3] < -0.15)  # a rigid ball would keep none of it
    assert went[3] > 1.0
    np.testing.assert_allclose(soft.velocity[3], hard.velocity[3], atol=1e-4)
    np.testing.assert_allclose(soft.spin[3], hard.spin[3], atol=3e-4)
