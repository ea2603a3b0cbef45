"""The deployment files, as far as they can be looked at without Docker: what they name is there, nobody is root."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from cue.arguments import split_assignments
from cue.cli import _parser
from cue.launch_command import read_recipe

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def instructions():
    """Return (instruction, rest) of the Dockerfile, continued lines joined."""
    lines = [line for line in (DOCKER / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def services():
    """Return the compose file's services, variables replaced by their defaults."""
    text = VARIABLE.sub(lambda match: match[2] or "", (DOCKER / "compose.yaml").read_text())
    return yaml.safe_load(text)["services"]


def test_everything_that_is_copied_is_there_and_gets_through_the_ignore_file():
    kept = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [rest for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]
    assert copied
    for rest in copied:
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source in kept, source
    assert all((ROOT / name).exists() for name in kept)


def test_packages_are_installed_small_and_once():
    for name, rest in instructions():
        if name == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert rest.rstrip().endswith("rm -rf /var/lib/apt/lists/*")
            packages = re.findall(
                r'(?:^|\s)"?((?:ros-\$\{ROS_DISTRO\}-)?[a-z][a-z0-9+.-]*)"?(?=\s)', rest.split("recommends")[1]
            )
            names = [p for p in packages if p not in ("rm",)]
            assert len(set(names)) == len(names) > 0


def test_images_run_as_a_user_and_say_how_they_are():
    stages = {}
    for name, rest in instructions():
        if name == "FROM":
            stage = stages.setdefault(rest.split()[-1], {})
        else:
            stage = stages.setdefault(next(reversed(stages), ""), {})
        stage[name] = rest
    for target in ("develop", "runtime"):
        assert stages[target]["USER"] == "1000"
        assert "cue-entrypoint" in stages[target]["ENTRYPOINT"]
    assert '"cue", "status"' in stages["runtime"]["HEALTHCHECK"]


@pytest.mark.parametrize("name", ["sim", "table"])
def test_what_the_services_launch_exists_with_these_arguments(prefix, name):
    command = services()[name]["command"]
    (prefix.path / "share" / "cue" / "config" / "tables" / "8ft.yaml").write_text("{}\n")
    options = _parser().parse_args(command[1:])
    assert command[0] == "cue"
    recipe = read_recipe(ROOT / "launch" / options.file)
    graph = recipe.graph(split_assignments(options.arguments))
    assert "recorder" in {process.name for process in graph.processes}


def test_only_the_table_sees_devices_and_the_hosts_network():
    found = services()
    assert {name for name, service in found.items() if service.get("devices")} == {"table"}
    assert {name for name, service in found.items() if service.get("network_mode") == "host"} == {"driver", "table"}
    assert all(service["cap_drop"] == ["ALL"] and not service.get("privileged") for service in found.values())


def test_the_entrypoint_runs_a_command_in_the_activated_workspace(tmp_path):
    ros = tmp_path / "setup.bash"
    ros.write_text("export FROM_ROS=yes\n")
    text = (DOCKER / "entrypoint.sh").read_text()
    assert "/opt/ros/" in text
    script = tmp_path / "entrypoint.sh"
    script.write_text(re.sub(r"/opt/ros/\$\{ROS_DISTRO[^}]*\}/setup\.bash", str(ros), text))
    workspace = tmp_path / "here"
    (workspace / ".venv").mkdir(parents=True)
    (workspace / ".venv" / "environment.sh").write_text("")
    (workspace / "env.sh").write_text("export FROM_CUE=yes\n")
    line = shlex.join(["bash", str(script), "bash", "-c", 'echo "$FROM_ROS $FROM_CUE $1"', "-", "a word"])
    done = subprocess.run(line, shell=True, cwd=workspace, capture_output=True, text=True, check=True)
    assert done.stdout == "yes yes a word\n"
