"""Does the twin look like the picture? The table as reconstructed is drawn over the image, and scored.

Needs MuJoCo and OpenGL, through ``cue_sim``'s own scenery; both are imported only when something is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics, sphere_outline
from cue_perception.noses import nose_edges
from cue_perception.photo_result import PhotoResult
from cue_perception.shadows import PAINT, without_shadows

_SPAN = 1280  # px: longest side of the pictures compared
_REACH = 4.0  # px
_WINDOW = 1.5  # px: sigma of the structural similarity's window (Wang et al. 2004)


@dataclass(frozen=True)
class TwinBall:
    """A ball to draw: (2,) place [m] and sRGB 0..1 of its paint."""

    position: np.ndarray
    colour: np.ndarray


@dataclass(frozen=True)
class Verification:
    """How well the twin agrees with the picture.

    Attributes:
        edge_rms: of the edges seen along the noses about those of the twin [px of the image]; nan without edges.
        edges: how many edge points.
        silhouette_iou: area of the balls, twin and picture in common, over the area of either, 0..1; without balls in
            both it is that of the cloth.
        cloth_iou: the same for the cloth in view.
        ssim: structural similarity of the lightness over table and frame, -1..1.
        mean_lab_de: mean colour difference (CIE 1976) over the bed with its balls, the twin lit as the picture is.
        picture: (h, w, 3) BGR: the twin over the image, beside it the twin alone.
    """

    edge_rms: float
    edges: int
    silhouette_iou: float
    cloth_iou: float
    ssim: float
    mean_lab_de: float
    picture: np.ndarray

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the score without the picture."""
        values = {
            "edge_rms_px": self.edge_rms,
            "edges": self.edges,
            "silhouette_iou": self.silhouette_iou,
            "cloth_iou": self.cloth_iou,
            "ssim": self.ssim,
            "mean_lab_de": self.mean_lab_de,
        }
        return {name: value if np.isfinite(value) else None for name, value in values.items()}


def verify(result: PhotoResult, image: np.ndarray) -> Verification:
    """Compare what was read from a picture with the picture.

    Args:
        result: from :func:`cue_perception.photo_result.examine`.
        image: (h, w, 3) BGR uint8, the same picture.

    Raises:
        CueError: there is no OpenGL here.
    """
    balls = [TwinBall(ball.position, ball.colour) for ball in result.balls]
    return verify_view(result.camera, result.table, balls, image)


def verify_view(camera: Camera, table: TableModel, balls: Sequence[TwinBall], image: np.ndarray) -> Verification:
    """Compare a table with balls, seen by a camera, with a picture (h, w, 3) BGR uint8.

    Raises:
        CueError: there is no OpenGL here.
    """
    scale = min(1.0, _SPAN / max(image.shape[:2]))
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA) if scale < 1 else image
    view = _scaled(camera, size, scale)
    bed, whole = _areas(view, table, size)
    cloth = np.median(small[bed > 0], axis=0) if bed.any() else np.array([90.0, 90.0, 90.0])
    red, green, blue = (float(c) for c in np.clip(cloth[::-1] / 255, 0, 1))
    dressed = replace(table, cloth_colour=(red, green, blue))
    twin = _draw(view, dressed, balls, size)
    twin = _lit_alike(twin, small, bed)
    discs = _discs(view, table, balls, size) & bed
    reach = 3 * float(np.linalg.norm(view.jacobian(np.zeros((1, 2)), 0.0)[0], axis=0).mean()) * table.ball_radius
    paint = np.linalg.norm(without_shadows(small, cloth, max(reach, 4.0)), axis=-1) > PAINT
    seen = cv2.morphologyEx((paint & (bed > 0)).astype(np.uint8) * 255, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    # Wound-shut holes of highlights and stripes belong to a ball; specks of chalk were opened away.
    seen = cv2.morphologyEx(seen, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    cloth_iou = _iou(cv2.bitwise_and(bed, cv2.bitwise_not(discs)), cv2.bitwise_and(bed, cv2.bitwise_not(seen)))
    silhouette = _iou(discs, seen) if discs.any() or seen.any() else cloth_iou
    rms, edges = _edge_rms(small, view, table)
    grey = [cv2.cvtColor(p, cv2.COLOR_BGR2GRAY).astype(np.float32) for p in (small, twin)]
    alike = _similarity(grey[0], grey[1])
    lab = [cv2.cvtColor(p.astype(np.float32) / 255, cv2.COLOR_BGR2LAB) for p in (small, twin)]
    difference = np.linalg.norm(lab[0] - lab[1], axis=-1)
    return Verification(
        rms / scale,
        edges,
        silhouette,
        cloth_iou,
        float(alike[whole > 0].mean()) if whole.any() else float("nan"),
        float(difference[bed > 0].mean()) if bed.any() else float("nan"),
        _picture(small, twin, whole, bed, discs),
    )


def _scaled(camera: Camera, size: tuple[int, int], scale: float) -> Camera:
    lens = camera.intrinsics
    matrix = lens.matrix.copy()
    matrix[[0, 1], [0, 1]] *= scale
    matrix[:2, 2] = (lens.matrix[:2, 2] + 0.5) * scale - 0.5
    return Camera(Intrinsics(*size, matrix, lens.distortion), camera.rotation, camera.translation)


def _polygon(points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    mask = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(mask, [np.round(points * 16).astype(np.int32)], 255, shift=4)
    return mask


def _areas(camera: Camera, table: TableModel, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bed inside the noses and outside the pockets, and table with frame, as masks."""
    x, y, h = table.length / 2, table.width / 2, table.nose_height
    share = np.linspace(-1, 1, 30)
    one = np.ones_like(share)
    ring = np.concatenate([np.column_stack(p) for p in ((share, -one), (one, share), (-share, one), (-one, -share))])
    inside = camera.project(np.column_stack([ring * [x, y], np.full(len(ring), h)]))
    outside = camera.project(
        np.column_stack([ring * [x + table.rail_width, y + table.rail_width], np.full(len(ring), h)])
    )
    bed = _polygon(inside, size)
    angle = np.linspace(0, 2 * np.pi, 40)
    for pocket in table.pockets:
        rim = pocket.position + 1.15 * pocket.radius * np.column_stack([np.cos(angle), np.sin(angle)])
        bed &= cv2.bitwise_not(_polygon(camera.project(np.column_stack([rim, np.zeros(len(rim))])), size))
    margin = max(round(0.15 * table.ball_radius * np.linalg.norm(camera.jacobian(np.zeros((1, 2)), 0.0)[0, :, 0])), 1)
    return cv2.erode(bed, np.ones((2 * margin + 1, 2 * margin + 1), np.uint8)), _polygon(outside, size)


def _discs(camera: Camera, table: TableModel, balls: Sequence[TwinBall], size: tuple[int, int]) -> np.ndarray:
    mask = np.zeros((size[1], size[0]), np.uint8)
    for ball in balls:
        centre = np.array([[*ball.position, table.ball_radius]])
        mask |= _polygon(camera.project(sphere_outline(camera, centre, table.ball_radius, 48))[0], size)
    return mask


def _draw(camera: Camera, table: TableModel, balls: Sequence[TwinBall], size: tuple[int, int]) -> np.ndarray:
    """Return the twin (h, w, 3) BGR uint8 through the camera's lens."""
    import mujoco

    from cue_sim.graphics import make_context
    from cue_sim.scenery import add_scenery

    lens = camera.intrinsics
    u, v = np.meshgrid(np.arange(size[0], dtype=float), np.arange(size[1], dtype=float))
    rays = lens.undistort(np.column_stack([u.ravel(), v.ravel()]))
    focal = float(lens.matrix[0, 0])
    half = np.minimum(np.ceil(focal * np.abs(rays).max(axis=0)) + 2, 4096).astype(int)
    spec: Any = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.visual.quality.offsamples = 4
    picture = getattr(spec.visual, "global")
    picture.offwidth, picture.offheight = 2 * int(half[0]), 2 * int(half[1])
    add_scenery(spec, table)
    for k, ball in enumerate(balls):
        spec.add_material(name=f"paint_{k}", rgba=[*np.clip(ball.colour, 0, 1), 1.0], specular=0.5, shininess=0.85)
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            material=f"paint_{k}",
            pos=[*ball.position, table.ball_radius],
            size=[table.ball_radius, 0, 0],
        )
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, (camera.rotation.T @ np.diag([1.0, -1.0, -1.0])).ravel())
    view = float(np.degrees(2 * np.arctan(half[1] / focal)))
    spec.worldbody.add_camera(name="eye", pos=camera.position, quat=quaternion, fovy=view)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    width, height = 2 * int(half[0]), 2 * int(half[1])
    context = make_context(width, height)
    try:
        scene = mujoco.MjvScene(model, maxgeom=1000)
        drawer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawer)
        eye = mujoco.MjvCamera()
        eye.type, eye.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera("eye").id
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, eye, mujoco.mjtCatBit.mjCAT_ALL, scene)
        area = mujoco.MjrRect(0, 0, width, height)
        ideal = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(area, scene, drawer)
        mujoco.mjr_readPixels(ideal, None, area, drawer)
        drawer.free()
    finally:
        context.free()
    source = (focal * rays + [width / 2 - 0.5, height / 2 - 0.5]).astype(np.float32)
    maps = source.reshape(size[1], size[0], 2)
    upright = np.ascontiguousarray(ideal[::-1, :, ::-1])
    return cv2.remap(upright, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _lit_alike(twin: np.ndarray, image: np.ndarray, bed: np.ndarray) -> np.ndarray:
    """Return the twin with each channel scaled so that its cloth is as light as the picture's."""
    if not bed.any():
        return twin
    gain = np.clip(np.median(image[bed > 0], axis=0) / np.maximum(np.median(twin[bed > 0], axis=0), 1.0), 0.2, 5.0)
    return np.clip(twin * gain, 0, 255).astype(np.uint8)


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    either = int(np.count_nonzero(cv2.bitwise_or(a, b)))
    return float(np.count_nonzero(cv2.bitwise_and(a, b)) / either) if either else float("nan")


def _edge_rms(image: np.ndarray, camera: Camera, table: TableModel) -> tuple[float, int]:
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_BGR2LAB)
    found = [e.offsets for e in nose_edges(lab, camera, table, _REACH, per_metre=160.0 / table.length)]
    offsets = np.concatenate([np.zeros(0), *found])
    return (float(np.sqrt(np.mean(offsets**2))), len(offsets)) if len(offsets) else (float("nan"), 0)


def _similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the structural similarity (h, w) of two grey pictures (Wang et al. 2004, the usual constants)."""

    def mean(plane: np.ndarray) -> np.ndarray:
        return np.asarray(cv2.GaussianBlur(plane, (11, 11), _WINDOW))

    low, high = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mean_a, mean_b = mean(a), mean(b)
    spread_a, spread_b = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2
    common = mean(a * b) - mean_a * mean_b
    return np.asarray(
        (2 * mean_a * mean_b + low)
        * (2 * common + high)
        / ((mean_a**2 + mean_b**2 + low) * (spread_a + spread_b + high))
    )


def _picture(image: np.ndarray, twin: np.ndarray, whole: np.ndarray, bed: np.ndarray, discs: np.ndarray) -> np.ndarray:
    mixed = image.copy()
    inside = whole > 0
    mixed[inside] = cv2.addWeighted(image, 0.5, twin, 0.5, 0)[inside]
    for mask, colour in ((bed, (80, 255, 80)), (discs, (255, 255, 255))):
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(mixed, contours, -1, colour, 1, cv2.LINE_AA)
    return np.hstack([mixed, twin])
