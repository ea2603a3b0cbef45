"""When balls met balls or cushions, read off the observed tracks alone."""

from __future__ import annotations

import numpy as np

from cue_core.shots import BallTrack, ShotRecord

_KINK = 0.20  # [m/s] friction alone changes the velocity by less between two neighbouring windows
_KINK_SHARE = 0.10  # [-] of the speed: a blurred fast ball is measured less well
_ONSET = 0.004  # [m]


def contact_times(record: ShotRecord) -> np.ndarray:
    """Return the (k,) times after the strike of the observed contacts, increasing [s].

    Each time is that of the last sample before the contact. A contact shows as an object ball that sets off, or as a
    sudden change of a ball's velocity. Soft contacts may be missed; both balls of one contact give one time.
    """
    before = {ball.ball_id: ball.position for ball in record.before}
    found: list[float] = []
    gap = 0.0
    for track in record.tracks:
        if len(track.time) < 5:
            continue
        gap = max(gap, float(np.median(np.diff(track.time))))
        found.extend(ball_contacts(track, before.get(track.ball_id, track.position[0])))
    return _merge(np.sort(np.array(found)), 1.5 * gap)


def ball_contacts(track: BallTrack, start: np.ndarray) -> list[float]:
    """Return the times of the last samples before each contact of one ball that rested at ``start`` (2,) [s]."""
    gone = np.flatnonzero(np.linalg.norm(track.position - start, axis=1) > _ONSET)
    if len(track.time) < 5 or not len(gone):
        return []
    first = int(gone[0])  # what sets the cue ball off is the strike, no contact
    onset = [] if track.ball_id == 0 else [float(track.time[max(first - 1, 0)])]
    return sorted(onset + _kinks(track, first))


def _kinks(track: BallTrack, first: int) -> list[float]:
    """Return the times of the samples before sudden changes of velocity, from sample ``first`` on."""
    time, position = track.time, track.position
    count = len(time)
    if count - first < 5:
        return []
    i = np.arange(first + 2, count - 2)
    before = (position[i] - position[i - 2]) / (time[i] - time[i - 2])[:, None]
    after = (position[i + 2] - position[i]) / (time[i + 2] - time[i])[:, None]
    change = np.linalg.norm(after - before, axis=1)
    noise = np.sqrt(np.trace(track.covariance[i], axis1=1, axis2=2)) * 2.0 / (time[i + 2] - time[i])
    excess = change / np.maximum(_KINK + _KINK_SHARE * np.linalg.norm(before, axis=1), 4.0 * noise)
    times: list[float] = []
    while len(excess) and excess.max() > 1.0:
        peak = int(np.argmax(excess))
        times.append(float(time[i[peak] - 1]))
        excess[max(peak - 3, 0) : peak + 4] = 0.0
    return times


def _merge(times: np.ndarray, gap: float) -> np.ndarray:
    kept: list[float] = []
    for t in times:
        if not kept or t - kept[-1] > gap:
            kept.append(float(t))
    return np.array(kept)
