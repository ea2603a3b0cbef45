"""The twin as a ROS node: predictions on request, the exported twin after each estimate, markers for people."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from cue_core.errors import CueError, UnknownNameError
from cue_core.parameters import PARAMETERS
from cue_core.ros import conversions as convert
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import LATCHED, STATES_LATCHED
from cue_core.shots import Shot
from cue_msgs.msg import BallStateArray, ParameterEstimate, PredictedShot, ShotExecution, ShotOutlook, TableInfo
from cue_msgs.srv import PredictShots
from cue_sim.markers import Mark, ball_marks, prediction_marks, table_marks
from cue_sim.outlook import Outlook, spread_of
from cue_sim.predict import Prediction, TwinFaultError, contact_counts, tracks_of
from cue_sim.predictor import NotReadyError, Predictor, TwinConfig
from cue_sim.twin import Twin

_MARKER_PERIOD_S = 0.2
_GHOST_TIMES = np.arange(0.0, 6.0, 0.04)


_SHAPES = {
    "box": Marker.CUBE,
    "sphere": Marker.SPHERE,
    "cylinder": Marker.CYLINDER,
    "lines": Marker.LINE_LIST,
    "path": Marker.LINE_STRIP,
}


def marks_to_msg(marks: Iterable[Mark], stamp: Time) -> MarkerArray:
    """Convert marks."""
    array = MarkerArray()
    for mark in marks:
        marker = Marker(header=convert.table_header(stamp), ns=mark.group, id=mark.number)
        marker.action = Marker.ADD if mark.shape else Marker.DELETE
        marker.type = _SHAPES.get(mark.shape, Marker.SPHERE)
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = mark.position
        marker.pose.orientation.z, marker.pose.orientation.w = math.sin(mark.yaw / 2), math.cos(mark.yaw / 2)
        marker.scale.x, marker.scale.y, marker.scale.z = mark.size
        marker.color = ColorRGBA(**dict(zip("rgba", map(float, mark.colour), strict=True)))
        marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in mark.points]
        array.markers.append(marker)
    return array


def prediction_to_msg(shot: Shot, twin: Twin, found: Prediction | TwinFaultError | Outlook | None) -> PredictedShot:
    """Convert what the twin says of one shot; None where an outlook failed."""
    if found is None or isinstance(found, TwinFaultError):
        return PredictedShot(shot_id=shot.shot_id, fault=str(found or "the simulation of the shot failed"))
    covariance = found.rest_covariance
    return PredictedShot(
        shot_id=shot.shot_id,
        ball_ids=list(twin.ball_ids),
        tracks=[convert.track_to_msg(t) for t in tracks_of(found.mean, twin.ball_ids)],
        rest_x=found.rest_mean[:, 0].tolist(),
        rest_y=found.rest_mean[:, 1].tolist(),
        rest_xx=covariance[:, 0, 0].tolist(),
        rest_xy=covariance[:, 0, 1].tolist(),
        rest_yy=covariance[:, 1, 1].tolist(),
        pocket_probability=[float(p) for p in found.pocket_probability],
        contacts=list(contact_counts(found.mean)),
        outlook=[outlook_to_msg(found)] if isinstance(found, Outlook) else [],
    )


def outlook_to_msg(outlook: Outlook) -> ShotOutlook:
    """Convert an outlook."""
    return ShotOutlook(
        information=outlook.information.ravel().tolist(),
        sensitivity=outlook.sensitivity.ravel().tolist(),
        scatter=outlook.scatter,
        rests_x=outlook.rests[..., 0].ravel().tolist(),
        rests_y=outlook.rests[..., 1].ravel().tolist(),
        pocketed=outlook.pocketed.ravel().tolist(),
        faults=outlook.faults,
    )


class TwinNode(Node):
    """Serves ``predict_shots`` from ``table_info``, ``ball_states`` and ``parameter_estimate``."""

    def __init__(self) -> None:
        """Declare parameters, restore earlier estimates, connect."""
        super().__init__("twin")
        self._core = Predictor(declare(self, TwinConfig))
        restored = self._core.restore()
        if restored:
            self.get_logger().info(f"restored {restored} estimates, newest revision {self._core.latest.revision}")
        self._health = Health(self)
        self._exported: tuple[int, str] | None = None
        self._drawn = 0.0
        group, serving = MutuallyExclusiveCallbackGroup(), ReentrantCallbackGroup()
        self._markers = self.create_publisher(MarkerArray, "markers", LATCHED)
        self.create_subscription(TableInfo, "table_info", self._on_table, LATCHED, callback_group=group)
        self.create_subscription(BallStateArray, "ball_states", self._on_balls, STATES_LATCHED, callback_group=group)
        self.create_subscription(
            ParameterEstimate, "parameter_estimate", self._on_estimate, LATCHED, callback_group=group
        )
        self.create_subscription(ShotExecution, "shot_execution", self._on_shot, LATCHED, callback_group=group)
        self.create_service(PredictShots, "predict_shots", self._on_predict, callback_group=serving)

    def _on_table(self, msg: TableInfo) -> None:
        try:
            self._core.set_table(convert.table_from_msg(msg))
        except CueError as error:
            self._complain(f"table_info refused: {error}")
            return
        self._export()

    def _on_balls(self, msg: BallStateArray) -> None:
        if not msg.calibrated:
            return
        self._core.balls = tuple(convert.ball_from_msg(b) for b in msg.balls)
        self._health.tick("ball_states")
        if self._exported is None:
            self._export()
        if time.monotonic() - self._drawn > _MARKER_PERIOD_S and self._core.table is not None:
            self._drawn = time.monotonic()
            marks = table_marks(self._core.table) + ball_marks(self._core.balls, self._core.table.ball_radius)
            self._markers.publish(marks_to_msg(marks, msg.header.stamp))

    def _on_estimate(self, msg: ParameterEstimate) -> None:
        try:
            estimate = convert.estimate_from_msg(msg)
        except CueError as error:
            self._complain(f"parameter_estimate refused: {error}")
            return
        self._core.revisions[estimate.revision] = estimate
        self._health.set("revision", self._core.latest.revision)
        self._export()

    def _on_shot(self, msg: ShotExecution) -> None:
        if msg.phase != ShotExecution.STARTED or self._core.table is None:
            return
        try:
            shot = convert.shot_from_msg(msg.shot)
            twin, _, (prediction,) = self._core.predict([shot], ensemble=self._core.config.ghosts, times=_GHOST_TIMES)
            if isinstance(prediction, TwinFaultError):
                raise prediction
        except CueError as error:
            self.get_logger().info(f"no ghosts for shot {msg.shot.id}: {error}")
            return
        marks = prediction_marks(prediction, twin.ball_ids, self._core.table.ball_radius)
        self._markers.publish(marks_to_msg(marks, msg.header.stamp))

    def _export(self) -> None:
        """Write the twin's files when the estimate or the table is new."""
        if self._core.table is None:
            return
        state = (self._core.latest.revision, str(self._core.table.to_dict()))
        if state == self._exported:
            return
        try:
            if self._core.export() is not None:
                self._exported = state
        except CueError as error:
            self._complain(f"the twin was not written: {error}")

    def _on_predict(self, request: PredictShots.Request, response: PredictShots.Response) -> PredictShots.Response:
        began = time.monotonic()
        latest = request.revision == PredictShots.Request.REVISION_LATEST
        revision = None if latest else request.revision
        found: Sequence[Prediction | TwinFaultError | Outlook | None]
        try:
            shots = [convert.shot_from_msg(s) for s in request.shots]
            balls = [convert.ball_from_msg(b) for b in request.balls]
            if request.outlook:
                twin, estimate, found = self._core.look_ahead(shots, balls, revision)
            else:
                twin, estimate, found = self._core.predict(
                    shots, balls, revision, request.ensemble, list(request.times)
                )
        except NotReadyError as error:
            return self._refuse(response, PredictShots.Response.NO_TABLE, error)
        except UnknownNameError as error:
            return self._refuse(response, PredictShots.Response.UNKNOWN_REVISION, error)
        except CueError as error:
            return self._refuse(response, PredictShots.Response.INVALID_SHOT, error)
        response.revision = estimate.revision
        response.predictions = [prediction_to_msg(s, twin, p) for s, p in zip(shots, found, strict=True)]
        if request.outlook:
            chosen, covariance = spread_of(estimate)
            response.parameters = [name for i, name in enumerate(PARAMETERS) if i in chosen]
            response.covariance = covariance.ravel().tolist()
        self._health.tick("predict_shots", time.monotonic() - began)
        return response

    def _refuse(self, response: PredictShots.Response, code: int, error: CueError) -> PredictShots.Response:
        response.error_code, response.error_msg = code, str(error)
        return response

    def _complain(self, text: str) -> None:
        self.get_logger().error(text)
        self._health.error(text)


def main() -> int:
    """Run the node; return the process's exit code."""
    return run_node(TwinNode)


if __name__ == "__main__":
    sys.exit(main())
