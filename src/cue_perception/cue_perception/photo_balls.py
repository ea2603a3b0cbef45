"""The balls on a table in a picture: how large they are, where, and of what paint."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics, sphere_outline
from cue_perception.colours import to_lab
from cue_perception.detector import Detection, Detector
from cue_perception.errors import TableNotFoundError
from cue_perception.faint_balls import faint_balls
from cue_perception.free_lens import Held, View, first_view, refine
from cue_perception.noses import sample
from cue_perception.outline import fit_outlines
from cue_perception.photo_part import Part, rescaled
from cue_perception.shadows import settle

_BALL = 16.0  # px: radius of balls in the picture where they are measured
_ROUNDS = 6  # of detecting and correcting the radius: patches with a shadow are too large at first
_ALIKE = 0.03  # relative: radii that one fit turns into the same
_FOCAL_FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.12, 1.25, 1.45, 1.7)
_USUAL_RATIO = 0.0125
_RATIOS = (0.0062, 0.024)  # ball radius over length: full-size snooker .. small home tables


def find_balls(
    image: np.ndarray, part: Part, view: View, held: Held, known: TableModel | None, cloth: np.ndarray
) -> tuple[Part, View, list[Detection]]:
    """Return the balls, the part of the picture they were measured in and the view with their radius."""
    plain = replace(view, table=_with_ball(view.table, view.table.ball_radius, known))
    best: tuple[float, Part, View, list[Detection]] = (0.0, part, plain, [])
    radii, something = _radii(part, view, known)
    for radius in radii:
        if best[0] > 0 and abs(np.log(radius / best[2].table.ball_radius)) < _ALIKE:
            continue  # it would come out the same
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
    if any(b.sharp for b in balls):  # their size is known: look for the like of them
        more = faint_balls(fine.image, view.camera, view.table, balls)
        balls = balls + [b for b in more if not _is_pocket(b, view.table)]
    return fine, view, balls


def _balls_of(
    image: np.ndarray, part: Part, view: View, radius: float, known: TableModel | None, cloth: np.ndarray
) -> tuple[float, Part, View, list[Detection]]:
    """Return how well balls of about this radius [m] explain the picture, and what was found."""
    low, high = (r * view.table.length for r in _RATIOS)
    for _ in range(_ROUNDS):
        table = _with_ball(view.table, radius, known)
        here = float(np.linalg.norm(view.camera.jacobian(np.zeros((1, 2)), radius)[0], axis=0).mean()) * radius
        scale = min(part.scale * float(np.clip(_BALL / here, 0.4, 4.0)), 1.6)
        fine, camera = rescaled(image, part, view.camera, scale)
        balls = Detector(camera, table, fine.image, lenient=True).detect(fine.image, np.zeros((0, 2)))
        balls = [b for b in balls if not _is_pocket(b, table)]
        change = _change(fine.image, camera, table, balls)
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


def _change(image: np.ndarray, camera: Camera, table: TableModel, balls: list[Detection]) -> float:
    """Return by how much the balls are larger than thought [m]; 0 where nothing tells.

    Outlines of quite another size are no balls to the detector, only patches: they are looked at again.
    """
    sizes = list(swelling(camera, table, [b for b in balls if b.sharp])) if any(b.sharp for b in balls) else []
    patches = np.array([b.position for b in balls if not b.sharp]).reshape(-1, 2)
    if len(patches):
        fit = fit_outlines(image, camera, patches, table.ball_radius)
        whole = (fit.support > 0.7) & (fit.scatter < 0.35)
        if whole.any():
            scales = np.linalg.norm(camera.jacobian(fit.position[whole], table.ball_radius), axis=1).mean(axis=1)
            sizes += list(fit.swelling[whole] / scales)
    return float(np.median(sizes)) if sizes else 0.0


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
        centre = np.array([[*place[0], table.ball_radius]])
        outline = view.camera.project(sphere_outline(view.camera, centre, table.ball_radius, 24))[0]
        like = cv2.contourArea(outline.astype(np.float32))
        sizes.append(table.ball_radius * np.sqrt(area / max(like, 1.0)))
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


def swelling(camera: Camera, table: TableModel, balls: list[Detection]) -> np.ndarray:
    """Return by how much each ball is larger than the table's [m]."""
    positions = np.array([b.position for b in balls])
    scales = np.linalg.norm(camera.jacobian(positions, table.ball_radius), axis=1).mean(axis=1)
    return np.array([b.swelling for b in balls]) / scales


def painted(image: np.ndarray, camera: Camera, table: TableModel, balls: list[Detection]) -> list[Detection]:
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
