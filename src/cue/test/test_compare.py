"""``cue compare``: runs side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cue.cli import main
from cue_core.parameters import PARAMETERS, ParameterEstimate


def run(folder, rolling, error, revision=1):
    """Write what is left of a session that learnt the rolling friction."""
    folder.mkdir()
    count = len(PARAMETERS)
    place = list(PARAMETERS).index("rolling_friction")
    values, covariance, frozen = (
        ParameterEstimate.nominal().values.copy(),
        np.zeros((count, count)),
        np.ones(count, bool),
    )
    values[place], covariance[place, place], frozen[place] = rolling, 1e-8, False
    no = np.zeros(count, bool)
    estimate = ParameterEstimate(1, values, covariance, frozen, no, ~no)
    (folder / "estimates.jsonl").write_text(json.dumps({**estimate.to_dict(), "promoted": True}) + "\n")
    held_out = {
        "shots": 2,
        "unfitted": {"rest_error_m": 0.1, "along_track_error_m": 0.05},
        "calibrated": {"rest_error_m": error, "along_track_error_m": None},
    }
    summary = {"revision": revision, "held_out": held_out, "shots_used": 12, "wall_s": 60.4, "planner": "offline"}
    (folder / "summary.json").write_text(json.dumps(summary))
    return str(folder)


def test_errors_and_parameters_stand_side_by_side(tmp_path, capsys):
    runs = [
        run(tmp_path / "one", 0.01, 0.02),
        run(tmp_path / "other", 0.0105, 0.03),
        run(tmp_path / "none", 0.0, 0.1, 0),
    ]
    assert main(["compare", *runs]) == 0
    text = capsys.readouterr().out
    assert [line.split()[-3:] for line in text.splitlines() if line.startswith("rest position, calib")] == [
        ["2.00", "3.00", "10.00"]
    ]
    (line,) = [line for line in text.splitlines() if line.startswith("rolling_friction")]
    assert "0.01 ± 0.0001" in line
    assert "0.0105 ± 0.0001 (3.5 σ)" in line


def test_as_json_unknown_is_null(tmp_path, capsys):
    runs = [run(tmp_path / "one", 0.01, 0.02), run(tmp_path / "other", 0.01, 0.03)]
    assert main(["compare", *runs, "--json"]) == 0
    one, other = json.loads(capsys.readouterr().out)["runs"]
    assert one["held_out"]["calibrated"] == {"rest_error_m": 0.02, "along_track_error_m": None}
    assert other["parameters"]["rolling_friction"]["value"] == 0.01
    assert other["sigmas_from_first"] == {"rolling_friction": 0.0}


@pytest.mark.parametrize(("count", "says"), [(1, "needs two run folders"), (2, "has the session ended")])
def test_what_cannot_be_compared_is_one_line(tmp_path, capsys, count, says):
    assert main(["compare", *[str(tmp_path)] * count]) == 2
    assert says in capsys.readouterr().err
