"""Terms are added where shots left out ask for them, and nowhere else."""

import numpy as np
import pytest

from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.observations import observe
from cue_identify.polish import Point, Polish
from cue_identify.replay import Budget, Replayer, cue_direction
from cue_identify.selection import Selector, base_parameters, optional_terms
from cue_identify.space import Space

ORDER = list(PARAMETERS)
STRAIGHT = ("sliding_friction", "rolling_friction", "tip_restitution")
OFFERED = {
    "tilt": ("tilt_x", "tilt_y"),
    "latency": ("latency",),
    "nap": ("nap_x2", "nap_y2"),
    "rolling_slope": ("rolling_slope",),
}
SCALE = 0.002


def truth(**changes):
    values = nominal_values()
    for name, value in changes.items():
        values[ORDER.index(name)] = value
    return values


@pytest.fixture
def tilting(fake_simulator):
    """A fake whose table may be tilted and whose camera may be late; it knows no other term."""

    class Tilting(fake_simulator):
        def _one(self, start, values, times):
            times = np.maximum(times - self.of(values, "latency"), 0.0)
            path = super()._one(start, values, times)
            slope = np.array([self.of(values, "tilt_x"), self.of(values, "tilt_y")])
            cue = self.ball_ids.index(0)
            rolling = np.minimum(times, 2.0)[:, None]
            path.positions[:, cue] += 0.5 * 5 / 7 * 9.81 * slope * rolling**2
            path.rest_positions[cue] += 0.5 * 5 / 7 * 9.81 * slope * 2.0**2
            return path

    return Tilting()


def select(simulator, records, offered=OFFERED):
    replayer = Replayer(simulator, Budget(10**6), threads=1)
    space = Space.of(STRAIGHT, nominal_values())
    shots = [observe(record, cue_direction(simulator, record, nominal_values())) for record in records]
    polish = Polish(replayer, shots, space, SCALE, space.nominal, places=True)
    point, _, _ = polish.run(Point.at(space.nominal, shots), np.ones(3, bool), 12)
    return Selector(replayer, shots, SCALE).select(point, space, offered), replayer


def test_a_tilted_table_asks_for_its_tilt_and_gives_it_back(tilting, make_straight_records):
    values = truth(tilt_x=0.002, tilt_y=-0.001, sliding_friction=0.25)
    found, _ = select(tilting, make_straight_records(tilting, values, 8))
    assert found.terms == ("tilt",)
    given = found.space.values(found.point.unit)
    for name in ("tilt_x", "tilt_y"):
        assert given[ORDER.index(name)] == pytest.approx(values[ORDER.index(name)], abs=3e-4)
    added = next(step for step in found.steps if step.action == "added")
    assert added.term == "tilt" and added.gain > added.margin and "tilt added" in added.words


def test_a_plain_table_asks_for_nothing(tilting, make_straight_records):
    found, replayer = select(tilting, make_straight_records(tilting, truth(rolling_friction=0.013), 8, seed=2))
    assert found.terms == () and found.space.names == STRAIGHT
    assert all(step.action == "refused" and step.gain <= step.margin for step in found.steps)
    assert replayer.budget.spent < 20000


def test_a_term_that_others_make_superfluous_is_removed(tilting, make_straight_records):
    """Backward: a term chosen while the right one was not on offer goes when that has come."""
    records = make_straight_records(tilting, truth(tilt_x=0.002), 8)
    _, replayer = select(tilting, records[:2], {})
    shots = [observe(record, cue_direction(tilting, record, nominal_values())) for record in records]
    selector = Selector(replayer, shots, SCALE)
    base = Space.of(STRAIGHT, nominal_values())
    both = Space.of((*STRAIGHT, "latency", "tilt_x", "tilt_y"), nominal_values())
    model = selector.fit(both, Point.at(both.nominal, shots))
    chosen = {"latency": ("latency",), "tilt": ("tilt_x", "tilt_y")}
    steps = []
    left = selector._backward(model, base, chosen, len(OFFERED), steps)
    assert set(chosen) == {"tilt"} and left.space.names == (*STRAIGHT, "tilt_x", "tilt_y")
    assert [(step.term, step.action) for step in steps] == [("latency", "removed")]


def test_the_base_has_no_term_that_may_be_chosen():
    offered = optional_terms((0, 1, 3), 6)
    assert not set(base_parameters()) & {name for names in offered.values() for name in names}
    assert "tilt" in offered and offered["ball_mass"] == ("mass_ratio_1", "mass_ratio_3")
    assert len(offered["per_cushion"]) == 6


def test_a_fit_that_is_to_choose_says_what_it_chose_and_why(tilting, make_straight_records):
    records = make_straight_records(tilting, truth(tilt_x=0.003, tip_restitution=0.6), 8)
    outcome = Fitter(tilting, FitConfig(threads=1)).fit(records, FitRequest(terms=("auto",), evaluations=8000))
    assert outcome.terms == ("tilt",)
    estimate = outcome.estimate
    i = ORDER.index("tilt_x")
    assert not estimate.frozen[i] and estimate.values[i] == pytest.approx(0.003, abs=4e-4)
    assert estimate.frozen[ORDER.index("latency")]
    told = outcome.details()
    assert told["terms"] == ["tilt"] and any(step["action"] == "added" for step in told["steps"])
    assert len(outcome.verdicts) == (~estimate.frozen).sum()


@pytest.mark.parametrize("request_", [FitRequest(terms=("tilt",)), FitRequest(terms=("auto",), parameters=STRAIGHT)])
def test_anything_but_auto_alone_is_refused(tilting, make_straight_records, request_):
    with pytest.raises(FitError, match="auto") as caught:
        Fitter(tilting, FitConfig(threads=1)).fit(make_straight_records(tilting, truth(), 4), request_)
    assert caught.value.code is FitCode.INVALID_GOAL
