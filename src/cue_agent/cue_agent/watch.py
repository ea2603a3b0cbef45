"""The newest of what the camera and the arm tell, and what follows from it: are the balls at rest, was a shot seen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cue_agent.peers import ArmResult, Scene
from cue_core.balls import BallState
from cue_core.parameters import ParameterEstimate
from cue_core.shot_log import ShotLog
from cue_core.shots import ShotRecord
from cue_core.table import TableModel


@dataclass(frozen=True)
class Image:
    """What the tracker made of one image; ``stamp`` in ns."""

    stamp: int
    calibrated: bool
    settled: bool
    open_shot_id: str
    balls: tuple[BallState, ...]


@dataclass(frozen=True)
class Execution:
    """What the arm last told of a stroke; ``stamp`` in ns says since when."""

    shot_id: str
    finished: bool
    stamp: int
    result: ArmResult


@dataclass
class Watch:
    """Filled by the subscriptions of the node, read by the session's thread; ``changed`` guards and tells.

    Attributes:
        run_dir: folder with ``shots.jsonl``, empty = none.
        quiet_images: images at rest in a row that count as rest.
        quiet_timeout: [s] without an image, after which the last one counts: the simulated clock stands still then.
    """

    run_dir: str
    quiet_images: int
    quiet_timeout: float
    changed: threading.Condition = field(default_factory=threading.Condition)
    table: TableModel | None = None
    image: Image | None = None
    image_wall: float = 0.0
    quiet: int = 0
    records: dict[str, ShotRecord] = field(default_factory=dict)
    execution: Execution | None = None
    estimate: ParameterEstimate | None = None

    def see(self, image: Image, wall: float) -> None:
        """Take in an image's result, received at ``wall`` [s]. The same image may come twice."""
        with self.changed:
            if self.image is None or image.stamp != self.image.stamp:
                self.quiet = self.quiet + 1 if image.calibrated and image.settled else 0
            self.image, self.image_wall = image, wall
            self.changed.notify_all()

    def forget_images(self) -> None:
        """Begin anew after the clock jumped."""
        with self.changed:
            self.image, self.quiet = None, 0
            self.changed.notify_all()

    def scene(self, wall: float) -> Scene | None:
        """Return the scene when table and balls are known and at rest, at ``wall`` [s]."""
        image = self.image
        if self.table is None or image is None or not (image.calibrated and image.settled and image.balls):
            return None
        waited = self.quiet >= self.quiet_images and not image.open_shot_id
        if not waited and wall - self.image_wall < self.quiet_timeout:
            return None
        return Scene(self.table, image.balls)

    def missing(self) -> str:
        """Say what a scene lacks, for a person."""
        if self.table is None:
            return "no table was found in the images (table_info)"
        if self.image is None:
            return "the tracker is silent (ball_states)"
        if not self.image.calibrated:
            return "the tracker is not calibrated yet"
        return "no ball was found on the table" if not self.image.balls else "the balls do not come to rest"

    def closed(self, shot_id: str, since: int, wall: float) -> bool:
        """Tell whether the camera is done with a shot that the arm finished at ``since`` [ns]."""
        image = self.image
        if image is None or not image.settled or image.open_shot_id:
            return False
        if self.execution is not None and self.execution.shot_id == shot_id and self.execution.finished:
            since = self.execution.stamp
        return image.stamp >= since or wall - self.image_wall >= self.quiet_timeout

    def find_record(self, shot_id: str) -> ShotRecord | None:
        """Return the record of a shot, from the topic or from the log, which is written first."""
        if shot_id not in self.records and self.run_dir:
            found: Mapping[str, ShotRecord] = {
                r.shot_id: r for r in ShotLog(Path(self.run_dir, "shots.jsonl")).read() if r.shot_id
            }
            if shot_id in found:
                self.records[shot_id] = found[shot_id]
        return self.records.get(shot_id)
