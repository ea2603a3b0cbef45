"""The picture of the benchmark of the tracker, drawn from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
from matplotlib.axes import Axes

_GOOD, _BAD, _MUTED = "#0b6e8f", "#b42318", "#8a94a0"


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.2))
    worlds = data.get("detail", {}).get("worlds", {})
    _errors(left, worlds, "still_mm", (0.5, 1.5), "Balls at rest")
    _errors(middle, worlds, "moving_mm", (1.0, 4.0), "Moving balls")
    _cost(right, data)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2.0)
    figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)


def _errors(axes: Axes, worlds: Mapping[str, Any], key: str, limits: tuple[float, float], title: str) -> None:
    axes.set_title(title, loc="left")
    known = {name: w for name, w in worlds.items() if w[key][0] is not None}
    for k, world in enumerate(known.values()):
        axes.plot([k, k], world[key], color=_MUTED, lw=1.5)
        axes.plot(k, world[key][0], "o", color=_GOOD if world[key][0] <= limits[0] else _BAD)
        axes.plot(k, world[key][1], "^", color=_GOOD if world[key][1] <= limits[1] else _BAD)
    for limit, style in zip(limits, ("-", "--"), strict=True):
        axes.axhline(limit, color=_BAD, lw=1, ls=style)
    axes.set_xticks(range(len(known)), [f"{w['balls']}\n{w['table']}" for w in known.values()], fontsize=8)
    axes.set_xlabel("balls, table (circle: median, triangle: 95 %; lines: limits)")
    axes.set_ylabel("error [mm]")
    axes.set_ylim(bottom=0)


def _cost(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("Cost of an image, 95 %, one core", loc="left")
    bars: list[tuple[str, Any, float | None]] = []
    for label, limit in (("720", 10.0), ("1080", 20.0)):
        own, usual = data.get(f"p95_ms_{label}"), data.get("hough", {}).get(label, {}).get("p95_ms")
        bars += [(f"tracker\n{label}", own, limit), (f"Hough\n{label}", usual, None)]
    bars = [b for b in bars if isinstance(b[1], (int, float))]
    for k, (_, value, most) in enumerate(bars):
        axes.bar(k, value, width=0.55, color=_MUTED if most is None else _GOOD if value <= most else _BAD)
        axes.annotate(f"{value:.1f}", (k, value), ha="center", va="bottom", fontsize=8.5)
        if most is not None:
            axes.plot([k - 0.4, k + 0.4], [most] * 2, "--", color=_BAD, lw=1.2)
    axes.set_xticks(range(len(bars)), [b[0] for b in bars])
    axes.set_ylabel("ms (dashed: limit)")
