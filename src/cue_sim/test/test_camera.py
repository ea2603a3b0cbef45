"""The simulated camera: pictures repeat to the bit, the lens bends the right way, everything is in view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
import pytest

from cue_sim.camera import BallPose, SimulatedCamera, ball_poses
from cue_sim.graphics import NoGraphicsError, make_context
from cue_sim.lens import lens_maps, undistort
from cue_sim.world_config import WorldConfig


@pytest.fixture(scope="module")
def world() -> WorldConfig:
    world = WorldConfig.load("hidden", 4)
    bent = np.array([-0.12, 0.03, 0.002, -0.003])  # more than any world, so that a wrong sign shows
    return replace(world, camera=replace(world.camera, distortion=bent))


@pytest.fixture(scope="module")
def camera(world: WorldConfig) -> Iterator[SimulatedCamera]:
    try:
        camera = SimulatedCamera(world)
    except NoGraphicsError as error:
        pytest.skip(str(error))
    yield camera
    camera.close()


def _joints(world: WorldConfig) -> dict[str, float]:
    return dict(zip(world.robot.joint_names, world.robot.home, strict=True))


def _balls(world: WorldConfig) -> dict[int, BallPose]:
    return ball_poses(world.ball_ids, world.positions, world.table.ball_radius)


def test_undistort_is_the_inverse_of_opencvs_distortion(world: WorldConfig) -> None:
    camera = world.camera
    pixels = np.array([[0.0, 0.0], [639, 0], [0, 359], [639, 359], [320, 180], [100, 300]])
    rays = undistort(camera, pixels)
    again, _ = cv2.projectPoints(
        np.column_stack([rays, np.ones(6)]), np.zeros(3), np.zeros(3), camera.matrix, camera.distortion
    )
    np.testing.assert_allclose(again.reshape(-1, 2), pixels, atol=1e-6)


def test_the_ideal_picture_holds_every_ray_of_the_lens(world: WorldConfig) -> None:
    ideal, map_x, map_y = lens_maps(world.camera)
    assert map_x.min() >= 0 and map_x.max() <= ideal.width - 1
    assert map_y.min() >= 0 and map_y.max() <= ideal.height - 1


def test_a_frame_drawn_again_is_the_same_to_the_bit_and_another_is_not(
    world: WorldConfig, camera: SimulatedCamera
) -> None:
    balls, joints = _balls(world), _joints(world)
    first = camera.picture(7, balls, joints)
    moved = {**balls, 0: replace(balls[0], position=balls[0].position + np.array([0.05, 0.02, 0]))}
    camera.picture(8, moved, joints)
    np.testing.assert_array_equal(camera.picture(7, balls, joints), first)
    assert np.any(camera.picture(9, balls, joints) != first)  # other noise
    fresh = SimulatedCamera(world)  # a camera that died and came back
    np.testing.assert_array_equal(fresh.picture(7, balls, joints), first)
    fresh.close()


def test_a_ball_appears_where_opencv_projects_it(world: WorldConfig, camera: SimulatedCamera) -> None:
    """The silhouette's middle, at the far corners where the lens bends most, within half a pixel."""
    radius = world.table.ball_radius
    half = np.array([world.table.length, world.table.width]) / 2 - 3 * radius
    joints = _joints(world)
    nothing = dict.fromkeys(world.ball_ids, BallPose(np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(3), True))
    for corner in ((-1, -1), (1, -1), (1, 1), (-1, 1), (0.1, 0.2)):
        place = np.array([*(half * corner), radius])
        ball = BallPose(place, np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3))
        noisy = [camera.picture(k, {**nothing, 0: ball}, joints) for k in range(6)]
        picture = np.mean(noisy, axis=0)
        expected = world.camera.project(place[None])[0]
        u, v = (round(float(x)) for x in expected)
        blue, _, red = np.moveaxis(picture[v - 14 : v + 15, u - 14 : u + 15], 2, 0)
        patch = (red > 40) & (red > 0.55 * blue)  # white against blue, however it is lit
        rows, columns = np.nonzero(patch)
        found = np.array([columns.mean() + u - 14, rows.mean() + v - 14])
        # The outline of a sphere off the axis is centred a little outside its centre's image.
        direction = place - world.camera.position
        outline = _outline(world, place, radius)
        assert np.linalg.norm(found - outline) < 0.5, f"{corner}: found {found}, expected {outline}, centre {expected}"
        assert direction[2] < 0


def _outline(world: WorldConfig, centre: np.ndarray, radius: float) -> np.ndarray:
    """Return the middle (2,) of the image of a sphere's visible outline [px]."""
    axis = centre - world.camera.position
    distance = np.linalg.norm(axis)
    axis = axis / distance
    side = np.cross(axis, [0, 0, 1.0])
    side /= np.linalg.norm(side)
    up = np.cross(side, axis)
    sine = radius / distance
    ring = np.linspace(0, 2 * np.pi, 90, endpoint=False)[:, None]
    rim = centre - radius * sine * axis + radius * np.sqrt(1 - sine**2) * (np.cos(ring) * side + np.sin(ring) * up)
    pixels = world.camera.project(rim)
    return 0.5 * (pixels.max(axis=0) + pixels.min(axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_table_is_in_view_and_the_arm_at_home_hides_none_of_it(seed: int) -> None:
    world = WorldConfig.load("hidden", seed)
    table, camera = world.table, world.camera
    x, y = table.length / 2 + table.rail_width, table.width / 2 + table.rail_width
    pixels = camera.project(np.array([[sx * x, sy * y, table.nose_height] for sx in (-1, 0, 1) for sy in (-1, 1)]))
    assert pixels.min() > 3
    assert pixels[:, 0].max() < camera.width - 4 and pixels[:, 1].max() < camera.height - 4


def test_the_arm_at_home_hides_no_cushion(world: WorldConfig, camera: SimulatedCamera) -> None:
    balls, joints = _balls(world), _joints(world)
    region = camera._renderer
    region.render(balls, joints)
    robot = region._robot_region()
    noses = world.camera.project(np.array([[0.0, -world.table.width / 2, world.table.nose_height]]))
    ideal_shift = (region._ideal.height - world.camera.height) / 2
    assert robot.top > noses[0, 1] + ideal_shift


def test_a_pocketed_ball_is_not_seen(world: WorldConfig, camera: SimulatedCamera) -> None:
    balls, joints = _balls(world), _joints(world)
    gone = {**balls, 0: replace(balls[0], pocketed=True)}
    u, v = (round(float(x)) for x in world.camera.project(balls[0].position[None])[0])
    assert camera.picture(0, balls, joints)[v, u, 2] > 150
    assert camera.picture(0, gone, joints)[v, u, 2] < 90


def test_motion_smears_a_ball_along_its_way(world: WorldConfig, camera: SimulatedCamera) -> None:
    balls, joints = _balls(world), _joints(world)
    fast = {**balls, 0: replace(balls[0], velocity=np.array([3.0, 0.0, 0.0]))}
    u, v = (round(float(x)) for x in world.camera.project(balls[0].position[None])[0])

    def width(state: dict[int, BallPose]) -> float:
        row = camera.picture(0, state, joints)[v - 1 : v + 2, u - 25 : u + 26, 2].mean(axis=0)
        return float(np.sum(np.clip((row - 40) / 180, 0, 1) > 0.15))

    assert width(fast) > width(balls) + 1


def test_without_opengl_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cue_sim.graphics.REQUESTED_GL", "osmesa")
    monkeypatch.setitem(__import__("sys").modules, "mujoco.osmesa", None)
    with pytest.raises(NoGraphicsError, match=r"osmesa: .*; install libegl1") as caught:
        make_context(64, 64)
    assert "\n" not in str(caught.value)
