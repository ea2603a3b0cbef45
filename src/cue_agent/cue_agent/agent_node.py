"""Node ``agent``: action ``calibrate``; has shots predicted, struck, observed and fitted by the other nodes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.action import ActionClient, ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import Image as RosImage
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray

from cue_agent.agent_peers_node import RosPeers, execution_from_msg
from cue_agent.config import LLM, AgentConfig
from cue_agent.journal import Journal
from cue_agent.llm.config import LlmConfig
from cue_agent.llm.limits import Person
from cue_agent.peers import (
    Code,
    Prediction,
    Status,
)
from cue_agent.planners import make_planner
from cue_agent.reach import reach_of
from cue_agent.session import Goal, Pilot, Session
from cue_agent.summary import SessionResult
from cue_agent.watch import Image, Watch
from cue_core.errors import CueError
from cue_core.ros.calls import NodeStopError
from cue_core.ros.conversions import (
    ball_from_msg,
    estimate_from_msg,
    record_from_msg,
    stamp_to_nanoseconds,
    table_from_msg,
    table_header,
)
from cue_core.ros.diagnostics import Health
from cue_core.ros.images import image_to_bgr
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import IMAGES_SHOWN, LATCHED, RECORDS, STATES_LATCHED
from cue_core.ros.shot_markers import predicted_shot_markers
from cue_core.shots import Shot
from cue_msgs.action import Calibrate, ExecuteShot, IdentifyParameters
from cue_msgs.msg import AgentStatus, BallStateArray, ParameterEstimate, ShotExecution, ShotRecord, TableInfo
from cue_msgs.srv import PredictShots, RollBack

_KEEP_RESULT_S = 900


class AgentNode(Node):
    """See the module."""

    def __init__(self) -> None:
        """Read the parameters and connect to the other nodes; a session begins with a goal."""
        super().__init__("agent")
        config = declare(self, AgentConfig)
        if self.get_parameter("use_sim_time").value:
            # Nobody can walk up to a simulated arm; there, what broke off is a process that was restarted.
            config = replace(config, max_aborted=max(config.max_aborted, 2))
        self.config = config
        if config.robot and not Path(config.robot).is_file():
            raise CueError(f"robot file {config.robot} does not exist")
        self._planner = make_planner(config.planner)
        self._llm = declare(self, LlmConfig, "llm")
        self._person = Person(self._log)
        self._image: RosImage | None = None
        self._journal = Journal(config.run_dir)
        self._busy = threading.Lock()
        self.time_reset = ""
        self.watch = Watch(config.run_dir, config.quiet_images, config.quiet_timeout)
        self.health = Health(self)
        group = ReentrantCallbackGroup()

        self._status_publisher = self.create_publisher(AgentStatus, "agent_status", LATCHED)
        self._marker_publisher = self.create_publisher(MarkerArray, "markers", LATCHED)
        for kind, topic, callback, qos in (
            (BallStateArray, "ball_states", self._on_balls, STATES_LATCHED),
            (TableInfo, "table_info", self._on_table, LATCHED),
            (ShotRecord, "shot_records", self._on_record, RECORDS),
            (ShotExecution, "shot_execution", self._on_execution, LATCHED),
            (ParameterEstimate, "parameter_estimate", self._on_estimate, LATCHED),
        ):
            # One after the other, so that they come in order.
            self.create_subscription(kind, topic, self._guarded(topic, callback), qos)
        self.predict_client: Client = self.create_client(PredictShots, "predict_shots", callback_group=group)
        self.roll_back_client: Client = self.create_client(RollBack, "roll_back", callback_group=group)
        self.recalibrate_client: Client = self.create_client(Trigger, "recalibrate", callback_group=group)
        self.arm_client: ActionClient = ActionClient(self, ExecuteShot, "execute_shot", callback_group=group)
        self.fit_client: ActionClient = ActionClient(
            self, IdentifyParameters, "identify_parameters", callback_group=group
        )
        self._pilot: Pilot | None = None
        if config.planner == LLM:
            self._pilot = self._make_pilot()
            self.create_subscription(RosImage, "camera/image_raw", self._on_image, IMAGES_SHOWN)
            self.create_service(SetBool, "approve_shot", self._on_approval, callback_group=group)
        self._server = ActionServer(
            self,
            Calibrate,
            "calibrate",
            execute_callback=self._execute,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
            callback_group=group,
            result_timeout=_KEEP_RESULT_S,
        )
        threshold = JumpThreshold(
            min_forward=None, min_backward=Duration(seconds=-config.time_reset), on_clock_change=False
        )
        self._jump = self.get_clock().create_jump_callback(threshold, post_callback=self._on_jump)
        self.publish_status(Status("stopped", "waiting for a goal", 0, 0, 0, float("nan")))
        if self._journal.unfinished:
            self.get_logger().info("the run folder holds an unfinished session, which the next goal resumes")

    def _make_pilot(self) -> Pilot:
        from cue_agent.llm.pilot import ModelPilot, make_provider  # the SDK takes a second to load

        simulated = bool(self.get_parameter("use_sim_time").value)
        provider = make_provider(self._llm, os.environ)
        return ModelPilot(self._llm, provider, self._person, simulated, self._newest_image)

    def _on_image(self, msg: RosImage) -> None:
        self._image = msg

    def _newest_image(self) -> np.ndarray | None:
        return None if self._image is None else image_to_bgr(self._image)

    def _on_approval(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        response.success = self._person.answer(request.data)
        response.message = "" if response.success else "no stroke waits for approval"
        return response

    def _execute(self, goal: Any) -> Calibrate.Result:
        if not self._busy.acquire(blocking=False):
            goal.abort()
            return Calibrate.Result(error_code=int(Code.BUSY), error_msg="another session is under way")
        try:
            return self._run(goal)
        except NodeStopError:
            return Calibrate.Result(error_code=int(Code.CANCELED), error_msg="the agent was stopped")
        finally:
            self._busy.release()

    def _run(self, goal: Any) -> Calibrate.Result:
        self.time_reset = ""
        self.health.ok()
        request = goal.request
        try:
            peers = RosPeers(self, goal)
            make_reach = reach_of(self.config.robot, peers.progress, self.config.run_dir)
            session = Session(self.config, peers, self._planner, self._journal, make_reach, self._log, self._pilot)
            result = session.run(Goal(request.instruction, request.shots, request.held_out_shots))
            session.delivered()
        except CueError as error:  # the run folder cannot be written, the robot file is malformed
            result = SessionResult(Code.INVALID_GOAL, str(error), run_directory=self.config.run_dir)
        if result.code == Code.NONE:
            goal.succeed()
        elif result.code == Code.CANCELED and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
            self.health.error(result.message)
        return Calibrate.Result(
            summary=result.summary,
            run_directory=result.run_directory,
            shots_used=result.shots_used,
            revision=result.revision,
            unfitted_rest_error=result.unfitted_rest_error,
            calibrated_rest_error=result.calibrated_rest_error,
            unfitted_along_track_error=result.unfitted_along_track_error,
            calibrated_along_track_error=result.calibrated_along_track_error,
            error_code=int(result.code),
            error_msg=result.message,
        )

    def _log(self, text: str) -> None:
        self.get_logger().info(text)

    def publish_status(self, status: Status) -> None:
        """Publish where the session stands."""
        self._status_publisher.publish(
            AgentStatus(
                header=table_header(self.get_clock().now().to_msg()),
                phase=status.phase,
                text=status.text,
                shots_used=status.shots_used,
                shots_budget=status.shots_budget,
                revision=status.revision,
                held_out_error=float(status.held_out_error),
                decision=status.decision,
            )
        )
        self.health.set("phase", status.phase)

    def publish_markers(self, shot: Shot, prediction: Prediction | None) -> None:
        """Draw the next shot."""
        table = self.watch.table
        if prediction is not None and table is not None:
            header = table_header(self.get_clock().now().to_msg())
            rest = dict(zip(prediction.ball_ids, prediction.rest, strict=True))
            self._marker_publisher.publish(predicted_shot_markers(header, prediction.tracks, rest, table.ball_radius))

    def _guarded(self, topic: str, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return the callback, made to survive a message that cannot be what it should be."""

        def take(msg: Any) -> None:
            try:
                callback(msg)
            except (CueError, ValueError) as error:
                self.get_logger().error(f"{topic} refused: {error}", throttle_duration_sec=5.0)
                self.health.error(f"{topic} refused: {error}")

        return take

    def _on_balls(self, msg: BallStateArray) -> None:
        stamp = stamp_to_nanoseconds(msg.header.stamp)
        before = self.watch.image
        if before is not None and stamp < before.stamp - self.config.time_reset * 1e9:
            self._reset_time((stamp - before.stamp) / 1e9)
        balls = tuple(ball_from_msg(b) for b in msg.balls)
        self.watch.see(Image(stamp, msg.calibrated, msg.settled, msg.open_shot_id, balls), time.monotonic())
        self.health.tick("images")

    def _on_table(self, msg: TableInfo) -> None:
        with self.watch.changed:
            self.watch.table = table_from_msg(msg)
            self.watch.changed.notify_all()

    def _on_record(self, msg: ShotRecord) -> None:
        record = record_from_msg(msg)
        with self.watch.changed:
            if record.shot_id:
                self.watch.records[record.shot_id] = record
            self.watch.changed.notify_all()

    def _on_execution(self, msg: ShotExecution) -> None:
        with self.watch.changed:
            self.watch.execution = execution_from_msg(msg)
            self.watch.changed.notify_all()

    def _on_estimate(self, msg: ParameterEstimate) -> None:
        with self.watch.changed:
            self.watch.estimate = estimate_from_msg(msg)
            self.watch.changed.notify_all()

    def _on_jump(self, jump: Any) -> None:
        self._reset_time(jump.delta.nanoseconds / 1e9)

    def _reset_time(self, seconds: float) -> None:
        self.time_reset = f"the clock jumped by {seconds:.1f} s"
        self.watch.forget_images()


def main() -> int:
    """Run the node and return its exit code."""
    return run_node(AgentNode, threads=6)
