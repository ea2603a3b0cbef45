"""Figures of what a session learnt where, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Circle, Ellipse, Rectangle

from cue.report_figures import ACCENT, FONT, INK, MUTED, as_svg, draw_table
from cue.report_learning import Learnt, Lesson, Played
from cue_agent.journal import EXPLORE, HELD_OUT
from cue_agent.surprise import CHI2_95, COLUMNS, REGIONS, ROWS
from cue_core.table import TableModel

_GAIN_MAP, _SURPRISE_MAP = plt.get_cmap("viridis_r"), plt.get_cmap("YlOrRd")
_WORST_LEVEL = 6.0  # that gets the darkest colour
_FARTHEST = 8.0  # stated deviations that are shown


def learning_figure(table: TableModel, learnt: Learnt) -> str:
    """Return the table twice: shots with what they were expected to teach, and surprise by region before and after."""
    with plt.rc_context(FONT):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.5))
        _draw_gains(left, table, [p for p in learnt.played if p.attempt.role == EXPLORE])
        _draw_regions(right, table, {lesson.trait: lesson for lesson in learnt.lessons})
        figure.tight_layout()
        return as_svg(figure)


def _draw_gains(axes: Axes, table: TableModel, played: Sequence[Played]) -> None:
    draw_table(axes, table)
    gains = [p.attempt.gain for p in played if math.isfinite(p.attempt.gain)]
    norm = Normalize(0.0, max([*gains, 1e-3]))
    for shot in played:
        if shot.record is None:
            continue
        gain = shot.attempt.gain
        tint = _GAIN_MAP(norm(gain)) if math.isfinite(gain) else MUTED
        for track in shot.record.tracks:
            axes.plot(*track.position.T, color=tint, lw=1.6, zorder=4, solid_capstyle="round")
        begin = next((b.position for b in shot.record.before if b.ball_id == 0), None)
        if begin is not None:
            axes.add_patch(Circle(tuple(begin), table.ball_radius, fc="white", ec=tint, lw=1.4, zorder=5))
            number = str(shot.record.index + 1)
            axes.text(float(begin[0]), float(begin[1]), number, ha="center", va="center", fontsize=6.5, zorder=6)
    axes.set_title("exploration shots, by expected gain", fontsize=9)
    if gains:
        bar = axes.figure.colorbar(ScalarMappable(norm, _GAIN_MAP), ax=axes, fraction=0.022, pad=0.01)
        bar.set_label("nat", fontsize=8)
        bar.ax.tick_params(labelsize=7)


def _draw_regions(axes: Axes, table: TableModel, lessons: dict[str, Lesson]) -> None:
    draw_table(axes, table)
    width, height = table.length / len(COLUMNS), table.width / len(ROWS)
    norm = Normalize(1.0, _WORST_LEVEL)
    for place, name in enumerate(REGIONS):
        row, column = divmod(place, len(COLUMNS))
        corner = np.array([-table.length / 2 + column * width, -table.width / 2 + row * height])
        lesson = lessons[name]
        for half, level in enumerate((lesson.level, lesson.level_after)):
            tint = _SURPRISE_MAP(norm(max(level, 1.0))) if math.isfinite(level) else "#eceff1"
            at = (corner[0] + half * width / 2, corner[1])
            axes.add_patch(Rectangle(at, width / 2, height, fc=tint, ec="none", alpha=0.75, zorder=3))
        axes.add_patch(Rectangle(tuple(corner), width, height, fc="none", ec="white", lw=2, zorder=4))
        middle = corner + np.array([width, height]) / 2
        lines = (
            (0.16, 9.5, f"{_level(lesson.level)} → {_level(lesson.level_after)}"),
            (-0.06, 7.5, f"{_cm(lesson.error)} → {_cm(lesson.error_after)}"),
            (-0.24, 7.5, f"{lesson.shots:.1f} shots"),
        )
        for up, size, words in lines:
            high = float(middle[1] + up * height)
            axes.text(float(middle[0]), high, words, ha="center", va="center", fontsize=size, zorder=5)
    axes.set_title("surprise by region: exploration → held out; rest error: unfitted → calibrated", fontsize=9)


def _level(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}"


def _cm(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} cm"


def coverage_figure(table: TableModel, learnt: Learnt) -> str:
    """Return how far each ball came to rest from where it was stated to, and the stated regions of held-out shots."""
    with plt.rc_context(FONT):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.3), gridspec_kw={"width_ratios": [1, 1.15]})
        _draw_distances(left, learnt)
        _draw_ellipses(right, table, [p for p in learnt.played if p.attempt.role == HELD_OUT])
        figure.tight_layout()
        return as_svg(figure)


def _draw_distances(axes: Axes, learnt: Learnt) -> None:
    told = [p for p in learnt.played if p.attempt.residual is not None]
    for role, tint, label in ((EXPLORE, ACCENT, "exploration"), (HELD_OUT, "#c0602a", "held out")):
        points = [
            (learnt.played.index(p) + 1, min(math.sqrt(z), _FARTHEST))
            for p in told
            if p.attempt.role == role and p.attempt.residual is not None
            for z in p.attempt.residual.z2.values()
        ]
        if points:
            axes.plot(*np.array(points).T, "o", color=tint, ms=4.5, alpha=0.75, label=label)
    axes.axhline(math.sqrt(CHI2_95), color=INK, lw=1, ls="--")
    axes.text(0.995, math.sqrt(CHI2_95) + 0.1, "95 %", ha="right", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_ylim(0, _FARTHEST + 0.3)
    axes.set_xlim(0.5, len(learnt.played) + 0.5)
    axes.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
    axes.set_xlabel("shot")
    axes.set_ylabel("off, in stated deviations")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("predicted before the shot and seen after it, ball by ball", fontsize=9)


def _draw_ellipses(axes: Axes, table: TableModel, played: Sequence[Played]) -> None:
    draw_table(axes, table)
    for shot in played:
        expected, residual = shot.attempt.expected, shot.attempt.residual
        if expected is None or residual is None or shot.record is None:
            continue
        seen = {b.ball_id: b.position for b in shot.record.after if b.in_play}
        for ball_id, z2 in residual.z2.items():
            row = expected.ball_ids.index(ball_id)
            variance, ways = np.linalg.eigh(expected.covariance[row])
            size = 2 * np.sqrt(CHI2_95 * np.maximum(variance, 0.0))
            tint = ACCENT if z2 <= CHI2_95 else "#c0302a"
            turn = math.degrees(math.atan2(ways[1, 1], ways[0, 1]))
            place = tuple(expected.rest[row])
            axes.add_patch(Ellipse(place, size[1], size[0], angle=turn, fc=tint, alpha=0.18, zorder=4))
            axes.add_patch(Ellipse(place, size[1], size[0], angle=turn, fc="none", ec=tint, lw=0.9, zorder=5))
            if ball_id in seen:
                at = float(seen[ball_id][0]), float(seen[ball_id][1])
                axes.plot(*at, "o", color=tint, ms=3, zorder=6)
                number = str(shot.record.index + 1)
                axes.annotate(number, at, (3, 3), textcoords="offset points", fontsize=6.5, zorder=6)
    axes.set_title("held-out shots: stated 95 % regions, and where balls came to rest (shot's number)", fontsize=9)
