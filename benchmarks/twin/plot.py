"""The picture of the benchmark of the twin, drawn from its JSON alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

_INK, _MUTED, _GOOD, _BAD = "#1f2933", "#8a94a0", "#0b6e8f", "#b42318"
_TINTS = {"small": "#0b6e8f", "7ft": "#c0602a"}
_FLOOR = 1e-7  # of logarithmic axes; what is smaller is drawn there


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    font: Any = {"font.family": "sans-serif", "font.size": 9, "text.color": _INK, "axes.titlesize": 10}
    with plt.rc_context(font):
        figure, grid = plt.subplots(2, 3, figsize=(13.5, 7.6))
        _spread(grid[0, 0], data, "vs_reference_mm", 0.2, "Rest positions off the reference")
        _spread(grid[0, 1], data, "step_halving_mm", 0.1, "Moved by halving the largest step")
        _laws(grid[0, 2], data)
        _speed(grid[1, 0], data)
        _bars(grid[1, 1], data, "portable_mm", {"1": 30.0}, "Portable export off the twin", "contacts")
        real = data.get("real_median_mm", {})
        _bars(grid[1, 2], data, "real_median_mm", dict.fromkeys(real, 85.0), "Real shots, median", "cushion law")
        for axes in grid.flat:
            axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout(h_pad=2.5, w_pad=2.0)
        figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
        plt.close(figure)


def _nothing(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, "\n".join(wrap(why, 34)), ha="center", va="center", color=_MUTED, transform=axes.transAxes)
    axes.set_axis_off()


def _limit(axes: Axes, value: float, text: str = "limit") -> None:
    axes.axhline(value, color=_BAD, lw=1, ls="--", zorder=1)
    axes.annotate(text, (0.01, value), xycoords=("axes fraction", "data"), va="bottom", color=_BAD, fontsize=8)


def _reason(value: Any) -> str:
    while isinstance(value, Mapping) and value:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else "not measured"


def _spread(axes: Axes, data: Mapping[str, Any], key: str, limit: float, title: str) -> None:
    """Draw every shot as a dot, by contacts and table, and the medians as bars."""
    axes.set_title(title, loc="left")
    detail, drawn = data.get("detail", {}), False
    tables = data.get(key, {})
    rng = np.random.default_rng(0)  # only shakes dots apart
    for side, (table, classes) in enumerate(tables.items()):
        for k, label in enumerate(classes):
            values = detail.get(f"{key}/{table}/{label}", {}).get("mm")
            if not values:
                continue
            x = k + 0.36 * (side - 0.5)
            heights = np.maximum(values, _FLOOR)
            tint = _TINTS.get(table, _INK)
            axes.scatter(
                x + rng.uniform(-0.13, 0.13, len(heights)), heights, s=6, color=tint, alpha=0.35, lw=0,
                label=f"{table} table" if k == 0 else None,
            )  # fmt: skip
            axes.plot([x - 0.16, x + 0.16], [max(np.median(values), _FLOOR)] * 2, color=tint, lw=2.5, zorder=3)
            drawn = True
    if not drawn:
        _nothing(axes, _reason(tables))
        return
    labels = list(next(iter(tables.values())))
    axes.set_yscale("log")
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("contacts in the shot (bar: median)")
    axes.set_ylabel("largest over the balls [mm]")
    axes.grid(axis="y", color="#e3e7eb", lw=0.6)
    _limit(axes, limit, "limit of the median")
    axes.set_ylim(_FLOOR / 3, 3000)
    axes.legend(frameon=False, fontsize=8, loc="upper left", markerscale=2, ncols=2)


def _laws(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("Laws against closed forms", loc="left")
    laws = {name: row for name, row in data.get("laws", {}).items() if isinstance(row, Mapping)}
    if not laws:
        _nothing(axes, _reason(data.get("laws", {})))
        return
    shares = [max(row["error"] / row["limit"], 1e-16) for row in laws.values()]
    rows = np.arange(len(laws))[::-1]
    low = 10.0 ** (np.floor(np.log10(min(shares))) - 1)
    axes.hlines(rows, low, shares, color=[_GOOD if s <= 1 else _BAD for s in shares], lw=2)
    axes.scatter(shares, rows, color=[_GOOD if s <= 1 else _BAD for s in shares], s=22, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(low, 10.0)
    axes.set_yticks(rows, [name.replace("_", " ") for name in laws])
    axes.axvline(1, color=_BAD, lw=1, ls="--")
    axes.set_xlabel("error / limit")
    axes.grid(axis="x", color="#e3e7eb", lw=0.6)


def _speed(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("Cost of a shot, 7-foot table, one core", loc="left")
    detail = data.get("detail", {})
    series: dict[str, tuple[list[int], list[float]]] = {}

    def add(name: str, balls: int, times: Any) -> None:
        if times:
            xs, ys = series.setdefault(name, ([], []))
            xs.append(balls)
            ys.append(float(min(times)))

    for balls in (2, 6, 10, 16):
        own, other = detail.get(f"ms_per_shot/{balls}", {}), detail.get(f"vs_pooltool/{balls}", {})
        add("twin", balls, own.get("ms"))
        add("its mj_step calls", balls, own.get("mj_step_ms"))
        add(f"pooltool {other.get('version', '')}", balls, other.get("pooltool_ms"))
    if not series:
        _nothing(axes, _reason(data.get("ms_per_shot", {})))
        return
    tints = {"twin": _GOOD, "its mj_step calls": _MUTED}
    for name, (xs, ys) in series.items():
        axes.plot(xs, ys, "o-", ms=5, lw=1.6, color=tints.get(name, "#c0602a"), label=name)
    axes.plot([6, 16], [2.0, 4.5], "_", ms=22, mew=1.5, color=_BAD, ls="none", label="limit")
    axes.set_xticks([2, 6, 10, 16])
    axes.set_xlabel("balls")
    axes.set_ylabel("ms per shot")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", which="both", color="#e3e7eb", lw=0.6)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 2.5)  # room for the legend


def _bars(axes: Axes, data: Mapping[str, Any], key: str, limits: Mapping[str, float], title: str, what: str) -> None:
    axes.set_title(title, loc="left")
    values = {name: value for name, value in data.get(key, {}).items() if isinstance(value, (int, float))}
    if not values:
        _nothing(axes, _reason(data.get(key, {})))
        return
    for k, (name, value) in enumerate(values.items()):
        missed = name in limits and value > limits[name]
        axes.bar(k, value, width=0.55, color=_BAD if missed else _GOOD)
        axes.annotate(f"{value:.0f}", (k, value), ha="center", va="bottom", fontsize=8.5)
        if name in limits:
            axes.plot([k - 0.4, k + 0.4], [limits[name]] * 2, "--", color=_BAD, lw=1.2)
    axes.set_xticks(range(len(values)), [re.sub(r"(?<=[a-z])(?=\d)", "\n", name) for name in values])
    axes.set_xlabel(f"{what} (dashed: limit)")
    axes.set_ylabel("mm")
    axes.margins(y=0.15)
