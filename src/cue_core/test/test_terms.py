"""The registry of terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS, default_fitted, nominal_values
from cue_core.terms import BALLS, CUSHIONS, FIELD, SHAPES, TERMS, Knobs, Parameter, find, places, write


def test_the_order_of_vectors() -> None:
    """Files of earlier versions hold the first eleven by name and the covariance by place."""
    assert list(PARAMETERS)[:11] == [
        "sliding_friction",
        "rolling_friction",
        "spinning_deceleration",
        "ball_restitution",
        "ball_friction",
        "cushion_restitution",
        "cushion_restitution_slope",
        "cushion_friction",
        "tip_restitution",
        "tilt_x",
        "tilt_y",
    ]
    assert [name for term in TERMS for name in term.names] == list(PARAMETERS)
    assert set(default_fitted()) == set(list(PARAMETERS)[:11]) - {"spinning_deceleration"}


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_every_term_says_what_it_is_and_writes_its_own_samples(term) -> None:
    assert find(term.name) is term and term.description
    assert list(PARAMETERS)[places(term.name)] == list(term.names)
    if term.belongs:
        assert len(term.parameters) == {"ball": BALLS, "cushion": CUSHIONS}[term.belongs]
    for p in term.parameters:
        assert p.description and p.source and p.unit
        assert p.scale > 0 and 0 < p.prior_stddev <= 0.25 * (p.maximum - p.minimum)
    vectors = np.tile(nominal_values(), (3, 1))
    vectors[1, places(term.name)] += [0.5 * p.scale for p in term.parameters]
    knobs, plain = _knobs(3), _knobs(3)
    write(vectors, knobs)
    changed = {name for name in SHAPES if not np.array_equal(getattr(knobs, name), getattr(plain, name))}
    assert changed
    for name in changed:
        np.testing.assert_array_equal(getattr(knobs, name)[[0, 2]], getattr(plain, name)[[0, 2]])


def _knobs(count: int) -> Knobs:
    """Knobs of a twin with nominal parameters."""
    knobs = Knobs.neutral(count)
    for name in list(SHAPES)[:11]:
        getattr(knobs, name)[:] = PARAMETERS[name].nominal
    return knobs


def test_which_parameters_are_worth_fitting_on_a_table() -> None:
    assert find("nap").acting((0, 1), 6) == ("nap_x2", "nap_y2")
    assert find("noses").acting((0,), 4) == tuple(f"nose_offset_{i}" for i in range(4))
    assert find("ball_diameter").acting((0, 5), 6) == ("diameter_ratio_0", "diameter_ratio_5")
    assert find("ball_mass").acting((0, 5), 6) == ("mass_ratio_5",)  # only ratios show
    assert len(find("cloth_field").acting((0,), 6)) == FIELD[0] * FIELD[1]


def test_unknown_terms_list_the_known() -> None:
    with pytest.raises(UnknownNameError, match=r"nip.*nap"):
        find("nip")
    with pytest.raises(UnknownNameError, match=r"nip.*nap"):
        places("nip")


def test_prior_and_scale_have_defaults_and_must_be_positive() -> None:
    plain = Parameter("e", "1", 0.5, 0.0, 1.0, "", "")
    assert (plain.prior_stddev, plain.scale) == (0.25, 0.25)
    assert Parameter("e", "1", 0.5, 0.0, 1.0, "", "", prior_stddev=0.1).scale == 0.1
    with pytest.raises(FileFormatError, match="prior_stddev and scale"):
        Parameter("e", "1", 0.5, 0.0, 1.0, "", "", prior_stddev=0.0)


def test_the_documentation_lists_every_term() -> None:
    text = (Path(__file__).parents[3] / "docs" / "physics.md").read_text(encoding="utf-8")
    section = text[text.index("## Terms") : text.index("## How the laws get into MuJoCo")]
    for term in TERMS:
        assert f"`{term.name}`" in section and f"`{term.names[0]}`" in section, term.name
