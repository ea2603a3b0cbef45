"""The picture of the benchmark of real shots, drawn from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
import numpy as np
from matplotlib.axes import Axes

from benchmarks.real.figures import LIMITS, SHOWN
from benchmarks.real.plan import LAW

_GOOD, _BAD, _MUTED, _INK = "#0b6e8f", "#b42318", "#8a94a0", "#1d2733"


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = plt.subplots(2, 3, figsize=(13.5, 7.6))
    result = data.get("detail", {}).get(LAW)
    tracks = [track for half in result["halves"] for track in half["tracks"]] if result else []
    _compared(axes[0, 0], data)
    _rebounds(axes[0, 1], data)
    _each(axes[0, 2], tracks)
    for share, place in zip(SHOWN, axes[1], strict=True):
        _path(place, data.get("examples", {}).get(str(share)), share)
    for place in axes[0]:
        place.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2.0, h_pad=2.0)
    figure.savefig(path, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)


def _compared(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("Median error, mean of both halves", loc="left")
    baselines = data.get("baselines", {})
    bars = [
        ("mirror", baselines.get("mirror"), None),
        ("unfitted", baselines.get("unfitted"), None),
        ("fitted", data.get("median_mm"), LIMITS["median_mm"]),
        ("watched", data.get("mode_b_mm"), LIMITS["mode_b_mm"]),
    ]
    known = [bar for bar in bars if isinstance(bar[1], (int, float))]
    for k, (_, value, limit) in enumerate(known):
        axes.bar(k, value, width=0.55, color=_MUTED if limit is None else _GOOD if value <= limit else _BAD)
        axes.annotate(f"{value:.0f}", (k, value), ha="center", va="bottom", fontsize=8.5)
        if limit is not None:
            axes.plot([k - 0.4, k + 0.4], [limit] * 2, "--", color=_BAD, lw=1.2)
    axes.set_yscale("log")
    axes.set_ylim(20, 2000)
    axes.set_yticks([20, 50, 100, 200, 500, 1000], ["20", "50", "100", "200", "500", "1000"])
    axes.minorticks_off()
    axes.set_xticks(range(len(known)), [bar[0] for bar in known])
    axes.set_ylabel("mm (dashed: limit)")


def _rebounds(axes: Axes, data: Mapping[str, Any]) -> None:
    axes.set_title("By rebounds so far", loc="left")
    counts = data.get("by_rebounds", {})
    for key, colour, label in (("median_mm", _GOOD, "never seen"), ("mode_b_mm", _INK, "watched at first")):
        shown = [(k, v[key]) for k, v in enumerate(counts.values()) if v[key] is not None]
        if shown:
            axes.plot(*zip(*shown, strict=True), "o-", color=colour, label=label)
    if counts:
        axes.set_xticks(range(len(counts)), list(counts))
        axes.legend(frameon=False)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rebounds")
    axes.set_ylabel("median over tracks [mm]")


def _each(axes: Axes, tracks: list[Mapping[str, Any]]) -> None:
    axes.set_title("Each track", loc="left")
    for key, colour, marker in (("mean_mm", _GOOD, "o"), ("mode_b_mm", _INK, "^")):
        shown = [(t["travel_m"], t[key]) for t in tracks if t.get(key) is not None]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker, color=colour, ms=5, alpha=0.8)
    axes.set_yscale("log")
    axes.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
    axes.minorticks_off()
    axes.set_xlabel("length of its path [m] (triangles: watched at first)")
    axes.set_ylabel("mean error [mm]")


def _path(axes: Axes, track: Mapping[str, Any] | None, share: float) -> None:
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    if track is None:
        axes.set_axis_off()
        return
    seen, predicted = np.array(track["seen"]), np.array(track["predicted"])
    axes.plot(*seen.T, ".-", color=_INK, lw=0.8, ms=3, label="seen")
    axes.plot(*predicted.T, "-", color=_BAD, lw=1.2, label="predicted")
    axes.plot(*seen[0], "o", color=_INK, ms=5)
    axes.set_xlim(-1.42, 1.42)
    axes.set_ylim(-0.71, 0.71)
    axes.set_title(
        f"{100 * share:.0f} % are better: shot {track['shot']}, {track['mean_mm']:.0f} mm", loc="left", fontsize=9.5
    )
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0, 0), ncol=2)
