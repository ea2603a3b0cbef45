"""A lens from views of a board: intrinsics, distortion, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import cv2
import numpy as np

from cue_core.errors import CueError
from cue_perception.boards import Board, Corners
from cue_perception.camera import Intrinsics

PARAMETERS = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
_LEAST_VIEWS = 8
_HELD_OUT = 5  # every fifth view judges the fit of the others
_BETTER = 0.98  # a term more must lower the held-out error so far
_WORST_RMS = 1.0  # px: pictures of a flat board through a lens that the model describes fit far better
_WORST_FOCAL = 0.01  # relative standard deviation
_ROUNDS = 4


class LensFitError(CueError):
    """The views give no lens that could be trusted; the message says why, and what would help."""


@dataclass(frozen=True)
class LensFit:
    """A measured lens.

    Attributes:
        lens: intrinsics and distortion.
        stddev: standard deviation by parameter; [px] for ``fx fy cx cy``; those held at zero are left out.
        rms: of the corners in the views used [px].
        held_out_rms: of the corners in views that took no part in the fit, but for the board's pose [px].
        held_out: number of those views.
        used: indices of the views behind the lens.
        rejected: index of each view left out: why.
    """

    lens: Intrinsics
    stddev: dict[str, float]
    rms: float
    held_out_rms: float
    held_out: int
    used: tuple[int, ...]
    rejected: dict[int, str]


@dataclass(frozen=True)
class _Solution:
    """What OpenCV finds, and the residuals (n, 2) [px] of each view."""

    matrix: np.ndarray
    distortion: np.ndarray
    poses: list[tuple[np.ndarray, np.ndarray]]
    residuals: list[np.ndarray]


_Views = list[tuple[np.ndarray, np.ndarray]]
"""Points (n, 3) [m] on the board and their pixels (n, 2), view by view."""


def fit_lens(board: Board, views: Sequence[Corners], size: tuple[int, int], rational: bool = False) -> LensFit:
    """Fit the lens to views of a board.

    Views and corners that do not agree with the others are left out. Every fifth view is first kept out of the fit to
    choose the model (``k3`` is used only where it helps) and to state its error; the lens itself comes from all.

    Args:
        board: whose corners were seen.
        views: corners by image.
        size: width and height of the images [px].
        rational: use the eight-term model of wide lenses.

    Raises:
        LensFitError: too few views agree, or they do not determine the lens.
    """
    if len(views) < _LEAST_VIEWS:
        raise LensFitError(f"{len(views)} views of the board are too few, {_LEAST_VIEWS} are the least")
    data = [(board.points[v.ids], np.asarray(v.pixels, float)) for v in views]
    flags = cv2.CALIB_RATIONAL_MODEL if rational else cv2.CALIB_FIX_K3
    kept, rejected, data = _reject(data, size, flags)
    held = kept[_HELD_OUT // 2 :: _HELD_OUT]
    train = [i for i in kept if i not in held]
    choices = {}
    for option in (cv2.CALIB_RATIONAL_MODEL,) if rational else (cv2.CALIB_FIX_K3, 0):
        trial = _solve([data[i] for i in train], size, option)
        choices[option] = _pose_rms([data[i] for i in held], trial)
    if not rational and choices[0] < _BETTER * choices[cv2.CALIB_FIX_K3]:
        flags = 0
    chosen = [data[i] for i in kept]
    solution = _solve(chosen, size, flags)
    rms = _rms(solution.residuals)
    if rms > _WORST_RMS * max(1.0, size[0] / 1280):
        raise LensFitError(
            f"the corners miss the best lens by {rms:.2f} px: the board is not flat, is another one than"
            f" {board.describe()}, or the lens is too wide for this model"
        )
    stddev = _stddev(chosen, solution, flags)
    for name, focal in (("fx", solution.matrix[0, 0]), ("fy", solution.matrix[1, 1])):
        if not stddev[name] < _WORST_FOCAL * focal:
            raise LensFitError(
                f"the focal length {name} = {focal:.0f} px is known to {100 * stddev[name] / focal:.1f} % only,"
                f" {100 * _WORST_FOCAL:g} % is allowed: show the board tilted by 20 to 45 degrees, and larger"
            )
    lens = Intrinsics(size[0], size[1], solution.matrix, solution.distortion)
    return LensFit(lens, stddev, rms, choices[flags], len(held), tuple(kept), rejected)


def _solve(views: _Views, size: tuple[int, int], flags: int) -> _Solution:
    points = [np.ascontiguousarray(p, np.float32) for p, _ in views]
    pixels = [np.ascontiguousarray(q, np.float32) for _, q in views]
    start = Intrinsics.guess(*size, horizontal_view=1.0).matrix
    try:
        _, matrix, distortion, turns, shifts = cv2.calibrateCamera(points, pixels, size, start, None, flags=flags)
    except cv2.error as error:
        raise LensFitError(f"the views do not determine a lens: {' '.join(str(error).split())[-120:]}") from None
    distortion = np.asarray(distortion, float).ravel()
    distortion = distortion[: 8 if flags & cv2.CALIB_RATIONAL_MODEL else 5]
    if not (np.isfinite(matrix).all() and np.isfinite(distortion).all()):
        raise LensFitError("the views do not determine a lens: the fit gives no finite numbers")
    poses = list(zip(turns, shifts, strict=True))
    residuals = [
        cv2.projectPoints(p, *pose, matrix, distortion)[0].reshape(-1, 2) - q
        for (p, q), pose in zip(views, poses, strict=True)
    ]
    return _Solution(np.asarray(matrix, float), distortion, poses, residuals)


def _rms(residuals: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(residuals) ** 2) * 2)) if residuals else float("nan")


def _pose_rms(views: _Views, solution: _Solution) -> float:
    """Return the rms [px] of views of which only the board's pose is fitted."""
    residuals = []
    for points, pixels in views:
        _, turn, shift = cv2.solvePnP(points, pixels, solution.matrix, solution.distortion)
        turn, shift = cv2.solvePnPRefineLM(points, pixels, solution.matrix, solution.distortion, turn, shift)
        shown = cv2.projectPoints(points, turn, shift, solution.matrix, solution.distortion)[0].reshape(-1, 2)
        residuals.append(shown - pixels)
    return _rms(residuals)


def _reject(views: _Views, size: tuple[int, int], flags: int) -> tuple[list[int], dict[int, str], _Views]:
    """Leave out views, and corners within views, that disagree with the rest.

    Returns:
        Indices of the views kept, why the others are not, and all views without the corners left out.

    Raises:
        LensFitError: too few views remain.
    """
    kept, rejected, data = list(range(len(views))), {}, list(views)
    for _ in range(_ROUNDS):
        solution = _solve([data[i] for i in kept], size, flags)
        errors = np.array([_rms([r]) for r in solution.residuals])
        middle = float(np.median(errors))
        spread = 1.4826 * float(np.median(np.abs(errors - middle)))
        limit = max(middle + 4 * spread, 1.5 * middle, 0.1)
        bad = [i for i, error in zip(kept, errors, strict=True) if error > limit]
        # A bad view bends the lens, so that its neighbours look bad too: the worst quarter at a time.
        bad = sorted(bad, key=lambda i: -errors[kept.index(i)])[: max(len(kept) // 4, 1)]
        for i in bad:
            rejected[i] = f"its corners miss by {errors[kept.index(i)]:.2f} px, the others by {middle:.2f} px"
        pooled = np.concatenate(solution.residuals)
        worst = max(5 * 1.4826 * float(np.median(np.abs(pooled))), 0.2)
        dropped = 0
        for i, residual in zip(kept, solution.residuals, strict=True):
            good = np.abs(residual).max(axis=1) < worst
            if i not in bad and not good.all() and good.sum() >= 6:
                data[i] = data[i][0][good], data[i][1][good]
                dropped += int((~good).sum())
        kept = [i for i in kept if i not in bad]
        if len(kept) < _LEAST_VIEWS:
            raise LensFitError(
                f"only {len(kept)} of {len(views)} views agree with one lens, {_LEAST_VIEWS} are the least:"
                " the board may have bent or moved while pictures were taken"
            )
        if not bad and not dropped:
            break
    return kept, rejected, data


def _stddev(views: _Views, solution: _Solution, flags: int) -> dict[str, float]:
    """Return standard deviations of the intrinsics.

    Corners of one view share errors (a board that is not flat, blur), so that counting each by itself promises too
    much: the larger of the usual estimate and of one that takes each view as one draw (a sandwich clustered by view)
    is stated.
    """
    count = 4 + len(solution.distortion)
    free = [k for k in range(count) if not (k == 8 and flags & cv2.CALIB_FIX_K3)]
    information = np.zeros((len(free), len(free)))
    scores, squares, rows = [], 0.0, 0
    for (points, _), pose, residual in zip(views, solution.poses, solution.residuals, strict=True):
        jacobian = cv2.projectPoints(points, *pose, solution.matrix, solution.distortion)[1]
        jacobian = np.asarray(jacobian, float)
        pose_part, lens_part = jacobian[:, :6], jacobian[:, 6 : 6 + count][:, free]
        basis, _ = np.linalg.qr(pose_part)
        left = lens_part - basis @ (basis.T @ lens_part)  # what the pose cannot take up
        information += left.T @ left
        scores.append(left.T @ residual.ravel())
        squares += float(np.sum(residual**2))
        rows += residual.size - 6
    scale = np.sqrt(np.diag(information))
    inverse = np.linalg.pinv(information / np.outer(scale, scale)) / np.outer(scale, scale)
    usual = np.diag(inverse) * squares / max(rows - len(free), 1)
    n = len(scores)
    spread = np.transpose(scores) @ np.array(scores) * n / max(n - 1, 1)
    clustered = np.diag(inverse @ spread @ inverse)
    values = np.sqrt(np.maximum(usual, clustered))
    return {PARAMETERS[k]: float(v) for k, v in zip(free, values, strict=True)}


def lens_yaml(fit: LensFit, name: str, board: Board, day: date | None = None) -> str:
    """Return the calibration in the form of ROS's camera_info files; what ROS does not know stands under ``cue``."""
    lens = fit.lens
    model = "plumb_bob" if len(lens.distortion) <= 5 else "rational_polynomial"

    def matrix(values: Any) -> str:
        array = np.atleast_2d(np.asarray(values, float))
        numbers = ", ".join(repr(float(v)) for v in array.ravel())
        return f"{{rows: {array.shape[0]}, cols: {array.shape[1]}, data: [{numbers}]}}"

    stddev = ", ".join(f"{key}: {value:.4g}" for key, value in fit.stddev.items())
    return "\n".join(
        [
            f"# Measured with {board.describe()}. ROS reads all but `cue`.",
            f"image_width: {lens.width}",
            f"image_height: {lens.height}",
            f"camera_name: {name}",
            f"camera_matrix: {matrix(lens.matrix)}",
            f"distortion_model: {model}",
            f"distortion_coefficients: {matrix(lens.distortion)}",
            f"rectification_matrix: {matrix(np.eye(3))}",
            f"projection_matrix: {matrix(np.column_stack([lens.matrix, np.zeros(3)]))}",
            "cue:",
            f"  date: {(day or date.today()).isoformat()}",
            f"  views: {len(fit.used)}",
            f"  views_rejected: {len(fit.rejected)}",
            f"  rms_px: {fit.rms:.4f}",
            f"  held_out_rms_px: {fit.held_out_rms:.4f} # of {fit.held_out} views that took no part in the fit",
            f"  stddev: {{{stddev}}}",
            "",
        ]
    )
