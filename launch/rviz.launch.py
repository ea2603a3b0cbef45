"""RViz beside a running graph."""

from cue.graph import RVIZ as GRAPH  # what the embedded runner reads


def generate_launch_description():
    from cue.ros_launch import launch_description

    return launch_description(GRAPH)
