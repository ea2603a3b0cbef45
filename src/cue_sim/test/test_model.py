"""The compiled model: geometry, layout among other bodies, no stray files."""

from __future__ import annotations

import math
import os
from pathlib import Path

import mujoco
import numpy as np
import pytest

from cue_core.errors import CueError, FileFormatError, OutOfRangeError, UnknownNameError
from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim import kernel
from cue_sim.geometry import nose_segments
from cue_sim.kernel import Laws, Layout
from cue_sim.laws.library import ABI
from cue_sim.model import build_spec

TABLES = Path(__file__).parents[3] / "config" / "tables"
NAMES = ["small", "7ft", "8ft", "9ft", "snooker"]
SMALL = TableModel.load(TABLES / "small.yaml")


@pytest.mark.parametrize("name", NAMES)
def test_noses_meet_the_ball_at_the_stop_distance(name):
    """Measured by MuJoCo itself, all along every straight nose."""
    table = TableModel.load(TABLES / f"{name}.yaml")
    model = build_spec(table, (0,), visual=False).compile()
    data = mujoco.MjData(model)
    ball = model.geom("ball_0").id
    for cushion in table.cushions:
        nose = model.geom(f"nose_{cushion.name}").id
        for share in (0.1, 0.5, 0.9):
            place = cushion.start + share * (cushion.end - cushion.start) + table.ball_stop * cushion.normal
            data.qpos[:2] = place
            mujoco.mj_kinematics(model, data)
            assert mujoco.mj_geomDistance(model, data, ball, nose, 1.0, None) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_mouths_let_a_ball_through(name):
    table = TableModel.load(TABLES / f"{name}.yaml")
    axes = np.array([[*start, *end] for _, start, end in nose_segments(table).values()])
    reach = Layout.of(build_spec(table, (0,), visual=False).compile(), table, (0,)).reach[:, 0]
    for pocket in table.pockets:
        centre = np.array([0, np.sign(pocket.position[1]) * table.width / 2])
        if not pocket.name.startswith("side"):
            centre = np.sign(pocket.position) * [table.length / 2, table.width / 2]
            centre -= table.corner_mouth / 2 * np.sign(pocket.position) / math.sqrt(2)
        line = axes[:, 2:] - axes[:, :2]
        t = np.clip(np.sum((centre - axes[:, :2]) * line, 1) / np.sum(line**2, 1), 0, 1)
        gap = np.linalg.norm(centre - axes[:, :2] - t[:, None] * line, axis=1) - reach
        assert gap.min() > 0.2 * table.ball_radius, pocket.name


def test_cushions_are_mirror_images():
    segments = nose_segments(SMALL)
    points = {tuple(np.round(p, 12)) for _, a, b in segments.values() for p in (a, b)}
    assert len(points) == 24
    for x, y in points:
        assert (-x, y) in points and (x, -y) in points


@pytest.mark.parametrize("visual", [False, True])
def test_layout_finds_the_balls_among_other_bodies(visual):
    spec = build_spec(SMALL, (0, 3), visual=visual)
    post = spec.worldbody.add_body(name="post", pos=[0, 1, 0])
    post.add_joint(name="swing", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1])
    post.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.02, 0, 0], mass=1, contype=0, conaffinity=0)
    model = spec.compile()
    data = mujoco.MjData(model)
    layout = Layout.of(model, SMALL, (3, 0))
    kernel.start(
        model,
        data,
        layout,
        np.array([[0.1, 0.2], [-0.1, 0]]),
        np.array([[0, 0], [0.3, 0.1]]),
        np.zeros((2, 3)),
        np.ones(2, np.int32),
    )
    data.qvel[model.joint("swing").dofadr[0]] = 2.0
    np.testing.assert_array_equal(layout.positions(data), [[0.1, 0.2], [-0.1, 0]])
    in_play = np.ones(2, np.int32)
    kernel.advance(model, data, layout, Laws.from_parameters(nominal_values()), in_play, 0.1)
    assert data.qpos[model.joint("swing").qposadr[0]] == pytest.approx(0.2, rel=1e-9)  # the other body moves on its own
    assert layout.velocities(data)[0] == pytest.approx([0, 0], abs=0)
    assert layout.moving(data, in_play).tolist() == [False, True]
    slip = 0.3 - 0.2 * 9.81 * 0.3 / math.hypot(0.3, 0.1) * 0.1
    expected = max(slip, 5 / 7 * 0.3 - 5 / 7 * 0.01 * 9.81 * 0.1)
    assert layout.velocities(data)[1, 0] == pytest.approx(expected, rel=0.05)
    assert np.linalg.norm(layout.orientations(data), axis=1) == pytest.approx([1, 1])


def test_ball_that_rolls_has_turned():
    model = build_spec(SMALL, (0,), visual=False).compile()
    data = mujoco.MjData(model)
    layout = Layout.of(model, SMALL, (0,))
    speed, radius = 0.2, SMALL.ball_radius
    kernel.start(
        model,
        data,
        layout,
        np.zeros((1, 2)),
        np.array([[speed, 0.0]]),
        np.array([[0, speed / radius, 0.0]]),
        np.ones(1, np.int32),
    )
    kernel.advance(model, data, layout, Laws.from_parameters(nominal_values()), np.ones(1, np.int32), 0.3, 0.01)
    travelled = layout.positions(data)[0, 0]
    w, _x, y, _z = layout.orientations(data)[0]
    assert 2 * math.atan2(y, w) % (2 * math.pi) == pytest.approx(travelled / radius % (2 * math.pi), abs=0.03)


def test_wrong_balls_are_refused():
    with pytest.raises(FileFormatError, match="at least one ball"):
        build_spec(SMALL, ())
    with pytest.raises(FileFormatError, match="each once"):
        build_spec(SMALL, (1, 1))
    with pytest.raises(UnknownNameError):
        build_spec(SMALL, (16,))
    with pytest.raises(OutOfRangeError, match="radius of ball 2"):
        build_spec(SMALL, (2,), radii={2: 0.2})
    with pytest.raises(CueError, match="mass of ball 2"):
        build_spec(SMALL, (2,), masses={2: -1.0})


def test_m11_models_do_not_depend_on_the_folder_and_leave_no_files(tmp_path, monkeypatch):
    """FAULTS M11."""
    here = build_spec(SMALL, (0, 1)).to_xml()
    monkeypatch.chdir(tmp_path)
    spec = build_spec(SMALL, (0, 1))
    spec.compile()
    assert spec.to_xml() == here
    assert os.listdir(tmp_path) == []


def test_a_single_ball_table_works():
    """FAULTS B01."""
    model = build_spec(SMALL, (0,)).compile()
    assert Layout.of(model, SMALL, (0,)).ball_ids == (0,)


def test_a_kernel_of_another_version_is_refused(monkeypatch):
    """The kernel reads MuJoCo's structs: only the very version it was built against will do."""
    kernel.library.cache_clear()
    monkeypatch.setattr(kernel.mujoco, "mj_version", lambda: 3009000)
    with pytest.raises(kernel.KernelError, match="3009000"):
        kernel.library()
    monkeypatch.undo()
    assert kernel.library().cue_abi() == ABI
