"""The exported twin: the same trajectories after a reload elsewhere; a portable copy that other tools can load."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.errors import CueError, FileFormatError
from cue_core.parameters import ParameterEstimate
from cue_core.shots import Stroke
from cue_core.table import TableModel
from cue_sim.export import load_balls, load_twin, save_twin, twin_from_dict, twin_to_dict
from cue_sim.portable import save_portable
from cue_sim.predict import start_from
from cue_sim.twin import Twin

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "small.yaml")
BALLS = tuple(
    BallState(b, np.array(p)) for b, p in ((0, (-0.3, 0.0)), (1, (0.1, 0.01)), (3, (0.2, 0.12)), (5, (0.3, -0.1)))
)
STROKES = [(0.9, 0.02), (1.4, 0.5), (0.6, -2.0)]
ESTIMATE = replace(
    ParameterEstimate.nominal(),
    revision=3,
    values=ParameterEstimate.nominal().values * 0.97,
    covariance=np.diag((0.01 * ParameterEstimate.nominal().values) ** 2),
    data_hash="0123456789abcdef",
    largest_step=0.02,
)

RELOAD = """
import json, sys
from cue_core.balls import BallState
from cue_core.shots import Stroke
from cue_sim.export import load_twin
from cue_sim.predict import start_from
import numpy as np
twin, estimate = load_twin(sys.argv[1])
places = json.loads(open(sys.argv[1]).read())["positions_m"]
balls = [BallState(int(b), np.array(p)) for b, p in places.items()]
out = []
for speed, azimuth in json.loads(sys.argv[2]):
    start = start_from(balls, Stroke(speed, azimuth), estimate.values, twin.table, twin.ball_ids)
    out.append(twin.simulate(start, estimate.values, np.arange(0, 5, 0.1)).positions.tolist())
print(json.dumps(out))
"""


def test_a_reloaded_twin_repeats_three_shots_in_a_new_process(tmp_path):
    """FAULTS M13."""
    twin = Twin(
        TABLE, (0, 1, 3, 5), masses={0: 0.05}, extras={"rolling_slope": 0.1, "cushion_offset": (0, 0, 0.01, 0, 0, 0)}
    )
    save_twin(tmp_path / "twin.json", twin, ESTIMATE, BALLS)
    done = subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path / "twin.json"), json.dumps(STROKES)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    there = json.loads(done.stdout)
    for (speed, azimuth), positions in zip(STROKES, there, strict=True):
        start = start_from(BALLS, Stroke(speed, azimuth), ESTIMATE.values, TABLE, twin.ball_ids)
        here = twin.simulate(start, ESTIMATE.values, np.arange(0, 5, 0.1))
        np.testing.assert_allclose(positions, here.positions, rtol=0, atol=1e-9)
    assert [p.name for p in tmp_path.iterdir()] == ["twin.json"]


def test_the_file_says_what_the_twin_is(tmp_path):
    """FAULTS M13: parameters, steps, covariance and data hash are in the file."""
    save_twin(tmp_path / "twin.json", Twin(TABLE, (0, 1, 3, 5)), ESTIMATE, BALLS)
    data = json.loads((tmp_path / "twin.json").read_text())
    assert set(data["estimate"]["parameters"]) == set(ESTIMATE.listed)
    assert data["estimate"]["data_hash"] == "0123456789abcdef"
    assert data["steps"] == {"policy": "event-aligned", "largest_s": 0.2, "impact_s": 2e-6}
    assert data["mujoco"] == mujoco.mj_versionString()
    _, estimate = load_twin(tmp_path / "twin.json")
    np.testing.assert_array_equal(estimate.covariance, ESTIMATE.covariance)


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "twin.json"
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_twin(path)
    path.write_text("{")
    with pytest.raises(FileFormatError, match="not JSON"):
        load_twin(path)
    path.write_text('{"format": "other"}')
    with pytest.raises(FileFormatError, match="cue-twin"):
        load_twin(path)
    save_twin(path, Twin(TABLE, (0,)), ESTIMATE)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "mujoco": "3.0.0"}))
    with pytest.raises(FileFormatError, match=r"MuJoCo 3\.0\.0"):
        load_twin(path)
    data.pop("steps")
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match="steps"):
        load_twin(path)
    with pytest.raises(FileFormatError, match="cannot be written"):
        save_twin(tmp_path / "nowhere" / "twin.json", Twin(TABLE, (0,)), ESTIMATE)


@pytest.mark.parametrize(
    "place, value, named",
    [
        (("steps", "policy"), "fixed", "policy 'fixed'"),
        (("steps", "largest"), 0.1, "unknown key largest"),
        (("laws_beyond_parameters",), [], "needs a mapping"),
        (("laws_beyond_parameters", "gravity"), math.nan, "gravity is nan"),
    ],
)
def test_a_changed_file_is_refused_by_name(place, value, named):
    data = twin_to_dict(Twin(TABLE, (0, 1)), ESTIMATE)
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(CueError, match=named):
        twin_from_dict(data)


@pytest.mark.parametrize("place", [[0.1], [0.1, None], [math.nan, 0.0]])
def test_balls_without_a_place_are_refused(tmp_path, place):
    save_twin(tmp_path / "twin.json", Twin(TABLE, (0, 1)), ESTIMATE, BALLS[:1])
    data = json.loads((tmp_path / "twin.json").read_text())
    data["positions_m"]["0"] = place
    (tmp_path / "twin.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match="malformed positions"):
        load_balls(tmp_path / "twin.json")


def test_the_portable_copy_loads_alone_and_behaves_like_a_table(tmp_path):
    save_portable(tmp_path / "twin.xml", TABLE, (0, 1, 3, 5), ESTIMATE, BALLS)
    text = (tmp_path / "twin.xml").read_text()
    assert "not yet fitted" in text and "twin.json" in text
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "twin.xml"))
    assert model.numeric("sliding_friction").data[0] == ESTIMATE.values[0]
    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    dof = model.body("ball_0").dofadr[0]
    data.qvel[dof] = 0.4
    mujoco.mj_step(model, data, nstep=int(8 / model.opt.timestep))
    balls = [data.body(f"ball_{b.ball_id}").xpos for b in BALLS]
    assert balls[1][0] > 0.15  # it was hit
    for place in balls:
        assert abs(place[2] - TABLE.ball_radius) < 1e-3
        assert abs(place[0]) < TABLE.length / 2 and abs(place[1]) < TABLE.width / 2
    assert np.abs(data.qvel).max() < 1e-3  # all at rest (FAULTS M01, M04)
