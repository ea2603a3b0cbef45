"""What a prediction without spin achieves: a ball that slows down steadily and leaves cushions as light does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cue_identify.real_shots.recording import MATCH_TABLE
from cue_identify.real_shots.score import score_tracks
from cue_identify.real_shots.tracks import Track

_DECELERATIONS = np.geomspace(0.03, 1.5, 60)  # [m/s^2]


def fit_mirror(tracks: Sequence[Track]) -> float:
    """Return the deceleration [m/s^2] with the least median over tracks of the mean error."""
    medians = [np.median([s.mean for s in score_tracks(tracks, mirror(tracks, a))]) for a in _DECELERATIONS]
    return float(_DECELERATIONS[int(np.argmin(medians))])


def mirror(tracks: Sequence[Track], deceleration: float) -> list[np.ndarray]:
    """Return where each track's ball is at its scored times, (T, 2) [m], table frame.

    Args:
        tracks: whose place and velocity at the start are taken.
        deceleration: [m/s^2] until it rests.
    """
    reach = np.array([MATCH_TABLE.length, MATCH_TABLE.width]) / 2 - MATCH_TABLE.ball_radius
    paths = []
    for track in tracks:
        speed = float(np.hypot(*track.start_velocity))
        t = np.minimum(track.times, speed / deceleration)
        way = speed * t - 0.5 * deceleration * t**2
        straight = track.start_position + way[:, None] * track.start_velocity / speed
        folded = (straight + reach) % (4 * reach)  # the table and its mirror image, again and again
        paths.append(np.where(folded > 2 * reach, 4 * reach - folded, folded) - reach)
    return paths
