"""The simulated world: hidden physics, an arm under servo control, and a clock that runs when it is told to.

Times are whole nanoseconds since the world began, so that frames, control cycles and stamps never drift apart.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_sim import kernel
from cue_sim.robot import TIP_GEOM
from cue_sim.servo import Servo
from cue_sim.trajectory import Follower, stopping
from cue_sim.world_config import WorldConfig
from cue_sim.world_model import build_world

SECOND = 1_000_000_000
_JOINT_PERIOD = SECOND // 125
_CHECKPOINT_VERSION = 1


@dataclass(frozen=True)
class JointSample:
    """The robot's joints at one moment.

    Attributes:
        time: [ns].
        positions: (6,) [rad].
        velocities: (6,) [rad/s].
        efforts: (6,) [N m].
    """

    time: int
    positions: np.ndarray
    velocities: np.ndarray
    efforts: np.ndarray


@dataclass(frozen=True)
class WorldEvent:
    """Something that happened: ``kind`` is strike, collision, pocketed or off_table; ``text`` says what to whom."""

    time: int
    kind: str
    text: str


@dataclass(frozen=True)
class BallTruth:
    """True state of the balls, n of them in the order of the ids; in the table frame.

    Attributes:
        positions: (n, 3) [m]; of a pocketed ball where it fell.
        orientations: (n, 4) wxyz, table_from_ball.
        velocities: (n, 3) [m/s].
        spins: (n, 3) [rad/s].
        pocketed: (n,) bool.
    """

    positions: np.ndarray
    orientations: np.ndarray
    velocities: np.ndarray
    spins: np.ndarray
    pocketed: np.ndarray


class World:
    """One world; not thread-safe."""

    def __init__(self, config: WorldConfig) -> None:
        """Put the balls where the world file says, and the arm at home."""
        self.config = config
        self.time = 0
        self.frame = 0
        self.events: list[WorldEvent] = []
        self._model = build_world(config)
        self._data = mujoco.MjData(self._model)
        self._layout = kernel.Layout.of(self._model, config.table, config.ball_ids)
        count = len(config.ball_ids)
        self._laws = config.all_laws().array()
        self._in_play = np.ones(count, np.int32)
        self._fell_at = np.zeros((count, 2))
        self._servo = Servo(self._model, config.robot, config.servo)
        self._cycle = round(SECOND / config.servo.rate)
        self._tip = self._model.geom(TIP_GEOM).id
        self._robot_geoms = np.array([self._model.geom(i).name.startswith("robot/") for i in range(self._model.ngeom)])
        self._touching: set[tuple[int, int]] = set()
        self.follower = Follower(config.robot, config.robot.home)
        still = np.zeros((count, 3))
        kernel.start(
            self._model, self._data, self._layout, config.positions.copy(), np.zeros((count, 2)), still, self._in_play
        )
        self._servo.place(self._data, config.robot.home)
        mujoco.mj_forward(self._model, self._data)

    @property
    def frame_time(self) -> int:
        """Return the time of the next camera frame [ns]."""
        return self.time_of(self.frame + 1)

    def time_of(self, frame: int) -> int:
        """Return the time of a camera frame [ns]."""
        return round(frame * SECOND / self.config.camera.fps)

    @property
    def moving(self) -> bool:
        """Tell whether a ball travels."""
        return bool(self._layout.moving(self._data, self._in_play).any())

    def joints(self) -> JointSample:
        """Return the robot's joints now."""
        servo, data = self._servo, self._data
        return JointSample(self.time, servo.positions(data), servo.velocities(data), servo.efforts(data))

    def tip(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the true position [m] and velocity [m/s] (3,), (3,) of the centre of the cue's tip now."""
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self._model, self._data, mujoco.mjtObj.mjOBJ_GEOM, self._tip, velocity, 0)
        return self._data.geom_xpos[self._tip].copy(), velocity[3:]

    def balls(self) -> BallTruth:
        """Return the true state of the balls now."""
        data, n = self._data, len(self.config.ball_ids)
        gone = self._in_play == 0
        places = np.column_stack([self._layout.positions(data), np.full(n, self.config.table.ball_radius)])
        places[gone] = np.column_stack([self._fell_at, np.full(n, -0.1)])[gone]
        velocities = np.column_stack([self._layout.velocities(data), np.zeros(n)])
        velocities[gone] = 0.0
        return BallTruth(places, self._layout.orientations(data), velocities, self._layout.spins(data), gone)

    def next_frame(self) -> list[JointSample]:
        """Run to the next camera frame; return joint samples at 125 Hz and at the frame itself."""
        samples = self.run_to(self.frame_time)
        self.frame += 1
        if not samples or samples[-1].time != self.time:
            samples.append(self.joints())
        return samples

    def run_to(self, until: int) -> list[JointSample]:
        """Run to a time [ns]; return the joint samples at 125 Hz on the way.

        Raises:
            CueError: the simulation broke down.
        """
        samples = []
        while self.time < until:
            if self.time % self._cycle == 0:
                now = self.time / SECOND
                self.follower.judge(now, self._servo.positions(self._data))
                self._servo.control(self._model, self._data, self.follower.set_point(now))
            end = min(until, (self.time // self._cycle + 1) * self._cycle)
            self._physics(end)
            self.time = end
            if end % _JOINT_PERIOD == 0:
                samples.append(self.joints())
        if self.follower.active:
            self.follower.judge(self.time / SECOND, self._servo.positions(self._data))
        return samples

    def _physics(self, end: int) -> None:
        steps = self.config.steps
        near = self._tip_is_near()
        outcome = kernel.advance(
            self._model,
            self._data,
            self._layout,
            self._laws,
            self._in_play,
            end / SECOND,
            steps.contact if near else steps.largest,
            steps.impact,
        )
        for event in outcome.events:
            if event.kind is kernel.EventKind.POCKET:
                pocket = self.config.table.pockets[event.other]
                self._fell_at[self.config.ball_ids.index(event.ball)] = pocket.position
                self._note("pocketed", f"ball {event.ball} fell into {pocket.name}")
            elif event.kind is kernel.EventKind.AIRBORNE:
                self._note("airborne", f"ball {event.ball} would have left the cloth, and is kept down")
        if outcome.fault == "escape":
            self._remove_escaped(end)
        elif outcome.fault:
            raise CueError(
                f"world {self.config.name}: the simulation broke down at {end / SECOND:.4f} s: {outcome.fault}"
            )
        self._note_contacts()

    def _tip_is_near(self) -> bool:
        gaps = np.linalg.norm(self._data.xpos[self._layout.body] - self._data.geom_xpos[self._tip], axis=1)
        reach = self.config.table.ball_radius + self.config.robot.cue.tip_radius + self.config.steps.near
        return bool(np.any(gaps < reach))

    def _remove_escaped(self, end: int) -> None:
        """Take balls that left the table off it, and go on."""
        places = self._layout.positions(self._data)
        half = np.array([self.config.table.length, self.config.table.width]) / 2
        for i in np.flatnonzero((self._in_play == 1) & np.any(np.abs(places) > half, axis=1)):
            if any(np.linalg.norm(p.position - places[i]) < 2 * p.radius for p in self.config.table.pockets):
                continue
            self._in_play[i] = 0
            self._fell_at[i] = places[i]
            at, dof = self._layout.qpos[i], self._layout.dof[i]
            self._data.qpos[at : at + 2] = (4 * half[0] + 0.1 * i, -4 * half[0])
            self._data.qvel[dof : dof + 5] = 0.0
            self._note("off_table", f"ball {self.config.ball_ids[i]} left the table")
        if self._data.time < end / SECOND - 1e-9:
            self._physics(end)

    def _note_contacts(self) -> None:
        touching: set[tuple[int, int]] = set()
        for i in range(self._data.ncon):
            pair = tuple(int(g) for g in self._data.contact[i].geom)
            if self._robot_geoms[pair[0]] != self._robot_geoms[pair[1]] and self._data.contact[i].dist <= 0:
                touching.add((pair[0], pair[1]) if self._robot_geoms[pair[0]] else (pair[1], pair[0]))
        for robot, other in sorted(touching - self._touching):
            name, what = self._model.geom(robot).name, self._model.geom(other).name
            struck = robot == self._tip and what == "ball_0"
            self._note("strike" if struck else "collision", f"{name} touches {what}")
        self._touching = touching

    def _note(self, kind: str, text: str) -> None:
        self.events.append(WorldEvent(self.time, kind, text))

    def take_events(self) -> list[WorldEvent]:
        """Return what happened since the last call."""
        events, self.events = self.events, []
        return events

    def save(self, path: Path) -> None:
        """Write the state, so that a killed world goes on from its last frame; the old file stays until it is whole.

        Raises:
            FileFormatError: it cannot be written.
        """
        buffer = io.BytesIO()
        np.savez(
            buffer,
            version=_CHECKPOINT_VERSION,
            identity=self._identity(),
            time=self.time,
            frame=self.frame,
            qpos=self._data.qpos,
            qvel=self._data.qvel,
            warmstart=self._data.qacc_warmstart,
            in_play=self._in_play,
            fell_at=self._fell_at,
        )
        write_atomically(path, buffer.getvalue())

    def restore(self, path: Path) -> bool:
        """Go on from a saved state, the arm braking to a hold; False = no such file.

        Raises:
            FileFormatError: the file is damaged or of another world.
        """
        try:
            with np.load(path, allow_pickle=False) as saved:
                state = {name: saved[name] for name in saved.files}
            if int(state["version"]) != _CHECKPOINT_VERSION or not np.array_equal(state["identity"], self._identity()):
                raise FileFormatError(path, "is the state of another world; take another run folder")
            self._data.qpos[:], self._data.qvel[:] = state["qpos"], state["qvel"]
            self._data.qacc_warmstart[:] = state["warmstart"]
            self._in_play[:], self._fell_at[:] = state["in_play"], state["fell_at"]
            self.time, self.frame = int(state["time"]), int(state["frame"])
        except FileNotFoundError:
            return False
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise FileFormatError(path, f"is not a world's state: {error}") from None
        self._data.time = self.time / SECOND
        mujoco.mj_forward(self._model, self._data)
        joints = self.joints()
        brake = stopping(joints.positions, joints.velocities, 0.5 * self.config.robot.limits("acceleration"))
        self.follower.brake(brake, self.time / SECOND)
        return True

    def _identity(self) -> np.ndarray:
        config = self.config
        geometry = [config.table.length, config.table.width, config.table.ball_radius, config.camera.fps, config.seed]
        return np.concatenate([geometry, config.ball_ids, config.positions.ravel(), config.parameters])
