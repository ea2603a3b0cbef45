"""One picture of a table by a camera of which nothing is known: table, lens, and balls in pixels and on the cloth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics, sphere_outline
from cue_perception.cloth import ClothRegion, find_cloth
from cue_perception.colours import to_lab
from cue_perception.cushions import Outline, find_outline
from cue_perception.detector import Detection, Detector
from cue_perception.errors import TableNotFoundError
from cue_perception.free_lens import Held, View, first_view, refine, usual_lens
from cue_perception.noses import sample
from cue_perception.oblique import OBLIQUE, face_depths, long_sides_first, oblique_outlines
from cue_perception.outline import fit_outlines
from cue_perception.shadows import settle

_SPAN = 1200.0  # px: longer side of the cloth in the picture that is searched
_MARGIN = 0.20  # of the cloth's size, kept around it
_BALL = 16.0  # px: radius of balls in the picture where they are measured
_USUAL = TableModel(
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
_DIM = 110.0  # grey levels
_NOISY = 5.0  # grey levels
_DRIFT = 0.015  # of the diagonal: so far lens and edges may move corners
_WORST_RMS = 2.0  # px in the searched picture
_WORST_COST = 120.0
_GOOD_COST = 40.0
_FITTING_COST = 14.0
_OBLIQUE_COST = 6.0  # per unit of an oblique outline's score below ...
_WHOLE = 8.0  # ... that of one whose edges are all seen
_FOCAL_FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.12, 1.25, 1.45, 1.7)
_USUAL_RATIO = 0.0125
_RATIOS = (0.0062, 0.024)  # ball radius over length: full-size snooker .. small home tables


@dataclass(frozen=True)
class Part:
    """A part of a picture at another scale: pixel = (part pixel + 0.5) / scale - 0.5 + corner."""

    image: np.ndarray
    scale: float
    corner: np.ndarray

    def whole(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels of the whole picture (..., 2) of pixels of the part."""
        return (pixels + 0.5) / self.scale - 0.5 + self.corner

    def inside(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels of the part (..., 2) of pixels of the whole picture."""
        return (pixels - self.corner + 0.5) * self.scale - 0.5

    def lens(self, lens: Intrinsics) -> Intrinsics:
        """Return the lens of the part of the lens of the whole picture."""
        return _moved_lens(lens, self.scale, self.inside, self.image)


@dataclass(frozen=True)
class Reading:
    """What one picture shows.

    Attributes:
        camera: pose and lens, in pixels of the whole picture.
        table: as seen; its length is nominal (2 m).
        view: the fit behind it, in pixels of the part searched.
        balls: as measured.
        pixels: (n, 2) their centres in the whole picture [px].
        pixel_covariance: (n, 2, 2) [px^2].
        outlines: (n, 36, 2) [px].
        ball_ratio: ball radius over the table's length as measured; nan without balls.
        ball_ratio_sigma: its standard deviation.
        corners: (4, 2) of the nose rectangle, top left first, clockwise [px].
        cloth: (3,) CIE Lab.
    """

    camera: Camera
    table: TableModel
    view: View
    balls: tuple[Detection, ...]
    pixels: np.ndarray
    pixel_covariance: np.ndarray
    outlines: np.ndarray
    ball_ratio: float
    ball_ratio_sigma: float
    corners: np.ndarray
    cloth: np.ndarray


def read_photo(image: np.ndarray, table: TableModel | None = None, lens: Intrinsics | None = None) -> Reading:
    """Find the table and the balls in a picture.

    Args:
        image: (h, w, 3) BGR uint8 of any size.
        table: of known shape; None = estimate it. The table in the answer has the nominal length in either case.
        lens: known calibration; None = estimate it.

    Raises:
        TableNotFoundError: the picture shows no table, or not enough of it; the message says what was looked for.
    """
    image = _calm(_lit(image))
    part, view, region, held, table = _seen(image, table, lens)
    part, view, balls = _find_balls(image, part, view, held, table, region.colour)
    return _reading(image, part, view, balls, region)


def find_view(image: np.ndarray, table: TableModel) -> tuple[Camera, View, np.ndarray]:
    """Return the camera that sees a table of known size, lens and all; the fit behind it; and the cloth's 8-bit Lab.

    Args:
        image: (h, w, 3) BGR uint8.
        table: of known size.

    Raises:
        TableNotFoundError: no table of this shape is in the picture.
    """
    part, view, region, held, _ = _seen(_calm(_lit(image)), table, None)
    if not held.aspect:
        raise TableNotFoundError(
            f"the table seen is {view.table.length / view.table.width:.2f} times as long as wide, not"
            f" {table.length / table.width:.2f}"
        )
    camera = _whole_camera(image, part, view.camera)
    size = table.length / view.table.length
    return Camera(camera.intrinsics, camera.rotation, camera.translation * size), view, region.colour


def _seen(
    image: np.ndarray, table: TableModel | None, lens: Intrinsics | None
) -> tuple[Part, View, ClothRegion, Held, TableModel | None]:
    """Return where the table is, what of it was held, and the table if it is the one that was named."""
    height, width = image.shape[:2]
    if lens is not None and (lens.width, lens.height) != (width, height):
        raise TableNotFoundError(
            f"the image is {width} x {height} px, the calibration says {lens.width} x {lens.height}"
        )
    held = Held(lens=lens is not None, aspect=table is not None)
    if table is not None:
        table = nominal(table)
    regions = find_cloth(image)[:3]
    best, problems = _best_table(image, regions, lens, table or _USUAL, held)
    if table is not None and (best is None or best[0] > _FITTING_COST):
        # Perhaps it is another table than was said: balls and outline in pixels are right all the same.
        free = Held(lens=held.lens)
        other, _ = _best_table(image, regions, lens, _USUAL, free)
        if other is not None and (best is None or other[0] < best[0] - 5):
            best, held, table = other, free, None
    if best is None:
        raise TableNotFoundError("; ".join(dict.fromkeys(problems)))
    _, view, part, region = best
    return part, view, region, held, table


def _lit(image: np.ndarray) -> np.ndarray:
    """Return a dark picture brightened: what counts as an edge or as paint is told in grey levels."""
    bright = float(np.percentile(image[::8, ::8].max(axis=-1), 80))
    if bright >= _DIM:
        return image
    return np.clip(image * min(_DIM / max(bright, 1.0), 4.0), 0, 255).astype(np.uint8)


def _calm(image: np.ndarray) -> np.ndarray:
    """Return a noisy picture smoothed: faint edges drown in noise, and specks look like balls."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.float32)
    # Differences that neither an even slope nor a straight edge has (Immerkaer 1996); most of a picture is even.
    rough = cv2.filter2D(grey, -1, np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32))
    noise = 1.4826 * float(np.median(np.abs(rough))) / 6.0
    return image if noise < _NOISY else np.asarray(cv2.GaussianBlur(image, (0, 0), 1.3))


def nominal(table: TableModel) -> TableModel:
    """Return a table of the same shape and of nominal length."""
    factor = _USUAL.length / table.length
    values = table.to_dict()
    values |= {name: values[name] * factor for name in LENGTHS}
    return TableModel.from_dict(values)


def _best_table(
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
        if cost < _GOOD_COST:
            break
    return best, problems


def _cut(image: np.ndarray, quad: np.ndarray, span: float) -> Part:
    """Return the part of a picture around a quadrilateral, its longer side about ``span`` px, never enlarged much."""
    low, high = quad.min(axis=0), quad.max(axis=0)
    grow = _MARGIN * (high - low).max()
    x0, y0 = np.clip(np.floor(low - grow), 0, None).astype(int)
    x1, y1 = np.minimum(np.ceil(high + grow).astype(int) + 1, [image.shape[1], image.shape[0]])
    cut = image[y0:y1, x0:x1]
    scale = min(span / float((high - low).max()), 1.5)
    size = (max(round(cut.shape[1] * scale), 16), max(round(cut.shape[0] * scale), 16))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(cut, size, interpolation=how) if abs(scale - 1) > 0.02 else cut.copy()
    return Part(small, small.shape[1] / cut.shape[1], np.array([x0, y0], float))


def _find_table(
    image: np.ndarray, region: ClothRegion, lens: Intrinsics | None, shape: TableModel, held: Held
) -> tuple[Part, View, float]:
    part = _cut(image, region.quad, _SPAN)
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
            cost = view.cost + (start_cost - first.cost)
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
    return [(-3 * outline.score, outline) for outline in find_outline(lab, quad, colour, aspect)]


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
    """Return noses, and what speaks against them, of a table seen so low that a face shows; none from above."""
    found: list[tuple[float, Outline]] = []
    for k, view in enumerate(_views_of(quad, start, shape, held, radius)):
        if k and view.cost > _WORST_COST:
            break
        frame, rough = quad, view
        for _ in range(2):  # again along the noses found: a patch of cloth may end askew
            faces = face_depths(rough.camera, rough.table, frame)
            if np.abs(faces).max() < OBLIQUE:
                break
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


def nose_corners(camera: Camera, table: TableModel) -> np.ndarray:
    """Return the corners (4, 2) of the nose rectangle [px], top left first, clockwise in the image."""
    x, y, h = table.length / 2, table.width / 2, table.nose_height
    corners = camera.project(np.array([[-x, y, h], [x, y, h], [x, -y, h], [-x, -y, h]]))
    return np.roll(corners, -int(np.argmin(corners.sum(axis=1))), axis=0)


def _moved_lens(lens: Intrinsics, scale: float, inside: object, image: np.ndarray) -> Intrinsics:
    matrix = lens.matrix.copy()
    matrix[[0, 1], [0, 1]] *= scale
    matrix[:2, 2] = inside(lens.matrix[:2, 2])  # type: ignore[operator]
    return Intrinsics(image.shape[1], image.shape[0], matrix, lens.distortion)


def _rescaled(image: np.ndarray, part: Part, camera: Camera, scale: float) -> tuple[Part, Camera]:
    """Return the same part of the picture at another scale, and the camera for it."""
    size = np.array(part.image.shape[1::-1]) / part.scale
    x0, y0 = part.corner.astype(int)
    x1, y1 = np.minimum(np.round(part.corner + size).astype(int), [image.shape[1], image.shape[0]])
    cut = image[y0:y1, x0:x1]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(
        cut, (max(round(cut.shape[1] * scale), 16), max(round(cut.shape[0] * scale), 16)), interpolation=how
    )
    new = Part(small, small.shape[1] / cut.shape[1], part.corner)
    ratio = new.scale / part.scale
    lens = _moved_lens(camera.intrinsics, ratio, lambda p: (p + 0.5) * ratio - 0.5, small)
    return new, Camera(lens, camera.rotation, camera.translation)


def _with_ball(table: TableModel, radius: float, known: TableModel | None) -> TableModel:
    """Return the table for balls of another radius [m]: what is not known goes with the ball."""
    if known is not None:
        height = float(np.clip(known.nose_height, radius, 1.79 * radius))
        least = 0.0 if known.pocketless else 2.05 * radius
        return replace(
            table,
            ball_radius=radius,
            nose_height=height,
            corner_mouth=max(known.corner_mouth, least),
            side_mouth=max(known.side_mouth, least),
        )
    return replace(
        table,
        ball_radius=radius,
        nose_height=1.27 * radius,
        corner_mouth=4.05 * radius,
        side_mouth=4.5 * radius,
        corner_shelf=1.33 * radius,
        side_shelf=0.2 * radius,
    )


def _find_balls(
    image: np.ndarray, part: Part, view: View, held: Held, known: TableModel | None, cloth: np.ndarray
) -> tuple[Part, View, list[Detection]]:
    """Return the balls, the part of the picture they were measured in and the view with their radius."""
    plain = replace(view, table=_with_ball(view.table, view.table.ball_radius, known))
    best: tuple[float, Part, View, list[Detection]] = (0.0, part, plain, [])
    radii, something = _radii(part, view, known)
    for radius in radii:
        found = _balls_of(image, part, view, radius, known, cloth)
        if found[0] > 1.15 * best[0]:
            best = found
        if found[0] > 2.5 and all(b.sharp for b in found[3]):
            break
    if something and best[0] < 1.0:  # no patch was round: balls in a cluster, or with dark shadows
        for ratio in np.geomspace(*_RATIOS, 10):
            found = _balls_of(
                image, part, view, float(np.clip(ratio * view.table.length, 0.0126, 0.0479)), known, cloth
            )
            if found[0] > 1.15 * best[0]:
                best = found
    _, fine, view, balls = best
    if not held.lens and len(balls) >= 4:
        focused = _focus(image, fine, view, balls, held)
        if focused is not None:
            again = _balls_of(image, fine, focused, focused.table.ball_radius, known, cloth)
            if again[0] > 0.9 * best[0]:
                _, fine, view, balls = again
    return fine, view, balls


def _balls_of(
    image: np.ndarray, part: Part, view: View, radius: float, known: TableModel | None, cloth: np.ndarray
) -> tuple[float, Part, View, list[Detection]]:
    """Return how well balls of about this radius [m] explain the picture, and what was found."""
    low, high = (r * view.table.length for r in _RATIOS)
    for _ in range(3):
        table = _with_ball(view.table, radius, known)
        here = float(np.linalg.norm(view.camera.jacobian(np.zeros((1, 2)), radius)[0], axis=0).mean()) * radius
        scale = min(part.scale * float(np.clip(_BALL / here, 0.4, 4.0)), 1.6)
        fine, camera = _rescaled(image, part, view.camera, scale)
        balls = Detector(camera, table, fine.image, lenient=True).detect(fine.image, np.zeros((0, 2)))
        balls = [b for b in balls if not _is_pocket(b, table)]
        sharp = [b for b in balls if b.sharp]
        if not sharp:
            break
        change = float(np.median(_swelling(camera, table, sharp)))
        if abs(change) < 0.01 * radius:
            break
        radius = radius + change
        if not low < radius < high:
            return 0.0, part, view, []
    balls = settle(fine.image, camera, table, _cloth_bgr(cloth), balls)
    balls = [b for b in balls if not _is_pocket(b, table)]
    ratio = table.ball_radius / table.length
    likely = float(np.exp(-0.5 * (np.log(ratio / _USUAL_RATIO) / 0.5) ** 2))
    if known is not None and abs(table.ball_radius / known.ball_radius - 1) < 0.1:
        likely = 1.2
    # A whole sharp outline speaks for the radius; round things without one speak against it.
    worth = likely * sum(b.support - b.scatter if b.sharp else -0.4 for b in balls)
    return worth, fine, replace(view, camera=camera, table=table), balls


def _painted(image: np.ndarray, camera: Camera, table: TableModel, balls: list[Detection]) -> list[Detection]:
    """Return the balls with paint and share of white looked at closely: old ivory in warm light counts as white."""
    if not balls:
        return balls
    angle = 2 * np.pi * np.arange(20) / 20
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    disc = np.concatenate([r * circle for r in (0.2, 0.4, 0.55, 0.68, 0.78, 0.86)])
    centres = np.column_stack([np.array([b.position for b in balls]), np.full(len(balls), table.ball_radius)])
    rim = camera.project(sphere_outline(camera, centres, table.ball_radius, 4))
    right, down = (rim[:, 0] - rim[:, 2]) / 2, (rim[:, 1] - rim[:, 3]) / 2
    at = rim.mean(axis=1)[:, None] + disc[:, :1] * right[:, None] + disc[:, 1:] * down[:, None]
    lab = to_lab(sample(image, at).reshape(-1, 3)).reshape(len(balls), -1, 3)
    painted = []
    for ball, pixels in zip(balls, lab, strict=True):
        chroma = np.hypot(pixels[:, 1], pixels[:, 2])
        white = (pixels[:, 0] > max(62.0, 0.75 * np.percentile(pixels[:, 0], 95))) & (chroma < 36)
        share = float(white.mean())
        paint = np.median(pixels[~white] if share < 0.88 else pixels, axis=0)
        painted.append(replace(ball, colour=paint, white_share=share))
    return painted


def _cloth_bgr(colour: np.ndarray) -> np.ndarray:
    """Return the BGR of a colour (3,) in 8-bit Lab."""
    lab = np.clip(np.round(colour), 0, 255).astype(np.uint8).reshape(1, 1, 3)
    return cv2.cvtColor(lab, cv2.COLOR_LAB2BGR).reshape(3).astype(float)


def _swelling(camera: Camera, table: TableModel, balls: list[Detection]) -> np.ndarray:
    """Return by how much each ball is larger than the table's [m]."""
    positions = np.array([b.position for b in balls])
    scales = np.linalg.norm(camera.jacobian(positions, table.ball_radius), axis=1).mean(axis=1)
    return np.array([b.swelling for b in balls]) / scales


def _is_pocket(ball: Detection, table: TableModel) -> bool:
    """Tell whether a round thing is a pocket, or what hangs in it: nets are light and dark, holes are black."""
    doubtful = not ball.sharp or ball.scatter > 0.45 or ball.support < 0.75
    for pocket in table.pockets:
        gap = float(np.linalg.norm(ball.position - pocket.position))
        if gap < pocket.radius + 1.5 * table.ball_radius and (doubtful or ball.colour[0] < 22):
            return True
    x, y = table.length / 2 - np.abs(ball.position[0]), table.width / 2 - np.abs(ball.position[1])
    # Beyond the noses only what hangs in the jaws can be a ball.
    return bool(min(x, y) < 0.5 * table.ball_radius or (doubtful and min(x, y) < 2 * table.ball_radius))


def _focus(image: np.ndarray, part: Part, view: View, balls: list[Detection], held: Held) -> View | None:
    """Return the view through the focal length at which the outlines of the balls fit best.

    From straight above, the noses tell little about the focal length; but a ball at the edge of a wide picture looks
    drawn out, by as much as the ray to it is oblique.
    """
    camera, table = view.camera, view.table
    positions = np.array([b.position for b in balls])
    pixels = camera.project(np.column_stack([positions, np.full(len(balls), table.ball_radius)]))
    x, y, h = table.length / 2, table.width / 2, table.nose_height
    corners = np.array([[-x, y, h], [x, y, h], [x, -y, h], [-x, -y, h]])
    share = np.linspace(0, 1, 25)[:, None]
    lines = tuple(
        camera.project(a + share * (b - a)) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    )
    radius = 0.5 * part.scale * float(np.hypot(image.shape[1], image.shape[0]))
    lens = camera.intrinsics
    tried: list[tuple[float, float, View]] = []
    for factor in _FOCAL_FACTORS:
        matrix = lens.matrix.copy()
        matrix[[0, 1], [0, 1]] *= factor
        other = Intrinsics(lens.width, lens.height, matrix, lens.distortion * factor**2)
        try:
            fitted = first_view(
                lines, camera.project(corners), other, table, Held(aspect=held.aspect, focal=True), radius, turns=(0,)
            )
        except TableNotFoundError:
            continue
        if not fitted:
            continue
        seen = fitted[0]
        fit = fit_outlines(part.image, seen.camera, seen.camera.on_plane(pixels, table.ball_radius), table.ball_radius)
        wrong = fit.support * np.minimum(fit.scatter / 0.3, 3.0) ** 2 + 9 * (1 - fit.support)
        tried.append((float(np.sum(7 * wrong)) + seen.cost, float(np.log(factor)), seen))
    if len(tried) < 3:
        return None
    best = min(tried, key=lambda item: item[0])[2]
    lab = cv2.cvtColor(part.image.astype(np.float32) / 255, cv2.COLOR_BGR2LAB)
    try:
        return refine(lab, best, Held(aspect=held.aspect, focal=True), radius, rounds=(4.0, 3.5))
    except TableNotFoundError:
        return None


def _radii(part: Part, view: View, known: TableModel | None) -> tuple[list[float], bool]:
    """Return ball radii [m] to try, and whether anything lies on the cloth that might hold balls.

    They are the known one, and those of round patches on the cloth, commonest first.
    """
    table = view.table
    radii = [known.ball_radius] if known is not None else []
    detector = Detector(view.camera, _with_ball(table, table.ball_radius, known), part.image)
    mask = cv2.morphologyEx(detector.foreground(part.image), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    sizes = []
    for contour in contours:
        area = cv2.contourArea(contour)
        if area < 40:
            continue
        (u, v), (a, b), _ = cv2.minAreaRect(contour)
        hull = cv2.contourArea(cv2.convexHull(contour))
        if max(a, b) > 1.6 * min(a, b) or area < 0.86 * hull or not 0.65 < area / (a * b) < 0.92:
            continue
        place = view.camera.on_plane(np.array([[u, v]]) + detector.origin, table.ball_radius)
        scale = np.sqrt(abs(np.linalg.det(view.camera.jacobian(place, table.ball_radius)[0])))
        sizes.append(np.sqrt(area / np.pi) / scale)
    radii += [r * table.length for r in (0.0128, 0.0114)] if not sizes and known is None else []
    logs = np.log(np.array([s for s in sizes if _RATIOS[0] < s / table.length < _RATIOS[1]]))
    for _ in range(2):
        if not len(logs):
            break
        near = np.exp(-0.5 * ((logs[:, None] - logs[None]) / 0.08) ** 2).sum(axis=1) * np.exp(logs)
        mode = float(np.median(logs[np.abs(logs - logs[np.argmax(near)]) < 0.12]))
        radii.append(float(np.exp(mode)))
        logs = logs[np.abs(logs - mode) > 0.2]
    scale = np.linalg.norm(view.camera.jacobian(np.zeros((1, 2)), 0.0)[0], axis=0).mean()
    least = np.pi * (_RATIOS[0] * table.length * scale) ** 2
    something = any(cv2.contourArea(contour) > least for contour in contours)
    return [float(np.clip(r, 0.0101, 0.0499)) for r in radii], something


def _whole_camera(image: np.ndarray, part: Part, camera: Camera) -> Camera:
    """Return the camera for pixels of the whole picture."""
    lens = camera.intrinsics
    matrix = lens.matrix.copy()
    matrix[[0, 1], [0, 1]] /= part.scale
    matrix[:2, 2] = part.whole(lens.matrix[:2, 2])
    whole = Intrinsics(image.shape[1], image.shape[0], matrix, lens.distortion)
    return Camera(whole, camera.rotation, camera.translation)


def _reading(image: np.ndarray, part: Part, view: View, balls: list[Detection], region: ClothRegion) -> Reading:
    camera, table = view.camera, view.table
    positions = np.array([b.position for b in balls]).reshape(-1, 2)
    centres = np.column_stack([positions, np.full(len(balls), table.ball_radius)])
    outlines = part.whole(camera.project(sphere_outline(camera, centres, table.ball_radius, 36))).reshape(-1, 36, 2)
    jacobian = camera.jacobian(positions, table.ball_radius) / part.scale
    metric = np.array([b.covariance for b in balls]).reshape(-1, 2, 2)
    covariance = jacobian @ metric @ np.swapaxes(jacobian, 1, 2)
    sharp = [b for b in balls if b.sharp]
    ratio = sigma = float("nan")
    if sharp:
        each = table.ball_radius + _swelling(camera, table, sharp)
        pixel = table.length / float(np.linalg.norm(np.diff(nose_corners(camera, table), axis=0), axis=1).max())
        ratio = float(np.median(each)) / table.length
        sigma = float(np.hypot(1.2 * np.std(each) / np.sqrt(len(each)), 0.25 * pixel)) / table.length
    whole = _whole_camera(image, part, camera)
    lab = region.colour / np.array([2.55, 1, 1]) - np.array([0, 128, 128])
    balls = _painted(part.image, camera, table, balls)
    return Reading(
        whole,
        table,
        view,
        tuple(balls),
        outlines.mean(axis=1).reshape(-1, 2),
        covariance,
        outlines,
        ratio,
        sigma,
        nose_corners(whole, table),
        lab,
    )
