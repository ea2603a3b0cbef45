"""Colours of balls: the classes, and how far a seen ball is from each."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from cue_core.balls import ball_colour

_STRIPED = 0.12  # share of white from which on a ball looks striped: a number's disc covers a twelfth of a ball's face
_BLANK, _NO_COLOUR, _CAP = 0.75, 20.0, 30.0  # share of white, Lab units from white, and what a stripe then costs
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
    # All white is the cue ball, or a stripe on its cap, which may have any colour; the whiter of two is the cue ball.
    cue = np.array([i == 0 for i in ids])
    blank = ((white_share > _BLANK) & (difference(seen, nominal_lab(0)) < _NO_COLOUR))[:, None]
    costs = np.where(blank & stripes, _CAP, costs)
    costs += np.where(blank & cue, 12 * (1 - white_share)[:, None], 0.0)
    striped = np.clip((white_share - _STRIPED) / 0.05, -1, 1)[:, None]
    costs += 12 * np.where(stripes, np.clip(-striped, 0, 1), 0) + 12 * np.where(
        ~stripes & (np.array(ids) > 0), np.clip(striped, 0, 1), 0
    )
    return costs


# sRGB 0..1 of a usual snooker set; fifteen red ones, one of each other colour.
_SNOOKER: dict[str, tuple[float, float, float]] = {
    "white": (0.95, 0.92, 0.84),
    "red": (0.78, 0.08, 0.14),
    "yellow": (0.95, 0.78, 0.10),
    "green": (0.02, 0.36, 0.20),
    "brown": (0.45, 0.20, 0.12),
    "blue": (0.08, 0.22, 0.62),
    "pink": (0.95, 0.52, 0.60),
    "black": (0.05, 0.05, 0.05),
}
TELLS_APART = 7.0
"""Of two colours so much farther off [Lab units], the nearer one is e times as likely."""


@dataclass(frozen=True)
class BallClass:
    """What a ball looks like.

    Attributes:
        set_name: "pool" or "snooker", whichever explains all the balls better.
        name: colour, "striped" before it where there is a stripe.
        number: of a pool ball, 0 = cue ball; None in a snooker set.
        confidence: that colour and stripe are right among those of the set, 0..1.
    """

    set_name: str
    name: str
    number: int | None
    confidence: float


def classify(lab: np.ndarray, white_share: np.ndarray) -> list[BallClass]:
    """Return the classes of all balls of one image (n, 3): no two share a number, only reds of snooker repeat.

    Args:
        lab: CIE Lab of the balls' paint.
        white_share: (n,) share of white pixels.
    """
    if not len(lab):
        return []
    pool = class_costs(lab, white_share, tuple(range(16)))
    names = list(_SNOOKER)
    nominal = np.array([to_lab(255 * np.array(rgb)[::-1])[0] for rgb in _SNOOKER.values()])
    reds = np.argmin(difference(lab[:, None], nominal[None]), axis=1) == names.index("red")
    if reds.sum() >= 3:  # the reds of one set look alike: the light shows in them
        nominal[names.index("red")] = np.median(lab[reds], axis=0)
    snooker = difference(lab[:, None], nominal[None]) + 12 * np.clip((white_share[:, None] - 0.25) / 0.2, 0, 1) * (
        nominal[None, :, 0] < 70
    )
    copies = [k for k, name in enumerate(names) for _ in range(15 if name == "red" else 1)]
    totals, picks = [], []
    for costs in (pool, snooker[:, copies]):
        if costs.shape[0] > costs.shape[1]:  # more than a set has: something is no ball, or two sets lie there
            costs = np.concatenate([costs, costs], axis=1)
        row, column = linear_sum_assignment(np.minimum(costs, 60.0))
        order = np.argsort(row)
        totals.append(float(np.minimum(costs, 60.0)[row, column].mean()))
        picks.append(column[order])
    found = []
    if totals[0] <= totals[1]:
        for k, pick in enumerate(picks[0]):
            number = int(pick) % 16
            likely = np.exp(-(pool[k] - pool[k].min()) / TELLS_APART)
            name = ("striped " if number > 8 else "") + ball_colour(number)[0]
            found.append(BallClass("pool", name, number, float(likely[number] / likely.sum())))
        return found
    for k, pick in enumerate(picks[1]):
        kind = copies[int(pick) % len(copies)]
        likely = np.exp(-(snooker[k] - snooker[k].min()) / TELLS_APART)
        found.append(BallClass("snooker", names[kind], None, float(likely[kind] / likely.sum())))
    return found
