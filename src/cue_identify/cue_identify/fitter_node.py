"""The fitter node: action ``identify_parameters`` over the shots recorded so far, service ``roll_back``.

Subscribes ``table_info`` and ``shot_records``, publishes promoted estimates on ``parameter_estimate`` (latched; the
nominal ones, revision 0, until there is another), keeps every estimate in ``run_dir/estimates.jsonl``.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import cma  # noqa: F401  # takes a second: a cancel must not wait for it in the midst of the first fit
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

import cue_msgs.msg as msgs
from cue_core.errors import CueError, UnknownNameError
from cue_core.ros.conversions import estimate_to_msg, record_from_msg, table_from_msg
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import LATCHED, RECORDS
from cue_core.settings import setting
from cue_core.shot_log import ShotLog
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.offline import ball_ids_of, fit_request
from cue_identify.pace import Pace
from cue_identify.replay import Progress, TwinSimulator
from cue_identify.store import EstimateStore
from cue_msgs.action import IdentifyParameters
from cue_msgs.srv import RollBack

_FEEDBACK_PERIOD = 0.2  # [s]


@dataclass(frozen=True)
class FitterSettings(FitConfig):
    """Parameters of the node."""

    run_dir: str = setting("", "run folder; empty = keep nothing")
    table_timeout: float = setting(10.0, "how long a goal waits for table_info", "s", 0.0, 600.0)


@dataclass
class _Goal:
    """A goal in progress, and why it must end, once it must."""

    handle: ServerGoalHandle
    over: FitError | None = None
    progress: Progress | None = None
    told: float = field(default=0.0)
    pace: Pace = field(default_factory=Pace)


class FitterNode(Node):
    """Thin: converts, calls :class:`Fitter`, publishes."""

    def __init__(self) -> None:
        """Restore the session and offer the action."""
        super().__init__("fitter")
        self._settings = declare(self, FitterSettings)
        self._store = EstimateStore(self._settings.run_dir)
        self._records: dict[int, ShotRecord] = {}
        self._table: TableModel | None = None
        self._table_known = threading.Event()
        self._lock, self._turn = threading.Lock(), threading.Lock()  # of the fields; of who may fit
        self._newest: _Goal | None = None
        self._spoilt: set[str] = set()  # lines of the log that were complained of
        self._health = Health(self)
        self._read_log()
        group = ReentrantCallbackGroup()
        self._publisher = self.create_publisher(msgs.ParameterEstimate, "parameter_estimate", LATCHED)
        self.create_subscription(msgs.TableInfo, "table_info", self._on_table, LATCHED, callback_group=group)
        self.create_subscription(msgs.ShotRecord, "shot_records", self._on_record, RECORDS, callback_group=group)
        self._server = ActionServer(
            self,
            IdentifyParameters,
            "identify_parameters",
            execute_callback=self._execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
            callback_group=group,
        )
        self.create_service(RollBack, "roll_back", self._roll_back, callback_group=group)
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=False)
        self._jumps = self.get_clock().create_jump_callback(threshold, post_callback=self._on_jump)
        self._publish()

    def _roll_back(self, request: RollBack.Request, response: RollBack.Response) -> RollBack.Response:
        with self._turn:  # a fit that began before ends first: its estimate would come on top
            try:
                self._store.roll_back(request.revision)
                self._publish()
                self.get_logger().info(f"revision {self._store.present.revision} is revision {request.revision} again")
            except UnknownNameError as error:
                response.error_code, response.error_msg = RollBack.Response.UNKNOWN_REVISION, str(error)
            except CueError as error:
                response.error_code, response.error_msg = RollBack.Response.NOT_KEPT, str(error)
            response.estimate = estimate_to_msg(self._store.present, self.get_clock().now().to_msg())
        return response

    def _read_log(self) -> None:
        if not self._settings.run_dir:
            return
        contents = ShotLog(Path(self._settings.run_dir) / "shots.jsonl").scan()
        for record in contents.records:
            self._records.setdefault(record.index, record)
        for problem in contents.problems:
            if str(problem) not in self._spoilt:  # one bad line must not keep the others from being fitted
                self._spoilt.add(str(problem))
                self.get_logger().error(f"left out: {problem}")

    def _publish(self) -> None:
        self._publisher.publish(estimate_to_msg(self._store.present, self.get_clock().now().to_msg()))
        self._health.set("revision", self._store.present.revision)

    def _on_table(self, message: msgs.TableInfo) -> None:
        try:
            self._table = table_from_msg(message)
        except CueError as error:
            self.get_logger().error(f"table_info: {error}")
            return
        self._table_known.set()

    def _on_record(self, message: msgs.ShotRecord) -> None:
        try:
            record = record_from_msg(message)
        except CueError as error:
            self.get_logger().error(f"shot_records: {error}")
            return
        with self._lock:
            self._records[record.index] = record

    def _on_jump(self, jump: TimeJump) -> None:
        self._end_newest(FitError(FitCode.TIME_RESET, "the clock was set back while the fit ran"))

    def _end_newest(self, reason: FitError) -> None:
        with self._lock:
            if self._newest is not None and self._newest.over is None:
                self._newest.over = reason

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        self._end_newest(FitError(FitCode.PREEMPTED, "a newer goal took its place"))
        with self._lock:
            self._newest = _Goal(handle)
        handle.execute()

    def _execute(self, handle: ServerGoalHandle) -> IdentifyParameters.Result:
        result = IdentifyParameters.Result()
        with self._lock:
            goal = self._newest if self._newest is not None and self._newest.handle is handle else None
        if goal is None:  # a newer one came before this one could begin
            goal = _Goal(handle, FitError(FitCode.PREEMPTED, "a newer goal took its place"))
        try:
            self._fit(goal, result)
            handle.succeed()
        except FitError as error:
            result.error_code, result.error_msg = int(error.code), f"{error}{self._how_far(goal)}"
        except UnknownNameError as error:
            result.error_code, result.error_msg = int(FitCode.UNKNOWN_PARAMETER), str(error)
        except CueError as error:
            result.error_code, result.error_msg = int(FitCode.INVALID_GOAL), str(error)
        if result.error_code:
            result.estimate = estimate_to_msg(self._store.present, self.get_clock().now().to_msg())
            self.get_logger().warning(f"no estimate: {result.error_msg}")
            if self.context.ok():
                handle.canceled() if handle.is_cancel_requested else handle.abort()
        with self._lock:
            if self._newest is goal:
                self._newest = None
        return result

    def _how_far(self, goal: _Goal) -> str:
        done = goal.progress
        return f"; after {done.evaluations} simulated shots, at stage {done.stage}" if done else ""

    def _fit(self, goal: _Goal, result: IdentifyParameters.Result) -> None:
        while not self._turn.acquire(timeout=0.05):  # until the goal before this one has ended
            self._raise_if_over(goal)
        try:
            request = goal.handle.request
            table = self._wait_for_table(goal)
            with self._lock:
                self._read_log()
                records = [self._records[index] for index in sorted(self._records)]
            fitter = Fitter(TwinSimulator(table, ball_ids_of(records)), self._settings)
            wanted = FitRequest(
                tuple(request.shot_ids),
                tuple(request.held_out_shot_ids),
                tuple(request.parameters),
                request.evaluations,
                request.seed,
            )
            outcome = fitter.fit(
                records,
                fit_request(wanted, tuple(request.terms), records, table),
                self._store.present,
                stop=lambda: self._over(goal),
                report=lambda progress: self._tell(goal, progress),
            )
            self._raise_if_over(goal)
            estimate = self._store.add(outcome)
        finally:
            self._turn.release()
        if outcome.promoted:
            self._publish()
        result.estimate = estimate_to_msg(estimate, self.get_clock().now().to_msg())
        result.promoted, result.reason = outcome.promoted, outcome.reason
        self._health.tick("fit", outcome.seconds)
        self.get_logger().info(
            f"revision {estimate.revision} from {len(estimate.shot_ids)} shots: {outcome.reason}; cost "
            f"{outcome.start_cost:.3f} -> {outcome.rescored_cost:.3f} over all shots ({outcome.sampled_cost:.3f} best "
            f"sampled), {outcome.evaluations} simulations, {outcome.faults} failed, {outcome.seconds:.1f} s"
        )

    def _wait_for_table(self, goal: _Goal) -> TableModel:
        deadline = time.monotonic() + self._settings.table_timeout
        while not self._table_known.wait(0.05):
            self._raise_if_over(goal)
            if time.monotonic() > deadline:
                raise FitError(FitCode.INVALID_GOAL, "the table is not known yet (nothing on table_info)")
        if self._table is None:
            raise FitError(FitCode.INVALID_GOAL, "the table is not known yet")
        return self._table

    def _over(self, goal: _Goal) -> FitError | None:
        if goal.handle.is_cancel_requested:
            return FitError(FitCode.CANCELED, "canceled")
        if not self.context.ok():
            return FitError(FitCode.CANCELED, "the node shuts down")
        return goal.over

    def _raise_if_over(self, goal: _Goal) -> None:
        reason = self._over(goal)
        if reason is not None:
            raise reason

    def _tell(self, goal: _Goal, progress: Progress) -> None:
        goal.progress = progress
        now = time.monotonic()
        rate = goal.pace.add(now, progress.evaluations)
        if now - goal.told < _FEEDBACK_PERIOD:
            return
        goal.told = now
        feedback = IdentifyParameters.Feedback(
            evaluations=progress.evaluations,
            best_cost=progress.best_cost,
            seconds_left=progress.seconds_left,
            stage=progress.stage,
            evaluations_per_second=rate,
        )
        if self.context.ok():
            goal.handle.publish_feedback(feedback)


def main() -> int:
    """Run the node until it is told to stop."""
    return run_node(FitterNode)
