"""The loop around the world, with a tracker played by the test: one history however slow it is, state on disk, rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from cue_sim.goals import Ending, Goal
from cue_sim.lockstep import LockstepConfig
from cue_sim.trajectory import JointTrajectory, Tolerances
from cue_sim.world import JointSample, World, WorldEvent
from cue_sim.world_config import WorldConfig
from cue_sim.world_loop import WorldLoop


@pytest.fixture(scope="module")
def config() -> WorldConfig:
    return WorldConfig.load("nominal", 1)


class _Tracker:
    """Acknowledges every frame after a delay of its own, from a thread of its own."""

    def __init__(self, settle_after: int, delay: Callable[[int], float] = lambda frame: 0.0) -> None:
        self.loop: WorldLoop | None = None
        self.frames: list[tuple[int, int]] = []
        self.repeats: list[int] = []
        self.clock: list[int] = []
        self.lost: set[int] = set()
        self.wall: list[float] = []
        self._settle_after, self._delay = settle_after, delay

    def on_clock(self, time_ns: int) -> None:
        self.clock.append(time_ns)
        self.wall.append(time.monotonic())

    def on_joints(self, samples: Sequence[JointSample]) -> None: ...

    def on_events(self, events: Sequence[WorldEvent]) -> None: ...

    def on_late(self, seconds: float) -> None: ...

    def on_frame(self, frame: int, time_ns: int) -> None:
        self.frames.append((frame, time_ns))
        if frame not in self.lost:
            self._later(frame, time_ns)

    def on_repeat(self, frame: int) -> None:
        self.repeats.append(frame)
        self._later(frame, dict(self.frames)[frame])

    def _later(self, frame: int, time_ns: int) -> None:
        assert self.loop
        timer = threading.Timer(self._delay(frame), self.loop.acknowledge, (time_ns, frame >= self._settle_after))
        timer.daemon = True
        timer.start()


def _run(loop: WorldLoop, until: Callable[[], bool], lockstep: bool = True, factor: float = 1.0) -> None:
    thread = threading.Thread(target=loop.run, args=(lockstep, factor), daemon=True)
    thread.start()
    done = threading.Event()
    end = time.monotonic() + 10.0
    try:
        while not until():
            assert time.monotonic() < end, f"the world did not get there in 10 s, it is at {loop.frame}"
            assert thread.is_alive(), "the world's thread died"
            done.wait(0.01)
    finally:
        loop.stop()
        thread.join(5.0)
    assert not thread.is_alive()


def _move(config: WorldConfig) -> Goal:
    home = config.robot.home
    points = np.stack([home, home + np.array([0.3, 0, 0, 0, 0, 0])])
    return Goal(JointTrajectory(np.array([0.0, 0.5]), points, np.zeros((2, 6))), Tolerances.default())


@pytest.mark.parametrize("late", [0.0, 0.15])
def test_the_history_does_not_depend_on_how_fast_the_others_are(config: WorldConfig, late: float) -> None:
    """The clock stops 3 frames after the settled one; a goal begins there, whenever it was sent."""
    generator = np.random.default_rng(int(100 * late))
    tracker = _Tracker(settle_after=4, delay=lambda frame: float(generator.uniform(0, 0.03)))
    world = World(config)
    loop = tracker.loop = WorldLoop(world, tracker)
    goal = _move(config)
    threading.Timer(late, loop.submit, (goal,)).start()
    _run(loop, lambda: goal.ended.is_set() and tracker.frames[-1][0] >= 24)
    assert goal.ending is Ending.SUCCEEDED
    # Frame 7 = 3 after the last that was wanted; the goal takes 15 frames, the last of which is 21; then 3 quiet ones.
    assert tracker.frames[-1][0] == 24
    assert world.time == 800_000_000


def test_a_lost_frame_is_sent_again(config: WorldConfig) -> None:
    tracker = _Tracker(settle_after=2)
    tracker.lost = {1}
    loop = tracker.loop = WorldLoop(World(config), tracker, config=LockstepConfig(repeat_after=0.1))
    _run(loop, lambda: bool(tracker.frames) and tracker.frames[-1][0] >= 5)
    assert tracker.repeats[0] == 1
    assert [f for f, _ in tracker.frames] == list(range(6))


def test_the_clock_waits_for_the_arm_to_report_its_stroke(config: WorldConfig) -> None:
    tracker = _Tracker(settle_after=1_000_000)
    world = World(config)
    loop = tracker.loop = WorldLoop(world, tracker)
    goal = _move(config)
    loop.report_shot("shot-1", finished=False)
    loop.submit(goal)
    stood: list[int] = []

    def reported() -> bool:
        if goal.ended.is_set() and not stood:
            threading.Event().wait(0.2)
            stood.append(world.frame)
            threading.Event().wait(0.2)
            stood.append(world.frame)
            loop.report_shot("shot-1", finished=True)
        return bool(stood) and world.frame > stood[1]

    _run(loop, reported)
    assert stood[0] == stood[1]


def test_a_killed_world_goes_on_from_its_last_frame(config: WorldConfig, tmp_path: Path) -> None:
    tracker = _Tracker(settle_after=1_000_000)
    loop = tracker.loop = WorldLoop(World(config), tracker, str(tmp_path))
    _run(loop, lambda: len(tracker.frames) > 5)
    last = tracker.frames[-1]
    again = _Tracker(settle_after=1_000_000)
    loop = again.loop = WorldLoop(World(config), again, str(tmp_path))
    assert loop.restored
    _run(loop, lambda: len(again.frames) > 2)
    assert again.frames[0] == last


@pytest.mark.parametrize("factor", [1.0, 5.0])
def test_m14_the_stated_rate_is_kept_within_two_per_cent(config: WorldConfig, factor: float) -> None:
    tracker = _Tracker(settle_after=0)
    loop = tracker.loop = WorldLoop(World(config), tracker)
    _run(loop, lambda: bool(tracker.clock) and tracker.clock[-1] > 1.5e9 * factor, lockstep=False, factor=factor)
    simulated, wall = np.array(tracker.clock) / 1e9, np.array(tracker.wall)
    rate = np.polyfit(wall, simulated, 1)[0]
    assert rate == pytest.approx(factor, rel=0.02)
