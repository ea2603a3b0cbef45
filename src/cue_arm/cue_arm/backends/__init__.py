"""What plans motions of the arm: one Protocol, several backends."""

from __future__ import annotations

from cue_arm.planner import ArmBackend, MinkBackend, StrokePlan, StrokeRequest
from cue_arm.settings import StrokeSettings
from cue_core.errors import UnknownNameError
from cue_core.table import TableModel
from cue_sim.robot import RobotConfig

__all__ = ["BACKENDS", "ArmBackend", "MinkBackend", "StrokePlan", "StrokeRequest", "make_backend"]

BACKENDS = ("mink", "moveit")


def make_backend(name: str, robot: RobotConfig, table: TableModel, settings: StrokeSettings) -> ArmBackend:
    """Return the backend of a name.

    Raises:
        UnknownNameError: there is no such backend.
        CueError: it cannot be had on this machine.
    """
    if name == "mink":
        return MinkBackend(robot, table, settings)
    if name == "moveit":
        from cue_arm.backends.moveit import MoveItBackend

        return MoveItBackend(robot, table, settings)
    raise UnknownNameError("backend", name, BACKENDS)
