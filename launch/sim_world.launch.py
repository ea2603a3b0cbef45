"""A whole calibration in the simulated world."""

from cue.graph import SIM_WORLD as GRAPH  # what the embedded runner reads


def generate_launch_description():
    from cue.ros_launch import launch_description

    return launch_description(GRAPH)
