"""The picture of the benchmark of the arm, drawn from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
import numpy as np
from matplotlib.axes import Axes

from benchmarks.arm.figures import LIMITS, detail_of
from benchmarks.arm.strokes import SETTLED

_GOOD, _BAD, _MUTED = "#0b6e8f", "#b42318", "#8a94a0"


def plot(data: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = plt.subplots(2, 3, figsize=(14.0, 7.6))
    _heat(axes[0][0], detail_of(data, "map"))
    _clock(axes[0][1], detail_of(data, "plan_ms"))
    _pushes(axes[0][2], detail_of(data, "push_ends_m"))
    strokes = detail_of(data, "strokes")
    _errors(axes[1][0], strokes, (0,), 100.0, LIMITS["speed_rms"], "Tip speed", "%")
    _errors(axes[1][1], strokes, (1,), 180 / np.pi, LIMITS["azimuth_rms_rad"], "Azimuth", "deg")
    _errors(axes[1][2], strokes, (2, 3), 1e3, LIMITS["offset_rms_m"], "Tip offset", "mm")
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2.0, h_pad=2.0)
    figure.savefig(path, dpi=110, format="png", metadata={"Software": None})
    plt.close(figure)


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not measured in this run", ha="center", va="center", color=_MUTED, transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _heat(axes: Axes, known: Any) -> None:
    axes.set_title("Share of strokes that can be played, by place", loc="left")
    if not known:
        return _nothing(axes)
    x, y, rows = np.array(known["x"]), np.array(known["y"]), np.array(known["playable"])
    image = axes.pcolormesh(x, y, rows.T, cmap="viridis", vmin=0.0, vmax=1.0, shading="gouraud")
    axes.set_aspect("equal")
    axes.set_xlabel("x [m] (0.4 and 0.8 m/s, the arm below)")
    axes.set_ylabel("y [m]")
    plt.colorbar(image, ax=axes, fraction=0.025)


def _clock(axes: Axes, spent: Any) -> None:
    axes.set_title("CPU time of planning", loc="left")
    if not spent:
        return _nothing(axes)
    axes.hist(np.clip(spent, 0.1, None), bins=np.geomspace(0.1, 2000, 60).tolist(), color=_GOOD)
    axes.set_xscale("log")
    for limit, style in ((LIMITS["plan_ms_median"], "-"), (LIMITS["plan_ms_p95"], "--")):
        axes.axvline(limit, color=_BAD, lw=1.2, ls=style)
    axes.set_xlabel("ms (lines: limits of median and 95 %)")
    axes.set_ylabel("requests")


def _pushes(axes: Axes, ends: Any) -> None:
    axes.set_title("Pushed balls off their goals", loc="left")
    if not ends:
        return _nothing(axes)
    ordered = 1e3 * np.sort(ends)
    axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=_GOOD)
    axes.axvline(1e3 * LIMITS["push_p90_m"], color=_BAD, lw=1.2, ls="--")
    axes.axhline(0.9, color=_MUTED, lw=0.8)
    axes.set_xlabel("mm (dashed: limit for 90 %)")
    axes.set_ylabel("share of pushes")
    axes.set_ylim(0, 1.02)


def _errors(axes: Axes, arms: Any, which: tuple[int, ...], scale: float, limit: float, title: str, unit: str) -> None:
    axes.set_title(f"{title}, stroke by stroke", loc="left")
    if not arms:
        return _nothing(axes)
    for arm in arms:
        rows = np.array(arm["rows"], float).reshape(-1, 4)[:, list(which)]
        size = scale * np.linalg.norm(rows, axis=1)
        axes.plot(np.arange(1, len(size) + 1), size, ".", ms=3, alpha=0.6, label=f"{arm['stiffness']:.0f}")
    axes.axhline(scale * limit, color=_BAD, lw=1.2, ls="--")
    axes.axvline(SETTLED + 0.5, color=_MUTED, lw=0.8)
    axes.legend(title="servo [1/s²]", fontsize=7, title_fontsize=7, loc="upper right", frameon=False)
    axes.set_xlabel("stroke (dashed: limit of the rms)")
    axes.set_ylabel(f"error [{unit}]")
