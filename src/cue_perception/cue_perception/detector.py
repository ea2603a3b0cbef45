"""Balls in one image: foreground on the cloth, seeds, and the outline fit that turns a seed into a measured centre."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, sphere_outline
from cue_perception.colours import to_lab
from cue_perception.foreground import ClothModel
from cue_perception.noses import sample
from cue_perception.outline import OutlineFit, fit_outlines

_AROUND = np.column_stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)])
_SURE = 0.55  # share of the outline that must show an edge
_TRACKED = 0.35  # the same beside a prediction: the arm may hide the rest
_SCATTER = 0.55  # px
_LENIENT_SCATTER = 0.95  # px
_SWELLING = 1.6  # px
_ROUND = (0.65, 0.3, 0.15)  # support and scatter [px] of an outline so round that so little of its disc may hide cloth
_SURE_TRACKED = 0.8  # the same for a ball that is not quite where it was expected
_FEW, _MANY = 3, 40  # seeds that are looked around for a ball, once the balls are known and before
_WHITE = 0.75  # share of a disc from which on a ball counts as all white ...
_BAND, _BAND_PLACES = 30.0, 3  # ... unless so many places of it show so much chroma [Lab units]
_SEARCHED_RADIUS = 5.5  # px: least radius of a ball in the image that is searched for balls


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
        swelling: by how much its outline lies outside that of a ball of the table's radius [px].
        scatter: of the edges about its outline [px].
    """

    position: np.ndarray
    covariance: np.ndarray
    colour: np.ndarray
    white_share: float
    support: float
    sharp: bool = True
    swelling: float = 0.0
    scatter: float = 0.0


class Detector:
    """Finds balls of one size on one table from one camera."""

    def __init__(self, camera: Camera, table: TableModel, image: np.ndarray, lenient: bool = False) -> None:
        """Learn the cloth from an image (h, w, 3) BGR uint8 of the table; balls and an arm may be on it.

        Args:
            camera: pose and lens.
            table: geometry.
            image: to learn from.
            lenient: take whole outlines that scatter more, where the lens is not known well.
        """
        self.camera, self.table, self._lenient = camera, table, lenient
        radius, lens = table.ball_radius, camera.intrinsics
        x, y = table.length / 2, table.width / 2
        corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]])
        low = camera.project(np.column_stack([corners * [1 + radius / x, 1 + radius / y], np.zeros(4)]))
        high = camera.project(np.column_stack([corners * [1 + radius / x, 1 + radius / y], np.full(4, 2 * radius)]))
        both = np.concatenate([low, high])
        self._x0, self._y0 = np.clip(np.floor(both.min(axis=0)).astype(int) - 4, 0, None)
        self._x1 = min(int(both[:, 0].max()) + 5, lens.width)
        self._y1 = min(int(both[:, 1].max()) + 5, lens.height)
        self._origin = self.origin = np.array([self._x0, self._y0])
        self._mouths = np.array([p.position for p in table.pockets]).reshape(-1, 2)
        self._mouth_reach = np.array([p.radius + 0.8 * radius for p in table.pockets])
        self._bed = self._bed_mask()
        centre = np.zeros((1, 2))
        scale = np.linalg.norm(camera.jacobian(centre, radius)[0], axis=0).mean()
        self.radius_px = float(scale * radius)
        # Where balls are is searched for in an image just large enough for that; measured they are in the whole one.
        self._first = image
        self._fine: ClothModel | None = None
        self._model = ClothModel(self._roi(image), self._bed, max(int(self.radius_px / _SEARCHED_RADIUS), 1))
        self._radius = self.radius_px / self._model.factor
        size = 2 * round(0.16 * self._radius) + 1
        self._opening = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (max(size, 3), max(size, 3)))
        angle = 2 * np.pi * np.arange(12) / 12
        rings = [np.column_stack([np.cos(angle), np.sin(angle)]) * r for r in (0.2, 0.45, 0.7)]
        self._disc = np.concatenate([np.zeros((1, 2)), *rings])
        self._mask: np.ndarray = np.zeros(self._model.bed.shape, np.uint8)

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

    def _roi(self, image: np.ndarray) -> np.ndarray:
        return image[self._y0 : self._y1, self._x0 : self._x1]

    def foreground(self, image: np.ndarray) -> np.ndarray:
        """Return 255 where the bed shows something else than cloth (region of interest, full resolution)."""
        if self._fine is None:
            self._fine = self._model if self._model.factor == 1 else ClothModel(self._roi(self._first), self._bed)
        return self._fine.foreground(self._roi(image))

    def _reduced(self, pixels: np.ndarray) -> np.ndarray:
        """Return where pixels (..., 2) of the image lie in the reduced region of interest."""
        return (pixels - self._origin - 0.5 * (self._model.factor - 1)) / self._model.factor

    def _full(self, pixels: np.ndarray) -> np.ndarray:
        """Return the opposite of :meth:`_reduced`."""
        return pixels * self._model.factor + 0.5 * (self._model.factor - 1) + self._origin

    def cover(self, positions: np.ndarray) -> np.ndarray:
        """Return how much (n,) of the disc of a ball at (n, 2) [m] hides the cloth in the newest image, 0..1."""
        if len(positions) == 0:
            return np.zeros(0)
        pixels = self._reduced(self._disc_pixels(positions))
        u = np.clip(np.round(pixels[..., 0]).astype(int), 0, self._mask.shape[1] - 1)
        v = np.clip(np.round(pixels[..., 1]).astype(int), 0, self._mask.shape[0] - 1)
        known = self._model.bed[v, u] > 0
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
        self._mask = self._model.foreground(self._roi(image))
        mask = cv2.morphologyEx(self._mask, cv2.MORPH_OPEN, self._opening)
        table, radius = self.table, self.table.ball_radius
        predicted = np.asarray(predicted, float).reshape(-1, 2)
        start = _distinct(predicted, 0.5 * radius)
        start = start[self._reachable(start, 0.6 * radius)]
        tracked = fit_outlines(image, self.camera, start, radius, expected=len(start))
        there = np.sum((tracked.position - start) ** 2, axis=1) < (0.12 * radius) ** 2
        cover = self.cover(tracked.position)
        sure = (tracked.support > np.where(there, _SURE, _SURE_TRACKED)) & self._like_ball(
            tracked, np.ones(len(start), bool), cover
        )
        self._take_out(mask, tracked.position[sure])
        centres = np.column_stack([predicted, np.full(len(predicted), radius)])
        seeds, patches = self._seeds(mask, self._reduced(self.camera.project(centres)))
        # No other ball's centre lies within a ball.
        seeds = _distinct(np.concatenate([start, tracked.position[sure], seeds]), 0.5 * radius)[len(start) :]
        if sure.any() and len(seeds):
            gap = np.linalg.norm(seeds[:, None] - tracked.position[sure][None], axis=-1)
            seeds = seeds[gap.min(axis=1) > 1.5 * radius]
        seeds = seeds[self._reachable(seeds, 0.6 * radius)]
        loose = self._from_seeds(image, seeds, len(predicted) > 0)
        cover = np.concatenate([cover, self.cover(loose.position)])
        found = self._measure(image, tracked.joined(loose), predicted, cover)
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
        if len(self._mouths):
            gap = np.linalg.norm(positions[:, None] - self._mouths, axis=-1)
            inside |= np.any(gap < self._mouth_reach, axis=1)
        return np.asarray(inside)

    def _seeds(self, mask: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return where balls may be: seeds (n, 2) [m], and middles of patches that moving balls may have made [m]."""
        if cv2.countNonZero(mask) < 0.2 * np.pi * self._radius**2:
            return np.zeros((0, 2)), []
        _, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=4)
        ball = np.pi * self._radius**2
        single, pixels = [], []
        for k in range(1, len(stats)):
            x, y, w, h, area = stats[k]
            if area < 0.2 * ball:
                continue
            if area < 1.35 * ball and max(w, h) < 2.7 * self._radius:
                pixels.append(centres[k])
                if area > 0.8 * ball:
                    single.append(centres[k])
                else:  # part of it is hidden, by a pocket's rim or an arm: the middle of the rest is not its middle
                    pixels += [centres[k] + 0.7 * self._radius * step for step in _AROUND]
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
        seeds = self.camera.on_plane(self._full(np.array(pixels)), radius)
        patches = self.camera.on_plane(self._full(np.array(single)), radius) if single else np.zeros((0, 2))
        return seeds, list(patches)

    def _split(self, patch: np.ndarray) -> list[np.ndarray]:
        """Return the likely ball centres [px] in a patch of several balls, or of balls and an arm."""
        distance = cv2.distanceTransform(patch, cv2.DIST_L2, 5)
        reach = max(round(0.55 * self._radius), 1)
        peaks = distance >= cv2.dilate(distance, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)) - 1e-6
        v, u = np.nonzero(peaks & (distance > 0.55 * self._radius) & (distance < 1.6 * self._radius))
        order = np.argsort(-distance[v, u], kind="stable")
        chosen: list[np.ndarray] = []
        for i in order[:60]:
            point = np.array([u[i], v[i]], float)
            if all(np.linalg.norm(point - other) > 0.8 * self._radius for other in chosen):
                chosen.append(point)
        return chosen

    def _fill(self, patch: np.ndarray, corner: np.ndarray, known: list[np.ndarray]) -> list[np.ndarray]:
        """Return places [px] all over a patch of several balls, but for those near known ones: a rack is one blob."""
        step = max(0.8 * self._radius, 2.0)
        places = []
        for v in np.arange(step / 2, patch.shape[0] - 1, step):
            for u in np.arange(step / 2, patch.shape[1] - 1, step):
                point = corner + np.array([u, v])
                if patch[int(v), int(u)] and all(np.linalg.norm(point - k) > 1.1 * self._radius for k in known):
                    places.append(point)
        return places[:60]

    def _like_ball(self, fit: OutlineFit, expected: np.ndarray, cover: np.ndarray) -> np.ndarray:
        """Tell which outlines are round and of the right size, can be there, and do not just surround cloth.

        Paint of the cloth's own colour hides part of an outline and draws edges of its own, where it ends.
        """
        clear = np.clip(fit.support - 0.7, 0.0, None)
        worst = np.where(self._lenient & (fit.support > 0.8), _LENIENT_SCATTER, _SCATTER + 1.2 * clear)
        good = (fit.scatter < worst) & (np.abs(fit.swelling) < _SWELLING) & self._reachable(fit.position, 0.0)
        least = np.where(expected | (fit.support > 0.7), 0.35, 0.6)
        # Of a stripe whose band has the cloth's colour, only a cap or the white number need differ from cloth.
        least = np.where((fit.support > _ROUND[0]) & (fit.scatter < _ROUND[1]), _ROUND[2], least)
        return np.asarray(good & (cover > least))

    def _from_seeds(self, image: np.ndarray, seeds: np.ndarray, known: bool) -> OutlineFit:
        """Fit outlines from seeds (n, 2) [m]; where few fail, look around them: a stripe is not in a ball's middle."""
        radius = self.table.ball_radius
        fit = fit_outlines(image, self.camera, seeds, radius)
        like = self._like_ball(fit, np.zeros(len(seeds), bool), self.cover(fit.position))
        failed = np.flatnonzero(~((fit.support > _SURE) & like))
        if not 0 < len(failed) <= (_FEW if known else _MANY):
            return fit
        around = (seeds[failed][:, None] + 0.4 * radius * _AROUND[::2]).reshape(-1, 2)
        again = fit_outlines(image, self.camera, around, radius)
        like = self._like_ball(again, np.zeros(len(around), bool), self.cover(again.position))
        return fit.joined(again.chosen((again.support > _SURE) & like))

    def _take_out(self, mask: np.ndarray, positions: np.ndarray) -> None:
        """Blacken in a mask (reduced region of interest) what balls at (n, 2) [m] explain."""
        if len(positions) == 0:
            return
        centres = np.column_stack([positions, np.full(len(positions), self.table.ball_radius)])
        rims = self._reduced(
            self.camera.project(sphere_outline(self.camera, centres, 1.15 * self.table.ball_radius, 24))
        )
        for rim in rims:
            cv2.fillConvexPoly(mask, np.round(rim * 16).astype(np.int32), 0, shift=4)

    def _measure(self, image: np.ndarray, fit: OutlineFit, predicted: np.ndarray, cover: np.ndarray) -> list[Detection]:
        """Choose among fits those that are balls, and look at their paint."""
        radius = self.table.ball_radius
        if len(fit.position) == 0:
            return []
        expected = np.zeros(len(fit.position), bool)
        if len(predicted):
            gap = np.linalg.norm(fit.position[:, None] - predicted[None], axis=-1)
            expected = gap.min(axis=1) < 0.5 * radius
        good = fit.support > np.where(expected, _TRACKED, _SURE)
        good &= self._like_ball(fit, expected, cover)
        order = sorted(np.flatnonzero(good), key=lambda i: -float(fit.support[i] - fit.scatter[i]))
        gap = np.sum((fit.position[:, None] - fit.position[None]) ** 2, axis=-1)
        chosen: list[int] = []
        for i in order:
            if not chosen or gap[i, chosen].min() > (1.5 * radius) ** 2:
                chosen.append(int(i))
        if not chosen:
            return []
        colours, white = self._paint(image, fit.position[chosen])
        return [
            Detection(
                fit.position[i],
                fit.covariance[i],
                colours[n],
                float(white[n]),
                float(fit.support[i]),
                swelling=float(fit.swelling[i]),
                scatter=float(fit.scatter[i]),
            )
            for n, i in enumerate(chosen)
        ]

    def _paint(self, image: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the paint's Lab (n, 3), highlights left out, and the share of white (n,)."""
        lab = to_lab(sample(image, self._disc_pixels(positions)).reshape(-1, 3)).reshape(len(positions), -1, 3)
        chroma = np.hypot(lab[..., 1], lab[..., 2])
        white = (lab[..., 0] > 62) & (chroma < 22)
        share = white.mean(axis=1)
        # The median of what is not white, unless nearly all is; but a stripe seen on its cap shows its band at the rim.
        band = chroma > _BAND
        left_out = white & (share < _WHITE)[:, None]
        left_out |= ~band & ((share >= _WHITE) & (band.sum(axis=1) >= _BAND_PLACES))[:, None]
        ordered = np.sort(np.where(left_out[..., None], np.inf, lab), axis=1)
        count = (~left_out).sum(axis=1)
        balls = np.arange(len(positions))
        paint = 0.5 * (ordered[balls, (count - 1) // 2] + ordered[balls, count // 2])
        return paint, share


def _distinct(points: np.ndarray, apart: float) -> np.ndarray:
    """Return points (n, 2) without those closer than ``apart`` to an earlier one."""
    near = np.sum((points[:, None] - points[None]) ** 2, axis=-1) <= apart**2
    kept: list[int] = []
    for k in range(len(points)):
        if not near[k, kept].any():
            kept.append(k)
    return points[kept].reshape(-1, 2)
