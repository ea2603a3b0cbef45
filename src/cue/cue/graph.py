"""The graph of CUE's processes as data, which two front ends start: launch_ros and the embedded runner.

A launch file names a :class:`Recipe`; a recipe turns argument texts into a :class:`Graph`.
Nothing here starts anything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cue.arguments import Argument, ArgumentError, Value, parse_all
from cue.resources import ResourceError, config_file, node_defaults, share
from cue_core.errors import CueError

# A node under a namespace keeps its transforms and its clock there, so that two tables run side by side.
_REMAPPINGS = (("/tf", "tf"), ("/tf_static", "tf_static"), ("/clock", "clock"))
# cue_core.ros.node: die with the launcher. Logs go to files, without colours. The fit is parallel by itself.
_ENVIRONMENT = {
    "CUE_EXIT_WITH_PARENT": "1",
    "RCUTILS_COLORIZED_OUTPUT": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

DDS_SETTINGS = "FASTDDS_DEFAULT_PROFILES_FILE"
"""Environment variable that names Fast DDS's settings; other middlewares do not read it."""


class RunFolderError(CueError):
    """The run folder cannot be made or written."""


@dataclass(frozen=True)
class Process:
    """One process of the graph.

    Attributes:
        package: that installs it.
        executable: its file in the package's ``lib`` folder.
        name: of the node, and of its log.
        namespace: of the node, without the leading slash; empty = the root.
        parameter_files: read first, in this order.
        parameters: then these, by name.
        remappings: (from, to) names.
        environment: variables beside those of the launcher.
        log_level: of its ROS logger.
        arguments: before the ROS arguments.
        respawn: start it again when it ends.
        respawn_delay: before the first of these [s]; the runner lengthens it when the process keeps dying.
        output: ``log`` = to a file, and what matters to the terminal; ``screen`` = as it is to the terminal.
        on_exit: ``shutdown`` = the graph ends with it and takes its exit code; None = nothing more happens.
    """

    package: str
    executable: str
    name: str
    namespace: str = ""
    parameter_files: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    remappings: tuple[tuple[str, str], ...] = _REMAPPINGS
    environment: Mapping[str, str] = field(default_factory=lambda: dict(_ENVIRONMENT))
    log_level: str = "info"
    arguments: tuple[str, ...] = ()
    respawn: bool = True
    respawn_delay: float = 1.0
    output: str = "log"
    on_exit: str | None = None

    @property
    def extra_ros_arguments(self) -> tuple[str, ...]:
        """Return the ROS arguments beside name, namespace, parameters and remappings."""
        return ("--disable-external-lib-logs", "--log-level", self.log_level)


@dataclass(frozen=True)
class Graph:
    """The processes of one launch.

    Attributes:
        name: of the recipe.
        run_dir: absolute path of the run folder; empty = this graph keeps nothing.
        processes: in the order in which they start.
    """

    name: str
    run_dir: str
    processes: tuple[Process, ...]

    def prepare(self) -> None:
        """Make the run folder.

        Raises:
            RunFolderError: it cannot be made, or not be written.
        """
        if not self.run_dir:
            return
        try:
            Path(self.run_dir, "log").mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.run_dir):
                pass
        except OSError as error:
            raise RunFolderError(
                f"run folder {self.run_dir} cannot be written ({error.strerror}); choose another with run_dir:=PATH"
            ) from None


@dataclass(frozen=True)
class Recipe:
    """What a launch file starts.

    Attributes:
        name: of the graph.
        description: one line.
        arguments: all it takes.
        build: makes the graph from the value of every argument.
    """

    name: str
    description: str
    arguments: tuple[Argument, ...]
    build: Callable[[Mapping[str, Value]], Graph]

    def graph(self, given: Mapping[str, str]) -> Graph:
        """Return the graph for argument texts; the rest takes its default.

        Raises:
            ArgumentError: an argument is unknown or has a value that is not allowed.
            ResourceError: a file that an argument names is not there.
        """
        return self.build(parse_all(self.arguments, given))


def default_run_dir() -> str:
    """Return ``runs/<time>`` below the current folder, which is not there yet."""
    stem = Path.cwd() / "runs" / datetime.now().strftime("%Y%m%d-%H%M%S")
    path, count = stem, 1
    while path.exists():
        count += 1
        path = stem.with_name(f"{stem.name}-{count}")
    return str(path)


_NAMESPACE = Argument(
    "namespace", "", "prefix of every node and topic, so that several tables share one network", "namespace"
)
_LOG_LEVEL = Argument(
    "log_level", "info", "what the nodes write to their logs", choices=("debug", "info", "warn", "error")
)
_RECORD = ("none", "topics", "images")
_SESSION = (
    Argument("table", "small", "name in config/tables, or the path of a table file"),
    Argument("planner", "offline", "what chooses the shots; llm needs a key", choices=("offline", "llm")),
    Argument("instruction", "Calibrate the twin of this table.", "one sentence; it is recorded with the run"),
    Argument("shots", "12", "strokes of a session, the held-out ones included", "integer", (), 2, 1000),
    Argument("held_out_shots", "5", "of these, played after the last fit only to judge it", "integer", (), 1, 999),
    Argument("seed", "0", "of every random choice", "integer", (), 0, 2**31 - 1),
    Argument("calibrate", "true", "start a session at once; otherwise the nodes wait for a goal", "flag"),
    Argument("exit_when_done", "true", "end with the session, with its exit code", "flag"),
    Argument("fit_portable", "true", "at the end, fit twin.xml to the calibrated twin: about 35 s of one core", "flag"),
    Argument("record", "none", "into session.mcap of the run folder; images = topics and images", choices=_RECORD),
    Argument("display", "false", "what a viewer elsewhere needs; with headless:=false always", "flag"),
    Argument("run_dir", "", "where the run is kept; a folder that holds a run resumes it (empty = runs/<time>)"),
    _NAMESPACE,
    _LOG_LEVEL,
)
_SIM_WORLD = (
    Argument("world", "hidden", "name in config/worlds, or the path of a world file: the hidden physics"),
    Argument("robot", "ur5e", "name in config/robots, or the path of a robot file"),
    Argument("headless", "true", "without RViz", "flag"),
    Argument("lockstep", "true", "the world waits for the tracker, so one seed gives one result", "flag"),
    Argument("real_time_factor", "1.0", "speed of the world when not in lockstep", "number", (), 0.05, 100),
    *_SESSION,
)
_REAL_TABLE = (
    Argument("camera", "0", "device number, /dev/videoN, a video file, or a folder of images"),
    Argument(
        "camera_calibration", "", "path of the camera's calibration (camera_info YAML); empty = found from the table"
    ),
    Argument("robot", "ur5e", "name in config/robots, or the path of a robot file"),
    Argument("markers", "", "path of a marker layout (YAML) that tells the table's ends apart; empty = none"),
    Argument("transport", "raw", "of the tracker's images", choices=("raw", "compressed")),
    Argument(
        "follow_joint_trajectory",
        "scaled_joint_trajectory_controller/follow_joint_trajectory",
        "action of the arm's driver",
    ),
    Argument("backend", "mink", "what plans the arm's way: mink, or a move_group", choices=("mink", "moveit")),
    Argument("headless", "true", "without RViz", "flag"),
    *_SESSION,
)


def _node(package: str, executable: str, values: Mapping[str, Value], **parameters: Any) -> Process:
    return Process(
        package=package,
        executable=executable,
        name=executable,
        namespace=str(values["namespace"]),
        parameter_files=node_defaults(executable),
        parameters=parameters,
        log_level=str(values["log_level"]),
    )


def _publishing_images(process: Process) -> Process:
    """Return the process with room for images in its shared memory, unless the user has settings of Fast DDS."""
    if os.environ.get(DDS_SETTINGS):
        return process
    settings = {DDS_SETTINGS: str(share() / "config" / "fastdds.xml")}
    return replace(process, environment={**process.environment, **settings})


def _rviz(values: Mapping[str, Value], use_sim_time: bool) -> Process:
    return Process(
        package="rviz2",
        executable="rviz2",
        name="rviz",
        namespace=str(values["namespace"]),
        parameters={"use_sim_time": use_sim_time},
        arguments=("-d", str(share() / "config" / "rviz" / "cue.rviz")),
        log_level=str(values["log_level"]),
        respawn=False,
    )


def _session(values: Mapping[str, Value], run_dir: str, sim: bool) -> list[Process]:
    """Return the nodes that are the same in simulation and on the real table."""
    if not int(values["held_out_shots"]) < int(values["shots"]):
        raise ArgumentError(
            f"argument held_out_shots:={values['held_out_shots']} is not allowed; "
            f"allowed is less than shots, which is {values['shots']}"
        )
    table = str(config_file("tables", str(values["table"])))
    robot = str(config_file("robots", str(values["robot"])))
    common: dict[str, Any] = {"run_dir": run_dir, "seed": values["seed"], "use_sim_time": sim}
    goal: dict[str, Any] = {name: values[name] for name in ("instruction", "shots", "held_out_shots", "fit_portable")}
    lockstep = sim and values["lockstep"]
    action = "follow_joint_trajectory" if sim else str(values["follow_joint_trajectory"])
    seen: dict[str, Any] = {} if sim else {"transport": values["transport"]}
    planning: dict[str, Any] = {} if sim else {"backend": values["backend"]}
    if not sim and values["markers"]:
        seen["markers"] = os.path.abspath(os.path.expanduser(str(values["markers"])))
    tracker = _node("cue_perception", "tracker", values, table=table, robot=robot, lockstep=lockstep, **seen, **common)
    nodes = [
        _publishing_images(tracker),
        _node("cue_sim", "twin", values, table=table, **common),
        _node("cue_identify", "fitter", values, **common),
        _node("cue_arm", "arm", values, robot=robot, follow_joint_trajectory=action, **planning, **common),
        _node("cue_agent", "agent", values, planner=values["planner"], robot=robot, **common),
    ]
    if values["record"] != "none":
        nodes.append(_node("cue", "recorder", values, record=values["record"], **common))
    if values["display"] or not values["headless"]:
        nodes.append(_node("cue", "display", values, robot=robot, driver=not sim, **common))
    if values["calibrate"]:
        calibrate = _node("cue", "calibrate", values, **goal, **common)
        shutdown = "shutdown" if values["exit_when_done"] else None
        nodes.append(replace(calibrate, respawn=False, output="screen", on_exit=shutdown))
    return nodes


def _run_dir(values: Mapping[str, Value]) -> str:
    return os.path.abspath(os.path.expanduser(str(values["run_dir"]))) if values["run_dir"] else default_run_dir()


def _build_sim_world(values: Mapping[str, Value]) -> Graph:
    run_dir = _run_dir(values)
    files: dict[str, Any] = {
        kind: str(config_file(f"{kind}s", str(values[kind]))) for kind in ("world", "table", "robot")
    }
    common: dict[str, Any] = {"run_dir": run_dir, "seed": values["seed"], "use_sim_time": True}
    pace: dict[str, Any] = {"lockstep": values["lockstep"]}
    world = _node("cue_sim", "world", values, **files, **pace, real_time_factor=values["real_time_factor"], **common)
    camera = _publishing_images(_node("cue_sim", "camera_sim", values, **files, **pace, **common))
    if values["headless"] and not os.environ.get("MUJOCO_GL"):
        camera = replace(camera, environment={**camera.environment, "MUJOCO_GL": "egl"})
    score = _node("cue_sim", "score", values, **files, **common)
    session = _session(values, run_dir, sim=True)
    viewers = [] if values["headless"] else [_rviz(values, use_sim_time=True)]
    return Graph("sim_world", run_dir, (world, camera, score, *session, *viewers))


def _build_real_table(values: Mapping[str, Value]) -> Graph:
    run_dir = _run_dir(values)
    calibration = str(values["camera_calibration"])
    if calibration and not Path(calibration).expanduser().is_file():
        raise ResourceError(f"camera calibration {calibration} does not exist")
    camera = _node(
        "cue_perception", "camera", values, source=values["camera"], calibration=calibration, use_sim_time=False
    )
    viewers = [] if values["headless"] else [_rviz(values, use_sim_time=False)]
    return Graph("real_table", run_dir, (_publishing_images(camera), *_session(values, run_dir, sim=False), *viewers))


def _build_rviz(values: Mapping[str, Value]) -> Graph:
    sim = bool(values["use_sim_time"])
    viewer = replace(_rviz(values, use_sim_time=sim), on_exit="shutdown", output="screen")
    if not values["display"]:
        return Graph("rviz", "", (viewer,))
    robot = str(config_file("robots", str(values["robot"])))
    return Graph("rviz", "", (_node("cue", "display", values, robot=robot, driver=not sim, use_sim_time=sim), viewer))


SIM_WORLD = Recipe(
    "sim_world", "CUE calibrates the twin of a simulated table whose physics is hidden.", _SIM_WORLD, _build_sim_world
)
REAL_TABLE = Recipe(
    "real_table",
    "CUE calibrates the twin of the table that a camera sees and an arm plays on.",
    _REAL_TABLE,
    _build_real_table,
)
RVIZ = Recipe(
    "rviz",
    "RViz with CUE's displays, beside a running graph.",
    (
        Argument("use_sim_time", "true", "time is the simulated world's, or a replayed session's", "flag"),
        Argument("robot", "ur5e", "name in config/robots, or the path of a robot file"),
        Argument("display", "true", "draws for RViz; false where the graph was launched with display:=true", "flag"),
        _NAMESPACE,
        _LOG_LEVEL,
    ),
    _build_rviz,
)
