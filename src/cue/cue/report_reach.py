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
    if share.shape != (len(x), len(y)):
        return ""
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(figsize=(6.4, 3.4))
        draw_table(axes, table)
        image = axes.pcolormesh(x, y, share.T, shading="gouraud", cmap="viridis", vmin=0.0, vmax=1.0, zorder=3)
        bar = figure.colorbar(image, ax=axes, fraction=0.022, pad=0.02)
        bar.set_label("share of strokes", color=INK)
        return as_svg(figure)
