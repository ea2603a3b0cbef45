from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from cue_core.errors import UnknownNameError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_identify.replay import Budget
from cue_identify.search import cma_search
from cue_identify.space import EmptyRangeError, Space


def bowl(points):
    return [float(np.sum((p - [0.3, 0.8]) ** 2)) for p in points]


def search(seed, start=(0.5, 0.5), cost=bowl):
    return cma_search(cost, np.array(start), 0.2, 40, 8, np.random.default_rng(seed), Budget(10**6))


@pytest.mark.parametrize("seed", [0, 1])
def test_c03_a_seed_repeats_and_zero_is_one(seed):
    first, second = search(seed), search(seed)
    np.testing.assert_array_equal(first.unit, second.unit)
    assert first.reason == second.reason != "none"
    np.testing.assert_allclose(first.unit, [0.3, 0.8], atol=0.01)


def test_seeds_differ():
    assert not np.array_equal(search(0).unit, search(1).unit)


def test_c03_stray_use_of_the_global_stream_changes_nothing_and_it_is_left_alone():
    np.random.seed(7)
    before = np.random.get_state()[1].copy()

    def stray(points):
        np.random.rand()
        return bowl(points)

    np.testing.assert_array_equal(search(0, cost=stray).unit, search(0).unit)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_c04_a_start_on_or_outside_the_bounds_is_moved_inside():
    for start in ([0.0, 1.0], [-3.0, 7.0]):
        found = search(0, start)
        assert ((found.unit >= 0) & (found.unit <= 1)).all()
        np.testing.assert_allclose(found.unit, [0.3, 0.8], atol=0.02)


def test_infinite_costs_are_ranked_last():
    found = search(0, cost=lambda points: [bowl([p])[0] if p[0] < 0.6 else np.inf for p in points])
    np.testing.assert_allclose(found.unit, [0.3, 0.8], atol=0.02)


def test_a_space_scales_and_holds_the_others():
    base = nominal_values()
    space = Space.of(("cushion_restitution", "rolling_friction"), base)
    assert space.names == ("rolling_friction", "cushion_restitution")  # in the order of the registry
    np.testing.assert_allclose(space.values(space.unit(base)), base)
    assert space.values(np.array([0.0, 1.0]))[space.index].tolist() == [0.002, 1.0]
    assert space.at_bound(np.array([0.005, 0.5])).tolist() == [True, False]


def test_c04_a_parameter_outside_its_box_is_moved_in():
    base = nominal_values()
    base[list(PARAMETERS).index("rolling_friction")] = 5.0
    assert Space.of(("rolling_friction",), base).unit(base).tolist() == [1.0]


@pytest.mark.parametrize("low, high", [(0.2, 0.2), (0.3, 0.1), (-np.inf, 1.0)])
def test_c04_empty_ranges_are_refused_by_name(low, high):
    odd = replace(PARAMETERS["rolling_friction"])
    object.__setattr__(odd, "minimum", low)
    object.__setattr__(odd, "maximum", high)
    registry = MappingProxyType({**PARAMETERS, "rolling_friction": odd})
    with pytest.raises(EmptyRangeError, match="rolling_friction"):
        Space.of(("rolling_friction",), nominal_values(), registry)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="sliding_friction"):
        Space.of(("slime",), nominal_values())


def test_one_dimension_works_too():
    found = search(0, (0.5,), lambda points: [float((p[0] - 0.3) ** 2) for p in points])
    assert found.unit.shape == found.mean.shape == (1,)
    assert found.unit[0] == pytest.approx(0.3, abs=0.01)
