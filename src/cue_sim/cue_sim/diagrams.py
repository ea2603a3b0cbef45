"""Diagrams of the laws, drawn from the laws themselves. ``python -m cue_sim.diagrams FOLDER``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from cue_core.errors import CueError
from cue_core.parameters import nominal_values
from cue_core.shots import MISCUE_OFFSET, Shot
from cue_core.table import Pocket, TableModel
from cue_sim.geometry import NOSE_RADIUS, contact_tilt, longest_visit, nose_segments
from cue_sim.laws import BallImpact, ClothMotion, CushionImpact, Laws, available, find
from cue_sim.strike import strike
from cue_sim.twin import Start, Twin

_COLOURS = ("#1f5fa8", "#c8452d", "#3a8f4d", "#8a5aa8", "#b8860b", "#555555")
_RUBBER, _CLOTH = "#2c6fae", "#dce9f5"


def _figure(panels: int, height: float = 3.6) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(4.4 * panels, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax in axes:
        ax.grid(alpha=0.3, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def _laws(**extras: Any) -> Laws:
    return Laws.from_parameters(nominal_values(), **extras)


def draw_cloth(table: TableModel) -> Figure:
    """Return how a ball comes to roll, and the bent ways of balls that lean."""
    law, laws, radius = find("cloth", _laws().cloth_law), _laws(), table.ball_radius
    figure, (speeds, ways) = _figure(2)
    times = np.linspace(0, 1.6, 400)
    for v0, w0, colour, name in (
        (1.5, 0.0, _COLOURS[0], "stunned"),
        (1.5, -1.5, _COLOURS[1], "draw"),
        (1.5, 2.5, _COLOURS[2], "follow"),
    ):
        spin = np.tile([0.0, w0 / radius, 0.0], (400, 1))
        start = ClothMotion(np.zeros((400, 2)), np.tile([v0, 0.0], (400, 1)), spin, times, radius)
        after = law(start, laws)
        speeds.plot(times, after.velocity[:, 0], color=colour, label=f"{name}: v")
        speeds.plot(times, radius * after.spin[:, 1], color=colour, linestyle="--", linewidth=1, label="R w")
        rolls = int(np.argmax(np.abs(after.velocity[:, 0] - radius * after.spin[:, 1]) < 1e-9))
        speeds.plot(times[rolls], after.velocity[rolls, 0], "o", color=colour, markersize=4)
    speeds.set(xlabel="time [s]", ylabel="[m/s]", title="Sliding until v = R w, then rolling", xlim=(0, 1.6))
    speeds.legend(fontsize=7, ncols=3, loc="lower right")
    times = np.linspace(0, 2.0, 400)
    for lean, colour in zip((0.0, 0.5, 1.0, 2.0), _COLOURS, strict=False):
        spin = np.tile([-lean * 1.2 / radius, -1.2 / radius, 0.0], (400, 1))
        start = ClothMotion(np.zeros((400, 2)), np.tile([1.2, 0.0], (400, 1)), spin, times, radius)
        after = law(start, laws)
        slip = np.linalg.norm(after.velocity - radius * np.stack([after.spin[:, 1], -after.spin[:, 0]], -1), axis=1)
        ways.plot(*after.position.T, color=colour, label=f"R w across = {lean:g} v")
        rolls = int(np.argmax(slip < 1e-9))
        ways.plot(*after.position[rolls], "o", color=colour, markersize=4)
    ways.set(xlabel="x [m]", ylabel="y [m]", title="Draw about a leaning axis bends the way")
    ways.legend(fontsize=7)
    return figure


def draw_ball(table: TableModel) -> Figure:
    """Return throw and speeds after an impact of two balls, over the cut angle, and what other laws make of it."""
    radius, mass = table.ball_radius, table.ball_mass
    cuts = np.radians(np.linspace(0, 88, 177))
    figure, (throw, speeds, others) = _figure(3)

    def after(speed: float, rolling: bool, laws: Laws, law: str = _laws().ball_law) -> Any:
        velocity = np.zeros((len(cuts), 2, 2))
        velocity[:, 0] = speed * np.stack([np.sin(cuts), np.cos(cuts)], -1)
        spin = np.zeros((len(cuts), 2, 3))
        if rolling:
            spin[:, 0, 0], spin[:, 0, 1] = -velocity[:, 0, 1] / radius, velocity[:, 0, 0] / radius
        return find("ball", law)(BallImpact(velocity, spin, (radius, radius), (mass, mass)), laws)

    falling = _laws(ball_friction_floor=0.00995, ball_friction_decay=1.088)
    for laws, style, name in ((_laws(), "-", ""), (falling, "--", ", friction falls with slip")):
        for (speed, rolling), colour in zip(((0.5, False), (2.0, False), (2.0, True)), _COLOURS, strict=False):
            if style == "-" and speed == 0.5:
                continue  # at constant friction the speed does not matter
            out = after(speed, rolling, laws).velocity[:, 1]
            label = f"{'rolling' if rolling else 'stunned'}" + (f" {speed:g} m/s{name}" if style == "--" else "")
            angle = np.degrees(np.arctan2(out[:, 0], out[:, 1]))
            throw.plot(np.degrees(cuts), angle, style, color=colour, label=label)
    throw.set(xlabel="cut angle [deg]", ylabel="throw off the line of centres [deg]", title="Ball on ball: throw")
    throw.set_ylim(0, 6)
    throw.legend(fontsize=7, loc="upper left")
    out = after(1.0, False, _laws()).velocity
    speeds.plot(np.degrees(cuts), np.linalg.norm(out[:, 1], axis=1), color=_COLOURS[0], label="struck ball")
    speeds.plot(np.degrees(cuts), np.linalg.norm(out[:, 0], axis=1), color=_COLOURS[1], label="cue ball, stunned")
    spread = np.degrees(np.arccos(np.sum(out[:, 0] * out[:, 1], -1) / np.prod(np.linalg.norm(out, axis=-1), -1)))
    angle = speeds.twinx()
    angle.plot(np.degrees(cuts), spread, color=_COLOURS[5], linewidth=1, linestyle=":")
    angle.set(ylim=(0, 100), ylabel="angle between them [deg], dotted")
    speeds.set(xlabel="cut angle [deg]", ylabel="speed after / before", title="Speeds just after", ylim=(0, 1.05))
    speeds.legend(fontsize=7, loc="center left")
    share = others.twinx()
    for name, colour in zip(available("ball"), _COLOURS, strict=False):
        out = after(2.0, True, _laws(), name).velocity[:, 1]
        others.plot(np.degrees(cuts), np.degrees(np.arctan2(out[:, 0], out[:, 1])), color=colour, label=name)
        kept = np.linalg.norm(out, axis=1) / (2.0 * np.cos(cuts))
        share.plot(np.degrees(cuts), kept, color=colour, linewidth=1, linestyle=":")
    others.set(xlabel="cut angle [deg]", ylabel="throw [deg]", title="A rolling cue ball at 2 m/s, by every law")
    others.title.set_fontsize(10)
    share.set(ylim=(0.9, 1.0), ylabel="speed of the struck ball / v cos(cut), dotted")
    others.legend(fontsize=7, loc="lower right")
    return figure


def draw_cushion(table: TableModel) -> Figure:
    """Return rebounds of a rolling ball by every cushion law, over the angle of incidence."""
    radius, angles = table.ball_radius, np.radians(np.linspace(0, 85, 171))
    figure, axes = _figure(3)
    velocity = 1.5 * np.stack([np.sin(angles), np.cos(angles)], -1)
    spin = np.stack([-velocity[:, 1], velocity[:, 0], np.zeros(len(angles))], -1) / radius
    impact = CushionImpact(velocity, spin, radius, table.ball_mass, contact_tilt(table))
    for name, colour in zip(available("cushion"), _COLOURS * 2, strict=False):
        after = find("cushion", name)(impact, _laws())
        rolled = 5 / 7 * after.velocity + 2 / 7 * radius * np.stack([after.spin[:, 1], -after.spin[:, 0]], -1)
        for ax, out in ((axes[0], after.velocity), (axes[1], rolled)):
            rebound = np.degrees(np.unwrap(np.arctan2(out[:, 0], -out[:, 1])))
            ax.plot(np.degrees(angles), rebound, color=colour, label=name, **_style(name))
        speed = np.linalg.norm(after.velocity, axis=1) / 1.5
        axes[2].plot(np.degrees(angles), speed, color=colour, label=name, **_style(name))
    for ax, title in ((axes[0], "Rebound angle at once"), (axes[1], "Rebound angle once rolling")):
        ax.plot([0, 85], [0, 85], color="#999999", linewidth=0.8, linestyle=":")
        ax.set(xlabel="angle of incidence, from the normal [deg]", ylabel="[deg]", title=title)
    axes[2].set(
        xlabel="angle of incidence, from the normal [deg]", ylabel="speed after / before", title="Speed at once"
    )
    axes[0].legend(fontsize=7)
    return figure


def _style(law: str) -> dict[str, Any]:
    """Return how a cushion law is drawn: the default one broadly, so that those which agree with it are seen."""
    return {"linewidth": 4.0, "alpha": 0.35} if law == _laws().cushion_law else {"linewidth": 1.3}


def draw_strike(table: TableModel) -> Figure:
    """Return squirt, speed and spin over the tip's offset."""
    figure, (squirt, speed) = _figure(2)
    offsets = np.linspace(0, MISCUE_OFFSET, 101)
    sides = [strike(nominal_values(), table, Shot("side", 1.0, 0.0, side_offset=float(a))) for a in offsets]
    squirt.plot(offsets, [-math.degrees(math.atan2(v[1], v[0])) for v, _ in sides], color=_COLOURS[0])
    squirt.set(ylabel="squirt, away from the tip's side [deg]", title="Strike: squirt")
    speed.plot(offsets, [np.linalg.norm(v) for v, _ in sides], color=_COLOURS[0], label="speed / tip speed")
    spins = [table.ball_radius * np.linalg.norm(w) for _, w in sides]
    speed.plot(offsets, spins, color=_COLOURS[1], label="R w / tip speed")
    speed.axvline(0.4, color="#999999", linewidth=0.8, linestyle=":")
    speed.text(0.395, 0.1, "above the centre: rolls at once", rotation=90, fontsize=7, ha="right")
    speed.set(title="Speed and spin", ylim=(0, None))
    speed.legend(fontsize=7, loc="center left", bbox_to_anchor=(0.0, 0.72))
    for ax in (squirt, speed):
        ax.axvspan(MISCUE_OFFSET, 0.6, color=_COLOURS[1], alpha=0.15, linewidth=0)
        ax.text(0.55, np.mean(ax.get_ylim()), "miscue", rotation=90, ha="center", va="center", fontsize=8)
        ax.set(xlabel="tip offset [ball radii]", xlim=(0, 0.6))
    return figure


def draw_cluster(table: TableModel) -> Figure:
    """Return what a cue ball does to two to five frozen balls in line, and to a frozen pair it meets between them."""
    figure, (line, _) = _figure(2)
    diameter = 2 * table.ball_radius
    moments = np.array([0.0, 1e-3, 3e-3])
    for count, colour in zip((2, 3, 4, 5), _COLOURS, strict=False):
        places = np.stack([diameter * np.arange(count + 1), np.zeros(count + 1)], -1) - [0.2, 0]
        speed = _speeds_after(table, places, moments)
        line.plot(np.arange(count + 1), speed[:, 0], "o-", color=colour, linewidth=0.8, label=f"{count} frozen")
    line.plot([0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 1], "x", color="#999999", label="one after the other")
    line.set(xlabel="place in the line, 0 = cue ball", ylabel="speed after / before", title="Balls that touch, in line")
    line.legend(fontsize=7)
    ax = figure.axes[1]
    ax.set(title="A frozen pair struck between", aspect="equal", xlabel="x [ball radii]", ylabel="y [ball radii]")
    places = table.ball_radius * np.array([[0, 0], [math.sqrt(3), 1], [math.sqrt(3), -1]])
    speed = _speeds_after(table, places, moments)
    for place, out, colour in zip(places / table.ball_radius, speed, ("#ffffff", *_COLOURS[:2]), strict=True):
        ax.add_patch(Circle(tuple(place), 1, facecolor=colour, edgecolor="#333333", alpha=0.6))
        ax.annotate("", place + 3 * out, place, arrowprops={"arrowstyle": "->", "linewidth": 1.5})
    ax.annotate("", (-1.1, 0), (-4.1, 0), arrowprops={"arrowstyle": "->", "linewidth": 1.5, "linestyle": ":"})
    ax.set(xlim=(-4.5, 6), ylim=(-3.6, 3.6))
    return figure


def _speeds_after(table: TableModel, places: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return the (n, 2) velocities just after ball 0 came at 1 m/s along x, from its way in the next 2 ms."""
    twin = Twin(table, tuple(range(len(places))))
    start = Start.at_rest(places)
    start.velocities[0] = [1.0, 0.0]
    path = twin.simulate(start, None, moments, horizon=0.01)
    return (path.positions[2] - path.positions[1]) / (moments[2] - moments[1])


def draw_pockets(table: TableModel) -> Figure:
    """Return the plan of a corner and a side pocket with balls that drop and rattle, and how long a fall takes."""
    figure, axes = _figure(3, 4.2)
    twin = Twin(table, (0,))
    for ax, name in zip(axes, ("corner_ne", "side_n"), strict=False):
        pocket = next(p for p in table.pockets if p.name == name)
        _plan(ax, table, pocket)
    x, y = table.length / 2, table.width / 2
    rail = np.array([x - 0.35, y - table.ball_stop - 0.95 * table.ball_radius])  # the ways to the corner run along it
    for ax, colour, speed, angle in (
        (axes[0], _COLOURS[2], 1.2, 90),
        (axes[0], _COLOURS[1], 3.0, 90),
        (axes[1], _COLOURS[2], 1.5, 35),
        (axes[1], _COLOURS[1], 1.5, 62),
    ):
        aim = np.array([math.sin(math.radians(angle)), math.cos(math.radians(angle))])
        begin = rail if angle == 90 else np.array([0.025 if angle > 50 else 0.0, y]) - 0.25 * aim
        spin = np.array([[-aim[1], aim[0], 0.0]]) * speed / table.ball_radius
        start = Start(begin[None], speed * aim[None], spin, np.array([True]))
        path = twin.simulate(start, None, np.arange(0, 1.0, 0.002))
        end = "drops" if path.rest_pocketed[0] else "comes out"
        label = f"{speed:g} m/s{'' if angle == 90 else f', {angle} deg'}: {end}"
        ax.plot(*path.positions[~path.pocketed[:, 0], 0].T, color=colour, linewidth=1.2, label=label)
        ax.legend(fontsize=7, loc="lower left")
    speeds = np.linspace(0.01, 6, 300)
    visit = np.array([longest_visit(float(v), table.ball_radius) for v in speeds])
    axes[2].plot(speeds, 1e3 * visit, color=_COLOURS[0], label="time it may be over the drop [ms]")
    axes[2].plot(speeds, 1e3 * speeds * visit, color=_COLOURS[1], label="way it makes meanwhile [mm]")
    axes[2].axhline(2e3 * table.drop_radius, color="#999999", linewidth=0.8, linestyle=":")
    axes[2].text(5.9, 2e3 * table.drop_radius, "across the drop [mm]", fontsize=7, ha="right", va="bottom")
    axes[2].set(xlabel="speed [m/s]", ylim=(0, 2.6e3 * table.drop_radius), title="When a ball is lost to the fall")
    axes[2].legend(fontsize=7, loc="lower right")
    return figure


def _plan(ax: Any, table: TableModel, pocket: Pocket) -> None:
    """Draw noses, facings, drop and names around one pocket."""
    side = pocket.name.startswith("side")
    inwards = -np.sign(pocket.position) * (np.array([0.0, 1.0]) if side else np.array([1.0, 1.0]))
    inwards /= np.linalg.norm(inwards)
    shelf, mouth = (table.side_shelf, table.side_mouth) if side else (table.corner_shelf, table.corner_mouth)
    middle = pocket.position + (pocket.radius + shelf) * inwards
    across = np.array([inwards[1], -inwards[0]])
    reach, radius = 2.1 * pocket.radius, table.ball_radius
    ax.set_facecolor(_CLOTH)
    for name, (_, start, end) in nose_segments(table).items():
        way = (end - start) / np.linalg.norm(end - start)
        thick = NOSE_RADIUS * radius * np.array([-way[1], way[0]])
        outline = [start + thick, end + thick, end - thick, start - thick]
        jaw = name.startswith("jaw")
        ax.add_patch(Polygon(outline, closed=True, facecolor=_RUBBER, alpha=0.9 if jaw else 0.55, linewidth=0))
        for tip in (start, end):
            ax.add_patch(Circle(tuple(tip), NOSE_RADIUS * radius, facecolor=_RUBBER, linewidth=0))
    ax.add_patch(Circle(tuple(pocket.position), pocket.radius, facecolor="#222222", linewidth=0))
    wholly = max(pocket.radius - radius, 0.3 * pocket.radius)
    ax.add_patch(Circle(tuple(pocket.position), wholly, fill=False, edgecolor="#cccccc", linewidth=0.8, linestyle=":"))
    tips = [middle + 0.5 * mouth * across, middle - 0.5 * mouth * across]
    ax.plot(*np.array(tips).T, color="#333333", linewidth=0.9, linestyle="--")
    _name(ax, "mouth", middle + 0.12 * mouth * across, middle + 0.8 * radius * inwards + 0.8 * mouth * across)
    edge = pocket.position + pocket.radius * inwards
    ax.annotate("", edge, middle, arrowprops={"arrowstyle": "<->", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0})
    _name(
        ax, f"shelf {1e3 * shelf:.0f} mm", (edge + middle) / 2, middle + 1.6 * radius * inwards - 0.75 * mouth * across
    )
    ax.text(*pocket.position, "drop", color="white", fontsize=7, ha="center", va="center")
    ball = middle + 1.9 * radius * inwards
    ax.add_patch(Circle(tuple(ball), radius, fill=False, edgecolor="#777777", linewidth=0.8))
    ax.set(xlim=middle[0] + np.array([-reach, reach]), ylim=middle[1] + np.array([-reach, reach]), aspect="equal")
    cut = f"facings cut at {104 if side else 142} deg"
    ax.set(title=f"{'Side' if side else 'Corner'} pocket, {table.name}; {cut}", xlabel="x [m]", ylabel="y [m]")
    ax.title.set_fontsize(10)
    ax.grid(False)


def _name(ax: Any, text: str, place: np.ndarray, label: np.ndarray) -> None:
    ax.annotate(text, place, label, fontsize=7, arrowprops={"arrowstyle": "-", "linewidth": 0.6}, ha="center")


DIAGRAMS: dict[str, Callable[[TableModel], Figure]] = {
    "cloth": draw_cloth,
    "ball": draw_ball,
    "cushion": draw_cushion,
    "strike": draw_strike,
    "cluster": draw_cluster,
    "pockets": draw_pockets,
}
"""By the file's name, without ``.png``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the diagrams of the documentation."""
    parser = argparse.ArgumentParser(prog="python -m cue_sim.diagrams", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where to put the PNG files")
    parser.add_argument("--table", type=Path, default=Path("config/tables/9ft.yaml"), help="preset")
    options = parser.parse_args(arguments)
    try:
        table = TableModel.load(options.table)
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, draw in DIAGRAMS.items():
            draw(table).savefig(options.folder / f"{name}.png", dpi=110)
    except CueError as problem:
        sys.stderr.write(f"diagrams: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
