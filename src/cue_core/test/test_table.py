"""Geometry of the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cue_core import CueError, TableModel
from cue_core.errors import FileFormatError, OutOfRangeError, UnknownNameError


def test_cushions_enclose_the_playing_area_on_their_left(table: TableModel) -> None:
    for cushion in table.cushions:
        middle = (cushion.start + cushion.end) / 2
        assert cushion.normal @ (np.zeros(2) - middle) > 0, cushion.name
        assert np.isclose(np.linalg.norm(cushion.normal), 1)


def test_jaw_tips_of_neighbouring_cushions_are_a_mouth_apart(table: TableModel) -> None:
    cushions = table.cushions
    gaps = [float(np.linalg.norm(cushions[(i + 1) % 6].start - c.end)) for i, c in enumerate(cushions)]
    assert np.allclose(sorted(gaps), [table.corner_mouth] * 4 + [table.side_mouth] * 2)


def test_drop_edge_lies_a_shelf_behind_the_mouth(table: TableModel) -> None:
    for pocket in table.pockets:
        ends = [p for c in table.cushions for p in (c.start, c.end)]
        ends.sort(key=lambda p: float(np.linalg.norm(p - pocket.position)))
        mouth = (ends[0] + ends[1]) / 2
        shelf = table.side_shelf if pocket.name.startswith("side") else table.corner_shelf
        assert np.isclose(np.linalg.norm(pocket.position - mouth), pocket.radius + shelf), pocket.name


def test_names_follow_the_compass(table: TableModel) -> None:
    places = {p.name: p.position for p in table.pockets}
    assert np.all(places["corner_ne"] > 0) and np.all(places["corner_sw"] < 0)
    assert places["side_n"][1] > 0 > places["side_s"][1]


def test_ball_meets_the_nose_before_its_centre_is_a_radius_away(table: TableModel) -> None:
    rise = table.nose_height - table.ball_radius
    assert np.isclose(table.ball_stop**2 + rise**2, table.ball_radius**2)
    assert table.inside(np.array([0.529 - table.ball_stop, 0.0]))
    assert not table.inside(np.array([0.531 - table.ball_stop, 0.0]))


def test_plain_data_round_trip(table: TableModel) -> None:
    assert TableModel.from_dict(table.to_dict()) == table


@pytest.mark.parametrize(
    "field, value", [("length", -1), ("width", float("nan")), ("nose_height", 0.2), ("ball_mass", "x")]
)
def test_bad_values_are_refused_by_name(table: TableModel, field: str, value: object) -> None:
    with pytest.raises(OutOfRangeError, match=f"{field} is .*allowed"):
        replace(table, **{field: value})  # type: ignore[arg-type]


def test_unknown_and_missing_keys_are_named(table: TableModel) -> None:
    data = table.to_dict()
    with pytest.raises(FileFormatError, match=r"unknown key lenght; allowed are .*length"):
        TableModel.from_dict({**data, "lenght": 1})
    del data["width"]
    with pytest.raises(FileFormatError, match="lacks width"):
        TableModel.from_dict(data)


@pytest.mark.parametrize(
    "text, problem", [(None, "no such file"), ("[1, 2]", "needs a mapping"), ("a: [", "not valid YAML")]
)
def test_bad_files_give_one_line(tmp_path, text: str | None, problem: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "table.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CueError, match=problem) as caught:
        TableModel.load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_table_without_pockets_has_four_cushions_from_corner_to_corner(table: TableModel) -> None:
    carom = replace(table, corner_mouth=0.0, side_mouth=0.0)
    assert carom.pocketless and carom.pockets == ()
    cushions = carom.cushions
    assert [c.name for c in cushions] == ["south", "east", "north", "west"]
    for i, cushion in enumerate(cushions):
        assert np.array_equal(cushion.end, cushions[(i + 1) % 4].start)
        assert cushion.normal @ cushion.start < 0
    assert TableModel.from_dict(carom.to_dict()) == carom


@pytest.mark.parametrize("field", ["corner_mouth", "side_mouth"])
def test_one_kind_of_pocket_alone_is_refused(table: TableModel, field: str) -> None:
    with pytest.raises(FileFormatError, match="a table without pockets has 0 for both"):
        replace(table, **{field: 0.0})  # type: ignore[arg-type]


def test_spots_lie_where_the_rules_of_the_game_want_them(table: TableModel) -> None:
    assert {name: p.tolist() for name, p in table.spots.items()} == {
        "foot": [0.265, 0.0],
        "centre": [0.0, 0.0],
        "head": [-0.265, 0.0],
    }
    snooker = replace(table, markings="snooker", length=3.569, width=1.778).spots
    assert np.isclose(snooker["brown"][0] + 3.569 / 2, 0.737)
    assert np.isclose(3.569 / 2 - snooker["black"][0], 0.324)
    assert np.isclose(np.linalg.norm(snooker["yellow"] - snooker["green"]), 2 * 0.292)
    assert snooker["yellow"][1] < 0 < snooker["green"][1]
    assert np.isclose(snooker["pink"][0], 3.569 / 4)
    carom = replace(table, markings="carom", length=2.84, width=1.42).spots
    assert np.isclose(np.linalg.norm(carom["head_left"] - carom["head"]), 0.1825)
    with pytest.raises(UnknownNameError, match="carom, pool, snooker"):
        replace(table, markings="croquet")
