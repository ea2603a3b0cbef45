"""A learned correction in the twin: what its bumps do, and that they do nothing elsewhere."""

import pickle

import numpy as np
import pytest

from cue_core.errors import FileFormatError
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.table import TableModel
from cue_sim.correction import Basis, Correction
from cue_sim.export import twin_from_dict, twin_to_dict
from cue_sim.kernel import EventKind
from cue_sim.twin import Start, Twin

TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
ORDER = list(PARAMETERS)
WIDE = np.full(5, 1e6)


def start(x, y, vx, vy, *others):
    places = np.array([(x, y), *others], float)
    velocities = np.zeros_like(places)
    velocities[0] = vx, vy
    spins = np.zeros((len(places), 3))
    spins[0, :2] = -vy / TABLE.ball_radius, vx / TABLE.ball_radius
    return Start(places, velocities, spins, np.ones(len(places), bool))


def rolling_everywhere(weight):
    return Correction(rolling=Basis(np.zeros((1, 5)), WIDE), weights=np.array([weight]))


def test_a_bump_as_wide_as_everything_is_a_factor_on_rolling_friction():
    values = nominal_values()
    values[ORDER.index("rolling_friction")] *= np.exp(0.3)
    rolls = start(-0.4, 0.0, 0.25, 0.02)
    asked = Twin(TABLE, (0,)).simulate(rolls, values)
    learned = Twin(TABLE, (0,), correction=rolling_everywhere(0.3)).simulate(rolls, None)
    np.testing.assert_allclose(learned.rest_positions, asked.rest_positions, atol=1e-5)


def test_away_from_its_places_a_correction_changes_nothing():
    narrow = Correction(
        rolling=Basis(np.array([[0.3, 0.1, 1.0, 0.0, 0.2]]), np.array([0.05, 0.05, 0.3, 0.3, 0.1])),
        weights=np.array([0.8]),
    )
    plain, learned = Twin(TABLE, (0,)), Twin(TABLE, (0,), correction=narrow)
    elsewhere, there = start(-0.4, -0.2, 0.2, 0.0), start(-0.4, 0.1, 0.3, 0.0)
    away = np.linalg.norm(
        learned.simulate(elsewhere, None).rest_positions - plain.simulate(elsewhere, None).rest_positions
    )
    near = np.linalg.norm(learned.simulate(there, None).rest_positions - plain.simulate(there, None).rest_positions)
    assert away < 1e-6
    assert near > 2e-3


def test_impacts_change_by_their_share_where_they_were_seen():
    """Along the normal J = (1 + e) m v: 10 % less impulse leaves the ratio of speeds 0.1 (1 + e) lower."""
    centre, widths = np.array([[0.5, 0.0]]), np.array([10.0, 10.0])
    values = nominal_values()
    for name in ("cushion_friction", "ball_friction", "cushion_restitution_slope"):
        values[ORDER.index(name)] = 0.0
    ball = Correction(ball=Basis(centre, widths), weights=np.array([-0.1, 0.0]))
    head_on = start(-0.2, 0.0, 0.5, 0.0, (0.0, 0.0))
    speeds = []
    for twin in (Twin(TABLE, (0, 1)), Twin(TABLE, (0, 1), correction=ball)):
        contact = next(e.time for e in twin.simulate(head_on, values).events if e.kind == EventKind.BALL_BALL)
        path = twin.simulate(head_on, values, [contact + 1e-4, contact + 2e-4])
        speeds.append((path.positions[1, 1, 0] - path.positions[0, 1, 0]) / 1e-4)
    assert speeds[1] / speeds[0] == pytest.approx(0.9, rel=2e-3)


def test_no_weights_however_large_give_energy():
    rng = np.random.default_rng(3)
    places = np.array([[0.1, 0.0], [0.5, 0.3], [1.5, 0.8]])
    basis = Basis(places, np.array([0.5, 0.5]))
    rolling = Basis(rng.uniform(-0.4, 0.4, (6, 5)), np.array([0.2, 0.2, 0.7, 0.7, 0.5]))
    learned = Correction(rolling, basis, basis, np.zeros(6 + 12))
    twin = Twin(TABLE, (0, 1, 2), correction=learned)
    count = 60
    starts = [
        start(*rng.uniform(-0.2, 0.2, 2), *rng.uniform(-2, 2, 2), (0.35, 0.1), (-0.35, -0.1)) for _ in range(count)
    ]
    weights = rng.choice([-5.0, 5.0], (count, learned.size))
    paths = twin.simulate_batch(starts, nominal_values(), weights=weights)
    assert [p.fault for p in paths] == [None] * count
    assert all(np.isfinite(p.rest_time) for p in paths)


def test_weights_of_a_batch_are_each_jobs_own_for_any_number_of_threads():
    twin = Twin(TABLE, (0,), correction=rolling_everywhere(0.0))
    rolls, weights = [start(-0.4, 0.0, 0.25, 0.02)] * 8, np.linspace(-0.5, 0.5, 8)[:, None]
    one, two = (twin.simulate_batch(rolls, nominal_values(), weights=weights, threads=n) for n in (1, 2))
    reach = [p.rest_positions[0, 0] for p in one]
    assert np.all(np.diff(reach) < 0)
    np.testing.assert_array_equal(reach, [p.rest_positions[0, 0] for p in two])
    with pytest.raises(FileFormatError, match=r"shape \(8, 1\), got \(8, 2\)"):
        twin.simulate_batch(rolls, nominal_values(), weights=np.zeros((8, 2)))


def test_a_correction_survives_files_and_processes():
    learned = Correction(cushion=Basis(np.array([[0.5, 0.1]]), np.array([0.3, 0.2])), weights=np.array([0.1, -0.05]))
    again = Correction.from_dict(learned.to_dict())
    twin = Twin(TABLE, (0,), correction=again)
    filed, _ = twin_from_dict(twin_to_dict(twin, ParameterEstimate.nominal()))
    other = pickle.loads(pickle.dumps(twin))
    rolls = start(-0.4, 0.0, 0.5, 0.2)
    rest = twin.simulate(rolls, None).rest_positions
    for same in (other, filed):
        np.testing.assert_array_equal(rest, same.simulate(rolls, None).rest_positions)
    with pytest.raises(FileFormatError, match="needs 2 finite weights"):
        Correction(cushion=learned.cushion, weights=np.zeros(1))
    with pytest.raises(FileFormatError, match="malformed"):
        Correction.from_dict({"rolling": {}})
