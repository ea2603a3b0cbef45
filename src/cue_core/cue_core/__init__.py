"""Data types of CUE. Pure: numpy and the standard library, no ROS outside :mod:`cue_core.ros`."""

from cue_core.balls import BallState, Motion, Visibility, ball_colour
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, Parameter, ParameterEstimate, nominal_values
from cue_core.shot_log import ShotLog
from cue_core.shots import BallTrack, Shot, ShotRecord, Stroke
from cue_core.table import Cushion, Pocket, TableModel

__all__ = [
    "PARAMETERS",
    "BallState",
    "BallTrack",
    "CueError",
    "Cushion",
    "Motion",
    "Parameter",
    "ParameterEstimate",
    "Pocket",
    "Shot",
    "ShotLog",
    "ShotRecord",
    "Stroke",
    "TableModel",
    "Visibility",
    "ball_colour",
    "nominal_values",
]
