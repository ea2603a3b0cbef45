"""The arm by its joint angles: which points on the table it hides from the camera."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from cue_core.checks import load_yaml
from cue_core.errors import CueError, FileFormatError
from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline

_BASE_CAPSULE = (0.0, 0.0, -0.02, 0.0, 0.0, 0.03, 0.072)
_BASE = -1  # link number of what does not move
_MARGIN = 0.006  # m: cables, the base's place, the clocks
_KEPT = 1024  # joint states


@dataclass(frozen=True)
class ArmShape:
    """An arm as capsules on a serial chain, placed beside a table; data of ``config/robots/*.yaml``.

    Attributes:
        joints: names, base first.
        table_from_base: (4, 4) [m].
        after: (n, 4, 4) from the frame that turns with joint i to the next joint's [m].
        links: (k,) which joint carries each capsule, -1 = none.
        capsules: (k, 7) ends and radius in the frame that turns with the joint [m].
    """

    joints: tuple[str, ...]
    table_from_base: np.ndarray
    after: np.ndarray
    links: np.ndarray
    capsules: np.ndarray

    @classmethod
    def load(cls, path: Path | str, table: TableModel) -> ArmShape:
        """Read a robot file.

        Raises:
            FileFormatError: the file is missing or malformed.
        """
        return cls.from_dict(load_yaml(path), table, path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], table: TableModel, where: object = "robot") -> ArmShape:
        """Build from the data of a robot file; mounted as ``cue_sim.robot`` mounts it.

        Raises:
            FileFormatError: a key is missing or malformed.
        """
        try:
            base, cue = data["base"], data["cue"]
            sign = {"south": -1.0, "north": 1.0}[base["side"]]
            pose = np.eye(4)
            turn = float(base.get("turn", 0.0))
            c, s = sign * np.cos(turn), sign * np.sin(turn)
            pose[:2, 0], pose[:2, 1] = (-s, c), (-c, -s)
            pose[:3, 3] = base["along"], sign * (table.width / 2 + base["gap"]), base["height"]
            after, links, capsules = [], [_BASE], [_BASE_CAPSULE]
            for number, link in enumerate(data["links"]):
                dh = link["dh"]
                c, s = np.cos(dh["alpha"]), np.sin(dh["alpha"])
                after.append([[1, 0, 0, dh["a"]], [0, c, -s, 0], [0, s, c, dh["d"]], [0, 0, 0, 1]])
                for row in link["capsules"]:
                    links.append(number)
                    capsules.append(tuple(row))
            # The cue is fixed to the flange: its ends are brought into the last joint's frame.
            back, front = cue["forward"] - cue["shaft"], cue["forward"] - cue["tip_radius"]
            flange = np.array(after[-1], float)
            for x1, z1, x2, z2, radius in (
                (0.0, 0.0, back, cue["below"], cue["stem_radius"]),
                (back, cue["below"], front, cue["below"], max(cue["shaft_radius"], cue["tip_radius"])),
            ):
                one, other = flange @ [x1, 0, z1, 1], flange @ [x2, 0, z2, 1]
                links.append(len(after) - 1)
                capsules.append((*one[:3], *other[:3], radius))
            return cls(
                tuple(str(link["joint"]) for link in data["links"]),
                pose,
                np.array(after, float),
                np.array(links),
                np.array(capsules, float),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(where, f"is no robot: {type(error).__name__} {error}") from None

    def placed(self, angles: np.ndarray) -> np.ndarray:
        """Return the capsules (k, 7) in the table frame [m] at joint angles (n,) [rad].

        Raises:
            CueError: another number of joints.
        """
        if len(angles) != len(self.joints):
            raise CueError(f"{len(angles)} joint angles were given, the arm has {len(self.joints)} joints")
        frames = [self.table_from_base]
        place = self.table_from_base
        for angle, after in zip(angles, self.after, strict=True):
            c, s = np.cos(angle), np.sin(angle)
            place = place @ np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
            frames.append(place)
            place = place @ after
        of = np.array(frames)[self.links + 1]
        ends = self.capsules[:, :6].reshape(-1, 2, 3)
        moved = np.einsum("kij,kej->kei", of[:, :3, :3], ends) + of[:, None, :3, 3]
        return np.column_stack([moved.reshape(-1, 6), self.capsules[:, 6]])


def hides(capsules: np.ndarray, eye: np.ndarray, points: np.ndarray, margin: float = _MARGIN) -> np.ndarray:
    """Tell which points (n, 3) capsules (k, 7) hide from an eye (3,): those whose line of sight meets one [m]."""
    if len(points) == 0 or len(capsules) == 0:
        return np.zeros(len(points), bool)
    start, end = capsules[:, :3], capsules[:, 3:6]
    sight, axis = points - eye, end - start  # segments eye + s sight and start + t axis
    between = eye - start
    a = np.sum(sight**2, axis=1)[:, None]
    e = np.sum(axis**2, axis=1)[None]
    f = np.sum(axis * between, axis=1)[None]
    b = sight @ axis.T
    c = sight @ between.T
    # Ericson, Real-Time Collision Detection (2005), 5.1.9: closest points of two segments.
    denominator = a * e - b * b
    s = np.clip((b * f - c * e) / np.maximum(denominator, 1e-12), 0, 1)
    t = (b * s + f) / np.maximum(e, 1e-12)
    s = np.where(t < 0, np.clip(-c / a, 0, 1), np.where(t > 1, np.clip((b - c) / a, 0, 1), s))
    t = np.clip(t, 0, 1)
    gap = between[None] + s[..., None] * sight[:, None] - t[..., None] * axis[None]
    near = np.sum(gap**2, axis=-1) < (capsules[:, 6] + margin)[None] ** 2
    return np.asarray(near.any(axis=1))


def before_table(capsules: np.ndarray, eye: np.ndarray, table: TableModel) -> np.ndarray:
    """Return those of capsules (k, 7) whose shadow, cast by the eye (3,), may fall on the table; most are beside it."""
    ends = capsules[:, :6].reshape(-1, 2, 3)
    scale = eye[2] / np.maximum(eye[2] - ends[..., 2], 1e-3)
    shadow = eye[:2] + (ends[..., :2] - eye[:2]) * scale[..., None]
    # A sphere's shadow is stretched where it is seen obliquely.
    slant = np.linalg.norm(ends - eye, axis=-1) / np.maximum(eye[2] - ends[..., 2], 1e-3)
    reach = 1.5 * (capsules[:, 6] + _MARGIN) * (scale * slant).max(axis=1)
    half = np.array([table.length / 2, table.width / 2]) + table.rail_width
    near = np.all((shadow.min(axis=1) < half + reach[:, None]) & (shadow.max(axis=1) > -half - reach[:, None]), axis=1)
    high = np.any(ends[..., 2] > eye[2] - capsules[:, 6:7] - 0.05, axis=1)
    return np.asarray(capsules[near | high])


@dataclass(frozen=True)
class ArmView:
    """The arm as one camera sees it at one moment.

    Attributes:
        capsules: (k, 7) in the table frame [m].
        camera: that looks.
        radius: of the balls [m].
    """

    capsules: np.ndarray
    camera: Camera
    radius: float

    def hides(self, points: np.ndarray) -> np.ndarray:
        """Tell which points (n, 3) [m] are hidden."""
        return hides(self.capsules, self.camera.position, points)

    def share(self, positions: np.ndarray) -> np.ndarray:
        """Return how much (n,) of balls at (n, 2) [m] is hidden, 0..1."""
        count = len(positions)
        if count == 0:
            return np.zeros(0)
        centres = np.column_stack([positions, np.full(count, self.radius)])
        rim = sphere_outline(self.camera, centres, self.radius, 10)
        inner = centres[:, None] + 0.5 * (rim - centres[:, None])
        points = np.concatenate([centres[:, None], inner, 0.9 * rim + 0.1 * centres[:, None]], axis=1)
        # The tip at a ball does not hide it by its margin: only what is surely covered counts.
        covered = hides(self.capsules, self.camera.position, points.reshape(-1, 3), 0.0)
        return np.asarray(covered.reshape(count, -1).mean(axis=1))

    def outlines(self) -> list[np.ndarray]:
        """Return the outline (m, 2) [px] of each capsule in the picture; those not wholly in front are left out."""
        found = []
        for capsule in self.capsules:
            ends = capsule[:6].reshape(2, 3)
            if np.any(ends @ self.camera.rotation[2] + self.camera.translation[2] < 2 * capsule[6] + 0.02):
                continue
            rims = self.camera.project(sphere_outline(self.camera, ends, float(capsule[6]), 16))
            found.append(cv2.convexHull(rims.reshape(-1, 1, 2).astype(np.float32)).reshape(-1, 2))
        return found


class JointHistory:
    """The newest joint states, looked up by the stamp of an image."""

    def __init__(self, joints: Sequence[str]) -> None:
        """Take the names of the joints wanted, base first."""
        self.joints = tuple(joints)
        self._times: list[int] = []
        self._states: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, stamp: int, names: Sequence[str], angles: Sequence[float], speeds: Sequence[float] = ()) -> None:
        """Take a joint state [ns, rad, rad/s]; one of other joints, or older than the newest, is left out."""
        if (self._times and stamp <= self._times[-1]) or len(names) != len(angles):
            if self._times and stamp < self._times[-1] - 10**9:
                self._times, self._states = [], []  # the clock began anew
            return
        place = {name: k for k, name in enumerate(names)}
        if any(name not in place for name in self.joints):
            return
        index = [place[name] for name in self.joints]
        speed = np.array(speeds, float)[index] if len(speeds) == len(names) else np.zeros(len(index))
        self._times.append(stamp)
        self._states.append((np.array(angles, float)[index], speed))
        if len(self._times) > 2 * _KEPT:
            self._times, self._states = self._times[-_KEPT:], self._states[-_KEPT:]

    @property
    def period(self) -> int:
        """Return the usual time between joint states [ns]; 0 = not known yet."""
        if len(self._times) < 4:
            return 0
        return int(np.median(np.diff(self._times[-16:])))

    def covers(self, stamp: int) -> bool:
        """Tell whether the joint state that belongs to an image of this stamp [ns] has surely come."""
        return bool(self._times) and self._times[-1] > stamp - max(self.period, 1)

    def at(self, stamp: int, longest: float = 0.1) -> np.ndarray | None:
        """Return the angles (n,) [rad] at a stamp [ns] from the newest state before it; None = too old or none."""
        k = bisect_right(self._times, stamp) - 1
        if k < 0:
            return None
        since = (stamp - self._times[k]) * 1e-9
        if since > longest:
            return None
        angles, speeds = self._states[k]
        return np.asarray(angles + speeds * min(since, 0.02))
