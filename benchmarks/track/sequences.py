"""Rendered sequences, kept on disk: drawing a picture takes longer than tracking it."""

from __future__ import annotations

import fcntl
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.harness import UnavailableError
from benchmarks.harness.parts import hash_files
from benchmarks.track.worlds import ROOT, Scene, Truth, draw_scene
from cue_perception.camera import Intrinsics
from cue_sim.camera import BallPose, SimulatedCamera
from cue_sim.graphics import NoGraphicsError

FOLDER = ROOT / "runs" / "bench" / "track-frames"
_POOL = 1 << 22  # random numbers from which every image's noise is cut
# The pictures depend on these; how the balls ran is kept beside them.
_CODE = (
    "benchmarks/track/worlds.py",
    "benchmarks/track/sequences.py",
    "src/cue_sim/cue_sim/camera.py",
    "src/cue_sim/cue_sim/graphics.py",
    "src/cue_sim/cue_sim/lens.py",
    "src/cue_sim/cue_sim/scene.py",
    "src/cue_sim/cue_sim/scenery.py",
    "src/cue_sim/cue_sim/ball_marks.py",
)


@dataclass(frozen=True)
class Sequence:
    """Images of a scene.

    Attributes:
        scene: that was rendered, with the truth.
        lens: of its camera.
        packed: per image the zlib of its difference from the image before, without noise.
    """

    scene: Scene
    lens: Intrinsics
    packed: tuple[bytes, ...]

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.packed)

    @property
    def table(self) -> Any:
        """Return the table as the tracker may know it: not the colour of its cloth."""
        return self.scene.world.table

    def images(self, seed: int = 0) -> Iterator[np.ndarray]:
        """Yield (h, w, 3) BGR uint8 images with fresh sensor noise."""
        world = self.scene.world
        shape = (world.camera.height, world.camera.width, 3)
        size = int(np.prod(shape))
        rng = np.random.default_rng([world.seed, seed, 0x6E6F6973])
        noise = np.clip(np.rint(self.scene.noise * rng.standard_normal(size + _POOL, dtype=np.float32)), -127, 127)
        noise = noise.astype(np.int8)
        image = np.zeros(size, np.uint8)
        for packed in self.packed:
            image = image + np.frombuffer(zlib.decompress(packed), np.uint8)
            start = int(rng.integers(0, _POOL))
            yield cv2.add(image.reshape(shape), noise[start : start + size].reshape(shape), dtype=cv2.CV_8U)


def sequence(seed: int, index: int, width: int = 1280, height: int = 720, frames: int = 0) -> Sequence:
    """Return a rendered sequence, from disk if it was rendered before.

    Raises:
        UnavailableError: nothing can be rendered here.
    """
    name = f"world-{seed}-{index}-{height}-{frames}"
    key = hashlib.sha256((name + hash_files(ROOT / c for c in _CODE)).encode()).hexdigest()[:12]
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}-{key}.npz"
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two parts may want the same
        if not path.exists():
            for old in FOLDER.glob(f"{name}-*.npz"):
                old.unlink()
            _render(draw_scene(seed, index, width, height, frames), path)
    return _read(path, draw_scene(seed, index, width, height))


def _render(scene: Scene, path: Path) -> None:
    try:
        camera = SimulatedCamera(scene.world, scene.lamps.light)
    except NoGraphicsError as error:
        raise UnavailableError(str(error)) from None
    truth, world = scene.truth, scene.world
    joints = dict(zip(world.robot.joint_names, world.robot.home, strict=True))
    radius = world.table.ball_radius
    turned = np.random.default_rng([world.seed, len(truth.time)]).normal(size=(len(truth.ids), 4))
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    before = np.zeros(world.camera.width * world.camera.height * 3, np.uint8)
    packed: list[bytes] = []
    for frame in range(len(truth.time)):
        balls = {}
        for k, ball_id in enumerate(truth.ids):
            velocity = truth.velocity[frame, k]
            balls[int(ball_id)] = BallPose(
                np.array([*truth.position[frame, k], radius]),
                turned[k].copy(),
                np.array([*velocity, 0.0]),
                not truth.in_play[frame, k],
            )
            if frame + 1 < len(truth.time):
                step = truth.position[frame + 1, k] - truth.position[frame, k]
                if np.linalg.norm(step) < 0.2:
                    turned[k] = _rolled(turned[k], step, radius)
        image = camera.picture(frame, balls, joints).ravel()
        packed.append(zlib.compress((image - before).tobytes(), 1))
        before = image.copy()
    camera.close()
    sizes = np.array([len(p) for p in packed])
    blob = np.frombuffer(b"".join(packed), np.uint8)
    arrays: dict[str, Any] = {f.name: getattr(truth, f.name) for f in fields(Truth)}
    temporary = path.with_suffix(".part")
    with open(temporary, "wb") as file:
        np.savez(file, sizes=sizes, blob=blob, **arrays)
    temporary.replace(path)


def _rolled(turned: np.ndarray, step: np.ndarray, radius: float) -> np.ndarray:
    """Return an orientation (4,) wxyz after a ball rolled by a step (2,) [m]."""
    angle = float(np.linalg.norm(step)) / radius
    if angle < 1e-9:
        return turned
    axis = np.array([-step[1], step[0], 0.0]) / np.linalg.norm(step)
    w, v = np.cos(angle / 2), np.sin(angle / 2) * axis
    out = np.array([w * turned[0] - v @ turned[1:], *(w * turned[1:] + turned[0] * v + np.cross(v, turned[1:]))])
    return out / np.linalg.norm(out)


def _read(path: Path, scene: Scene) -> Sequence:
    with np.load(path) as data:
        ends = np.cumsum(data["sizes"])
        blob = data["blob"].tobytes()
        truth = Truth(**{f.name: data[f.name] for f in fields(Truth)})
    packed = tuple(blob[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True))
    camera = scene.world.camera
    lens = Intrinsics(camera.width, camera.height, camera.matrix, camera.distortion)
    return Sequence(Scene(scene.world, scene.lamps, scene.noise, truth), lens, packed)
