"""One table for the eye: what the simulated camera sees, the visible model and the portable copy all show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cue_core.parameters import ParameterEstimate
from cue_sim.lens import lens_maps
from cue_sim.model import build_spec
from cue_sim.portable import portable_spec
from cue_sim.scene import build_scene
from cue_sim.world_config import WorldConfig


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
