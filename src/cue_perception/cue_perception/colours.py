"""Colours of balls: the classes, and how far a seen ball is from each."""

from __future__ import annotations

import cv2
import numpy as np

from cue_core.balls import ball_colour

_LIGHTNESS_WEIGHT = 0.35  # lamps and shading change lightness much more than hue


def to_lab(bgr: np.ndarray) -> np.ndarray:
    """Return CIE Lab (n, 3) of BGR 0..255 (n, 3)."""
    pixels = (np.asarray(bgr, np.float32).reshape(1, -1, 3)) / 255
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2LAB).reshape(-1, 3).astype(float)


def nominal_lab(ball_id: int) -> np.ndarray:
    """Return the (3,) CIE Lab of a ball of a usual set."""
    return to_lab(255 * np.array(ball_colour(ball_id)[1])[::-1])[0]


def difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the colour difference (...) of Lab colours (..., 3): chroma counts fully, lightness little."""
    d = np.asarray(a) - np.asarray(b)
    return np.sqrt((_LIGHTNESS_WEIGHT * d[..., 0]) ** 2 + d[..., 1] ** 2 + d[..., 2] ** 2)


def class_costs(lab: np.ndarray, white_share: np.ndarray, ids: tuple[int, ...]) -> np.ndarray:
    """Return how little each seen ball (n, 3) looks like each id, (n, len(ids)), in Lab units.

    Args:
        lab: CIE Lab of the balls' paint.
        white_share: (n,) share of white pixels; tells stripes (9..15) from solids.
        ids: that may lie on the table.
    """
    nominal = np.array([nominal_lab(i) for i in ids]).reshape(-1, 3)
    # Lamps are of unknown strength: the lightest ball that looks grey stands for white, so scale lightness by it.
    grey = np.hypot(lab[:, 1], lab[:, 2]) < 18
    lightest = float(lab[grey, 0].max(initial=0.0))
    gain = np.clip(nominal_lab(0)[0] / lightest, 0.8, 1.8) if lightest > 35 else 1.0
    seen = lab.copy()
    seen[:, 0] *= gain
    costs = difference(seen[:, None], nominal[None])
    stripes = np.array([i > 8 for i in ids])
    striped = np.clip((white_share - 0.22) / 0.1, -1, 1)[:, None]
    costs += 12 * np.where(stripes, np.clip(-striped, 0, 1), 0) + 12 * np.where(
        ~stripes & (np.array(ids) > 0), np.clip(striped, 0, 1), 0
    )
    return costs
