"""World files: the same seed gives the same world, another seed another; each mistake is one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS
from cue_sim.config_files import config_file
from cue_sim.world_config import WorldConfig


def test_one_seed_gives_one_world() -> None:
    first, again, other = (WorldConfig.load("hidden", seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.positions, again.positions)
    np.testing.assert_array_equal(first.parameters, again.parameters)
    np.testing.assert_array_equal(first.camera.distortion, again.camera.distortion)
    assert not np.array_equal(first.positions, other.positions)
    assert not np.array_equal(first.parameters, other.parameters)


def test_hidden_worlds_are_valid_and_differ_from_the_textbook() -> None:
    nominal = np.array([p.nominal for p in PARAMETERS.values()])
    for seed in range(30):
        world = WorldConfig.load("hidden", seed)
        assert np.any(np.abs(world.parameters / np.where(nominal, nominal, 1) - 1) > 0.15)
        gaps = np.linalg.norm(world.positions[:, None] - world.positions[None], axis=2) + 9 * np.eye(6)
        assert gaps.min() > 2 * world.table.ball_radius + 0.03 - 1e-9
        assert np.abs(world.positions[0] / [world.table.length, world.table.width]).max() < 0.3


@pytest.mark.parametrize("table", ["small", "7ft", "8ft", "9ft", "snooker"])
def test_every_table_preset_makes_a_world(table: str) -> None:
    assert WorldConfig.load("hidden", 1, table).table.name == table


def _changed(tmp_path: Path, path: str, value: object) -> str:
    data = yaml.safe_load(config_file("worlds", "nominal").read_text())
    place = data
    *parents, last = path.split(".")
    for key in parents:
        place = place.setdefault(int(key) if key.isdigit() else key, {})
    if value is None:
        del place[last]
    else:
        place[int(last) if last.isdigit() else last] = value
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump(data))
    return str(file)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("camera", None, "lacks camera"),
        ("colour", "blue", "unknown key colour"),
        ("camera.zoom", 2, "unknown key zoom"),
        ("camera.fps", None, "lacks fps"),
        ("camera.fps", 0.1, "fps is 0.1, allowed is 1 to 240"),
        ("camera.exposure", 0.5, "exposure is 0.5"),
        ("camera.focal", [542], "focal.*needs 2 numbers"),
        ("physics.sliding_friction", 7.0, "sliding_friction is 7"),
        ("physics.sliding_friction", {"uniform": [0.3, 0.1]}, "low <= high"),
        ("physics.sliding_friction", {"uniform": 0.3}, r"needs \[low, high\]"),
        ("physics.stickiness", 1.0, "unknown key stickiness"),
        ("physics.mass_ratio_1", 0.1, "mass_ratio_1 is 0.1"),
        ("physics.latency", 0.05, "unknown key latency"),  # the camera has its own
        ("balls.positions.1", [0.9, 0.0], "ball 1 lies outside"),
        ("balls.positions.1", [-0.20, 0.01], "balls 0 and 1 overlap"),
        ("balls.positions.21", [0.0, 0.0], "unknown ball id 21"),
        ("table", "6ft", "unknown file in config/tables '6ft'; known are 7ft"),
        ("robot", "missing.yaml", "no such file"),
        ("steps.largest", 1.0, "largest step is 1"),
        ("tip.friction", "sticky", "tip friction is 'sticky'"),
    ],
)
def test_each_mistake_is_one_line_that_names_it(tmp_path: Path, path: str, value: object, says: str) -> None:
    with pytest.raises(CueError, match=says) as caught:
        WorldConfig.load(_changed(tmp_path, path, value), 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- 1\n- 2", "table: [", "\x00"])
def test_a_file_that_is_no_mapping_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(CueError, match=r"broken\.yaml") as caught:
        WorldConfig.load(str(file), 1)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(CueError, match=r"/nowhere/world\.yaml: no such file"):
        WorldConfig.load("/nowhere/world.yaml", 1)
    with pytest.raises(CueError, match="unknown file in config/worlds 'moon'; known are hidden, nominal"):
        WorldConfig.load("moon", 1)


def test_the_folder_it_is_started_in_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = WorldConfig.load("hidden", 2)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(WorldConfig.load("hidden", 2).positions, here.positions)
