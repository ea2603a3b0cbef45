"""The picture of the benchmark of identification, drawn from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from benchmarks.fit.structure import EFFECTS, PLAIN, is_hit

_PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
_GOOD, _BAD, _MUTED = "#0b6e8f", "#b42318", "#8a94a0"
_METHODS = {"cue": ("CUE", _GOOD), "cma": ("CMA-ES, whole shots", "#c77700"), "sysid": ("mujoco.sysid", "#6b4fa0")}


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = plt.subplots(2, 3, figsize=(17.5, 9.0), width_ratios=(1.25, 1, 0.75))
    detail = data.get("detail", {})
    _race(axes[0][0], detail.get("race", {}))
    _errors(axes[0][1], detail.get("recovery", {}), detail.get("noisy", {}))
    _residual(axes[0][2], detail.get("residual", {}))
    _deviations(axes[1][0], detail.get("recovery", {}))
    _terms(axes[1][1], detail.get("terms", {}))
    _times(axes[1][2], data)
    for row in axes:
        for one in row:
            one.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2.5, h_pad=2.5)
    figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not measured in this run", ha="center", va="center", color=_MUTED, transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _race(axes: Axes, worlds: Mapping[str, Any]) -> None:
    axes.set_title("Same shots, same start, same twin, 2 threads: error against time", loc="left")
    if not worlds:
        return _nothing(axes)
    for world in worlds.values():
        for method, (_, colour) in _METHODS.items():
            points = world[method].get("points", [])
            if points:
                first = [[0.05, world["unfitted_m"]]]
                t, e = zip(*first, *[(max(p[0], 0.05), p[2]) for p in points], strict=True)
                axes.step(t, [1e2 * v for v in e], where="post", color=colour, lw=1.6, alpha=0.85)
                axes.plot(t[-1], 1e2 * e[-1], "o", color=colour, ms=5)
    axes.axhline(1.0, color=_BAD, lw=1, ls="--")
    axes.annotate("1 cm", (0.055, 1.04), color=_BAD, fontsize=9, va="bottom")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_PLAIN)
    axes.set_xlabel("wall time [s]; one line per table, dot: end")
    axes.set_ylabel("held-out rest error [cm]")
    axes.grid(alpha=0.25, which="both", lw=0.5)
    lines = [Line2D([], [], color=colour, lw=2, label=label) for label, colour in _METHODS.values()]
    axes.legend(handles=lines, frameon=False, loc="lower left")
    return None


def _errors(axes: Axes, recovery: Mapping[str, Any], noisy: Mapping[str, Any]) -> None:
    axes.set_title("Held-out rest error after a fit", loc="left")
    if not recovery:
        return _nothing(axes)
    for k, (label, worlds, limit) in enumerate((("seen to 1 mm", recovery, 5.0), ("seen to 3 mm", noisy, 15.0))):
        colour = (_GOOD, "#c77700")[k]
        for i, world in enumerate(worlds.values()):
            axes.plot(i + 0.16 * (2 * k - 1), 1e3 * world["rest_m"], "o", color=colour, ms=8)
            axes.plot(i + 0.16 * (2 * k - 1), 1e3 * world["rest_median_m"], "_", color=colour, ms=14)
        axes.plot([], [], "o", color=colour, label=label)
        axes.axhline(limit, color=colour, lw=1, ls="--")
    for i, world in enumerate(recovery.values()):
        axes.plot(i, 1e3 * world["unfitted_m"], "x", color=_MUTED, ms=8, label="textbook" if not i else None)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.set_xticks(range(len(recovery)), [f"table {i}" for i in range(len(recovery))])
    axes.set_ylabel("error [mm]; dot: mean, dash: median shot")
    axes.set_xlabel("dashed: limits of the mean")
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 0.72), columnspacing=1.0)
    return None


def _deviations(axes: Axes, worlds: Mapping[str, Any]) -> None:
    axes.set_title("Estimate less truth, in its own stated standard deviations", loc="left")
    if not worlds:
        return _nothing(axes)
    names = list(dict.fromkeys(name for world in worlds.values() for name in world["parameters"]))
    for i, world in enumerate(worlds.values()):
        for name, p in world["parameters"].items():
            z = max(min(p["z"], 6.0), -6.0)
            place = names.index(name) + 0.12 * (i - (len(worlds) - 1) / 2)
            axes.plot(z, place, "o", color=_GOOD if abs(z) <= 3 else _BAD, ms=5, mfc=None if p["identifiable"] else "w")
    axes.axvspan(-3, 3, color=_GOOD, alpha=0.08)
    axes.axvline(0, color=_MUTED, lw=1)
    axes.set_xlim(-6.2, 6.2)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("deviations (shaded: 3; hollow: called not identifiable)")
    return None


def _terms(axes: Axes, runs: Mapping[str, Any]) -> None:
    axes.set_title("What term selection added, by what the table has", loc="left")
    if not runs:
        return _nothing(axes)
    kinds = [*EFFECTS, PLAIN]
    for k, effect in enumerate(kinds):
        for i, run in enumerate(r for r in runs.values() if r["effect"] == effect):
            good = is_hit(run)
            axes.add_patch(plt.Rectangle((i - 0.47, k - 0.42), 0.94, 0.84, color=_GOOD if good else _BAD, alpha=0.16))
            axes.text(i, k, "\n".join(run["chosen"]) or "nothing", ha="center", va="center", fontsize=7.5)
    axes.set_xlim(-0.5, 4.5)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_yticks(range(len(kinds)), [f"{kind.replace('_', ' ')}" for kind in kinds])
    axes.set_xticks(range(5), [f"table {i}" for i in range(5)])
    axes.set_xlabel("blue: right, red: wrong")
    return None


def _residual(axes: Axes, runs: Mapping[str, Any]) -> None:
    axes.set_title("A learned correction", loc="left")
    if not runs:
        return _nothing(axes)
    for k, run in enumerate(runs.values()):
        axes.plot([k - 0.15, k + 0.15], [1e3 * run["without_m"], 1e3 * run["with_m"]], color=_MUTED, lw=1.5)
        axes.plot(k - 0.15, 1e3 * run["without_m"], "o", color=_MUTED, ms=7, label=None if k else "parameters alone")
        axes.plot(k + 0.15, 1e3 * run["with_m"], "o", color=_GOOD, ms=7, label=None if k else "and what was learned")
    axes.set_xticks(range(len(runs)), [name.rstrip("0123456789") for name in runs], fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("cloth")
    axes.set_ylabel("held-out rest error [mm]")
    axes.legend(frameon=False, fontsize=9)
    return None


def _times(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("Longest times, in shares of their limits", loc="left")
    recovery = data.get("recovery", {})
    known = (
        ("fit of all shots", recovery.get("wall_s"), 90.0),
        ("one more shot", data.get("refit_s"), 10.0),
        ("cancel", data.get("cancel_s"), 0.2),
    )
    bars = [(name, value, limit) for name, value, limit in known if isinstance(value, float)]
    if not bars:
        return _nothing(axes)
    for k, (_, value, limit) in enumerate(bars):
        axes.barh(k, min(value / limit, 2.0), height=0.5, color=_GOOD if value <= limit else _BAD)
        axes.text(
            min(value / limit, 2.0) + 0.02,
            k,
            f"{value:.2g} s of {limit:g} s",
            va="center",
            fontsize=9,
            backgroundcolor="w",
        )
    axes.axvline(1.0, color=_BAD, lw=1, ls="--")
    axes.set_xlim(0, 2.6)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.set_xticks([0, 1, 2])
    return None
