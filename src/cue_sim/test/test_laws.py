"""The registry of laws: what is listed, how one is chosen, what is refused, and how one is added."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from cue_core.errors import CueError, FileFormatError, OutOfRangeError, UnknownNameError
from cue_core.parameters import PARAMETERS, Parameter, ParameterEstimate, nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim import laws
from cue_sim.config_files import config_file
from cue_sim.export import twin_from_dict, twin_to_dict
from cue_sim.laws import BallImpact, ClothMotion, CueStroke, CushionImpact, Laws, library, registry, rows
from cue_sim.rollouts import LawRows
from cue_sim.strike import strike
from cue_sim.twin import Start, Twin
from cue_sim.world import World
from cue_sim.world_config import WorldConfig

TABLES = Path(__file__).parents[3] / "config" / "tables"
TABLE = TableModel.load(TABLES / "small.yaml")
NATIVE = Path(__file__).parents[1] / "native"
NOMINAL = Laws.from_parameters(nominal_values())
EVERY = [(slot, name) for slot in (*laws.SLOTS, "strike") for name in laws.available(slot)]
CUSHIONS = laws.available("cushion")


def cushion_shot() -> Start:
    start = Start.at_rest(np.array([[0.1, 0.05], [-0.3, -0.1]]))
    start.velocities[0], start.spins[0] = [0.7, 1.1], [-20, 30, 40]
    return start


def test_what_is_there() -> None:
    assert set(laws.available("cushion")) >= {"coulomb", "han2005", "mathavan2010", "stronge"}
    assert set(laws.available("ball")) >= {"coulomb", "mathavan2014"}
    assert laws.available("cloth") and laws.available("strike")


@pytest.mark.parametrize(("slot", "name"), EVERY)
def test_every_law_says_what_it_is(slot: str, name: str) -> None:
    law = laws.find(slot, name)
    assert isinstance(law, laws.Law)
    assert (law.slot, law.name) == (slot, name)
    assert len(law.source) > 10 and len(law.description) > 10
    for key, parameter in law.parameters.items():
        assert isinstance(parameter, Parameter) and parameter.name == key and parameter.description
    assert pickle.loads(pickle.dumps(law)) == law


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(UnknownNameError, match="coulomb, han2005, mathavan2010, stronge"):
        laws.find("cushion", "rubber")
    with pytest.raises(UnknownNameError, match="ball, cloth, cushion, strike"):
        laws.available("pocket")
    with pytest.raises(UnknownNameError, match=r"rubber.*coulomb, han2005"):
        replace(NOMINAL, cushion_law="rubber")
    with pytest.raises(UnknownNameError, match=r"stickiness.*slate_friction"):
        replace(NOMINAL, cushion_law="mathavan2010", cushion_parameters={"stickiness": 0.1})
    with pytest.raises(UnknownNameError, match=r"slate_friction.*none"):
        replace(NOMINAL, cushion_parameters={"slate_friction": 0.1})
    with pytest.raises(UnknownNameError, match=r"cushion_lore.*cushion_law"):
        Twin(TABLE, (0, 1), extras={"cushion_lore": "stronge"})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"cushion_friction": -0.1}, "cushion_friction"),
        ({"ball_friction": -0.01}, "ball_friction"),
        ({"ball_friction_floor": -0.01}, "ball_friction_floor"),
        ({"ball_friction_decay": -1.0}, "ball_friction_decay"),
        ({"ball_restitution": -0.1}, "ball_restitution"),
        ({"ball_law": "mathavan2014", "ball_restitution": 1.01}, "ball_restitution"),
        *(
            ({"cushion_law": name, "cushion_restitution": 1.01}, "cushion_restitution")
            for name in CUSHIONS
            if registry.native("cushion", name).dissipative
        ),
        ({"cushion_law": "mathavan2010", "cushion_parameters": {"slate_friction": -0.1}}, "slate_friction"),
        ({"cushion_law": "stronge", "cushion_parameters": {"compliance_ratio": math.nan}}, "compliance_ratio"),
        ({"gravity": 0.0}, "gravity"),
        ({"slate_restitution": 1.1}, "slate_restitution"),
        ({"hop_height": -1.0}, "hop_height"),
        ({"tip_restitution": -5.0}, "tip_restitution"),
        ({"tilt_x": 1000.0}, "tilt_x"),
        ({"cushion_restitution_slope": 1e9}, "cushion_restitution_slope"),
        ({"cushion_offset": (0.0, 9.0, 0.0, 0.0, 0.0, 0.0)}, "cushion_offset of cushion 1"),
        ({"nap_x2": 0.7, "nap_y2": -0.7}, "strength of nap_x2 and nap_y2"),
        ({"nose_offset": (0.0, 0.0, 0.03, 0.0, 0.0, 0.0)}, "nose_offset of cushion 2"),
        ({"mass_ratio": (1.0,) * 15 + (0.0,)}, "mass_ratio of ball 15"),
        ({"diameter_ratio": (2.0,) + (1.0,) * 15}, "diameter_ratio of ball 0"),
        ({"cloth_field": (0.0,) * 14 + (math.inf,)}, "cloth_field of node 14"),
        # what is not finite would pass unseen through fmin and fmax: a cushion without rebound, balls without friction
        ({"cushion_offset": (math.nan,) * 6}, "cushion_offset of cushion 0"),
        *(
            ({name: math.nan}, name)
            for name in (*laws.GIVEN, "gravity", "nap_x2", "rolling_slope", "ball_friction_decay", "hop_height")
        ),
    ],
)
def test_nonsense_is_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(OutOfRangeError, match=f"^{named} is"):
        replace(NOMINAL, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes, named", [({"mass": -1.0}, "mass"), ({"radius": 0.0}, "radius"), ({"tilt": 2.0}, "tilt")]
)
def test_a_law_on_its_own_refuses_what_is_no_ball(changes: dict[str, float], named: str) -> None:
    impact = replace(CushionImpact(np.array([0.5, 1.0]), np.zeros(3), 0.0286, 0.17, 0.27), **changes)  # type: ignore[arg-type]
    with pytest.raises(OutOfRangeError, match=f"^{named} is"):
        laws.find("cushion", "coulomb")(impact, NOMINAL)


def test_the_vector_is_what_the_kernel_reads() -> None:
    values = nominal_values()
    values[:11] = np.arange(1.0, 12.0) / 100
    row = Laws.from_parameters(
        values, cushion_law="mathavan2010", cushion_parameters={"slate_friction": 0.3}, hop_height=0.01
    ).array()
    assert row.shape == (rows.SIZE,) == (library.load().cue_laws_size(),)
    np.testing.assert_array_equal(row[:11], values[:11])
    assert row[rows.COLUMNS["own"]][2 * rows.OWN] == 0.3 and row[rows.COLUMNS["hop_height"]] == 0.01
    assert laws.lift_off_speed(row) == pytest.approx(math.sqrt(2 * 9.81 * 0.01))


def test_terms_write_into_the_laws() -> None:
    """What a term and an extra are both about adds up, or multiplies; many at once are what each is alone."""
    place = {name: i for i, name in enumerate(PARAMETERS)}
    one, other = nominal_values(), nominal_values()
    for name, value in (("nap_y2", 0.1), ("rolling_slope", 0.2), ("ball_friction_fall", 0.9), ("mass_ratio_3", 0.9)):
        one[place[name]] = value
    for name, value in (("cushion_offset_1", 0.03), ("nose_offset_5", -0.002), ("cloth_field_4_2", 0.5)):
        other[place[name]] = value
    extras = {"rolling_slope": 0.1, "cushion_offset": (0.0, 0.01, 0.0, 0.0, 0.0, 0.0)}
    got, more = (Laws.from_parameters(vector, **extras) for vector in (one, other))
    assert (got.nap_x2, got.nap_y2) == (0.0, 0.1) and got.rolling_slope == pytest.approx(0.3)
    assert got.ball_friction_floor == pytest.approx(0.1 * got.ball_friction) and got.ball_friction_decay == 1.088
    assert got.mass_ratio == (1.0, 1.0, 1.0, 0.9, *(1.0,) * 12) and got.diameter_ratio == (1.0,) * 16
    assert more.cushion_offset == pytest.approx((0.0, 0.04, 0.0, 0.0, 0.0, 0.0))
    assert more.nose_offset == (*(0.0,) * 5, -0.002) and more.cloth_field == (*(0.0,) * 14, 0.5)
    assert (more.rolling_slope, more.ball_friction_decay) == (0.1, 0.0)
    both = LawRows.of(np.array([one, other]), extras, strict=True)
    np.testing.assert_array_equal(both.values, [got.array(), more.array()])
    # within the bounds of the parameter, but not together with the extra
    one[place["nap_y2"]] = 0.3
    with pytest.raises(CueError, match="strength of nap"):
        LawRows.of(one[None], {"nap_x2": 0.89}, strict=True)


@pytest.mark.parametrize("name", CUSHIONS)
def test_a_twin_plays_by_the_law_it_is_given(name: str) -> None:
    twin = Twin(TABLE, (0, 1), extras={"cushion_law": name})
    path, plain = twin.simulate(cushion_shot(), None), Twin(TABLE, (0, 1)).simulate(cushion_shot(), None)
    assert path.fault is None and np.isfinite(path.rest_time)
    assert np.array_equal(path.rest_positions, plain.rest_positions) == (name == "coulomb")
    # and its file keeps the choice
    data = json.loads(json.dumps(twin_to_dict(twin, ParameterEstimate.nominal())))
    again, _ = twin_from_dict(data)
    np.testing.assert_array_equal(again.simulate(cushion_shot(), None).rest_positions, path.rest_positions)


def test_the_law_between_balls_is_chosen_too() -> None:
    start = Start.at_rest(np.array([[-0.3, 0.0], [0.1, 0.01]]))
    start.velocities[0], start.spins[0] = [1.5, 0.0], [0.0, 60.0, 0.0]
    rest = [Twin(TABLE, (0, 1), extras={"ball_law": name}).simulate(start, None) for name in laws.available("ball")]
    assert all(path.fault is None for path in rest)
    assert not np.allclose(rest[0].rest_positions, rest[1].rest_positions, atol=1e-4)


def test_a_world_may_obey_other_laws_than_the_twin(tmp_path: Path) -> None:
    data = yaml.safe_load(config_file("worlds", "hidden").read_text())
    chosen = {
        "cushion_law": "mathavan2010",
        "cushion_parameters": {"slate_friction": {"uniform": [0.1, 0.3]}},
        "rolling_slope": 0.2,
    }
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump({**data, "laws": chosen}))
    plain, other = WorldConfig.load("hidden", 3), WorldConfig.load(str(path), 3)
    np.testing.assert_array_equal(plain.parameters, other.parameters)  # no other draw has changed
    got = other.all_laws()
    assert got.cushion_law == "mathavan2010" and 0.1 <= got.cushion_parameters["slate_friction"] <= 0.3
    assert got.cushion_offset == tuple(plain.cushion_offsets) and got.rolling_slope == 0.2
    assert World(other).balls().positions.shape == (len(other.ball_ids), 3)
    for wrong in ({"cushion_law": "rubber"}, {"cushion_offset": [0] * 6}, {"rolling_slope": -1}):
        path.write_text(yaml.safe_dump({**data, "laws": wrong}))
        with pytest.raises(CueError, match=r"rubber|cushion_offset|rolling_slope"):
            WorldConfig.load(str(path), 3)


def test_a_law_takes_what_belongs_to_its_slot() -> None:
    impact = CushionImpact(np.zeros((4, 2)), np.zeros((4, 3)), 0.03, 0.17, 0.3)
    with pytest.raises(FileFormatError, match="takes a BallImpact, got a CushionImpact"):
        laws.find("ball", "coulomb")(impact, NOMINAL)
    with pytest.raises(FileFormatError, match=r"spin: has shape \(3, 3\)"):
        laws.find("cushion", "coulomb")(replace(impact, spin=np.zeros((3, 3))), NOMINAL)


def test_a_law_uses_its_own_parameters_whatever_the_slot_holds() -> None:
    law = laws.find("cushion", "mathavan2010")
    impact = CushionImpact(np.array([0.5, 1.0]), np.array([-35.0, 17.0, 5.0]), 0.028, 0.17, 0.28)
    chosen = replace(NOMINAL, cushion_law="mathavan2010", cushion_parameters={"slate_friction": 0.0})
    assert np.abs(law(impact, NOMINAL).slate[:2]).max() > 1e-3  # nominal slate friction
    assert np.abs(law(impact, chosen).slate[:2]).max() == 0.0
    assert laws.find("cushion", "stronge")(impact, chosen).velocity.shape == (2,)


def test_cloth_and_strike_are_laws_as_well() -> None:
    start = ClothMotion(np.zeros((3, 2)), np.full((3, 2), [1.0, 0.0]), np.zeros((3, 3)), np.array([0, 0.1, 20]), 0.03)
    after = laws.find("cloth", "coulomb")(start, NOMINAL)
    np.testing.assert_allclose(after.velocity[:, 0], [1.0, 1 - 0.2 * 9.81 * 0.1, 0.0], atol=1e-12)
    shot = Shot("s", 1.5, 0.3, 0.1, 0.2, -0.1)
    got = laws.find("strike", "rigid_cue")(CueStroke(shot, TABLE), NOMINAL)
    velocity, spin = strike(nominal_values(), TABLE, shot)
    np.testing.assert_array_equal(got.velocity, velocity)
    np.testing.assert_array_equal(got.spin, spin)


def test_balls_throw_each_other_as_alone_so_in_the_model() -> None:
    """The law on its own and the law through MuJoCo: a cut with spin."""
    cut, radius, mass = 0.5, TABLE.ball_radius, TABLE.ball_mass
    spin = np.array([10.0, -20.0, 30.0])
    along = np.array([math.cos(cut), math.sin(cut)])
    right = np.array([along[1], -along[0]])
    into = np.array([right, along])  # rows: local x, y
    velocity = np.array([[1.3, 0.0], [0.0, 0.0]])
    start = Start(np.array([[0.0, 0], 2 * radius * along]), velocity, np.array([spin, np.zeros(3)]), np.ones(2, bool))
    for name in laws.available("ball"):
        before = BallImpact(
            velocity @ into.T,
            np.array([[*(into @ spin[:2]), spin[2]], np.zeros(3)]),
            (radius, radius),
            (mass, mass),
        )
        after = laws.find("ball", name)(before, NOMINAL)
        path = Twin(TABLE, (0, 1), extras={"ball_law": name}).simulate(start, None, [0.0, 1e-3], until_contact=None)
        moved = (path.positions[1] - path.positions[0]) / 1e-3
        # the cloth changes the speed by mu g t meanwhile, 2 mm/s
        np.testing.assert_allclose(moved, after.velocity @ into, atol=2e-3)


ADDED = """
#include "law.h"
static void impact(const cue_laws* laws, const double* own, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  (void)laws;
  out->nose[0] = -(1 + own[0]) * in->mass * in->approach;
}
static const cue_law_parameter parameters[] = {{"bounce", "1", .5, 0, 1, "how lively"}, {0}};
CUE_CUSHION_LAW(dead_simple, impact, .source = "a test of the registry", .description = "no friction at all",
                .parameters = parameters)
"""


def test_a_law_is_added_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cushion_dead_simple.c").write_text(ADDED)
    home = Path(mujoco.__file__).parent
    target = tmp_path / "libcue_kernel.so"
    sources = [*NATIVE.glob("*.c"), *NATIVE.glob("laws/*.c"), tmp_path / "cushion_dead_simple.c"]
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [
        compiler,
        "-O0",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        f"-I{home / 'include'}",
        f"-I{NATIVE / 'laws'}",
    ]
    built = subprocess.run(
        [*command, *map(str, sources), *map(str, home.glob("libmujoco.so.*")), "-lm", "-o", str(target)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    opened = library.open_library(target)
    for module in ("registry", "evaluate"):
        monkeypatch.setattr(f"cue_sim.laws.{module}.load", lambda: opened)
    registry._slot.cache_clear()
    try:
        assert laws.available("cushion") == tuple(sorted((*CUSHIONS, "dead_simple")))
        law = laws.find("cushion", "dead_simple")
        assert list(law.parameters) == ["bounce"] and law.source == "a test of the registry"
        mine = replace(NOMINAL, cushion_law="dead_simple", cushion_parameters={"bounce": 0.25})
        after = law(CushionImpact(np.array([0.3, 1.0]), np.zeros(3), 0.03, 0.17, 0.0), mine)
        np.testing.assert_allclose(after.velocity, [0.3, -0.25])
    finally:
        registry._slot.cache_clear()
