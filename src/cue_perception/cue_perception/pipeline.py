"""The tracker without ROS: images and news of the arm in; ball states, the table and shot records out."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import cv2
import numpy as np

from cue_core.balls import BallState, Visibility, ball_colour
from cue_core.errors import CueError, UnknownNameError
from cue_core.settings import check_settings, setting
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_perception.arm_mask import ArmShape, ArmView, before_table
from cue_perception.camera import Intrinsics
from cue_perception.clock_offset import ClockOffset
from cue_perception.detector import Detection, Detector
from cue_perception.errors import TableNotFoundError
from cue_perception.fiducials import MarkerLayout, orient
from cue_perception.health import CAMERA_MOVED, SelfCheck
from cue_perception.noses import nose_edges
from cue_perception.pose_spread import PoseSpread
from cue_perception.reconstruct import Reconstruction, reconstruct, reconstruct_any_lens
from cue_perception.recorder import Execution, ShotRecorder
from cue_perception.saved import SavedState
from cue_perception.stamps import StampGuard, Verdict
from cue_perception.tracking import BallTracker

_MOVED_CAMERA = 1.0  # px: a saved calibration whose noses lie this far from the edges is not believed
TRANSPORTS = ("raw", "compressed")
AVERAGING = "averaging the first images"
_COVERED = 0.5  # share of a ball under the arm from which only a (nearly) whole outline is believed ...
_WHOLE = 0.85  # ... of a ball that is known to lie there
_TRY_AGAIN = 30  # images between two attempts to find the table again
_REST_NOISE = 1e-3  # m: between two images of a ball at rest


@dataclass(frozen=True)
class TrackerConfig:
    """Parameters of the tracker."""

    table: str = setting("", "path of the table preset (config/tables/*.yaml)")
    robot: str = setting("", "path of the robot file (config/robots/*.yaml) whose arm is masked; empty = none")
    run_dir: str = setting("", "folder for shots.jsonl and tracker.json; empty = keep nothing")
    lockstep: bool = setting(True, "acknowledge every image: none may be lost, and the clock may stand still")
    ball_ids: list[int] = setting(list(range(16)), "ids of the balls that may lie on the table")  # noqa: RUF009
    half_turn: bool = setting(False, "turn the table frame by 180 degrees: y then points down in the image")
    calibration_images: int = setting(6, "images averaged before the table is reconstructed", "1", 1, 100)
    markers: str = setting("", "path of a marker layout (YAML) that tells the table's ends apart; empty = none")
    transport: str = setting("raw", "of the images: raw, or compressed for camera/image_raw/compressed")
    trail: float = setting(3.0, "length of the trails in the markers", "s", 0.0, 60.0)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OutOfRangeError: naming the field and its range.
            UnknownNameError: a ball id or transport does not exist.
        """
        check_settings(self)
        if self.transport not in TRANSPORTS:
            raise UnknownNameError("transport", self.transport, TRANSPORTS)
        for ball_id in self.ball_ids:
            ball_colour(int(ball_id))


@dataclass(frozen=True)
class Outcome:
    """What the tracker says to one image.

    Attributes:
        stamp: of the image [ns].
        balls: all known ones by id; empty until calibrated.
        calibrated: table and camera pose are known.
        settled: every ball rests and no further image is wanted for an open shot.
        open_shot_id: shot being recorded.
        frame: images processed so far.
        verdict: on the stamp; only NEW images were looked at.
        record: of a shot that this image closed.
        detections: balls as measured in this image.
    """

    stamp: int
    balls: tuple[BallState, ...]
    calibrated: bool
    settled: bool
    open_shot_id: str
    frame: int
    verdict: Verdict = Verdict.NEW
    record: ShotRecord | None = None
    detections: tuple[Detection, ...] = ()


class Pipeline:
    """One camera, one table."""

    def __init__(
        self,
        config: TrackerConfig,
        table: TableModel,
        saved: SavedState | None = None,
        recorded: list[ShotRecord] | None = None,
    ) -> None:
        """Start fresh, or where an earlier life ended.

        Args:
            config: parameters.
            table: preset.
            saved: state of the earlier life.
            recorded: shots in its log.
        """
        cv2.setNumThreads(1)  # one thread: same bits everywhere, and the cores belong to the other nodes
        self.config, self.table = config, table
        self.reconstruction: Reconstruction | None = None
        self.problem = "no image yet"
        self.balls = BallTracker(table, config.ball_ids)
        recorded = recorded or []
        next_index = max((r.index for r in recorded), default=-1) + 1
        self.recorder = ShotRecorder(self.balls, next_index, [r.shot_id for r in recorded if r.shot_id])
        self.guard = StampGuard()
        if saved is not None:
            self.recorder.clock = ClockOffset(saved.clock)
        self.check = SelfCheck(table, self.recorder.clock)
        self.arm = ArmShape.load(config.robot, table) if config.robot else None
        self.arm_view: ArmView | None = None
        self._lost: Reconstruction | None = None
        self._wait = 0
        self._markers = MarkerLayout.load(config.markers) if config.markers else None
        self._detector: Detector | None = None
        self._sum: np.ndarray | None = None
        self._summed = 0
        self._frame = 0
        self._answers: OrderedDict[int, Outcome] = OrderedDict()
        self._held: tuple[BallState, ...] | None = None
        self._saved = saved
        if saved is not None:
            self.balls.restore(saved.balls)
            self.recorder.next_index = max(self.recorder.next_index, saved.next_index)
            if saved.open_shot is not None and saved.open_shot.shot_id not in {
                r.shot_id for r in recorded if r.shot_id
            }:
                self.recorder.resume(saved.open_shot.commanded, saved.open_shot.before, saved.open_shot.strike_time)

    def process(
        self, image: np.ndarray, stamp: int, lens: Intrinsics | None, joints: np.ndarray | None = None
    ) -> Outcome:
        """Look at an image (h, w, 3) BGR uint8 with its stamp [ns]; every image gets exactly one answer.

        A lens that is not known (None) is estimated from the table. ``joints`` are the arm's angles (n,) [rad] at that
        time, None = not known.
        """
        verdict = self.guard.judge(stamp, self.config.lockstep)
        self.check.note(stamp, verdict)
        if verdict == Verdict.DUPLICATE and stamp in self._answers:
            return self._answers[stamp]
        if verdict not in (Verdict.NEW, Verdict.RESET):
            return self._answer(stamp, verdict)
        record = None
        if verdict == Verdict.RESET:
            record = self.recorder.abort("time_reset")
            self._restart_time()
        self._frame += 1
        time = stamp * 1e-9
        self._see_arm(joints)
        if self._detector is not None:
            self.check.look(image, time, None if self.arm_view is None else self.arm_view.hides)
            if self.check.moved:
                self._lose_calibration(self.check.moved)
        if self._detector is None:
            self._calibrate(image, lens)
        if self.recorder.recording:
            self.recorder.note(self.check.flags)
        found: tuple[Detection, ...] = ()
        if self._detector is not None and not self.check.suspect:
            before = self.balls.time
            image = self.check.corrected(image)
            found = self._uncovered(self._detector.detect(image, self.balls.predict(time)))
            self.balls.update(time, found, self._cover)
            record = self.recorder.on_frame(time, 0.0 if before is None else time - before) or record
        return self._answer(stamp, verdict, record, found)

    def _see_arm(self, joints: np.ndarray | None) -> None:
        self.arm_view = None
        if self.arm is not None and joints is not None and self.reconstruction is not None:
            camera = self.reconstruction.camera
            capsules = before_table(self.arm.placed(joints), camera.position, self.table)
            if len(capsules):
                self.arm_view = ArmView(capsules, camera, self.table.ball_radius)

    def _uncovered(self, found: list[Detection]) -> tuple[Detection, ...]:
        """Return the detections without what is part of the arm."""
        if self.arm_view is None or not found:
            return tuple(found)
        share = self.arm_view.share(np.array([d.position for d in found]))
        known = np.array([t.position for t in self.balls.active()]).reshape(-1, 2)
        kept = []
        for detection, covered in zip(found, share, strict=True):
            # A whole ball where one is known to lie is a ball: then the arm is not quite where its joints say.
            near = np.linalg.norm(known - detection.position, axis=1) < 0.3 * self.table.ball_radius
            if covered < _COVERED or (detection.support > _WHOLE and near.any()):
                kept.append(detection)
        return tuple(kept)

    def _cover(self, positions: np.ndarray) -> np.ndarray:
        """Return how much (n,) of the disc of a ball at (n, 2) [m] hides the cloth or is hidden by the arm, 0..1."""
        assert self._detector is not None  # for the type checker: only then are balls looked for
        cover = self._detector.cover(positions)
        return cover if self.arm_view is None else np.maximum(cover, self.arm_view.share(positions))

    def _lose_calibration(self, because: str) -> None:
        """Take the calibration back: the balls keep their names, and are looked for anew once the table is found."""
        self._lost = self.reconstruction
        self.reconstruction = self._detector = self._held = None
        self._sum, self._wait = None, 0
        self.problem = f"{because}; waiting for a steady picture to calibrate again"
        self.check.forget(because)
        self.recorder.note({CAMERA_MOVED})
        self._restart_time()

    def recalibrate(self) -> str:
        """Look for table and balls anew from the next images on; return why not, empty = it is done."""
        if self.recorder.recording or self.recorder.open_shot_id:
            return f"shot {self.recorder.open_shot_id or 'without a name'} is being recorded"
        if self._detector is not None:
            self._lose_calibration("asked to calibrate anew")
        return ""

    def on_execution(self, execution: Execution) -> ShotRecord | None:
        """Take news from the arm; returns a record when that closes one."""
        return self.recorder.on_execution(execution)

    def settled(self) -> bool:
        """Tell whether no further image is wanted."""
        known = self.reconstruction is not None and self._detector is not None and not self.check.suspect
        return known and not self.recorder.needs_images()

    def _answer(
        self, stamp: int, verdict: Verdict, record: ShotRecord | None = None, found: tuple[Detection, ...] = ()
    ) -> Outcome:
        outcome = Outcome(
            stamp=stamp,
            balls=self._told() if self._detector is not None else (),
            calibrated=self._detector is not None,
            settled=self.settled(),
            open_shot_id=self.recorder.open_shot_id,
            frame=self._frame,
            verdict=verdict,
            detections=found,
        )
        if verdict in (Verdict.NEW, Verdict.RESET):
            self._answers[stamp] = outcome
            while len(self._answers) > 8:
                self._answers.popitem(last=False)
        if record is None:
            return outcome
        return Outcome(**{**outcome.__dict__, "record": record})

    def _told(self) -> tuple[BallState, ...]:
        """Return the ball states to tell: the same from image to image while all rest.

        So a plan does not depend on which of the last images its maker had, and one seed gives one session.
        """
        now = tuple(self.balls.states())
        if not self.settled():
            self._held = None
        elif self._held is None or not _same_rest(self._held, now):
            known = all(b.visibility in (Visibility.VISIBLE, Visibility.POCKETED) for b in now)
            self._held = now if known else None
        if self._held is None:
            return now
        return tuple(
            held if ball.visibility is held.visibility else replace(ball, position=held.position)
            for ball, held in zip(now, self._held, strict=True)
        )

    def _restart_time(self) -> None:
        balls = self.balls.to_list()
        self.balls.tracks.clear()
        self.balls.time = None
        self.balls.restore(balls)

    def _calibrate(self, image: np.ndarray, lens: Intrinsics | None) -> None:
        if self._saved is not None and self._saved.reconstruction is not None:
            saved, self._saved = self._saved.reconstruction, None
            if self._still_valid(saved, image, lens):
                self.reconstruction = saved
                self._look_through(saved, image)
                return
        if self._lost is not None and not self._worth_a_try(image):
            return
        if self._sum is None or self._sum.shape != image.shape:
            self._sum, self._summed = np.zeros(image.shape, np.float32), 0
        cv2.accumulate(image, self._sum)
        self._summed += 1
        if self._summed < self.config.calibration_images:
            self.problem = AVERAGING
            return
        mean = self._sum / self._summed
        self._sum = None
        try:
            mean = np.clip(mean, 0, 255)
            if lens is None:
                found = reconstruct_any_lens(mean, self.table, self.config.half_turn)
            else:
                found = reconstruct(mean, lens, self.table, self.config.half_turn)
            if self._markers is not None:
                found = orient(found, (mean + 0.5).astype(np.uint8), self.table, self._markers)
            self.reconstruction = found
        except TableNotFoundError as error:
            self.problem = str(error) if self._lost is None else f"{self.check.lost_because}; not found again: {error}"
            self._wait = _TRY_AGAIN
            return
        if self._lost is not None:
            self.reconstruction = same_frame(self.reconstruction, self._lost)
            self._lost = None
        self.problem = ""
        mean = np.clip(mean + 0.5, 0, 255).astype(np.uint8)
        self._look_through(self.reconstruction, mean)

    def _look_through(self, found: Reconstruction, image: np.ndarray) -> None:
        """Begin to detect with a camera whose pose is known, and an image that it took."""
        self._detector = Detector(found.camera, self.table, image)
        self.balls.common = PoseSpread(found.camera, found.covariance, self.table)
        self.check.learn(found.camera, image)

    def _worth_a_try(self, image: np.ndarray) -> bool:
        """Tell whether the picture is steady, so that the table may be looked for again."""
        steady = self.check.steady(image)
        self._wait = max(self._wait - 1, 0)
        if not steady:
            self._sum = None
        return steady and self._wait == 0

    def _still_valid(self, saved: Reconstruction, image: np.ndarray, lens: Intrinsics | None) -> bool:
        old = saved.camera.intrinsics
        lens = lens or old
        same = (old.width, old.height) == (lens.width, lens.height) and np.allclose(old.matrix, lens.matrix)
        if not same or image.shape[:2] != (lens.height, lens.width):
            return False
        lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_BGR2LAB)
        edges = nose_edges(lab, saved.camera, self.table)
        if len(edges) < 4:
            return False
        return float(np.median(np.abs(np.concatenate([e.offsets for e in edges])))) < _MOVED_CAMERA

    def save(self) -> SavedState:
        """Return what a later life needs."""
        opened = self.recorder.open_shot()
        pending = None
        if opened is not None:
            shot = opened["shot"]
            pending = ShotRecord(
                shot_id=shot.shot_id if shot is not None else "",
                index=self.recorder.next_index,
                commanded=shot,
                achieved=None,
                strike_time=opened["since"],
                before=tuple(opened["before"]),
                after=(),
                tracks=(),
            )
        return SavedState(
            self.reconstruction, self.balls.to_list(), self.recorder.next_index, pending, self.recorder.clock.strikes
        )


def same_frame(found: Reconstruction, before: Reconstruction) -> Reconstruction:
    """Return a reconstruction in the table frame of an earlier one: a rectangle looks the same after a half turn."""
    if float(np.sum(found.camera.rotation[:, :2] * before.camera.rotation[:, :2])) >= 0:
        return found
    turn = np.diag([-1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    return replace(found, camera=found.camera.half_turned(), covariance=turn @ found.covariance @ turn)


def _same_rest(one: tuple[BallState, ...], other: tuple[BallState, ...]) -> bool:
    """Tell whether these are the same balls at the same places, but for noise."""
    return len(one) == len(other) and all(
        a.ball_id == b.ball_id
        and a.in_play == b.in_play
        and float(np.linalg.norm(a.position - b.position)) < _REST_NOISE
        for a, b in zip(one, other, strict=True)
    )


def require_image(image: np.ndarray) -> np.ndarray:
    """Return the image if it is one the tracker can read.

    Raises:
        CueError: it is not (h, w, 3) uint8.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise CueError(f"image is {image.shape} {image.dtype}, needed is (height, width, 3) uint8 BGR")
    return image
