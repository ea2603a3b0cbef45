"""The topics that CUE records and shows, with its type and its quality of service, as plain data.

What truly happens in a simulated world is not among them: a recording holds what could be known at a real table, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """One topic.

    Attributes:
        name: below the graph's namespace; with a leading slash as it is.
        kind: package/msg/Type.
        profile: name in ``cue_core.ros.qos`` that it is published with.
        image: so large that it is only recorded when asked for.
        drawn: only for people to look at; never recorded.
    """

    name: str
    kind: str
    profile: str
    image: bool = False
    drawn: bool = False

    @property
    def latched(self) -> bool:
        """Return whether a late subscriber is given the newest messages."""
        return self.profile in ("LATCHED", "RECORDS", "STATES_LATCHED")


TOPICS = (
    Topic("ball_states", "cue_msgs/msg/BallStateArray", "STATES_LATCHED"),
    Topic("table_info", "cue_msgs/msg/TableInfo", "LATCHED"),
    Topic("shot_execution", "cue_msgs/msg/ShotExecution", "LATCHED"),
    Topic("shot_records", "cue_msgs/msg/ShotRecord", "RECORDS"),
    Topic("parameter_estimate", "cue_msgs/msg/ParameterEstimate", "LATCHED"),
    Topic("agent_status", "cue_msgs/msg/AgentStatus", "LATCHED"),
    Topic("joint_states", "sensor_msgs/msg/JointState", "STATES_LATCHED"),
    Topic("camera/camera_info", "sensor_msgs/msg/CameraInfo", "IMAGES_LOCKSTEP"),
    Topic("camera/image_raw", "sensor_msgs/msg/Image", "IMAGES_LOCKSTEP", image=True),
    Topic("debug_image", "sensor_msgs/msg/Image", "IMAGES_SHOWN", image=True, drawn=True),
    Topic("markers", "visualization_msgs/msg/MarkerArray", "LATCHED"),
    Topic("display/pocket_risk", "visualization_msgs/msg/MarkerArray", "LATCHED"),
    Topic("display/residuals", "visualization_msgs/msg/MarkerArray", "LATCHED"),
    Topic("display/reach", "visualization_msgs/msg/MarkerArray", "LATCHED"),
    Topic("display/status", "visualization_msgs/msg/MarkerArray", "LATCHED"),
    Topic("robot_description", "std_msgs/msg/String", "LATCHED"),
    Topic("tf", "tf2_msgs/msg/TFMessage", "STATES"),
    Topic("tf_static", "tf2_msgs/msg/TFMessage", "LATCHED"),
    Topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "STATES"),
    Topic("clock", "rosgraph_msgs/msg/Clock", "STATES"),
)
"""In the order in which a recording lists them."""


def topic(name: str) -> Topic:
    """Return a topic by its name.

    Raises:
        KeyError: there is none.
    """
    return {item.name: item for item in TOPICS}[name]
