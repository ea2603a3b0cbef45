"""The twin's laws against closed forms: set a ball or two, step, compare velocities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np

from benchmarks.harness import BenchmarkError
from benchmarks.twin import closed_forms as exact
from benchmarks.twin.shots import load_table
from cue_core.parameters import PARAMETERS, nominal_values
from cue_sim import kernel
from cue_sim.kernel import Layout
from cue_sim.laws import Laws
from cue_sim.model import build_spec

TABLE = "9ft"
LIMITS: Mapping[str, tuple[float, str, str]] = {
    "roll_speed": (0.05, "%", "speed at which a sliding ball begins to roll, 5/7 v"),
    "stop_distance": (0.05, "%", "distance in which a ball slides, rolls and stops"),
    "spin_decay": (0.1, "%", "decay of spin about the vertical"),
    "cut": (2.0, "mm/s per m/s", "both balls after cuts of 0 to 75 degrees, no friction"),
    "stun": (2.0, "mm/s per m/s", "both balls after a sliding cue ball without spin"),
    "roll": (2.0, "mm/s per m/s", "cue ball rolling again after it hit rolling"),
    "throw": (2.0, "mm/s per m/s", "object ball thrown, with and without side spin"),
    "cushion_sliding": (2.0, "mm/s per m/s", "rebound of a sliding ball"),
    "cushion_rolling": (2.0, "mm/s per m/s", "rebound of a rolling ball"),
    "cushion_spinning": (2.0, "mm/s per m/s", "rebound of a ball with side spin"),
    "restitution_slope": (0.1, "%", "slope of cushion restitution over speed, as rebounds show it"),
}
"""Limit, unit and meaning of each law's error."""
_SPEEDS = (0.2, 0.5, 1.0, 2.0, 4.0)
_CUTS = tuple(range(0, 80, 5))
_ANGLES = tuple(range(0, 80, 10))  # to the cushion's normal [deg]
_GAP = 1e-8  # [m] before a contact


class _Lab:
    """A table on which balls can be set and read; the parameters are nominal but for those given."""

    def __init__(self, balls: int) -> None:
        self.table = load_table(TABLE)
        self.radius = self.table.ball_radius
        self.model = build_spec(self.table, tuple(range(balls)), visual=False).compile()
        self.data = mujoco.MjData(self.model)
        self.layout = Layout.of(self.model, self.table, tuple(range(balls)))
        self.in_play = np.ones(balls, np.int32)
        self.values = dict(zip(PARAMETERS, map(float, nominal_values()), strict=True))

    def run(
        self, positions: Any, velocities: Any, spins: Any, until: float, contacts: int = 0, **changes: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return velocities (n, 3) and spins (n, 3) at ``until`` [s], or just after so many contacts."""
        laws = Laws.from_parameters(np.array(list({**self.values, **changes}.values())))
        place, speed, spin = (np.array(a, float) for a in (positions, velocities, spins))
        self.in_play[:] = 1
        kernel.start(self.model, self.data, self.layout, place, np.ascontiguousarray(speed[:, :2]), spin, self.in_play)
        outcome = kernel.advance(self.model, self.data, self.layout, laws, self.in_play, until, contact_limit=contacts)
        if outcome.fault is not None or (contacts and len(outcome.events) != contacts):
            raise BenchmarkError(f"a single ball gave fault {outcome.fault}, events {outcome.events}")
        flat = self.layout.velocities(self.data)
        return np.hstack([flat, np.zeros((len(flat), 1))]), self.layout.spins(self.data)


def law(name: str) -> dict[str, float]:
    """Return ``error``, the largest of a law over speeds and angles, in the unit of :data:`LIMITS`."""
    return {"error": float(_MEASURES[name]())}


def _roll_speed() -> float:
    lab = _Lab(1)
    worst = 0.0
    for speed in (0.2, 0.5, 1.0, 1.8):
        rolls = exact.slide_time(speed, lab.values["sliding_friction"])
        velocity, _ = lab.run([[-1.0, 0]], [[speed, 0, 0]], np.zeros((1, 3)), rolls)
        worst = max(worst, abs(velocity[0, 0] / exact.rolling_speed(speed) - 1))
    return 100 * worst


def _stop_distance() -> float:
    lab = _Lab(1)
    worst = 0.0
    for speed in (0.1, 0.2, 0.4, 0.6):
        lab.run([[-1.0, 0]], [[speed, 0, 0]], np.zeros((1, 3)), 30.0)
        came = lab.layout.positions(lab.data)[0, 0] + 1.0
        wanted = exact.stop_distance(speed, lab.values["sliding_friction"], lab.values["rolling_friction"])
        worst = max(worst, abs(came / wanted - 1))
    return 100 * worst


def _spin_decay() -> float:
    lab = _Lab(1)
    rate = lab.values["spinning_deceleration"]
    worst = 0.0
    for speed in (0.0, 0.5):  # on the spot, and while it rolls
        _, spin = lab.run([[-1.0, 0]], [[speed, 0, 0]], [[0, speed / lab.radius, -40.0]], 1.5)
        worst = max(worst, abs((40.0 + spin[0, 2]) / (1.5 * rate) - 1))
    return 100 * worst


def _hit(
    lab: _Lab, cut: float, velocity: np.ndarray, spin: np.ndarray, e: float, mu: float
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return measured and expected (v1, w1, v2, w2) after a hit at an angle [rad] on a ball at rest."""
    line = np.array([math.cos(cut), math.sin(cut), 0.0])
    places = np.array([[-0.2, 0.1], [-0.2, 0.1] + (2 * lab.radius + _GAP) * line[:2]])
    v, w = lab.run(
        places,
        [velocity, np.zeros(3)],
        [spin, np.zeros(3)],
        1.0,
        contacts=1,
        ball_restitution=e,
        ball_friction=mu,
    )
    return (v[0], w[0], v[1], w[1]), exact.ball_hit(velocity, spin, line, lab.radius, e, mu)


def _worst_hit(friction: float, restitution: float, spin: Callable[[float, float], np.ndarray]) -> float:
    lab = _Lab(2)
    worst = 0.0
    for speed in _SPEEDS:
        for cut in _CUTS:
            got, wanted = _hit(
                lab,
                math.radians(cut),
                np.array([speed, 0.0, 0.0]),
                spin(speed, lab.radius),
                restitution,
                friction,
            )
            worst = max(worst, *(float(np.linalg.norm(got[k] - wanted[k])) / speed for k in (0, 2)))
    return 1000 * worst


def _cut() -> float:
    return max(_worst_hit(0.0, e, lambda v, R: np.zeros(3)) for e in (0.85, 0.95, 1.0))


def _stun() -> float:
    """Return the error of both balls, and, without loss, that of the right angle between them."""
    lab = _Lab(2)
    square = 0.0
    for cut in _CUTS[1:]:
        got, _ = _hit(lab, math.radians(cut), np.array([1.0, 0, 0]), np.zeros(3), 1.0, 0.0)
        square = max(square, 1000 * abs(float(got[0] @ got[2])) / max(float(np.linalg.norm(got[2])), 1e-9))
    return max(square, *(_worst_hit(mu, 0.95, lambda v, R: np.zeros(3)) for mu in (0.03, 0.06, 0.25)))


def _roll() -> float:
    """Return the error of the cue ball's velocity once it rolls again, which sets its 30 degree direction."""
    lab = _Lab(2)
    worst = 0.0
    friction = lab.values["sliding_friction"]
    for speed in (0.3, 0.6, 1.0):
        for cut in _CUTS[:-2]:
            line = np.array([math.cos(math.radians(cut)), math.sin(math.radians(cut)), 0.0])
            before, rolling = np.array([speed, 0.0, 0.0]), np.array([0.0, speed / lab.radius, 0.0])
            v1, w1, _, _ = exact.ball_hit(before, rolling, line, lab.radius, 0.95, 0.06)
            wanted = exact.final_roll(v1, w1, lab.radius)
            slip = v1 + np.cross(w1, -lab.radius * exact.UP)
            until = 2 * float(np.linalg.norm(slip)) / (7 * friction * exact.GRAVITY)
            places = np.array([[-0.2, 0.1], [-0.2, 0.1] + (2 * lab.radius + _GAP) * line[:2]])
            got, _ = lab.run(places, [before, np.zeros(3)], [rolling, np.zeros(3)], until + 1e-5)
            worst = max(worst, float(np.linalg.norm(got[0] - wanted)) / speed)
    return 1000 * worst


def _throw() -> float:
    """Return the error of the object ball: by angle against TP A.14 for stun, as a vector with side and follow."""
    lab = _Lab(2)
    worst = 0.0
    for mu in (0.03, 0.06, 0.15):
        for cut in map(math.radians, _CUTS[1:]):
            got, _ = _hit(lab, cut, np.array([1.0, 0, 0]), np.zeros(3), 0.95, mu)
            thrown = cut - math.atan2(got[2][1], got[2][0])
            worst = max(worst, 1000 * abs(thrown - exact.throw_angle(cut, 0.95, mu)) * float(np.linalg.norm(got[2])))
    for side in (-0.6, -0.2, 0.2, 0.6):
        for follow in (-0.5, 0.0, 1.0):
            worst = max(
                worst,
                _worst_hit(0.06, 0.95, lambda v, R, f=follow, s=side: np.array([0.0, f * v / R, s * v / R])),  # type: ignore[misc]
            )
    return worst


def _worst_rebound(spin: Callable[[np.ndarray, float], list[np.ndarray]]) -> float:
    lab = _Lab(1)
    table, worst = lab.table, 0.0
    e1, mu, slope = 0.85, 0.2, -0.05
    start = [[0.5, table.width / 2 - table.ball_stop - _GAP]]
    for speed in _SPEEDS:
        for angle in (math.radians(s * a) for a in _ANGLES for s in (-1, 1)):
            before = speed * np.array([math.sin(angle), math.cos(angle), 0.0])
            e = min(e1 + slope * (before[1] - 1), 1.0)
            for turning in spin(before, lab.radius):
                got, _ = lab.run(
                    start,
                    [before],
                    [turning],
                    1.0,
                    contacts=1,
                    cushion_restitution=e1,
                    cushion_friction=mu,
                    cushion_restitution_slope=slope,
                )
                wanted, _ = exact.nose_hit(
                    before, turning, np.array([0.0, -1.0, 0.0]), lab.radius, table.nose_height, e, mu
                )
                worst = max(worst, float(np.linalg.norm(got[0] - wanted)) / speed)
    return 1000 * worst


def _rolling_spin(velocity: np.ndarray, radius: float) -> np.ndarray:
    return np.array([-velocity[1], velocity[0], 0.0]) / radius


def _restitution_slope() -> float:
    """Return the error of the slope fitted to e = (1 + v'/v) / cos^2(theta) - 1 of straight rebounds."""
    lab = _Lab(1)
    table, worst = lab.table, 0.0
    cosine2 = (table.ball_stop / lab.radius) ** 2
    start = [[0.5, table.width / 2 - table.ball_stop - _GAP]]
    speeds = np.array([0.5, 1.0, 2.0, 3.0, 4.0])
    for slope in (-0.08, -0.02, 0.02):
        seen = []
        for speed in speeds:
            got, _ = lab.run(
                start,
                [[0, speed, 0]],
                np.zeros((1, 3)),
                1.0,
                contacts=1,
                cushion_restitution=0.85,
                cushion_friction=0.0,
                cushion_restitution_slope=slope,
            )
            seen.append((1 - got[0, 1] / speed) / cosine2 - 1)
        worst = max(worst, abs(float(np.polyfit(speeds, seen, 1)[0]) / slope - 1))
    return 100 * worst


_MEASURES: Mapping[str, Callable[[], float]] = {
    "roll_speed": _roll_speed,
    "stop_distance": _stop_distance,
    "spin_decay": _spin_decay,
    "cut": _cut,
    "stun": _stun,
    "roll": _roll,
    "throw": _throw,
    "cushion_sliding": lambda: _worst_rebound(lambda v, R: [np.zeros(3)]),
    "cushion_rolling": lambda: _worst_rebound(lambda v, R: [_rolling_spin(v, R)]),
    "cushion_spinning": lambda: _worst_rebound(
        lambda v, R: [_rolling_spin(v, R) + side * exact.UP for side in (-60.0, -20.0, 20.0, 60.0)]
    ),
    "restitution_slope": _restitution_slope,
}
