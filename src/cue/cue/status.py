"""What ``cue status`` shows of a running graph, from what its nodes tell on ``/diagnostics``. Without ROS."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

LEVELS = ("ok", "warning", "error", "stale")
SILENT_S = 5.0
"""Wall time after which a node that told of itself once a second counts as silent."""
_RATE = re.compile(r"(?P<what>.+) rate \[1/s\]")
_TIME = re.compile(r"(?P<what>.+) time median \[ms\]")
_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red", "stale": "red", "silent": "bold red"}
_USED = ("cpu [%]", "memory [MB]", "problems", "last problem")


@dataclass(frozen=True)
class NodeHealth:
    """One node.

    Attributes:
        name: with namespace.
        state: one of :data:`LEVELS`, or ``silent``.
        message: what it says.
        values: by name, as told.
        age: since it told that [s].
    """

    name: str
    state: str
    message: str
    values: Mapping[str, str] = field(default_factory=dict)
    age: float = 0.0

    @property
    def well(self) -> bool:
        """Return whether it can do its work; it may warn."""
        return self.state in ("ok", "warning")

    def rates(self) -> list[str]:
        """Return what it handles: how often, and how long one takes (median, 95 %)."""
        found = []
        for key, value in self.values.items():
            match = _RATE.fullmatch(key)
            if not match:
                continue
            what = match["what"]
            median, slow = self.values.get(f"{what} time median [ms]"), self.values.get(f"{what} time 95 % [ms]")
            found.append(f"{what} {value}/s" + (f", {median} ms ({slow} ms)" if median else ""))
        return found

    def counts(self) -> list[str]:
        """Return everything else it tells."""
        known = [key for key in self.values if _RATE.fullmatch(key) or _TIME.fullmatch(key) or " time 95 %" in key]
        return [f"{key} {value}" for key, value in self.values.items() if key not in (*known, *_USED)]


@dataclass(frozen=True)
class GraphHealth:
    """A graph at one moment.

    Attributes:
        nodes: by name.
        doing: the agent's phase and text; empty = no agent was heard.
    """

    nodes: tuple[NodeHealth, ...]
    doing: str = ""

    @property
    def well(self) -> bool:
        """Return whether every node is well; a graph without nodes is not."""
        return bool(self.nodes) and all(node.well for node in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        nodes = [{**asdict(node), "age": node.age if math.isfinite(node.age) else None} for node in self.nodes]
        return {"well": self.well, "doing": self.doing, "nodes": nodes}


def graph_health(
    told: Mapping[str, tuple[int, str, Mapping[str, str], float]], running: Iterable[str], doing: str = ""
) -> GraphHealth:
    """Judge a graph.

    Args:
        told: (level, message, values, age [s]) of the newest status by node.
        running: nodes that are there, whether they tell of themselves or not; those that never do are left out.
        doing: the agent's phase and text.
    """
    there = set(running)
    nodes = []
    for name, (level, message, values, age) in sorted(told.items()):
        state = LEVELS[level] if 0 <= level < len(LEVELS) else "error"
        if name not in there:
            state, message = "silent", "gone"
        elif age > SILENT_S:
            since = f" for {age:.0f} s; last: {message}" if math.isfinite(age) else ""
            state, message = "silent", f"says nothing{since}"
        nodes.append(NodeHealth(name, state, message, dict(values), age))
    return GraphHealth(tuple(nodes), doing)


def rendered(graph: GraphHealth, details: bool = False) -> RenderableType:
    """Return a table for the terminal; ``details`` adds every value that the nodes tell."""
    if not graph.nodes:
        return Text("no node tells of itself on /diagnostics: is a graph running in this ROS_DOMAIN_ID?")
    table = Table(box=None, pad_edge=False)
    for title in ("node", "state", "rates, time per piece (95 %)", "cpu", "memory", "says"):
        table.add_column(title, justify="right" if title in ("cpu", "memory") else "left", overflow="fold")
    for node in graph.nodes:
        cpu, memory = node.values.get("cpu [%]", ""), node.values.get("memory [MB]", "")
        table.add_row(
            node.name,
            Text(node.state, _STYLES[node.state]),
            "\n".join(node.rates()),
            f"{cpu} %" if cpu else "",
            f"{memory} MB" if memory else "",
            "\n".join(_says(node, details)),
        )
    return Group(table, Text(f"\n{graph.doing}")) if graph.doing else table


def _says(node: NodeHealth, details: bool) -> Sequence[str]:
    said = [] if node.message == "ok" else [node.message]
    last = node.values.get("last problem", "")
    if last and last != node.message:
        said.append(f"earlier: {last} ({node.values.get('problems')} problems so far)")
    return [*said, *(node.counts() if details else [])]
