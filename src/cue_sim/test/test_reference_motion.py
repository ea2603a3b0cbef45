"""The reference's pieces of motion against the closed forms of the literature, and against brute integration."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cue_core.parameters import nominal_values
from cue_sim.laws import Laws
from cue_sim.reference.motion import Cloth, Phase, State, SteepBedError

R, G = 0.028575, 9.81
LAWS = Laws.from_parameters(nominal_values())
MU_S, MU_R = LAWS.sliding_friction, LAWS.rolling_friction


def to_rest(state, laws=LAWS):
    """All pieces of a ball's motion until it rests."""
    cloth, pieces, time = Cloth(laws), [], 0.0
    while not pieces or pieces[-1].phase != Phase.REST:
        pieces.append(cloth.piece(state, R, time))
        time, state = time + pieces[-1].duration, pieces[-1].end
    return pieces


@pytest.mark.parametrize("v0", [0.1, 1.0, 3.0])
def test_a_stunned_ball_slides_then_rolls_at_five_sevenths(v0):
    slide, roll, rest = to_rest(State(0j, complex(v0), 0j, 0.0))
    assert [slide.phase, roll.phase, rest.phase] == [Phase.SLIDING, Phase.ROLLING, Phase.REST]
    assert slide.duration == pytest.approx(2 * v0 / (7 * MU_S * G), rel=1e-14)
    assert slide.end.place.real == pytest.approx(12 * v0**2 / (49 * MU_S * G), rel=1e-14)
    assert slide.end.velocity == pytest.approx(5 / 7 * v0, rel=1e-14)
    assert slide.end.lean == pytest.approx(1j * 5 / 7 * v0 / R, rel=1e-14)
    assert roll.duration == pytest.approx(v0 / (MU_R * G), rel=1e-14)
    assert (rest.state.place - roll.state.place).real == pytest.approx(5 / 14 * v0**2 / (MU_R * G), rel=1e-13)
    assert rest.duration == math.inf and rest.state.velocity == 0


def test_draw_comes_back_and_a_masse_curves():
    """Sliding takes 2/7 of the slip from the velocity, along the slip's one direction (Alciatore, TP A.4)."""
    v, spin = 1.0, State(0j, 1 + 0j, complex(20, -90), 0.0)
    slide = to_rest(spin)[0]
    slip = spin.slip(R)
    assert slide.end.velocity == pytest.approx(v - 2 / 7 * slip, rel=1e-12)
    assert slide.end.velocity.real < 0
    middle = slide.at(slide.duration / 2)
    assert middle.slip(R) == pytest.approx(
        slip / 2, rel=1e-12
    )  # the slip keeps its direction, so the path is a parabola
    assert middle.place == pytest.approx(v * slide.duration / 2 - MU_S * G * slip / abs(slip) * slide.duration**2 / 8)


def test_upright_spin_decays_on_its_own():
    pieces = to_rest(State(0.1 + 0.2j, 0.1 + 0j, 0j, -30.0))
    assert [p.phase for p in pieces] == [Phase.SLIDING, Phase.ROLLING, Phase.SPINNING, Phase.REST]
    assert pieces[-1].start == pytest.approx(3.0, rel=1e-14)
    for piece in pieces[:2]:
        assert piece.at(piece.start + 0.01).upright == pytest.approx(-30 + 10 * (piece.start + 0.01))
    (spin, rest) = to_rest(State(1j, 0j, 0j, 30.0))
    assert (spin.phase, spin.duration) == (Phase.SPINNING, 3.0)
    assert spin.at(1.0).upright == pytest.approx(20.0, abs=1e-12) and rest.state.upright == 0
    assert spin.at(1.0).place == 1j


def test_pieces_join_without_a_jump_in_place_and_match_their_quadratic():
    rng = np.random.default_rng(0)
    for laws in (LAWS, replace(LAWS, tilt_x=0.003, tilt_y=-0.002, rolling_slope=0.2, nap_x2=0.1)):
        for _ in range(5):
            v, w = complex(*rng.normal(size=2)), complex(*rng.normal(0, 30, 2))
            pieces = to_rest(State(0j, v, w, rng.normal(0, 30)), laws)
            for piece, after in pairwise(pieces):
                end = piece.start + piece.duration
                just = piece.at(math.nextafter(end, 0))
                assert abs(just.place - after.state.place) < 1e-12
                assert abs(just.velocity - after.state.velocity) < 2e-5
                a, b, c = piece.curve(piece.start)
                assert abs(a + (b + c * piece.duration) * piece.duration - just.place) < 1e-12


def brute(state, laws, time):
    """Place and velocity after a time, straight from the forces."""

    def rates(_t, y):
        v, w = complex(*y[2:4]), complex(*y[4:6])
        slope, slip = laws.gravity * complex(laws.tilt_x, laws.tilt_y), v + 1j * R * w
        if abs(slip) > 1e-7:
            force = -laws.sliding_friction * laws.gravity * slip / abs(slip)
            a, spin = force + slope, -2.5j / R * force
        else:
            friction = laws.rolling_friction * (1 + laws.rolling_slope * abs(v))
            friction *= 1 + laws.nap_x2 * (v.real**2 - v.imag**2) / abs(v) ** 2
            a = 5 / 7 * (slope - friction * laws.gravity * v / abs(v))
            spin = 1j / R * a
        return [v.real, v.imag, a.real, a.imag, spin.real, spin.imag]

    begin = [0, 0, state.velocity.real, state.velocity.imag, state.lean.real, state.lean.imag]
    y = solve_ivp(rates, (0, time), begin, method="DOP853", rtol=1e-10, atol=1e-12, max_step=0.01).y[:, -1]
    return complex(*y[:2]), complex(*y[2:4])


@pytest.mark.parametrize(
    "extras",
    [
        {"tilt_x": 0.004, "tilt_y": 0.002},
        {"rolling_slope": 0.4},
        {"nap_x2": 0.2},
        {"tilt_y": -0.003, "rolling_slope": 0.3, "nap_x2": -0.15},
    ],
)
def test_curved_rolls_against_brute_integration(extras):
    laws = replace(LAWS, **extras)
    v = 0.4 + 0.3j
    state = State(0j, v, 1j * v / R, 0.0)
    pieces = to_rest(state, laws)
    for time in (0.5, 2.0):
        piece = next(p for p in pieces if p.start + p.duration >= time)
        place, velocity = brute(state, laws, time)
        assert abs(piece.at(time).place - place) < 2e-8
        assert abs(piece.at(time).velocity - velocity) < 1e-6


def test_a_slide_on_a_tilted_bed_against_brute_integration():
    laws = replace(LAWS, tilt_x=-0.005, tilt_y=0.007)
    state = State(0j, 1.0 + 0.2j, complex(-30, -50), 0.0)
    pieces = to_rest(state, laws)
    slide = [p for p in pieces if p.phase == Phase.SLIDING]
    time = 0.9 * (slide[-1].start + slide[-1].duration)
    piece = next(p for p in pieces if p.start + p.duration >= time)
    place, velocity = brute(state, laws, time)
    assert abs(piece.at(time).place - place) < 2e-8
    assert abs(piece.at(time).velocity - velocity) < 1e-6


def test_the_turning_of_a_roll_on_a_slope_in_closed_form():
    """The hodograph of a body with constant friction on a slope: v = C tan(psi/2)^n / sin(psi), n = friction/slope."""
    laws = replace(LAWS, tilt_x=0.005)
    n = MU_R / 0.005

    def speed(psi):
        return math.tan(psi / 2) ** n / math.sin(psi)

    v = cmath.rect(0.5, 2.0)
    moving = [p.state.velocity for p in to_rest(State(0j, v, 1j * v / R, 0.0), laws)]
    for now in [v for v in moving if abs(v) > 0.01]:
        assert abs(now) == pytest.approx(0.5 * speed(cmath.phase(now)) / speed(2.0), rel=1e-5)
    assert abs(cmath.phase(now)) < 0.25  # it turns downhill


def test_a_roll_whose_friction_grows_with_speed_in_closed_form():
    laws = replace(LAWS, rolling_slope=0.5)
    v0, a = 1.2, 5 / 7 * MU_R * G
    pieces = to_rest(State(0j, complex(v0), 1j * v0 / R, 0.0), laws)
    assert pieces[-1].start == pytest.approx(math.log(1 + 0.5 * v0) / (0.5 * a), rel=1e-6)
    stop = (v0 - math.log(1 + 0.5 * v0) / 0.5) / (0.5 * a)
    assert pieces[-1].state.place.real == pytest.approx(stop, abs=1e-7)


def test_a_bed_on_which_nothing_rests_is_refused():
    with pytest.raises(SteepBedError, match=r"0\.01 rad, its rolling friction 0\.01;"):
        Cloth(replace(LAWS, tilt_x=0.01))
    with pytest.raises(SteepBedError):
        Cloth(replace(LAWS, tilt_x=0.009, nap_x2=0.2))
