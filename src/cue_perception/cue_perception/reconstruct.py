"""From one image of a table of known size to the camera's pose."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.optimize import least_squares

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics
from cue_perception.cloth import ClothRegion, find_cloth
from cue_perception.errors import TableNotFoundError
from cue_perception.noses import edge_bias, nose_candidates, nose_edges, places_in_view

_WORST_CORNERS = 0.012  # of the outline's long side: corners that fit no rectangle of this aspect miss by more
_FRAME = 0.012  # depth up to which an edge is the cloth's end at the frame
_SHARED = 5  # so many neighbouring edge points tell as much as one: pixel grid, blur
_CUSHION = 0.05  # px: one sigma of what all edges of a cushion share besides its shading: lens, pixel grid
_PLAIN_LENS = 0.45  # px: edges that scatter more speak of a lens with distortion, or of the wrong lines
_FIRST_REACH = 3.0  # px: how far from the rough outline's noses to look for edges
_CUSHIONS = 3  # edges along fewer leave the pose free to turn about them
_LEAST_ON_CLOTH = 0.7  # the outline of cloth holds the tops of the cushions too: a seventh of it on a small table
_LEAST_SEEN = 0.35  # of the places along the noses in view: fewer edges than that support any pose
_LOWEST = 6.0  # ball radii above the cloth: from lower the far noses are hidden
_WORST_RMS = 0.9  # px: true noses are straight to 0.1 .. 0.4 px, edges of mere noise scatter by 1.2


@dataclass(frozen=True)
class Reconstruction:
    """Where the camera is.

    Attributes:
        camera: pose and lens.
        covariance: (6, 6) over (x, y, z, rot_x, rot_y, rot_z) of table_from_camera [m^2, rad^2].
        rms: of the nose edges in the image [px].
        edges: number of edge points behind it.
        cloth: (3,) Lab colour of the cloth, 8-bit scale of OpenCV.
    """

    camera: Camera
    covariance: np.ndarray
    rms: float
    edges: int
    cloth: np.ndarray


def canonical_order(corners: np.ndarray) -> np.ndarray:
    """Return four corners (4, 2) [px] clockwise in the image (x right, y down), whatever order they came in.

    The first is the one nearest to the image's top left among the corners that begin one of the two longer sides.
    """
    middle = corners.mean(axis=0)
    angle = np.arctan2(corners[:, 1] - middle[1], corners[:, 0] - middle[0])
    ordered = corners[np.argsort(angle)]
    sides = np.linalg.norm(np.roll(ordered, -1, axis=0) - ordered, axis=1)
    first = 0 if sides[0] + sides[2] >= sides[1] + sides[3] else 1
    other = first + 2
    a, b = ordered[first], ordered[other % 4]
    return np.roll(ordered, -(first if a.sum() <= b.sum() else other), axis=0)


def reconstruct(image: np.ndarray, lens: Intrinsics, table: TableModel, half_turn: bool = False) -> Reconstruction:
    """Find the table and return the camera's pose.

    A rectangle looks the same after a half turn. The frame is fixed by the camera: of the two, y points up in the image
    (the long side nearest to the image's bottom is at y < 0); where y runs level, x points up.

    Args:
        image: (h, w, 3) BGR 0..255, uint8 or the float mean of several images.
        lens: of the camera.
        table: of known size.
        half_turn: take the other of the two frames.

    Raises:
        TableNotFoundError: saying what disagreed with the preset.
    """
    if image.shape[:2] != (lens.height, lens.width):
        raise TableNotFoundError(
            f"the image is {image.shape[1]} x {image.shape[0]} px, camera_info says {lens.width} x {lens.height}"
        )
    lab = cv2.cvtColor(np.asarray(image, np.float32) / 255, cv2.COLOR_BGR2LAB)
    coarse = np.clip(np.asarray(image, float) + 0.5, 0, 255).astype(np.uint8)
    flat = cv2.undistort(coarse, lens.matrix, lens.distortion) if np.any(lens.distortion) else coarse
    problems = []
    for region in find_cloth(flat)[:3]:
        try:
            camera = _first_pose(lab, lens, table, region)
            result = _refine(lab, camera, table, region)
        except TableNotFoundError as error:
            problems.append(str(error))
            continue
        turned = facing(result.camera) < 0
        camera = result.camera.half_turned() if turned != half_turn else result.camera
        return Reconstruction(camera, _pose_covariance(camera, result.covariance), *_rest(result))
    raise TableNotFoundError("; ".join(dict.fromkeys(problems)))


def reconstruct_any_lens(image: np.ndarray, table: TableModel, half_turn: bool = False) -> Reconstruction:
    """Find the table through a lens of which nothing is known.

    First a lens without distortion is tried at several fields of view; seen from straight above every focal length
    fits, and positions on the bed then come out right all the same. Where none fits well (distortion, large images,
    dark cushions), focal length and distortion are fitted with the pose.

    Raises:
        TableNotFoundError: no view fits.
    """
    from cue_perception.photo import find_view

    height, width = image.shape[:2]
    found: list[Reconstruction] = []
    for view_angle in (0.6, 0.75, 0.9, 1.05, 1.2, 1.35, 1.5):
        try:
            found.append(reconstruct(image, Intrinsics.guess(width, height, view_angle), table, half_turn))
        except TableNotFoundError:
            continue
    if found:
        most = max(r.edges for r in found)  # a wrong view leaves whole cushions unexplained
        best = min((r for r in found if r.edges > 0.9 * most), key=lambda r: r.rms)
        if best.rms < _PLAIN_LENS:
            return best
    coarse = np.clip(np.asarray(image, float) + 0.5, 0, 255).astype(np.uint8)
    camera, view, cloth = find_view(coarse, table)
    if (facing(camera) < 0) != half_turn:
        camera = camera.half_turned()
    size = table.length / view.table.length
    step = view.covariance[:6, :6] * np.outer(*2 * [np.repeat([1.0, size], 3)])
    return Reconstruction(camera, _pose_covariance(camera, step), view.rms, view.edges, cloth)


def _rest(result: Reconstruction) -> tuple[float, int, np.ndarray]:
    return result.rms, result.edges, result.cloth


def facing(camera: Camera) -> float:
    """Return which half turn this frame is: positive where y points up in the image, or x where y is level."""
    up = -camera.rotation[1]  # of the image, in the table frame
    return float(up[1]) if abs(up[1]) > 0.05 * abs(up[0]) else float(up[0])


def _solve(corners: np.ndarray, lens: Intrinsics, table: TableModel) -> tuple[float, Camera] | None:
    """Return (rms [px], camera) for corners (4, 2), undistorted, in the order of the table's corners from (-x, +y)."""
    x, y = table.length / 2, table.width / 2
    model = np.array([[-x, y, 0], [x, y, 0], [x, -y, 0], [-x, -y, 0]])
    found, rotations, translations, _ = cv2.solvePnPGeneric(
        model, corners.astype(float), lens.matrix, None, flags=cv2.SOLVEPNP_IPPE
    )
    best = None
    for rotation, translation in zip(rotations, translations, strict=True) if found else ():
        # The closed form is poor where the camera looks straight down; a few steps mend it.
        rotation, translation = cv2.solvePnPRefineLM(
            model, corners.astype(float), lens.matrix, None, rotation, translation
        )
        matrix = cv2.Rodrigues(rotation)[0]
        shift = translation.ravel() - matrix @ [0, 0, table.nose_height]
        camera = Camera(lens, matrix, shift)
        inside = model @ matrix.T + translation.ravel()
        if camera.position[2] < 2 * table.ball_radius or inside[:, 2].min() < 0.05:
            continue  # a mirrored order puts the camera under the bed
        pixels = (inside[:, :2] / inside[:, 2:]) @ np.diag(lens.matrix[[0, 1], [0, 1]]) + lens.matrix[:2, 2]
        rms = float(np.sqrt(np.mean(np.sum((pixels - corners) ** 2, axis=1))))
        if best is None or rms < best[0]:
            best = (rms, camera)
    return best


def _first_pose(lab: np.ndarray, lens: Intrinsics, table: TableModel, region: ClothRegion) -> Camera:
    """Choose among the edges of each side those that together make the rectangle of the preset.

    Raises:
        TableNotFoundError: none do.
    """
    quad = canonical_order(region.quad)
    sides = nose_candidates(lab, lens, quad, 0.14)
    long_side = np.linalg.norm(quad - np.roll(quad, -1, axis=0), axis=1).max()
    corner = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
    to_image = cv2.getPerspectiveTransform(corner, quad.astype(np.float32))
    options = [[(d, w) for d, w in side if d > _FRAME] or [(0.0, 0.1)] for side in sides]
    best, least = None, np.inf
    for choice in itertools.product(*options):
        top, right, bottom, left = depths = [c[0] for c in choice]
        inner = np.array([[left, top], [1 - right, top], [1 - right, 1 - bottom], [left, 1 - bottom]])
        corners = cv2.perspectiveTransform(inner.reshape(-1, 1, 2), to_image).reshape(-1, 2)
        for turn in (0, 1):
            solved = _solve(np.roll(corners, -turn, axis=0), lens, table)
            if solved is None:
                continue
            rms, camera = solved
            least = min(least, rms)
            # Cushion tops are equally wide all round: what lies outside the noses must show equal margins.
            outer = camera.on_plane(quad_pixels(lens, quad), table.nose_height)
            margin = np.abs(outer) - [table.length / 2, table.width / 2]
            spread = float(np.std(margin)) * long_side / table.length
            feet = _feet(camera, table, np.linalg.inv(to_image), turn)
            cost = np.hypot(rms, spread) + _unexplained(options, depths, feet)
            fits = rms < _WORST_CORNERS * long_side and margin.min() > -0.02 * table.width
            if fits and (best is None or cost < best[0]):
                best = (cost, camera)
    if best is None:
        raise TableNotFoundError(
            f"the outline of the cloth is no rectangle of {table.length:g} x {table.width:g} m: corners miss by"
            f" {least:.1f} px, allowed are"
            f" {_WORST_CORNERS * long_side:.1f} px (wrong preset, wrong camera calibration, or no table)"
        )
    return best[1]


def _feet(camera: Camera, table: TableModel, to_depth: np.ndarray, turn: int) -> list[float]:
    """Return at which depth each side of the outline shows the foot of an upright cushion face."""
    x, y = table.length / 2, table.width / 2
    foot = np.array([[-x, y, 0], [x, y, 0], [x, -y, 0], [-x, -y, 0]])
    lens = camera.intrinsics
    pixels = camera.project_normalised(foot) * lens.matrix[[0, 1], [0, 1]] + lens.matrix[:2, 2]
    pixels = np.roll(pixels, turn, axis=0)  # back to the order of the outline
    depth = cv2.perspectiveTransform(pixels.reshape(-1, 1, 2), to_depth).reshape(-1, 2)
    top, right = (depth[0, 1] + depth[1, 1]) / 2, 1 - (depth[1, 0] + depth[2, 0]) / 2
    bottom, left = 1 - (depth[2, 1] + depth[3, 1]) / 2, (depth[3, 0] + depth[0, 0]) / 2
    return [float(top), float(right), float(bottom), float(left)]


def _unexplained(options: list[list[tuple[float, float]]], noses: list[float], feet: list[float]) -> float:
    """Return a cost [px] for edges that a choice of noses does not explain.

    A nose hides the bed behind it, or shows the face below it. So edges between the nose and the face's foot are
    expected; edges on the cushion top, or out on the bed, speak for another choice.
    """
    cost = 0.0
    for side, nose, foot in zip(options, noses, feet, strict=True):
        strongest = max(w for _, w in side)
        for depth, strength in side:
            expected = min(nose, foot) - 0.003 <= depth <= max(nose, foot) + 0.003
            cost += 0.0 if expected and depth >= nose - 1e-9 else min(1.0, 2 * strength / strongest)
    return cost


def quad_pixels(lens: Intrinsics, quad: np.ndarray) -> np.ndarray:
    """Return the pixels as taken (4, 2) of undistorted corners."""
    return lens.distort((quad - lens.matrix[:2, 2]) / lens.matrix[[0, 1], [0, 1]])


def _moved(camera: Camera, step: np.ndarray) -> Camera:
    turn = cv2.Rodrigues(step[:3])[0]
    return Camera(camera.intrinsics, turn @ camera.rotation, turn @ camera.translation + step[3:])


def _refine(lab: np.ndarray, camera: Camera, table: TableModel, region: ClothRegion) -> Reconstruction:
    """Fit the pose to many edge points along the noses.

    Raises:
        TableNotFoundError: too few edges, or edges that are not straight where the noses should be.
    """
    final = jacobian = shading = np.zeros(0)
    for reach, model_strip in ((_FIRST_REACH, False), (2.5, True), (2.0, True), (2.0, True)):
        edges = nose_edges(lab, camera, table, reach)
        if reach == _FIRST_REACH and len(edges) < len(table.cushions):  # a rough outline, and rougher for some noses
            edges = max(edges, nose_edges(lab, camera, table, 2 * reach), key=len)
        bias = np.zeros(len(edges))
        if model_strip and edges:
            bias, shading = edge_bias(edges, table.nose_height)
        points = np.concatenate([np.zeros((0, 3)), *(e.points for e in edges)])
        normals = np.concatenate([np.zeros((0, 2)), *(e.normals for e in edges)])
        offsets = np.concatenate([np.zeros(0), *(e.offsets - b for e, b in zip(edges, bias, strict=True))])
        if len(points) < 60:
            raise TableNotFoundError(f"only {len(points)} edge points were found along the noses, 60 are needed")
        if len(edges) < _CUSHIONS:
            raise TableNotFoundError(f"edges were found along {len(edges)} of the noses only, {_CUSHIONS} are needed")
        camera, final, jacobian = _fit_edges(camera, points, normals, offsets)
    inlier = np.abs(final) < 3 * max(1.4826 * float(np.median(np.abs(final))), 0.1)
    rms = float(np.sqrt(np.mean(final[inlier] ** 2)))
    if rms > _WORST_RMS or inlier.mean() < 0.5:
        raise TableNotFoundError(
            f"the edges along the noses scatter by {rms:.2f} px ({inlier.mean():.0%} agree),"
            f" allowed are {_WORST_RMS} px"
        )
    height = float(camera.position[2])
    if height < _LOWEST * table.ball_radius:
        raise TableNotFoundError(
            f"the camera would lie {height:.2f} m above the cloth, allowed are {_LOWEST * table.ball_radius:.2f} m"
        )
    places = places_in_view(camera, table)
    if len(final) < _LEAST_SEEN * places:
        raise TableNotFoundError(
            f"edges were found at {len(final)} of {places} places along the noses in view, {_LEAST_SEEN:.0%} are needed"
        )
    share = _share_on_cloth(camera, table, region)
    if share < _LEAST_ON_CLOTH:
        raise TableNotFoundError(
            f"the noses found lie to {share:.0%} only where the cloth is seen, {_LEAST_ON_CLOTH:.0%} are needed"
        )
    jacobian = jacobian[inlier]
    sigma = max(rms, 0.05)
    inverse = np.linalg.pinv(jacobian.T @ jacobian)
    cushion = np.repeat(np.arange(len(edges)), [len(e.points) for e in edges])[inlier]
    together = np.array([jacobian[cushion == k].sum(axis=0) for k in range(len(edges))])
    common = shading + _CUSHION**2 * np.eye(len(edges))
    noise = sigma**2 * _SHARED * jacobian.T @ jacobian + together.T @ common @ together
    covariance = inverse @ noise @ inverse
    return Reconstruction(camera, covariance, rms, int(inlier.sum()), region.colour)


def _share_on_cloth(camera: Camera, table: TableModel, region: ClothRegion) -> float:
    """Return how much of the outline of noses (in the image) and of cloth is common to both, 0..1.

    A pose fitted to few edges may explain these well and lie anywhere.
    """
    x, y, h = table.length / 2, table.width / 2, table.nose_height
    corners = np.array([[-x, y, h], [x, y, h], [x, -y, h], [-x, -y, h]])
    if np.min((corners @ camera.rotation.T + camera.translation)[:, 2]) <= 0:
        return 0.0
    noses = camera.project(corners).astype(np.float32)
    cloth = quad_pixels(camera.intrinsics, canonical_order(region.quad)).astype(np.float32)
    common, _ = cv2.intersectConvexConvex(noses, cloth)
    whole = cv2.contourArea(noses) + cv2.contourArea(cloth) - common
    return float(common / whole) if whole > 0 else 0.0


def _fit_edges(
    camera: Camera, points: np.ndarray, normals: np.ndarray, offsets: np.ndarray
) -> tuple[Camera, np.ndarray, np.ndarray]:
    """Move the camera so that points (n, 3) [m] appear where their edges are.

    Returns:
        The camera, the residuals (n,) [px] and their derivatives (n, 6) by the step.
    """
    target = camera.project(points) + offsets[:, None] * normals

    def residual(step: np.ndarray) -> np.ndarray:
        return np.sum(normals * (_moved(camera, step).project(points) - target), axis=1)

    solution = least_squares(residual, np.zeros(6), loss="soft_l1", f_scale=0.15, x_scale=[1e-3] * 6)
    return _moved(camera, solution.x), residual(solution.x), solution.jac


def _pose_covariance(camera: Camera, step_covariance: np.ndarray) -> np.ndarray:
    """Turn the covariance of a step (rotation, translation in the optical frame) into that of table_from_camera."""
    table_from_camera = camera.rotation.T
    position = table_from_camera  # d position = -R^T d translation, where the step's turn acts about the optical centre
    jacobian = np.zeros((6, 6))
    jacobian[:3, 3:] = -position
    jacobian[3:, :3] = -table_from_camera
    return jacobian @ step_covariance @ jacobian.T
