"""Parameters and estimates."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cue_core import PARAMETERS, Parameter, ParameterEstimate
from cue_core.errors import FileFormatError, UnknownNameError
from cue_core.parameters import check_names, default_fitted, nominal_values


def test_every_parameter_has_unit_source_and_room() -> None:
    for p in PARAMETERS.values():
        assert p.unit and p.description and p.source
        assert p.minimum < p.maximum
    assert set(default_fitted()) < set(PARAMETERS)


def test_bounds_without_room_are_refused_by_name() -> None:
    with pytest.raises(FileFormatError, match="parameter e"):
        Parameter("e", "1", 1.0, 1.0, 1.0, "", "")
    with pytest.raises(FileFormatError, match="parameter e"):
        Parameter("e", "1", 5.0, 0.0, 1.0, "", "")


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(UnknownNameError, match=r"'grip'; known are .*sliding_friction"):
        check_names(["grip"])


def test_estimate_round_trip_through_json() -> None:
    count = len(PARAMETERS)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(count, count)) * 1e-3
    estimate = replace(
        ParameterEstimate.nominal(),
        revision=4,
        values=nominal_values() * 1.1,
        covariance=root @ root.T,
        frozen=np.arange(count) % 2 == 0,
        train_error=0.01,
        shot_ids=("a", "b"),
        data_hash="00ff",
    )
    back = ParameterEstimate.from_dict(json.loads(json.dumps(estimate.to_dict())))
    assert np.array_equal(back.values, estimate.values)
    assert np.array_equal(back.covariance, estimate.covariance)
    assert np.array_equal(back.frozen, estimate.frozen)
    assert (back.revision, back.shot_ids, back.data_hash) == (4, ("a", "b"), "00ff")
    assert np.isnan(back.held_out_error)


def test_estimate_lacking_a_parameter_is_refused() -> None:
    data = ParameterEstimate.nominal().to_dict()
    del data["parameters"]["tip_restitution"]
    with pytest.raises(FileFormatError, match="lacks parameter tip_restitution"):
        ParameterEstimate.from_dict(data)
