"""The launch_ros front end: a recipe as a LaunchDescription. Only launch files import this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launch import LaunchDescription  # type: ignore[attr-defined,unused-ignore]  # our folder has that name
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from cue.graph import Process, Recipe

CONFIGURATION_ERROR = 2
"""Exit code of a process that can never start as it is configured: starting it again is no use."""


def launch_description(recipe: Recipe) -> LaunchDescription:
    """Return the description that declares a recipe's arguments and starts its processes."""
    declared = [
        DeclareLaunchArgument(
            argument.name, default_value=argument.default, description=f"{argument.description} ({argument.allowed})"
        )
        for argument in recipe.arguments
    ]

    def processes(context: Any) -> list[Node]:
        given = {a.name: LaunchConfiguration(a.name).perform(context) for a in recipe.arguments}
        graph = recipe.graph(given)
        graph.prepare()
        return [node(process) for process in graph.processes]

    return LaunchDescription([*declared, OpaqueFunction(function=processes)])


def node(process: Process) -> Node:
    """Return the launch action of a process."""
    return Node(
        package=process.package,
        executable=process.executable,
        name=process.name,
        namespace=process.namespace,
        parameters=[*process.parameter_files, {name: _exactly(v) for name, v in process.parameters.items()}],
        remappings=list(process.remappings),
        ros_arguments=list(process.extra_ros_arguments),
        arguments=list(process.arguments),
        additional_env=dict(process.environment),
        respawn=process.respawn,
        respawn_delay=process.respawn_delay,
        output=process.output,
        emulate_tty=process.output == "screen",
        on_exit=_on_exit(process),
        sigterm_timeout="2",  # together within 5 s
        sigkill_timeout="2",
    )


def _exactly(value: Any) -> Any:
    # launch_ros reads a plain string as YAML: "0" would arrive as an integer.
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value


def _on_exit(process: Process) -> Callable[[Any, Any], list[Shutdown] | None]:
    def act(event: Any, context: Any) -> list[Shutdown] | None:
        if context.is_shutdown:
            return None
        if process.on_exit == "shutdown" or event.returncode == CONFIGURATION_ERROR:
            return [Shutdown(reason=f"{process.name} ended with exit code {event.returncode}")]
        return None

    return act
