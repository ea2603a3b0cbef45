"""FAULTS of the twin that no other test provokes: cloths on which nothing stops, steps, wild starts, reused balls."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim import predict as module
from cue_sim.config_files import config_file
from cue_sim.export import load_twin, save_twin
from cue_sim.kernel import EventKind
from cue_sim.predict import TwinFaultError, for_balls, predict, rest_fault
from cue_sim.twin import Start, Twin

G = 9.81


def table(name="small"):
    return TableModel.load(config_file("tables", name))


def vector(**changes):
    values = nominal_values()
    for name, value in changes.items():
        values[list(PARAMETERS).index(name)] = value
    return values


def moving(velocities, positions, spins=None):
    start = Start.at_rest(np.array(positions, float))
    start.velocities[:] = velocities
    if spins is not None:
        start.spins[:] = spins
    return start


@pytest.fixture(scope="module")
def twin_of_six():
    return Twin(table(), tuple(range(6)))


# --- M01: a ball that rolls for ever ---


@pytest.mark.parametrize("friction", [0.03, 0.02, 0.012])
@pytest.mark.parametrize("speed", [0.15, 0.6, 1.0])
def test_m01_a_rolling_ball_stops_where_the_cloth_says(speed, friction):
    """Deceleration 5/7 mu g from natural roll, to 0.05 % in distance and time."""
    cloth = replace(table("9ft"), length=4.0, width=2.0)
    twin = Twin(cloth, (0,))
    start = moving([[speed, 0]], [[-1.9, 0]], [[0, speed / cloth.ball_radius, 0]])
    path = twin.simulate(start, vector(rolling_friction=friction))
    far, when = speed**2 / (2 * 5 / 7 * friction * G), speed / (5 / 7 * friction * G)
    if far < 3.7:  # else a cushion is in the way
        assert path.rest_positions[0, 0] + 1.9 == pytest.approx(far, rel=5e-4)
        assert path.rest_positions[0, 1] == pytest.approx(0, abs=1e-9)
        assert path.rest_time == pytest.approx(when, abs=0.25)  # told at the end of a step
    assert path.fault is None and path.rest_time < 20


@pytest.mark.parametrize("name", ["small", "7ft", "8ft", "9ft", "snooker"])
def test_m01_on_every_cloth_within_the_bounds_balls_come_to_rest(name):
    bounds = {k: (p.minimum, p.maximum) for k, p in PARAMETERS.items()}
    slow = vector(
        rolling_friction=bounds["rolling_friction"][0],
        spinning_deceleration=bounds["spinning_deceleration"][0],
        cushion_restitution=bounds["cushion_restitution"][1],
        cushion_friction=0.0,
    )
    twin = Twin(table(name), (0,))
    rested = 0
    for angle in np.linspace(0.05, 2 * math.pi, 12):
        start = moving([[3 * math.cos(angle), 3 * math.sin(angle)]], [[0, 0]], [[0, 0, 100.0]])
        path = twin.simulate(start, slow)
        assert path.fault is None and np.isfinite(path.rest_time)
        rested += not path.rest_pocketed[0]
    assert rested >= 2


@pytest.mark.parametrize(
    ("parameters", "extras"),
    [
        ({"rolling_friction": 0.0}, {}),
        ({"rolling_friction": -0.01}, {}),
        ({"sliding_friction": 0.0}, {}),
        ({"spinning_deceleration": 0.0}, {}),
        ({}, {"nap_x2": 1.0}),
        ({}, {"nap_x2": -1.2}),
        ({}, {"rolling_slope": -0.5}),
        ({}, {"gravity": 0.0}),
    ],
)
def test_m01_a_cloth_that_stops_nothing_is_refused_by_name(parameters, extras):
    (what,) = {**parameters, **extras}
    with pytest.raises(CueError, match=f"{what} is"):
        Twin(table(), (0,), extras=extras).simulate(Start.at_rest(np.zeros((1, 2))), vector(**parameters))


def test_m01_a_shot_that_finds_no_rest_is_never_a_prediction(monkeypatch):
    twin = Twin(table(), (0, 1))
    balls = [BallState(0, np.array([-0.3, 0.0])), BallState(1, np.array([0.2, 0.1]))]
    estimate = ParameterEstimate.nominal()
    for name in ("simulate", "simulate_batch"):
        whole = getattr(Twin, name)
        short = lambda self, *a, whole=whole, **k: whole(self, *a, **{**k, "horizon": 0.5})  # noqa: E731
        monkeypatch.setattr(Twin, name, short)
    path = twin.simulate(moving([[1, 0], [0, 0]], [[-0.3, 0], [0.2, 0.1]]), None)
    assert path.fault is None and "still move after 0.5 s" in rest_fault(path)
    with pytest.raises(TwinFaultError, match=r"still move after 0\.5 s"):
        predict(twin, balls, Shot("p", 1.0, 0.0), estimate)


# --- M02: steps ---


@pytest.mark.parametrize("impact_step", [1e-7, 2e-6, 1e-4])
@pytest.mark.parametrize("largest_step", [0.05, 0.02, 1e-3])
@pytest.mark.parametrize("speed", [0.2, 1.0, 5.0, 12.0])
def test_m02_a_head_on_impact_neither_depends_on_the_step_nor_makes_energy(speed, largest_step, impact_step):
    """Equal balls on a slippery cloth: (1 - e)/2 and (1 + e)/2 of the speed, whatever the step."""
    cloth = table("9ft")
    twin = Twin(cloth, (0, 1), largest_step=largest_step, impact_step=impact_step)
    gap = 0.01
    start = moving([[speed, 0], [0, 0]], [[0, 0], [2 * cloth.ball_radius + gap, 0]])
    after = np.array([1.5, 2.5]) * gap / speed
    values = vector(sliding_friction=1e-5, rolling_friction=1e-5, ball_restitution=0.9, ball_friction=0.0)
    path = twin.simulate(start, values, after, horizon=float(after[-1]))
    assert path.fault is None and path.contacts(EventKind.BALL_BALL) == 1
    speeds = np.diff(path.positions[:, :, 0], axis=0)[0] / np.diff(after)[0] / speed
    assert speeds == pytest.approx([0.05, 0.95], abs=2e-4)
    assert np.sum(speeds**2) <= (0.05**2 + 0.95**2) * (1 + 1e-3)


@pytest.mark.parametrize("steps", [{"impact_step": 1e-3}, {"impact_step": 0.0}, {"largest_step": 5.0}])
def test_m02_a_step_that_resolves_no_impact_is_refused(steps):
    with pytest.raises(CueError, match=f"{next(iter(steps))}"):
        Twin(table(), (0,), **steps)


def test_m02_the_steps_are_kept_with_the_parameters(tmp_path):
    twin = Twin(table(), (0, 1), largest_step=0.011, impact_step=3e-6)
    factor = np.random.default_rng(0).normal(0, 1e-3, (len(PARAMETERS), len(PARAMETERS)))
    covariance = factor @ factor.T
    stored = replace(ParameterEstimate.nominal(), largest_step=0.011, covariance=covariance)
    save_twin(tmp_path / "twin.json", twin, stored)
    loaded, estimate = load_twin(tmp_path / "twin.json")
    assert (loaded.largest_step, loaded.impact_step, estimate.largest_step) == (0.011, 3e-6, 0.011)
    np.testing.assert_array_equal(estimate.covariance, covariance)  # with what lies off its diagonal
    steps = json.loads((tmp_path / "twin.json").read_text())["steps"]
    assert 0.011 in steps.values() and 3e-6 in steps.values()
    # other steps, other bits: what is kept is what was simulated
    start = moving([[1.2, 0.3], [0, 0]], [[-0.3, 0], [0.1, 0.02]], [[10, 20, 30], [0, 0, 0]])
    same = loaded.simulate(start, None).rest_positions
    np.testing.assert_array_equal(same, twin.simulate(start, None).rest_positions)
    assert np.any(same != Twin(table(), (0, 1), largest_step=0.002).simulate(start, None).rest_positions)


# --- M04: bodies that never settle ---


@pytest.mark.parametrize("restitution", [0.7, 1.0])
def test_m04_rest_is_told_within_a_second_and_lasts(twin_of_six, restitution):
    """However lively balls and cushions are, on a bed less steep than its cloth holds: what rests rests for good."""
    rng = np.random.default_rng(3)
    values = vector(ball_restitution=restitution, cushion_restitution=restitution, tilt_x=0.003, tilt_y=-0.004)
    times = np.arange(0, 20, 0.05)
    for _ in range(12):
        heap = rng.uniform([-0.45, -0.2], [0.45, 0.2], (6, 2))
        heap[1:4] = heap[1] + twin_of_six.table.ball_radius * np.array([[0, 0], [2, 0], [1, math.sqrt(3)]])
        angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(0.5, 3)
        start = Start.at_rest(heap)
        start.velocities[0] = speed * np.array([math.cos(angle), math.sin(angle)])
        path = twin_of_six.simulate(start, values, times)
        travel = np.hypot(*np.diff(path.positions, axis=0).transpose(2, 0, 1)).max(axis=1)
        last = times[1:][travel > 1e-5].max(initial=0)
        assert path.fault is None and path.rest_time <= last + 1.0
        again = twin_of_six.simulate(Start.at_rest(path.rest_positions, ~path.rest_pocketed), values, times)
        assert again.rest_time == 0
        np.testing.assert_allclose(again.rest_positions, path.rest_positions, atol=1e-6)


# --- M08, M11: wild starts ---

WILD = """
import os, sys
import numpy as np
from cue_core.table import TableModel
from cue_sim.twin import Start, Twin
twin = Twin(TableModel.load(sys.argv[1]), (0, 1))
for speed in (1e4, 1e6, 1e12, 1e30, 1e200):
    for fast, spinning in ((speed, 0.0), (0.0, 1e4 * speed)):
        start = Start.at_rest(np.array([[-0.3, 0.0], [0.1, 0.0]]))
        start.velocities[0, 0], start.spins[0, 1] = fast, spinning
        path = twin.simulate(start, None, np.linspace(0, 1, 5))
        assert path.fault, (fast, spinning)
        assert not np.array_equal(path.rest_positions, start.positions), "looks as if it did not move"
        assert os.listdir(".") == [], os.listdir(".")
"""


def test_m08_m11_a_wild_start_is_a_fault_and_leaves_no_file(tmp_path):
    """MuJoCo writes MUJOCO_LOG.TXT into the current folder when it warns: it must not get that far."""
    done = subprocess.run(
        [sys.executable, "-c", WILD, str(config_file("tables", "small"))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


MODEL = """
import hashlib, sys
from cue_core.table import TableModel
from cue_sim.model import build_spec
from cue_sim.config_files import config_file
spec = build_spec(TableModel.load(config_file("tables", "small")), (0, 1, 9))
spec.compile()
print(hashlib.sha256(spec.to_xml().encode()).hexdigest())
"""


def test_m11_the_same_model_from_everywhere(tmp_path, monkeypatch):
    """From the root folder, from an empty one, without a display, in other processes: one hash, no files."""
    monkeypatch.delenv("DISPLAY", raising=False)
    found = set()
    for place in ("/", tmp_path):
        done = subprocess.run([sys.executable, "-c", MODEL], capture_output=True, text=True, cwd=place, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        found.add(done.stdout)
    assert len(found) == 1
    assert list(tmp_path.iterdir()) == []


# --- M13, B01: what is predicted is what was calibrated, with any balls ---


def test_m13_a_twin_for_other_balls_is_the_same_table():
    twin = Twin(
        table(),
        (0, 1, 3),
        masses={0: 0.045, 1: 0.05},
        radii={1: 0.0188},
        largest_step=0.01,
        extras={"rolling_slope": 0.1},
    )
    fewer = for_balls(twin, (0, 1))
    assert (fewer.ball_ids, fewer.masses, fewer.radii) == ((0, 1), twin.masses, twin.radii)
    assert (fewer.largest_step, fewer.extras) == (0.01, twin.extras)
    start = moving([[0.9, 0], [0, 0], [0, 0]], [[-0.3, 0], [0.1, 0.005], [-0.4, 0.2]])
    start = replace(start, in_play=np.array([True, True, False]))
    pair = Start(start.positions[:2], start.velocities[:2], start.spins[:2], start.in_play[:2])
    # the third ball takes no part in either
    np.testing.assert_allclose(
        fewer.simulate(pair, None).rest_positions, twin.simulate(start, None).rest_positions[:2], atol=1e-9
    )
    assert for_balls(twin, twin.ball_ids) is twin
    assert module.for_balls(twin, (0,)).ball_ids == (0,)


@pytest.mark.parametrize("overlap", [1e-4, 1e-3, 5e-3])
def test_b01_a_shot_from_overlapping_balls_gains_no_speed_from_the_overlap(overlap):
    """The kick would be 0.22 m/s for 1 mm: the resting pair stays, and the struck one behaves as a touching one."""
    cloth = table()
    radius = cloth.ball_radius
    twin = Twin(cloth, (0, 1, 2))
    placed = [[-0.3, 0.15], [0.1, 0], [0.1 + 2 * radius - overlap, 0]]
    path = twin.simulate(moving([[0.4, 0], [0, 0], [0, 0]], placed), None, np.array([0.0, 0.2]))
    assert path.fault is None
    np.testing.assert_allclose(path.positions[0, 1:, 0], path.positions[1, 1:, 0], atol=1e-9)
    moved = np.abs(path.positions[0, 1:, 0] - np.array(placed)[1:, 0])
    assert moved == pytest.approx([overlap / 2, overlap / 2], abs=1e-8)


def test_b01_any_crowd_is_set_apart_without_a_kick_and_told(twin_of_six, caplog):
    """Heaps of overlapping balls in the open, at cushions, in corners: no overlap is left, and nothing moves off."""
    rng = np.random.default_rng(0)
    radius = twin_of_six.table.ball_radius
    free = np.array([twin_of_six.table.length, twin_of_six.table.width]) / 2 - 0.6 * radius
    for _ in range(30):
        heap = rng.uniform(-free, free) + rng.normal(0, 1.6 * radius, (6, 2))
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="cue_sim.overlap"):
            path = twin_of_six.simulate(Start.at_rest(np.clip(heap, -free, free)), None, np.array([0.0, 0.5]))
        live = ~path.rest_pocketed
        places = path.positions[0, live]
        apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + np.eye(len(places))
        assert path.fault is None and apart.min() > 2 * radius - 1e-8
        assert np.hypot(*(path.rest_positions[live] - places).T).max(initial=0) < 1e-9
        moved = np.flatnonzero(np.hypot(*(path.positions[0] - np.clip(heap, -free, free)).T) > 1e-5)
        for k in moved[live[moved]]:
            assert f"ball {twin_of_six.ball_ids[k]} moved by" in caplog.text
