"""The graphs: which processes, with which parameters, for which arguments."""

import os
from pathlib import Path

import pytest

from cue.arguments import ArgumentError
from cue.graph import REAL_TABLE, RVIZ, SIM_WORLD, Graph, RunFolderError
from cue.resources import ResourceError

NODES = {"tracker", "twin", "fitter", "arm", "agent"}


def by_name(graph):
    assert len({process.name for process in graph.processes}) == len(graph.processes)
    return {process.name: process for process in graph.processes}


def test_the_simulated_world_has_every_node_and_one_clock(prefix):
    processes = by_name(SIM_WORLD.graph({}))
    assert set(processes) == NODES | {"world", "camera_sim", "score", "calibrate"}
    assert {process.parameters["use_sim_time"] for process in processes.values()} == {True}


def test_the_real_table_has_the_same_nodes_and_no_simulation(prefix):
    processes = by_name(REAL_TABLE.graph({"camera": "/dev/video2"}))
    assert set(processes) == NODES | {"camera", "calibrate"}
    assert processes["camera"].parameters["source"] == "/dev/video2"
    assert processes["tracker"].parameters["lockstep"] is False
    assert {process.parameters["use_sim_time"] for process in processes.values()} == {False}


def test_the_real_tables_tracker_is_told_of_markers_and_transport(prefix):
    plain = by_name(REAL_TABLE.graph({}))["tracker"].parameters
    assert plain["transport"] == "raw"
    assert "markers" not in plain
    given = by_name(REAL_TABLE.graph({"transport": "compressed", "markers": "ends.yaml"}))["tracker"].parameters
    assert given["transport"] == "compressed"
    assert given["markers"] == os.path.abspath("ends.yaml")
    with pytest.raises(ArgumentError, match="transport"):
        REAL_TABLE.graph({"transport": "pigeon"})


def test_only_world_camera_and_score_are_given_the_world_file(prefix):
    graph = SIM_WORLD.graph({})
    told = {p.name for p in graph.processes if any("worlds/" in str(value) for value in p.parameters.values())}
    assert told == {"world", "camera_sim", "score"}


def test_seed_run_folder_and_namespace_reach_every_node(prefix, tmp_path):
    graph = SIM_WORLD.graph({"seed": "7", "run_dir": "here", "namespace": "table_a"})
    assert graph.run_dir == str(tmp_path / "here")
    for process in graph.processes:
        assert process.parameters["seed"] == 7
        assert process.parameters["run_dir"] == graph.run_dir
        assert process.namespace == "table_a"
        assert set(process.remappings) == {("/tf", "tf"), ("/tf_static", "tf_static"), ("/clock", "clock")}
        assert process.environment["CUE_EXIT_WITH_PARENT"] == "1"


def test_a_node_with_a_file_in_config_is_given_it(prefix):
    processes = by_name(SIM_WORLD.graph({}))
    assert [Path(file).name for file in processes["tracker"].parameter_files] == ["tracker.yaml"]
    assert processes["twin"].parameter_files == ()


def test_every_node_comes_back_but_the_client_ends_the_graph(prefix):
    processes = by_name(SIM_WORLD.graph({}))
    client = processes.pop("calibrate")
    assert all(process.respawn and process.on_exit is None for process in processes.values())
    assert (client.respawn, client.on_exit, client.output) == (False, "shutdown", "screen")
    assert by_name(SIM_WORLD.graph({"exit_when_done": "false"}))["calibrate"].on_exit is None
    assert "calibrate" not in by_name(SIM_WORLD.graph({"calibrate": "false"}))


def test_rviz_is_started_unless_headless(prefix):
    viewer = by_name(SIM_WORLD.graph({"headless": "false"}))["rviz"]
    assert Path(viewer.arguments[1]).is_file()
    (alone,) = RVIZ.graph({"use_sim_time": "false", "display": "false"}).processes
    assert {process.name for process in RVIZ.graph({}).processes} == {"display", "rviz"}
    assert alone.on_exit == "shutdown"
    assert RVIZ.graph({}).run_dir == ""


def test_recorder_and_display_are_there_when_asked_for(prefix):
    assert not {"recorder", "display"} & set(by_name(SIM_WORLD.graph({})))
    processes = by_name(SIM_WORLD.graph({"record": "images", "display": "true"}))
    assert processes["recorder"].parameters["record"] == "images"
    assert processes["display"].parameters["robot"].endswith("ur5e.yaml")
    assert processes["display"].parameters["driver"] is False
    real = by_name(REAL_TABLE.graph({"headless": "false"}))
    assert {"display", "rviz"} <= set(real)
    assert real["display"].parameters["driver"] is True


def test_who_publishes_images_has_room_for_them(prefix, monkeypatch):
    name = "FASTDDS_DEFAULT_PROFILES_FILE"
    monkeypatch.delenv(name, raising=False)
    sim, real = by_name(SIM_WORLD.graph({})), by_name(REAL_TABLE.graph({}))
    assert {n for n, p in sim.items() if name in p.environment} == {"camera_sim", "tracker"}
    assert {n for n, p in real.items() if name in p.environment} == {"camera", "tracker"}
    assert sim["tracker"].environment[name].endswith("config/fastdds.xml")
    monkeypatch.setenv(name, "of_the_user.xml")
    assert not any(name in p.environment for p in SIM_WORLD.graph({}).processes)


def test_a_run_folder_is_not_used_twice(prefix, tmp_path):
    first = SIM_WORLD.graph({})
    first.prepare()
    second = SIM_WORLD.graph({})
    second.prepare()
    assert first.run_dir != second.run_dir
    assert {Path(graph.run_dir).parent for graph in (first, second)} == {tmp_path / "runs"}


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"worlds": "x"}, ArgumentError, "did you mean world"),
        ({"shots": "3", "held_out_shots": "3"}, ArgumentError, "less than shots, which is 3"),
        ({"world": "moon"}, ResourceError, "unknown world 'moon'; known are hidden"),
        ({"world": "no/such.yaml"}, ResourceError, "no/such.yaml does not exist"),
        ({"table": "round"}, ResourceError, "unknown table 'round'; known are small"),
        ({"record": "all"}, ArgumentError, "allowed is one of none"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(prefix, given, error, says):
    with pytest.raises(error, match=says) as caught:
        SIM_WORLD.graph(given)
    assert "\n" not in str(caught.value)


def test_a_run_folder_that_cannot_be_made_is_refused_in_one_line():
    with pytest.raises(RunFolderError, match=r"/proc/nowhere cannot be written .*; choose another with run_dir:="):
        Graph("g", "/proc/nowhere", ()).prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="Permission denied"):
        Graph("g", str(tmp_path), ()).prepare()
