"""The agent's end of the other nodes: their services, actions and topics as :class:`cue_agent.peers.Peers`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from std_srvs.srv import Trigger

from cue_agent.peers import (
    ArmResult,
    Code,
    FitRequest,
    FitResult,
    Foresight,
    Prediction,
    Scene,
    SessionEndedError,
    Status,
    TwinError,
    UnknownRevisionError,
)
from cue_agent.watch import Execution
from cue_core.arm_codes import ArmCode
from cue_core.balls import BallState
from cue_core.ros.calls import Caller, GoalRefusedError, PeerGoneError
from cue_core.ros.conversions import (
    ball_to_msg,
    estimate_from_msg,
    matrix_from_triangle,
    shot_to_msg,
    stamp_to_nanoseconds,
    stroke_from_msg,
    track_from_msg,
)
from cue_core.shots import Shot
from cue_core.shots import ShotRecord as Record
from cue_msgs.action import Calibrate, ExecuteShot, IdentifyParameters
from cue_msgs.msg import PredictedShot, ShotExecution
from cue_msgs.srv import PredictShots, RollBack

if TYPE_CHECKING:
    from cue_agent.agent_node import AgentNode

_FEEDBACK_PERIOD_S = 0.5
_SIMULATIONS, _OUTLOOKS = 128, 4  # asked of the twin at once: it answers in time on a busy machine too
_BUSY_FACTOR = 5  # a stroke on a slow machine outlasts what a silent peer is given


def prediction_from_msg(msg: PredictedShot, in_play: set[int]) -> Prediction | None:
    """Convert a ``PredictedShot``, leaving out balls that are not in play; None where the simulation failed."""
    if msg.fault:
        return None
    rows = _rows(msg, in_play)
    rest = np.stack([msg.rest_x, msg.rest_y], -1).reshape(-1, 2)
    covariance = [matrix_from_triangle((msg.rest_xx[n], msg.rest_xy[n], msg.rest_yy[n])) for n in rows]
    return Prediction(
        shot_id=msg.shot_id,
        ball_ids=tuple(int(msg.ball_ids[n]) for n in rows),
        rest=rest[rows],
        rest_covariance=np.array(covariance).reshape(-1, 2, 2),
        pocket_probability=np.array([msg.pocket_probability[n] for n in rows]),
        tracks=tuple(track_from_msg(t) for t in msg.tracks if t.ball_id in in_play),
        ball_contacts=int(msg.contacts[0]) if len(msg.contacts) > 0 else 0,
        cushion_contacts=int(msg.contacts[1]) if len(msg.contacts) > 1 else 0,
    )


def _rows(msg: PredictedShot, in_play: set[int]) -> list[int]:
    return [n for n, i in enumerate(msg.ball_ids) if i in in_play]


def foresights_from_msg(response: PredictShots.Response, in_play: set[int]) -> list[Foresight | None]:
    """Convert an answer with outlooks, leaving out balls that are not in play; None where a simulation failed."""
    names = tuple(response.parameters)
    d = len(names)
    covariance = np.array(response.covariance).reshape(d, d)
    found: list[Foresight | None] = []
    for msg in response.predictions:
        prediction = prediction_from_msg(msg, in_play)
        if prediction is None or not msg.outlook:
            found.append(None)
            continue
        outlook, n = msg.outlook[0], len(msg.ball_ids)
        rests = np.stack([outlook.rests_x, outlook.rests_y], -1).reshape(-1, n, 2)
        rows = _rows(msg, in_play)
        found.append(
            Foresight(
                **vars(prediction),
                rests=rests[:, rows],
                pocketed=np.array(outlook.pocketed, bool).reshape(-1, n)[:, rows],
                names=names,
                information=np.array(outlook.information).reshape(d, d),
                sensitivity=np.array(outlook.sensitivity).reshape(d, d),
                covariance=covariance,
                scatter=float(outlook.scatter),
            )
        )
    return found


def execution_from_msg(msg: ShotExecution) -> Execution:
    """Convert a ``ShotExecution``."""
    stroke = stroke_from_msg(msg.stroke)
    struck = stroke is not None and msg.phase != ShotExecution.STARTED
    result = ArmResult(ArmCode(msg.error_code), msg.error_msg, struck, stroke)
    return Execution(msg.shot.id, msg.phase == ShotExecution.FINISHED, stamp_to_nanoseconds(msg.header.stamp), result)


class RosPeers:
    """The other nodes over ROS; see :class:`cue_agent.peers.Peers`. Serves one goal of the action."""

    def __init__(self, node: AgentNode, goal: Any) -> None:
        """Serve ``goal``."""
        self._node, self._goal, self._watch, self._config = node, goal, node.watch, node.config
        self._calls = Caller(node, self.check, self._config.answer_timeout, self._config.peer_timeout)
        self._status = Status("reconstruct", "", 0, 0, 0, float("nan"))
        self._told = 0.0

    def check(self) -> None:
        """Raise when the session was cancelled or the clock jumped back."""
        if self._goal.is_cancel_requested:
            raise SessionEndedError(Code.CANCELED, "cancelled")
        if self._node.time_reset:
            raise SessionEndedError(Code.TIME_RESET, self._node.time_reset)

    def scene(self) -> Scene:
        """Wait until table and balls are known and at rest."""
        begin, told = time.monotonic(), False
        with self._watch.changed:
            while (scene := self._watch.scene(time.monotonic())) is None:
                self.check()
                self._calls.pause(self._watch.changed)
                # Balls that roll, and a calibration under way, take their time; silence is an error.
                silent = time.monotonic() - max(begin, self._watch.image_wall)
                if silent > self._config.peer_timeout or self._lacks_balls(begin):
                    raise SessionEndedError(Code.NO_TABLE, self._watch.missing())
                if silent > 5.0 and not told:
                    self._node.get_logger().warning(f"waiting: {self._watch.missing()}")
                    told = True
        return scene

    def _lacks_balls(self, begin: float) -> bool:
        image = self._watch.image
        lacks = self._watch.table is None or image is None or not (image.calibrated and image.balls)
        return lacks and time.monotonic() - begin > 2 * self._config.peer_timeout

    def predict(
        self,
        shots: Sequence[Shot],
        balls: Sequence[BallState],
        *,
        revision: int = 0,
        ensemble: int = 0,
        times: Sequence[float] = (),
    ) -> list[Prediction | None]:
        """Ask the twin; a revision or table that it has not received yet is waited for."""
        found: list[Prediction | None] = []
        for in_play, response in self._predicted(
            shots,
            balls,
            max(_SIMULATIONS // (ensemble + 1), 1),
            revision=revision,
            ensemble=ensemble,
            times=[float(t) for t in times],
        ):
            found += [prediction_from_msg(p, in_play) for p in response.predictions]
        return found

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState], *, revision: int = 0
    ) -> list[Foresight | None]:
        """Ask the twin; a revision or table that it has not received yet is waited for."""
        found: list[Foresight | None] = []
        for in_play, response in self._predicted(shots, balls, _OUTLOOKS, revision=revision, outlook=True):
            found += foresights_from_msg(response, in_play)
        return found

    def _predicted(
        self, shots: Sequence[Shot], balls: Sequence[BallState], count: int, **asked: Any
    ) -> Iterator[tuple[set[int], PredictShots.Response]]:
        """Ask about ``count`` shots at a time, so that no answer takes long and all can be cancelled."""
        in_play = {b.ball_id for b in balls if b.in_play}
        for first in range(0, len(shots), count):
            part = shots[first : first + count]
            request = PredictShots.Request(
                shots=[shot_to_msg(s) for s in part], balls=[ball_to_msg(b) for b in balls], **asked
            )
            yield in_play, self._answer(request)

    def _answer(self, request: PredictShots.Request) -> PredictShots.Response:
        begin = time.monotonic()
        patience = {
            PredictShots.Response.UNKNOWN_REVISION: self._config.answer_timeout,
            PredictShots.Response.NO_TABLE: self._config.peer_timeout,
        }
        while True:
            self.check()
            asked = time.monotonic()
            response = self._ask("twin", lambda: self._calls.service(self._node.predict_client, request))
            if response.error_code == PredictShots.Response.NONE:
                self._node.health.tick("predictions", time.monotonic() - asked)
                return response
            if time.monotonic() - begin < patience.get(response.error_code, 0.0):
                self._calls.pause()
            elif response.error_code == PredictShots.Response.UNKNOWN_REVISION:
                raise UnknownRevisionError(response.error_msg)
            elif response.error_code == PredictShots.Response.NO_TABLE:
                raise SessionEndedError(Code.NO_TABLE, f"the twin has no table: {response.error_msg}")
            else:
                raise TwinError(response.error_msg)

    def _ask(self, who: str, call: Callable[[], Any]) -> Any:
        """Return the answer of a call; a peer that is busy, e.g. for an earlier life of this node, is waited for."""
        codes = {"twin": Code.FIT_FAILED, "fitter": Code.FIT_FAILED, "arm": Code.ARM_FAILED, "tracker": Code.NO_TABLE}
        begin = time.monotonic()
        while True:
            try:
                return call()
            except PeerGoneError as error:
                raise SessionEndedError(codes[who], str(error)) from None
            except GoalRefusedError as error:
                if time.monotonic() - begin > _BUSY_FACTOR * self._config.peer_timeout:
                    raise SessionEndedError(codes[who], str(error)) from None
            self.check()
            self._calls.pause()

    def strike(self, shot: Shot, resumed: bool) -> ArmResult:
        """Have a shot struck, once. After a restart the camera's log and the arm's last word are looked at first."""
        known = self._known_result(shot.shot_id) if resumed else None
        if known is not None:
            return known
        goal = ExecuteShot.Goal(shot=shot_to_msg(shot))
        result = self._ask("arm", lambda: self._calls.action(self._node.arm_client, goal, self._on_arm, "execute_shot"))
        code = ArmCode(result.error_code)
        struck = bool(result.struck) or code in (ArmCode.NONE, ArmCode.ALREADY_STRUCK)
        return ArmResult(code, result.error_msg, struck, stroke_from_msg(result.achieved))

    def _known_result(self, shot_id: str) -> ArmResult | None:
        """Return what came of a shot that an earlier life of this node asked for; None = ask the arm."""
        record = self._watch.find_record(shot_id)
        if record is not None:
            return ArmResult(ArmCode.ALREADY_STRUCK, "found in the shot log", True, record.achieved)
        begin = time.monotonic()
        with self._watch.changed:
            # The arm's last word is latched; give it the time that discovery takes.
            while time.monotonic() - begin < self._config.peer_timeout:
                self.check()
                execution = self._watch.execution
                if execution is not None and execution.shot_id == shot_id:
                    if execution.finished:
                        return execution.result
                elif execution is not None or time.monotonic() - begin > self._config.quiet_timeout:
                    return None
                self._calls.pause(self._watch.changed)
        return None

    def record(self, shot_id: str) -> Record | None:
        """Wait until the camera is done with a shot; None when it recorded nothing."""
        with self._watch.changed:
            since = self._watch.image.stamp if self._watch.image is not None else 0
            begin = time.monotonic()
            while shot_id not in self._watch.records:
                self.check()
                now = time.monotonic()
                if self._watch.closed(shot_id, since, now):
                    if not self._watch.run_dir:  # without a log, the topic may lag a little behind
                        self._watch.changed.wait_for(lambda: shot_id in self._watch.records, self._config.quiet_timeout)
                    return self._watch.find_record(shot_id)
                if now - max(begin, self._watch.image_wall) > self._config.peer_timeout:
                    self._node.get_logger().error(
                        f"no image for {self._config.peer_timeout:g} s: camera or tracker gone"
                    )
                    return self._watch.find_record(shot_id)
                self._calls.pause(self._watch.changed)
            return self._watch.records[shot_id]

    def fit(self, request: FitRequest, resumed: bool) -> FitResult:
        """Have the shots fitted; after a restart an estimate from just these shots is taken as the result."""
        estimate = self._watch.estimate
        if resumed and estimate is not None and sorted(estimate.shot_ids) == sorted(request.shot_ids):
            return FitResult(0, "promoted before the restart", True, estimate)
        goal = IdentifyParameters.Goal(
            shot_ids=list(request.shot_ids),
            held_out_shot_ids=list(request.held_out_shot_ids),
            parameters=list(request.parameters),
            terms=list(request.terms),
            seed=request.seed,
            evaluations=request.evaluations,
        )
        client = self._node.fit_client
        result = self._ask("fitter", lambda: self._calls.action(client, goal, self._on_fit, "identify_parameters"))
        self.check()
        if result.error_code != IdentifyParameters.Result.NONE:
            return FitResult(int(result.error_code), result.error_msg, False, None)
        return FitResult(0, result.reason, bool(result.promoted), estimate_from_msg(result.estimate))

    def roll_back(self, revision: int) -> FitResult:
        """Have the fitter return to an earlier estimate."""
        request = RollBack.Request(revision=revision)
        response = self._ask("fitter", lambda: self._calls.service(self._node.roll_back_client, request))
        if response.error_code != RollBack.Response.NONE:
            return FitResult(int(response.error_code), response.error_msg, False, None)
        return FitResult(0, "", True, estimate_from_msg(response.estimate))

    def refine_perception(self) -> str:
        """Have the tracker calibrate anew; the images that it got before that do not count any more."""
        request = Trigger.Request()
        response = self._ask("tracker", lambda: self._calls.service(self._node.recalibrate_client, request))
        if response.success:
            self._watch.forget_images()
        return "" if response.success else response.message

    def _on_arm(self, feedback: Any) -> None:
        self._progress(f"arm {feedback.phase} {feedback.progress:.0%}")

    def _on_fit(self, feedback: Any) -> None:
        self._progress(
            f"fit {feedback.stage}: {feedback.evaluations} simulated shots, best cost {feedback.best_cost:.3g}, "
            f"{feedback.seconds_left:.0f} s left"
        )

    def progress(self, text: str) -> None:
        """Tell how far something is that takes its time; raises when the session should not go on."""
        self.check()
        self._progress(text)

    def _progress(self, text: str) -> None:
        if time.monotonic() - self._told > _FEEDBACK_PERIOD_S:
            self.report(replace(self._status, text=text))

    def report(self, status: Status) -> None:
        """Publish the status and the goal's feedback."""
        self._status, self._told = status, time.monotonic()
        self._node.publish_status(status)
        if self._goal.is_active:
            self._goal.publish_feedback(
                Calibrate.Feedback(
                    phase=status.phase,
                    text=status.text,
                    shots_used=status.shots_used,
                    shots_budget=status.shots_budget,
                    held_out_error=float(status.held_out_error),
                )
            )

    def show(self, shot: Shot, prediction: Prediction | None) -> None:
        """Publish markers of the next shot."""
        self._node.publish_markers(shot, prediction)
