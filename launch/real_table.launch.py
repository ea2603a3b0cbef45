"""A calibration of the real table."""

from cue.graph import REAL_TABLE as GRAPH  # what the embedded runner reads


def generate_launch_description():
    from cue.ros_launch import launch_description

    return launch_description(GRAPH)
