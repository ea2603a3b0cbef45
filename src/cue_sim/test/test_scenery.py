"""One table for the eye: what the simulated camera sees, the visible model and the portable copy all show."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from cue_core.parameters import ParameterEstimate
from cue_core.table import TableModel
from cue_sim.cue_stick import add_cue
from cue_sim.geometry import nose_segments
from cue_sim.lens import lens_maps
from cue_sim.model import build_spec
from cue_sim.portable import portable_spec
from cue_sim.scene import build_scene
from cue_sim.world_config import WorldConfig

TABLES = Path(__file__).parents[3] / "config" / "tables"


def _seen(model: Any) -> list[tuple[Any, ...]]:
    """Return all that is visible and does not move: shape, place and look."""
    found = []
    for i in np.flatnonzero((model.geom_bodyid == 0) & (model.geom_matid >= 0)):
        geom, material = model.geom(i), model.mat(model.geom_matid[i])
        shape = [*geom.type, *np.round(np.concatenate([geom.size, geom.pos, geom.quat]), 12)]
        found.append((geom.name, *shape, material.name, *material.rgba, *material.specular, *material.shininess))
    return found


@pytest.mark.parametrize("table", ["small", "snooker"])
def test_camera_visible_model_and_portable_copy_show_the_same_table(table: str) -> None:
    world = WorldConfig.load("nominal", 1, table=table)
    ideal = lens_maps(world.camera)[0]
    camera = build_scene(world.table, world.ball_ids, world.robot, world.camera, ideal)
    wanted = _seen(camera)
    names = {row[0] for row in wanted}
    assert {"bed", "floor", "cushion_east", "rail_north_west", "pocket_side_s"} <= names
    visible = build_spec(world.table, world.ball_ids).compile()
    portable = portable_spec(world.table, world.ball_ids, ParameterEstimate.nominal()).compile()
    for model in (visible, portable):
        assert _seen(model) == wanted
        assert model.nlight == camera.nlight
        for ball_id in world.ball_ids:
            marks = 2 if ball_id else 0
            body = model.body(f"ball_{ball_id}")
            shown = model.geom_group[body.geomadr[0] : body.geomadr[0] + body.geomnum[0]] < 3
            assert shown.sum() == 1 + marks
            assert camera.body(f"ball_{ball_id}").geomnum == 1  # the marks are printed on it
            material = camera.mat(camera.geom_matid[camera.body(f"ball_{ball_id}").geomadr[0]])
            assert (material.texid.max() >= 0) == bool(ball_id)


def test_what_is_only_seen_changes_no_mass_and_touches_nothing() -> None:
    world = WorldConfig.load("nominal", 1)
    plain, visible = (build_spec(world.table, world.ball_ids, visual=v).compile() for v in (False, True))
    np.testing.assert_array_equal(visible.body_mass, plain.body_mass)
    np.testing.assert_array_equal(visible.body_inertia, plain.body_inertia)
    assert visible.npair == plain.npair
    assert not visible.geom_contype.any() and not visible.geom_conaffinity.any()


@pytest.mark.parametrize("name", ["small", "9ft", "snooker", "carom"])
def test_a_table_shows_its_spots_sights_and_closed_corners(name: str) -> None:
    table = TableModel.load(TABLES / f"{name}.yaml")
    model = build_spec(table, (0,)).compile()
    for spot, place in table.spots.items():
        np.testing.assert_allclose(model.geom(f"spot_{spot}").pos[:2], place)
    sights = np.count_nonzero(model.geom_matid == model.mat("sight").id)
    assert sights == (20 if table.pocketless else 18)  # WPA: 18; without pockets one more in each long rail
    for pocket in table.pockets:
        casting = model.mesh(f"casting_{pocket.name}")
        geom = model.geom(f"casting_{pocket.name}")
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, geom.quat)
        first = casting.vertadr[0]
        vertices = model.mesh_vert[first : first + casting.vertnum[0]] @ turn.reshape(3, 3).T + geom.pos
        inside = np.all(np.abs(vertices[:, :2]) < np.array([table.length, table.width]) / 2 - 1e-6, axis=1)
        # Only the ring around the drop reaches onto the bed, and lies flat on it.
        assert np.all(np.abs(vertices[inside, 2]) < 1e-6)
        outer = np.abs(vertices[:, :2]).max(axis=0)
        assert outer[1] == pytest.approx(table.width / 2 + table.rail_width, abs=1e-6)


def test_visible_cushions_end_where_the_facings_are_that_a_ball_meets() -> None:
    table = TableModel.load(TABLES / "9ft.yaml")
    model = build_spec(table, (0,)).compile()
    for cushion in table.cushions:
        mesh, geom = model.mesh(f"cushion_{cushion.name}"), model.geom(f"cushion_{cushion.name}")
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, geom.quat)
        first = mesh.vertadr[0]
        corners = (model.mesh_vert[first : first + mesh.vertnum[0]] @ turn.reshape(3, 3).T + geom.pos)[:, :2]
        for which, tip in (("start", cushion.start), ("end", cushion.end)):
            _, root, tail = nose_segments(table)[f"jaw_{cushion.name}_{which}"]
            facing = (tail - root) / np.linalg.norm(tail - root)
            off = corners - tip
            aside = np.abs(off @ np.array([-facing[1], facing[0]]))
            assert np.sum(aside < 1e-6) == 3  # the tip itself, and the back above and below


def test_a_cue_lies_behind_its_tip() -> None:
    spec = mujoco.MjSpec()
    tip = np.array([0.1, -0.2, 0.03])
    add_cue(spec, tip, azimuth=0.5, elevation=0.1, length=1.4)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    along = np.array([math.cos(0.5) * math.cos(0.1), math.sin(0.5) * math.cos(0.1), -math.sin(0.1)])
    reach = []
    for i in range(model.ngeom):
        first, count = model.mesh_vertadr[model.geom_dataid[i]], model.mesh_vertnum[model.geom_dataid[i]]
        vertices = model.mesh_vert[first : first + count] @ data.geom_xmat[i].reshape(3, 3).T + data.geom_xpos[i]
        reach += list((vertices - tip) @ along)
        across = (vertices - tip) - ((vertices - tip) @ along)[:, None] * along
        assert np.linalg.norm(across, axis=1).max() < 0.016
    assert max(reach) == pytest.approx(0, abs=1e-6) and min(reach) == pytest.approx(-1.4, abs=1e-6)
    assert not model.geom_contype.any()
