"""Parameters and estimates."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cue_core import PARAMETERS, Parameter, ParameterEstimate
from cue_core.errors import FileFormatError, OutOfRangeError, UnknownNameError
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
    free = np.arange(count) % 2 == 1
    estimate = replace(
        ParameterEstimate.nominal(),
        revision=4,
        values=np.minimum(nominal_values() * np.where(free, 1.1, 1.0), [p.maximum for p in PARAMETERS.values()]),
        covariance=root @ root.T * np.outer(free, free),
        frozen=~free,
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


def test_files_and_reports_list_what_is_fitted_or_not_nominal() -> None:
    usual = ParameterEstimate.nominal()
    assert usual.listed == default_fitted()
    values, frozen = nominal_values(), usual.frozen.copy()
    place = {name: i for i, name in enumerate(PARAMETERS)}
    values[place["mass_ratio_3"]] = 0.9
    frozen[place["tilt_x"]] = frozen[place["nap_y2"]] = False
    covariance = np.zeros_like(usual.covariance)
    covariance[place["nap_y2"], place["tilt_x"]] = covariance[place["tilt_x"], place["nap_y2"]] = 1e-9
    estimate = replace(usual, values=values, frozen=frozen, covariance=covariance)
    assert set(estimate.listed) == {*default_fitted(), "mass_ratio_3", "nap_y2"}
    data = json.loads(json.dumps(estimate.to_dict()))
    assert set(data["parameters"]) == set(estimate.listed)
    assert data["covariance_of"] == ["tilt_x", "nap_y2"] and np.shape(data["covariance"]) == (2, 2)
    back = ParameterEstimate.from_dict(data)
    assert np.array_equal(back.values, values) and np.array_equal(back.frozen, frozen)
    assert np.array_equal(back.covariance, covariance)


def test_an_estimate_of_an_earlier_version_is_read() -> None:
    """It had the first eleven parameters, and the covariance of them all; what came later is nominal and frozen."""
    first = list(PARAMETERS)[:11]
    root = np.random.default_rng(1).normal(size=(11, 11))
    row = {"unit": "1", "stddev": 1.0, "minimum": 0.0, "maximum": 1.0, "at_bound": False, "identifiable": True}
    data = {
        **ParameterEstimate.nominal().to_dict(),
        "parameters": {name: {**row, "value": PARAMETERS[name].maximum, "frozen": name == "tilt_y"} for name in first},
        "covariance": (root @ root.T).tolist(),
    }
    del data["covariance_of"]
    back = ParameterEstimate.from_dict(data)
    assert np.array_equal(back.values, [*(PARAMETERS[name].maximum for name in first), *nominal_values()[11:]])
    assert np.array_equal(back.covariance[:11, :11], root @ root.T) and not back.covariance[11:].any()
    assert back.frozen[10:].all() and not back.frozen[:10].any() and not back.identifiable[11:].any()


def test_estimates_that_do_not_fit_are_refused() -> None:
    data = ParameterEstimate.nominal().to_dict()
    wild = {**data["parameters"]["tilt_x"], "value": 0.5}
    with pytest.raises(OutOfRangeError, match=r"tilt_x is 0.5, allowed is -0.01 to 0.01 rad"):
        ParameterEstimate.from_dict({**data, "parameters": {"tilt_x": wild}})
    with pytest.raises(UnknownNameError, match="grip"):
        ParameterEstimate.from_dict({**data, "parameters": {"grip": data["parameters"]["tilt_x"]}})
    with pytest.raises(FileFormatError, match="covariance of 4 numbers, 1 parameters need 1"):
        ParameterEstimate.from_dict({**data, "covariance_of": ["tilt_x"], "covariance": [[1, 0], [0, 1]]})
