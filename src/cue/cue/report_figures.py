"""Figures of the report, as SVG text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # the backend must be chosen first
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from cue.report_data import HeldOutShot, RevisionError
from cue_core.balls import ball_colour
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.table import TableModel
from cue_sim.twin import Trajectory

INK, MUTED, ACCENT = "#1f2933", "#8a94a0", "#0b6e8f"
FONT: Any = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "text.color": INK}


def as_svg(figure: Figure) -> str:
    """Return the figure as SVG that can stand in a page and scales with it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for size in ("width", "height"):  # the page decides, not the picture
        text = re.sub(rf'(<svg[^>]*?) {size}="[^"]+"', r"\1", text, count=1)
    return text


def draw_table(axes: Axes, table: TableModel) -> None:
    """Draw cloth, cushions and pockets, seen from above, and set the limits."""
    edge = 0.5 * table.rail_width
    x, y = table.length / 2, table.width / 2
    axes.add_patch(Rectangle((-x - edge, -y - edge), 2 * (x + edge), 2 * (y + edge), color="#c9b79c", zorder=0))
    axes.add_patch(Rectangle((-x, -y), 2 * x, 2 * y, color="#e8f0f3", zorder=1))
    for pocket in table.pockets:
        axes.add_patch(Circle(tuple(pocket.position), pocket.radius, color="#3a3f45", zorder=2))
    for cushion in table.cushions:
        axes.plot(*np.stack([cushion.start, cushion.end]).T, color="#4b7282", lw=1.6, zorder=2, solid_capstyle="butt")
    axes.set_xlim(-x - edge, x + edge)
    axes.set_ylim(-y - edge, y + edge)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_prediction(axes: Axes, shot: HeldOutShot, trajectory: Trajectory, style: str, colour: str | None) -> None:
    for column, ball_id in enumerate(shot.ball_ids):
        path = trajectory.positions[:, column]
        if np.ptp(path, axis=0).max() < 0.003:
            continue
        tint = colour or _line_colour(ball_id)
        axes.plot(path[:, 0], path[:, 1], style, color=tint, lw=1.0, zorder=3 if colour else 5)
        marker = "x" if trajectory.pocketed[-1, column] else "o"
        axes.plot(*trajectory.rest_positions[column], marker, color=tint, ms=4, mfc="none", zorder=5)


def _line_colour(ball_id: int) -> str:
    """Return a colour that stands out on the light cloth: the cue ball's white would not."""
    if ball_id == 0:
        return INK
    red, green, blue = ball_colour(ball_id)[1]
    return matplotlib.colors.to_hex((0.85 * red, 0.85 * green, 0.85 * blue))


def _draw_shot(axes: Axes, table: TableModel, shot: HeldOutShot) -> None:
    """Draw one held-out shot: balls before it, observed tracks, both predictions, errors as the title."""
    draw_table(axes, table)
    for ball in shot.record.before:
        if ball.in_play:
            face = ball_colour(ball.ball_id)[1]
            place = tuple(ball.position)
            axes.add_patch(Circle(place, table.ball_radius, fc=face, ec=INK, lw=0.5, alpha=0.35, zorder=4))
    _draw_prediction(axes, shot, shot.unfitted, ":", MUTED)
    for track in shot.record.tracks:
        tint = _line_colour(track.ball_id)
        axes.plot(*track.position.T, "-", color=tint, lw=3.0, alpha=0.35, zorder=4, solid_capstyle="round")
        face = ball_colour(track.ball_id)[1]
        axes.add_patch(Circle(tuple(track.position[-1]), table.ball_radius, fc=face, ec=INK, lw=0.6, zorder=4))
    _draw_prediction(axes, shot, shot.calibrated, "-", None)
    axes.set_title(
        f"shot {shot.record.index + 1}: rest error {100 * shot.unfitted_error:.1f} cm unfitted, "
        f"{100 * shot.calibrated_error:.1f} cm calibrated",
        fontsize=8.5,
    )


def _shot_legend(figure: Figure, place: tuple[float, float]) -> None:
    legend = [
        Line2D([], [], color=INK, lw=3, alpha=0.35, label="observed"),
        Line2D([], [], color=INK, lw=1, marker="o", mfc="none", ms=4, label="calibrated twin"),
        Line2D([], [], color=MUTED, lw=1, ls=":", marker="o", mfc="none", ms=4, label="unfitted twin"),
    ]
    figure.legend(handles=legend, loc="lower center", ncols=3, frameon=False, bbox_to_anchor=place)


def held_out_figure(table: TableModel, shots: Sequence[HeldOutShot]) -> str:
    """Return one panel per held-out shot: observed, calibrated and unfitted tracks."""
    columns = min(2, max(1, len(shots)))
    rows = -(-len(shots) // columns)
    with plt.rc_context(FONT):
        figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.0 * rows), squeeze=False)
        for axes in grid.flat[len(shots) :]:
            axes.axis("off")
        for axes, shot in zip(grid.flat, shots, strict=False):
            _draw_shot(axes, table, shot)
        _shot_legend(figure, (0.5, -0.03))
        figure.tight_layout()
        return as_svg(figure)


def overview_picture(table: TableModel, shots: Sequence[HeldOutShot], camera: Path, target: Path) -> None:
    """Write a PNG: what the camera saw beside the held-out shot that the unfitted twin predicted worst."""
    with plt.rc_context(FONT):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.2))
        left.imshow(plt.imread(camera))
        left.axis("off")
        left.set_title("what the camera saw, with the table and balls that were found", fontsize=8.5)
        _draw_shot(right, table, max(shots, key=lambda shot: shot.unfitted_error))
        _shot_legend(figure, (0.76, -0.06))
        figure.tight_layout()
        figure.savefig(target, dpi=130, bbox_inches="tight", metadata={"Software": None})
        plt.close(figure)


def error_figure(curve: Sequence[RevisionError]) -> str:
    """Return the held-out errors of each estimate against the shots it was fitted to, on a logarithmic scale."""
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(figsize=(5.6, 3.0))
        shots = [point.shots for point in curve]
        for label, values, tint, marker in (
            ("rest position", [p.rest_error for p in curve], ACCENT, "o"),
            ("along track", [p.along_track_error for p in curve], "#c0602a", "s"),
        ):
            axes.plot(shots, [100 * v for v in values], marker=marker, color=tint, lw=1.5, ms=5, label=label)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        axes.set_xticks(sorted(set(shots)))
        axes.set_xlabel("shots fitted (0 = unfitted twin)")
        axes.set_ylabel("mean held-out error [cm]")
        axes.grid(True, which="both", color="#e3e7eb", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        return as_svg(figure)


def parameter_figure(estimate: ParameterEstimate) -> str:
    """Return every fitted parameter within its bounds: nominal as a tick, the estimate with two standard deviations."""
    rows = [i for i in range(len(estimate.values)) if not estimate.frozen[i]]
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(figsize=(5.6, 0.34 * max(1, len(rows)) + 0.7))
        for level, i in enumerate(reversed(rows)):
            parameter = list(PARAMETERS.values())[i]
            span = parameter.maximum - parameter.minimum
            value, nominal = ((v - parameter.minimum) / span for v in (estimate.values[i], parameter.nominal))
            axes.plot([0, 1], [level, level], color="#d5dbe1", lw=4, solid_capstyle="round", zorder=1)
            axes.plot([nominal] * 2, [level - 0.28, level + 0.28], color=MUTED, lw=1.5, zorder=2)
            tint = ACCENT if estimate.identifiable[i] else "#b0b7bf"
            axes.errorbar(
                value, level, xerr=2 * estimate.stddevs[i] / span, fmt="o", color=tint, ms=5, capsize=3, zorder=3
            )
            axes.text(-0.02, level, parameter.name.replace("_", " "), ha="right", va="center")
            axes.text(1.02, level, f"{estimate.values[i]:.4g}", ha="left", va="center")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.axis("off")
        return as_svg(figure)
