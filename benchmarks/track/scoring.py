"""What a tracker said against what was: errors, names, events; nothing here reaches the tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.track.worlds import Truth
from cue_core.balls import BallState, Visibility, ball_colour

AT_REST = 1e-4
"""A ball slower than this is still [m/s] ..."""
MOVING = 0.01
"""... one faster than this moves; between the two it counts as neither, only for names and coverage."""
VELOCITY_FROM = 0.1
"""Relative errors of velocities are taken of balls faster than this [m/s]."""
VISIBLE_CHANGE = 0.1
"""Contacts that change a velocity by less [m/s] need not be seen."""
_CHI2_95 = 5.991  # chi-squared of two degrees of freedom
_NEAR = 0.08  # s between an event and a report that may belong to it


@dataclass(frozen=True)
class Reported:
    """What the tracker said of one image.

    Attributes:
        states: of the balls.
        detections: (d, 2) raw measurements [m].
        spreads: (d, 2, 2) their covariances [m^2].
    """

    states: Sequence[BallState]
    detections: np.ndarray
    spreads: np.ndarray


def pair(found: np.ndarray, places: np.ndarray, reach: float) -> list[tuple[int, int]]:
    """Return pairs (index found, index of place) one to one, nearest in sum, none further apart than ``reach`` [m]."""
    if len(found) == 0 or len(places) == 0:
        return []
    gap = np.linalg.norm(found[:, None] - places[None], axis=-1)
    rows, columns = linear_sum_assignment(np.minimum(gap, 2 * reach))
    return [(int(a), int(b)) for a, b in zip(rows, columns, strict=True) if gap[a, b] < reach]


def score_images(truth: Truth, said: Sequence[Reported | None], radius: float) -> dict[str, Any]:
    """Return errors ball by ball and image by image.

    Args:
        truth: of the sequence.
        said: per image; None = the tracker was not ready yet.
        radius: of the balls [m].
    """
    columns: dict[str, list[Any]] = {
        key: []
        for key in ("error", "raw_error", "speed", "velocity_error", "velocity_d2", "d2", "raw_d2", "since_contact")
    }
    missed = false = swaps = swaps_alike = misnamed = ball_frames = reports = 0
    raw_missed = raw_false = 0
    name_of: dict[int, int] = {}
    hard: list[list[Any]] = []
    turns = {
        int(i): [c[0] for c in truth.contacts if int(i) in (int(c[2]), int(c[3]))]
        + list(truth.strikes[truth.struck == i])
        for i in truth.ids
    }
    for frame, report in enumerate(said):
        if report is None:
            continue
        playing = np.flatnonzero(truth.in_play[frame])
        places = truth.position[frame, playing]
        speeds = np.linalg.norm(truth.velocity[frame], axis=1)
        visible = [b for b in report.states if b.visibility == Visibility.VISIBLE]
        ball_frames += len(playing)
        reports += len(visible)
        pairs = pair(np.array([b.position for b in visible]).reshape(-1, 2), places, radius)
        missed += len(playing) - len(pairs)
        false += len(visible) - len(pairs)
        if len(playing) > len(pairs) or len(visible) > len(pairs):
            seen = {b for _, b in pairs}
            used = {a for a, _ in pairs}
            for k, ball in enumerate(playing):
                if k not in seen:
                    hard.append([frame, "missed", int(truth.ids[ball]), *places[k].tolist(), float(speeds[ball])])
            for k, state in enumerate(visible):
                if k not in used:
                    hard.append([frame, "false", state.ball_id, *state.position.tolist(), 0.0])
        raw = pair(report.detections, places, radius)
        raw_missed += len(playing) - len(raw)
        raw_false += len(report.detections) - len(raw)
        raw_of = {b: a for a, b in raw}
        for a, b in pairs:
            state, ball = visible[a], playing[b]
            true_id = int(truth.ids[ball])
            misnamed += state.ball_id != true_id
            known = name_of.get(state.ball_id)
            if known is not None and known != true_id:
                alike = ball_colour(known)[0] == ball_colour(true_id)[0]
                swaps_alike += alike
                swaps += not alike
                hard.append([frame, "swap", state.ball_id, *places[b].tolist(), float(speeds[ball])])
            name_of[state.ball_id] = true_id
            offset = state.position - places[b]
            speed = float(speeds[ball])
            drift = state.velocity - truth.velocity[frame, ball]
            columns["error"].append(float(np.linalg.norm(offset)))
            columns["speed"].append(speed)
            columns["d2"].append(float(offset @ np.linalg.solve(state.covariance + 1e-16 * np.eye(2), offset)))
            columns["velocity_error"].append(float(np.linalg.norm(drift)))
            spread = state.velocity_covariance + 1e-16 * np.eye(2)
            columns["velocity_d2"].append(float(drift @ np.linalg.solve(spread, drift)))
            last = [t for t in turns[true_id] if t <= truth.time[frame]]
            columns["since_contact"].append(float(truth.time[frame] - max(last)) if last else 99.0)
            single = raw_of.get(b)
            shift = None if single is None else report.detections[single] - places[b]
            columns["raw_error"].append(None if shift is None else float(np.linalg.norm(shift)))
            columns["raw_d2"].append(
                None
                if shift is None or single is None
                else float(shift @ np.linalg.solve(report.spreads[single], shift))
            )
    return {
        "balls": columns,
        "missed": missed,
        "false": false,
        "raw_missed": raw_missed,
        "raw_false": raw_false,
        "swaps": swaps,
        "swaps_alike": swaps_alike,
        "misnamed": misnamed,
        "ball_frames": ball_frames,
        "reports": reports,
        "frames": sum(r is not None for r in said),
        "late_frames": sum(r is None for r in said),
        "hard": hard[:200],
    }


def inside_95(d2: np.ndarray) -> np.ndarray:
    """Tell which squared normalised errors lie inside an ellipse that should hold 95 % of them."""
    return np.asarray(d2) <= _CHI2_95


def score_events(
    truth: Truth, names: dict[int, int], strikes: Sequence[tuple[float, float]], events: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return errors of event times [s].

    Args:
        truth: of the sequence.
        names: true id by the tracker's id.
        strikes: (time, standard deviation) of each record [s].
        events: (time, standard deviation, kind, tracker's id, other's id or -1) of each reported contact.
    """
    strike_errors = []
    for when in truth.strikes:
        near = [(abs(t - when), t - when, s) for t, s in strikes if abs(t - when) < 0.5]
        if near:
            strike_errors.append([*min(near)[1:]])
    must = [
        c
        for c, change in zip(truth.contacts, truth.change, strict=True)
        if change >= VISIBLE_CHANGE and int(c[1]) in (1, 2)
    ]
    may = [c for c in truth.contacts if int(c[1]) in (1, 2)]
    left = [
        (float(t), float(s), int(kind), frozenset(names.get(int(b), -2) for b in balls if int(b) >= 0))
        for t, s, kind, *balls in events
    ]

    def take(contact: np.ndarray) -> tuple[float, float] | None:
        balls = frozenset(int(b) for b in contact[2:] if b >= 0)
        fits = [e for e in left if e[2] == int(contact[1]) and e[3] == balls and abs(e[0] - contact[0]) < _NEAR]
        if not fits:
            return None
        best = min(fits, key=lambda e: abs(e[0] - contact[0]))
        left.remove(best)
        return best[0] - float(contact[0]), best[1]

    matched, unseen = [], []
    for contact in must:
        hit = take(contact)
        if hit is None:
            unseen.append([float(contact[0]), int(contact[1]), int(contact[2]), int(contact[3])])
        else:
            matched.append([int(contact[1]), *hit])
    for contact in may:  # soft ones may be reported too
        take(contact)
    return {
        "strikes": strike_errors,
        "strikes_true": len(truth.strikes),
        "contacts": matched,
        "unseen": unseen,
        "invented": [[e[0], e[2], sorted(e[3])] for e in left],
    }
