"""The cushion noses watched image by image: has the camera moved, is the picture still sharp?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.noses import sample

Hidden = Callable[[np.ndarray], np.ndarray]
"""Tells which points (n, 3) [m] in the table frame something known, the arm, hides from the camera."""

_PER_CUSHION = 32
_PER_IMAGE = 3  # places of each cushion looked at in one image, another few in the next
_CORE = 6  # px on either side of the nose that are compared
_NEAR = 3  # px searched as long as all is well
_FAR = 0.025  # of the image's width: searched when it is not
_STRAY = 0.15  # share of places that may look otherwise, e.g. for a ball at the cushion, before they are searched for
_LIKE = 0.80  # correlation from which a place looks as learnt
_AGREE = 0.6  # px: from the common motion
_MOVED = 1.0  # px, of any place on the noses
_WINDOW = 8  # images that tell a shake from a move ...
_LASTING = 4  # ... which shows in so many in a row, always the same
_DRIFT = 0.35  # px
_SLOW = 0.03  # weight of an image in the slow average
_BLURRED = 0.72  # of the learnt steepness
_SECTORS = 2  # per cushion
_RELEARN = 6  # visits in a row at which a place looks otherwise while the others agree


_UNITS = np.array([1.0, 1.0, 1e-2, 1e-2])  # px, px, 1/100 rad, per cent: numbers of like size
_SLIGHT = 0.05 * np.eye(4)  # against what a few places at the wrong cushions say next to nothing of


@dataclass(frozen=True)
class Motion:
    """How the picture of the table has moved since it was learnt.

    Attributes:
        shift: (2,) of the picture's middle, right and down [px].
        turn: clockwise as seen in the image [rad].
        growth: by which it looks larger, 0 = not.
        size: largest displacement of a watched place [px].
    """

    shift: np.ndarray
    turn: float
    growth: float
    size: float

    def __str__(self) -> str:
        """Say it as a person would."""
        scale = f", {self.growth:+.1%} in size" if abs(self.growth) > 2e-3 else ""
        return f"({self.shift[0]:+.1f}, {self.shift[1]:+.1f}) px, {np.degrees(self.turn):+.2f} deg{scale}"


class EdgeWatch:
    """Compares what is seen across the noses with what was seen there when the camera was calibrated.

    Profiles are compared by correlation, so that light and white balance do not count. Each image pays for a few
    places of every cushion, in turn.
    """

    def __init__(self, camera: Camera, table: TableModel, image: np.ndarray) -> None:
        """Learn from the image (h, w, 3) BGR uint8 of the calibration."""
        lens = camera.intrinsics
        self._far = max(round(_FAR * lens.width), 16)
        points, pixels, normals, sectors = [], [], [], []
        for number, cushion in enumerate(table.cushions):
            share = np.linspace(0.07, 0.93, _PER_CUSHION)
            line = np.column_stack([cushion.start + share[:, None] * (cushion.end - cushion.start), 0 * share])
            line[:, 2] = table.nose_height
            pixel = camera.project(line)
            along = np.gradient(pixel, axis=0)
            along /= np.linalg.norm(along, axis=1, keepdims=True)
            points.append(line)
            pixels.append(pixel)
            normals.append(np.column_stack([-along[:, 1], along[:, 0]]))
            sectors.append(_SECTORS * number + (share * _SECTORS).astype(int))
        self._points, self._pixels = np.concatenate(points), np.concatenate(pixels)
        self._normals, self._sectors = np.concatenate(normals), np.concatenate(sectors)
        margin = self._far + _CORE
        inside = np.all((self._pixels > 4) & (self._pixels < [lens.width - 5, lens.height - 5]), axis=1)
        self._middle = self._pixels[inside].mean(axis=0) if inside.any() else np.zeros(2)
        self._names = [
            _where(self._pixels[self._sectors == s].mean(axis=0), lens.width, lens.height)
            for s in range(_SECTORS * len(table.cushions))
        ]
        steps = np.arange(-margin, margin + 1, dtype=float)
        profile = self._profiles(image, np.arange(len(self._points)), steps)
        core = profile[:, margin - _CORE : margin + _CORE + 1]
        self._templates = core - core.mean(axis=1, keepdims=True)
        self._norms = np.sqrt(np.sum(self._templates**2, axis=(1, 2)))
        self._usable = inside & (self._norms > 40.0)
        arm = self._pixels[self._usable] - self._middle
        self._along = arm
        self._across = np.column_stack([-arm[:, 1], arm[:, 0]])
        self._steepness = _steepness(core)
        self._first = self._templates.copy(), self._norms.copy(), self._steepness.copy()
        self._ratio = np.full(len(self._points), np.nan)
        self._unlike = np.zeros(len(self._points), int)
        order = [
            np.flatnonzero(self._usable[k * _PER_CUSHION : (k + 1) * _PER_CUSHION]) + k * _PER_CUSHION
            for k in range(len(table.cushions))
        ]
        # A stride through each cushion: the few places of one image are spread over its whole length.
        self._order = [_spread(o) for o in order if len(o)]
        self._turn = 0
        self._recent: deque[np.ndarray] = deque(maxlen=_WINDOW)
        self._slow = np.zeros(4)
        self._odd: deque[float] = deque(maxlen=_WINDOW)
        self.seen = 1.0
        self.seen_now = 1.0
        self.suspect = False

    @property
    def works(self) -> bool:
        """Tell whether enough of the noses can be watched at all."""
        return int(self._usable.sum()) >= 24

    def look(self, image: np.ndarray, hidden: Hidden | None = None, gain: float = 1.0) -> None:
        """Look at some places of an image.

        Args:
            image: (h, w, 3) BGR uint8.
            hidden: leaves places out.
            gain: by which the picture is brighter than when it was learnt.
        """
        chosen = np.concatenate([np.take(o, np.arange(_PER_IMAGE) + self._turn, mode="wrap") for o in self._order])
        chosen = np.unique(chosen)
        self._turn += _PER_IMAGE
        if hidden is not None:
            chosen = chosen[~hidden(self._points[chosen])]
        if len(chosen) < 6:
            self.suspect = False
            return
        offset, like, core = self._match(image, chosen, _NEAR)
        lost = np.flatnonzero(like < _LIKE)
        if len(lost) > _STRAY * len(chosen):
            offset[lost], like[lost], core[lost] = self._match(image, chosen[lost], self._far)
        good = like > _LIKE
        self.seen_now = np.count_nonzero(good) / len(good)
        self.seen += 0.2 * (self.seen_now - self.seen)
        motion = self._common(chosen[good], offset[good]) if np.count_nonzero(good) >= 6 else None
        off = float(np.median(np.abs(offset[good]))) if motion is None and good.any() else 0.0
        self._odd.append(off)
        if motion is None:
            self.suspect = off > 1.5 * _MOVED
            return
        size = self._size(motion)
        self._recent.append(motion)
        self.suspect = size > 1.5 * _MOVED
        if not self.suspect:
            self._slow += _SLOW * (motion - self._slow)
            self._learn(chosen, like, core, size)
            steep = _steepness(core[good]) / max(gain, 1e-3)
            self._ratio[chosen[good]] = steep / np.maximum(self._steepness[chosen[good]], 1e-3)

    @property
    def motion(self) -> Motion:
        """Return how the picture stands now: the median of the last images."""
        if not self._recent:
            return self._motion(np.zeros(4))
        return self._motion(np.median(np.array(self._recent)[-_LASTING:], axis=0))

    @property
    def moved(self) -> Motion | None:
        """Return the motion if it is more than a calibration bears."""
        if len(self._recent) < _LASTING:
            return None
        found, last = self.motion, np.array(self._recent)[-_LASTING:]
        middle = np.median(last, axis=0)
        apart = max(self._size(one - middle) for one in last)
        return found if found.size > _MOVED and apart < max(0.75 * _MOVED, 0.25 * found.size) else None

    @property
    def misfit(self) -> float | None:
        """Return how far the noses are off [px] if they lie elsewhere, but not by a shift, turn and growth."""
        odd = np.array(self._odd)
        return float(np.median(odd)) if len(odd) == _WINDOW and odd.min() > _MOVED else None

    @property
    def shake(self) -> float:
        """Return by how much the picture jumps from image to image [px]."""
        if len(self._recent) < _WINDOW:
            return 0.0
        recent = np.array(self._recent)
        spread = np.mean(np.abs(recent - recent.mean(axis=0)), axis=0)
        return float(np.hypot(spread[0], spread[1]))

    @property
    def drift(self) -> Motion | None:
        """Return the slow motion since the calibration if it is worth a word."""
        found = self._motion(self._slow)
        return found if found.size > _DRIFT else None

    @property
    def sharpness(self) -> float:
        """Return how steep the edges are against those learnt, 1 = as then."""
        known = self._ratio[np.isfinite(self._ratio)]
        return float(np.median(known)) if len(known) >= 24 else 1.0

    @property
    def blurred_at(self) -> tuple[str, ...]:
        """Return where in the picture the edges are blurred while the others are sharp."""
        if self.sharpness < _BLURRED:
            return ()
        found = []
        for sector, name in enumerate(self._names):
            ratio = self._ratio[(self._sectors == sector) & np.isfinite(self._ratio)]
            if len(ratio) >= 6 and float(np.quantile(ratio, 0.65)) < _BLURRED * self.sharpness:
                found.append(name)
        return tuple(dict.fromkeys(found))

    @property
    def blurred(self) -> bool:
        """Tell whether the whole picture has lost its sharpness."""
        return self.sharpness < _BLURRED

    def _profiles(self, image: np.ndarray, chosen: np.ndarray, steps: np.ndarray) -> np.ndarray:
        places = self._pixels[chosen, None] + steps[:, None] * self._normals[chosen, None]
        return sample(image, places).astype(np.float32)

    def _match(self, image: np.ndarray, chosen: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return offsets (n,) [px], correlations (n,) and the profiles there (n, 2 core + 1, 3)."""
        steps = np.arange(-reach - _CORE, reach + _CORE + 1, dtype=float)
        profile = self._profiles(image, chosen, steps)
        windows = np.lib.stride_tricks.sliding_window_view(profile, 2 * _CORE + 1, axis=1)  # (n, shifts, 3, core)
        template = self._templates[chosen].transpose(0, 2, 1)
        product = np.einsum("nsck,nck->ns", windows, template)
        # Sums over each window by differences of running sums; float64 holds them exactly enough.
        running = np.zeros((len(chosen), profile.shape[1] + 1, 4))
        np.cumsum(profile, axis=1, out=running[:, 1:, :3])
        np.cumsum((profile * profile).sum(axis=2), axis=1, out=running[:, 1:, 3])
        sums = running[:, 2 * _CORE + 1 :] - running[:, : -2 * _CORE - 1]
        power = sums[..., 3] - (sums[..., :3] ** 2).sum(axis=2) / (2 * _CORE + 1)
        score = product / np.maximum(np.sqrt(np.maximum(power, 1.0)) * self._norms[chosen, None], 1e-6)
        row, k = np.arange(len(chosen)), np.argmax(score, axis=1)
        inner = np.clip(k, 1, score.shape[1] - 2)
        left, middle, right = score[row, inner - 1], score[row, inner], score[row, inner + 1]
        bend = left - 2 * middle + right
        fine = np.where(bend < -1e-9, np.clip(0.5 * (left - right) / np.minimum(bend, -1e-9), -1, 1), 0.0)
        like = score[row, k]
        like = np.where(k == inner, like, np.minimum(like, 0.0))  # at the end of the reach nothing is known
        return inner - reach + fine, like, windows[row, k].transpose(0, 2, 1)

    def _design(self, chosen: np.ndarray) -> np.ndarray:
        arm = self._pixels[chosen] - self._middle
        normal = self._normals[chosen]
        across = normal[:, 1] * arm[:, 0] - normal[:, 0] * arm[:, 1]
        return np.column_stack([normal, across, np.sum(normal * arm, axis=1)])

    def _common(self, chosen: np.ndarray, offset: np.ndarray) -> np.ndarray | None:
        """Return shift, turn and growth (4,) that most places agree on, None = there are none."""
        design = self._design(chosen) * _UNITS
        weight = np.ones(len(chosen))
        motion = np.zeros(4)
        for _ in range(12):  # least absolute residuals, regularised: a few places say little of the turn
            square = (design * weight[:, None]).T @ design + weight.mean() * _SLIGHT
            before, motion = motion, np.linalg.solve(square, design.T @ (weight * offset))
            if np.abs(motion - before).max() < 0.02:
                break
            weight = 1 / np.maximum(np.abs(offset - design @ motion), 0.1)
        agree = np.abs(offset - design @ motion) < _AGREE
        if 2 * np.count_nonzero(agree) < max(len(agree), 12):
            return None
        square = design[agree].T @ design[agree] + _SLIGHT
        motion = np.linalg.solve(square, design[agree].T @ offset[agree])
        return np.asarray(motion * _UNITS)

    def _size(self, motion: np.ndarray) -> float:
        moved = motion[:2] + motion[2] * self._across + motion[3] * self._along
        return float(np.sqrt((moved * moved).sum(axis=1).max(initial=0.0)))

    def _motion(self, motion: np.ndarray) -> Motion:
        return Motion(motion[:2].copy(), float(motion[2]), float(motion[3]), self._size(motion))

    def _learn(self, chosen: np.ndarray, like: np.ndarray, core: np.ndarray, size: float) -> None:
        """Learn a place anew that looks otherwise for long while the rest agrees, e.g. where a ball came to lie."""
        self._unlike[chosen] = np.where(like > _LIKE, 0, self._unlike[chosen] + 1)
        for k in np.flatnonzero((self._unlike[chosen] >= _RELEARN) & (size < _DRIFT) & (self.seen > 0.6)):
            i = int(chosen[k])
            self._unlike[i] = 0
            template = core[k] - core[k].mean(axis=0)
            norm = float(np.sqrt(np.sum(template**2)))
            self._ratio[i] = np.nan
            if float(np.sum(template * self._first[0][i])) > _LIKE * norm * self._first[1][i]:  # as it was at first
                self._templates[i], self._norms[i], self._steepness[i] = (first[i] for first in self._first)
            elif norm > 40.0:  # how sharp it should look is not known
                self._templates[i], self._norms[i], self._steepness[i] = template, norm, np.nan


def _steepness(core: np.ndarray) -> np.ndarray:
    """Return the steepest change (n,) in profiles (n, k, 3) [grey levels per px]."""
    slope = core[:, 1:] - core[:, :-1]
    return np.sqrt((slope * slope).sum(axis=2).max(axis=1)) if len(core) else np.zeros(0)


def _spread(order: np.ndarray) -> np.ndarray:
    """Return the places in such an order that any few in a row lie far apart."""
    groups = [order[k :: max(len(order) // _PER_IMAGE, 1)] for k in range(max(len(order) // _PER_IMAGE, 1))]
    return np.concatenate(groups)


def _where(pixel: np.ndarray, width: int, height: int) -> str:
    """Name a place in the picture."""
    column = ("left", "middle", "right")[int(np.clip(3 * pixel[0] / width, 0, 2))]
    row = ("top", "middle", "bottom")[int(np.clip(3 * pixel[1] / height, 0, 2))]
    return column if row == "middle" else f"{row} {column}" if column != "middle" else row


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Return a grey picture (36, 64) float32 of an image, for telling whether it is steady."""
    small = cv2.resize(image, (64, 36), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32).mean(axis=2)
