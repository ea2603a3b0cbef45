"""Learning beside the parameters: a cloth that no parameter describes, and one that needs nothing."""

import numpy as np

from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_identify import learn
from cue_identify.curriculum import CURRICULUM
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.learn import _BumpSpace, _spread_out
from cue_identify.observations import observe
from cue_identify.polish import Point
from cue_identify.replay import Budget, Replayer, TwinSimulator, cue_direction
from cue_identify.scoring import mean_score
from cue_identify.space import Space
from cue_identify.synthetic import Noise, record_session
from cue_sim.correction import Basis, Correction

TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
QUIET = Noise(azimuth=np.radians(0.1))
FITTED = ("rolling_friction", "tip_restitution")
WAVES = {"cloth_law": "patched", "cloth_parameters": {"wave": 0.5, "wave_length": 1.6}}


def held_out(simulator, values, records):
    return mean_score(Replayer(simulator, Budget(1000), 1).score(records, values))[0]


def learned(monkeypatch, extras, shots):
    """Return what is learned beside the right parameters, and the held-out errors without and with it."""
    monkeypatch.setattr(learn, "_MOST", {"rolling": 16, "cushion": 0, "ball": 0})
    world, simulator, values = TwinSimulator(TABLE, (0,), extras=extras), TwinSimulator(TABLE, (0,)), nominal_values()
    rng = np.random.default_rng(8)
    records = record_session(world, TABLE, values, shots + 12, rng, QUIET, speeds=(0.1, 0.22))
    data = [observe(r, cue_direction(simulator, r, values)) for r in records[:shots]]
    space = Space.of(FITTED, values)
    found = learn.learn(
        simulator, data, Point.at(space.nominal, data), space, CURRICULUM[-1].scale, Budget(10**6), threads=1
    )
    before = held_out(simulator, values, records[shots:])
    told = None if found.correction is None else found.correction.to_dict()
    after = held_out(simulator.corrected(told), space.values(found.point.unit), records[shots:])
    return found, before, after


def test_what_an_uneven_cloth_does_is_learned_and_holds_for_unseen_shots(monkeypatch):
    found, before, after = learned(monkeypatch, WAVES, 16)
    assert [step.action for step in found.steps] == ["added"]
    assert after < 0.6 * before


def test_a_plain_table_is_left_alone(monkeypatch):
    found, _, _ = learned(monkeypatch, {}, 15)
    assert found.correction is None
    assert [step.action for step in found.steps] == ["refused"]


def test_too_few_shots_teach_nothing(monkeypatch):
    found, before, after = learned(monkeypatch, WAVES, 6)
    assert found.correction is None and after == before
    assert found.steps[0].words == "correction refused: 6 shots explained, needs 15"


def test_a_fit_that_may_learn_keeps_what_it_learned_in_the_estimate(monkeypatch):
    basis = Basis(np.array([[0.5, 0.1]]), np.array([0.3, 0.2]))
    told = Correction(cushion=basis, weights=np.array([0.1, -0.05]))
    asked = []

    def pretend(simulator, shots, point, *rest):
        asked.append(len(shots))
        return learn.Learned(told, point, (learn.Step.of("correction of cushion", "added", 9.0, 1.0),))

    monkeypatch.setattr(learn, "learn", pretend)
    simulator = TwinSimulator(TABLE, (0, 1))
    records = record_session(simulator, TABLE, nominal_values(), 5, np.random.default_rng(8), QUIET, speeds=(0.1, 0.22))
    request = FitRequest(parameters=FITTED, evaluations=400, learn=True)
    outcome = Fitter(simulator, FitConfig(threads=1)).fit(records, request)
    assert asked and outcome.estimate.correction == told.to_dict()
    assert outcome.steps[-1].action == "added"
    plain = Fitter(simulator, FitConfig(threads=1)).fit(records, FitRequest(parameters=FITTED, evaluations=400))
    assert plain.estimate.correction is None and len(asked) == 1


def test_unknowns_of_bumps_have_the_spread_of_their_gaussian_process():
    """u of variance 1 must give functions of the stated size at every place that a bump is at."""
    places = np.array([[0.2, 0.0], [0.6, 0.2], [1.4, 0.3]])
    offered = Correction(ball=Basis(places, np.array([0.5, 0.5])), weights=np.zeros(6))
    space = _BumpSpace.around(Space.of(FITTED, nominal_values()), offered, ("ball",))
    assert len(space.names) == 2 + 6 and len(space.base) == len(PARAMETERS) + 6
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        unit = space.nominal + space.prior_stddev * np.r_[0, 0, rng.standard_normal(6)]
        drawn.append(offered.ball(places) @ space.values(unit)[len(PARAMETERS) :].reshape(2, 3).T)
    np.testing.assert_allclose(np.std(drawn, axis=0), np.tile([0.03, 0.2], (3, 1)), rtol=0.08)
    np.testing.assert_allclose(space.values(space.nominal)[len(PARAMETERS) :], 0.0, atol=1e-15)


def test_places_are_spread_out_and_few():
    rng = np.random.default_rng(1)
    seen, widths = rng.uniform(0, 1, (500, 2)), np.array([0.2, 0.4])
    chosen = _spread_out(seen, widths, 12)
    gaps = np.linalg.norm((chosen[:, None] - chosen) / widths, axis=2)[~np.eye(len(chosen), dtype=bool)]
    assert len(chosen) == 12 and gaps.min() > 0.8
    assert len(_spread_out(np.zeros((50, 2)), widths, 12)) == 1
    assert len(_spread_out(np.zeros((0, 2)), widths, 12)) == 0
