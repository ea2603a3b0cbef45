"""Both front ends start the same processes.

The embedded runner is started for each launch file with programs that note how they were started. This is compared with
what the launch file gives to a stand-in of launch_ros always, and with what the real one starts where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

PACKAGE = Path(__file__).resolve().parents[1]
LAUNCH_FILES = {n: PACKAGE.parents[1] / "launch" / f"{n}.launch.py" for n in ("sim_world", "real_table", "rviz")}
GIVEN = {
    "sim_world": {
        "seed": "3",
        "namespace": "table_a",
        "run_dir": "a run",
        "headless": "false",
        "planner": "offline",
    },
    "real_table": {"camera": "0", "instruction": 'Say: "go", twice', "run_dir": "run"},
    "rviz": {"use_sim_time": "false", "log_level": "warn"},
}
PLAIN = {name: ({} if name == "rviz" else {"run_dir": "run"}) for name in GIVEN}


def read_command(words: list[str], files: dict[str, str]) -> dict:
    """Take a command line of a ROS process apart, as rcl does; ``files`` are the contents of parameter files."""
    program, *rest = words
    at = rest.index("--ros-args") if "--ros-args" in rest else len(rest)
    plain, rest = rest[:at], rest[at:]
    found = {"executable": program, "arguments": plain, "parameters": {}, "remappings": set(), "flags": set()}
    while rest:
        word = rest.pop(0)
        if word == "--ros-args":
            continue
        if word in ("-r", "--remap"):
            old, new = rest.pop(0).split(":=")
            if old in ("__node", "__ns"):
                found[old] = new
            else:
                found["remappings"].add((old, new))
        elif word in ("-p", "--param"):
            name, value = rest.pop(0).split(":=", 1)
            found["parameters"][name] = yaml.safe_load(value)
        elif word == "--params-file":
            for node in yaml.safe_load(files[rest.pop(0)]).values():
                found["parameters"].update(node["ros__parameters"])
        elif word == "--log-level":
            found["level"] = rest.pop(0)
        else:
            found["flags"].add(word)
    return found


def typed(processes: dict) -> dict:
    """Put each parameter's type beside its value: 1, 1.0, True and "1" are different parameters."""
    for process in processes.values():
        process["parameters"] = {k: (type(v).__name__, v) for k, v in process["parameters"].items()}
    return processes


# Notes how it was started. The process that ends the graph waits until all have done so.
RECORDER = """
import json, os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit(0))
folder = os.environ["CUE_TEST_NOTES"]
name = next(word for word in sys.argv if word.startswith("__node:=")).removeprefix("__node:=")
files = {}
for at, word in enumerate(sys.argv):
    if word == "--params-file":
        files[sys.argv[at + 1]] = open(sys.argv[at + 1]).read()
with open(os.path.join(folder, "." + name), "w") as file:
    json.dump({"words": sys.argv, "environment": dict(os.environ), "files": files}, file)
os.rename(os.path.join(folder, "." + name), os.path.join(folder, name))
count = int(os.environ["CUE_TEST_COUNT"])
while not (name == os.environ["CUE_TEST_ENDS"] and len(os.listdir(folder)) == count):
    time.sleep(0.02)
"""
# What a shell, a front end and this test set for themselves.
OWN_VARIABLES = {
    "CUE_TEST_NOTES",
    "CUE_TEST_COUNT",
    "CUE_TEST_ENDS",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "LAUNCH_LOG_DIR",
    "ROS_LOG_DIR",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
}


def record(
    front_end: list[str], name: str, given: dict[str, str], prefix, tmp_path, python_path: str = ""
) -> dict[str, dict]:
    """Start a front end as a process of its own and return what each process it started was given."""
    graph = runpy.run_path(str(LAUNCH_FILES[name]))["GRAPH"].graph(given)
    for process in graph.processes:
        prefix.program(process.package, process.executable, RECORDER)
    notes = tmp_path / f"notes-{len(list(tmp_path.glob('notes-*')))}"
    notes.mkdir()
    sources = [str(PACKAGE), str(PACKAGE.parent / "cue_core"), python_path, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sources)),
        "CUE_TEST_NOTES": str(notes),
        "CUE_TEST_COUNT": str(len(graph.processes)),
        "CUE_TEST_ENDS": "calibrate" if name != "rviz" else "rviz",
    }
    words = [sys.executable, "-c", *front_end, str(LAUNCH_FILES[name]), *(f"{k}:={v}" for k, v in given.items())]
    result = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=30)
    assert result.returncode == 0, result.stdout + result.stderr
    processes = {}
    for file in notes.iterdir():
        note = json.loads(file.read_text())
        processes[file.name] = {
            **read_command(note["words"], note["files"]),
            "environment": {k: v for k, v in note["environment"].items() if k not in OWN_VARIABLES},
        }
    return typed(processes)


def embedded(name: str, given: dict[str, str], prefix, tmp_path) -> dict[str, dict]:
    """Return what the embedded runner starts."""
    code = "import sys; from cue.cli import main; sys.exit(main(['launch', *sys.argv[1:]]))"
    return record([code], name, given, prefix, tmp_path)


# --- A stand-in for launch and launch_ros -----------------------------------------------------------------------------


class FakeParameterValue:
    def __init__(self, value, *, value_type=None):
        self.value = value_type(value) if value_type else value


class FakeNode:
    """launch_ros.actions.Node: takes exactly these keywords; plain text parameters are read as YAML, as there."""

    def __init__(
        self, *, executable, package, name, namespace, parameters, remappings, ros_arguments, arguments,
        additional_env, respawn, respawn_delay, output, emulate_tty, on_exit, sigterm_timeout, sigkill_timeout,
    ):  # fmt: skip
        from cue.resources import executable as find

        assert output in ("log", "screen") and isinstance(respawn, bool) and float(sigterm_timeout) > 0
        values = {}
        for item in parameters:
            if isinstance(item, str):
                for node in yaml.safe_load(Path(item).read_text()).values():
                    values.update(node["ros__parameters"])
            else:
                for key, value in item.items():
                    if isinstance(value, FakeParameterValue):
                        value = value.value
                    elif isinstance(value, str):
                        value = yaml.safe_load(value)
                    values[key] = value
        words = [str(find(package, executable)), *arguments, "--ros-args", *ros_arguments]
        self.name, self.on_exit, self.respawn, self.respawn_delay = name, on_exit, respawn, respawn_delay
        self.process = {
            **read_command(words, {}),
            "parameters": values,
            "remappings": set(remappings),
            "__node": name,
            "__ns": "/" + namespace.lstrip("/"),
            "environment": dict(additional_env),
        }


class FakeContext:
    is_shutdown = False

    def __init__(self, given):
        self.launch_configurations = dict(given)


class FakeDeclareLaunchArgument:
    def __init__(self, name, *, default_value, description):
        self.name, self.default_value, self.description = name, default_value, description

    def execute(self, context):
        context.launch_configurations.setdefault(self.name, self.default_value)
        return []


class FakeOpaqueFunction:
    def __init__(self, *, function):
        self.function = function

    def execute(self, context):
        return self.function(context)


class FakeLaunchConfiguration:
    def __init__(self, name):
        self.name = name

    def perform(self, context):
        return context.launch_configurations[self.name]


class FakeShutdown:
    def __init__(self, *, reason):
        self.reason = reason


@pytest.fixture
def fake_launch(monkeypatch):
    contents = {
        "launch": {"LaunchDescription": list},
        "launch.actions": {
            "DeclareLaunchArgument": FakeDeclareLaunchArgument,
            "OpaqueFunction": FakeOpaqueFunction,
            "Shutdown": FakeShutdown,
        },
        "launch.substitutions": {"LaunchConfiguration": FakeLaunchConfiguration},
        "launch_ros": {},
        "launch_ros.actions": {"Node": FakeNode},
        "launch_ros.parameter_descriptions": {"ParameterValue": FakeParameterValue},
    }
    for name, attributes in contents.items():
        module = types.ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "cue.ros_launch", raising=False)
    yield
    sys.modules.pop("cue.ros_launch", None)


def fake_nodes(name, given):
    description = runpy.run_path(str(LAUNCH_FILES[name]))["generate_launch_description"]()
    context = FakeContext(given)
    return [node for action in description for node in action.execute(context)]


@pytest.mark.parametrize("given", [PLAIN, GIVEN], ids=["defaults", "given"])
@pytest.mark.parametrize("name", LAUNCH_FILES)
def test_the_launch_file_starts_what_the_embedded_runner_starts(name, given, prefix, fake_launch, tmp_path):
    nodes = typed({node.name: node.process for node in fake_nodes(name, given[name])})
    started = embedded(name, given[name], prefix, tmp_path)
    assert set(started) == set(nodes)
    for title, process in started.items():
        wanted = nodes[title]["environment"]
        beside = {k: v for k, v in process["environment"].items() if k in wanted or os.environ.get(k) != v}
        assert {**process, "environment": beside} == nodes[title]


def test_print_says_what_is_started(prefix, capsys):
    from cue.cli import main

    assert main(["launch", str(LAUNCH_FILES["sim_world"]), "--print", "seed:=5", "run_dir:=run"]) == 0
    said = capsys.readouterr().out
    assert said.count("-p seed:=5") == 9
    assert "CUE_EXIT_WITH_PARENT=1" in said
    assert not Path("run").exists()


def test_the_launch_file_declares_every_argument_with_what_is_allowed(fake_launch):
    from cue.graph import SIM_WORLD

    description = runpy.run_path(str(LAUNCH_FILES["sim_world"]))["generate_launch_description"]()
    declared = {a.name: a for a in description if isinstance(a, FakeDeclareLaunchArgument)}
    assert set(declared) == {argument.name for argument in SIM_WORLD.arguments}
    assert "an integer from 2 to 1000" in declared["shots"].description


def test_a_launch_ends_with_its_client_and_with_a_process_that_cannot_start(prefix, fake_launch):
    nodes = {node.name: node for node in fake_nodes("sim_world", PLAIN["sim_world"])}
    context = FakeContext({})
    ended = {code: types.SimpleNamespace(returncode=code) for code in (0, 1, 2, -9)}
    assert all(nodes["calibrate"].on_exit(event, context) for event in ended.values())
    assert [code for code, event in ended.items() if nodes["world"].on_exit(event, context)] == [2]
    assert nodes["world"].respawn and not nodes["calibrate"].respawn


# --- The real launch_ros ----------------------------------------------------------------------------------------------


REAL_LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
file, *words = sys.argv[1:]
arguments = [word.split(":=", 1) for word in words]
service = LaunchService(argv=words, noninteractive=True)
from launch.launch_description_sources import PythonLaunchDescriptionSource
source = PythonLaunchDescriptionSource(file)
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(source, launch_arguments=arguments)]))
sys.exit(service.run())
"""


@pytest.mark.skipif(importlib.util.find_spec("launch_ros") is None, reason="launch_ros is not installed")
@pytest.mark.parametrize("given", [PLAIN, GIVEN], ids=["defaults", "given"])
@pytest.mark.parametrize("name", LAUNCH_FILES)
def test_the_real_launch_description_starts_what_the_embedded_runner_starts(name, given, prefix, tmp_path):
    real = record([REAL_LAUNCH], name, given[name], prefix, tmp_path)
    ours = embedded(name, given[name], prefix, tmp_path)
    assert set(real) == set(ours)
    for title, process in ours.items():
        for key, value in process.items():
            assert real[title][key] == value, f"{key} of {title}"
        assert set(real[title]) == set(process)
