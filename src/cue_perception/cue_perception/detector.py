"""Balls in one image: foreground on the cloth, seeds, and the outline fit that turns a seed into a measured centre."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline
from cue_perception.colours import to_lab
from cue_perception.noses import sample
from cue_perception.outline import fit_outlines

_AROUND = np.column_stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)])
_SURE = 0.55  # share of the outline that must show an edge
_TRACKED = 0.35  # the same beside a prediction: the arm may hide the rest
_SCATTER = 0.55  # px
_SWELLING = 1.6  # px


@dataclass(frozen=True, eq=False)
class Detection:
    """A ball seen in one image.

    Attributes:
        position: (2,) in the table frame [m].
        covariance: (2, 2) [m^2].
        colour: (3,) CIE Lab of its paint.
        white_share: of its visible disc that is white, 0..1.
        support: share of its outline that was seen, 0..1.
        sharp: measured by its outline; else only by its blurred patch.
    """

    position: np.ndarray
    covariance: np.ndarray
    colour: np.ndarray
    white_share: float
    support: float
    sharp: bool = True


class Detector:
    """Finds balls of one size on one table from one camera."""

    def __init__(self, camera: Camera, table: TableModel, image: np.ndarray) -> None:
        """Learn the cloth from an image (h, w, 3) BGR uint8 of the table; balls and an arm may be on it."""
        self.camera, self.table = camera, table
        radius, lens = table.ball_radius, camera.intrinsics
        x, y = table.length / 2, table.width / 2
        corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]])
        low = camera.project(np.column_stack([corners * [1 + radius / x, 1 + radius / y], np.zeros(4)]))
        high = camera.project(np.column_stack([corners * [1 + radius / x, 1 + radius / y], np.full(4, 2 * radius)]))
        both = np.concatenate([low, high])
        self._x0, self._y0 = np.clip(np.floor(both.min(axis=0)).astype(int) - 4, 0, None)
        self._x1 = min(int(both[:, 0].max()) + 5, lens.width)
        self._y1 = min(int(both[:, 1].max()) + 5, lens.height)
        self._origin = np.array([self._x0, self._y0])
        self._bed = self._bed_mask()
        centre = np.zeros((1, 2))
        scale = np.linalg.norm(camera.jacobian(centre, radius)[0], axis=0).mean()
        self.radius_px = float(scale * radius)
        size = 2 * round(0.16 * self.radius_px) + 1
        self._opening = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (max(size, 3), max(size, 3)))
        self._learn_cloth(image)
        angle = 2 * np.pi * np.arange(12) / 12
        rings = [np.column_stack([np.cos(angle), np.sin(angle)]) * r for r in (0.2, 0.45, 0.7)]
        self._disc = np.concatenate([np.zeros((1, 2)), *rings])
        self._mask: np.ndarray = np.zeros(self._bed.shape, np.uint8)

    def _bed_mask(self) -> np.ndarray:
        """Return 255 where the bed is seen inside the noses and outside the pockets (region of interest)."""
        table, camera = self.table, self.camera
        x, y, h = table.length / 2, table.width / 2, table.nose_height
        edge = np.linspace(-1, 1, 41)
        ring = [np.column_stack([edge * x, 0 * edge - y]), np.column_stack([0 * edge + x, edge * y])]
        ring += [-ring[0], -ring[1]]
        line = np.concatenate(ring)
        mask = np.zeros((self._y1 - self._y0, self._x1 - self._x0), np.uint8)
        pixels = camera.project(np.column_stack([line, np.full(len(line), h)])) - self._origin
        cv2.fillPoly(mask, [np.round(pixels * 16).astype(np.int32)], 255, shift=4)
        angle = np.linspace(0, 2 * np.pi, 40)
        for pocket in table.pockets:
            rim = pocket.position + 1.04 * pocket.radius * np.column_stack([np.cos(angle), np.sin(angle)])
            pixels = camera.project(np.column_stack([rim, np.zeros(len(rim))])) - self._origin
            cv2.fillPoly(mask, [np.round(pixels * 16).astype(np.int32)], 0, shift=4)
        return mask

    def _learn_cloth(self, image: np.ndarray) -> None:
        """Model the cloth's colour as a smooth function of place, without the balls and whatever else lies on it."""
        roi = cv2.GaussianBlur(self._roi(image), (0, 0), 1.0).astype(np.float32)
        inner = cv2.erode(self._bed, np.ones((9, 9), np.uint8))
        v, u = np.nonzero(inner)
        keep = slice(None, None, max(len(u) // 20000, 1))
        v, u = v[keep], u[keep]
        height, width = self._bed.shape
        values = roi[v, u].astype(float)

        def basis(u: np.ndarray, v: np.ndarray) -> np.ndarray:
            a, b = 2 * u / width - 1, 2 * v / height - 1
            terms = [np.ones_like(a), a, b, a * a, a * b, b * b, a**3, a * a * b, a * b * b, b**3]
            terms += [a**4, a * a * b * b, b**4]
            return np.stack(terms, -1)

        design = basis(u.astype(float), v.astype(float))
        use = np.linalg.norm(values - np.median(values, axis=0), axis=1) < 60
        for _ in range(6):
            weights, *_ = np.linalg.lstsq(design[use], values[use], rcond=None)
            error = np.linalg.norm(values - design @ weights, axis=1)
            use = error < max(3.5 * float(np.median(error[use])), 5.0)
        cloth_bgr = np.median(values[use], axis=0)
        grid_u, grid_v = np.meshgrid(np.arange(width, dtype=float), np.arange(height, dtype=float))
        model = (basis(grid_u, grid_v) @ weights).astype(np.float32)
        # First axis along the cloth's colour: a shadow moves a pixel along it, another paint across it.
        axis = cloth_bgr / max(float(np.linalg.norm(cloth_bgr)), 1.0)
        helper = np.array([1.0, 0, 0]) if abs(axis[0]) < 0.8 else np.array([0, 1.0, 0])
        second = np.cross(axis, helper)
        second /= np.linalg.norm(second)
        self._axes = np.stack([axis, second, np.cross(axis, second)]).astype(np.float32)
        self._cloth = cv2.transform(model, self._axes)
        residual = cv2.transform(self._roi(image).astype(np.float32), self._axes) - self._cloth
        quiet = residual[v[use], u[use]]
        noise = 1.4826 * np.median(np.abs(quiet), axis=0)
        self._across = float(max(4.5 * np.hypot(noise[1], noise[2]), 14.0))
        self._brighter = float(max(5.0 * noise[0], 22.0))
        self._darker = float(max(0.45 * np.linalg.norm(cloth_bgr), 5.0 * noise[0]))

    def _roi(self, image: np.ndarray) -> np.ndarray:
        return image[self._y0 : self._y1, self._x0 : self._x1]

    def foreground(self, image: np.ndarray) -> np.ndarray:
        """Return 255 where the bed shows something else than cloth (region of interest)."""
        turned = cv2.transform(self._roi(image).astype(np.float32), self._axes)
        cv2.subtract(turned, self._cloth, dst=turned)
        along, second, third = cv2.split(turned)
        across = cv2.magnitude(second, third)
        _, mask = cv2.threshold(across, self._across, 255, cv2.THRESH_BINARY)
        _, brighter = cv2.threshold(along, self._brighter, 255, cv2.THRESH_BINARY)
        _, darker = cv2.threshold(along, -self._darker, 255, cv2.THRESH_BINARY_INV)
        mask = cv2.max(cv2.max(mask, brighter), darker).astype(np.uint8)
        cv2.bitwise_and(mask, self._bed, dst=mask)
        self._mask = mask
        return mask

    def cover(self, positions: np.ndarray) -> np.ndarray:
        """Return how much (n,) of the disc of a ball at (n, 2) [m] hides the cloth in the newest image, 0..1."""
        if len(positions) == 0:
            return np.zeros(0)
        pixels = self._disc_pixels(positions) - self._origin
        u = np.clip(np.round(pixels[..., 0]).astype(int), 0, self._mask.shape[1] - 1)
        v = np.clip(np.round(pixels[..., 1]).astype(int), 0, self._mask.shape[0] - 1)
        known = self._bed[v, u] > 0
        covered = (self._mask[v, u] > 0) & known
        return covered.sum(axis=1) / np.maximum(known.sum(axis=1), 1)

    def _in_view(self, position: np.ndarray) -> float:
        """Return the share of a ball's disc at (2,) [m] that lies within the bed as seen."""
        pixels = np.round(self._disc_pixels(position[None])[0] - self._origin).astype(int)
        u = np.clip(pixels[:, 0], 0, self._bed.shape[1] - 1)
        v = np.clip(pixels[:, 1], 0, self._bed.shape[0] - 1)
        return float(np.mean(self._bed[v, u] > 0))

    def _disc_pixels(self, positions: np.ndarray) -> np.ndarray:
        radius = self.table.ball_radius
        centres = np.column_stack([positions, np.full(len(positions), radius)])
        rim = self.camera.project(sphere_outline(self.camera, centres, radius, 4))
        right, down = (rim[:, 0] - rim[:, 2]) / 2, (rim[:, 1] - rim[:, 3]) / 2
        middle = rim.mean(axis=1)
        return middle[:, None] + self._disc[:, :1] * right[:, None] + self._disc[:, 1:] * down[:, None]

    def detect(self, image: np.ndarray, predicted: np.ndarray) -> list[Detection]:
        """Return the balls in an image.

        Args:
            image: (h, w, 3) BGR uint8.
            predicted: (m, 2) where balls are expected [m]; there, less of the outline is enough.
        """
        mask = cv2.morphologyEx(self.foreground(image), cv2.MORPH_OPEN, self._opening)
        table, radius = self.table, self.table.ball_radius
        predicted = np.asarray(predicted, float).reshape(-1, 2)
        heights = np.full(len(predicted), radius)
        seeds, patches = self._seeds(mask, self.camera.project(np.column_stack([predicted, heights])) - self._origin)
        start = _distinct(np.concatenate([predicted, seeds]), 0.5 * radius)
        start = start[self._reachable(start, 0.6 * radius)]
        found = self._measure(image, start, predicted)
        for position in patches:  # blurred by speed: an outline fits badly, the patch's middle is still good to a pixel
            near = [d for d in found if np.linalg.norm(d.position - position) < radius]
            if not near and self._reachable(position[None], 0.0)[0] and self._in_view(position) > 0.97:
                sigma = 0.8 / (self.radius_px / table.ball_radius)
                colour, white = self._paint(image, position[None])
                found.append(Detection(position, np.eye(2) * sigma**2, colour[0], float(white[0]), 0.0, sharp=False))
        return found

    def _reachable(self, positions: np.ndarray, margin: float) -> np.ndarray:
        """Tell which positions (n, 2) a ball's centre can have: inside the noses, or in a pocket's mouth."""
        table = self.table
        reach = np.array([table.length / 2, table.width / 2]) - table.ball_stop + 0.12 * table.ball_radius + margin
        inside = np.all(np.abs(positions) <= reach, axis=1)
        for pocket in table.pockets:
            mouth = pocket.radius + 0.8 * table.ball_radius
            inside |= np.linalg.norm(positions - pocket.position, axis=1) < mouth
        return inside

    def _seeds(self, mask: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return where balls may be: seeds (n, 2) [m], and middles of patches that moving balls may have made [m]."""
        _, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=4)
        ball = np.pi * self.radius_px**2
        single, pixels = [], []
        for k in range(1, len(stats)):
            x, y, w, h, area = stats[k]
            if area < 0.2 * ball:
                continue
            if area < 1.35 * ball and max(w, h) < 2.7 * self.radius_px:
                pixels.append(centres[k])
                if area > 0.8 * ball:
                    single.append(centres[k])
                else:  # part of it is hidden, by a pocket's rim or an arm: the middle of the rest is not its middle
                    pixels += [centres[k] + 0.7 * self.radius_px * step for step in _AROUND]
                continue
            patch = np.zeros((h + 2, w + 2), np.uint8)
            patch[1:-1, 1:-1] = labels[y : y + h, x : x + w] == k
            corner = np.array([x - 1, y - 1], float)
            split = [corner + p for p in self._split(patch)]
            # Once the balls are known they seed themselves; what comes later is mostly an arm.
            if 1.6 * ball < area < (3 if len(expected) else 20) * ball:
                split += self._fill(patch, corner, [*split, *expected])
            pixels += split
            if 0.8 * ball < area < 3 * ball and area > 0.62 * w * h:
                single.append(centres[k])
        if not pixels:
            return np.zeros((0, 2)), []
        radius = self.table.ball_radius
        seeds = self.camera.on_plane(np.array(pixels) + self._origin, radius)
        patches = self.camera.on_plane(np.array(single) + self._origin, radius) if single else np.zeros((0, 2))
        return seeds, list(patches)

    def _split(self, patch: np.ndarray) -> list[np.ndarray]:
        """Return the likely ball centres [px] in a patch of several balls, or of balls and an arm."""
        distance = cv2.distanceTransform(patch, cv2.DIST_L2, 5)
        reach = max(round(0.55 * self.radius_px), 1)
        peaks = distance >= cv2.dilate(distance, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)) - 1e-6
        v, u = np.nonzero(peaks & (distance > 0.55 * self.radius_px) & (distance < 1.6 * self.radius_px))
        order = np.argsort(-distance[v, u], kind="stable")
        chosen: list[np.ndarray] = []
        for i in order[:60]:
            point = np.array([u[i], v[i]], float)
            if all(np.linalg.norm(point - other) > 0.8 * self.radius_px for other in chosen):
                chosen.append(point)
        return chosen

    def _fill(self, patch: np.ndarray, corner: np.ndarray, known: list[np.ndarray]) -> list[np.ndarray]:
        """Return places [px] all over a patch of several balls, but for those near known ones: a rack is one blob."""
        step = max(0.8 * self.radius_px, 2.0)
        places = []
        for v in np.arange(step / 2, patch.shape[0] - 1, step):
            for u in np.arange(step / 2, patch.shape[1] - 1, step):
                point = corner + np.array([u, v])
                if patch[int(v), int(u)] and all(np.linalg.norm(point - k) > 1.1 * self.radius_px for k in known):
                    places.append(point)
        return places[:60]

    def _measure(self, image: np.ndarray, start: np.ndarray, predicted: np.ndarray) -> list[Detection]:
        radius = self.table.ball_radius
        if len(start) == 0:
            return []
        fit = fit_outlines(image, self.camera, start, radius)
        expected = np.zeros(len(start), bool)
        if len(predicted):
            gap = np.linalg.norm(fit.position[:, None] - predicted[None], axis=-1)
            expected = gap.min(axis=1) < 0.5 * radius
        good = fit.support > np.where(expected, _TRACKED, _SURE)
        good &= (fit.scatter < _SCATTER) & (np.abs(fit.swelling) < _SWELLING) & self._reachable(fit.position, 0.0)
        covered = self.cover(fit.position)
        good &= covered > 0.6
        order = sorted(np.flatnonzero(good), key=lambda i: -float(fit.support[i] - fit.scatter[i]))
        chosen: list[int] = []
        for i in order:
            if all(np.linalg.norm(fit.position[i] - fit.position[j]) > 1.5 * radius for j in chosen):
                chosen.append(int(i))
        if not chosen:
            return []
        colours, white = self._paint(image, fit.position[chosen])
        return [
            Detection(fit.position[i], fit.covariance[i], colours[n], float(white[n]), float(fit.support[i]))
            for n, i in enumerate(chosen)
        ]

    def _paint(self, image: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the paint's Lab (n, 3), highlights left out, and the share of white (n,)."""
        lab = to_lab(sample(image, self._disc_pixels(positions)).reshape(-1, 3)).reshape(len(positions), -1, 3)
        chroma = np.hypot(lab[..., 1], lab[..., 2])
        white = (lab[..., 0] > 62) & (chroma < 22)
        share = white.mean(axis=1)
        paint = np.array(
            [
                np.median(pixels[~w] if s < 0.75 else pixels, axis=0)
                for pixels, w, s in zip(lab, white, share, strict=True)
            ]
        )
        return paint, share


def _distinct(points: np.ndarray, apart: float) -> np.ndarray:
    """Return points (n, 2) without those closer than ``apart`` to an earlier one."""
    kept: list[np.ndarray] = []
    for point in points:
        if all(np.linalg.norm(point - other) > apart for other in kept):
            kept.append(point)
    return np.array(kept).reshape(-1, 2)
