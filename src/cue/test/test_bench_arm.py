"""``cue bench arm``: its figures, its picture, and that its draws and its measure of a stroke are what they say."""

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.arm import BENCHMARK  # noqa: E402
from benchmarks.arm.draws import draws, table  # noqa: E402
from benchmarks.arm.figures import LIMITS  # noqa: E402
from benchmarks.arm.strokes import SETTLED, errors, world_with_arm  # noqa: E402
from benchmarks.harness import Options, Result  # noqa: E402
from cue_arm.chain import SerialChain  # noqa: E402
from cue_arm.stroke import stroke_axes, tip_at_contact  # noqa: E402
from cue_core import Shot  # noqa: E402
from cue_sim.robot import TIP_SITE, robot_model  # noqa: E402
from cue_sim.world import World  # noqa: E402


def strokes(late):
    rows = [[0.05, 0.02, 1e-3, 0.0]] * SETTLED + [[late, 0.001, 3e-4, 0.0], [-late, -0.001, 0.0, -3e-4]]
    arm = {"stiffness": 900.0, "friction": 2.0, "drawn": 20, "rows": rows, "speeds": [0.5] * len(rows)}
    return Result({**arm, "double_hits": 0, "touched": [], "failed": []})


def results():
    counts = {"agreed": 1970, "map too bold": 20, "map too shy": 10, "playable": 1200}
    spent = {"cpu_ms": [20.0] * 90 + [300.0] * 10, "wall_ms": [30.0] * 100, "planned": [True] * 80 + [False] * 20}
    return {
        "planned/0": Result(
            {"shots": 100, "planned": 70, "feasible": 72, "missed": ["shot3: too far"], "reasons": {"": 0, "no": 30}}
        ),
        "plan_ms_median/plan": Result(spent),
        "speed_rms/arm0": strokes(0.01),
        "map_agreement/map": Result(
            {"samples": 2000, "counts": counts, "lookup_us": 300.0, "build_s": 20.0, "x": [-0.4, 0.4], "y": [-0.2, 0.2]}
            | {"playable": [[0.5, 0.6], [0.7, 0.8]]}
        ),
        "envelope_escapes/0": Result(
            {"count": 300, "limits": {"passed": 50, "times": 250}, "escapes": [], "crashes": []}
        ),
        "push_p90_m/0": Result({"ends": [0.001] * 8 + [0.007] * 2, "strokes": [2] * 10, "refused": ["x"], "said": []}),
    }


def test_figures_are_made_of_the_parts_against_the_targets(tmp_path):
    assembled = BENCHMARK.assemble(Options(), results())
    data, rows = assembled.data, {row.key: row for row in assembled.rows}
    assert set(LIMITS) <= set(data) and set(LIMITS) <= set(rows)
    assert data["planned"] == pytest.approx(70 / 72) and rows["planned"].verdict == "met"
    assert (data["plan_ms_median"], rows["plan_ms_p95"].verdict) == (20.0, "met")
    assert data["speed_rms"] == pytest.approx(0.01)  # the first strokes do not count
    assert data["offset_rms_m"] == pytest.approx(3e-4) and data["azimuth_rms_rad"] == pytest.approx(1e-3)
    assert data["map_agreement"] == 0.985 and data["envelope_escapes"] == 0
    assert rows["push_p90_m"].verdict == "missed"
    BENCHMARK.plot(data, tmp_path / "full.png")
    nothing = BENCHMARK.assemble(Options(), {"planned/0": Result(problem="no arm")})
    assert nothing.data["double_hits"] == "not measured: no arm"
    BENCHMARK.plot(nothing.data, tmp_path / "none.png")
    assert (tmp_path / "none.png").stat().st_size > 1000


def test_draws_repeat_and_leave_no_shot_out():
    first, second = (list(islice(draws(table(), 1, 2), 4)) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        assert one.shot == two.shot
        np.testing.assert_array_equal(one.places[0], two.places[0])
        gaps = [np.linalg.norm(one.places[0] - p) for p in one.others.values()]
        assert min(gaps) > 2 * table().ball_radius
    assert world_with_arm(0, 1).servo != world_with_arm(0, 2).servo


def test_the_true_tip_is_where_the_joints_put_it():
    config = world_with_arm(0, 1)
    world, robot = World(config), config.robot
    chain = SerialChain.from_model(robot_model(robot, config.table), robot.joint_names, TIP_SITE)
    foremost, turn = (rows[0] for rows in chain.forward(robot.home))
    position, velocity = world.tip()
    np.testing.assert_allclose(position, foremost - robot.cue.tip_radius * turn[:, 0], atol=1e-9)
    np.testing.assert_allclose(velocity, 0.0, atol=1e-9)


def test_errors_of_a_true_tip_motion_are_what_was_put_in():
    ball, radius, tip = np.array([0.1, -0.05]), 0.019, 0.006
    asked = Shot("s", 0.8, 0.4, side_offset=0.2, vertical_offset=0.1)
    played = Shot("s", 0.84, 0.41, side_offset=0.25, vertical_offset=0.08)
    forward, _, _ = stroke_axes(played.azimuth, 0.0).T
    centre = tip_at_contact(ball, radius, tip, played) - tip * forward - 0.0004 * forward
    off = errors(asked, ball, radius, radius + tip, (centre, played.speed * forward))
    np.testing.assert_allclose(off, [0.05, 0.01, 0.05 * radius, -0.02 * radius], atol=1e-9)
