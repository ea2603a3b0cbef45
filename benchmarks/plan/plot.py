"""The picture of the benchmark of planners, drawn from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.plan.conditions import LAYOUTS, PHYSICS
from benchmarks.plan.figures import LIMIT

_PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
_BAD, _MUTED = "#b42318", "#8a94a0"
_COLOURS = {"offline": "#0b6e8f", "random": "#c77700", "script": "#6b4fa0", "misfit": "#3b7d3b"}


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = plt.subplots(len(LAYOUTS), len(PHYSICS) + 1, figsize=(19.0, 17.0))
    sessions = data.get("detail", {}).get("sessions", [])
    for i, layout in enumerate(LAYOUTS):
        for j, physics in enumerate(PHYSICS):
            own = [s for s in sessions if s["layout"] == layout and s["physics"] == physics]
            _curves(axes[i][j], f"{layout}, {physics.replace('_', ', ')}", own)
    for j in range(len(PHYSICS)):
        axes[-1][j].set_xlabel("shots")
    for i in range(len(LAYOUTS)):
        axes[i][0].set_ylabel("held-out rest error [cm]")
    _known(axes[0][-1], sessions)
    _reliability(axes[1][-1], data.get("detail", {}).get("reliability", {}))
    _inside(axes[2][-1], sessions)
    _lost(axes[3][-1], sessions)
    _decisions(axes[4][-1], data.get("detail", {}).get("decisions", {}))
    for row in axes:
        for one in row:
            one.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2.0, h_pad=2.0)
    figure.savefig(path, dpi=100, format="png", metadata={"Software": None})
    plt.close(figure)


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not measured in this run", ha="center", va="center", color=_MUTED, transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _colour(planner: str) -> str:
    return _COLOURS.get(planner, "#444444")


def _planners(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(s["planner"] for s in sessions))


def _curves(axes: Axes, title: str, sessions: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    if not sessions:
        return _nothing(axes)
    for s in sessions:
        errors = [100 * max(e, 1e-5) for e in s["rest_m"]]
        axes.step(range(len(errors)), errors, where="post", color=_colour(s["planner"]), lw=1.5, alpha=0.8)
        mark = "x" if s["ended_early"] else "o"
        axes.plot(len(errors) - 1, errors[-1], mark, color=_colour(s["planner"]), ms=6)
    axes.axhline(100 * LIMIT, color=_BAD, lw=1, ls="--")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_minor_formatter(_PLAIN)
    axes.set_xlim(0, max(s["budget"] for s in sessions) + 0.5)
    axes.grid(alpha=0.25, which="both", lw=0.5)
    for name in _planners(sessions):
        axes.plot([], [], color=_colour(name), lw=2, label=name)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return None


def _known(axes: Axes, sessions: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Sessions whose error was below 1.5 cm", loc="left", fontsize=10)
    if not sessions:
        return _nothing(axes)
    for name in _planners(sessions):
        own = [s for s in sessions if s["planner"] == name]
        shots = range(max(s["budget"] for s in own) + 1)
        share = [100 * np.mean([s["shots_until"] <= n for s in own]) for n in shots]
        axes.step(shots, share, where="post", color=_colour(name), lw=2, label=f"{name} ({len(own)})")
    axes.axhline(50, color=_MUTED, lw=1, ls=":")
    axes.set_ylim(0, 102)
    axes.set_ylabel("share [%]")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return None


def _reliability(axes: Axes, kinds: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    axes.set_title("Pocket probabilities, offline planner", loc="left", fontsize=10)
    if not kinds:
        return _nothing(axes)
    axes.plot([0, 100], [0, 100], color=_MUTED, lw=1)
    for kind, colour in (("played", "#0b6e8f"), ("typical", "#6b4fa0")):
        bins = kinds.get(kind, [])
        for b in bins:
            p, n = b["happened"], int(b["count"])
            centre, half = _wilson(p, n)
            axes.plot([100 * b["predicted"]] * 2, [100 * (centre - half), 100 * (centre + half)], color=colour, lw=1)
        x, y = [100 * b["predicted"] for b in bins], [100 * b["happened"] for b in bins]
        axes.plot(x, y, "o-", color=colour, ms=5, lw=1, label=f"{kind} shots ({sum(b['count'] for b in bins)} balls)")
    axes.set_xlabel("predicted [%]")
    axes.set_ylabel("pocketed [%], bars 95 %")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return None


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return centre and half width of the 95 % interval of a share (Wilson 1927)."""
    z = 1.96
    scale = 1 + z**2 / count
    return (share + z**2 / (2 * count)) / scale, z / scale * float(
        np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    )


def _inside(axes: Axes, sessions: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Outcomes within the 95 % regions of the next shot", loc="left", fontsize=10)
    if not sessions:
        return _nothing(axes)
    for name in _planners(sessions):
        longest = max(len(s["shots"]) for s in sessions)
        found = [
            [i for s in sessions if s["planner"] == name and len(s["shots"]) > n for i in s["shots"][n]["stated"]]
            for n in range(longest)
        ]
        x = [n + 1 for n, inside in enumerate(found) if inside]
        axes.plot(x, [100 * np.mean(f) for f in found if f], "o-", color=_colour(name), ms=4, lw=1.2, label=name)
    axes.axhspan(85, 99, color=_MUTED, alpha=0.15)
    axes.set_xlabel("number of the shot")
    axes.set_ylabel("share of balls [%]")
    axes.set_ylim(0, 102)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return None


def _lost(axes: Axes, sessions: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Shots that pocket a ball, and sessions that end early", loc="left", fontsize=10)
    if not sessions:
        return _nothing(axes)
    labels = ("cue ball", "any ball", "ended early")
    names = _planners(sessions)
    for k, name in enumerate(names):
        own = [s for s in sessions if s["planner"] == name]
        shots = [shot for s in own for shot in s["shots"]]
        shares = (
            np.mean([0 in s["pocketed"] for s in shots]) if shots else 0.0,
            np.mean([bool(s["pocketed"]) for s in shots]) if shots else 0.0,
            np.mean([s["ended_early"] for s in own]),
        )
        place = np.arange(3) + 0.8 * (k - (len(names) - 1) / 2) / len(names)
        axes.bar(place, [100 * float(s) for s in shares], 0.75 / len(names), color=_colour(name), label=name)
    for x, limit in enumerate((3.0, 8.0, 100 / 45)):
        axes.plot([x - 0.45, x + 0.45], [limit, limit], color=_BAD, lw=1, ls="--")
    axes.set_xticks(range(3), labels)
    axes.set_ylabel("share [%]; dashed: limits of offline")
    axes.legend(frameon=False, fontsize=9)
    return None


def _decisions(axes: Axes, runs: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    axes.set_title("Time of one decision, two threads", loc="left", fontsize=10)
    if not runs:
        return _nothing(axes)
    for k, run in enumerate(runs.values()):
        axes.plot([k] * len(run["wall_s"]), run["wall_s"], "o", color=_colour("offline"), alpha=0.6)
    axes.axhline(8.0, color=_BAD, lw=1, ls="--")
    axes.set_xticks(range(len(runs)), list(runs), fontsize=8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("wall time [s]")
    return None
