"""The fake table's arm, camera, twin and fitter as one ROS node with the interfaces of the real ones, for tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.action import ActionClient, ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger

from cue_agent.peers import ArmResult, FitRequest, Foresight, Prediction, TwinError, UnknownRevisionError
from cue_agent.testing import FakePeers
from cue_core.arm_codes import ArmCode
from cue_core.ros.conversions import (
    ball_from_msg,
    ball_to_msg,
    estimate_to_msg,
    record_to_msg,
    seconds_to_stamp,
    shot_from_msg,
    stroke_to_msg,
    table_header,
    table_to_msg,
    track_to_msg,
    triangle,
)
from cue_core.ros.qos import LATCHED, RECORDS, STATES_LATCHED
from cue_core.shot_log import ShotLog
from cue_msgs.action import Calibrate, ExecuteShot, IdentifyParameters
from cue_msgs.msg import (
    AgentStatus,
    BallStateArray,
    ParameterEstimate,
    PredictedShot,
    ShotExecution,
    ShotOutlook,
    TableInfo,
)
from cue_msgs.msg import ShotRecord as ShotRecordMsg
from cue_msgs.srv import PredictShots, RollBack


class FakeGraphNode(Node):
    """See the module. ``hold`` names calls that wait until cancelled or it is emptied: "strike", "fit", "predict"."""

    def __init__(self, peers: FakePeers, run_dir: Path) -> None:
        """Play on ``peers``; write ``shots.jsonl`` into ``run_dir``."""
        super().__init__("fakes")
        self.peers, self.run_dir = peers, run_dir
        self.hold: set[str] = set()
        self.entered: list[str] = []
        self.ended: list[str] = []
        self.clock_s = 1.0
        self.statuses: list[AgentStatus] = []
        self.tick = threading.Event()
        self.group = ReentrantCallbackGroup()
        self.balls_out = self.create_publisher(BallStateArray, "ball_states", STATES_LATCHED)
        self.table_out = self.create_publisher(TableInfo, "table_info", LATCHED)
        self.records_out = self.create_publisher(ShotRecordMsg, "shot_records", RECORDS)
        self.execution_out = self.create_publisher(ShotExecution, "shot_execution", LATCHED)
        self.estimate_out = self.create_publisher(ParameterEstimate, "parameter_estimate", LATCHED)
        self.create_subscription(AgentStatus, "agent_status", self.statuses.append, LATCHED)
        self.create_service(PredictShots, "predict_shots", self._predict, callback_group=self.group)
        self.create_service(RollBack, "roll_back", self._roll_back, callback_group=self.group)
        self.create_service(Trigger, "recalibrate", self._recalibrate, callback_group=self.group)
        self.arm = self._serve(ExecuteShot, "execute_shot", self._strike)
        self.fitter = self._serve(IdentifyParameters, "identify_parameters", self._fit)
        self.client: ActionClient = ActionClient(self, Calibrate, "calibrate", callback_group=self.group)
        self.table_out.publish(table_to_msg(peers.table, seconds_to_stamp(self.clock_s)))
        self.images(4)

    def _serve(self, kind: Any, name: str, callback: Any) -> ActionServer:
        return ActionServer(
            self,
            kind,
            name,
            execute_callback=callback,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
            callback_group=self.group,
        )

    def restart_fitter(self) -> None:
        """Forget all goals, as a killed and respawned process does."""
        self.fitter.destroy()
        self.fitter = self._serve(IdentifyParameters, "identify_parameters", self._fit)

    def images(self, count: int, settled: bool = True, open_shot: str = "") -> None:
        """Publish what the tracker makes of the next images."""
        for _ in range(count):
            self.clock_s += 1 / 30
            self.balls_out.publish(
                BallStateArray(
                    header=table_header(seconds_to_stamp(self.clock_s)),
                    balls=[ball_to_msg(b) for b in self.peers.balls],
                    calibrated=True,
                    settled=settled,
                    open_shot_id=open_shot,
                )
            )

    def _held(self, call: str, goal: Any) -> bool:
        """Return True when the call was cancelled while it was held."""
        self.entered.append(call)
        while call in self.hold:
            if goal.is_cancel_requested:
                self.ended.append(call)
                return True
            self.tick.wait(0.01)
        return False

    def _tell(self, shot: Any, phase: int, result: ArmResult | None = None) -> None:
        told = result or ArmResult(ArmCode.NONE)
        self.execution_out.publish(
            ShotExecution(
                header=table_header(seconds_to_stamp(self.clock_s)),
                shot=shot,
                phase=phase,
                stroke=stroke_to_msg(told.achieved),
                error_code=int(told.code),
                error_msg=told.message,
            )
        )

    def _strike(self, goal: Any) -> ExecuteShot.Result:
        shot = goal.request.shot
        self._tell(shot, ShotExecution.STARTED)
        self.images(1, settled=False, open_shot=shot.id)
        if self._held("strike", goal):
            result = ArmResult(ArmCode.CANCELED, "cancelled")
        else:
            result = self.peers.strike(shot_from_msg(shot), False)
        self._tell(shot, ShotExecution.FINISHED, result)
        record = self.peers.records.get(shot.id)
        if record is not None and result.code == ArmCode.NONE:
            ShotLog(self.run_dir / "shots.jsonl").append(record)
            self.records_out.publish(record_to_msg(record, seconds_to_stamp(self.clock_s)))
        self.images(4)
        if result.code == ArmCode.NONE:
            goal.succeed()
        elif result.code == ArmCode.CANCELED and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        return ExecuteShot.Result(
            achieved=stroke_to_msg(result.achieved),
            struck=result.struck,
            error_code=int(result.code),
            error_msg=result.message,
        )

    def _fit(self, goal: Any) -> IdentifyParameters.Result:
        goal.publish_feedback(IdentifyParameters.Feedback(stage="first contact", evaluations=10))
        if self._held("fit", goal):
            goal.canceled()
            return IdentifyParameters.Result(error_code=IdentifyParameters.Result.CANCELED, error_msg="cancelled")
        request = goal.request
        names = tuple(request.held_out_shot_ids), tuple(request.parameters), tuple(request.terms)
        result = self.peers.fit(FitRequest(tuple(request.shot_ids), request.seed, request.evaluations, *names), False)
        goal.succeed()
        if result.estimate is None:
            return IdentifyParameters.Result(error_code=result.code, error_msg=result.message)
        estimate = estimate_to_msg(result.estimate, seconds_to_stamp(self.clock_s))
        self.estimate_out.publish(estimate)
        return IdentifyParameters.Result(estimate=estimate, promoted=result.promoted, reason=result.message)

    def _roll_back(self, request: RollBack.Request, response: RollBack.Response) -> RollBack.Response:
        estimate = self.peers.roll_back(request.revision).estimate
        assert estimate is not None
        response.estimate = estimate_to_msg(estimate, seconds_to_stamp(self.clock_s))
        self.estimate_out.publish(response.estimate)
        return response

    def _recalibrate(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = self.peers.refine_perception()
        response.success = not response.message
        self.images(4)
        return response

    def _predict(self, request: PredictShots.Request, response: PredictShots.Response) -> PredictShots.Response:
        self.entered.append("predict")
        while "predict" in self.hold:
            self.tick.wait(0.01)
        return predicted(self.peers, request, response)


def predicted(
    peers: FakePeers, request: PredictShots.Request, response: PredictShots.Response
) -> PredictShots.Response:
    """Answer as the twin's node does."""
    shots = [shot_from_msg(s) for s in request.shots]
    balls = [ball_from_msg(b) for b in request.balls]
    found: Sequence[Prediction | None]
    try:
        if request.outlook:
            found = peers.look_ahead(shots, balls, revision=request.revision)
        else:
            found = peers.predict(
                shots, balls, revision=request.revision, ensemble=request.ensemble, times=request.times
            )
    except UnknownRevisionError as error:
        response.error_code, response.error_msg = PredictShots.Response.UNKNOWN_REVISION, str(error)
        return response
    except TwinError as error:
        response.error_code, response.error_msg = PredictShots.Response.INVALID_SHOT, str(error)
        return response
    for shot, p in zip(shots, found, strict=True):
        if p is None:
            response.predictions.append(PredictedShot(shot_id=shot.shot_id, fault="not finite"))
            continue
        if isinstance(p, Foresight):
            response.parameters, response.covariance = list(p.names), p.covariance.ravel().tolist()
        response.predictions.append(_predicted(p))
    return response


def _predicted(p: Prediction) -> PredictedShot:
    spread = np.array([triangle(c) for c in p.rest_covariance])
    msg = PredictedShot(
        shot_id=p.shot_id,
        ball_ids=list(p.ball_ids),
        tracks=[track_to_msg(t) for t in p.tracks],
        rest_x=p.rest[:, 0].tolist(),
        rest_y=p.rest[:, 1].tolist(),
        rest_xx=spread[:, 0].tolist(),
        rest_xy=spread[:, 1].tolist(),
        rest_yy=spread[:, 2].tolist(),
        pocket_probability=[float(v) for v in p.pocket_probability],
        contacts=[p.ball_contacts, p.cushion_contacts],
    )
    if isinstance(p, Foresight):
        msg.outlook = [
            ShotOutlook(
                information=p.information.ravel().tolist(),
                sensitivity=p.sensitivity.ravel().tolist(),
                scatter=p.scatter,
                rests_x=p.rests[..., 0].ravel().tolist(),
                rests_y=p.rests[..., 1].ravel().tolist(),
                pocketed=p.pocketed.ravel().tolist(),
            )
        ]
    return msg
