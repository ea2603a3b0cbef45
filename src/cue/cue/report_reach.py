"""The figure of where the arm can play, as SVG text."""

from __future__ import annotations

import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from cue.report_figures import FONT, INK, as_svg, draw_table
from cue_core.table import TableModel

_MAP_FILE = "reach.npz"  # cue_arm.reach_map.MAP_FILE, whose module loads MuJoCo


def reach_figure(table: TableModel, folder: Path) -> str:
    """Return the table with the share of directions in which a cue ball there can be struck; empty without a map."""
    try:
        with np.load(folder / _MAP_FILE, allow_pickle=False) as data:
            x, y, share = data["x"], data["y"], data["playable"]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return ""
    if share.shape != (len(x), len(y)) or min(share.shape) < 2:
        return ""
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(figsize=(6.4, 3.4))
        draw_table(axes, table)
        # An image, not shaded triangles: those show as diamonds in an SVG.
        half_x, half_y = np.ptp(x) / (2 * (len(x) - 1)), np.ptp(y) / (2 * (len(y) - 1))
        image = axes.imshow(
            share.T,
            origin="lower",
            extent=(x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y),
            interpolation="bilinear",
            cmap="viridis",
            vmin=0.0,
            vmax=1.0,
            zorder=3,
        )
        # Where a ball's centre can be: the outer half of the border's pixels lies in the cushions.
        image.set_clip_path(plt.Rectangle((x[0], y[0]), np.ptp(x), np.ptp(y), transform=axes.transData))
        bar = figure.colorbar(image, ax=axes, fraction=0.022, pad=0.02)
        bar.set_label("share of strokes", color=INK)
        return as_svg(figure)
