"""``cue bench twin``: its figures on small counts, and that each of them can be missed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import Options, Result  # noqa: E402
from benchmarks.twin import accuracy, closed_forms, laws, plan, pooltool, shots, soundness, speed  # noqa: E402
from benchmarks.twin.figures import assemble  # noqa: E402
from benchmarks.twin.plot import plot  # noqa: E402
from cue.cli import main  # noqa: E402
from cue_core.parameters import PARAMETERS, nominal_values  # noqa: E402

KEYS = {
    "vs_reference_mm", "step_halving_mm", "laws", "energy_gain", "escapes", "mirror_mm", "ms_per_shot", "vs_pooltool",
    "vs_mj_step", "scaling_2", "portable_mm", "real_median_mm",
}  # fmt: skip


def test_a_quick_run_of_what_is_not_timed(tmp_path, capsys):
    target = tmp_path / "twin.json"
    words = ["bench", "twin", "--quick", "--only", "laws,energy_gain,mirror_mm,step_halving_mm", "--json", str(target)]
    assert main(words) == 0
    data = json.loads(target.read_text())
    assert set(data) >= KEYS
    assert set(data["laws"]) == set(laws.LIMITS)
    assert all(law["met"] for law in data["laws"].values())
    assert data["energy_gain"] <= 1e-6 and data["escapes"] == 0 and data["mirror_mm"] < 1e-3
    assert data["step_halving_mm"]["7ft"]["1"] <= 0.1
    assert data["vs_pooltool"] == "not measured: left out of this quick run"
    for suffix in (".csv", ".png", ".html"):
        assert target.with_suffix(suffix).stat().st_size > 100
    assert "met" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_figures():
    arguments = {"table": "small", "label": "2", "count": 3, "seed": 4}
    assert accuracy.step_halving(**arguments) == accuracy.step_halving(**arguments)
    one, other = (accuracy.mirror("7ft", 0, 3, seed) for seed in (1, 2))
    assert one != other


def test_shots_have_the_contacts_of_their_class():
    twin = accuracy.Twin(shots.load_table("small"), shots.ball_ids(6))
    for label, allowed in (("1", {1}), ("3-4", {3, 4})):
        starts = shots.starts_of_class([0], twin, label, 4)
        assert {shots.contacts(twin.simulate(start, None)) for start in starts} <= allowed


@pytest.mark.parametrize("gap", [0.0, 5e-4])
def test_a_rack_is_fifteen_balls_that_do_not_overlap(gap):
    table = shots.load_table("7ft")
    start = shots.rack(table, np.random.default_rng(0), 8.0, gap)
    apart = np.linalg.norm(start.positions[:, None] - start.positions[None], axis=-1)[np.triu_indices(16, 1)]
    assert start.positions.shape == (16, 2)
    assert 2 * table.ball_radius <= apart.min() <= 2 * table.ball_radius + 2 * gap + 1e-8
    assert np.linalg.norm(start.velocities[0]) == pytest.approx(8.0)
    assert all(table.inside(place) for place in start.positions)


def test_a_law_that_is_wrong_misses_its_limit(monkeypatch):
    honest = closed_forms.nose_hit

    def upright(velocity, spin, inward, radius, nose_height, restitution, friction):
        return honest(velocity, spin, inward, radius, radius, restitution, friction)

    monkeypatch.setattr(closed_forms, "nose_hit", upright)
    assert laws.law("cushion_rolling")["error"] > laws.LIMITS["cushion_rolling"][0]
    monkeypatch.setattr(closed_forms, "rolling_speed", lambda speed: 0.7 * speed)
    assert laws.law("roll_speed")["error"] > laws.LIMITS["roll_speed"][0]


def test_an_energy_gain_is_seen_without_the_kernels_check(monkeypatch):
    values = nominal_values()
    values[list(PARAMETERS).index("cushion_restitution")] = 1.6
    monkeypatch.setattr(soundness, "nominal_values", lambda: values)
    assert max(soundness.energy_and_escapes("small", "shots", 5, 0)["rise"]) > 1e-3


def test_a_ball_off_the_table_is_counted():
    table = shots.load_table("7ft")
    twin = soundness.Twin(table, (0,))
    data = soundness.mujoco.MjData(twin.model)
    for place, lost in (((0.0, 0.0), 0), ((0.3, table.width / 2 + 0.1), 1), (table.pockets[0].position, 0)):
        data.qpos[twin.layout.qpos[0] : twin.layout.qpos[0] + 2] = place
        assert soundness.off_table(table, twin.layout, data, np.ones(1, np.int32)) == lost


def test_times_are_taken_on_one_core():
    import os

    before = os.sched_getaffinity(0)
    with speed.one_core() as cpu:
        assert os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(0) == before
    got = speed.ms_per_shot(2, 2, 2, 0)
    assert len(got["ms"]) == 2 and min(got["ms"]) > 0 and got["motion_s"] > 0.1
    assert speed.ratio([6.0, 2.0, 8.0], [4.0, 2.0, 1.0]) == 2.0


def test_without_pooltool_the_key_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(pooltool, "_DONE", tmp_path / "nothing")
    with pytest.raises(pooltool.UnavailableError, match="not installed"):
        speed.vs_pooltool(2, 1, 1, 0)


def test_every_key_is_there_and_drawn_whatever_is_missing(tmp_path):
    parts = plan.make_parts(Options(root=ROOT))
    assert len({part.name for part in parts}) == len(parts)
    for results in ({}, {part.name: Result(problem="gone") for part in parts}):
        made = assemble(Options(root=ROOT), results)
        assert set(made.data) >= KEYS
        assert {row.verdict for row in made.rows} == {"not measured"}
        assert made.data["vs_mj_step"].startswith("not measured: ")
        assert made.data["real_median_mm"]["coulomb"].startswith("not measured: ")
        plot(made.data, tmp_path / "x.png")


def test_real_shots_that_are_not_there_are_named(tmp_path):
    root = tmp_path / "checkout"
    root.mkdir()
    path, content = plan.real_shots_file(Options(root=root))
    assert content == "" and path.name == "visible.jsonl.gz"
    from benchmarks.twin.providers import UnavailableError, real_shots

    with pytest.raises(UnavailableError, match=r"no real shots at shared/data/real_shots/visible\.jsonl\.gz"):
        real_shots(str(path), "coulomb", 0, content)
