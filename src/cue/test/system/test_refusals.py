"""What cannot work is refused in one clear line with an exit code that is not 0, and nothing stays behind."""

from __future__ import annotations

import os
import subprocess

import pytest
from system_harness import cue_command

pytestmark = [pytest.mark.ros, pytest.mark.timeout(120)]


def run_cue(tmp_path, *words: str, seconds: float = 30.0, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [cue_command(), *words],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def complaint(done: subprocess.CompletedProcess) -> str:
    """Return the one line that was written to stderr."""
    assert done.returncode != 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, f"expected one line, saw:\n{done.stderr}"
    return lines[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "required: COMMAND"),
        (["lunch"], "invalid choice: 'lunch'"),
        (["launch"], "required: file"),
        (["launch", "sim_word.launch.py"], "unknown launch file 'sim_word.launch.py'; known are"),
        (["launch", "sim_world.launch.py", "sed:=1"], "unknown argument sed; did you mean seed?"),
        (["launch", "sim_world.launch.py", "seed"], "name:=value"),
        (["launch", "sim_world.launch.py", "seed:=one"], "argument seed:=one is not allowed; allowed is an integer"),
        (["launch", "sim_world.launch.py", "seed:=-1"], "argument seed:=-1 is not allowed"),
        (["launch", "sim_world.launch.py", "shots:=0"], "argument shots:=0 is not allowed"),
        (["launch", "sim_world.launch.py", "shots:=5", "held_out_shots:=5"], "argument held_out_shots:=5"),
        (["launch", "sim_world.launch.py", "planner:=clever"], "argument planner:=clever is not allowed"),
        (["launch", "sim_world.launch.py", "table:=12ft"], "unknown table '12ft'; known are 7ft"),
        (["launch", "sim_world.launch.py", "namespace:=a b"], "argument namespace:=a b is not allowed"),
        (["launch", "sim_world.launch.py", "world:=gone.yaml"], "world file"),
        (["report", "runs/none"], "no such run folder"),
        (["fit"], "required: RUN|SHOTS"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else "",
)
def test_wrong_arguments(tmp_path, words, expected):
    line = complaint(run_cue(tmp_path, *words))
    assert line.startswith("cue: ")
    assert expected in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("balls: [0, 1", "YAML"),
        ("just a sentence", "mapping"),
        ("table: small\n", "lacks robot, balls, camera"),
        ("cloth: blue\n", "cloth"),
    ],
    ids=["not YAML", "no mapping", "lacks", "unknown key"],
)
def test_malformed_world_file(tmp_path, text, expected):
    world = tmp_path / "my_world.yaml"
    world.write_text(text)
    done = run_cue(tmp_path, "launch", "sim_world.launch.py", f"world:={world}", f"run_dir:={tmp_path / 'run'}")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    assert lines and len(set(line.split("|", 1)[-1] for line in lines)) == 1, done.stderr
    assert "my_world.yaml" in lines[0] and expected in lines[0]


def test_world_file_with_an_impossible_value(tmp_path):
    import yaml

    from cue.resources import config_file

    data = yaml.safe_load(config_file("worlds", "nominal").read_text())
    data["physics"] = {"sliding_friction": -0.2}
    world = tmp_path / "my_world.yaml"
    world.write_text(yaml.safe_dump(data))
    done = run_cue(tmp_path, "launch", "sim_world.launch.py", f"world:={world}", f"run_dir:={tmp_path / 'run'}")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert any("sliding_friction" in line and "my_world.yaml" in line for line in done.stderr.splitlines())


@pytest.mark.parametrize("kind", ["below a file", "no permission"])
def test_run_folder_that_cannot_be_written(tmp_path, kind):
    if kind == "below a file":
        (tmp_path / "file").write_text("")
        folder = tmp_path / "file" / "run"
    else:
        folder = "/proc/run"  # where not even root may write
    line = complaint(run_cue(tmp_path, "launch", "sim_world.launch.py", f"run_dir:={folder}"))
    assert str(folder) in line and "cannot be written" in line and "run_dir:=" in line


def test_no_opengl(tmp_path, domains):
    done = run_cue(
        tmp_path,
        "launch",
        "sim_world.launch.py",
        f"run_dir:={tmp_path / 'run'}",
        MUJOCO_GL="egl",
        __EGL_VENDOR_LIBRARY_FILENAMES="/nowhere/none.json",
        ROS_DOMAIN_ID=str(next(domains)),
        seconds=90.0,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if "OpenGL" in line]
    assert len(lines) == 1, done.stderr


def test_no_ros(tmp_path):
    gone = {name: "" for name in ("AMENT_PREFIX_PATH", "ROS_DISTRO")}
    line = complaint(run_cue(tmp_path, "launch", "sim_world.launch.py", **gone))
    assert "source env.sh" in line or "make setup" in line
