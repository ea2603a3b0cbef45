"""Every term: it acts, it can be found again, it is what the independent reference makes of it, and its physics."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.shots import Stroke
from cue_core.table import TableModel
from cue_core.terms import FIELD, TERMS, Term, find, places
from cue_sim.config_files import config_file
from cue_sim.kernel import EventKind
from cue_sim.laws import Laws
from cue_sim.predict import start_from
from cue_sim.reference import simulate
from cue_sim.twin import Start, Twin

TABLE = TableModel.load(config_file("tables", "small"))
R, G = TABLE.ball_radius, 9.81
ORDER = list(PARAMETERS)


def vector(**changes: float) -> np.ndarray:
    values = nominal_values()
    for name, value in changes.items():
        values[ORDER.index(name)] = value
    return values


def off_nominal(rng: np.random.Generator, *terms: Term) -> np.ndarray:
    """Return (P,) values whose parameters of some terms are off by one to two of their scales."""
    values = nominal_values()
    for term in terms:
        for i, p in zip(range(len(values))[places(term.name)], term.parameters, strict=True):
            step = rng.choice([-1, 1]) * rng.uniform(1, 2) * min(p.scale, 0.1 * (p.maximum - p.minimum))
            values[i] = p.nominal + step if p.minimum < p.nominal + step < p.maximum else p.nominal - step
    return values


def shots() -> list[tuple[list[BallState], Stroke]]:
    """Return what any term shows in: a lone ball all over the bed and at each cushion, and two balls struck."""
    rng = np.random.default_rng(11)
    found = []
    half = np.array([TABLE.length, TABLE.width]) / 2
    for k in range(12):
        cushion = TABLE.cushions[k % len(TABLE.cushions)]
        place = rng.uniform(-0.7, 0.7, 2) * half
        way = 0.5 * (cushion.start + cushion.end) - place
        stroke = Stroke(rng.uniform(0.35, 0.7), math.atan2(way[1], way[0]), side_offset=rng.uniform(-0.2, 0.2))
        found.append(([BallState(0, place)], stroke))
    for k in range(6):
        place, ball = (rng.uniform(-0.5, 0.5, 2) * half for _ in range(2))
        place = ball + 0.25 * (place - ball) / np.linalg.norm(place - ball)
        way = ball - place
        aim = math.atan2(way[1], way[0]) + rng.uniform(-0.06, 0.06)
        found.append(([BallState(0, place), BallState(1 + k % 2, ball)], Stroke((0.3, 0.5, 0.8)[k // 2], aim)))
    return found


SHOTS, BALLS, TIMES, NOISE = shots(), (0, 1, 2), np.arange(1, 61) / 30, 3e-4


class Table:
    """What a camera sees of the shots, and a fit to it by Gauss and Newton's method."""

    def __init__(self) -> None:
        self.twin = Twin(TABLE, BALLS)

    def seen(self, vectors: np.ndarray) -> np.ndarray:
        """Return (B, N) coordinates [m] of the balls in play at all times of all shots."""
        pairs = [(values, shot) for values in vectors for shot in SHOTS]
        starts = [start_from(*shot, values, TABLE, BALLS) for values, shot in pairs]
        paths = self.twin.simulate_batch(starts, np.array([v for v, _ in pairs]), TIMES, threads=1)
        assert all(p.fault is None for p in paths)
        rows = [p.positions[:, s.in_play].ravel() for p, s in zip(paths, starts, strict=True)]
        count = len(SHOTS)
        return np.array([np.concatenate(rows[k : k + count]) for k in range(0, len(rows), count)])

    def fit(self, seen: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return (d,) values and (d,) standard deviations, from the nominal ones and their priors.

        Later parts of the shots come in once earlier ones fit: what is off by far may have gone another way.
        """
        index = [ORDER.index(name) for name in names]
        prior = np.array([PARAMETERS[name].prior_stddev for name in names])
        low, high = (np.array([getattr(PARAMETERS[n], end) for n in names]) for end in ("minimum", "maximum"))
        nominal = nominal_values()[index]
        found = nominal.copy()
        times = np.concatenate([np.repeat(TIMES, 2 * len(balls)) for balls, _ in SHOTS])
        for until in (0.3, 0.3, 0.6, 0.6, 1.0, 1.0, 2.0, 2.0):
            step = 1e-3 * prior * np.where(found + prior > high, -1, 1)
            vectors = np.tile(nominal_values(), (len(names) + 1, 1))
            vectors[:, index] = found
            vectors[np.arange(1, len(names) + 1), index] += step
            base, *others = self.seen(vectors)
            slope = (np.array(others) - base).T / step
            weight = (times <= until) / (NOISE**2 + (0.1 * (seen - base)) ** 2)
            normal = (slope.T * weight) @ slope + np.diag(prior**-2)
            pull = slope.T @ (weight * (seen - base)) - (found - nominal) / prior**2
            found = np.clip(found + np.linalg.solve(normal, pull), low, high)
        return found, np.sqrt(np.diag(np.linalg.inv(normal)))


@pytest.fixture(scope="module")
def camera() -> Table:
    return Table()


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_found_again(term: Term, camera: Table) -> None:
    """Its own parameters, from nominal, within four of the deviations that the fit states, which beat the priors'."""
    names = term.acting(BALLS, len(TABLE.cushions))
    rng = np.random.default_rng(len(term.name))
    hidden = off_nominal(rng, term)
    for place in term.reference:
        hidden[ORDER.index(term.names[place])] = term.parameters[place].nominal
    seen = camera.seen(hidden[None])[0]
    found, stddev = camera.fit(seen + NOISE * rng.standard_normal(len(seen)), names)
    truth = hidden[[ORDER.index(name) for name in names]]
    for name, value, true, sigma in zip(names, found, truth, stddev, strict=True):
        assert abs(value - true) < 4 * sigma, (name, value, true, sigma)
        assert sigma < 0.5 * PARAMETERS[name].prior_stddev, (name, sigma)


# --- against the independent reference ---


def random_starts(seed: int, count: int) -> list[Start]:
    rng = np.random.default_rng(seed)
    half = np.array([TABLE.length, TABLE.width]) / 2 - 2 * R
    found = []
    while len(found) < count:
        places = rng.uniform(-half, half, (4, 2))
        apart = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(4)
        if apart.min() < 2.4 * R:
            continue
        start = Start.at_rest(places)
        angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(0.5, 1.5)
        start.velocities[0] = speed * np.array([math.cos(angle), math.sin(angle)])
        start.spins[0] = rng.normal(0, 0.4, 3) / R
        found.append(start)
    return found


@pytest.mark.parametrize(
    ("names", "median"),
    [
        (("nap",), 1e-9),
        (("nap", "tilt"), 1e-5),
        (("rolling_slope",), 1e-6),
        (("ball_friction_speed",), 1e-9),
        (("per_cushion",), 1e-9),
        (("noses",), 1e-9),
        (("ball_mass",), 1e-9),
        (("ball_diameter",), 1e-9),
        (("cloth_field",), 5e-6),
        (("noses", "ball_mass", "ball_diameter", "cloth_field", "per_cushion"), 5e-6),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_the_kernel_agrees_with_the_reference(names: tuple[str, ...], median: float) -> None:
    ids = (0, 3, 15, 7)
    values = off_nominal(np.random.default_rng(2), *(find(name) for name in names))
    twin, laws = Twin(TABLE, ids), Laws.from_parameters(values)
    plain = twin.simulate_batch(starts := random_starts(4, 6), nominal_values(), threads=1)
    apart, changed = [], 0.0
    for start, path, usual in zip(starts, twin.simulate_batch(starts, values[None].repeat(6, 0)), plain, strict=True):
        other = simulate(TABLE, start, laws, ball_ids=ids)
        assert path.fault is None
        apart.append(np.abs(path.rest_positions - other.rest_positions).max())
        changed = max(changed, np.abs(path.rest_positions - usual.rest_positions).max())
    assert np.median(apart) < median and changed > 1e-4


# --- physics ---


def rolls(angle: float, values: np.ndarray, speed: float = 0.3) -> float:
    """Return how far a ball rolls from the middle of a large cloth."""
    bed = replace(TABLE, length=4.0, width=3.0)
    start = Start.at_rest(np.zeros((1, 2)))
    start.velocities[0] = speed * np.array([math.cos(angle), math.sin(angle)])
    start.spins[0, :2] = np.array([-start.velocities[0, 1], start.velocities[0, 0]]) / R
    return float(np.hypot(*Twin(bed, (0,)).simulate(start, values).rest_positions[0]))


@pytest.mark.parametrize("phi", [0.0, 0.5, -1.2])
def test_nap_is_strongest_along_its_direction(phi: float) -> None:
    values = vector(nap_x2=0.2 * math.cos(2 * phi), nap_y2=0.2 * math.sin(2 * phi))
    for angle in (phi, phi + math.pi / 2, phi + math.pi / 4, 0.3):
        friction = 0.01 * (1 + 0.2 * math.cos(2 * (angle - phi)))
        assert rolls(angle, values) == pytest.approx(0.3**2 / (2 * 5 / 7 * friction * G), rel=1e-6)


def test_an_even_field_is_a_factor() -> None:
    even = {f"cloth_field_{i}_{j}": 0.3 for i in range(FIELD[0]) for j in range(FIELD[1])}
    expected = rolls(0.4, vector(rolling_friction=0.01 * math.exp(0.3)))
    assert rolls(0.4, vector(**even)) == pytest.approx(expected, rel=1e-6)


def test_a_field_slows_where_it_is_high() -> None:
    """Work: v^2 / 2 = 5/7 g integral of the coefficient along the way."""
    values = vector(cloth_field_3_1=0.6, cloth_field_1_1=-0.6)
    # one node stands 1 m from the middle; on the middle line its neighbours across are its own row's
    for angle, side in ((0.0, 1), (math.pi, -1)):
        far = rolls(angle, values)
        x = side * np.linspace(0, far, 2001)
        factor = np.exp([0.6 * (_bump(u - 1) - _bump(u + 1)) for u in x])
        work = 5 / 7 * 0.01 * G * np.sum(0.5 * (factor[1:] + factor[:-1])) * far / 2000
        assert work == pytest.approx(0.3**2 / 2, rel=1e-4)
    assert rolls(0.0, values) < rolls(math.pi, values)


def _bump(u: float) -> float:
    """A node's share on the middle line: its cubic B-spline along x [nodes], and 2/3 across."""
    u = abs(u)
    along = (4 - 6 * u**2 + 3 * u**3) / 6 if u < 1 else max(0.0, 2 - u) ** 3 / 6
    return 2 / 3 * along


def collide(values: np.ndarray) -> tuple[Start, np.ndarray, np.ndarray, float]:
    """Return a full hit at 1 m/s on a slippery cloth: where the balls touch [m], and their speeds afterwards [m/s]."""
    start = Start.at_rest(np.array([[-0.2, 0.0], [0.0, 0.0]]))
    start.velocities[0, 0] = 1.0
    path = Twin(TABLE, (0, 9)).simulate(start, values, [0.0, 0.2, 0.3], horizon=0.3)
    (met,) = [e.time for e in path.events if e.kind == EventKind.BALL_BALL]
    return start, np.diff(path.positions[1:, :, 0], axis=0)[0] / 0.1, path.positions, met


def test_a_light_ball_leaves_faster_and_a_small_one_is_met_later() -> None:
    slippery = {"sliding_friction": 0.05, "ball_restitution": 1.0, "ball_friction": 0.0}
    for ratio in (0.8, 1.0, 1.25):
        _, after, _, _ = collide(vector(**slippery, mass_ratio_9=ratio))
        # a little is lost to the cloth on the way: 0.05 g t
        assert after == pytest.approx([(1 - ratio) / (1 + ratio), 2 / (1 + ratio)], abs=0.15)
    light, equal, heavy = (collide(vector(**slippery, mass_ratio_9=r))[1][1] for r in (0.8, 1.0, 1.25))
    assert light / equal == pytest.approx(2 / 1.8, rel=0.02) and heavy / equal == pytest.approx(2 / 2.25, rel=0.02)
    same = collide(vector(**slippery, mass_ratio_9=0.8, mass_ratio_0=0.8))[1]
    assert same == pytest.approx(collide(vector(**slippery))[1], abs=1e-9)
    small, usual = (collide(vector(**slippery, diameter_ratio_9=d))[3] for d in (0.95, 1.0))
    assert small - usual == pytest.approx(2 * R * (1 - math.sqrt(0.95)) / 0.9, rel=0.05)


def test_a_cushion_is_met_where_its_nose_stands() -> None:
    east = next(i for i, c in enumerate(TABLE.cushions) if c.name == "east")
    start = Start.at_rest(np.array([[TABLE.length / 2 - 0.2, 0.0]]))
    start.velocities[0, 0] = 1.0
    twin = Twin(TABLE, (0,))
    met = {}
    for offset in (-0.004, 0.0, 0.004):
        path = twin.simulate(start, vector(**{f"nose_offset_{east}": offset}), np.arange(0, 0.5, 1e-3))
        assert [e.kind for e in path.events[:1]] == [EventKind.CUSHION] and path.fault is None
        met[offset] = float(path.positions[:, 0, 0].max())
    for offset, furthest in met.items():
        assert furthest == pytest.approx(TABLE.length / 2 - TABLE.ball_stop - offset, abs=1.1e-3)
    assert met[-0.004] - met[0.004] == pytest.approx(0.008, abs=1.1e-3)


def test_what_a_camera_sees_is_late_and_where_balls_rest_is_not() -> None:
    start = random_starts(7, 1)[0]
    twin, times = Twin(TABLE, (0, 1, 2, 3)), np.arange(0, 2, 0.1)
    plain, late = twin.simulate(start, None, times), twin.simulate(start, vector(latency=0.1), times)
    np.testing.assert_allclose(late.positions[1:], plain.positions[:-1], atol=1e-12)
    np.testing.assert_array_equal(late.positions[0], plain.positions[0])
    np.testing.assert_array_equal(late.times, times)
    np.testing.assert_array_equal(late.rest_positions, plain.rest_positions)
    assert late.events == plain.events


# --- soundness ---


def mirrored(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the parameters of the table as seen in a mirror across x (0) or y (1)."""
    out = values.copy()
    flip = np.where(np.arange(2) == axis, -1.0, 1.0)
    for name in (f"tilt_{'xy'[axis]}", "nap_y2"):
        out[ORDER.index(name)] *= -1
    middles = np.array([0.5 * (c.start + c.end) for c in TABLE.cushions])
    image = [int(np.argmin(np.linalg.norm(middles - m * flip, axis=1))) for m in middles]
    for name in ("per_cushion", "noses"):
        out[places(name)] = values[places(name)][image]
    field = values[places("cloth_field")].reshape(FIELD)
    out[places("cloth_field")] = np.flip(field, axis).ravel()
    return out


@pytest.mark.parametrize("axis", [0, 1])
def test_a_table_in_a_mirror_plays_the_mirrored_shot(axis: int) -> None:
    on_table = [t for t in TERMS if t.name not in ("azimuth_bias", "latency")]
    values = off_nominal(np.random.default_rng(5), *on_table)
    flip, turn = np.ones(2), -np.ones(3)
    flip[axis], turn[axis] = -1, 1
    starts = random_starts(8, 8)
    images = [
        replace(s, positions=s.positions * flip, velocities=s.velocities * flip, spins=s.spins * turn) for s in starts
    ]
    twin = Twin(TABLE, (0, 1, 2, 3))
    there = twin.simulate_batch(starts, np.tile(values, (8, 1)), threads=1)
    back = twin.simulate_batch(images, np.tile(mirrored(values, axis), (8, 1)), threads=1)
    for a, b in zip(there, back, strict=True):
        assert a.fault is None and len(a.events) == len(b.events)
        np.testing.assert_allclose(b.rest_positions, a.rest_positions * flip, atol=1e-8)


def test_a_job_leaves_no_trace_in_its_worker() -> None:
    """Sizes, masses and noses are written into the thread's own model: the next job must not find them."""
    twin, starts = Twin(TABLE, (0, 1, 2, 3)), random_starts(9, 6)
    plain = nominal_values()
    other = off_nominal(np.random.default_rng(3), find("ball_mass"), find("ball_diameter"), find("noses"))
    fresh = [Twin(TABLE, (0, 1, 2, 3)).simulate(s, v) for s in starts for v in (plain, other)]
    mixed = twin.simulate_batch([s for s in starts for _ in range(2)], np.array([plain, other] * 6), threads=1)
    again = twin.simulate_batch([s for s in starts for _ in range(2)], np.array([plain, other] * 6), threads=3)
    for a, b, c in zip(fresh, mixed, again, strict=True):
        np.testing.assert_array_equal(a.rest_positions, b.rest_positions)
        np.testing.assert_array_equal(b.rest_positions, c.rest_positions)
        assert a.events == b.events == c.events and a.fault is None


ABSURD = {
    "rolling_friction": (math.nan, 1e12, -0.01),
    "ball_restitution": (math.inf, 40.0),
    "cushion_restitution": (math.nan, 1.6),
    "sliding_friction": (-1e12,),
    "nap_y2": (1.5,),
    "rolling_slope": (-3.0, math.nan),
    "mass_ratio_1": (0.0, -1.0, 1e12, math.nan),
    "diameter_ratio_0": (3.0, math.nan),
    "nose_offset_2": (0.3, -math.inf),
    "cloth_field_2_1": (800.0, math.nan),
    "cushion_offset_0": (7.0,),
}


def test_m08_absurd_parameters_are_faults_with_a_name_among_good_ones() -> None:
    """MuJoCo alone returns rows frozen at the start, or balls a million metres off, and says nothing."""
    twin, start = Twin(TABLE, (0, 1, 2, 3)), random_starts(1, 1)[0]
    cases = [(name, value) for name, values in ABSURD.items() for value in values]
    vectors = np.array([v for name, value in cases for v in (nominal_values(), vector(**{name: value}))])
    good = twin.simulate(start, None)
    paths = twin.simulate_batch([start] * len(vectors), vectors, [0.0, 1.0], threads=2)
    for path in paths[::2]:
        assert path.fault is None
        np.testing.assert_array_equal(path.rest_positions, good.rest_positions)
    for (name, value), path in zip(cases, paths[1::2], strict=True):
        assert path.fault, (name, value)
        whole = "not finite" if not math.isfinite(value) else name.rstrip("_0123456789").removesuffix("_friction")
        if path.fault != "energy gain":  # a restitution of 1.6 has a meaning, and shows itself
            assert whole in path.fault, (name, value, path.fault)
        assert not np.array_equal(path.positions[-1], start.positions)  # never "the balls did not move"
