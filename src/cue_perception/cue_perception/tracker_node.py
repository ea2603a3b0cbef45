"""The tracker as a ROS node: one ``ball_states`` per image, the table, and one record per shot."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from cue_core.errors import CueError
from cue_core.ros import conversions as convert
from cue_core.ros.diagnostics import Health
from cue_core.ros.images import any_to_bgr, array_to_image
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import IMAGES_LIVE, IMAGES_LOCKSTEP, LATCHED, RECORDS, STATES_LATCHED
from cue_core.shot_log import ShotLog
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_msgs.msg import BallStateArray, ShotExecution, TableInfo
from cue_msgs.msg import ShotRecord as ShotRecordMsg
from cue_perception.arm_joints_node import ArmJoints
from cue_perception.camera import Intrinsics
from cue_perception.check_voice_node import CheckVoice
from cue_perception.overlay import draw_overlay
from cue_perception.pipeline import AVERAGING, Outcome, Pipeline, TrackerConfig
from cue_perception.recorder import Execution, Phase
from cue_perception.ros_messages_node import lens_from_msg, static_transforms, table_from_camera, trail_markers
from cue_perception.saved import SavedState
from cue_perception.stamps import Verdict

_MARKER_PERIOD = 0.1  # s, wall clock


class TrackerNode(Node):
    """Images and ``shot_execution`` in; ``ball_states``, ``table_info``, ``shot_records`` and pictures out."""

    def __init__(self) -> None:
        """Declare parameters, restore an earlier life, connect."""
        super().__init__("tracker")
        self._config = config = declare(self, TrackerConfig)
        self._table = TableModel.load(config.table)
        self._run_dir = Path(config.run_dir) if config.run_dir else None
        self._log = ShotLog(self._run_dir / "shots.jsonl") if self._run_dir is not None else None
        recorded = self._log.read() if self._log is not None else []
        self._pipeline = Pipeline(config, self._table, self._restore(), recorded)
        self._lens: Intrinsics | None = None
        self._frame_id = "camera_optical_frame"
        self._announced: object = None
        self._signature: object = None
        self._said = ""
        self._marked = 0.0
        self._answer: BallStateArray | None = None
        self._health = Health(self)
        self._voice = CheckVoice(self, self._health, self._pipeline.check, config.lockstep)
        arm = self._pipeline.arm
        self._joints = ArmJoints(self, arm.joints, config.lockstep) if arm is not None else None

        self._states = self.create_publisher(BallStateArray, "ball_states", STATES_LATCHED)
        self._info = self.create_publisher(TableInfo, "table_info", LATCHED)
        self._records = self.create_publisher(ShotRecordMsg, "shot_records", RECORDS)
        self._tf = self.create_publisher(TFMessage, "tf_static", LATCHED)
        self._markers = self.create_publisher(MarkerArray, "markers", LATCHED)
        self._debug = self.create_publisher(Image, "debug_image", 2)
        for record in recorded:  # a record may have been written and not yet told when the last life ended
            self._records.publish(convert.record_to_msg(record, convert.seconds_to_stamp(record.strike_time)))
        # One group: the arm's news and the images are handled one after the other, the arm's first.
        group = MutuallyExclusiveCallbackGroup()
        images = IMAGES_LOCKSTEP if config.lockstep else IMAGES_LIVE
        self.create_subscription(ShotExecution, "shot_execution", self._on_execution, LATCHED, callback_group=group)
        self.create_subscription(CameraInfo, "camera/camera_info", self._on_lens, images, callback_group=group)
        self.create_service(Trigger, "recalibrate", self._on_recalibrate, callback_group=group)
        kind, suffix = (CompressedImage, "/compressed") if config.transport == "compressed" else (Image, "")
        self.create_subscription(kind, f"camera/image_raw{suffix}", self._on_image, images, callback_group=group)

    def _restore(self) -> SavedState | None:
        if self._run_dir is None:
            return None
        if not self._run_dir.is_dir():
            raise CueError(f"run_dir {self._run_dir} is no folder")
        try:
            return SavedState.read(self._run_dir / "tracker.json")
        except CueError as error:
            self.get_logger().warning(f"starting afresh: {error}")
            return None

    def _on_lens(self, msg: CameraInfo) -> None:
        try:
            self._lens = lens_from_msg(msg)
        except CueError as error:
            self._complain(str(error))

    def _on_execution(self, msg: ShotExecution) -> None:
        try:
            execution = Execution(
                convert.shot_from_msg(msg.shot),
                Phase(msg.phase),
                convert.stamp_to_seconds(msg.header.stamp),
                convert.stroke_from_msg(msg.stroke),
                msg.error_code,
                msg.pace,
            )
        except (CueError, ValueError) as error:
            self._complain(f"shot_execution is not usable: {error}")
            return
        self._finish(self._pipeline.on_execution(execution), msg.header.stamp)
        self._save()
        if self._answer is not None and self._answer.open_shot_id != self._pipeline.recorder.open_shot_id:
            # The clock may stand, so no image will tell that the shot is open or closed: say it of the last one.
            self._answer.open_shot_id = self._pipeline.recorder.open_shot_id
            self._states.publish(self._answer)

    def _on_recalibrate(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = self._pipeline.recalibrate()
        response.success = not response.message
        if response.success and self._answer is not None:
            # The clock may stand, so that no image would come: say of the last one that more are wanted.
            self._answer.calibrated = self._answer.settled = False
            self._states.publish(self._answer)
        return response

    def _on_image(self, msg: Image | CompressedImage) -> None:
        begin = time.perf_counter()
        self._frame_id = msg.header.frame_id or self._frame_id
        stamp = convert.stamp_to_nanoseconds(msg.header.stamp)
        try:
            image = any_to_bgr(msg)
            joints = self._joints.at(stamp) if self._joints is not None else None
            outcome = self._pipeline.process(image, stamp, self._lens, joints)
        except CueError as error:
            self._complain(str(error))
            self._states.publish(BallStateArray(header=convert.table_header(msg.header.stamp)))
            return
        if outcome.record is not None:
            self._finish(outcome.record, msg.header.stamp)
        self._announce(image, outcome, msg.header.stamp)
        self._save(outcome)
        self._answer = BallStateArray(
            header=convert.table_header(msg.header.stamp),
            balls=[convert.ball_to_msg(b) for b in outcome.balls],
            calibrated=outcome.calibrated,
            settled=outcome.settled,
            open_shot_id=self._pipeline.recorder.open_shot_id,
            frame=outcome.frame,
        )
        self._states.publish(self._answer)
        seconds = time.perf_counter() - begin
        self._health.tick("image", seconds)
        self._voice.tell(outcome, seconds, joints is not None)
        self._show(image, outcome, msg)

    def _finish(self, record: ShotRecord | None, stamp: Time) -> None:
        if record is None:
            return
        if self._log is not None:
            self._log.append(record)
        self._records.publish(convert.record_to_msg(record, stamp))
        flags = f", {', '.join(record.flags)}" if record.flags else ""
        self.get_logger().info(
            f"shot {record.index} {record.shot_id or '(not announced)'}: moved {list(record.moved_ball_ids())}{flags}"
        )

    def _announce(self, image: np.ndarray, outcome: Outcome, stamp: Time) -> None:
        """Tell of the table once, and draw its picture once the balls are known."""
        found = self._pipeline.reconstruction
        if found is None or not outcome.calibrated:
            self._complain(self._pipeline.problem, averaging=True)
            return
        if self._announced is not found:
            self._announced = found
            self._health.ok()
            self._said = ""
            pose = table_from_camera(found.camera)
            self._info.publish(convert.table_to_msg(self._table, stamp, pose, found.covariance, found.rms))
            self._tf.publish(static_transforms(found.camera, self._frame_id, stamp))
            self._health.set("reprojection rms [px]", f"{found.rms:.3f}")
            self.get_logger().info(f"table {self._table.name} found, nose lines within {found.rms:.2f} px")
        if self._run_dir is not None and outcome.settled and not (self._run_dir / "table.png").exists():
            picture = draw_overlay(
                image, found.camera, self._table, outcome.balls, scale=max(1.0, 1280 / image.shape[1])
            )
            draft = self._run_dir / "table.tmp.png"
            if cv2.imwrite(str(draft), picture):
                draft.replace(self._run_dir / "table.png")

    def _save(self, outcome: Outcome | None = None) -> None:
        """Keep the state where something changed that an image cannot bring back."""
        if self._run_dir is None:
            return
        recorder = self._pipeline.recorder
        signature = (
            self._pipeline.reconstruction,
            tuple((b.ball_id, b.visibility) for b in self._pipeline.balls.states()),
            recorder.next_index,
            recorder.recording,
            recorder.open_shot_id,
            len(recorder.clock.strikes),
            self._pipeline.settled(),
        )
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._pipeline.save().write(self._run_dir / "tracker.json")
        except CueError as error:
            self._complain(str(error))

    def _complain(self, problem: str, averaging: bool = False) -> None:
        """Say a problem once, and keep it in the diagnostics."""
        if averaging and problem == AVERAGING:
            return
        (self._health.error if self._pipeline.check.lost_because else self._health.warn)(problem)
        if problem != self._said:
            self._said = problem
            self.get_logger().warning(problem)

    def _show(self, image: np.ndarray, outcome: Outcome, msg: Image | CompressedImage) -> None:
        """Markers and debug picture, for whoever looks."""
        guard = self._pipeline.guard
        for verdict in (Verdict.DUPLICATE, Verdict.OUT_OF_ORDER, Verdict.JUMP):
            self._health.set(f"images {verdict.value}", guard.counts[verdict])
        found, now = self._pipeline.reconstruction, time.monotonic()
        if found is None or not outcome.calibrated or now - self._marked < _MARKER_PERIOD:
            return
        wanted = self._markers.get_subscription_count(), self._debug.get_subscription_count()
        if not any(wanted):
            return
        self._marked = now
        seconds = outcome.stamp * 1e-9
        trails = {
            i: t.trail(seconds - self._config.trail) for i, t in self._pipeline.balls.tracks.items() if not t.still
        }
        if wanted[0]:
            self._markers.publish(trail_markers(outcome.balls, trails, self._table, msg.header.stamp))
        if wanted[1]:
            text = f"frame {outcome.frame}" + ("" if outcome.settled else "  moving") + f"  {outcome.open_shot_id}"
            text += "".join(f"  {issue.text}" for issue in self._pipeline.check.issues[:1])
            view = self._pipeline.arm_view
            arm = view.outlines() if view is not None else ()
            picture = draw_overlay(image, found.camera, self._table, outcome.balls, trails, text=text, arm=arm)
            self._debug.publish(array_to_image(picture, "bgr8", msg.header))


def main() -> int:
    """Run the node."""
    return run_node(TrackerNode, threads=2)
