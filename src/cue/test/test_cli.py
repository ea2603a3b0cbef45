"""The command line: wrong words are one clear line and exit code 2; it starts at once."""

import subprocess
import sys

import pytest

from cue.cli import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["launch"], "required: file"),
        (["launch", "moon"], "known are real_table.launch.py, rviz.launch.py, sim_world.launch.py"),
        (["launch", "./moon.launch.py"], "moon.launch.py does not exist"),
        (["launch", "sim_world", "seed=3"], "arguments are written name:=value"),
        (["launch", "sim_world", "--prnt", "seed:=3"], "unrecognised argument --prnt"),
        (["launch", "sim_world", "sed:=3"], "did you mean seed"),
        (["launch", "sim_world", "run_dir:=/proc/no"], "cannot be written"),
        (["doctor", "gpu"], "unknown check gpu"),
        (["report", "/no/run"], "/no/run"),
        (["predict", "/no/run"], "/no/run"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(words, says, prefix, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_outside_the_environment_it_says_what_to_do(monkeypatch, capsys):
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    assert main(["launch", "sim_world"]) == 2
    assert "source env.sh" in capsys.readouterr().err


def test_a_launch_file_without_a_recipe_is_refused(tmp_path, capsys):
    for text, says in (("x = 1", "has no GRAPH"), ("import nothing_of_that_name", "ModuleNotFoundError")):
        (tmp_path / "a.launch.py").write_text(text)
        assert main(["launch", str(tmp_path / "a.launch.py")]) == 2
        assert says in capsys.readouterr().err


def test_show_args_lists_them(prefix, capsys):
    assert main(["launch", "sim_world.launch.py", "--show-args"]) == 0
    assert "'held_out_shots':" in capsys.readouterr().out


def test_nothing_heavy_is_imported_to_start():
    code = (
        "import sys; from cue.cli import _parser; _parser(); "
        "print(sorted({'rclpy', 'mujoco', 'scipy', 'circus', 'rich', 'matplotlib', 'cv2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
