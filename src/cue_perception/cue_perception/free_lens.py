"""The pose of a camera whose lens is unknown: focal length, distortion and the table's aspect fitted with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
from scipy.optimize import least_squares

from cue_core.errors import CueError
from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics
from cue_perception.errors import TableNotFoundError
from cue_perception.noses import nose_edges

USUAL_VIEW = 1.10
"""Field of view of a usual camera along the longer side of its picture [rad]: 63 degrees."""
_VIEW_SPREAD = 0.30  # of log focal length: webcams and telephones
_DISTORTION_SPREAD = 0.04  # by what share a usual lens moves the picture's corners
_ASPECT_SPREAD = 0.06  # of log aspect: tables are two to one, some home tables a tenth more or less
_PLAIN = 1.5  # sides so much longer than the others are the long ones, however the camera looks


@dataclass(frozen=True)
class View:
    """A fitted camera and the table it sees.

    Attributes:
        camera: pose and lens.
        table: with the width fitted where the aspect was free.
        covariance: (9, 9) over a step of the pose in the optical frame (rotation [rad], translation [m]), log focal
            length, distortion at the picture's corner, log aspect.
        rms: of the nose edges [px].
        edges: points behind it.
        cost: sum of squares with the priors, to compare views of one picture.
    """

    camera: Camera
    table: TableModel
    covariance: np.ndarray
    rms: float
    edges: int
    cost: float


@dataclass(frozen=True)
class Held:
    """What the fit takes as known.

    Attributes:
        lens: pose only.
        aspect: of the table.
        focal: of the lens, where the distortion is fitted.
    """

    lens: bool = False
    aspect: bool = False
    focal: bool = False


def usual_lens(width: int, height: int, centre: np.ndarray, span: float) -> Intrinsics:
    """Return a distortion-free lens of usual view.

    Args:
        width: of the image or of the part of it [px].
        height: [px].
        centre: (2,) of the whole image, in pixels of this part.
        span: longer side of the whole image [px].
    """
    focal = 0.5 * span / np.tan(0.5 * USUAL_VIEW)
    return Intrinsics(width, height, np.array([[focal, 0, centre[0]], [0, focal, centre[1]], [0, 0, 1]]))


def first_view(
    lines: tuple[np.ndarray, ...],
    corners: np.ndarray,
    lens: Intrinsics,
    table: TableModel,
    held: Held,
    radius: float,
    turns: tuple[int, ...] = (0, 1),
) -> list[View]:
    """Return cameras that see the noses as lines run, best first: either pair of sides may be the long one.

    Args:
        lines: four sides, (n, 2) points each [px].
        corners: (4, 2) [px]; side i goes from corner i to i + 1.
        lens: known, or a usual one.
        table: known, or of usual shape.
        held: what is known.
        radius: half the diagonal of the whole picture [px].
        turns: which pairs of sides may be the long one: 0 the first and third, going clockwise, 1 the others.
    """
    corners, lines = _clockwise(corners, lines)
    sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    one, other = sides[0] + sides[2], sides[1] + sides[3]
    if max(one, other) > _PLAIN * min(one, other):
        turns = tuple(t for t in turns if t == int(other > one)) or turns
    flat = lens.undistort(corners)
    views = []
    for turn in turns:
        x, y = table.length / 2, table.width / 2
        model = np.array([[-x, y, 0], [x, y, 0], [x, -y, 0], [-x, -y, 0]])
        ordered, traces = np.roll(flat, -turn, axis=0), [lines[(i + turn) % 4] for i in range(4)]
        done, rotations, translations, errors = cv2.solvePnPGeneric(
            model, ordered.reshape(-1, 1, 2), np.eye(3), None, flags=cv2.SOLVEPNP_IPPE
        )
        for k in range(done):
            if k and errors[k, 0] > 2 * errors[0, 0]:
                continue
            camera = _to_cloth(cv2.Rodrigues(rotations[k])[0], translations[k].ravel(), table.nose_height, lens)
            if camera.position[2] < 0.1 * table.width:
                continue
            points = np.concatenate(traces)
            side = np.repeat(np.arange(4), [len(t) for t in traces])
            view = _fit(camera, table, points, side, held, radius, sigma=1.5)
            if view is not None:
                views.append(view)
    if not views:
        raise TableNotFoundError("no camera sees a rectangle as these four lines run")
    views.sort(key=lambda v: v.cost)
    return views


def refine(lab: np.ndarray, view: View, held: Held, radius: float, rounds: tuple[float, ...] = (5.0, 3.5, 3.0)) -> View:
    """Fit a view to many edge points along the noses.

    Raises:
        TableNotFoundError: too few of them.
    """
    for reach in rounds:
        edges = nose_edges(lab, view.camera, view.table, reach, per_metre=80.0 * 2.0 / view.table.length)
        total = sum(len(e.points) for e in edges)
        if total < 60:
            raise TableNotFoundError(f"only {total} edge points were found along the noses, 60 are needed")
        pixels = np.concatenate([view.camera.project(e.points) + e.offsets[:, None] * e.normals for e in edges])
        places = np.concatenate([e.points for e in edges])
        fitted = _fit(view.camera, view.table, pixels, _sides(places, view.table), held, radius, sigma=0.7)
        if fitted is None:
            break
        view = fitted
    return view


def _sides(places: np.ndarray, table: TableModel) -> np.ndarray:
    """Return which side, 0 north, 1 east, 2 south, 3 west, each point on a nose (n, 3) [m] belongs to."""
    x, y = 2 * places[:, 0] / table.length, 2 * places[:, 1] / table.width
    return np.where(np.abs(y) > np.abs(x), np.where(y > 0, 0, 2), np.where(x > 0, 1, 3))


def _clockwise(corners: np.ndarray, lines: tuple[np.ndarray, ...]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return corners and sides clockwise in the image, as a camera above the table sees north, east, south, west."""
    edge = np.roll(corners, -1, axis=0) - corners
    area = np.sum(corners[:, 0] * edge[:, 1] - corners[:, 1] * edge[:, 0])
    if area > 0:  # y points down: positive is clockwise on the screen
        return corners, lines
    return corners[::-1], tuple(lines[i] for i in (2, 1, 0, 3))


def _to_cloth(rotation: np.ndarray, translation: np.ndarray, height: float, lens: Intrinsics) -> Camera:
    """Return the camera over a table whose noses' plane it was found over."""
    return Camera(lens, rotation, translation - rotation @ np.array([0.0, 0.0, height]))


def _straight(pixels: np.ndarray, distortion: float) -> np.ndarray:
    """Return undistorted normalised coordinates (n, 2) of distorted ones, by one radial term: Newton's steps."""
    if distortion == 0:
        return pixels
    seen = np.sum(
        pixels**2, axis=1
    )  # squared radius as seen; the share s of a straight one solves s (1 + k s^2 r^2) = 1
    share = np.ones(len(pixels))
    for _ in range(12):
        squared = distortion * seen * share**2
        slope = 1 + 3 * squared
        # Beyond the turning point no lens looks.
        change = (share * (1 + squared) - 1) / np.where(slope > 0.05, slope, 0.05)
        share = share - change
        if np.abs(change).max(initial=0.0) < 1e-9:
            break
    return pixels * share[:, None]


def _fit(
    camera: Camera, table: TableModel, pixels: np.ndarray, side: np.ndarray, held: Held, radius: float, sigma: float
) -> View | None:
    lens = camera.intrinsics
    focal = float(lens.matrix[0, 0])
    usual = radius / np.tan(0.5 * USUAL_VIEW) * 0.87  # of a picture of 16 to 9
    free = [0, 1, 2, 3, 4, 5]
    if not held.lens:
        free += [7] if held.focal else [6, 7]
    if not held.aspect:
        free.append(8)
    bend = float(lens.distortion[0]) * (radius / focal) ** 2

    def build(step: np.ndarray) -> tuple[Camera, float]:
        turn = cv2.Rodrigues(step[:3])[0]
        new = lens
        if not held.lens:
            matrix = lens.matrix.copy()
            matrix[0, 0] = matrix[1, 1] = focal * np.exp(step[6])
            distortion = np.zeros(5)
            distortion[0] = (bend + step[7]) * (matrix[0, 0] / radius) ** 2
            new = Intrinsics(lens.width, lens.height, matrix, distortion)
        width = table.width * float(np.exp(-np.clip(step[8], -1, 1)))
        return Camera(new, turn @ camera.rotation, turn @ camera.translation + step[3:6]), width

    # Side 0 and 2 lie across y, 1 and 3 across x; the noses' lines bound the table on the positive side.
    axis, sign = np.where(side % 2 == 0, 1, 0), np.where(side < 2, 1.0, -1.0)
    rows = np.arange(len(side))
    centred = pixels - lens.matrix[:2, 2]
    fixed = lens.undistort(pixels) if held.lens else None

    def places(step: np.ndarray) -> tuple[np.ndarray, float]:
        """Return where the lines of sight meet the noses' plane (n, 2) [m], and the table's width: ``build``, fast."""
        turn = cv2.Rodrigues(step[:3])[0]
        rotation, translation = turn @ camera.rotation, turn @ camera.translation + step[3:6]
        if fixed is not None:
            flat = fixed
        else:
            longer = focal * np.exp(step[6])
            flat = _straight(centred / longer, (bend + step[7]) * (longer / radius) ** 2)
        rays = flat @ rotation[:2] + rotation[2]
        position = -rotation.T @ translation
        reach = (table.nose_height - position[2]) / rays[:, 2:]
        return position[:2] + rays[:, :2] * reach, table.width * float(np.exp(-np.clip(step[8], -1, 1)))

    place = camera.on_plane(pixels, table.nose_height)
    jacobian = camera.jacobian(place, table.nose_height)
    normal = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])[side]
    # [px/m] across the line: 1 / |J^-T n|
    scale = 1 / np.linalg.norm(np.linalg.solve(np.swapaxes(jacobian, 1, 2), normal[..., None])[..., 0], axis=1)
    weight = np.clip(scale, 0.2 * np.median(scale), 5 * np.median(scale)) / sigma

    def whole(reduced: np.ndarray) -> np.ndarray:
        step = np.zeros(9)
        step[free] = reduced
        return step

    def residual(reduced: np.ndarray) -> np.ndarray:
        place, width = places(whole(reduced))
        half = np.where(axis == 1, width / 2, table.length / 2)
        return (sign * place[rows, axis] - half) * weight

    def with_priors(reduced: np.ndarray) -> np.ndarray:
        step = whole(reduced)
        miss = residual(reduced)
        robust = np.sign(miss) * np.sqrt(2 * (np.sqrt(1 + miss**2) - 1))  # soft L1
        aspect = np.log(table.length / table.width / 2) + step[8]
        # Neighbouring edge points share their error: some forty count.
        return np.concatenate(
            [
                robust * min(1.0, np.sqrt(40 / max(len(robust), 1))),
                [
                    (np.log(focal / usual) + step[6]) / _VIEW_SPREAD,
                    (bend + step[7]) / _DISTORTION_SPREAD,
                    aspect / _ASPECT_SPREAD if not held.aspect else 0.0,
                ],
            ]
        )

    steps = np.full(len(free), 1e-2)
    try:
        solution = least_squares(with_priors, np.zeros(len(free)), x_scale=steps, max_nfev=25)
        new, width = build(whole(solution.x))
        shape = replace(table, width=width) if not held.aspect else table
    except (CueError, ValueError, np.linalg.LinAlgError):  # it ran off to where there is no camera or no table
        return None
    miss = residual(solution.x) * sigma
    if new.position[2] < 0.05 * shape.width or not np.all(np.isfinite(miss)):
        return None
    inlier = np.abs(miss) < 3 * max(1.4826 * float(np.median(np.abs(miss))), 0.3)
    rms = float(np.sqrt(np.mean(miss[inlier] ** 2)))
    covariance = np.zeros((9, 9))
    covariance[np.ix_(free, free)] = np.linalg.pinv(solution.jac.T @ solution.jac) * max(rms / sigma, 0.1) ** 2
    return View(new, shape, covariance, rms, int(inlier.sum()), float(2 * solution.cost))
