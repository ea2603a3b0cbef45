"""Scores of predicted tracks: position errors at samples that took no part in the initial state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cue_identify.real_shots.tracks import Track

_BOOTSTRAPS = 2000
_MOST_REBOUNDS = 5  # samples after more are counted together


@dataclass(frozen=True)
class TrackScore:
    """How far off the prediction of one track is.

    Attributes:
        track: what was seen.
        errors: (T,) distances between predicted and seen positions [m]; infinite where the prediction failed.
        path_ratio: predicted over seen length of the path.
    """

    track: Track
    errors: np.ndarray
    path_ratio: float

    @property
    def mean(self) -> float:
        """Return the mean error [m]."""
        return float(np.mean(self.errors))

    @property
    def last(self) -> float:
        """Return the error at the last sample [m]."""
        return float(self.errors[-1])


def score_tracks(tracks: Sequence[Track], predicted: Sequence[np.ndarray]) -> list[TrackScore]:
    """Return the scores of predictions, (T, 2) [m] at each track's times."""
    scores = []
    for track, path in zip(tracks, predicted, strict=True):
        errors = np.hypot(*(path - track.positions).T)
        ratio = _length(path) / _length(track.positions)
        scores.append(TrackScore(track, np.where(np.isfinite(errors), errors, np.inf), ratio))
    return scores


def _length(path: np.ndarray) -> float:
    return float(np.hypot(*np.diff(path, axis=0).T).sum())


def summarise(scores: Sequence[TrackScore], rng: np.random.Generator) -> dict[str, Any]:
    """Return plain data: errors in mm over tracks, with 95 % bootstrap intervals, and by rebounds so far.

    Args:
        scores: of at least one track.
        rng: of the bootstrap.
    """
    means = np.array([score.mean for score in scores])
    draws = means[rng.integers(0, len(means), (_BOOTSTRAPS, len(means)))]
    return {
        "tracks": len(scores),
        "median_mm": _mm(np.median(means)),
        "median_95_mm": [_mm(v) for v in np.percentile(np.median(draws, axis=1), [2.5, 97.5])],
        "mean_mm": _mm(np.mean(means)),
        "mean_95_mm": [_mm(v) for v in np.percentile(np.mean(draws, axis=1), [2.5, 97.5])],
        "last_median_mm": _mm(np.median([score.last for score in scores])),
        "path_ratio_median": round(float(np.median([score.path_ratio for score in scores])), 4),
        "by_rebounds": _by_rebounds(scores),
    }


def _by_rebounds(scores: Sequence[TrackScore]) -> dict[str, dict[str, float]]:
    """Return the median over tracks of the mean error [mm] after so many rebounds, and how many tracks have any."""
    rows: dict[str, dict[str, float]] = {}
    for count in range(_MOST_REBOUNDS + 1):
        found = []
        for score in scores:
            before = score.track.rebounds_before
            chosen = before >= count if count == _MOST_REBOUNDS else before == count
            if chosen.any():
                found.append(float(np.mean(score.errors[chosen])))
        if found:
            name = f"{count}+" if count == _MOST_REBOUNDS else str(count)
            rows[name] = {"tracks": len(found), "median_mm": _mm(np.median(found))}
    return rows


def _mm(metres: float | np.floating) -> float:
    return round(1e3 * float(metres), 2)
