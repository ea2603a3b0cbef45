"""The arm by its joint angles: the same place as MuJoCo's, and what it hides."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from cue_core.balls import Visibility
from cue_core.errors import CueError, FileFormatError
from cue_perception.arm_mask import ArmShape, ArmView, JointHistory, before_table, hides
from cue_perception.pipeline import Pipeline, TrackerConfig
from cue_perception.testing import SMALL, Scene, lens_640, look_at

ROBOT = Path(__file__).resolve().parents[3] / "config" / "robots" / "ur5e.yaml"
REACHING = np.array([0.0, -2.0, 1.9, -1.4, -1.57, 0.0])


@pytest.fixture(scope="module")
def arm() -> ArmShape:
    return ArmShape.load(ROBOT, SMALL)


def test_capsules_lie_where_mujoco_puts_them(arm):
    mujoco = pytest.importorskip("mujoco")
    robot = pytest.importorskip("cue_sim.robot")
    model = robot.robot_model(robot.RobotConfig.load(ROBOT), SMALL)
    data, rng = mujoco.MjData(model), np.random.default_rng(2)
    capsule = [k for k in range(model.ngeom) if model.geom_type[k] == mujoco.mjtGeom.mjGEOM_CAPSULE]
    for _ in range(5):
        data.qpos[:] = angles = rng.uniform(-2.5, 2.5, 6)
        mujoco.mj_kinematics(model, data)
        placed = arm.placed(angles)
        assert len(placed) == len(capsule)
        for ours, k in zip(placed, capsule, strict=True):
            half = model.geom_size[k, 1] * data.geom_xmat[k].reshape(3, 3)[:, 2]
            ends = np.array([data.geom_xpos[k] - half, data.geom_xpos[k] + half])
            tip = 0.013 if k == capsule[-1] else 1e-6  # the tip's sphere is part of our last capsule
            mine = ours[:6].reshape(2, 3)
            assert min(np.abs(mine - ends).max(), np.abs(mine - ends[::-1]).max()) < tip
            assert ours[6] >= model.geom_size[k, 0] - 1e-9


def test_what_lies_behind_a_capsule_is_hidden():
    capsule = np.array([[-0.2, 0.0, 0.5, 0.2, 0.0, 0.5, 0.03]])
    eye = np.array([0.0, 0.0, 1.0])
    points = np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.055, 0], [0, 0.07, 0], [0, 0, 0.6], [0.55, 0.0, 0.0]], float)
    assert hides(capsule, eye, points, 0.0).tolist() == [True, True, True, False, False, False]
    assert not hides(np.zeros((0, 7)), eye, points).any()


def test_outline_in_the_picture_agrees_with_what_is_hidden(arm):
    camera = look_at(lens_640(), (0.0, -0.15, 1.4))
    view = ArmView(arm.placed(REACHING), camera, SMALL.ball_radius)
    mask = np.zeros((360, 640), np.uint8)
    for outline in view.outlines():
        cv2.fillConvexPoly(mask, np.round(outline * 16).astype(np.int32), 255, shift=4)
    assert mask.mean() > 5
    u, v = np.meshgrid(np.arange(8, 640, 8.0), np.arange(8, 360, 8.0))
    pixels = np.column_stack([u.ravel(), v.ravel()])
    bed = np.column_stack([camera.on_plane(pixels, 0.0), np.zeros(len(pixels))])
    hidden = hides(view.capsules, camera.position, bed, 0.0)
    drawn = mask[pixels[:, 1].astype(int), pixels[:, 0].astype(int)] > 0
    above = view.capsules[:, [2, 5]].min(axis=1) - view.capsules[:, 6] > 0
    assert above[3:].all(), "the pose keeps the arm over the bed"
    assert np.mean(hidden != drawn) < 0.01


def test_capsules_beside_the_table_are_left_out_and_change_nothing(arm):
    rng = np.random.default_rng(8)
    grid = np.array([[x, y, 0.0] for x in np.linspace(-0.53, 0.53, 30) for y in np.linspace(-0.265, 0.265, 15)])
    left = []
    for place in ((0.0, -0.15, 1.15), (0.9, -1.2, 1.0), (-0.2, 0.1, 2.5)):
        eye = np.array(place)
        for _ in range(10):
            capsules = arm.placed(rng.uniform(-2.0, 2.0, 6))
            few = before_table(capsules, eye, SMALL)
            left.append(len(few))
            assert np.array_equal(hides(few, eye, grid), hides(capsules, eye, grid))
    assert min(left) < 6
    home = np.array(yaml.safe_load(ROBOT.read_text())["home"])
    assert len(before_table(arm.placed(home), np.array([0.0, -0.15, 1.15]), SMALL)) < 6


def test_joint_states_are_looked_up_by_the_images_time():
    history = JointHistory(["a", "b"])
    assert history.at(0) is None
    assert not history.covers(0)
    for k in range(8):
        history.add(k * 8_000_000, ["b", "x", "a"], [k + 0.5, 9.0, float(k)], [0.0, 0.0, 125.0])
    history.add(3_000_000, ["b", "a"], [7.0, 7.0])  # late
    history.add(90_000_000, ["b"], [7.0])  # of another arm
    assert history.at(20_000_000) == pytest.approx([2.5, 2.5])
    assert history.covers(63_000_000)
    assert not history.covers(64_000_001 + 8_000_000)
    assert history.at(10**9) is None, "too old"
    history.add(-3 * 10**9, ["b", "a"], [1.0, 1.0])  # the clock began anew
    history.add(-2 * 10**9, ["b", "a"], [1.0, 2.0])
    assert history.at(-2 * 10**9) == pytest.approx([2.0, 1.0])


def test_wrong_data_is_named(arm, tmp_path):
    with pytest.raises(CueError, match="2 joint angles were given, the arm has 6"):
        arm.placed(np.zeros(2))
    data = yaml.safe_load(ROBOT.read_text())
    del data["links"][2]["capsules"]
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(FileFormatError, match="capsules"):
        ArmShape.load(tmp_path / "bad.yaml", SMALL)


@pytest.mark.parametrize("known", [True, False])
def test_ball_under_an_arm_of_the_cloths_colour(known):
    """Without joint states the bare cloth over the ball says that it is gone: only the known pose tells better."""
    scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=1)
    rng, lens = np.random.default_rng(4), scene.camera.intrinsics
    pipeline = Pipeline(TrackerConfig(ball_ids=[0, 1, 3], robot=str(ROBOT)), SMALL)
    joints = REACHING
    view = ArmView(pipeline.arm.placed(joints), scene.camera, SMALL.ball_radius)
    # Under the forearm or wrist, far from any pocket; a ball as seen stays clear of the arm.
    grid = np.array([[x, y] for x in np.linspace(-0.3, 0.3, 13) for y in np.linspace(-0.2, 0.2, 9)])
    under = grid[np.argmax(view.share(grid))]
    assert view.share(under[None])[0] > 0.99
    free = [p for p in grid if view.share(p[None])[0] == 0 and np.linalg.norm(p - under) > 0.15]
    balls = {0: under, 1: free[0], 3: free[-1]}
    image = scene.clean(balls)
    blue = tuple(255 * v for v in scene.cloth[::-1])

    def arm(picture: np.ndarray) -> None:
        for outline in view.outlines():
            cv2.fillConvexPoly(picture, np.round(outline * 16).astype(np.int32), blue, cv2.LINE_AA, 4)
        u, v = (round(float(c)) for c in scene.camera.project(np.array([*under, SMALL.ball_radius])))
        radius = round(np.linalg.norm(scene.camera.jacobian(under[None], SMALL.ball_radius)[0][:, 0]) * 0.01905)
        cv2.circle(picture, (u, v + 3 * radius), radius, (40, 200, 240), -1, cv2.LINE_AA)  # a yellow cap on the arm

    def show(stamp: int, covered: bool):
        picture = np.ascontiguousarray(image[..., ::-1]) * 255
        if covered:
            arm(picture)
        noisy = np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)
        return pipeline.process(noisy, stamp, lens, joints if covered and known else None)

    for k in range(20):
        out = show(k * 33_333_333, False)
    assert out.settled
    states = []
    for k in range(20, 60):
        out = show(k * 33_333_333, True)
        states.append(out.balls[0].visibility)
        assert {b.ball_id for b in out.balls} == {0, 1, 3}
    if not known:
        assert states[-1] == Visibility.LOST
        return
    assert set(states) == {Visibility.OCCLUDED}
    assert out.settled
    assert pipeline.check.flags == frozenset()
    assert not [d for d in out.detections if np.linalg.norm(d.position - under) < 0.1]
    out = show(60 * 33_333_333, False)
    assert out.balls[0].visibility == Visibility.VISIBLE
    assert out.balls[0].position == pytest.approx(under, abs=1e-3)
