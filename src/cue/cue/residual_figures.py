"""Pictures of residuals: by contact, place, speed, time and shot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from cue.report_figures import ACCENT, FONT, INK, MUTED, draw_table
from cue.residual_data import BALL, CUSHION, KINDS, MISSED, MOST_CONTACTS, SPEEDS, STRIKE, TIMES, Residuals, Samples
from cue_core.table import TableModel

_COLOURS = {STRIKE: MUTED, CUSHION: "#c0602a", BALL: ACCENT, MISSED: "#7b3f99"}
_FEWEST = 5  # samples that make a box or a point of a curve
_CELLS = (6, 3)  # of the map, along and across the table
_FEWEST_BENDS = 2  # that make a cell of it
_LEAST_SCALE = 25.0  # [mm/s^2] of its colours, a third of what slows a rolling ball: noise must not look like a find


def _millimetres(axes: Axes, low: float = 0.1) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low), max(top, 10 * low))
    _plain(axes)
    axes.set_ylabel("error [mm]")


def _plain(axes: Axes) -> None:
    axes.grid(True, axis="y", color="#e3e7eb", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def by_contact(samples: Samples) -> Figure:
    """Draw the size of the error by the number of contacts behind a ball's motion and the last one's kind."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    labels = []
    for count in range(MOST_CONTACTS + 1):
        here = samples.contacts >= count if count == MOST_CONTACTS else samples.contacts == count
        kinds = [kind for kind in _COLOURS if (here & (samples.kind == kind)).sum() >= _FEWEST]
        for k, kind in enumerate(kinds):
            size = 1000 * samples.size[here & (samples.kind == kind)]
            place = count + 0.3 * (k - (len(kinds) - 1) / 2)
            _box(axes, place, size, _COLOURS[kind])
        tracks = len(np.unique(samples.shot[here] * 100 + samples.ball[here]))
        label = f"{count}+" if count == MOST_CONTACTS else f"{count}"
        labels.append(f"{label}\n{tracks} ball{'' if tracks == 1 else 's'}" if tracks else label)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("contacts behind the ball's motion; box: half of the samples, line: 90 % of them")
    _millimetres(axes)
    seen = [kind for kind in _COLOURS if (samples.kind == kind).any()]
    handles = [Line2D([], [], color=_COLOURS[kind], lw=6, label=KINDS[kind]) for kind in seen]
    axes.legend(handles=handles, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=8)
    return figure


def _box(axes: Axes, place: float, size: np.ndarray, colour: str) -> None:
    low, first, median, third, high = np.quantile(np.maximum(size, 0.01), [0.05, 0.25, 0.5, 0.75, 0.95])
    axes.plot([place] * 2, [low, high], color=colour, lw=1.2, zorder=2)
    axes.plot([place] * 2, [first, third], color=colour, lw=9, solid_capstyle="butt", zorder=3)
    axes.plot([place - 0.09, place + 0.09], [median] * 2, color="white", lw=1.8, zorder=4)


def by_speed(samples: Samples) -> Figure:
    """Draw the error along and across the way against the ball's speed, before and after the first contact."""
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.4), sharey=True)
    parts = ((samples.contacts == 0, MUTED, "before the first contact"), (samples.contacts > 0, ACCENT, "after it"))
    edges = np.array([e for e in SPEEDS[1:] if np.isfinite(e)])
    for axes, values, name in (
        (panels[0], samples.along, "along the way, + = predicted too far"),
        (panels[1], samples.across, "to the left of it"),
    ):
        for mask, colour, label in parts:
            _band(axes, samples.speed[mask], 1000 * values[mask], edges, colour, label)
        axes.axhline(0.0, color=INK, lw=0.8)
        axes.set_xlabel("observed speed [m/s]")
        axes.set_title(name, fontsize=9, loc="left")
        _plain(axes)
    _signed(panels[0])  # both share it
    panels[0].set_ylabel("error [mm]: median and middle half")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    return figure


def _signed(axes: Axes) -> None:
    limits = axes.get_ylim()
    axes.set_yscale("symlog", linthresh=2.0)
    axes.set_yticks([sign * step for step in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) for sign in (-1, 1)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(min(limits[0], -2.0), max(limits[1], 2.0))


def _band(axes: Axes, where: np.ndarray, values: np.ndarray, edges: np.ndarray, colour: str, label: str) -> None:
    """Draw median and middle half of values within bins of ``where``, at the bins' medians."""
    places, rows = [], []
    for low, high in itertools.pairwise(edges):
        inside = (where >= low) & (where < high) & np.isfinite(values)
        if inside.sum() >= _FEWEST:
            places.append(float(np.median(where[inside])))
            rows.append(np.quantile(values[inside], [0.25, 0.5, 0.75]))
    if not rows:
        return
    first, median, third = np.array(rows).T
    axes.fill_between(places, first, third, color=colour, alpha=0.2, lw=0)
    axes.plot(places, median, "o-", color=colour, ms=4, lw=1.4, label=label)


def by_time(samples: Samples) -> Figure:
    """Draw the size of the error against the time since the strike."""
    figure, axes = plt.subplots(figsize=(7.2, 3.2))
    edges = np.unique(np.concatenate([[e for e in TIMES if np.isfinite(e)], np.arange(0.0, 12.0, 0.5)]))
    for kind, colour in _COLOURS.items():
        mask = samples.kind == kind
        _band(axes, samples.time[mask], 1000 * np.maximum(samples.size[mask], 1e-5), edges, colour, KINDS[kind])
    axes.set_xlabel("time since the strike [s]")
    _millimetres(axes)
    axes.set_title("median and middle half of the samples", fontsize=8.5, loc="left", color=MUTED)
    axes.legend(frameon=False, loc="lower right")
    return figure


def by_place(residuals: Residuals, table: TableModel) -> Figure:
    """Draw the acceleration of balls between contacts beyond the twin's, in each part of the table."""
    figure, axes = plt.subplots(figsize=(8.4, 4.6))
    draw_table(axes, table)
    half = np.array([table.length, table.width]) / 2
    found = [bend for bend in residuals.bends if (np.abs(bend.place) < half).all()]
    cells, middles, arrows, noise = np.full(_CELLS, np.nan), [], [], []
    index = np.array([((bend.place + half) / (2 * half) * _CELLS).astype(int) for bend in found]).reshape(-1, 2)
    for i, j in itertools.product(range(_CELLS[0]), range(_CELLS[1])):
        here = [bend for bend, cell in zip(found, index, strict=True) if tuple(cell) == (i, j)]
        if len(here) < _FEWEST_BENDS:
            continue
        cells[i, j] = 1000 * np.median([bend.along for bend in here])
        middles.append(((np.array([i, j]) + 0.5) / _CELLS * 2 - 1) * half)
        arrows.append(np.median([bend.missing for bend in here], axis=0))
        x, y = middles[-1] - [0, 0.34 * 2 * half[1] / _CELLS[1]]
        axes.text(x, y, str(len(here)), fontsize=6.5, ha="center")
        if len(here) > 2:
            noise.append(_spread([bend.along for bend in here]))
    if middles:
        extent = (-half[0], half[0], -half[1], half[1])
        largest = max(float(np.nanmax(np.abs(cells))), _LEAST_SCALE)
        picture = axes.imshow(
            cells.T, extent=extent, origin="lower", cmap="RdBu", vmin=-largest, vmax=largest, zorder=1.5, alpha=0.8
        )
        figure.colorbar(picture, ax=axes, shrink=0.75, pad=0.02).set_label("along the way [mm/s²], red: slower here")
        longest = max(float(np.max(np.linalg.norm(arrows, axis=1))), 1e-9)
        _arrows(axes, np.array(middles), np.array(arrows), 0.45 * 2 * half[0] / _CELLS[0] / longest)
        told = f"what the twin lacks between contacts; longest arrow {1000 * longest:.0f} mm/s², small numbers: balls"
        if noise:
            told += f"; a cell is known to about {1000 * np.median(noise):.0f} mm/s²"
    else:
        told = "too few balls that ran free, and near enough to the replay, for a map"
    axes.set_title(told, fontsize=8.5, loc="left", color=MUTED)
    return figure


def _spread(values: Sequence[float]) -> float:
    """Return the standard deviation of the median of a few values, from their middle half."""
    first, third = np.quantile(values, [0.25, 0.75])
    return float(1.2533 * (third - first) / 1.349 / np.sqrt(len(values)))


def _arrows(axes: Axes, places: np.ndarray, vectors: np.ndarray, scale: float) -> None:
    axes.quiver(
        *(places - 0.5 * scale * vectors).T,
        *(scale * vectors).T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        color=INK,
        width=0.0028,
        zorder=3,
    )


def at_contacts(residuals: Residuals) -> Figure:
    """Draw what single contacts gave beyond the twin's, against the speed, cushions by name and balls that set off."""
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.4), sharey=True)
    parts = (
        (panels[0], [kink for kink in residuals.kinks if kink.name != "ball"], "cushions", "towards the cushion"),
        (panels[1], [kink for kink in residuals.kinks if kink.name == "ball"], "balls set off", "of the ball set off"),
    )
    for axes, found, title, what in parts:
        for number, name in enumerate(sorted({kink.name for kink in found})):
            own = [kink for kink in found if kink.name == name]
            share = [100 * kink.outward / kink.speed for kink in own]
            tint = f"C{number}" if name != "ball" else ACCENT
            label = f"{name.replace('_', ' ')}: {np.median(share):+.1f} %" if name != "ball" else None
            axes.plot([kink.speed for kink in own], share, "o", ms=4, alpha=0.75, color=tint, label=label)
        axes.axhline(0.0, color=INK, lw=0.8)
        axes.set_xlabel(f"speed {what} [m/s]")
        axes.set_title(title, fontsize=9, loc="left")
        _plain(axes)
    every = [100 * kink.outward / kink.speed for kink in residuals.kinks]
    if every:
        low, high = np.quantile(every, [0.02, 0.98])
        panels[0].set_ylim(min(low, -2.0) - 2.0, max(high, 2.0) + 2.0)
        panels[0].legend(frameon=False, fontsize=7.5, ncols=2)
    panels[0].set_ylabel("outgoing speed beyond the twin's\n[% of the speed]")
    figure.tight_layout()
    return figure


def by_shot(residuals: Residuals) -> Figure:
    """Draw each shot's mean rest error, coloured by the number of contacts, so that single bad shots show."""
    figure, axes = plt.subplots(figsize=(9.6, 3.2))
    shots = [row for row in residuals.shots if np.isfinite(row.rest)]
    if shots:
        contacts = np.array([min(row.contacts, 8) for row in shots])
        tints = plt.get_cmap("viridis")(contacts / 8)
        axes.bar(range(len(shots)), [max(1000 * row.rest, 0.1) for row in shots], color=tints, width=0.8, bottom=0.1)
        step = max(1, len(shots) // 25)
        places = range(0, len(shots), step)
        axes.set_xticks(list(places), [str(shots[i].record.index) for i in places])
        scale = plt.cm.ScalarMappable(norm=plt.Normalize(0, 8), cmap="viridis")
        bar = figure.colorbar(scale, ax=axes, pad=0.01)
        bar.set_ticks([0, 2, 4, 6, 8], labels=["0", "2", "4", "6", "8+"])
        bar.set_label("contacts")
    axes.set_xlabel("number of the shot")
    _millimetres(axes)
    axes.set_ylabel("mean rest error [mm]")
    return figure


def pictures(residuals: Residuals, table: TableModel, folder: Path) -> dict[str, Path]:
    """Write all pictures as PNG; return their paths by name, in the order of a page.

    Raises:
        OSError: one cannot be written.
    """
    samples = residuals.samples
    found = {}
    with plt.rc_context(FONT):
        for name, figure in _figures(samples, residuals, table):
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=130, bbox_inches="tight", metadata={"Software": None})
            plt.close(figure)
            found[name] = path
    return found


def _figures(samples: Samples, residuals: Residuals, table: TableModel) -> Sequence[tuple[str, Figure]]:
    return (
        ("by_contact", by_contact(samples)),
        ("at_contacts", at_contacts(residuals)),
        ("by_place", by_place(residuals, table)),
        ("by_speed", by_speed(samples)),
        ("by_time", by_time(samples)),
        ("by_shot", by_shot(residuals)),
    )
