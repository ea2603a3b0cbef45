"""The portable copy: loads anywhere, behaves like a table, is fitted to the twin, says truly how far off it is."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace

import mujoco
import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.errors import CueError, FileFormatError
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.export import load_balls, save_twin
from cue_sim.path import Start
from cue_sim.portable import PortableParameters, portable_spec, read_statement, save_portable
from cue_sim.portable_fit import benchmark, fit_files, fit_portable
from cue_sim.portable_measure import measure, probe_shots, rest_difference
from cue_sim.portable_play import ExactImpacts, PortableCancelledError, PortableTable, Rest
from cue_sim.portable_probes import collisions, rebounds
from cue_sim.twin import Twin

TABLE = TableModel.load(config_file("tables", "small"))
RADIUS = TABLE.ball_radius
BALLS = tuple(BallState(b, np.array(p)) for b, p in ((0, (-0.3, 0.05)), (1, (0.1, 0.01)), (3, (0.2, 0.12))))
# Away from the nominal values by a tenth, alternately up and down; what a copy can only imitate stays out.
_FACTORS = 1 + 0.1 * np.array([(-1) ** k if k < 11 else 0 for k in range(len(PARAMETERS))])
_HIGHEST = 0.999 * np.array([p.maximum for p in PARAMETERS.values()])
ESTIMATE = replace(
    ParameterEstimate.nominal(),
    values=np.minimum(ParameterEstimate.nominal().values * _FACTORS, _HIGHEST),
    revision=4,
    data_hash="0123456789abcdef",
)
QUICK = {"seed": 3, "effort": 0.4, "shots": 2}

STOCK = """
import json, sys
import mujoco
model = mujoco.MjModel.from_xml_path(sys.argv[1])
data = mujoco.MjData(model)
data.qvel[model.body("ball_0").dofadr[0]] = 0.5
mujoco.mj_step(model, data, nstep=round(10 / model.opt.timestep))
print(json.dumps({
    "rest": [data.body(f"ball_{b}").xpos.tolist() for b in (0, 1, 3)],
    "speed": float(abs(data.qvel).max()),
    "ours": sorted(name for name in sys.modules if name.startswith("cue_")),
}))
"""


@pytest.fixture(scope="module")
def twin() -> Twin:
    return Twin(TABLE, (0, 1, 3))


@pytest.fixture(scope="module")
def session(tmp_path_factory, twin):
    """A run folder whose portable copy was fitted a little, and the fit."""
    folder = tmp_path_factory.mktemp("run")
    save_twin(folder / "twin.json", twin, ESTIMATE, BALLS)
    told: list[tuple[float, str]] = []
    fit = fit_files(folder, progress=lambda share, text: told.append((share, text)), **QUICK)
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    return folder, fit


def test_the_file_alone_serves_stock_mujoco_in_a_new_process(session, tmp_path) -> None:
    """FAULTS M11, M13: no other file, no folder, no module of ours, nothing left behind."""
    text = (session[0] / "twin.xml").read_text()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "alone.xml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-I", "-c", STOCK, str(tmp_path / "alone.xml")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path / "elsewhere",
    )
    there = json.loads(done.stdout)
    assert there["ours"] == []
    assert there["speed"] < 1e-6
    assert there["rest"][0][0] > -0.2  # it rolled on from x = -0.3
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_copy_has_the_sizes_masses_and_noses_of_the_estimate() -> None:
    values = ESTIMATE.values.copy()
    for name, value in (("mass_ratio_3", 0.8), ("diameter_ratio_1", 0.95), ("nose_offset_2", 0.004)):
        values[list(PARAMETERS).index(name)] = value
    plain, other = (
        portable_spec(TABLE, (0, 1, 3), e, visual=False).compile() for e in (ESTIMATE, replace(ESTIMATE, values=values))
    )
    ratio = other.body_mass / np.where(plain.body_mass > 0, plain.body_mass, 1)
    assert [ratio[other.body(f"ball_{b}").id] for b in (0, 1, 3)] == pytest.approx([1, 1, 0.8])
    assert other.geom("ball_1").size[0] == pytest.approx(0.95 * RADIUS) == other.body("ball_1").pos[2]
    east = TABLE.cushions[2]
    moved = [other.geom(f"nose_{c.name}").pos - plain.geom(f"nose_{c.name}").pos for c in TABLE.cushions]
    np.testing.assert_allclose(moved[2][:2], 0.004 * east.normal, atol=1e-12)
    assert not np.any(moved[:2]) and not np.any(moved[3:])
    assert other.numeric("mass_ratio_3").data[0] == 0.8


def test_the_statement_inside_is_what_measuring_gives(session, twin) -> None:
    folder, fit = session
    stated = read_statement(folder / "twin.xml")
    assert stated["fitted"] and stated["revision"] == 4 and stated["seed"] == QUICK["seed"]
    parameters = PortableParameters(**stated["parameters"])
    assert parameters == fit.parameters
    again = measure(twin, ESTIMATE, parameters, seed=QUICK["seed"], shots=QUICK["shots"])
    assert stated["difference"] == {name: row.to_dict() for name, row in again.items()}
    assert set(again) == {"1", "2", "3-4", "5+"}
    model = mujoco.MjModel.from_xml_path(str(folder / "twin.xml"))
    median, p90 = model.numeric("cue_portable_mm_1_contacts").data
    assert median == pytest.approx(1000 * again["1"].median, rel=1e-4)
    assert p90 == pytest.approx(1000 * again["1"].p90, rel=1e-4)
    assert f"1 contact: {median:.1f}" in (folder / "twin.xml").read_text()


def test_the_file_plays_like_the_model_that_was_measured(session, twin) -> None:
    """Numbers in MJCF have six digits; what was stated must hold for the file."""
    folder, fit = session
    copy = PortableTable(twin, ESTIMATE, fit.parameters)
    starts = [start for start, _ in probe_shots(twin, ESTIMATE, np.random.default_rng(8), 3)["1"]]
    measured = copy.play(starts)
    copy = PortableTable(twin, ESTIMATE, fit.parameters)
    copy.model = mujoco.MjModel.from_xml_path(str(folder / "twin.xml"))
    for start, one, other in zip(starts, measured, copy.play(starts), strict=True):
        assert rest_difference(start, one, other) < 1e-3


@pytest.mark.parametrize(("probes", "share"), [(rebounds, 0.7), (collisions, 1.0)])
def test_the_fit_is_closer_to_the_twin_than_the_twins_own_coefficients(session, probes, share) -> None:
    """In how balls roll on after impacts that it has not seen; between balls these coefficients are good already."""
    starts = probes(TABLE, np.random.default_rng(77), 60)
    twin = Twin(TABLE, range(len(starts[0].positions)))
    exact = ExactImpacts(twin, ESTIMATE).impacts(starts)
    costs = []
    for parameters in (PortableParameters.unfitted(ESTIMATE), session[1].parameters):
        error = PortableTable(twin, ESTIMATE, parameters).impacts(starts) - exact
        roll = np.linalg.norm(error[..., :2], axis=2).max(axis=1)
        assert np.median(roll) < 0.03  # m/s
        costs.append(float(np.mean(np.log1p((roll / 0.02) ** 2))))
    unfitted, fitted = costs
    assert fitted < share * unfitted


def test_one_seed_gives_one_fit_on_any_number_of_threads(twin) -> None:
    little = {"effort": 0.1, "shots": 1}
    one, other = (fit_portable(twin, ESTIMATE, seed=5, threads=n, **little) for n in (1, 2))
    assert one == other
    assert one.parameters != PortableParameters.unfitted(ESTIMATE)


def test_a_fit_can_be_cancelled_and_leaves_the_old_file(tmp_path, twin) -> None:
    save_twin(tmp_path / "twin.json", twin, ESTIMATE, BALLS)
    (tmp_path / "twin.xml").write_text("old")
    asked = iter([False] * 5)
    with pytest.raises(PortableCancelledError):
        fit_files(tmp_path, cancelled=lambda: next(asked, True))
    assert (tmp_path / "twin.xml").read_text() == "old"
    with pytest.raises(CueError, match="effort"):
        fit_portable(twin, ESTIMATE, effort=0.0)


def _copy(count: int, table: TableModel = TABLE) -> PortableTable:
    estimate = ParameterEstimate.nominal()
    return PortableTable(Twin(table, range(count)), estimate, PortableParameters.unfitted(estimate))


def _start(*places: tuple[float, float], velocity=(0.0, 0.0), spin=(0.0, 0.0, 0.0)) -> Start:
    start = Start.at_rest(np.array(places))
    start.velocities[0], start.spins[0] = velocity, spin
    return start


def _run(copy: PortableTable, start: Start, seconds: float) -> mujoco.MjData:
    with copy._begun(start) as data:
        mujoco.mj_step(copy.model, data, nstep=round(seconds / copy.model.opt.timestep))
        return data


def test_m04_balls_at_rest_rest_whatever_they_touch() -> None:
    """Lying free, against a cushion, against each other."""
    stop = TABLE.width / 2 - TABLE.ball_stop
    data = _run(_copy(4), _start((0.2, 0.0), (0.2, stop + 1e-6), (-0.2, 0.0), (-0.2 + 2 * RADIUS, 0.0)), 3.0)
    assert np.abs(data.qvel).max() < 1e-3
    np.testing.assert_allclose(data.qpos.reshape(-1, 7)[:, 2], RADIUS, atol=5e-6)


@pytest.mark.parametrize("upright", [0.0, 30.0])
def test_m01_a_ball_rolls_to_rest_where_the_twins_does(upright: float) -> None:
    """Also one that spins: in one contact, spin would take the rolling friction's place."""
    start = _start((-0.4, 0.1), velocity=(0.3, 0.0), spin=(0.0, 0.3 / RADIUS, upright))
    twin = Twin(TABLE, (0,))
    exact = twin.simulate(start, None)
    rest = _copy(1).play([start])[0]
    way = exact.rest_positions[0, 0] + 0.4
    assert rest.positions[0, 0] + 0.4 == pytest.approx(way, rel=0.05)
    assert rest.positions[0, 1] == pytest.approx(0.1, abs=1e-3)
    data = _run(_copy(1), start, exact.rest_time + 1.0)
    assert np.abs(data.qvel[:3]).max() < 2e-3


@pytest.mark.parametrize("pocket", range(6))
@pytest.mark.parametrize("speed", [0.35, 2.0])
def test_a_ball_falls_into_the_pocket_and_stays(pocket: int, speed: float) -> None:
    place = TABLE.pockets[pocket].position
    inwards = -place / np.linalg.norm(place) if abs(place[0]) > 1e-6 else np.array([0.0, -np.sign(place[1])])
    begin = place + 0.15 * inwards
    rolling = speed / RADIUS * np.array([inwards[1], -inwards[0], 0.0])
    rest = _copy(1).play([_start(tuple(begin), velocity=tuple(-speed * inwards), spin=tuple(rolling))])[0]
    assert rest.pocketed[0]
    np.testing.assert_array_equal(rest.positions[0], place)


@pytest.mark.parametrize("speed", [2.0, 8.0, 12.0])
def test_m03_no_ball_hops_off_a_cushion_or_leaves_the_table(speed: float) -> None:
    """Topspin at a cushion lifts a ball, by its friction; at the nose the rubber above holds it down."""
    copy = _copy(2)
    start = _start((-0.3, 0.03), (-0.4, -0.2), velocity=(speed, 0.1), spin=(0.0, speed / RADIUS, 10.0))
    with copy._begun(start) as data:
        for _ in range(100):
            mujoco.mj_step(copy.model, data, nstep=80)
            place = data.qpos.reshape(-1, 7)[:, :3]
            assert place[:, 2].max() < RADIUS + 1.5e-3
            assert np.all(np.abs(place[:, 0]) < TABLE.length / 2 + TABLE.rail_width)
            assert np.all(np.abs(place[:, 1]) < TABLE.width / 2 + TABLE.rail_width)


def test_a_table_without_pockets_has_a_copy(tmp_path) -> None:
    table = TableModel.load(config_file("tables", "carom"))
    save_portable(tmp_path / "twin.xml", table, (0, 1), ParameterEstimate.nominal())
    mujoco.MjModel.from_xml_path(str(tmp_path / "twin.xml"))
    start = _start((0.2, 0.0), (-0.5, 0.3), velocity=(0.6, 0.2), spin=(0.0, 0.6 / table.ball_radius, 0.0))
    rest = _copy(2, table).play([start])[0]
    assert not rest.pocketed.any()
    assert np.all(np.abs(rest.positions) < [table.length / 2, table.width / 2])


def test_balls_that_do_not_take_part_stay_away() -> None:
    start = _start((-0.3, 0.0), (0.0, 0.0), velocity=(0.4, 0.0))
    start.in_play[1] = False
    rest = _copy(2).play([start])[0]
    np.testing.assert_array_equal(rest.positions[1], [0.0, 0.0])
    assert rest.pocketed.tolist() == [False, True]
    assert abs(rest.positions[0, 1]) < 1e-3 and rest.positions[0, 0] > -0.1


def test_rest_differences_count_the_balls_that_moved() -> None:
    start = _start((0.0, 0.0), (0.1, 0.0), (0.2, 0.0))
    still = np.zeros(3, bool)
    one = Rest(np.array([[0.5, 0.0], [0.1, 0.0], [0.2, 0.0]]), still)
    other = Rest(np.array([[0.5, 0.3], [0.1, 0.1], [0.2, 0.001]]), still)
    assert rest_difference(start, one, other) == pytest.approx(0.2)
    assert rest_difference(start, one, one) == 0.0


def test_an_unfitted_copy_says_so_and_other_files_are_named(tmp_path) -> None:
    path = tmp_path / "twin.xml"
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_statement(path)
    save_portable(path, TABLE, (0, 1, 3), ESTIMATE, BALLS)
    assert read_statement(path) == {
        "fitted": False,
        "parameters": asdict(PortableParameters.unfitted(ESTIMATE)),
    }
    assert "not yet fitted" in path.read_text()
    path.write_text("<mujoco/>")
    with pytest.raises(FileFormatError, match="not a portable twin"):
        read_statement(path)
    path.write_text("<mujoco")
    with pytest.raises(FileFormatError, match="not XML"):
        read_statement(path)
    path.write_text('<mujoco><custom><text name="cue_portable" data="{"/></custom></mujoco>'.replace('"{"', '"{ a"'))
    with pytest.raises(FileFormatError, match="malformed"):
        read_statement(path)


def test_positions_come_back_from_the_exact_file(session, tmp_path) -> None:
    for ball, wanted in zip(load_balls(session[0] / "twin.json"), BALLS, strict=True):
        assert ball.ball_id == wanted.ball_id
        np.testing.assert_array_equal(ball.position, wanted.position)
    (tmp_path / "twin.json").write_text("{}")
    with pytest.raises(FileFormatError, match="positions"):
        load_balls(tmp_path / "twin.json")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_fit_is_within_three_centimetres_after_one_contact() -> None:
    found = benchmark(seed=1, shots=80)
    assert found["median_mm"]["1"] <= 30
    assert found["median_mm"]["1"] == found["fit"]["difference"]["1"]["median_mm"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_whole_shots_after_a_fit_are_closer_to_the_twin() -> None:
    twin = Twin(TABLE, (0, 1, 3))
    fit = fit_portable(twin, ESTIMATE, seed=2, shots=20)
    unfitted = measure(twin, ESTIMATE, PortableParameters.unfitted(ESTIMATE), seed=2, shots=20)
    assert fit.difference["1"].median < 0.7 * unfitted["1"].median


def test_m08_an_unstable_copy_is_an_error_not_a_place(tmp_path, monkeypatch, twin):
    """MuJoCo resets what diverges, so that the balls seem to rest where the model has them."""
    monkeypatch.chdir(tmp_path)  # it writes its warning into the current folder
    start = Start.at_rest(np.array([[-0.2, 0.0], [0.1, 0.0], [0.2, 0.1]]))
    start.velocities[0] = 1e11, 0.0
    with pytest.raises(CueError, match="unstable"):
        PortableTable(twin, ESTIMATE, PortableParameters.unfitted(ESTIMATE)).play([start], horizon=0.1, threads=1)
