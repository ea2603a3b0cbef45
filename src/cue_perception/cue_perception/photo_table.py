"""The table in a picture from a camera of which nothing is known: its noses, and the view that fits them."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics
from cue_perception.cloth import ClothRegion
from cue_perception.cushions import Outline, find_outline
from cue_perception.errors import TableNotFoundError
from cue_perception.free_lens import Held, View, first_view, refine, usual_lens
from cue_perception.oblique import face_depths, long_sides_first, oblique_outlines
from cue_perception.photo_part import Part, cut
from cue_perception.table_signs import table_signs

_SPAN = 1200.0  # px: longer side of the cloth in the picture that is searched
USUAL = TableModel(
    name="unknown",
    length=2.0,
    width=1.0,
    ball_radius=0.0256,  # in the proportions of an eight-foot table, as is all else
    ball_mass=0.17,
    nose_height=0.0325,
    corner_mouth=0.103,
    side_mouth=0.115,
    corner_shelf=0.034,
    side_shelf=0.005,
    rail_width=0.12,
)
LENGTHS = (
    "length",
    "width",
    "ball_radius",
    "nose_height",
    "corner_mouth",
    "side_mouth",
    "corner_shelf",
    "side_shelf",
    "rail_width",
)
"""Fields of a table that grow with it."""
_DRIFT = 0.015  # of the diagonal: so far lens and edges may move corners
_WORST_RMS = 2.0  # px in the searched picture
_WORST_COST = 75.0
_POOR_VIEW = 120.0  # cost of a second camera that is not worth a search
_GOOD_COST = 40.0
_SURE_COST = 26.0  # a patch of cloth that explains all so well is the table
_BARE_COST = 6.0  # of each side without a cushion of the cloth's colour
_BLIND_COST = 15.0  # of an outline found without asking how much of its faces the cushions should show
_OBLIQUE_COST = 6.0  # per unit of an oblique outline's score below ...
_WHOLE = 8.0  # ... that of one whose edges are all seen


def nominal(table: TableModel) -> TableModel:
    """Return a table of the same shape and of nominal length."""
    factor = USUAL.length / table.length
    values = table.to_dict()
    values |= {name: values[name] * factor for name in LENGTHS}
    return TableModel.from_dict(values)


def nose_corners(camera: Camera, table: TableModel) -> np.ndarray:
    """Return the corners (4, 2) of the nose rectangle [px], top left first, clockwise in the image."""
    x, y, h = table.length / 2, table.width / 2, table.nose_height
    corners = camera.project(np.array([[-x, y, h], [x, y, h], [x, -y, h], [-x, -y, h]]))
    return np.roll(corners, -int(np.argmin(corners.sum(axis=1))), axis=0)


def best_table(
    image: np.ndarray, regions: list[ClothRegion], lens: Intrinsics | None, shape: TableModel, held: Held
) -> tuple[tuple[float, View, Part, ClothRegion] | None, list[str]]:
    """Return the cheapest (cost, view, part, region), and what spoke against the others."""
    problems: list[str] = []
    best: tuple[float, View, Part, ClothRegion] | None = None
    for region in regions:
        try:
            part, view, cost = _find_table(image, region, lens, shape, held)
        except TableNotFoundError as error:
            problems.append(str(error))
            continue
        if best is None or cost < best[0]:
            best = cost, view, part, region
        if cost < _SURE_COST:
            break
    return best, problems


def _find_table(
    image: np.ndarray, region: ClothRegion, lens: Intrinsics | None, shape: TableModel, held: Held
) -> tuple[Part, View, float]:
    part = cut(image, region.quad, _SPAN)
    lab = cv2.cvtColor(part.image.astype(np.float32) / 255, cv2.COLOR_BGR2LAB)
    colour = region.colour / np.array([2.55, 1, 1]) - np.array([0, 128, 128])
    whole = np.array([image.shape[1], image.shape[0]], float)
    radius = 0.5 * part.scale * float(np.hypot(*whole))
    h, w = part.image.shape[:2]
    if lens is not None:
        start = part.lens(lens)
    else:
        start = usual_lens(w, h, part.inside((whole - 1) / 2), part.scale * whole.max())
    quad = part.inside(region.quad)
    best: tuple[float, View] | None = None
    problems: list[str] = []
    for outlines in (_oblique, _overhead):
        views: list[tuple[float, View]] = []
        try:
            for cost, outline in outlines(lab, quad, colour, start, shape, held, radius):
                try:
                    for first in first_view(outline.lines, outline.corners, start, shape, held, radius)[:2]:
                        views.append((first.cost + cost, first))
                except TableNotFoundError as error:
                    problems.append(str(error))
        except TableNotFoundError as error:
            problems.append(str(error))
        views.sort(key=lambda item: item[0])
        for start_cost, first in _apart(views)[:3]:
            try:
                view = refine(lab, first, held, radius)
                before, after = (nose_corners(v.camera, v.table) for v in (first, view))
                if np.abs(after - before).max() > _DRIFT * np.linalg.norm(before[2] - before[0]):
                    raise TableNotFoundError("the edges near the lines found belong to other lines")
            except TableNotFoundError as error:
                problems.append(str(error))
                continue
            seen = table_signs(lab, view, colour)
            cost = view.cost + (start_cost - first.cost) + _BARE_COST * (4 - seen.cushions)
            if best is None or cost < best[0]:
                best = cost, view
        if best is not None and best[0] < _GOOD_COST:
            break
    if best is None:
        raise TableNotFoundError("; ".join(dict.fromkeys(problems)) or "no four lines fit a table")
    if best[1].rms > _WORST_RMS or best[0] > _WORST_COST:
        raise TableNotFoundError(
            f"the edges found fit no table: they scatter by {best[1].rms:.1f} px (misfit {best[0]:.0f}, allowed are"
            f" {_WORST_RMS} px and {_WORST_COST:.0f})"
        )
    seen = table_signs(lab, best[1], colour)
    if not seen.enough:
        raise TableNotFoundError(
            f"a rectangle of one colour, but no table: {seen.cushions} of its sides have a cushion of that colour,"
            f" {seen.pockets} a side pocket"
        )
    return part, best[1], best[0]


def _overhead(
    lab: np.ndarray,
    quad: np.ndarray,
    colour: np.ndarray,
    start: Intrinsics,
    shape: TableModel,
    held: Held,
    radius: float,
) -> list[tuple[float, Outline]]:
    """Return noses, and what speaks against them, of a table whose cloth ends at the frame on all sides."""
    aspect = shape.length / shape.width if held.aspect else None
    return [(_BLIND_COST - 3 * outline.score, outline) for outline in find_outline(lab, quad, colour, aspect)]


def _views_of(quad: np.ndarray, start: Intrinsics, shape: TableModel, held: Held, radius: float) -> list[View]:
    """Return up to two rough cameras that see four corners (4, 2) [px] as those of a table of any proportions."""
    lines = tuple(np.linspace(quad[i], quad[(i + 1) % 4], 25) for i in range(4))
    return first_view(lines, quad, start, shape, replace(held, aspect=False), radius)[:2]


def _oblique(
    lab: np.ndarray,
    quad: np.ndarray,
    colour: np.ndarray,
    start: Intrinsics,
    shape: TableModel,
    held: Held,
    radius: float,
) -> list[tuple[float, Outline]]:
    """Return noses, and what speaks against them, of a table by how much of their faces a rough camera should see."""
    found: list[tuple[float, Outline]] = []
    for k, view in enumerate(_views_of(quad, start, shape, held, radius)):
        if k and view.cost > _POOR_VIEW:
            break
        frame, rough = quad, view
        for _ in range(2):  # again along the noses found: a patch of cloth may end askew
            faces = face_depths(rough.camera, rough.table, frame)
            long_first = long_sides_first(rough.camera, rough.table, frame)
            aspect = rough.table.length / rough.table.width
            outlines = oblique_outlines(lab, frame, colour, faces, long_first, aspect)
            found += [(_OBLIQUE_COST * (_WHOLE - outline.score), outline) for outline in outlines]
            if not outlines:
                break
            frame = outlines[0].corners
            try:
                rough = _views_of(frame, start, shape, held, radius)[0]
            except TableNotFoundError:
                break
    return found


def _apart(views: list[tuple[float, View]]) -> list[tuple[float, View]]:
    """Return views whose corners differ by more than the refinement bridges, best first."""
    kept: list[tuple[float, View]] = []
    seen: list[np.ndarray] = []
    for cost, view in views:
        corners = nose_corners(view.camera, view.table)
        if all(np.abs(corners - other).max() > 4.0 for other in seen):
            kept.append((cost, view))
            seen.append(corners)
    return kept
