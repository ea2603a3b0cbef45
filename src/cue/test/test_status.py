"""``cue status``: what is told of each node, and when a graph is not well."""

from __future__ import annotations

import math

from rich.console import Console

from cue.status import graph_health, rendered

VALUES = {
    "image rate [1/s]": "30.0",
    "image time median [ms]": "9.1",
    "image time 95 % [ms]": "14.0",
    "images lost": "3",
    "cpu [%]": "41",
    "memory [MB]": "210",
    "problems": "2",
    "last problem": "no image for 5 s",
}


def shown(graph, details=False):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(rendered(graph, details))
    return console.export_text()


def test_a_healthy_graph_tells_rates_resources_and_what_was_wrong():
    graph = graph_health({"/tracker": (0, "ok", VALUES, 0.4)}, ["/tracker", "/rviz"], "fit: 300 evaluations")
    assert graph.well
    text = shown(graph)
    for part in (
        "/tracker",
        "image 30.0/s, 9.1 ms (14.0 ms)",
        "41 %",
        "210 MB",
        "earlier: no image for 5 s (2 problems",
    ):
        assert part in text
    assert "fit: 300 evaluations" in text
    assert "images lost" not in text
    assert "images lost 3" in shown(graph, details=True)


def test_trouble_silence_and_death_are_not_well():
    told = {
        "/arm": (1, "protective stop", {}, 0.2),
        "/twin": (0, "ok", {}, 7.0),
        "/fitter": (0, "ok", {}, 1.0),
        "/agent": (2, "not heard", {}, math.inf),
    }
    graph = graph_health(told, ["/arm", "/twin", "/agent"])
    assert not graph.well
    assert {node.name: node.state for node in graph.nodes} == {
        "/agent": "silent",
        "/arm": "warning",
        "/fitter": "silent",
        "/twin": "silent",
    }
    text = shown(graph)
    for part in ("protective stop", "says nothing for 7 s; last: ok", "gone"):
        assert part in text
    assert graph.to_dict()["nodes"][0]["age"] is None


def test_a_node_that_only_warns_does_its_work():
    graph = graph_health({"/recorder": (1, "3 messages did not arrive", {}, 0.1)}, ["/recorder"])
    assert graph.well
    assert "3 messages did not arrive" in shown(graph)


def test_no_graph_is_said_to_be_none():
    graph = graph_health({}, [])
    assert not graph.well
    assert "is a graph running" in shown(graph)
